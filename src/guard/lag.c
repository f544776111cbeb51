/*
 * lag.c - estimates the age of batches, without a common clock.
 *
 * The base follows clocks that drift apart: it rises by 1 / DRIFT of the time,
 * and falls at once to any smaller difference.  A VM that corrects its clock
 * runs up to 1 % off meanwhile, so the base rises at twice that rate.  A delay
 * that grows more slowly is not detected here; the agent detects it when
 * buffers are full.
 */
#include "kprofd/guard.h"

#define DRIFT 50	/* one part in 50 */

kp_dur_ns
kp_lag_see(struct kp_lag *g, kp_target_ns sent, kp_mono_ns now)
{
	kp_dur_ns diff;

	/* A target may send any time, so the difference may overflow. */
	if (__builtin_sub_overflow(now, sent, &diff))
		return 0;
	if (!g->known) {
		*g = (struct kp_lag){ .known = true, .base = diff, .at = now };
		return 0;
	}
	if (now > g->at && __builtin_add_overflow(g->base,
	    (now - g->at) / DRIFT, &g->base))
		g->base = diff;
	g->at = now;
	if (diff < g->base)
		g->base = diff;
	if (__builtin_sub_overflow(diff, g->base, &diff))
		return INT64_MAX;
	return diff;
}

void
kp_lag_reset(struct kp_lag *g)
{
	g->known = false;
}
