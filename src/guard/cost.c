/*
 * cost.c - multiplies the counts of what tracing does by what each costs, without
 * overflow; and measures what tracing adds to the times of traced calls.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/sat.h"
#include "kprofd/cost.h"

void
kp_cost_add(struct kp_cost *to, const struct kp_cost *c)
{
	to->events += c->events;
	to->ring_events += c->ring_events;
	to->armed_calls += c->armed_calls;
	to->switches += c->switches;
	to->marked += c->marked;
	to->sampled += c->sampled;
	to->agent = sat_add(to->agent, c->agent);
}

#define RATE_MAX 1e15

struct kp_cost
kp_cost_foresee(double calls, double requests, double share, bool native)
{
	struct kp_cost c;

	/* a node gives these numbers */
	calls = calls < RATE_MAX ? calls : RATE_MAX;
	requests = requests < RATE_MAX ? requests : RATE_MAX;
	c = (struct kp_cost){
		.armed_calls = (uint64_t)calls,
		.events = (uint64_t)(2 * share * calls),	/* and its end */
		.switches = (uint64_t)(KP_COST_SWITCHES * requests),
		.marked = (uint64_t)(KP_COST_SWITCHES * share * requests),
		.sampled = (uint64_t)(share * requests),
	};

	c.ring_events = native ? c.events : 0;
	return c;
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

/* With what sampled requests cost besides them. */
static kp_dur_ns
events_cost(const struct kp_cost *c)
{
	kp_dur_ns events = sat_add(
	    times(c->events - c->ring_events, KP_COST_EVENT),
	    times(c->ring_events, KP_COST_NATIVE));

	return sat_add(events, times(c->marked, KP_COST_TOKEN));
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

/* ---- measured: pairs of events of two functions, and the median of each series ---- */

static bool
is_its_process(const struct tracing_cost *t, const struct kp_event *ev)
{
	return ev->pid.id == t->pid.id && ev->pid.serial == t->pid.serial &&
	    ev->pid.creation == t->pid.creation;
}

/* around has one argument, inside has none; the arity is the last byte. */
static bool
is_around(const struct kp_event *ev)
{
	return ev->mfa.n > 0 && ev->mfa.p[ev->mfa.n - 1] == 1;
}

static int
dur_cmp(const void *pa, const void *pb)
{
	const kp_dur_ns *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

/* Returns at least 1 ns: 0 means not measured. */
static kp_dur_ns
median(kp_dur_ns *v, unsigned n)
{
	qsort(v, n, sizeof(*v), dur_cmp);
	return v[n / 2] > 0 ? v[n / 2] : 1;
}

static void
series_end(struct tracing_cost *t)
{
	if (t->n >= TRACING_COST_LEAST) {
		t->call = median(t->call_ns, t->n);
		t->caller = median(t->caller_ns, t->n);
	}
	t->n = 0;
}

static void
pair_end(struct tracing_cost *t)
{
	kp_dur_ns inside = t->at[2] - t->at[1];

	t->call_ns[t->n] = inside;
	t->caller_ns[t->n++] = t->at[3] - t->at[0] - 2 * inside;
	t->have = 0;
	if (t->n == TRACING_COST_SERIES) {
		series_end(t);
		t->pid = (struct kp_pid){ 0 };
	}
}

/* A new process begins a new series, even if events of the last were lost. */
static void
called(struct tracing_cost *t, const struct kp_event *ev)
{
	if (!is_its_process(t, ev)) {
		series_end(t);
		t->pid = ev->pid;
		t->pid.node = (struct kp_span){ 0 };
		t->have = 0;
	}
	if (is_around(ev)) {
		t->at[0] = ev->ts;
		t->have = 1;
	} else if (t->have == 1) {
		t->at[1] = ev->ts;
		t->have = 2;
		t->exact = false;
	} else {
		t->have = 0;
	}
}

/* If both events come for an end, return_from comes first. */
static void
returned(struct tracing_cost *t, const struct kp_event *ev)
{
	if (t->have < 2)
		return;
	if (t->have == 2)
		t->exact = ev->kind == KP_EV_RETURN_FROM;
	if (t->exact != (ev->kind == KP_EV_RETURN_FROM))
		return;
	t->at[t->have++] = ev->ts;
	if (t->have == 4)
		pair_end(t);
}

bool
tracing_cost_event(struct tracing_cost *t, const struct kp_event *ev)
{
	if (ev->ts > KP_TARGET_TIME_MAX || ev->ts < -KP_TARGET_TIME_MAX)
		return false;
	if (ev->kind == KP_EV_CALL && kp_label_measures(ev->label)) {
		called(t, ev);
		return true;
	}
	if (t->pid.id == 0 || !is_its_process(t, ev))
		return false;
	if (ev->kind == KP_EV_ENTRY || ev->kind == KP_EV_CALL ||
	    ev->kind == KP_EV_CLEAR) {
		/* This is a later process with the same id. */
		t->pid = (struct kp_pid){ 0 };
		return false;
	}
	if (ev->kind == KP_EV_RETURN_TO || ev->kind == KP_EV_RETURN_FROM ||
	    ev->kind == KP_EV_EXCEPTION_FROM)
		returned(t, ev);
	return true;
}
