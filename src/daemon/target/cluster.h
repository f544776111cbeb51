/*
 * cluster.h - chooses which nodes of a cluster to profile: the visible ones
 * whose names match, as the attached targets and the seed see them.
 *
 * Every attached target is asked once a second, so no single node is needed.
 * The seed has a connection of its own only while it is not a target itself.
 * nodes(visible) leaves hidden nodes out, so kprofd never counts itself.
 */
#ifndef KPROFD_DAEMON_TARGET_CLUSTER_H
#define KPROFD_DAEMON_TARGET_CLUSTER_H

#include <event2/event.h>

#include "kprofd/term.h"
#include "dist/handshake.h"

#define CLUSTER_NODES_MAX 5000	/* read of one answer */

struct cluster_ops {
	/* A node that matches was seen; returns false if there is no room. */
	bool (*on_seen)(void *ctx, const char *name);
	/* After each answer; there was no room for `more` of its nodes. */
	void (*on_answer)(void *ctx, size_t more);
	/* The connection to the seed failed; it is tried again. */
	void (*on_lost)(void *ctx, const char *why);
};

struct cluster_parts {
	const char *const *matches;	/* globs; all borrowed */
	unsigned nmatches;
	struct node_opts seed;		/* target: the seed */
};

struct cluster;

/* NULL when out of memory. */
struct cluster *cluster_new(struct event_base *base,
    const struct cluster_parts *parts, const struct cluster_ops *ops,
    void *ctx);
void cluster_free(struct cluster *c);
bool cluster_matches(const struct cluster *c, const char *name);
/* The answer of a target: a list of atoms, with its own name. */
void cluster_answer(struct cluster *c, const struct kp_term *list);
/*
 * Opens or closes the connection that asks the seed.  Not to be called from the
 * callbacks above.
 */
void cluster_ask_seed(struct cluster *c, bool wanted);
/* When the last answer came; 0: none yet. */
kp_mono_ns cluster_answered(const struct cluster *c);
/* True: the connection to the seed failed, and no answer came since. */
bool cluster_failed(const struct cluster *c);

#endif
