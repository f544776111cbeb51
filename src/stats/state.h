/* state.h - defines the state of a node's statistics, and what its parts share. */
#ifndef KPROFD_STATS_STATE_H
#define KPROFD_STATS_STATE_H

#include "base/map.h"
#include "kprofd/request.h"
#include "kprofd/stats.h"

/* The running window's cells, by tier and request type. */
struct cells {
	struct kp_cell *v;	/* owned, in the order of their addition */
	size_t n, room;
	struct map at;		/* cell_key() -> index into v */
};

/* Never 0, which is not a key: type _total is made when a window closes. */
static inline uint64_t
cell_key(uint32_t identity, uint32_t tier)
{
	return (uint64_t)identity << 16 | tier;
}

static inline uint32_t
cell_key_tier(uint64_t key)
{
	return key & 0xffff;
}

/* Hands over v; the caller frees it and its histograms.  Starts empty. */
struct kp_cell *cells_take(struct cells *cs);

/* The running window's message waits, by receiver and type. */
struct waits {
	struct kp_wait_cell *v;	/* owned, in the order of their addition */
	size_t n, room;
	struct map at;		/* receiver and type -> index into v */
};

void waits_free(struct waits *ws);
/* Sorts and hands over v; the caller frees it and its histograms. */
struct kp_wait_cell *waits_take(struct waits *ws);

/*
 * A call's traced calls that it waited for.  Tracing added to its time that number
 * times traced_caller (kprofd/cost.h).
 */
struct call_made {
	uint32_t all;	/* at any depth */
	uint32_t made;	/* by the call itself */
};

/* v has room for rq->ncalls. */
void request_made(const struct kp_request *rq, struct call_made *v);

/* The calls' self times, or -1.  self and reach have room for rq->ncalls; reach is scratch. */
void request_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach);

/*
 * The times, inside their request, of calls that outlast it, until their end is seen.
 * A call whose end is never seen may have been over long before the request was,
 * because its process died.
 */
struct inside_tier {
	uint32_t tier;
	kp_dur_ns busy, share;	/* its part of the unions */
};

struct inside {
	kp_dur_ns self;		/* up to the request's end */
	bool alone;		/* its request has one node, so its share is
				   its busy time */
	uint32_t n;
	struct inside_tier v[];	/* the caller fills them in */
};

/* Finds them by the calls' numbers. */
struct insides {
	struct map by_number;
};

#define INSIDE_STEPS_MAX 1000000	/* for one request: some ms */

/*
 * Fills in the self times of calls that outlast the request, up to its end; the
 * caller has set the others.  reach and up are scratch; all have room for
 * rq->ncalls.  False: it took more than INSIDE_STEPS_MAX; those times are -1.
 */
bool inside_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach, uint32_t *up);
/* Adds one with room for `tiers`; borrowed until taken.  NULL: no memory. */
struct inside *inside_keep(struct insides *in, uint32_t number,
    unsigned tiers);
/* Removes and returns it; the caller frees it.  NULL: it is not there. */
struct inside *inside_take(struct insides *in, uint32_t number);
void insides_free(struct insides *in);

struct charge;

/* Scratch, all zero at first, kept from one request to the next. */
struct pause_sums {
	struct kp_call_pauses *v;	/* by call */
	uint32_t *first;		/* index of each call's first charge */
	size_t cap;
	struct charge *charges;
	size_t ncharges, chargecap;
};

/*
 * Returns the pauses by call; NULL: out of memory.  Call request_self() first;
 * self and reach are those of it.  Valid until the next call.
 */
const struct kp_call_pauses *pause_sums(struct pause_sums *s,
    const struct kp_request *rq, const kp_dur_ns *self, kp_target_ns *reach);
void pause_sums_free(struct pause_sums *s);

/*
 * conf->tiers[t] is tier t + 1; behind them come their parts, of which calls with a
 * label are as well (kp_requests_part()).
 */
#define TIER_TOTAL 0
#define TIERS (KP_TIER_MAX + 1)
#define TIERS_MAX (TIERS + KP_PARTS_MAX)

struct kp_stats {
	const struct kp_conf *conf;
	const char *node;
	const struct kp_requests *rs;
	struct kp_stats *const *peers;	/* by node, or NULL */
	struct cells cells;
	struct waits waits;
	struct insides insides;
	uint64_t sampled;
	/* Of tiers, in requests or not, since the last window with a request. */
	struct {
		uint64_t counted;	/* by the VM */
		uint64_t crossed, missed;	/* the second weighted */
	} calls[TIERS];
	struct kp_losses losses;

	/* scratch, kept from request to request; each has cap elements */
	kp_dur_ns *self;
	kp_target_ns *reach;
	struct call_made *made;
	uint32_t *up;
	size_t cap;
	struct pause_sums pauses;
	bool has_gc;		/* measured on this node */
	struct sum *sums;	/* one for each node and one for all, or NULL, */
	uint32_t sum_room;	/* with room for so many tiers each */
};

/* Tiers and parts so far, without TIER_TOTAL. */
static inline uint32_t
tiers_seen(const struct kp_stats *st)
{
	return (uint32_t)st->conf->ntiers + kp_requests_parts(st->rs);
}

static inline const char *
tier_name(const struct kp_stats *st, uint32_t tier)
{
	if (tier == TIER_TOTAL)
		return "_total";
	return tier <= st->conf->ntiers ? st->conf->tiers[tier - 1].name :
	    kp_requests_part(st->rs, tier - (uint32_t)st->conf->ntiers - 1);
}

#endif
