/*
 * made.h - counts the traced calls that each call of a request made and waited
 * for.  Tracing added to its time that number times traced_caller
 * (kprofd/cost.h).
 */
#ifndef KPROFD_STATS_MADE_H
#define KPROFD_STATS_MADE_H

#include "kprofd/request.h"

struct call_made {
	uint32_t all;	/* at any depth */
	uint32_t made;	/* by the call itself */
};

/* v has room for rq->ncalls. */
void request_made(const struct kp_request *rq, struct call_made *v);

#endif
