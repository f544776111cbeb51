/*
 * inside.h - keeps the times, inside their request, of calls that outlast it
 * until their end is seen.  A call whose end is never seen may have been over
 * long before the request was, because its process died.
 */
#ifndef KPROFD_STATS_INSIDE_H
#define KPROFD_STATS_INSIDE_H

#include "kprofd/request.h"
#include "base/map.h"

struct inside_tier {
	uint32_t tier;		/* of conf->tiers */
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

#endif
