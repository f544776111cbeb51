/*
 * tracing_cost.c - pairs the events of the two measuring functions, and takes
 * the median of each series.
 */
#include <stdlib.h>

#include "kprofd/label.h"
#include "guard/tracing_cost.h"

#define MEASURES (KP_LABEL_KPROFD << (KP_LABEL_KIND_SHIFT - \
	KP_LABEL_CONST_SHIFT) | KP_LABEL_MEASURES)

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
	if (ev->kind == KP_EV_CALL &&
	    ev->label >> KP_LABEL_CONST_SHIFT == MEASURES) {
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
