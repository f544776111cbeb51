/*
 * plan.c - matches the patterns of tiers.conf with the modules of a target.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near_names.h"
#include "base/vec.h"
#include "kprofd/cost.h"
#include "kprofd/etf.h"
#include "kprofd/fn_name.h"
#include "kprofd/nodes.h"
#include "kprofd/plan.h"
#include "kprofd/term.h"

/* Names further away than this are not misspellings. */
#define NEAR_MAX 3
#define NEAR_NAMES 20000	/* the agent sends at most this many */
/* Limits the memory for one module's answer. */
#define MODULE_FNS_MAX 20000

typedef void pat_fn(void *ctx, const struct kp_mfa_pat *p, unsigned opts,
    uint64_t tier, bool entry);

/* Calls f for every pattern of the file except those of entries. */
static void
each_pat(const struct kp_conf *c, pat_fn *f, void *ctx)
{
	bool first_is_entry = c->nentries == 0;
	const struct kp_tier *t;

	for (size_t i = 0; i < c->ntiers; i++) {
		t = &c->tiers[i];
		for (size_t j = 0; j < t->nfns; j++)
			f(ctx, &t->fns[j], t->opts, UINT64_C(1) << i,
			    first_is_entry && i == 0);
	}
	for (size_t i = 0; i < c->nfinishes; i++)
		f(ctx, &c->finishes[i], 0, 0, false);
}

struct names {
	const char **v;
	size_t n;
};

static void
names_add(void *ctx, const struct kp_mfa_pat *p, unsigned opts, uint64_t tier,
    bool entry)
{
	struct names *names = ctx;

	(void)opts, (void)tier, (void)entry;
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->v[i], p->mod) == 0)
			return;
	names->v[names->n++] = p->mod;
}

enum kp_err
kp_plan_modules(const struct kp_conf *c, struct kp_buf *out)
{
	struct names names = { 0 };

	names.v = calloc(KP_TIER_FNS_MAX + 2 * KP_ENTRY_MAX,
	    sizeof(*names.v));
	if (names.v == NULL)
		return KP_ENOMEM;
	each_pat(c, names_add, &names);
	for (size_t i = 0; i < c->nentries; i++)
		names_add(&names, &c->entries[i].fn, 0, 0, true);
	if (names.n > 0)
		kp_etf_list(out, (uint32_t)names.n);
	for (size_t i = 0; i < names.n; i++)
		kp_etf_atom(out, names.v[i]);
	kp_etf_nil(out);
	free(names.v);
	return out->err;
}

/* ---- the answer of the target about its modules ---- */

struct answer_fn {
	struct kp_span name;
	uint32_t arity;
	bool exported;
};

/* One module's part of the answer; spans point into it. */
struct answer_module {
	struct kp_span name;
	bool loaded;
	struct kp_span why;	/* raw term, when not loaded */
	struct answer_fn *fns;
	uint32_t nfns;
	struct kp_span behaviours;	/* raw list of their names */
	struct kp_span others;	/* raw list of module names, when not loaded */
};

struct answer {
	struct answer_module *v;
	uint32_t n;
};

static void
answer_free(struct answer *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		free(a->v[i].fns);
	free(a->v);
}

/* Reads [{Name, Arity}, ...] */
static struct answer_fn *
read_fns(struct kp_term *r, uint32_t *n, enum kp_err *err)
{
	struct answer_fn *v;

	*n = kp_term_list(r);
	if (*n == 0)
		return NULL;
	if (*n > MODULE_FNS_MAX) {
		*err = KP_ELIMIT;
		return NULL;
	}
	v = calloc(*n, sizeof(*v));
	if (v == NULL) {
		*err = KP_ENOMEM;
		return NULL;
	}
	for (uint32_t i = 0; i < *n; i++) {
		kp_term_tuple_n(r, 2);
		v[i].name = kp_term_atom(r);
		v[i].arity = (uint32_t)kp_term_count(r, 255);
	}
	kp_term_nil(r);
	return v;
}

/* Defines any total order. */
static int
fn_compare(const void *a, const void *b)
{
	const struct answer_fn *f = a, *g = b;

	if (f->arity != g->arity)
		return f->arity < g->arity ? -1 : 1;
	if (f->name.n != g->name.n)
		return f->name.n < g->name.n ? -1 : 1;
	return f->name.n > 0 ? memcmp(f->name.p, g->name.p, f->name.n) : 0;
}

/* Sorts, since a target may name thousands in each of very many modules. */
static void
mark_exported(struct answer_module *m, struct answer_fn *exports, uint32_t n)
{
	if (n == 0)
		return;
	qsort(exports, n, sizeof(*exports), fn_compare);
	for (uint32_t i = 0; i < m->nfns; i++)
		m->fns[i].exported = bsearch(&m->fns[i], exports, n,
		    sizeof(*exports), fn_compare) != NULL;
}

static enum kp_err
read_module(struct kp_term *r, struct answer_module *m)
{
	struct answer_fn *exports;
	uint32_t nexports;
	struct kp_span what;
	enum kp_err err = KP_OK;
	uint32_t n = kp_term_tuple(r);

	m->name = kp_term_atom(r);
	what = kp_term_atom(r);
	m->loaded = kp_span_is(what, "ok");
	if (r->err == KP_OK && n != (m->loaded ? 5 : 4))
		return KP_EFORMAT;
	if (!m->loaded) {
		m->why = kp_term_raw(r);
		m->others = kp_term_raw(r);
		return r->err;
	}
	exports = read_fns(r, &nexports, &err);
	if (err == KP_OK)
		m->fns = read_fns(r, &m->nfns, &err);
	if (err == KP_OK)
		m->behaviours = kp_term_raw(r);
	if (err == KP_OK && r->err == KP_OK)
		mark_exported(m, exports, nexports);
	free(exports);
	return err != KP_OK ? err : r->err;
}

/*
 * Reads the whole answer.  Spans point into the bytes of r.  KP_EFORMAT,
 * KP_ELIMIT if it is too long, KP_ENOMEM.  Free it after errors too.
 */
static enum kp_err
answer_read(struct kp_term *r, struct answer *a)
{
	uint32_t n = kp_term_list(r);
	enum kp_err err = r->err;

	if (err == KP_OK && n > KP_TIER_FNS_MAX + 2 * KP_ENTRY_MAX)
		err = KP_ELIMIT;
	if (err == KP_OK && n > 0 && (a->v = calloc(n, sizeof(*a->v))) == NULL)
		err = KP_ENOMEM;
	for (uint32_t i = 0; err == KP_OK && i < n; i++) {
		a->n = i + 1;
		err = read_module(r, &a->v[i]);
	}
	if (err == KP_OK && n > 0)
		kp_term_nil(r);
	return err != KP_OK ? err : r->err;
}

/* NULL: the answer lacks the module. */
static const struct answer_module *
answer_find(const struct answer *a, const char *name)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (kp_span_is(a->v[i].name, name))
			return &a->v[i];
	return NULL;
}

/* ---- callbacks of behaviours ---- */

/*
 * Callbacks that return their process's state, which 'exact' would copy with every
 * message.  fun NULL: any exported function, like the states of a gen_statem.
 */
static const struct {
	const char *behaviour, *fun;
	uint32_t arity;
} returns_state[] = {
	{ "gen_server", "init", 1 }, { "gen_server", "handle_call", 3 },
	{ "gen_server", "handle_cast", 2 }, { "gen_server", "handle_info", 2 },
	{ "gen_server", "handle_continue", 2 },
	{ "gen_server", "code_change", 3 },
	{ "gen_statem", "init", 1 }, { "gen_statem", "handle_event", 4 },
	{ "gen_statem", "code_change", 4 }, { "gen_statem", NULL, 3 },
	{ "gen_event", "init", 1 }, { "gen_event", "handle_event", 2 },
	{ "gen_event", "handle_call", 2 }, { "gen_event", "handle_info", 2 },
	{ "gen_event", "code_change", 3 },
};

/* Some other behaviours have the callbacks of a gen_server. */
static bool
behaviour_is(struct kp_span s, const char *name)
{
	return kp_span_is(s, name) || (strcmp(name, "gen_server") == 0 &&
	    (kp_span_is(s, "gen_server2") ||
	    kp_span_is(s, "Elixir.GenServer")));
}

/*
 * Returns the behaviour for which the function is a callback that returns its
 * process's state, or NULL.  behaviours: the raw list of its module's.
 */
static const char *
plan_state_callback(struct kp_span behaviours, struct kp_span fun,
    uint32_t arity, bool exported)
{
	size_t rows = sizeof(returns_state) / sizeof(returns_state[0]);
	struct kp_span name;
	struct kp_term r;
	uint32_t n;

	kp_term_begin_raw(&r, behaviours.p, behaviours.n);
	n = kp_term_list(&r);
	for (uint32_t i = 0; i < n && r.err == KP_OK; i++) {
		name = kp_term_atom(&r);
		for (size_t k = 0; r.err == KP_OK && k < rows; k++)
			if (behaviour_is(name, returns_state[k].behaviour) &&
			    returns_state[k].arity == arity &&
			    (returns_state[k].fun == NULL ? exported :
			    kp_span_is(fun, returns_state[k].fun)))
				return returns_state[k].behaviour;
	}
	return NULL;
}

/* ---- making the plan ---- */

struct maker {
	struct kp_plan *plan;
	const struct answer *answer;
	struct kp_diags *diags;
	bool has_entry;		/* the target has the module of one */
	enum kp_err err;
};

/* Returns whether want is the Elixir module without its prefix. */
static bool
is_elixir(const char *name, const char *want)
{
	return strncmp(name, "Elixir.", 7) == 0 && strcmp(name + 7, want) == 0;
}

static void
near_module(const struct answer_module *m, const char *want, char *best,
    size_t n)
{
	unsigned d, best_d = NEAR_MAX + 1;
	struct kp_span name;
	struct kp_term r;
	char text[256];
	uint32_t len;

	best[0] = '\0';
	kp_term_begin_raw(&r, m->others.p, m->others.n);
	len = kp_term_list(&r);
	for (uint32_t i = 0; i < len && i < NEAR_NAMES && r.err == KP_OK; i++) {
		name = kp_term_atom(&r);
		snprintf(text, sizeof(text), "%.*s", (int)name.n,
		    (const char *)name.p);
		d = is_elixir(text, want) ? 0 :
		    kp_name_distance(want, text, NEAR_MAX);
		if (d < best_d) {
			best_d = d;
			snprintf(best, n, "%s", text);
		}
	}
}

static void
no_module(struct maker *mk, const struct kp_mfa_pat *p,
    const struct answer_module *m, bool entry)
{
	bool later = !entry || mk->has_entry;
	const char *then = later ? "; traced when it is loaded" : "";
	char best[256] = "", why[128], want[FN_NAME_MAX],
	    meant[FN_NAME_MAX];
	struct kp_term r;
	struct kp_buf b;

	if (m != NULL) {
		near_module(m, p->mod, best, sizeof(best));
		kp_term_begin_raw(&r, m->why.p, m->why.n);
		kp_buf_init(&b, sizeof(why));
		kp_term_print(&r, &b, 100);
		snprintf(why, sizeof(why), "%s", kp_buf_cstr(&b));
		kp_buf_free(&b);
	} else {
		snprintf(why, sizeof(why), "no answer");
	}
	/* The nearest name would be 'eprof', which nobody means. */
	if (strcmp(p->mod, KP_MARK_MODULE) == 0)
		kp_diags_add(mk->diags, p->pos, later, "the target has no module 'kprof' "
		    "(%s): it comes with kprofd's library for applications%s",
		    why, then);
	else if (best[0] != '\0')
		kp_diags_add(mk->diags, p->pos, later, "the target has no module '%s' (%s): "
		    "did you mean '%s'?%s", fn_shown(want, sizeof(want),
		    p->mod), why, is_elixir(best, p->mod) ? best :
		    fn_shown(meant, sizeof(meant), best),
		    later ? " Else it is traced when it is loaded" : "");
	else
		kp_diags_add(mk->diags, p->pos, later, "the target cannot load module '%s' "
		    "(%s)%s", fn_shown(want, sizeof(want), p->mod), why,
		    then);
}

/* Of -total/1-fun-0-: what is before the number.  0: no anonymous function. */
static size_t
closure_stem(const char *fun)
{
	static const char mark[] = "-fun-";
	size_t n = strlen(fun);

	if (fun[0] != '-' || n < 2 || fun[--n] != '-')
		return 0;
	while (n > 0 && fun[n - 1] >= '0' && fun[n - 1] <= '9')
		n--;
	return n >= strlen(mark) && memcmp(fun + n - strlen(mark), mark,
	    strlen(mark)) == 0 ? n : 0;
}

/*
 * The same name with another arity is nearer than any other name.  But for
 * anonymous functions of one function the arity counts more than the number,
 * which Elixir does not print.
 */
static unsigned
fn_distance(const struct kp_mfa_pat *p, const char *fun, uint32_t arity)
{
	unsigned other = p->arity >= 0 && (uint32_t)p->arity != arity;
	size_t stem = closure_stem(fun);

	if (!other && stem > 0 && stem == closure_stem(p->fun) &&
	    memcmp(p->fun, fun, stem) == 0)
		return 0;
	return 2 * kp_name_distance(p->fun, fun, NEAR_MAX) + other;
}

static void
no_function(struct maker *mk, const struct kp_mfa_pat *p,
    const struct answer_module *m)
{
	unsigned d, best_d = NEAR_MAX + 1;
	char want[FN_NAME_MAX], meant[FN_NAME_MAX], text[256];
	const struct answer_fn *best = NULL;

	fn_pat(want, sizeof(want), p);
	for (uint32_t i = 0; p->fun != NULL && i < m->nfns; i++) {
		snprintf(text, sizeof(text), "%.*s", (int)m->fns[i].name.n,
		    (const char *)m->fns[i].name.p);
		d = fn_distance(p, text, m->fns[i].arity);
		if (d < 2 * best_d && (best == NULL || d < best_d)) {
			best_d = d;
			best = &m->fns[i];
		}
	}
	if (best == NULL || best_d > 2 * NEAR_MAX + 1) {
		kp_diags_add(mk->diags, p->pos, false, "the target has no function %s", want);
		return;
	}
	snprintf(text, sizeof(text), "%.*s", (int)best->name.n,
	    (const char *)best->name.p);
	kp_diags_add(mk->diags, p->pos, false, "the target has no function %s: did you mean "
	    "%s?", want, fn_name(meant, sizeof(meant), p->mod, text,
	    best->arity));
}

struct kp_plan_item *
kp_plan_find(const struct kp_plan *plan, struct kp_span mod,
    struct kp_span fun, int64_t arity)
{
	struct kp_plan_item *p;

	for (p = plan->v; p < plan->v + plan->n; p++)
		if (p->arity == arity && kp_span_is(mod, p->mod) &&
		    kp_span_is(fun, p->fun))
			return p;
	return NULL;
}

struct kp_plan_item *
kp_plan_find_like(const struct kp_plan *plan, const struct kp_plan_item *like)
{
	return kp_plan_find(plan, kp_span_of(like->mod), kp_span_of(like->fun),
	    like->arity);
}

struct kp_plan_item *
kp_plan_room(struct kp_plan *plan)
{
	return vec_room(&plan->v, &plan->cap, plan->n, VEC_NO_CAP) == KP_OK ?
	    &plan->v[plan->n] : NULL;
}

static struct kp_plan_item *
plan_add(struct maker *mk, const char *mod, const struct answer_fn *fn)
{
	struct kp_plan_item *v = kp_plan_room(mk->plan);

	if (v == NULL) {
		mk->err = KP_ENOMEM;
		return NULL;
	}
	*v = (struct kp_plan_item){ .arity = fn->arity, .rate = -1,
		.mod = strdup(mod),
		.fun = kp_span_dup(fn->name) };
	mk->plan->n++;
	if (v->mod == NULL || v->fun == NULL)
		mk->err = KP_ENOMEM;
	return v;
}

/* Returns whether the compiler adds the function to every module. */
static bool
fn_is_generated(const struct answer_fn *fn)
{
	return kp_span_is(fn->name, "module_info") ||
	    kp_span_is(fn->name, "behaviour_info") ||
	    kp_span_is(fn->name, "__info__");
}

static enum kp_mark
fn_mark(const char *mod, const struct answer_fn *fn)
{
	char name[KP_MARK_NAME_MAX];

	if (fn->name.n >= sizeof(name))
		return KP_MARK_NONE;
	snprintf(name, sizeof(name), "%.*s", (int)fn->name.n,
	    (const char *)fn->name.p);
	return kp_mark(&(struct kp_mfa){ mod, name, fn->arity });
}

/* For the module kprof, '_' means the functions that begin requests. */
static bool
pat_wants(const struct kp_mfa_pat *p, const struct answer_fn *fn)
{
	enum kp_mark mark;

	if (p->fun == NULL && strcmp(p->mod, KP_MARK_MODULE) == 0) {
		mark = fn_mark(p->mod, fn);
		return mark == KP_MARK_RUN || mark == KP_MARK_SET;
	}
	if (p->fun == NULL)
		return fn->exported && !fn_is_generated(fn);
	return kp_span_is(fn->name, p->fun) &&
	    (p->arity < 0 || (uint32_t)p->arity == fn->arity);
}

static const char *
item_name(char *text, size_t n, const struct kp_plan_item *p)
{
	return fn_name(text, n, p->mod, p->fun, p->arity);
}

static void
refuse_exact(struct kp_diags *diags, struct kp_plan_item *item,
    const char *why)
{
	char name[FN_NAME_MAX];

	item->exact = false;
	item->exact_refused = true;
	kp_diags_add(diags, item->exact_pos, true, "%s is traced without 'exact': "
	    "%s ({exact, force} insists)", item_name(name, sizeof(name), item),
	    why);
}

static void
want_exact(struct maker *mk, struct kp_plan_item *item, unsigned opts,
    const struct kp_mfa_pat *p, const struct answer_module *m,
    const struct answer_fn *fn)
{
	const char *behaviour = plan_state_callback(m->behaviours, fn->name,
	    fn->arity, fn->exported);
	char why[128];

	item->exact_forced |= (opts & KP_TIER_FORCE) != 0;
	item->exact_pos = p->pos;
	item->exact = item->exact_forced || !item->exact_refused;
	if (behaviour == NULL || !item->exact || item->exact_forced ||
	    mk->plan->native)
		return;
	snprintf(why, sizeof(why), "a callback of %s returns its process's "
	    "state, all of which would be copied each time", behaviour);
	refuse_exact(mk->diags, item, why);
}

void
kp_plan_judge(struct kp_plan *plan, struct kp_diags *diags)
{
	struct kp_plan_item *p;
	char why[128];

	for (p = plan->v; p < plan->v + plan->n; p++) {
		if (!p->probe || p->disarmed || !p->exact || p->exact_forced)
			continue;
		snprintf(why, sizeof(why), "it is called %lld times a second, "
		    "more than %d", (long long)p->rate, KP_EXACT_RATE_MAX);
		if (p->loop && plan->native && p->exact_pos.line == 0)
			p->exact = false;
		else if (p->loop)
			refuse_exact(diags, p, "it looks like a server's loop: "
			    "a process was in it all the time");
		else if (p->rate > KP_EXACT_RATE_MAX && !plan->native)
			refuse_exact(diags, p, why);
	}
}

/* Writes it as a percentage of a scheduler, or as a number of schedulers. */
static const char *
schedulers(double percent, char *text, size_t n)
{
	if (percent < 100)
		snprintf(text, n, "%.3g %% of a scheduler", percent);
	else
		snprintf(text, n, "%.3g schedulers", percent / 100);
	return text;
}

void
kp_plan_heat(struct kp_plan *plan, const struct kp_conf *c, bool check,
    struct kp_diags *diags)
{
	struct kp_plan_item *p;
	double percent, all = 0;
	char text[64], name[FN_NAME_MAX];

	for (p = plan->v; p < plan->v + plan->n; p++) {
		if (p->disarmed || p->rate <= 0)
			continue;
		percent = kp_cost_percent((double)p->rate);
		if (c->hot_share <= 0 || percent <= c->hot_share) {
			all += percent;
			continue;
		}
		p->disarmed = true;
		/* Its loop is the mistake, and is reported as such. */
		if (check && p->entry && (p->loop || p->recursive))
			continue;
		p->hot = true;
		kp_diags_add(diags, p->pos, !check, "%s is too hot to trace: %lld "
		    "calls/s would take %s, more than hot_share, %g: %s (name "
		    "its caller instead, or raise hot_share)",
		    item_name(name, sizeof(name), p), (long long)p->rate,
		    schedulers(percent, text, sizeof(text)), c->hot_share,
		    check ? "it would not be traced" : "it is not traced");
	}
	if (c->budget > 0 && all > c->budget)
		kp_diags_add(diags, (struct kp_pos){ 1, 1 }, true, "the calls of all "
		    "functions would take %s, requests or not, more than the "
		    "budget, %g: the hottest will not be traced (name fewer, "
		    "or raise the budget)", schedulers(all, text, sizeof(text)),
		    c->budget);
}

bool
kp_plan_too_hot(const struct kp_plan *plan)
{
	bool any = false;

	for (size_t i = 0; i < plan->n; i++) {
		if (plan->v[i].entry && !plan->v[i].disarmed)
			return false;
		any |= plan->v[i].entry;
	}
	return any;
}

static void
pat_apply(void *ctx, const struct kp_mfa_pat *p, unsigned opts, uint64_t tier,
    bool entry)
{
	struct maker *mk = ctx;
	const struct answer_module *m = answer_find(mk->answer, p->mod);
	struct kp_plan_item *item;
	size_t hits = 0;

	if (mk->err != KP_OK)
		return;
	if (m == NULL || !m->loaded) {
		if (!p->optional)
			no_module(mk, p, m, entry);
		return;
	}
	for (uint32_t i = 0; i < m->nfns && mk->err == KP_OK; i++) {
		if (!pat_wants(p, &m->fns[i]))
			continue;
		hits++;
		item = kp_plan_find(mk->plan, kp_span_of(p->mod), m->fns[i].name,
		    m->fns[i].arity);
		if (item == NULL && mk->plan->n == KP_PLAN_MAX) {
			kp_diags_add(mk->diags, p->pos, false, "more than %d functions to "
			    "arm: name fewer", KP_PLAN_MAX);
			return;
		}
		if (item == NULL && (item = plan_add(mk, p->mod, &m->fns[i])) != NULL)
			item->optional = true;
		if (item == NULL)
			return;
		if (item->pos.line == 0 || entry)
			item->pos = p->pos;
		item->optional &= p->optional;
		item->tiers |= tier;
		item->entry |= entry;
		if ((opts & KP_TIER_EXACT) != 0)
			want_exact(mk, item, opts, p, m, &m->fns[i]);
	}
	if (hits == 0 && !p->optional)
		no_function(mk, p, m);
}

/*
 * If functions of kprof are entries, adds kprof:clear_token/0, and trace_id/1 where
 * the file asks for it.
 */
static void
plan_add_marks(struct maker *mk, const struct kp_conf *c)
{
	static const struct kp_mfa trace_id = { KP_MARK_MODULE, "trace_id", 1 };

	const struct answer_module *m = answer_find(mk->answer, KP_MARK_MODULE);
	struct kp_plan *plan = mk->plan;
	struct kp_plan_item *item;
	bool marked = false, traces = kp_spec_traces(c, &trace_id);
	enum kp_mark mark;

	for (size_t i = 0; i < plan->n; i++)
		marked |= plan->v[i].entry &&
		    strcmp(plan->v[i].mod, KP_MARK_MODULE) == 0;
	for (uint32_t i = 0; marked && m != NULL && i < m->nfns &&
	    plan->n < KP_PLAN_MAX; i++) {
		mark = fn_mark(KP_MARK_MODULE, &m->fns[i]);
		if ((mark == KP_MARK_CLEAR || (mark == KP_MARK_TRACE && traces)) &&
		    (item = plan_add(mk, KP_MARK_MODULE, &m->fns[i])) != NULL)
			item->clears = mark == KP_MARK_CLEAR;
	}
}

static bool
entry_is_for(const struct kp_entry *e, const char *node)
{
	for (size_t i = 0; i < e->nnodes; i++)
		if (kp_glob(e->nodes[i], node))
			return true;
	return e->nnodes == 0;
}

/* Is its module loaded?  An optional function, which is not missed, has to be in it. */
static bool
is_there(const struct answer *a, const struct kp_mfa_pat *p)
{
	const struct answer_module *m = answer_find(a, p->mod);
	bool loaded = m != NULL && m->loaded, any = !p->optional;

	for (uint32_t i = 0; loaded && !any && i < m->nfns; i++)
		any = pat_wants(p, &m->fns[i]);
	return loaded && any;
}

/* Returns whether the target has at least one entry, or its module. */
static bool
has_entry(const struct kp_conf *c, const struct answer *a, const char *node)
{
	bool any = false;

	for (size_t i = 0; i < c->nentries; i++)
		any |= entry_is_for(&c->entries[i], node) &&
		    is_there(a, &c->entries[i].fn);
	for (size_t i = 0; c->nentries == 0 && i < c->tiers[0].nfns; i++)
		any |= is_there(a, &c->tiers[0].fns[i]);
	return any;
}

/* Entries that need not be there are not missed one by one. */
static void
no_entry(struct maker *mk, const struct kp_conf *c, const char *node)
{
	const struct kp_mfa_pat *p = c->nentries == 0 ? c->tiers[0].fns : NULL;

	for (size_t i = 0; i < mk->plan->n; i++)
		if (mk->plan->v[i].entry)
			return;
	for (size_t i = 0; i < c->nentries && p == NULL; i++)
		if (entry_is_for(&c->entries[i], node))
			p = &c->entries[i].fn;
	if (p == NULL)
		kp_diags_add(mk->diags, c->entries[0].fn.pos, false, "no entry is for "
		    "this node: it has calls of requests that began on others");
	else if (p->optional)
		kp_diags_add(mk->diags, p->pos, false, "the target has none of the "
		    "entries, and so no requests");
}

enum kp_err
kp_plan_make(struct kp_plan *plan, const struct kp_conf *c, const char *node,
    bool native, struct kp_term *answer, struct kp_diags *diags)
{
	struct answer a = { 0 };
	struct maker mk = { .plan = plan, .answer = &a, .diags = diags };

	*plan = (struct kp_plan){ .native = native };
	*diags = (struct kp_diags){ 0 };
	mk.err = answer_read(answer, &a);
	if (mk.err == KP_OK) {
		mk.has_entry = has_entry(c, &a, node);
		each_pat(c, pat_apply, &mk);
		for (size_t i = 0; i < c->nentries; i++)
			if (entry_is_for(&c->entries[i], node))
				pat_apply(&mk, &c->entries[i].fn, 0, 0, true);
		plan_add_marks(&mk, c);
		if (mk.err == KP_OK && diags->errors == 0)
			no_entry(&mk, c, node);
	}
	answer_free(&a);
	if (mk.err != KP_OK)
		kp_plan_free(plan);
	return mk.err;
}

void
kp_plan_free(struct kp_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		free(plan->v[i].mod);
		free(plan->v[i].fun);
	}
	free(plan->v);
	*plan = (struct kp_plan){ 0 };
}
