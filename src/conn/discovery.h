/*
 * discovery.h - asks a node that is not profiled which nodes it sees: the seed of a
 * cluster, when no glob matches it.
 *
 * It calls nodes(visible) by rex every two seconds over a hidden connection, and
 * loads nothing.  When the connection is lost it is made again, with backoff.
 */
#ifndef KPROFD_CONN_DISCOVERY_H
#define KPROFD_CONN_DISCOVERY_H

#include <event2/event.h>

#include "kprofd/term.h"
#include "conn/handshake.h"

struct discovery;

struct discovery_ops {
	/* A list of atoms, without the node itself. */
	void (*on_nodes)(void *ctx, const struct kp_term *list);
	/* Not reached, refused, or lost; it tries again. */
	void (*on_lost)(void *ctx, const char *why);
};

/*
 * Starts at once; callbacks come later, from the loop.  The strings of o are
 * borrowed.  NULL when out of memory.
 */
struct discovery *discovery_new(struct event_base *base,
    const struct node_opts *o, const struct discovery_ops *ops,
    void *ctx);
/* Not to be called from a callback. */
void discovery_free(struct discovery *s);

#endif
