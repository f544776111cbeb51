/*
 * handshake.h - connects to a node as a hidden node, with ei.
 *
 * ei does only the handshake; the caller reads and writes frames on the socket
 * (kprofd/frame.h).  node_connect() blocks, for no longer than its time limit, so
 * the daemon calls it on a thread of its own.
 */
#ifndef KPROFD_DIST_HANDSHAKE_H
#define KPROFD_DIST_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/err.h"

#define NODE_NAME_MAX 255	/* bytes of name@host */
#define NODE_COOKIE_MAX 255
#define NODE_WHY_MAX 1024	/* bytes of any reason: most are much shorter */
/* Names tried in turn when none is given: each costs the node an atom. */
#define NODE_SLOTS 4

struct node_opts {
	const char *target;	/* app@host */
	const char *name;	/* ours: "name" or "name@host"; NULL: a slot */
	const char *cookie;
	kp_dur_ns limit;	/* for the whole call, but the resolver */
};

/* An open connection. */
struct node_conn {
	int fd;				/* blocking; the caller closes it */
	char name[NODE_NAME_MAX + 1];	/* our node's full name */
	uint32_t creation;		/* of this use of the name */
};

/*
 * Thread-safe.  On an error `why` is one line for people, with the remedy.
 * KP_ENOENT host or node unknown, KP_EBUSY all names are in use, KP_ESTATE
 * cookie refused, KP_ETIMEOUT, KP_EIO.
 */
enum kp_err node_connect(const struct node_opts *o, struct node_conn *c,
    char *why, size_t whylen);

/*
 * Reads the cookie from `file`, else $KPROFD_COOKIE_FILE, else ~/.erlang.cookie.
 * Like the VM it refuses a file that others may read.  On an error `why` names
 * the file and the remedy.
 */
enum kp_err node_cookie(const char *file, char cookie[NODE_COOKIE_MAX + 1],
    char *why, size_t whylen);

#endif
