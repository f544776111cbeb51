/* suggest_node.c - counts and traces for kprof suggest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "client/functions/suggest_node.h"
#include "profile/node/counters.h"
#include "agent/probe_file.h"

/* Of thousands of functions on a busy node; a trace comes next. */
#define UNCOUNT_WAIT (30 * KP_NS_PER_S)
#define MEMORY_MAX (128u * MB)
#define FUNCTIONS_MAX 50000u	/* of the modules: the last one may be large */
#define CALLED_MAX 1000u
#define REQUESTS_LEAST 200.0	/* that a trace is to have, if it can */
#define HOT_STEP 1.5

/* ---- the node ---- */

static struct injected_opts
injected(const struct suggest_node *s, const struct kp_mfa_pat *v, size_t n)
{
	return (struct injected_opts){ .talk = s->talk, .patterns = v,
		.npatterns = n, .processes = "", .apply = "", .spawned = true,
		.span = s->short_span, .max_functions = FUNCTIONS_MAX,
		.max_processes = 1000000, .max_memory = MEMORY_MAX };
}

enum kp_err
suggest_node_open(struct suggest_node *s)
{
	enum kp_err e = facts_open(&s->facts, &s->talk, MEMORY_MAX,
	    s->why, sizeof(s->why));

	if (e != KP_OK)
		return e;
	probe_file(s->library, sizeof(s->library), "kprof_calls_probe.so");
	return KP_OK;
}

void
suggest_node_free(struct suggest_node *s)
{
	free(s->modules);	/* the names are of the facts */
	suggest_stacks_free(&s->stacks);
	suggest_pools_free(&s->pools);
	kp_call_names_free(s->stack_names);
	for (uint32_t i = 0; i < s->ngroups; i++)
		free(s->groups[i]);
	free(s->groups);
	free(s->called);
	free(s->rates);
	free(s->counted);
	kp_call_names_free(s->names);
	facts_free(s->facts);
}

/* ---- calls ---- */

static enum kp_err
called_add(struct suggest_node *s, struct kp_mfa_pat p)
{
	enum kp_err e = vec_room(&s->called, &s->called_room, s->ncalled,
	    CALLED_MAX);

	if (e == KP_OK)
		s->called[s->ncalled++] = p;
	return e == KP_ELIMIT ? KP_OK : e;
}

/*
 * A module is armed as a whole, in one step, unless it has hot functions.  v: its
 * functions that were counted.
 */
static enum kp_err
called_module(struct suggest_node *s, const uint32_t *v, size_t n)
{
	const struct kp_call_fn *fns = s->names->fns, *fn = &fns[v[0]];
	double rate = 0;
	size_t hot = 0;
	enum kp_err e = KP_OK;

	for (size_t i = 0; i < n; i++) {
		if (s->rates[v[i]] > s->hot)
			hot++;
		else
			rate += s->rates[v[i]];
	}
	s->nhot += hot;
	s->called_rate += rate;
	if (hot == 0)
		return rate == 0 ? KP_OK : called_add(s, (struct kp_mfa_pat){
		    .mod = fn->mod, .arity = -1 });
	for (size_t i = 0; i < n && e == KP_OK; i++) {
		fn = &fns[v[i]];
		if (s->rates[v[i]] > 0 && s->rates[v[i]] <= s->hot)
			e = called_add(s, (struct kp_mfa_pat){ .mod = fn->mod,
			    .fun = fn->fun, .arity = (int)fn->arity });
	}
	return e;
}

/* What a trace is to have: all that is called, but what is hot. */
static enum kp_err
called_find(struct suggest_node *s, double hot)
{
	enum kp_err e = KP_OK;

	s->hot = hot;
	s->ncalled = s->nhot = 0;
	s->called_rate = 0;
	for (size_t i = 0, to; i < s->ncounted && e == KP_OK; i = to) {
		for (to = i + 1; to < s->ncounted && suggest_same_module(s->names,
		    s->counted[to], s->counted[i]); to++)
			;
		e = called_module(s, s->counted + i, to - i);
	}
	return e == KP_OK ? e : suggest_node_no_memory(s);
}

static int
name_order(const void *a, const void *b, void *names)
{
	return kp_call_fn_order(names, *(const uint32_t *)a,
	    *(const uint32_t *)b);
}

static enum kp_err
rates_keep(struct suggest_node *s, const struct kp_counts *p)
{
	double seconds = (double)p->elapsed / KP_NS_PER_S;

	s->rates = calloc(p->names->nfns + 1, sizeof(*s->rates));
	s->counted = calloc(p->nrows + 1, sizeof(*s->counted));
	if (s->rates == NULL || s->counted == NULL)
		return suggest_node_no_memory(s);
	s->nrates = p->names->nfns;
	s->ncounted = p->nrows;
	for (size_t i = 0; i < p->nrows; i++) {
		s->counted[i] = p->rows[i].fn;
		s->cost.counts.counted += (double)p->rows[i].calls;
		if (seconds > 0)
			s->rates[p->rows[i].fn] = (double)p->rows[i].calls /
			    seconds;
	}
	if (p->nrows > 0)
		qsort_r(s->counted, p->nrows, sizeof(*s->counted), name_order,
		    p->names);
	return called_find(s, SUGGEST_HOT_RATE);
}

static double
rate_below(const struct suggest_node *s, double hot)
{
	double sum = 0;

	for (size_t i = 0; i < s->ncounted; i++)
		if (s->rates[s->counted[i]] <= hot)
			sum += s->rates[s->counted[i]];
	return sum;
}

/*
 * What makes a trace of requests long enough: without the functions that are called
 * most often, which are in no tier, more requests are within its events.  rate: of the
 * entry; a call has two events.
 */
static double
hot_for_requests(const struct suggest_node *s, double rate)
{
	double least = SUGGEST_MEASURED_CALLS * rate, hot = SUGGEST_HOT_RATE;

	while (rate > 0 && hot > least && 2 * rate_below(s, hot) / rate *
	    REQUESTS_LEAST > SUGGEST_EVENTS_MAX)
		hot = hot / HOT_STEP > least ? hot / HOT_STEP : least;
	return hot;
}

/* Before OTP 27 a kprofd there is the one tracer: what it traces is refused. */
static void
explain_refusal(struct suggest_node *s)
{
	if (s->otp >= 27 || facts_find(s->facts, "kprof_agent") == NULL)
		return;
	snprintf(s->why, sizeof(s->why), "'%s' is being profiled by a kprofd, and "
	    "before OTP 27 a node has one tracer: end that kprofd first",
	    s->talk.target);
}

enum kp_err
suggest_node_count(struct suggest_node *s)
{
	struct counters_opts o = { .g = injected(s, s->modules, s->nmodules),
		.type = KP_COUNTS_CALLS, .max_rows = FUNCTIONS_MAX };
	struct kp_counts p = { .names = kp_call_names_new() };
	enum kp_calls_end end;
	struct injected_hello h;
	struct counters *c = NULL;
	enum kp_err e = KP_ENOMEM;

	kp_call_names_free(s->names);
	free(s->rates);
	free(s->counted);
	s->names = p.names;
	s->rates = NULL;
	s->counted = NULL;
	s->ncounted = s->ncalled = s->nhot = 0;
	s->cost.counts.loads++;
	s->cost.counts.patterns += s->nmodules;
	snprintf(s->why, sizeof(s->why), "out of memory");
	if (p.names != NULL)
		e = counters_start(&c, &o, &h, s->why, sizeof(s->why));
	if (e == KP_OK) {
		s->otp = h.otp;
		s->functions += h.functions;
		e = counters_wait(c, kp_mono_now() + s->short_span, &end, s->why,
		    sizeof(s->why));
		e = e == KP_ETIMEOUT ? KP_OK : e;
	}
	if (e == KP_OK)
		e = counters_read(c, true, &p, s->why, sizeof(s->why));
	/* On OTP 25 and 26 a trace would find its counters, and be refused. */
	counters_stop(c, e == KP_OK ? UNCOUNT_WAIT : 0);
	if (e == KP_OK)
		e = rates_keep(s, &p);
	else if (e != KP_END)
		explain_refusal(s);
	kp_counts_free(&p);
	return e;
}

double
suggest_node_rate(const struct suggest_node *s, const struct kp_call_fn *f)
{
	struct kp_span mod = { (const uint8_t *)f->mod,
		(uint32_t)strlen(f->mod) };
	struct kp_span fun = { (const uint8_t *)f->fun,
		(uint32_t)strlen(f->fun) };
	uint32_t fn;
	bool added;

	if (s->rates == NULL)
		return -1;
	if (kp_call_fn_put(s->names, mod, fun, f->arity, &fn, &added) != KP_OK ||
	    added || fn >= s->nrates)
		return -1;
	return s->rates[fn];
}

/* ---- traces ---- */

static enum kp_err
on_event(void *ctx, const struct kp_call_event *ev)
{
	return suggest_calls_event(ctx, ev);
}

/* Calls a second of functions that are traced; v of s->called, or functions. */
static double
rate_of_all(const struct suggest_node *s, const struct kp_mfa_pat *v, size_t n)
{
	double sum = 0, rate;

	if (v == s->called)
		return s->called_rate;
	for (size_t i = 0; i < n; i++) {
		rate = suggest_node_rate(s, &(struct kp_call_fn){ .mod =
		    v[i].mod, .fun = v[i].fun, .arity = (uint32_t)v[i].arity });
		sum += rate > 0 ? rate : 0;
	}
	return sum;
}

static enum kp_err
trace(struct suggest_node *s, const struct kp_mfa_pat *entry,
    const struct kp_mfa_pat *v, size_t n, struct kp_call_names *names,
    struct suggest_calls *c)
{
	const struct tracers_sink sink = { .event = on_event, .ctx = c };
	struct tracer_opts o = { .g = injected(s, v, n),
		.max_events = entry != NULL ? SUGGEST_EVENTS_MAX :
		SUGGEST_ALL_EVENTS,
		.max_queue = SUGGEST_QUEUE_MAX, .entry = entry,
		.nentries = entry != NULL, .requests = entry != NULL ?
		SUGGEST_REQUESTS : 0, .probe = TRACER_AUTO,
		.probe_library = s->library };
	kp_dur_ns span = entry == NULL && s->short_span > SUGGEST_ALL_SPAN ?
	    SUGGEST_ALL_SPAN : s->short_span;
	struct tracers *ts = NULL;
	kp_mono_ns begun = kp_mono_now();
	enum kp_err e;

	s->cost.traces.loads++;
	s->cost.traces.patterns += n;
	s->cost.traces.processes += s->processes;
	e = tracers_start(&ts, &o, &s->talk.target, 1, names, s->why,
	    sizeof(s->why));
	if (e == KP_OK)
		e = tracers_go(ts, s->why, sizeof(s->why));
	if (e == KP_OK) {
		e = tracers_run(ts, kp_mono_now() + span, &sink);
		if (e == KP_OK || e == KP_ETIMEOUT)
			e = tracers_end(ts, &sink);
		if (e != KP_OK && e != KP_END)
			snprintf(s->why, sizeof(s->why), "cannot add up calls: "
			    "%s", kp_err_str(e));
	}
	tracers_stop(ts);
	s->cost.traces.armed += rate_of_all(s, v, n) *
	    (double)(kp_mono_now() - begun) / KP_NS_PER_S;
	return e;
}

/* A trace of requests is too short to see all loops. */
static void
loops_carry(const struct suggest_calls *before,
    const struct kp_call_names *names, struct suggest_fn *fns)
{
	const struct kp_call_fn *a, *b;

	for (uint32_t i = KP_FN_FIRST; i < before->names->nfns; i++) {
		a = &before->names->fns[i];
		for (uint32_t k = KP_FN_FIRST; (before->loops[i] ||
		     before->recursive[i]) && k < names->nfns; k++) {
			b = &names->fns[k];
			if (a->arity == b->arity &&
			    strcmp(a->fun, b->fun) == 0 &&
			    strcmp(a->mod, b->mod) == 0) {
				fns[k].loop |= before->loops[i];
				fns[k].recursive |= before->recursive[i];
			}
		}
	}
}

/* In *c and *fns; names may have functions already. */
static enum kp_err
trace_in(struct suggest_node *s, const struct kp_mfa_pat *entry,
    const struct kp_mfa_pat *v, size_t n, const struct suggest_calls *before,
    struct kp_call_names *names, struct suggest_calls **c,
    struct suggest_fn **fns)
{
	enum kp_err e = KP_ENOMEM;

	*fns = NULL;
	*c = suggest_calls_new(names);
	if (*c == NULL)
		suggest_node_no_memory(s);
	else if (entry != NULL)
		suggest_calls_entry(*c, entry->mod, entry->fun,
		    (uint32_t)entry->arity);
	if (*c != NULL)
		e = trace(s, entry, v, n, names, *c);
	if (e == KP_OK)
		e = facts_describe(s->facts, names, fns, s->why,
		    sizeof(s->why));
	if (e == KP_OK)
		suggest_pools_mark(&s->pools, names, *fns);
	if (e == KP_OK && before != NULL)
		loops_carry(before, names, *fns);
	if (e == KP_OK)
		e = suggest_calls_end(*c, *fns);
	if (e == KP_OK) {
		s->events += (*c)->events;
		s->cost.traces.events += (double)(*c)->events;
		return KP_OK;
	}
	suggest_calls_free(*c);
	free(*fns);
	*c = NULL;
	*fns = NULL;
	return e;
}

enum kp_err
suggest_node_trace(struct suggest_node *s, const struct kp_mfa_pat *entry,
    double rate, const struct suggest_calls *before,
    struct kp_call_names **names, struct suggest_calls **c,
    struct suggest_fn **fns)
{
	enum kp_err e;

	*c = NULL;
	*fns = NULL;
	*names = kp_call_names_new();
	if (*names == NULL)
		return suggest_node_no_memory(s);
	e = called_find(s, entry != NULL ? hot_for_requests(s, rate) :
	    SUGGEST_HOT_RATE);
	if (e == KP_OK)
		e = trace_in(s, entry, s->called, s->ncalled, before, *names,
		    c, fns);
	if (e == KP_OK)
		return KP_OK;
	kp_call_names_free(*names);
	*names = NULL;
	return e;
}

/* ---- the draft alone ---- */

static bool
is_helper(const struct suggest_tiers *t, const struct kp_call_names *names,
    uint32_t fn)
{
	for (size_t i = 0; i < t->nleft; i++)
		if (t->left[i].why == SUGGEST_HELPER && suggest_same_module(
		    names, t->left[i].fn, fn))
			return true;
	return false;
}

/* By function: time in calls from other modules; 0: not to be traced. */
static kp_dur_ns *
ways_in(const struct suggest_tiers *t, const struct kp_call_names *names,
    const struct suggest_calls *c, const struct suggest_fn *fns)
{
	kp_dur_ns *time = calloc(names->nfns + 1, sizeof(*time));
	uint64_t *calls = calloc(names->nfns + 1, sizeof(*calls));
	const struct suggest_spot *s;

	for (uint32_t i = 1; time != NULL && calls != NULL && i < c->nspots;
	     i++) {
		s = &c->spots[i];
		calls[s->fn] += s->calls;
		if (s->calls > 0 && (s->parent == 0 || fns[s->fn].waits ||
		    !suggest_same_module(names, s->fn, c->spots[s->parent].fn)))
			time[s->fn] += s->total + 1;
	}
	for (uint32_t i = 0; time != NULL && calls != NULL && i < names->nfns;
	     i++)
		if (calls[i] > SUGGEST_MEASURED_CALLS * t->requests ||
		    suggest_anonymous(names, i) || c->recursive[i] ||
		    fns[i].recursive || fns[i].unnamed || fns[i].loop ||
		    is_helper(t, names, i))
			time[i] = 0;
	free(calls);
	return time;
}

/* Functions with the same numbers, and no nodes.  NULL: out of memory. */
static struct kp_call_names *
names_copy(const struct kp_call_names *t)
{
	struct kp_call_names *to = kp_call_names_new();
	const struct kp_call_fn *f;
	struct kp_span mod, fun;
	uint32_t fn;
	bool added;

	for (uint32_t i = KP_FN_FIRST; to != NULL && i < t->nfns; i++) {
		f = &t->fns[i];
		mod = (struct kp_span){ (const uint8_t *)f->mod,
			(uint32_t)strlen(f->mod) };
		fun = (struct kp_span){ (const uint8_t *)f->fun,
			(uint32_t)strlen(f->fun) };
		if (kp_call_fn_put(to, mod, fun, f->arity, &fn, &added) !=
		    KP_OK || fn != i) {
			kp_call_names_free(to);
			return NULL;
		}
	}
	return to;
}

enum kp_err
suggest_node_measure(struct suggest_node *s, const struct kp_mfa_pat *entry,
    const struct suggest_tiers *t, const struct kp_call_names *names,
    const struct suggest_calls *before, const struct suggest_fn *fns,
    struct kp_call_names **out_names, struct suggest_calls **c,
    struct suggest_fn **out)
{
	kp_dur_ns *time = ways_in(t, names, before, fns);
	struct kp_mfa_pat v[SUGGEST_MEASURED] = { *entry };
	size_t n = 1;
	uint32_t best, known = names->nfns;
	enum kp_err e;

	while (time != NULL && n < SUGGEST_MEASURED) {
		best = 0;
		for (uint32_t i = KP_FN_FIRST; i < known; i++)
			best = time[i] > time[best] ? i : best;
		if (best == 0 || time[best] == 0)
			break;
		time[best] = 0;
		v[n++] = (struct kp_mfa_pat){ .mod = names->fns[best].mod,
			.fun = names->fns[best].fun,
			.arity = (int)names->fns[best].arity };
	}
	*out_names = names_copy(names);
	e = time == NULL || *out_names == NULL ? suggest_node_no_memory(s) :
	    trace_in(s, entry, v, n, before, *out_names, c, out);
	free(time);
	if (e != KP_OK) {
		kp_call_names_free(*out_names);
		*out_names = NULL;
	}
	for (uint32_t i = 0; e == KP_OK && i < known; i++)
		(*out)[i].chosen = fns[i].chosen;
	return e;
}

/* ---- what it took ---- */

void
suggest_node_checked(struct suggest_node *s, const struct suggest_tiers *t,
    const struct kp_call_names *names, double events, kp_dur_ns span)
{
	struct suggest_work *w = &s->cost.checks;
	double rate, seconds = (double)span / KP_NS_PER_S;

	w->loads++;
	w->processes += s->processes;
	w->events += events * seconds;
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->v[i].nfns; k++) {
			rate = suggest_node_rate(s,
			    &names->fns[t->v[i].fns[k]]);
			w->armed += rate > 0 ? rate * seconds : 0;
			w->patterns++;
		}
}

struct suggest_cost
suggest_node_cost(const struct suggest_node *s)
{
	struct suggest_cost c = s->cost;

	c.asked.questions = s->facts != NULL ? facts_questions(s->facts) : 0;
	return c;
}
