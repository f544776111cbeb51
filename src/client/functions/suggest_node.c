/*
 * suggest_node.c - what kprof suggest learns of a node: it samples stacks, chooses the
 * modules that are on them or near (those that processes began with, and others of the
 * same applications, since what is short is hardly ever sampled), counts calls of their
 * functions, and traces some requests.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/probe_file.h"
#include "base/vec.h"
#include "client/functions/suggest.h"
#include "profile/node/counters.h"
#include "profile/node/sampler.h"

#define STACKS 2000u		/* a second, at most, while they take less than */
#define PPM 10000u		/* millionths of a scheduler */
#define POOLS_SPAN (5 * KP_NS_PER_S)	/* a node says in 2 which pools it has */
#define WORKING 1000u		/* samples at work; with fewer it samples as long again */
#define GROUPS_MAX 1000u
#define FNS_LOOKED 4000u	/* functions on stacks */
/* A node answers for 1,024 patterns; each is set in 0.1 to 7 ms. */
#define MODULES_MAX 500u
#define MODULES_FNS_MAX 8000u	/* of the modules that are counted, in all */
#define FUNCTIONS_MAX 50000u	/* of the modules: the last one may be large */
#define EVENTS_MAX 60000u	/* of a trace of requests: 60 ms of the node's time */
#define QUEUE_MAX 15000u	/* events that wait in the node */
#define MEASURED 150u		/* functions that are traced alone */
#define REQUESTS_LEAST 200.0	/* that a trace is to have, if it can; and has, if it floods: */
#define REQUESTS_FLOODED 20u
#define FLOODED 4		/* after a flood a trace has so much less */
#define FLOODS 4		/* traces that are made at most; after these it leaves out */
#define FLOODS_ALL 2		/* libraries, too */
/* Of thousands of functions on a busy node; a trace comes next. */
#define UNCOUNT_WAIT (30 * KP_NS_PER_S)
#define LEAVE_WAIT (60 * KP_NS_PER_S)	/* for the last tracer of ours, in a busy node */
#define MEMORY_MAX (128u * MB)
#define CALLED_MAX 1000u
#define HOT_STEP 1.5

enum kp_err
suggest_node_no_memory(struct suggest_node *s)
{
	snprintf(s->why, sizeof(s->why), "out of memory");
	return KP_ENOMEM;
}

/* ---- the node ---- */

void
suggest_calls_free(struct suggest_calls *c)
{
	suggest_tree_free(c->tree);
	kp_call_names_free(c->names);
	free(c->fns);
	*c = (struct suggest_calls){ .names = NULL };
}

static struct injected_opts
injected(const struct suggest_node *s, const struct kp_mfa_pat *v, size_t n)
{
	return (struct injected_opts){ .talk = s->talk, .patterns = v,
		.npatterns = n, .processes = "", .apply = "", .spawned = true,
		.span = s->short_span, .max_functions = FUNCTIONS_MAX,
		.max_processes = 1000000, .max_memory = MEMORY_MAX };
}

/* The frameworks of which a module is loaded. */
static enum kp_err
stocks_open(struct suggest_node *s)
{
	const struct suggest_framework *k;
	struct kp_diags diags;
	enum kp_err e = KP_OK;

	for (k = suggest_frameworks; k < suggest_frameworks + suggest_nframeworks &&
	     e == KP_OK && s->nstocks < SUGGEST_STOCKS_MAX; k++) {
		if (k->stock == NULL || facts_find(&s->facts, k->module) == NULL)
			continue;
		e = kp_conf_parse(&s->stocks[s->nstocks].conf, k->stock,
		    strlen(k->stock), &diags);
		kp_diags_free(&diags);
		if (e == KP_OK)
			s->stocks[s->nstocks++].of = k;
	}
	return e;
}

const struct suggest_stock *
suggest_stock_of(const struct suggest_node *s, const struct kp_call_fn *f)
{
	const struct kp_mfa mfa = { f->mod, f->fun, f->arity };
	const struct kp_conf *c;

	for (size_t i = 0; i < s->nstocks; i++) {
		c = s->stocks[i].conf;
		for (size_t k = 0; k < c->nentries; k++)
			if (kp_mfa_pat_covers(&c->entries[k].fn, &mfa))
				return &s->stocks[i];
	}
	return NULL;
}

enum kp_err
suggest_node_open(struct suggest_node *s)
{
	enum kp_err e = facts_open(&s->facts, &s->talk, MEMORY_MAX,
	    s->why, sizeof(s->why));

	if (e != KP_OK)
		return e;
	probe_file(s->library, sizeof(s->library), "kprof_calls_probe.so");
	return stocks_open(s) == KP_OK ? KP_OK : suggest_node_no_memory(s);
}

void
suggest_node_free(struct suggest_node *s)
{
	for (size_t i = 0; i < s->nstocks; i++)
		kp_conf_free(s->stocks[i].conf);
	free(s->modules);	/* the names are of the facts */
	suggest_stacks_free(&s->stacks);
	suggest_pools_free(&s->pools);
	kp_call_names_free(s->stack_names);
	for (uint32_t i = 0; i < s->ngroups; i++)
		free(s->groups[i]);
	free(s->groups);
	free(s->called);
	free(s->rates);
	free(s->facts_of);
	free(s->counted);
	kp_call_names_free(s->names);
	facts_free(&s->facts);
}

/* ---- samples ---- */

/* While samples are taken. */
struct sampling {
	struct suggest_node *s;
	struct kp_stack_table *table;
	uint32_t *fns;		/* of the table -> our number; 0: not known yet */
	uint32_t nfns;
	enum kp_err err;
};

/* KP_FN_UNDEFINED: its name cannot be read. */
static uint32_t
fn_of(struct sampling *x, uint32_t fn)
{
	const char *text = kp_stack_fn(x->table, fn);
	struct kp_mfa_pat p = { .mod = NULL };
	uint32_t ours = KP_FN_UNDEFINED;
	bool added;

	if (vec_reach(&x->fns, &x->nfns, fn) != KP_OK) {
		x->err = KP_ENOMEM;
		return KP_FN_UNDEFINED;
	}
	if (x->fns[fn] != 0)
		return x->fns[fn];
	if (kp_mfa_pat_parse(&p, text, strlen(text)) == KP_OK) {
		if (p.fun != NULL && p.arity >= 0)
			kp_call_fn_put(x->s->stack_names, kp_span_of(p.mod),
			    kp_span_of(p.fun), (uint32_t)p.arity, &ours, &added);
		kp_mfa_pat_free(&p);
	}
	return x->fns[fn] = ours;
}

static unsigned
doing(const struct sampling *x, const struct kp_stack_sample *m,
    const uint32_t *fns, uint32_t n)
{
	const char *fun = n > 0 ? x->s->stack_names->fns[fns[n - 1]].fun : "";

	switch (m->state) {
	case KP_STACK_CALL:
		return SUGGEST_WAIT_CALL;
	case KP_STACK_PORT:
		return strstr(fun, "recv") != NULL ||
		    strstr(fun, "accept") != NULL ? SUGGEST_WAIT_INPUT :
		    SUGGEST_WAIT_PORT;
	case KP_STACK_WAIT:
		return SUGGEST_WAIT_OTHER;
	default:
		return SUGGEST_WORKS;
	}
}

/* A stack of this many frames may have more, unless the process began there. */
static bool
is_cut(const struct sampling *x, const uint32_t *fns, uint32_t n)
{
	return n > 0 && strcmp(x->s->stack_names->fns[fns[0]].mod,
	    "proc_lib") != 0;
}

/* Does a server handle a message, which it may do by waiting for another process? */
static bool
serves(const struct sampling *x, const uint32_t *fns, uint32_t n)
{
	static const char *const begins[] = { "try_handle_", "try_dispatch",
		"handle_msg", "loop_state_callback" };
	const struct kp_call_fn *f;

	for (uint32_t i = 0; i + 1 < n; i++) {
		f = &x->s->stack_names->fns[fns[i]];
		if (strncmp(f->mod, "gen_", 4) != 0)
			continue;
		for (size_t k = 0; k < sizeof(begins) / sizeof(begins[0]); k++)
			if (strncmp(f->fun, begins[k], strlen(begins[k])) == 0)
				return true;
	}
	return false;
}

static void
on_sample(void *ctx, const struct kp_stack_sample *m)
{
	struct sampling *x = ctx;
	const struct kp_stack_frame *frames;
	uint32_t fns[SUGGEST_FRAMES_MAX], n;
	unsigned does;
	enum kp_err e;

	if (m->state == KP_STACK_NOT_SEEN || x->err != KP_OK)
		return;
	frames = kp_stack_frames(x->table, m->stack, &n);
	n = n < SUGGEST_FRAMES_MAX ? n : SUGGEST_FRAMES_MAX;
	for (uint32_t i = 0; i < n; i++)
		fns[i] = fn_of(x, frames[i].fn);
	does = doing(x, m, fns, n);
	e = suggest_stacks_add(&x->s->stacks, m->stack, fns, n,
	    is_cut(x, fns, n), does, m->time);
	if (e != KP_OK)
		x->err = e;
	if (does == SUGGEST_WAIT_INPUT)
		suggest_pools_input(&x->s->pools, m->proc);
	if (suggest_pools_sample(&x->s->pools, m->proc, does == SUGGEST_WORKS ||
	    does == SUGGEST_WAIT_CALL || does == SUGGEST_WAIT_PORT ||
	    serves(x, fns, n), m->time))
		suggest_stacks_pooled(&x->s->stacks, m->stack, m->time);
}

/* A group may be named by the function that its processes began with. */
static void
on_group(void *ctx, const struct kp_stack_group *g)
{
	struct sampling *x = ctx;
	struct suggest_node *s = x->s;
	struct kp_mfa_pat p = { .mod = NULL };

	if (kp_mfa_pat_parse(&p, g->name, strlen(g->name)) != KP_OK)
		return;
	if (vec_room_by_len(&s->groups, s->ngroups, GROUPS_MAX) == KP_OK) {
		s->groups[s->ngroups] = strdup(p.mod);
		if (s->groups[s->ngroups] == NULL)
			x->err = KP_ENOMEM;
		else
			s->ngroups++;
	}
	kp_mfa_pat_free(&p);
}

static enum kp_err
take(struct sampling *x, struct injected *m)
{
	struct suggest_node *s = x->s;
	struct sampler_sink sink = { .table = x->table, .ctx = x,
		.ops = { on_sample, on_group } };
	struct sampler_totals totals;
	kp_mono_ns since;
	enum kp_err e = sampler_pools(m, kp_mono_now() + POOLS_SPAN,
	    &sink, &s->pools, s->why, sizeof(s->why));

	/* Samples of pools are of after that. */
	since = kp_mono_now();
	if (e == KP_OK || e == KP_ETIMEOUT)
		e = sampler_take(m, kp_mono_now() + s->span, &sink, s->why,
		    sizeof(s->why));
	/* A node that has little to do is looked at for longer. */
	if (e == KP_ETIMEOUT && s->stacks.working < WORKING)
		e = sampler_take(m, kp_mono_now() + s->span, &sink, s->why,
		    sizeof(s->why));
	if (e == KP_ETIMEOUT)
		e = sampler_read(m, true, &sink, &totals, s->why,
		    sizeof(s->why));
	if (e == KP_OK && x->err != KP_OK)
		return suggest_node_no_memory(s);
	if (e == KP_OK) {
		s->sampled = totals.elapsed;
		s->pooled = kp_mono_now() - since;
		s->cost.sampling = sink.counts.busy;
	}
	return e;
}

static enum kp_err
sample(struct suggest_node *s)
{
	struct sampler_opts o = { .g = { .talk = s->talk, .processes = "",
		.apply = "", .max_processes = 1000000 },
		.per_second = STACKS, .ppm = PPM };
	struct sampling x = { .s = s, .table = kp_stack_table_new() };
	struct injected_hello h;
	struct injected *m = NULL;
	enum kp_err e;

	s->stack_names = kp_call_names_new();
	s->stacks.names = s->stack_names;
	if (x.table == NULL || s->stack_names == NULL)
		e = suggest_node_no_memory(s);
	else
		e = sampler_start(&m, &o, &h, s->why, sizeof(s->why));
	if (e == KP_OK) {
		functions_say_doubt(s->talk.target, &h);
		s->otp = h.otp;
		s->processes = h.processes;
		s->cost.asked.loads++;
		e = take(&x, m);
	}
	injected_stop(m, 0);
	free(x.fns);
	kp_stack_table_free(x.table);
	return e;
}

/* ---- modules ---- */

/* Adds it to v, once. */
static void
choose(struct facts_module **v, size_t *n, struct facts_module *m)
{
	if (m == NULL || m->chosen ||
	    (m->platform && !facts_is_client(m->name)))
		return;
	m->chosen = true;
	v[(*n)++] = m;
}

/* In the order in which the node is asked about them. */
static size_t
choose_all(struct suggest_node *s, struct facts_module **v, uint32_t *fns)
{
	struct facts *f = &s->facts;
	uint32_t nfns = suggest_stacks_fns(&s->stacks, fns, FNS_LOOKED);
	size_t n = 0;

	for (size_t i = 0; i < s->nstocks; i++)
		for (size_t k = 0; k < s->stocks[i].conf->nentries; k++)
			choose(v, &n, facts_find(f,
			    s->stocks[i].conf->entries[k].fn.mod));
	for (uint32_t i = 0; i < nfns; i++)
		choose(v, &n, facts_find(f, s->stack_names->fns[fns[i]].mod));
	/* What the node is for, before the libraries that it uses. */
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].app != 0 && !f->apps[f->v[i].app].needed)
			choose(v, &n, &f->v[i]);
	for (uint32_t i = 0; i < s->ngroups; i++)
		choose(v, &n, facts_find(f, s->groups[i]));
	for (size_t i = 0; i < n; i++)
		f->apps[v[i]->app].chosen = true;
	for (size_t i = 0; i < f->n; i++)
		if (f->apps[f->v[i].app].chosen || facts_is_client(f->v[i].name))
			choose(v, &n, &f->v[i]);
	return n;
}

static enum kp_err
choose_modules(struct suggest_node *s)
{
	struct facts_module **v = calloc(s->facts.n + 1,
	    sizeof(struct facts_module *));
	uint32_t *fns = calloc(FNS_LOOKED, sizeof(*fns));
	size_t n = 0, taken = 0;
	enum kp_err e;

	s->modules = calloc(MODULES_MAX, sizeof(*s->modules));
	if (v == NULL || fns == NULL || s->modules == NULL) {
		e = suggest_node_no_memory(s);
	} else {
		n = choose_all(s, v, fns);
		e = facts_ask(&s->facts, v, n < MODULES_MAX ? n : MODULES_MAX,
		    MODULES_FNS_MAX, &taken, s->why, sizeof(s->why));
	}
	for (size_t i = 0; i < taken; i++)
		s->modules[s->nmodules++] = (struct kp_mfa_pat){
			.mod = v[i]->name, .arity = -1 };
	s->modules_over = n - s->nmodules;
	free(v);
	free(fns);
	return e;
}

enum kp_err
suggest_node_sample(struct suggest_node *s)
{
	enum kp_err e = sample(s);

	return e == KP_OK ? choose_modules(s) : e;
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

/* What is not traced, since there would be too many events. */
struct left_out {
	double hot;		/* calls a second that are too many */
	bool local;		/* functions that are not exported: their module has the time */
	bool needed;		/* applications that others depend on */
};

static bool
is_left_out(const struct suggest_node *s, uint32_t fn, struct left_out x)
{
	const struct suggest_fn *f = &s->facts_of[fn];

	return s->rates[fn] > x.hot || (x.local && !f->exported) ||
	    (x.needed && !f->users);
}

/*
 * A module is armed as a whole, in one step, unless some of its functions are left out.
 * v: its functions that were counted.
 */
static enum kp_err
called_module(struct suggest_node *s, const uint32_t *v, size_t n, struct left_out x)
{
	const struct kp_call_fn *fns = s->names->fns, *fn = &fns[v[0]];
	double rate = 0;
	size_t left = 0;
	enum kp_err e = KP_OK;

	for (size_t i = 0; i < n; i++) {
		left += is_left_out(s, v[i], x);
		s->nhot += s->rates[v[i]] > x.hot;
		s->nleft += s->rates[v[i]] > 0 && s->rates[v[i]] <= x.hot &&
		    is_left_out(s, v[i], x);
		rate += is_left_out(s, v[i], x) ? 0 : s->rates[v[i]];
	}
	s->called_rate += rate;
	if (left == 0)
		return rate == 0 ? KP_OK : called_add(s, (struct kp_mfa_pat){
		    .mod = fn->mod, .arity = -1 });
	for (size_t i = 0; i < n && e == KP_OK; i++) {
		fn = &fns[v[i]];
		if (s->rates[v[i]] > 0 && !is_left_out(s, v[i], x))
			e = called_add(s, (struct kp_mfa_pat){ .mod = fn->mod,
			    .fun = fn->fun, .arity = (int)fn->arity });
	}
	return e;
}

/* What a trace is to have: all that is called, but what is left out. */
static enum kp_err
called_find(struct suggest_node *s, struct left_out x)
{
	enum kp_err e = KP_OK;

	s->hot = x.hot;
	s->ncalled = s->nhot = s->nleft = 0;
	s->called_rate = 0;
	for (size_t i = 0, to; i < s->ncounted && e == KP_OK; i = to) {
		for (to = i + 1; to < s->ncounted && suggest_same_module(s->names,
		    s->counted[to], s->counted[i]); to++)
			;
		e = called_module(s, s->counted + i, to - i, x);
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
	return called_find(s, (struct left_out){ .hot = SUGGEST_HOT_RATE });
}

static double
rate_without(const struct suggest_node *s, struct left_out x)
{
	double sum = 0;

	for (size_t i = 0; i < s->ncounted; i++)
		if (!is_left_out(s, s->counted[i], x))
			sum += s->rates[s->counted[i]];
	return sum;
}

/*
 * What makes a trace of requests long enough: without functions that are not exported, and
 * those that are called most often, which are in no tier, more requests are within its
 * events.  rate: of the entry; a call has two events.  After floods a request has fewer.
 */
static struct left_out
left_out_of_requests(const struct suggest_node *s, double rate, unsigned floods)
{
	double least = SUGGEST_MEASURED_CALLS * rate, most = EVENTS_MAX / 2 / REQUESTS_LEAST * rate;
	struct left_out x = { .hot = least > SUGGEST_HOT_RATE ? least :
		SUGGEST_HOT_RATE };

	for (unsigned i = 0; i < floods; i++) {
		least = least / 2 > 1.1 * rate ? least / 2 : 1.1 * rate;
		most /= FLOODED;
	}
	x.needed = floods >= FLOODS_ALL;
	x.local = rate > 0 && rate_without(s, x) > most;
	while (rate > 0 && x.hot > least && rate_without(s, x) > most)
		x.hot = x.hot / HOT_STEP > least ? x.hot / HOT_STEP : least;
	return x;
}

/* Before OTP 27 a kprofd there is the one tracer: what it traces is refused. */
static void
explain_refusal(struct suggest_node *s)
{
	if (s->otp >= 27 || facts_find(&s->facts, "kprof_agent") == NULL)
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
	struct injected_hello h;
	struct injected *c = NULL;
	enum kp_err e = KP_ENOMEM;

	kp_call_names_free(s->names);
	free(s->rates);
	free(s->facts_of);
	free(s->counted);
	s->names = p.names;
	s->rates = NULL;
	s->facts_of = NULL;
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
		e = counters_wait(c, kp_mono_now() + s->short_span, s->why,
		    sizeof(s->why));
		e = e == KP_ETIMEOUT ? KP_OK : e;
	}
	if (e == KP_OK)
		e = counters_read(c, true, &p, s->why, sizeof(s->why));
	/* On OTP 25 and 26 a trace would find its counters, and be refused. */
	injected_stop(c, e == KP_OK ? UNCOUNT_WAIT : 0);
	if (e != KP_OK && e != KP_END)
		explain_refusal(s);
	if (e == KP_OK)
		e = facts_describe(&s->facts, p.names, &s->facts_of, s->why,
		    sizeof(s->why));
	if (e == KP_OK)
		e = rates_keep(s, &p);
	kp_counts_free(&p);
	return e;
}

double
suggest_node_rate(const struct suggest_node *s, const struct kp_call_fn *f)
{
	uint32_t fn;
	bool added;

	if (s->rates == NULL || kp_call_fn_put(s->names, kp_span_of(f->mod),
	    kp_span_of(f->fun), f->arity, &fn, &added) != KP_OK || added ||
	    fn >= s->nrates)
		return -1;
	return s->rates[fn];
}

/* ---- the tree of samples ---- */

/* Of a module that was counted, a function without a rate was not called. */
static double
rate_of(const struct suggest_node *s, const struct kp_call_fn *f)
{
	double rate = suggest_node_rate(s, f);

	for (size_t i = 0; rate < 0 && i < s->nmodules; i++)
		if (strcmp(s->modules[i].mod, f->mod) == 0)
			rate = 0;
	return rate;
}

enum kp_err
suggest_node_tree(struct suggest_node *s, struct suggest_calls *out)
{
	struct kp_call_names *t = out->names != NULL ? out->names : s->stack_names;
	double *rates = calloc(t->nfns + 1, sizeof(*rates));
	enum kp_err e = KP_OK;

	s->stack_names = NULL;
	out->names = t;
	suggest_tree_free(out->tree);
	out->tree = suggest_tree_new(t);
	if (rates == NULL || out->tree == NULL)
		e = suggest_node_no_memory(s);
	if (e == KP_OK && out->fns == NULL)
		e = facts_describe(&s->facts, t, &out->fns, s->why, sizeof(s->why));
	if (e == KP_OK)
		suggest_pools_mark(&s->pools, t, out->fns);
	for (uint32_t i = 0; e == KP_OK && i < t->nfns; i++)
		rates[i] = rate_of(s, &t->fns[i]);
	if (e == KP_OK && suggest_stacks_tree(&s->stacks, rates, s->sampled,
	    out->fns, out->tree) != KP_OK)
		e = suggest_node_no_memory(s);
	free(rates);
	if (e != KP_OK)
		suggest_calls_free(out);
	return e;
}

/* ---- traces ---- */

static enum kp_err
on_event(void *ctx, const struct kp_call_event *ev)
{
	return suggest_tree_event(ctx, ev);
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
    const struct kp_mfa_pat *v, size_t n, struct suggest_calls *out)
{
	const struct tracers_sink sink = { .event = on_event, .ctx = out->tree };
	struct tracer_opts o = { .g = injected(s, v, n),
		.max_events = entry != NULL ? EVENTS_MAX :
		SUGGEST_ALL_EVENTS,
		.max_queue = QUEUE_MAX, .entry = entry,
		.nentries = entry != NULL, .requests = entry != NULL ?
		SUGGEST_REQUESTS : 0, .probe = TRACER_AUTO,
		.probe_library = s->library };
	kp_dur_ns span = entry != NULL ? s->span : s->short_span >
	    SUGGEST_ALL_SPAN ? SUGGEST_ALL_SPAN : s->short_span;
	struct tracers *ts = NULL;
	kp_mono_ns begun = kp_mono_now();
	enum kp_err e;

	o.g.span = span;
	if (s->cost.traces.loads++ > 0)
		o.g.leaving = LEAVE_WAIT;
	s->cost.traces.patterns += n;
	s->cost.traces.processes += s->processes;
	e = tracers_start(&ts, &o, &s->talk.target, 1, out->names, s->why,
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
		s->flooded = tracers_ended(ts, 0)->end == KP_CALLS_QUEUE;
	}
	tracers_stop(ts);
	s->cost.traces.armed += rate_of_all(s, v, n) *
	    (double)(kp_mono_now() - begun) / KP_NS_PER_S;
	return e;
}

/* A trace of requests is too short to see all loops. */
static void
loops_carry(const struct suggest_tree *before,
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

/* out: with names, which may have functions already; freed after an error. */
static enum kp_err
trace_in(struct suggest_node *s, const struct kp_mfa_pat *entry,
    const struct kp_mfa_pat *v, size_t n, const struct suggest_tree *before,
    struct suggest_calls *out)
{
	enum kp_err e = KP_OK;

	if (out->names != NULL)
		out->tree = suggest_tree_new(out->names);
	if (out->tree == NULL)
		e = suggest_node_no_memory(s);
	else if (entry != NULL)
		suggest_tree_entry(out->tree, entry->mod, entry->fun,
		    (uint32_t)entry->arity);
	if (e == KP_OK)
		e = trace(s, entry, v, n, out);
	if (e == KP_OK)
		e = facts_describe(&s->facts, out->names, &out->fns, s->why,
		    sizeof(s->why));
	if (e == KP_OK) {
		suggest_pools_mark(&s->pools, out->names, out->fns);
		if (before != NULL)
			loops_carry(before, out->names, out->fns);
		if (suggest_tree_end(out->tree, out->fns) != KP_OK)
			e = suggest_node_no_memory(s);
	}
	if (e != KP_OK) {
		suggest_calls_free(out);
		return e;
	}
	s->events += out->tree->events;
	s->cost.traces.events += (double)out->tree->events;
	return KP_OK;
}

/*
 * Did so many events wait in a busy node that hardly a request was seen, or in a trace of
 * all processes no call that returned?
 */
static bool
is_flooded(const struct suggest_node *s, const struct suggest_calls *c, bool requests)
{
	return s->flooded && (requests ? c->tree->ended < REQUESTS_FLOODED :
	    c->tree->nframes <= 1);
}

enum kp_err
suggest_node_trace(struct suggest_node *s, const struct kp_mfa_pat *entry,
    double rate, const struct suggest_tree *before, struct suggest_calls *out)
{
	struct left_out x;
	enum kp_err e = KP_OK;

	*out = (struct suggest_calls){ .names = NULL };
	for (unsigned floods = 0; floods < FLOODS && e == KP_OK; floods++) {
		suggest_calls_free(out);
		if (entry != NULL)
			x = left_out_of_requests(s, rate, floods);
		else
			x = (struct left_out){ .hot = SUGGEST_HOT_RATE,
				.local = floods > 0, .needed = floods >= FLOODS_ALL };
		e = called_find(s, x);
		/* All are hot: without requests, a trace of some moments shows them. */
		if (e == KP_OK && entry == NULL && s->ncalled == 0)
			e = called_find(s, (struct left_out){ .hot = INFINITY });
		if (e != KP_OK)
			break;
		out->names = kp_call_names_new();
		e = trace_in(s, entry, s->called, s->ncalled, before, out);
		if (e == KP_OK && !is_flooded(s, out, entry != NULL))
			break;
	}
	return e;
}

/* ---- the draft alone ---- */

/* Functions with the same numbers, and no nodes.  NULL: out of memory. */
static struct kp_call_names *
names_copy(const struct kp_call_names *t)
{
	struct kp_call_names *to = kp_call_names_new();
	const struct kp_call_fn *f;
	uint32_t fn;
	bool added;

	for (uint32_t i = KP_FN_FIRST; to != NULL && i < t->nfns; i++) {
		f = &t->fns[i];
		if (kp_call_fn_put(to, kp_span_of(f->mod), kp_span_of(f->fun),
		    f->arity, &fn, &added) != KP_OK || fn != i) {
			kp_call_names_free(to);
			return NULL;
		}
	}
	return to;
}

enum kp_err
suggest_node_measure(struct suggest_node *s, const struct kp_mfa_pat *entry,
    const struct suggest_tiers *t, const struct suggest_calls *from,
    struct suggest_calls *out)
{
	double most = EVENTS_MAX / 2 / REQUESTS_LEAST;
	struct kp_mfa_pat v[1 + MEASURED] = { *entry };
	uint32_t fns[MEASURED];
	const struct kp_call_fn *fn;
	enum kp_err e = KP_OK;
	size_t n;

	*out = (struct suggest_calls){ .names = NULL };
	for (unsigned floods = 0; floods < FLOODS && e == KP_OK; floods++) {
		suggest_calls_free(out);
		if (suggest_ways_in(t, from->tree, from->fns, most, fns, MEASURED,
		    &n) != KP_OK)
			return suggest_node_no_memory(s);
		for (size_t i = 0; i < n; i++) {
			fn = &from->names->fns[fns[i]];
			v[1 + i] = (struct kp_mfa_pat){ .mod = fn->mod,
				.fun = fn->fun, .arity = (int)fn->arity };
		}
		out->names = names_copy(from->names);
		e = trace_in(s, entry, v, 1 + n, from->tree, out);
		if (e == KP_OK && !is_flooded(s, out, true))
			break;
		most /= FLOODED;
	}
	return e;
}
