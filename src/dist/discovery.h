/*
 * discovery.h - asks a node that is not profiled which nodes it sees, again and
 * again: the seed of a cluster that no glob matches.
 *
 * It loads nothing there: the question is nodes(visible), put to rex every two
 * seconds over a hidden connection.  Like a target's, the connection is made
 * again when it is lost, with backoff.
 */
#ifndef KPROFD_DIST_DISCOVERY_H
#define KPROFD_DIST_DISCOVERY_H

#include <event2/event.h>

#include "kprofd/term.h"
#include "dist/handshake.h"

struct discovery;

struct discovery_ops {
	/* A list of atoms, the node itself not among them. */
	void (*on_nodes)(void *ctx, const struct kp_term *list);
	/* Not reached, refused, or lost: it is tried again. */
	void (*on_lost)(void *ctx, const char *why);
};

/*
 * Starts at once; callbacks come later, from the loop.  The strings of o are
 * borrowed.  NULL when out of memory.
 */
struct discovery *discovery_new(struct event_base *base, const struct node_opts *o,
    const struct discovery_ops *ops, void *ctx);
/* Not from a callback. */
void discovery_free(struct discovery *s);

#endif
