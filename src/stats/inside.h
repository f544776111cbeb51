/*
 * inside.h - keeps what calls that outlast their request did inside of it,
 * until their end is seen: a call without an end may have been over long before
 * the request was, with the process that died in it.
 */
#ifndef KPROFD_STATS_INSIDE_H
#define KPROFD_STATS_INSIDE_H

#include "kprofd/request.h"
#include "base/map.h"

struct inside_tier {
	uint32_t tier;		/* of conf->tiers */
	kp_dur_ns busy, share;	/* what it adds to the unions */
};

struct inside {
	kp_dur_ns self;		/* up to the request's end */
	bool alone;		/* on the one node of its request: its share
				   is its busy time */
	uint32_t n;
	struct inside_tier v[];	/* the caller fills them in */
};

/* By the calls' numbers. */
struct insides {
	struct map by_number;
};

#define INSIDE_STEPS_MAX 1000000	/* for one request: some ms */

/*
 * Fills in the self times of calls that outlast the request, up to its end; the
 * others' are known.  reach and up are scratch; all have room for rq->ncalls.
 * False: that took more than INSIDE_STEPS_MAX, and those times are -1.
 */
bool inside_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach, uint32_t *up);
/* With room for `tiers` tiers; borrowed until taken.  NULL: out of memory. */
struct inside *inside_keep(struct insides *in, uint32_t number,
    unsigned tiers);
/* NULL: there is nothing.  Owned by the caller, who frees it. */
struct inside *inside_take(struct insides *in, uint32_t number);
void insides_free(struct insides *in);

#endif
