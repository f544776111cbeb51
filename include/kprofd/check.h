/*
 * check.h - judges a plan by how its functions are called on a target.  Pure.
 *
 * kprofd -check counts the calls of all functions for some time, and may trace
 * some requests.  These functions turn what that showed into warnings and
 * errors with a way out, and into what profiling would cost.
 */
#ifndef KPROFD_CHECK_H
#define KPROFD_CHECK_H

#include "kprofd/plan.h"
#include "kprofd/waits.h"

/* Calls of entries that a check traces on one target. */
#define KP_CHECK_CALLS_MAX 1000
/* Calls of a tier's function for each request above which it is in a loop. */
#define KP_CHECK_LOOP 100

/* What traced requests showed of one function. */
struct kp_check_seen {
	uint64_t known;		/* traced calls, by clause as in struct kp_check */
	uint64_t entered;	/* an entry: its calls that were traced; */
	uint64_t nested;	/* of those: in a request already; */
	uint64_t chained;	/* of those: after another one in the process,
				   whose end was not seen; */
	uint64_t ended;		/* of those: the number whose end was seen; */
	uint64_t handed;	/* of those: all calls came after their end */
	size_t worker;		/* the item of the first of these calls */
	uint64_t calls;		/* in requests that ended */
	uint64_t strayed;	/* of those: with another request's token */
	uint64_t missed;	/* as of struct kp_cell, not weighted */
	bool recursive;		/* called by itself, most of the time */
};

struct kp_check {
	const struct kp_conf *conf;
	const struct kp_plan *plan;
	kp_dur_ns counted;	/* how long calls were counted */
	/* By the plan's items; NULL: nothing was traced. */
	const struct kp_check_seen *seen;
	uint64_t requests;	/* traced requests that ended */
	/*
	 * By clause of the identity fun: traced calls that it matched.  NULL: none
	 * was traced.
	 */
	const uint64_t *matched;
	bool explained;		/* examples of calls are shown too */
	/* Servers that answer later, for which requests waited. */
	const struct kp_waits *waits;
	size_t nwaits;
};

/* Adds what is wrong to *diags. */
void kp_check_judge(const struct kp_check *c, struct kp_diags *diags);
/* Returns the number of clauses of the identity fun. */
uint32_t kp_check_clauses(const struct kp_conf *c);

/*
 * What profiling costs at the counted rates: events a second, and percent of
 * one scheduler.  It takes all calls of tiers as calls in requests.
 */
struct kp_check_price {
	double events, percent;
};

struct kp_check_price kp_check_price(const struct kp_check *c);

#endif
