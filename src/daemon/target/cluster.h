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

#define CLUSTER_NODES_MAX 5000	/* names of one answer that are looked at */

struct cluster_ops {
	/* A node that matches is there; false: there is no room for it. */
	bool (*on_seen)(void *ctx, const char *name);
	/* An answer was taken; `more` of it had no room. */
	void (*on_answer)(void *ctx, size_t more);
	/* The seed cannot be asked, or not any more; it is tried again. */
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
/* What a target sees: a list of atoms, its own name among them. */
void cluster_answer(struct cluster *c, const struct kp_term *list);
/*
 * Is the seed to be asked by a connection of its own?  Not to be called from
 * the callbacks above.
 */
void cluster_scout(struct cluster *c, bool wanted);
/* When somebody answered last; 0: nobody did. */
kp_mono_ns cluster_answered(const struct cluster *c);
/* The seed was asked by that connection, and could not be. */
bool cluster_failed(const struct cluster *c);

#endif
