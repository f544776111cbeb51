/*
 * sched_gc.h - computes how much of each call's self time its process was
 * scheduled out or collected garbage; sched_gc.c has the rules.
 */
#ifndef KPROFD_STATS_SCHED_GC_H
#define KPROFD_STATS_SCHED_GC_H

#include <stddef.h>

#include "kprofd/request.h"

/* ns; together no more than the call's self time. */
struct call_pauses {
	kp_dur_ns out, gc;
};

struct charge;

/* Scratch, all zero at first, kept from one request to the next. */
struct pause_sums {
	struct call_pauses *v;		/* by call */
	uint32_t *first;		/* index of each call's first charge */
	size_t cap;
	struct charge *charges;
	size_t ncharges, chargecap;
};

/*
 * Returns the pauses by call; NULL: out of memory.  Call request_self() first;
 * self and reach are those of it.  Valid until the next call.
 */
const struct call_pauses *pause_sums(struct pause_sums *s,
    const struct kp_request *rq, const kp_dur_ns *self, kp_target_ns *reach);
void pause_sums_free(struct pause_sums *s);

#endif
