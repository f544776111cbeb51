/* pools.c - reads a node's list of its pools, and adds up their work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "kprofd/config.h"
#include "kprofd/fn_name.h"
#include "kprofd/trace.h"
#include "suggest/pools.h"
#include "text/text.h"

#define LINES_MAX 12u		/* of each kind: more nobody reads */
#define SUPERVISORS_NAMED 4u
#define STAYS 5			/* of as many members one may have ended */
#define TEXT_BYTES_MAX 1024u	/* a function's name, or an atom */

/* ---- what the node says ---- */

static char *
copy(struct kp_span s)
{
	s.n = s.n < TEXT_BYTES_MAX ? s.n : TEXT_BYTES_MAX;
	return kp_span_dup(s);
}

/* An atom, of which undefined is "". */
static char *
copy_atom(struct kp_term *r)
{
	struct kp_span s = kp_term_atom(r);

	return kp_span_is(s, "undefined") ? strdup("") : copy(s);
}

/* read() reads one element. */
static enum kp_err
read_list(struct suggest_pools *p, struct kp_term *r,
    enum kp_err (*read)(struct suggest_pools *, struct kp_term *))
{
	uint32_t n = kp_term_list(r);
	enum kp_err e = KP_OK;

	for (uint32_t i = 0; i < n && e == KP_OK && r->err == KP_OK; i++)
		e = read(p, r);
	if (n > 0 && e == KP_OK)
		kp_term_nil(r);
	return e;
}

/* The names that are said. */
static char *
read_names(struct kp_term *r, uint64_t *named, bool *more)
{
	uint32_t n = kp_term_list(r);
	struct kp_span s;
	struct kp_buf b;
	char *text;

	kp_buf_init(&b, SUPERVISORS_NAMED * (TEXT_BYTES_MAX + 2));
	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		s = kp_term_binary(r);
		if (*named == SUPERVISORS_NAMED || s.n > TEXT_BYTES_MAX) {
			*more = true;
			continue;
		}
		kp_buf_str(&b, ++*named > 1 ? ", " : "");
		if (s.n > 0)
			kp_buf_put(&b, s.p, s.n);
	}
	if (n > 0)
		kp_term_nil(r);
	text = strdup(kp_buf_cstr(&b));
	kp_buf_free(&b);
	return text;
}

/* {App, Processes, Supervisors, Names} */
static enum kp_err
read_app(struct suggest_pools *p, struct kp_term *r)
{
	struct suggest_pool_app a = { .name = NULL };
	enum kp_err e;

	kp_term_tuple_n(r, 4);
	a.name = copy_atom(r);
	a.processes = kp_term_count(r, KP_TARGET_COUNT_MAX);
	a.nsupervisors = kp_term_count(r, KP_TARGET_COUNT_MAX);
	a.supervisors = read_names(r, &a.named, &a.more);
	e = a.name == NULL || a.supervisors == NULL ? KP_ENOMEM : r->err;
	if (e == KP_OK)
		e = vec_room_by_len(&p->apps, p->napps, SUGGEST_POOL_APPS_MAX);
	if (e == KP_OK) {
		p->apps[p->napps++] = a;
		return KP_OK;
	}
	free(a.name);
	free(a.supervisors);
	p->over += e == KP_ELIMIT;
	return e == KP_ELIMIT ? KP_OK : e;
}

static void
pool_free(struct suggest_pool *p)
{
	free(p->app);
	free(p->parent);
	free(p->owner);
	free(p->child);
}

static enum kp_err
read_members(struct suggest_pools *p, struct kp_term *r,
    struct suggest_pool *pool)
{
	uint32_t n = kp_term_list(r);
	struct kp_pid pid;
	uint64_t proc;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		pid = kp_term_pid(r);
		proc = (uint64_t)pid.serial << 32 | pid.id;
		if (r->err != KP_OK || proc == 0)
			return KP_EFORMAT;
		if (p->members.len >= SUGGEST_POOL_MEMBERS_MAX) {
			p->over++;
			continue;
		}
		if (!map_put(&p->members, proc, p->n + 1))
			return KP_ENOMEM;
		pool->members++;
	}
	if (n > 0)
		kp_term_nil(r);
	return r->err;
}

/* {App, Parent, Owner, Child, Parents, Count, Gone, HasPorts, Members} */
static enum kp_err
read_pool(struct suggest_pools *p, struct kp_term *r)
{
	struct suggest_pool x = { .app = NULL };
	enum kp_err e = vec_room_by_len(&p->v, p->n, SUGGEST_POOLS_MAX);

	if (e == KP_ELIMIT) {
		p->over++;
		kp_term_skip(r);
		return KP_OK;
	}
	kp_term_tuple_n(r, 9);
	x.app = copy_atom(r);
	x.parent = copy(kp_term_binary(r));
	x.owner = copy_atom(r);
	x.child = copy(kp_term_binary(r));
	x.parents = kp_term_count(r, KP_TARGET_COUNT_MAX);
	x.count = kp_term_count(r, KP_TARGET_COUNT_MAX);
	x.gone = kp_term_count(r, KP_TARGET_COUNT_MAX);
	x.ports = kp_span_is(kp_term_atom(r), "true");
	if (e == KP_OK && (x.app == NULL || x.parent == NULL ||
	    x.owner == NULL || x.child == NULL))
		e = KP_ENOMEM;
	if (e == KP_OK)
		e = read_members(p, r, &x);
	if (e == KP_OK && (x.members > x.count || x.gone > x.members))
		e = KP_EFORMAT;
	if (e == KP_OK)
		p->v[p->n++] = x;
	else
		pool_free(&x);
	return e;
}

enum kp_err
suggest_pools_read(struct suggest_pools *p, struct kp_term *r)
{
	enum kp_err e;

	kp_term_tuple_n(r, 2);
	p->seen = kp_term_count(r, KP_TARGET_COUNT_MAX);
	p->not_seen = kp_term_count(r, KP_TARGET_COUNT_MAX);
	e = read_list(p, r, read_app);
	if (e == KP_OK)
		e = read_list(p, r, read_pool);
	if (e == KP_OK)
		e = kp_waits_read(r, p->waits, KP_WAITS_MAX, &p->nwaits);
	if (e == KP_OK)
		e = kp_term_finish(r);
	p->answered = e == KP_OK;
	return e;
}

void
suggest_pools_free(struct suggest_pools *p)
{
	for (size_t i = 0; i < p->n; i++)
		pool_free(&p->v[i]);
	for (size_t i = 0; i < p->napps; i++) {
		free(p->apps[i].name);
		free(p->apps[i].supervisors);
	}
	free(p->v);
	free(p->apps);
	map_free(&p->members);
}

/* ---- work ---- */

/* Do its children stay? */
static bool
pool_stays(const struct suggest_pool *p)
{
	return p->members > 0 && p->gone * STAYS <= p->members;
}

/* NULL: it is of none. */
static struct suggest_pool *
pool_of(struct suggest_pools *p, uint64_t proc)
{
	const uint64_t *at = map_get(&p->members, proc);

	return at != NULL && *at <= p->n ? &p->v[*at - 1] : NULL;
}

void
suggest_pools_input(struct suggest_pools *p, uint64_t proc)
{
	struct suggest_pool *pool = pool_of(p, proc);

	if (pool != NULL)
		pool->ports = true;
}

bool
suggest_pools_sample(struct suggest_pools *p, uint64_t proc, bool works,
    kp_dur_ns time)
{
	struct suggest_pool *pool = pool_of(p, proc);

	if (pool == NULL)
		return false;
	if (works)
		pool->work = sat_add(pool->work, time);
	return pool_stays(pool) && !pool->ports;
}

/* The module of a function's name, such as My.Worker.init/1; "" if it has none. */
static void
module_of(const char *name, char *mod, size_t n)
{
	struct kp_mfa_pat p = { .mod = NULL };

	mod[0] = '\0';
	if (kp_mfa_pat_parse(&p, name, strlen(name)) != KP_OK)
		return;
	snprintf(mod, n, "%s", p.mod);
	kp_mfa_pat_free(&p);
}

static bool
is_waited_in(const struct suggest_pools *p, const struct kp_call_fn *fn)
{
	const struct kp_waits *w;

	for (w = p->waits; w < p->waits + p->nwaits; w++)
		if (strcmp(w->mod, fn->mod) == 0 &&
		    strcmp(w->fun, fn->fun) == 0 && w->arity == fn->arity)
			return true;
	return kp_pool_fn(fn->mod, fn->fun) != NULL;
}

void
suggest_pools_mark(const struct suggest_pools *p,
    const struct kp_call_names *t, struct suggest_fn *fns)
{
	char mod[TEXT_BYTES_MAX];

	for (size_t i = 0; i < p->n; i++) {
		module_of(p->v[i].child, mod, sizeof(mod));
		for (uint32_t k = KP_FN_FIRST; k < t->nfns &&
		     pool_stays(&p->v[i]); k++)
			fns[k].pool |= strcmp(t->fns[k].mod, mod) == 0 ||
			    strcmp(t->fns[k].mod, p->v[i].owner) == 0;
	}
	for (uint32_t k = KP_FN_FIRST; k < t->nfns; k++)
		fns[k].waits = is_waited_in(p, &t->fns[k]);
}

/* ---- what to say ---- */

static void
put_app(const struct suggest_pool_app *a, struct kp_buf *b)
{
	char x[TEXT_MAX], y[TEXT_MAX];

	if (a->name[0] != '\0')
		text_put(b, a->name);
	else
		kp_buf_str(b, "Of no application");
	kp_buf_printf(b, ": %s, %s", text_counted(x, a->processes, "process"),
	    text_counted(y, a->nsupervisors, "supervisor"));
	if (a->named > 0) {
		kp_buf_str(b, " (");
		text_put(b, a->supervisors);
		kp_buf_str(b, a->more ? " and others)" : ")");
	}
	kp_buf_str(b, ".\n");
}

static void
put_pool(const struct suggest_pool *p, kp_dur_ns span, struct kp_buf *b)
{
	double at_work = span > 0 && p->members > 0 ? (double)p->work /
	    (double)span * (double)p->count / (double)p->members : 0;
	char x[TEXT_MAX];

	if (p->parent[0] != '\0')
		text_put(b, p->parent);
	else
		kp_buf_str(b, "Children of one parent");
	if (p->parents > 1)
		kp_buf_printf(b, " (%s of that name)", text_counted(x,
		    p->parents, "process"));
	kp_buf_printf(b, ": %s of ", text_count(x, p->count));
	text_put(b, p->child);
	if (!pool_stays(p)) {
		kp_buf_str(b, ", which come and go.\n");
		return;
	}
	/* More would be at work than there are, by chance. */
	at_work = at_work < (double)p->count ? at_work : (double)p->count;
	kp_buf_printf(b, " (a pool%s): %s at work on average.\n", p->ports ?
	    ", with sockets or other ports" : "", text_average(x, at_work));
}

static void
put_waits(const struct kp_waits *w, struct kp_buf *b)
{
	char x[TEXT_MAX];

	kp_buf_printf(b, "%s answers later than it takes messages, as a pool does "
	    "whose workers are all taken: %s waited for it at once", w->server,
	    text_counted(x, w->waiting, "process"));
	if (w->mod[0] != '\0') {
		kp_buf_str(b, " in ");
		fn_name_put(b, w->mod, w->fun, w->arity);
	}
	kp_buf_str(b, ".\n");
}

void
suggest_pools_about(const struct suggest_pools *p, kp_dur_ns span,
    suggest_is_platform *is_platform, const void *ctx, struct kp_buf *b)
{
	char x[TEXT_MAX], y[TEXT_MAX], mod[TEXT_BYTES_MAX];
	unsigned lines = 0;

	if (!p->answered) {
		kp_buf_str(b, "Which supervisors and pools there are is not "
		    "known: the node did not answer in time.\n");
		return;
	}
	for (size_t i = 0; i < p->napps && lines < LINES_MAX; i++) {
		if (is_platform(ctx, p->apps[i].name, NULL) ||
		    (p->apps[i].name[0] == '\0' &&
		    p->apps[i].nsupervisors == 0))
			continue;
		put_app(&p->apps[i], b);
		lines++;
	}
	lines = 0;
	for (size_t i = 0; i < p->n && lines < LINES_MAX; i++) {
		module_of(p->v[i].child, mod, sizeof(mod));
		if (is_platform(ctx, p->v[i].app, mod))
			continue;
		put_pool(&p->v[i], span, b);
		lines++;
	}
	for (size_t i = 0; i < p->nwaits; i++)
		put_waits(&p->waits[i], b);
	if (p->not_seen > 0)
		kp_buf_printf(b, "What %s are there for is known; %s not seen "
		    "(at most 10 000 are asked, and only a second long).\n",
		    text_counted(x, p->seen, "process"), text_counted(y,
		    p->not_seen, "process"));
}
