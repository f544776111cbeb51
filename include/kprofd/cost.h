/*
 * cost.h - estimates the cost of profiling in a target.  Pure.
 *
 * The agent measures its own time, from taking a batch's first event to having
 * sent it.  The cost in traced processes cannot be measured: the estimate is a
 * fixed time for each event and for each call of an armed function, taken from
 * `make bench` (test/bench/README.md); other machines differ.
 */
#ifndef KPROFD_COST_H
#define KPROFD_COST_H

#include <stdint.h>

#include "kprofd/clock.h"

/* To make an event and send it to the agent, in the traced process. */
#define KP_COST_EVENT INT64_C(800)	/* ns */
/* To write one into a ring of the native probe. */
#define KP_COST_NATIVE INT64_C(300)	/* ns */
/*
 * A call of an armed function without its events: 410 on OTP 25, 400 on 27, 250
 * on 29, with either probe, including the counter.  One high figure serves for
 * all of them.
 */
#define KP_COST_CALL INT64_C(400)	/* ns */

struct kp_cost {
	uint64_t events;
	uint64_t ring_events;	/* those of them written into a ring */
	uint64_t armed_calls;	/* of entries and tiers, counted by the VM */
	kp_dur_ns agent;	/* measured */
	/*
	 * The last measured time that tracing adds to one traced call, and to
	 * the call that makes it; 0: not measured.
	 */
	kp_dur_ns traced_call, traced_caller;
};

void kp_cost_add(struct kp_cost *to, const struct kp_cost *c);
/* Returns the whole cost, as CPU time of one scheduler. */
kp_dur_ns kp_cost_total(const struct kp_cost *c);
/* Returns the part that does not depend on sampling. */
kp_dur_ns kp_cost_fixed(const struct kp_cost *c);
/* Convert armed calls a second to percent of one scheduler, and back. */
double kp_cost_percent(double calls);
uint64_t kp_cost_calls(double percent);

#endif
