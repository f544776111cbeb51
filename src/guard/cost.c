/*
 * cost.c - multiplies the counts of what tracing does by what each costs, without
 * overflow.
 */
#include <stdio.h>

#include "kprofd/cost.h"
#include "base/sat.h"

void
kp_cost_add(struct kp_cost *to, const struct kp_cost *c)
{
	to->events += c->events;
	to->ring_events += c->ring_events;
	to->armed_calls += c->armed_calls;
	to->switches += c->switches;
	to->sampled += c->sampled;
	to->agent = sat_add(to->agent, c->agent);
}

/* Multiplies, up to INT64_MAX: the target sends the counts, of any size. */
static kp_dur_ns
times(uint64_t n, kp_dur_ns each)
{
	kp_dur_ns ns;

	return __builtin_mul_overflow(n, each, &ns) ? INT64_MAX : ns;
}

static kp_dur_ns
calls_cost(const struct kp_cost *c)
{
	return times(c->armed_calls, KP_COST_CALL);
}

static kp_dur_ns
switches_cost(const struct kp_cost *c)
{
	return times(c->switches, KP_COST_SWITCH);
}

/* With what a sampled request costs besides them. */
static kp_dur_ns
events_cost(const struct kp_cost *c)
{
	kp_dur_ns events = sat_add(
	    times(c->events - c->ring_events, KP_COST_EVENT),
	    times(c->ring_events, KP_COST_NATIVE));

	return sat_add(events, times(c->sampled, KP_COST_SAMPLED));
}

kp_dur_ns
kp_cost_fixed(const struct kp_cost *c)
{
	return sat_add(calls_cost(c), switches_cost(c));
}

kp_dur_ns
kp_cost_total(const struct kp_cost *c)
{
	return sat_add(sat_add(events_cost(c), kp_cost_fixed(c)), c->agent);
}

const char *
kp_cost_text(const struct kp_cost *c, kp_dur_ns over, char *text, size_t n)
{
	double each = over > 0 ? 100 / (double)over : 0;

	snprintf(text, n, "%.2f %% of a scheduler (agent %.2f, events of "
	    "sampled requests %.2f, armed calls %.2f, scheduling of processes "
	    "with trace flags %.2f)", each * (double)kp_cost_total(c),
	    each * (double)c->agent, each * (double)events_cost(c),
	    each * (double)calls_cost(c), each * (double)switches_cost(c));
	return text;
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
