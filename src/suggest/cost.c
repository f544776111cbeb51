/* cost.c - adds up what the parts of kprof suggest take. */
#include "base/sat.h"
#include "suggest/cost.h"

/* Counts come from a node: a product may be larger than any time. */
static kp_dur_ns
times(double n, kp_dur_ns each)
{
	double t = n * (double)each;

	return t < (double)(INT64_MAX / 2) ? (kp_dur_ns)t : INT64_MAX / 2;
}

kp_dur_ns
suggest_work_time(const struct suggest_work *w)
{
	kp_dur_ns t = times((double)w->loads, SUGGEST_COST_LOAD);

	t = sat_add(t, times((double)w->questions, SUGGEST_COST_QUESTION));
	t = sat_add(t, times((double)w->patterns, SUGGEST_COST_PATTERN));
	t = sat_add(t, times((double)w->processes, SUGGEST_COST_FLAGS));
	t = sat_add(t, times(w->counted, SUGGEST_COST_COUNTED));
	t = sat_add(t, times(w->armed, SUGGEST_COST_ARMED));
	return sat_add(t, times(w->events, SUGGEST_COST_EVENT));
}

kp_dur_ns
suggest_cost_time(const struct suggest_cost *c)
{
	kp_dur_ns t = sat_add(c->sampling, suggest_work_time(&c->asked));

	t = sat_add(t, suggest_work_time(&c->counts));
	t = sat_add(t, suggest_work_time(&c->traces));
	return sat_add(t, suggest_work_time(&c->checks));
}
