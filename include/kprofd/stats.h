/*
 * stats.h - sums requests into windows of cells.  Pure.
 *
 * A cell holds the figures of one series (node x tier x request type) in one
 * window.  Tier "_total" is the request itself, type "_total" all types
 * together; both are made here, so that readers of the store need not sum.
 *
 * Each node has its own windows, and so its own kp_stats.  kp_stats_peers()
 * connects those whose requests may have calls on the others: a call counts in
 * the window of the node where it ran, and the request, tier "_total", in that
 * of its entry.
 */
#ifndef KPROFD_STATS_H
#define KPROFD_STATS_H

#include "kprofd/cost.h"
#include "kprofd/hist.h"
#include "kprofd/loss.h"
#include "kprofd/request.h"
#include "kprofd/usage.h"

#define KP_SERIES_MAX 20000	/* cells in one window; the rest is _other */
/* With one of _other, and the sum, for the request and each tier and part. */
#define KP_CELLS_MAX (KP_SERIES_MAX + 2 * (1 + KP_TIER_MAX + KP_PARTS_MAX))

/*
 * Plain figures count sampled requests; w_ figures multiply each by its weight,
 * which estimates the truth while the sampling rate changes.  Times are ns;
 * sums stop at INT64_MAX.
 *
 * A request counts in the window in which it closes, and a call that is open
 * then in the one in which it ends, with all its time, its busy time inside
 * included: the end of one that never ends is unknown.  Only the request counts
 * at once, in the tier's requests.
 *
 * busy (in reports: time in tier) is the union of the tier's calls, clipped to the
 * request.  async (in reports: after) is all time after the request's end, as a
 * plain sum over calls: of its async calls, which began after it, and the part
 * after the end of those that outlast it.
 *
 * requests and busy are those of this node.  Their sum over nodes counts a
 * request once for each node that had calls of it in the tier, and a moment in
 * which two nodes were at work twice.  The shares can be summed: the first call
 * of the tier has the request, and each moment of the union of all nodes' calls
 * belongs to one of them.  If a request's calls of the tier are on one node
 * only, its shares are the plain figures.
 *
 * A process that waits is often answered because of another request: a pool has a
 * worker again.  The answer has that one's token, or none if sampling passed that
 * request over; what the process then does is not seen.  So each call that came with
 * another's token, in a request of weight w, stands for w - 1 that came with none:
 * strayed counts them where w > 1, and missed estimates the others, weighted.  In
 * type "_total" both also have the calls that are lost because nobody can tell their
 * request (crossed).  counted is the VM's count.
 *
 * gc and out are parts of self: the process of a call was collecting garbage,
 * or scheduled out, while the call waited for no other.  The rest is work.
 *
 * For tier "_total", calls are requests, and total, busy, min, max and hist are
 * requests' times.  Its self time is in no tier: the request's time less the
 * union of all tier calls that have ended when it closes (0 if the entry is
 * itself in a tier).  Its async figures hold each async tier call once, and its
 * gc and out those of all calls once, even of an entry in no tier.
 */
/*
 * The figures of a cell, a line each; X is passed on.  COUNT and TIME have a weighted twin
 * (w_), ONCE has none.  NEVER, SHARE, GC, OUT: when the column in the store is null
 * (src/store/cell_row.h).  The struct, its merge, its rows and the cells of reports are
 * made of this list.
 */
#define KP_CELL_FIGURES(COUNT, TIME, ONCE, X) \
	COUNT(X, requests, NEVER)	/* with one call of the tier at least */ \
	COUNT(X, calls, NEVER)		/* inside the request; all outcomes */ \
	COUNT(X, raised, NEVER)		/* of calls, like these two: */ \
	COUNT(X, unfinished, NEVER) \
	COUNT(X, ambiguous, NEVER) \
	COUNT(X, async_calls, NEVER)	/* not among calls */ \
	/* calls in total, min, max and hist: a kp_outcome_timed(), not async */ \
	COUNT(X, timed, NEVER) \
	TIME(X, total, NEVER) \
	TIME(X, self, NEVER) \
	TIME(X, busy, NEVER) \
	TIME(X, async, NEVER) \
	COUNT(X, share_requests, SHARE) \
	TIME(X, share_busy, SHARE) \
	TIME(X, gc, GC)			/* 0 without has_gc */ \
	TIME(X, out, OUT)		/* 0 without has_out */ \
	/* of calls: began inside their request and ended after its end */ \
	COUNT(X, outlasting, NEVER) \
	COUNT(X, unknown_outcomes, NEVER)	/* of calls: they ended */ \
	/* \
	 * Traced calls during the timed ones: all, at any depth, and those \
	 * that these made themselves; weighted. \
	 */ \
	ONCE(X, w_inside, NEVER) \
	ONCE(X, w_made, NEVER) \
	COUNT(X, async_raised, NEVER)	/* of async calls, like: */ \
	COUNT(X, async_unknown, NEVER)	/* ended with an unknown outcome */ \
	COUNT(X, async_unfinished, NEVER) \
	/* \
	 * Only of type "_total": calls of the tier, or in "_total" those of \
	 * entries, that the VM counted while armed, in requests or not; 0: not \
	 * known. \
	 */ \
	ONCE(X, counted, NEVER) \
	ONCE(X, strayed, NEVER) \
	ONCE(X, missed, NEVER)		/* weighted */

struct kp_cell {
	const char *tier, *identity;	/* borrowed; outlive the window */
#define KP_COUNT(X, field, null) uint64_t field, w_##field;
#define KP_TIME(X, field, null) int64_t field, w_##field;
#define KP_ONCE(X, field, null) uint64_t field;
	KP_CELL_FIGURES(KP_COUNT, KP_TIME, KP_ONCE, )
#undef KP_COUNT
#undef KP_TIME
#undef KP_ONCE
	bool has_gc, has_out;		/* measured */
	kp_dur_ns min, max;		/* of one call; min is -1 when timed is 0 */
	struct kp_hist hist;		/* weighted */
	/* Of async calls, of which hist and max have none; likewise. */
	kp_dur_ns async_max;
	struct kp_hist async_hist;
};

/* Fewer strayed calls, or a smaller part of calls that are missing, are not reported. */
#define KP_STRAYED_MIN 3
#define KP_MISSED_MIN 0.05
/* A smaller part of the calls that the VM counted is hardly any. */
#define KP_ABSENT 0.05
#define KP_ABSENT_MIN 20	/* requests, and calls; with fewer it may be chance */

#define KP_WAIT_SERIES_MAX 5000	/* wait cells in one window, likewise */

/*
 * The waits of messages to one receiver, of requests of one type; w_ as above.
 * It belongs to the window of the receiver's node.  There is none of type
 * "_total": readers sum if they need it.
 */
struct kp_wait_cell {
	const char *receiver, *identity;	/* borrowed, as above */
	uint64_t messages, w_messages;	/* all timed */
	uint64_t away, w_away;		/* those of them sent on another node */
	int64_t wait, w_wait;
	kp_dur_ns min, max;		/* min is -1 when there are none */
	struct kp_hist hist;		/* weighted */
};

/*
 * Samples of stacks of this node's processes that worked for requests of one
 * type.  path: the tiers from the entry to the innermost call that the process
 * had open, joined by ';' ("handle;db"), "" if there are none; "_after" stands
 * first if the request had ended.  frames: as of kp_stack_text(); "" of a
 * process that was not seen.
 */
struct kp_stack_cell {
	const char *identity;		/* borrowed, as above */
	const char *path, *frames;	/* owned by the window */
	uint8_t state;			/* enum kp_stack_state */
	uint8_t octave;			/* of the request's duration (hist.h) */
	uint64_t samples;
	kp_dur_ns time;			/* estimated, of processes */
	kp_dur_ns w_time;		/* each multiplied by its weight */
};

/* One closed span of time of one node.  Owned by its holder. */
struct kp_window {
	const char *node;		/* borrowed; outlives the window */
	kp_wall_ns start, end;
	uint64_t entry_calls;		/* the VM's own count; 0 if unknown */
	uint64_t sampled;		/* requests assembled */
	int otp;			/* the node's release; 0: not known */
	struct kp_losses losses;
	struct kp_cost cost;		/* of the target */
	/* "_total" first, then tiers in conf's order; in each by type. */
	struct kp_cell *cells;
	size_t ncells;
	/* If messages are timed: by receiver, then type. */
	struct kp_wait_cell *waits;
	size_t nwaits;
	/* If stacks are sampled; in no order, and no two have all five keys. */
	struct kp_stack_cell *stacks;
	size_t nstacks;
	char *stack_texts;	/* owns the texts of stacks */
	struct kp_usage *usage;	/* the last walk of this window; NULL: none */
};

/* How much of a count is known; reports and exports show it accordingly. */
enum kp_seen {
	KP_SEEN,	/* known */
	KP_SEEN_PART,	/* there may be more */
	KP_NOT_SEEN	/* no figure and no series; never 0 */
};

/* Returns how well `raised` is known if `unseen` others may have raised. */
static inline enum kp_seen
kp_raised_seen(uint64_t raised, uint64_t unseen)
{
	if (unseen == 0)
		return KP_SEEN;
	return raised > 0 ? KP_SEEN_PART : KP_NOT_SEEN;
}

/*
 * Returns the number of these calls that may have raised unseen.  blind: calls
 * that ended with an unknown outcome.  If no call is known to have returned or
 * raised, all unfinished ones may be failures whose end was not seen; otherwise
 * they count as still running or killed.
 */
static inline uint64_t
kp_calls_unseen(uint64_t calls, uint64_t unfinished, uint64_t blind)
{
	return calls > unfinished + blind ? blind : unfinished + blind;
}

/*
 * Returns the weighted number of calls that raised.  A tier's includes its
 * async calls; an async call does not make its request an error.
 */
static inline uint64_t
kp_cell_raised(const struct kp_cell *c, bool request)
{
	return c->w_raised + (request ? 0 : c->w_async_raised);
}

/* Returns the number of the same that may have raised unseen. */
static inline uint64_t
kp_cell_unseen(const struct kp_cell *c, bool request)
{
	uint64_t calls = c->w_calls + (request ? 0 : c->w_async_calls);

	return kp_calls_unseen(calls, c->w_unfinished +
	    (request ? 0 : c->w_async_unfinished), c->w_unknown_outcomes +
	    c->w_ambiguous + (request ? 0 : c->w_async_unknown));
}

/* Frees the histograms of a cell, which are what it owns. */
void kp_cell_free(struct kp_cell *c);
/*
 * Adds from's figures to to's, but not the names.  An empty cell is zero except
 * for min, which is -1.  A histogram whose count would exceed 64 bits is left
 * out, but not its sums.  KP_ENOMEM: to is unchanged.
 */
enum kp_err kp_cell_merge(struct kp_cell *to, const struct kp_cell *from);

/* Does the same for waits. */
enum kp_err kp_wait_cell_merge(struct kp_wait_cell *to,
    const struct kp_wait_cell *from);

void kp_window_free(struct kp_window *w);
/* How long an agent was there to count requests. */
kp_dur_ns kp_window_counted(const struct kp_window *w);

struct kp_stats;

/*
 * node and conf are borrowed and outlive it, as do the texts of rs (set that
 * with kp_stats_names() before the first request).
 */
struct kp_stats *kp_stats_new(const struct kp_conf *conf, const char *node);
void kp_stats_free(struct kp_stats *st);
/* Takes effect with the next window that closes. */
void kp_stats_rename(struct kp_stats *st, const char *node);
/* rs: whose requests are added; borrowed, for names of functions and types. */
void kp_stats_names(struct kp_stats *st, const struct kp_requests *rs);

/* Sets whether garbage collection is measured on its node: kp_conf_gc(). */
void kp_stats_set_gc(struct kp_stats *st, bool gc_shared);
bool kp_stats_has_gc(const struct kp_stats *st);

/*
 * by_node, borrowed: KP_NODES_MAX pointers to the nodes' kp_stats, or NULL;
 * they may change between calls.  Calls of a node that has none count as
 * KP_LOSS_LEFT here.  Without peers everything counts here.
 */
void kp_stats_peers(struct kp_stats *st, struct kp_stats *const *by_node);

/*
 * These take what on_request and on_late pass, with the kp_stats of the
 * request's node or the late call's.
 */
void kp_stats_request(struct kp_stats *st, const struct kp_request *rq);
/* Adds the request's kp_requests_waits(), after kp_stats_request(). */
void kp_stats_waits(struct kp_stats *st, const struct kp_request *rq);
void kp_stats_late(struct kp_stats *st, const struct kp_late_call *c);
/*
 * The VM has counted n more calls of a tier (index + 1), or of entries (0).  They
 * belong to the next window that closes with a request.
 */
void kp_stats_counted(struct kp_stats *st, uint32_t tier, uint64_t n);

/*
 * Closes the running window [start, end) and hands it over; the next one starts
 * empty.  Its losses hold those of stats (such as requests under _other, past
 * KP_SERIES_MAX); the caller adds the rest, and entry_calls.  NULL: out of
 * memory; the window goes on.
 */
struct kp_window *kp_stats_rotate(struct kp_stats *st, kp_wall_ns start,
    kp_wall_ns end);
/*
 * Copies the running window as it stands, without its waits of messages, for
 * whoever looks at it before it is closed.  It goes on.  NULL: out of memory.
 */
struct kp_window *kp_stats_copy(const struct kp_stats *st, kp_wall_ns start,
    kp_wall_ns end);

/*
 * Computes each call's self time in ns: its time less the union of the calls it
 * waited for, which are its children in the tree, and those of children without
 * a duration (clipped to it).  -1 if it has none.  self has room for
 * rq->ncalls.  KP_ENOMEM: do not use self.
 */
enum kp_err kp_request_self(const struct kp_request *rq, kp_dur_ns *self);
/*
 * Computes the pauses of each call, whose self times kp_request_self() gave, as far as
 * they were measured (kp_stats_has_gc(), {scheduling, true}).  KP_ENOMEM: do not use pauses.
 */
enum kp_err kp_request_pauses(const struct kp_request *rq, const kp_dur_ns *self,
    struct kp_call_pauses *pauses);

#endif
