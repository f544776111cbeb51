/*
 * cost.h - what profiling costs a target.  Pure.
 *
 * The agent measures its own time there, from taking a batch's first event to
 * having sent it.  What traced processes pay cannot be measured: the estimate
 * is a fixed time for each event and for each call of an armed function, taken
 * from `make bench` (test/bench/README.md); machines differ from it.
 */
#ifndef KPROFD_COST_H
#define KPROFD_COST_H

#include <stdint.h>

#include "kprofd/clock.h"

/* Making an event and handing it to the agent, in the traced process. */
#define KP_COST_EVENT INT64_C(800)	/* ns */
/* Writing one into a ring of the native probe. */
#define KP_COST_NATIVE INT64_C(300)	/* ns */
/*
 * A call of an armed function that is passed over, or its part in one that is
 * not: 410 on OTP 25, 400 on 27, 250 on 29, by either probe, the counter
 * included.  One figure, the dearer one, for all of them.
 */
#define KP_COST_CALL INT64_C(400)	/* ns */

struct kp_cost {
	uint64_t events;
	uint64_t ring_events;	/* of these, written into a ring */
	uint64_t armed_calls;	/* of entries and tiers, counted by the VM */
	kp_dur_ns agent;	/* measured */
	/*
	 * What tracing adds to the time of one traced call, and to that of
	 * the call that makes it, as it was measured last; 0: it was not.
	 */
	kp_dur_ns traced_call, traced_caller;
};

void kp_cost_add(struct kp_cost *to, const struct kp_cost *c);
/* The whole cost, as CPU time of one scheduler. */
kp_dur_ns kp_cost_total(const struct kp_cost *c);
/* The part that sampling does not change. */
kp_dur_ns kp_cost_fixed(const struct kp_cost *c);
/* Armed calls a second to percent of one scheduler, and back. */
double kp_cost_percent(double calls);
uint64_t kp_cost_calls(double percent);

#endif
