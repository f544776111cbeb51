/*
 * cost.c - multiplies the counts of events and calls by what each costs,
 * without overflow.
 */
#include "kprofd/cost.h"
#include "base/sat.h"

void
kp_cost_add(struct kp_cost *to, const struct kp_cost *c)
{
	to->events += c->events;
	to->ring_events += c->ring_events;
	to->armed_calls += c->armed_calls;
	to->agent = sat_add(to->agent, c->agent);
}

/* Multiplies, up to INT64_MAX: the target sends the counts, of any size. */
static kp_dur_ns
times(uint64_t n, kp_dur_ns each)
{
	kp_dur_ns ns;

	return __builtin_mul_overflow(n, each, &ns) ? INT64_MAX : ns;
}

kp_dur_ns
kp_cost_fixed(const struct kp_cost *c)
{
	return times(c->armed_calls, KP_COST_CALL);
}

kp_dur_ns
kp_cost_total(const struct kp_cost *c)
{
	kp_dur_ns events = sat_add(
	    times(c->events - c->ring_events, KP_COST_EVENT),
	    times(c->ring_events, KP_COST_NATIVE));

	return sat_add(sat_add(events, kp_cost_fixed(c)), c->agent);
}

double
kp_cost_percent(double calls)
{
	return calls * (double)KP_COST_CALL * 100 / (double)KP_NS_PER_S;
}

uint64_t
kp_cost_calls(double percent)
{
	return (uint64_t)(percent / 100 * (double)KP_NS_PER_S /
	    (double)KP_COST_CALL);
}
