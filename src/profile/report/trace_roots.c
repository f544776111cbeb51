/*
 * trace_roots.c - gives each process a key, and merges the sums and call trees
 * of those whose keys are equal.
 */
#include <stdlib.h>
#include <string.h>

#include "trace_report.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/sat.h"

#define KEY_BYTES_MAX 4096u
#define FN_BITS 20

/* ---- which processes are one root ---- */

/* True for a function that many kinds of processes begin with. */
static bool
is_general(const struct kp_call_names *t, uint32_t fn)
{
	const struct kp_call_fn *f = &t->fns[fn];

	return fn < KP_FN_FIRST ||
	    (strcmp(f->mod, "proc_lib") == 0 && strcmp(f->fun, "init_p") == 0) ||
	    (strcmp(f->mod, "erlang") == 0 && strcmp(f->fun, "apply") == 0);
}

static uint32_t
begun_with(const struct kp_call_names *t, const struct kp_calls_proc *p)
{
	if (!is_general(t, p->spawned_as))
		return p->spawned_as;
	for (uint32_t i = 0; i < p->nfirst; i++)
		if (!is_general(t, p->first[i]))
			return p->first[i];
	return p->spawned_as;
}

static void
fns_find(struct trace_roots *r, const struct trace_view *v)
{
	const struct kp_calls_sum *s = v->sum;
	const struct kp_calls_clock *c;

	for (uint32_t i = 0; i < s->nprocs; i++)
		if (s->procs[i].spawned)
			r->v[i].fn = begun_with(v->names, &s->procs[i]);
	for (uint32_t i = 0; i < s->nclocks; i++) {
		c = &s->clocks[i];
		if (c->caller == KP_FN_UNDEFINED && r->v[c->proc].fn == 0 &&
		    c->fn >= KP_FN_FIRST)
			r->v[c->proc].fn = c->fn;
	}
}

/* A process without a name or a known function is a root of its own. */
static void
put_key(struct kp_buf *key, const struct trace_view *v,
    const struct trace_root *root, uint32_t proc)
{
	const struct kp_call_proc *p = &v->names->procs[proc];

	kp_buf_reset(key);
	kp_buf_be32(key, p->node);
	kp_buf_u8(key, p->name != NULL ? 'n' : root->fn > 0 ? 'f' : 'p');
	if (p->name != NULL)
		kp_buf_str(key, p->name);
	else
		kp_buf_be32(key, root->fn > 0 ? root->fn : proc);
}

static enum kp_err
roots_find(struct trace_roots *r, const struct trace_view *v)
{
	struct intern known = { 0 };
	enum kp_err e = KP_OK;
	struct kp_buf key;
	const struct interned *first;

	kp_buf_init(&key, KEY_BYTES_MAX);
	for (uint32_t i = 0; i < v->sum->nprocs && e == KP_OK; i++) {
		r->v[i].first = i;
		if (!v->sum->procs[i].seen)
			continue;
		put_key(&key, v, &r->v[i], i);
		first = intern_get(&known, key.p, key.len);
		if (first == NULL &&
		    intern_put(&known, key.p, key.len, i) == NULL)
			e = KP_ENOMEM;
		r->v[i].first = first != NULL ? first->val : i;
		r->v[r->v[i].first].n++;
	}
	intern_free(&known);
	kp_buf_free(&key);
	return e;
}

/* ---- figures of roots ---- */

static void
path_add(struct kp_calls_path *to, const struct kp_calls_path *p)
{
	if (to->args_vary || p->args_vary || to->args.n != p->args.n ||
	    (p->args.n > 0 && memcmp(to->args.p, p->args.p, p->args.n) != 0))
		to->args_vary = true;
	to->calls += p->calls;
	to->own = sat_add(to->own, p->own);
}

/* Parents come first; at[] says where each path has gone. */
static enum kp_err
paths_merge(struct trace_roots *r, const struct kp_calls_sum *s, uint32_t *at)
{
	struct kp_calls_sum *to = &r->sum;
	struct map known = { 0 };
	struct kp_calls_path p;
	enum kp_err e = KP_OK;
	uint64_t key, *old;

	for (uint32_t i = 0; i < s->npaths && e == KP_OK; i++) {
		p = s->paths[i];
		p.proc = r->v[p.proc].first;
		if (p.parent != KP_PATH_NONE)
			p.parent = at[p.parent];
		/* Roots differ by their process; 0 is not allowed as a key. */
		key = p.parent == KP_PATH_NONE ? (uint64_t)p.proc + 1 :
		    ((uint64_t)p.parent + 1) << 2 * FN_BITS | p.fn;
		old = map_get(&known, key);
		at[i] = old != NULL ? (uint32_t)*old : to->npaths;
		if (old != NULL)
			path_add(&to->paths[at[i]], &p);
		else if (map_put(&known, key, to->npaths))
			to->paths[to->npaths++] = p;
		else
			e = KP_ENOMEM;
	}
	map_free(&known);
	return e;
}

static enum kp_err
sum_merge(struct trace_roots *r, const struct kp_calls_sum *s,
    struct trace_slice *slices, size_t n)
{
	uint32_t *at = malloc((s->npaths + 1) * sizeof(*at));
	enum kp_err e = KP_ENOMEM;

	r->sum = *s;
	r->sum.npaths = 0;
	r->sum.paths = malloc((s->npaths + 1) * sizeof(*r->sum.paths));
	r->sum.clocks = malloc((s->nclocks + 1) * sizeof(*r->sum.clocks));
	if (at != NULL && r->sum.paths != NULL && r->sum.clocks != NULL)
		e = paths_merge(r, s, at);
	for (uint32_t i = 0; i < s->nclocks && e == KP_OK; i++) {
		r->sum.clocks[i] = s->clocks[i];
		r->sum.clocks[i].proc = r->v[s->clocks[i].proc].first;
	}
	for (size_t i = 0; i < n && e == KP_OK; i++) {
		slices[i].proc = r->v[slices[i].proc].first;
		slices[i].path = at[slices[i].path];
	}
	free(at);
	return e;
}

enum kp_err
trace_roots_make(struct trace_roots *r, struct trace_view *v,
    struct trace_slice *slices, size_t n)
{
	enum kp_err e;

	*r = (struct trace_roots){ .v = calloc(v->sum->nprocs + 1,
	    sizeof(*r->v)) };
	if (r->v == NULL)
		return KP_ENOMEM;
	fns_find(r, v);
	e = roots_find(r, v);
	if (e == KP_OK)
		e = sum_merge(r, v->sum, slices, n);
	if (e != KP_OK)
		return e;
	v->sum = &r->sum;
	v->roots = r;
	return KP_OK;
}

void
trace_roots_free(struct trace_roots *r)
{
	free(r->v);
	free(r->sum.paths);
	free(r->sum.clocks);
	*r = (struct trace_roots){ 0 };
}
