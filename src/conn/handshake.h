/*
 * handshake.h - connects to a node as a hidden node, with ei.
 *
 * ei does only the handshake; the caller reads and writes frames on the channel
 * (kprofd/frame.h).  node_connect() blocks, for no longer than its time limit, so
 * the daemon calls it on a thread of its own.
 */
#ifndef KPROFD_CONN_HANDSHAKE_H
#define KPROFD_CONN_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "conn/channel.h"
#include "conn/reach.h"
#include "kprofd/clock.h"
#include "kprofd/err.h"

#define NODE_NAME_MAX 255	/* bytes of name@host */
#define NODE_WHY_MAX 1024	/* bytes of any reason: most are much shorter */
/* Names tried in turn when none is given: each costs the node an atom. */
#define NODE_SLOTS 4

struct node_opts {
	const char *target;	/* as node_place_find() takes it */
	const struct reach *reach;	/* NULL: all its defaults */
	const char *cookie;
	kp_dur_ns limit;	/* for the whole call, but the resolver */
	bool known;		/* it was reached before: its name is right */
};

/* An open connection. */
struct node_conn {
	struct channel *channel;	/* the caller's to free */
	char name[NODE_NAME_MAX + 1];	/* our node's full name */
	uint32_t creation;		/* of this use of the name */
};

/*
 * Thread-safe.  On an error `why` is one line for people, with the remedy.
 * KP_ENOENT host or node unknown, KP_EBUSY all names are in use, KP_ESTATE
 * cookie or certificate refused, or another node is there, KP_ETIMEOUT, KP_EIO.
 */
enum kp_err node_connect(const struct node_opts *o, struct node_conn *c,
    char *why, size_t whylen);

#endif
