/*
 * totals.h - sums over all windows since the daemon started: figures that only
 * grow, as the counters of a metrics system must.  No I/O.
 *
 * The store's writer thread adds each window that it has written; exporters read
 * on their threads, between totals_lock() and totals_unlock().  The event loop
 * sets the objectives, and waits for none of these.
 *
 * Bounded: the first TOTALS_NODES_MAX nodes, TOTALS_TIERS_MAX tiers and
 * TOTALS_IDENTITIES_MAX identities have figures of their own; the rest is added
 * up as "_other" of its kind.  Tiers and identities are kept, since scrapers take
 * a counter that shrinks for a restart.  A node without windows for TOTALS_STALE
 * is no longer a target: it is dropped with its figures, and its series end.
 * Requests have a histogram for each identity, calls one for each tier; cells of
 * a tier and an identity have counters only.
 */
#ifndef KPROFD_EXPORT_TOTALS_H
#define KPROFD_EXPORT_TOTALS_H

#include "kprofd/config.h"
#include "kprofd/stats.h"
#include "store/store.h"

#define TOTALS_NODES_MAX 128		/* twice what one kprofd profiles */
#define TOTALS_TIERS_MAX 64
#define TOTALS_IDENTITIES_MAX 100
#define TOTALS_HISTS_MAX 6000		/* each of 16 KiB at most */
#define TOTALS_CELLS_MAX 40000
#define TOTALS_STALE (300 * KP_NS_PER_S)	/* or three windows */

enum totals_kind { TOTALS_NODE, TOTALS_TIER, TOTALS_IDENTITY, TOTALS_KINDS };

/* Of the slow requests that are stored, the latest of a node and an identity. */
struct total_kept {
	int64_t id;		/* of its row */
	kp_dur_ns total;
	kp_wall_ns end;
	char trace[KP_TRACE_ID_LEN + 1];	/* the application's; "": none */
};

/*
 * One cell's figures: estimates for all requests (the w_ of kp_cell).  A tier's
 * raised includes calls after the end of their request.
 */
struct total {
	uint64_t calls, raised, unfinished, ambiguous, unknown, async_calls;
	uint64_t late, late_raised, late_unfinished, late_unknown;	/* of a tier's async
					   calls */
	uint64_t outlasting;
	int64_t busy, self, async, time;	/* ns; busy: the shares */
	struct kp_hist hist;
	struct total_kept *kept;	/* of requests; NULL: none */
};

/* Calls that are known to have returned. */
static inline uint64_t
total_returned(const struct total *c)
{
	uint64_t other = c->raised + c->unfinished + c->ambiguous + c->unknown;

	return c->calls > other ? c->calls - other : 0;
}

/* False: of some calls it is not known whether they raised, so 0 means nothing. */
static inline bool
total_sees_all(const struct total *c)
{
	return kp_calls_unseen(c->calls + c->late, c->unfinished +
	    c->late_unfinished, c->unknown + c->ambiguous +
	    c->late_unknown) == 0;
}

struct total_node {
	uint64_t windows, entry_calls, sampled;
	kp_wall_ns first, last;		/* start of the first window, end of
					   the last */
	uint64_t version;		/* differs after each window, and from
					   those of all other nodes */
	struct kp_losses lost;
	int otp;			/* the release in the last window; 0: not known */
	struct kp_usage *usage;		/* as last seen; NULL: not for long */
	kp_wall_ns seen;
};

struct totals;

/* NULL when out of memory. */
struct totals *totals_new(void);
void totals_free(struct totals *t);
/*
 * Sets the objectives in force; copies them.  Out of memory, the ones before stay.  Their
 * request types have figures of their own, if there is room.
 */
void totals_slo(struct totals *t, const struct kp_objective *v, size_t n);
/* Takes the lock. */
void totals_add(struct totals *t, const struct kp_window *w);
/*
 * Notes a request, if a window had figures of its node and identity, and its duration is
 * known.  Takes the lock.
 */
void totals_kept(struct totals *t, const struct kp_tree *tree);
void totals_lock(struct totals *t);
void totals_unlock(struct totals *t);

/*
 * Names of a kind by index: 0 is "_other", and 1 of tiers and identities "_total".
 * Unlock and lock, and an index may be another node's.
 */
#define TOTALS_OTHER 0
#define TOTALS_TOTAL 1
size_t totals_count(const struct totals *t, enum totals_kind kind);
/* Valid UTF-8. */
const char *totals_name(const struct totals *t, enum totals_kind kind,
    size_t i);
/* A cell, and where it is; begin with { 0 }. */
struct totals_cell {
	const struct total *c;
	const char *tier, *identity;	/* NULL: of the request; of all types */
	size_t next_tier, next_identity;
};
/*
 * Moves to the node's next cell: of each tier, or of the request itself; of each
 * identity, or of all together.  False: there is none.
 */
bool totals_next(const struct totals *t, size_t node, bool tiers,
    bool identities, struct totals_cell *at);
/* Both return NULL where no window had figures. */
const struct total *totals_at(const struct totals *t, size_t node, size_t tier,
    size_t identity);
const struct total_node *totals_node(const struct totals *t, size_t node);
/* The release of a node by its name; 0: not known.  Takes the lock. */
int totals_otp(struct totals *t, const char *name);
/* Objective i, by its text, and what met it on a node. */
struct total_slo {
	const char *text;
	uint64_t requests;	/* or calls of a tier, whose time is known */
	double slow;		/* which is estimated where the limit is in a bucket */
	double failed;		/* negative: it is not seen whether any did */
};

/* False: there is no such objective.  requests is 0 where no window had figures. */
bool totals_slo_at(const struct totals *t, size_t node, size_t i,
    struct total_slo *out);
/* Requests under _other because of TOTALS_IDENTITIES_MAX. */
uint64_t totals_folded(const struct totals *t);
/* Cells of windows that could not be added, for want of memory or at a cap. */
uint64_t totals_dropped(const struct totals *t);

#endif
