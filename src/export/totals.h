/*
 * totals.h - sums over all windows since the daemon started: figures that only
 * grow, as the counters of a metrics system must.  No I/O.
 *
 * The store's writer adds each window that it has written; exporters read on
 * their threads, between totals_lock() and totals_unlock().  What takes in
 * events has no part in it.
 *
 * Bounded: the first TOTALS_NODES_MAX nodes, TOTALS_TIERS_MAX tiers and
 * TOTALS_IDENTITIES_MAX identities have figures of their own; the rest is added
 * up as "_other" of its kind, and counted.  Tiers and identities stay, since a
 * counter that shrinks reads as a restart.  A node that has had no window for a
 * while (nodes in the set of targets always have) is dropped with all its
 * figures: its series end, and its place is free.  Histograms are kept of
 * requests by identity and of calls by tier; the product of both has counters
 * only.
 */
#ifndef KP_EXPORT_TOTALS_H
#define KP_EXPORT_TOTALS_H

#include "kprofd/stats.h"

#define TOTALS_NODES_MAX 128		/* twice what one kprofd profiles */
#define TOTALS_TIERS_MAX 64
#define TOTALS_IDENTITIES_MAX 100
#define TOTALS_HISTS_MAX 6000		/* of them 16 KiB at the very worst */
#define TOTALS_CELLS_MAX 40000
#define TOTALS_STALE (300 * KP_NS_PER_S)	/* or three windows */

enum totals_kind { TOTALS_NODE, TOTALS_TIER, TOTALS_IDENTITY, TOTALS_KINDS };

/*
 * One cell's figures, estimates of all requests (the w_ of kp_cell); raised: of
 * a tier its calls after the end of requests, too.
 */
struct total {
	uint64_t calls, raised, unfinished, ambiguous, unknown, async_calls;
	uint64_t late, late_unfinished, late_unknown;	/* a tier's async calls,
					   as of calls */
	uint64_t outlasting;
	int64_t busy, self, async, time;	/* ns; busy: the shares */
	struct kp_hist hist;
};

/* Of requests those that are known to have returned. */
static inline uint64_t
total_returned(const struct total *c)
{
	uint64_t other = c->raised + c->unfinished + c->ambiguous + c->unknown;

	return c->calls > other ? c->calls - other : 0;
}

/* Is it known of each call whether it raised?  Else 0 is not a figure. */
static inline bool
total_sees_all(const struct total *c)
{
	return kp_calls_unseen(c->calls + c->late, c->unfinished +
	    c->late_unfinished, c->unknown + c->ambiguous +
	    c->late_unknown) == 0;
}

struct total_node {
	uint64_t windows, entry_calls, sampled;
	kp_wall_ns first, last;		/* begin of the first window, end of
					   the last one */
	uint64_t version;		/* grows with each window of any node:
					   no two of it are alike */
	struct kp_losses lost;
};

struct totals;

/* NULL when out of memory. */
struct totals *totals_new(void);
void totals_free(struct totals *t);
/* Locks by itself. */
void totals_add(struct totals *t, const struct kp_window *w);
void totals_lock(struct totals *t);
void totals_unlock(struct totals *t);

/*
 * Names of a kind; 0 is "_other", 1 of tiers and identities "_total".  A node's
 * index may be another's once a window was added.
 */
#define TOTALS_OTHER 0
#define TOTALS_TOTAL 1
size_t totals_count(const struct totals *t, enum totals_kind kind);
/* Valid UTF-8. */
const char *totals_name(const struct totals *t, enum totals_kind kind,
    size_t i);
/* NULL: nothing was ever there. */
const struct total *totals_at(const struct totals *t, size_t node, size_t tier,
    size_t identity);
const struct total_node *totals_node(const struct totals *t, size_t node);
/* Requests whose identity is _other for want of room here. */
uint64_t totals_folded(const struct totals *t);
/* Cells of windows that are in no figure: no memory, or past the caps. */
uint64_t totals_dropped(const struct totals *t);

#endif
