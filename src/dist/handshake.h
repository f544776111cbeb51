/*
 * handshake.h - joins a cluster as a hidden node, with ei.
 *
 * Only the handshake is ei's; the socket it leaves is handed over whole, for
 * the caller to read and write frames (kprofd/frame.h).  node_connect()
 * blocks, for no longer than its time limit, so the daemon calls it on a
 * thread of its own.
 */
#ifndef KPROFD_DIST_HANDSHAKE_H
#define KPROFD_DIST_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/err.h"

#define NODE_NAME_MAX 255	/* bytes of name@host */
#define NODE_COOKIE_MAX 255
/* Names tried in turn when none is given: each new one costs an atom. */
#define NODE_SLOTS 4

struct node_opts {
	const char *target;	/* app@host */
	const char *name;	/* ours: "name" or "name@host"; NULL: a slot */
	const char *cookie;
	kp_dur_ns limit;	/* for everything together */
};

/* An open connection. */
struct node_conn {
	int fd;				/* blocking; the caller's to close */
	char name[NODE_NAME_MAX + 1];	/* our node's full name */
	uint32_t creation;		/* this life of the name */
};

/*
 * KP_OK, or why (a line for people, with the way out, in `why`):
 * KP_ENOENT host or node unknown, KP_EBUSY every name is taken, KP_ESTATE
 * cookie refused, KP_ETIMEOUT, KP_EIO.  Thread-safe.
 */
enum kp_err node_connect(const struct node_opts *o, struct node_conn *c,
    char *why, size_t whylen);

/*
 * The cookie from `file`, else $KPROFD_COOKIE_FILE, else ~/.erlang.cookie.
 * A file that others may read is accepted as the VM does not accept it: it
 * is refused.  On error `why` names the file and the way out.
 */
enum kp_err node_cookie(const char *file, char cookie[NODE_COOKIE_MAX + 1],
    char *why, size_t whylen);

#endif
