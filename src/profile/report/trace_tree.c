/*
 * trace_tree.c - adds up processes of one kind as one root, and writes call trees:
 * for people, as folded stacks, and for speedscope.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sat.h"
#include "kprofd/term.h"
#include "text/flame_tree.h"
#include "text/text.h"
#include "trace_report.h"

#define KEY_BYTES_MAX 4096u
#define TARGETS_BYTES_MAX (KP_CALLS_NODES_MAX * 2048u)

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

enum kp_err
trace_roots_make(struct trace_roots *r, struct trace_view *v)
{
	const struct kp_calls_sum *s = v->sum;
	enum kp_err e;

	*r = (struct trace_roots){ .v = calloc(s->nprocs + 1, sizeof(*r->v)),
		.sum = *s };
	r->sum.clocks = malloc((s->nclocks + 1) * sizeof(*r->sum.clocks));
	if (r->v == NULL || r->sum.clocks == NULL)
		return KP_ENOMEM;
	fns_find(r, v);
	e = roots_find(r, v);
	if (e != KP_OK)
		return e;
	for (uint32_t i = 0; i < s->nclocks; i++) {
		r->sum.clocks[i] = s->clocks[i];
		r->sum.clocks[i].proc = r->v[s->clocks[i].proc].first;
	}
	v->sum = &r->sum;
	v->roots = r;
	return KP_OK;
}

void
trace_roots_free(struct trace_roots *r)
{
	free(r->v);
	free(r->sum.clocks);
	*r = (struct trace_roots){ 0 };
}

/* ---- the tree ---- */

/* The common properties of the calls of a node. */
struct called {
	uint64_t calls;
	struct kp_span args;
	bool args_vary;
};

/* A root's label is its first process, those of other nodes are functions. */
struct forest {
	const struct trace_view *v;
	struct flame_tree t;
	struct called *called;	/* by node */
	uint32_t *at;		/* by path: its node */
};

static void
forest_free(struct forest *f)
{
	flame_tree_free(&f->t);
	free(f->called);
	free(f->at);
}

static uint32_t
root_of(const struct trace_view *v, uint32_t proc)
{
	return v->roots != NULL ? v->roots->v[proc].first : proc;
}

/* False: out of memory. */
static bool
path_put(struct forest *f, uint32_t i)
{
	const struct kp_calls_path *p = &f->v->sum->paths[i];
	bool is_root = p->parent == KP_PATH_NONE;
	uint32_t parent = is_root ? FLAME_NONE : f->at[p->parent];
	uint32_t label = is_root ? root_of(f->v, p->proc) : p->fn, n = f->t.n;
	struct called *c;

	f->at[i] = f->v->roots != NULL ? flame_tree_child(&f->t, parent, label) :
	    flame_tree_add(&f->t, parent, label);
	if (f->at[i] == FLAME_NONE)
		return false;
	f->t.v[f->at[i]].self = sat_add(f->t.v[f->at[i]].self, p->own);
	c = &f->called[f->at[i]];
	if (f->t.n > n) {
		*c = (struct called){ p->calls, p->args, p->args_vary };
		return true;
	}
	c->calls += p->calls;
	if (p->args_vary || c->args.n != p->args.n || (p->args.n > 0 &&
	    memcmp(c->args.p, p->args.p, p->args.n) != 0))
		c->args_vary = true;
	return true;
}

/* False after setting the error of b; to be freed in any case. */
static bool
forest_make(struct forest *f, const struct trace_view *v, struct kp_buf *b)
{
	uint32_t n = v->sum->npaths;
	bool made;

	*f = (struct forest){ .v = v,
		.called = malloc((n + 1) * sizeof(*f->called)),
		.at = malloc((n + 1) * sizeof(*f->at)) };
	made = f->called != NULL && f->at != NULL;
	for (uint32_t i = 0; i < n && made; i++)
		made = path_put(f, i);
	if (!made || flame_tree_sum(&f->t) != KP_OK) {
		b->err = KP_ENOMEM;
		return false;
	}
	return true;
}

/* ---- for people ---- */

static void
put_row(struct kp_buf *b, const void *ctx, uint32_t node)
{
	const struct forest *f = ctx;
	const struct flame_node *n = &f->t.v[node];
	const struct called *c = &f->called[node];
	char calls[TEXT_MAX], total[TEXT_MAX], own[TEXT_MAX];
	const struct kp_calls_proc *p;

	text_ms(total, n->total);
	if (n->depth > 0) {
		kp_buf_printf(b, "%10s  %12s  %12s  %*s",
		    text_count(calls, c->calls), total, text_ms(own, n->self),
		    (int)(2 * n->depth), "");
		trace_put_fn(b, f->v->names, n->label);
		if (!c->args_vary)
			trace_put_args(b, c->args);
		return;
	}
	kp_buf_printf(b, "%10s  %12s  %12s  ", "", total, "");
	trace_put_root(b, f->v, n->label);
	p = &f->v->sum->procs[n->label];
	/* several processes have no common parent */
	if (p->spawned && (f->v->roots == NULL ||
	    f->v->roots->v[n->label].n <= 1)) {
		kp_buf_str(b, ", spawned by ");
		trace_put_proc(b, f->v->names, p->parent);
	}
}

void
trace_tree(struct kp_buf *b, const struct trace_view *v)
{
	struct forest f;

	if (forest_make(&f, v, b)) {
		kp_buf_printf(b, "%10s  %12s  %12s\n", "calls", "total ms",
		    "own ms");
		flame_tree_rows(b, &f.t, &(struct flame_rows){ .put = put_row,
		    .ctx = &f, .least = v->least, .rows = v->rows,
		    .width = v->width });
	}
	forest_free(&f);
}

/* ---- for flame graphs ---- */

static void
put_label(struct kp_buf *b, const void *ctx, uint32_t label, bool is_root)
{
	const struct trace_view *v = ctx;

	if (is_root)
		trace_put_root(b, v, label);
	else
		trace_put_fn(b, v->names, label);
}

static const char *
module(const void *ctx, uint32_t label)
{
	const struct trace_view *v = ctx;

	return v->names->fns[label].mod;
}

static struct flame_labels
labels(const struct trace_view *v)
{
	return (struct flame_labels){ v->names->nfns, put_label, module, v };
}

/* NULL after setting the error of b. */
static struct flame_slice *
slices_new(size_t n, struct kp_buf *b)
{
	struct flame_slice *v = calloc(n + 1, sizeof(*v));

	if (v == NULL)
		b->err = KP_ENOMEM;
	return v;
}

void
trace_folded(struct kp_buf *b, const struct trace_view *v)
{
	const struct flame_labels l = labels(v);
	struct flame_slice *slices = NULL;
	struct forest f;
	size_t n = 0;

	if (forest_make(&f, v, b))
		slices = slices_new(f.t.n, b);
	for (uint32_t i = 0; slices != NULL && i < f.t.n; i++)
		if (f.t.v[i].depth > 0 && f.t.v[i].self >= KP_NS_PER_US)
			slices[n++] = (struct flame_slice){ i, 0,
				f.t.v[i].self };
	flame_tree_folded(b, &f.t, &l, slices, n);
	free(slices);
	forest_free(&f);
}

static int
slice_order(const void *a, const void *b)
{
	const struct trace_slice *x = a, *y = b;

	if (x->proc != y->proc)
		return (x->proc > y->proc) - (x->proc < y->proc);
	return (x->from > y->from) - (x->from < y->from);
}

void
trace_speedscope(struct kp_buf *b, const struct trace_view *v,
    struct trace_slice *slices, size_t nslices)
{
	const struct flame_labels l = labels(v);
	struct flame_slice *to = NULL;
	struct kp_buf targets;
	struct forest f;
	size_t n = 0;

	kp_buf_init(&targets, TARGETS_BYTES_MAX);
	trace_put_targets(&targets, v);
	if (forest_make(&f, v, b))
		to = slices_new(nslices, b);
	for (size_t i = 0; i < nslices; i++)
		slices[i].proc = root_of(v, slices[i].proc);
	qsort(slices, nslices, sizeof(*slices), slice_order);
	for (size_t i = 0; to != NULL && i < nslices; i++) {
		const struct trace_slice *s = &slices[i];

		/* processes of one root overlap in time */
		if (v->roots != NULL && v->roots->v[s->proc].n > 1)
			flame_slice_put(&f.t, to, &n, f.at[s->path],
			    s->to - s->from);
		else
			to[n++] = (struct flame_slice){ f.at[s->path],
				s->from - v->sum->first, s->to - s->from };
	}
	if (to != NULL)
		flame_tree_speedscope(b, &f.t, &l, kp_buf_cstr(&targets), to, n);
	free(to);
	forest_free(&f);
	kp_buf_free(&targets);
}
