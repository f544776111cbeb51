/*
 * suggest_sample.c - samples stacks for kprof suggest, and chooses the modules that
 * are on them or near: those that processes began with, and others of the same
 * applications, since what is short is hardly ever sampled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "client/functions/shared.h"
#include "client/functions/suggest_node.h"
#include "profile/node/sampler.h"
#include "suggest/known.h"

#define GROUPS_MAX 1000u
#define FNS_LOOKED 4000u	/* functions on stacks */

/* While samples are taken. */
struct sampling {
	struct suggest_node *s;
	struct kp_stack_table *table;
	uint32_t *fns;		/* of the table -> our number; 0: not known yet */
	uint32_t nfns;
	enum kp_err err;
};

enum kp_err
suggest_node_no_memory(struct suggest_node *s)
{
	snprintf(s->why, sizeof(s->why), "out of memory");
	return KP_ENOMEM;
}

/* ---- samples ---- */

static struct kp_span
span_of(const char *s)
{
	return (struct kp_span){ (const uint8_t *)s, (uint32_t)strlen(s) };
}

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
			kp_call_fn_put(x->s->stack_names, span_of(p.mod),
			    span_of(p.fun), (uint32_t)p.arity, &ours, &added);
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
read_pools(void *ctx, struct kp_term *r)
{
	return suggest_pools_read(ctx, r);
}

static enum kp_err
take(struct sampling *x, struct sampler *m)
{
	struct suggest_node *s = x->s;
	struct sampler_sink sink = { .table = x->table, .ctx = x,
		.ops = { on_sample, on_group } };
	struct sampler_totals totals;
	kp_mono_ns since;
	enum kp_err e = sampler_pools(m, kp_mono_now() + SUGGEST_POOLS_SPAN,
	    &sink, read_pools, &s->pools, s->why, sizeof(s->why));

	/* Samples of pools are of after that. */
	since = kp_mono_now();
	if (e == KP_OK || e == KP_ETIMEOUT)
		e = sampler_take(m, kp_mono_now() + s->span, &sink, s->why,
		    sizeof(s->why));
	/* A node that has little to do is looked at for longer. */
	if (e == KP_ETIMEOUT && s->stacks.working < SUGGEST_WORKING)
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
		.per_second = SUGGEST_STACKS, .ppm = SUGGEST_PPM };
	struct sampling x = { .s = s, .table = kp_stack_table_new() };
	struct injected_hello h;
	struct sampler *m = NULL;
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
	sampler_stop(m);
	free(x.fns);
	kp_stack_table_free(x.table);
	return e;
}

/* ---- modules ---- */

struct chosen {
	struct suggest_node *s;
	const char **v;
	bool *is;		/* by place in the facts */
	const struct facts_module *all;
	size_t n, max, nall;
};

static void
choose(struct chosen *c, const struct facts_module *m)
{
	if (m == NULL || (m->platform && !facts_is_client(m->name)) ||
	    c->is[m - c->all] || c->n == c->max)
		return;
	c->is[m - c->all] = true;
	c->v[c->n++] = m->name;
}

/* Is an application of these among those that modules were chosen of? */
static bool
is_near(const struct chosen *c, const struct facts_module *m, size_t upto)
{
	for (size_t i = 0; i < upto; i++)
		if (strcmp(facts_find(c->s->facts, c->v[i])->app, m->app) == 0)
			return true;
	return false;
}

static void
choose_all(struct chosen *c)
{
	struct suggest_node *s = c->s;
	uint32_t *fns = calloc(FNS_LOOKED, sizeof(*fns)), n = 0;
	size_t seen;

	for (size_t i = 0; i < suggest_nknown; i++)
		if (suggest_known[i].mod != NULL)
			choose(c, facts_find(s->facts, suggest_known[i].mod));
	if (fns != NULL)
		n = suggest_stacks_fns(&s->stacks, fns, FNS_LOOKED);
	for (uint32_t i = 0; i < n; i++)
		choose(c, facts_find(s->facts, s->stack_names->fns[fns[i]].mod));
	for (uint32_t i = 0; i < s->ngroups; i++)
		choose(c, facts_find(s->facts, s->groups[i]));
	free(fns);
	seen = c->n;
	for (size_t i = 0; i < c->nall; i++)
		if (is_near(c, &c->all[i], seen) ||
		    facts_is_client(c->all[i].name))
			choose(c, &c->all[i]);
}

static enum kp_err
choose_modules(struct suggest_node *s)
{
	struct chosen c = { .s = s };
	size_t taken = 0;
	enum kp_err e;

	c.all = facts_modules(s->facts, &c.nall);
	c.max = c.nall;
	c.v = calloc(c.nall + 1, sizeof(*c.v));
	c.is = calloc(c.nall + 1, sizeof(*c.is));
	s->modules = calloc(SUGGEST_MODULES_MAX, sizeof(*s->modules));
	if (c.v == NULL || c.is == NULL || s->modules == NULL) {
		e = suggest_node_no_memory(s);
	} else {
		choose_all(&c);
		e = facts_ask(s->facts, c.v, c.n < SUGGEST_MODULES_MAX ? c.n :
		    SUGGEST_MODULES_MAX, SUGGEST_FUNCTIONS_MAX, &taken, s->why,
		    sizeof(s->why));
	}
	for (size_t i = 0; i < taken; i++)
		s->modules[s->nmodules++] = (struct kp_mfa_pat){
			.mod = (char *)(uintptr_t)c.v[i], .arity = -1 };
	s->modules_over = c.n - s->nmodules;
	free(c.v);
	free(c.is);
	return e;
}

enum kp_err
suggest_node_sample(struct suggest_node *s)
{
	enum kp_err e = sample(s);

	return e == KP_OK ? choose_modules(s) : e;
}

/* ---- the tree ---- */

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
suggest_node_tree(struct suggest_node *s, struct suggest_calls **c,
    struct suggest_fn **fns)
{
	struct kp_call_names *t = s->stack_names;
	double *rates = calloc(t->nfns + 1, sizeof(*rates));
	enum kp_err e;

	*fns = NULL;
	*c = suggest_calls_new(t);
	if (rates == NULL || *c == NULL)
		e = suggest_node_no_memory(s);
	else
		e = facts_describe(s->facts, t, fns, s->why, sizeof(s->why));
	if (e == KP_OK)
		suggest_pools_mark(&s->pools, t, *fns);
	for (uint32_t i = 0; e == KP_OK && i < t->nfns; i++)
		rates[i] = rate_of(s, &t->fns[i]);
	if (e == KP_OK && suggest_stacks_tree(&s->stacks, rates, s->sampled,
	    *fns, *c) != KP_OK)
		e = suggest_node_no_memory(s);
	free(rates);
	return e;
}
