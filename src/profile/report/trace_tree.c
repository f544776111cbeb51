/*
 * trace_tree.c - adds up processes of one kind as one root, and writes call trees:
 * for people, as folded stacks, and for speedscope, Chrome and pprof.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sat.h"
#include "kprofd/term.h"
#include "text/flame_tree.h"
#include "text/json.h"
#include "text/pprof.h"
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
		trace_put_fn(b, f->v->names, n->label, true);
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
		trace_put_fn(b, v->names, label, true);
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
			slices[n++] = (struct flame_slice){ .node = i,
				.time = f.t.v[i].self };
	flame_tree_folded(b, &f.t, &l, slices, n, false);
	free(slices);
	forest_free(&f);
}

/* places: of functions, 0 at first. */
static void
put_paths(struct pprof *p, const struct forest *f, uint64_t *places)
{
	uint32_t way[FLAME_DEPTH_MAX + 1], n, root;
	uint64_t at[FLAME_DEPTH_MAX + 1];
	const struct trace_view *v = f->v;
	struct kp_buf text;

	kp_buf_init(&text, KEY_BYTES_MAX);
	for (uint32_t i = 0; i < f->t.n; i++) {
		if (f->t.v[i].depth == 0 || (f->t.v[i].self == 0 &&
		    f->called[i].calls == 0))
			continue;
		n = flame_tree_way(&f->t, i, way) - 1;
		root = f->t.v[way[n]].label;
		for (uint32_t k = 0; k < n; k++) {
			uint64_t *place = &places[f->t.v[way[k]].label];

			kp_buf_reset(&text);
			if (*place == 0)
				trace_put_fn(&text, v->names,
				    f->t.v[way[k]].label, true);
			if (*place == 0)
				*place = pprof_place(p, kp_buf_cstr(&text),
				    text.len, 0);
			at[k] = *place;
		}
		kp_buf_reset(&text);
		trace_put_root(&text, v, root);
		pprof_sample(p, at, n, (const int64_t[]){
		    (int64_t)f->called[i].calls, f->t.v[i].self },
		    (const struct pprof_label[]){ { "node",
		    v->names->nnodes > 0 ? v->names->nodes[
		    v->names->procs[root].node].name : v->info->target },
		    { "process", kp_buf_cstr(&text) } }, 2);
	}
	kp_buf_free(&text);
}

void
trace_pprof(struct kp_buf *b, const struct trace_view *v)
{
	static const struct pprof_type types[] = { { "calls", "count" },
		{ "own", "nanoseconds" } };
	uint64_t *places = calloc(v->names->nfns + 1, sizeof(*places));
	struct forest f;
	struct pprof p;

	if (forest_make(&f, v, b) && places != NULL) {
		pprof_begin(&p, types, 2, 1, NULL);
		put_paths(&p, &f, places);
		pprof_end(&p, b, v->info->offset != 0 ? sat_add(v->sum->first,
		    v->info->offset) : 0, v->sum->last - v->sum->first, 0);
	} else {
		b->err = KP_ENOMEM;
	}
	free(places);
	forest_free(&f);
}

/* ---- for programs ---- */

/* Nodes that are shown, and functions that these are of: their numbers in the JSON. */
struct shown {
	struct forest *f;
	uint32_t *node, *fn;	/* by node and function; FLAME_NONE: not shown */
	uint32_t nodes, nodes_left;
	kp_dur_ns left;		/* own time of the nodes that are left out */
};

static int
total_order(const void *a, const void *b, void *ctx)
{
	const uint32_t *x = a, *y = b;
	const struct flame_node *v = ctx;

	return v[*x].total != v[*y].total ?
	    (v[*x].total < v[*y].total) - (v[*x].total > v[*y].total) :
	    (*x > *y) - (*x < *y);
}

/*
 * Of a node its parent has at least the total, and a lower number: so those with the
 * greatest are a tree.
 */
static void
shown_choose(struct shown *s, size_t most)
{
	struct flame_tree *t = &s->f->t;

	for (uint32_t i = 0; i < t->n; i++)
		s->node[i] = i;
	qsort_r(s->node, t->n, sizeof(*s->node), total_order, t->v);
	memcpy(t->order, s->node, t->n * sizeof(*t->order));
	for (uint32_t i = 0; i < t->n; i++) {
		s->node[t->order[i]] = most > 0 && i >= most ? FLAME_NONE : 0;
		if (most > 0 && i >= most)
			s->left = sat_add(s->left, t->v[t->order[i]].self);
	}
	for (uint32_t i = 0; i < t->n; i++) {
		/* A process that did nothing is no box; nor is it left out. */
		if (t->v[i].depth == 0 && t->v[i].child == FLAME_NONE)
			s->node[i] = FLAME_NONE;
		else if (s->node[i] == FLAME_NONE)
			s->nodes_left++;
		else
			s->node[i] = s->nodes++;
	}
}

static void
json_processes(struct json *j, struct shown *s)
{
	const struct flame_tree *t = &s->f->t;
	struct kp_buf name;

	kp_buf_init(&name, KEY_BYTES_MAX);
	json_array(j, "processes");
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->v[i].depth > 0 || s->node[i] == FLAME_NONE)
			continue;
		kp_buf_reset(&name);
		trace_put_root(&name, s->f->v, t->v[i].label);
		json_string(j, NULL, kp_buf_cstr(&name));
	}
	json_end(j);
	kp_buf_free(&name);
}

/* sums: by function. */
static void
json_functions(struct json *j, struct shown *s, const struct kp_calls_clock *sums)
{
	const struct flame_tree *t = &s->f->t;
	struct kp_buf name;
	uint32_t n = 0;

	kp_buf_init(&name, KEY_BYTES_MAX);
	json_array(j, "functions");
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t fn = t->v[i].label;

		if (t->v[i].depth == 0 || s->node[i] == FLAME_NONE ||
		    s->fn[fn] != FLAME_NONE)
			continue;
		s->fn[fn] = n++;
		kp_buf_reset(&name);
		trace_put_fn(&name, s->f->v->names, fn, true);
		json_object(j, NULL);
		json_string(j, "function", kp_buf_cstr(&name));
		json_uint(j, "calls", sums[fn].calls);
		json_ms(j, "acc_ms", sums[fn].acc);
		json_ms(j, "own_ms", sums[fn].own);
		json_end(j);
	}
	json_end(j);
	kp_buf_free(&name);
}

/* [Parent, Process or function, Calls, Own ns, Total ns]; a process has parent -1. */
static void
json_nodes(struct json *j, const struct shown *s)
{
	const struct flame_tree *t = &s->f->t;
	int64_t processes = 0;

	json_array(j, "nodes");
	for (uint32_t i = 0; i < t->n; i++) {
		const struct flame_node *n = &t->v[i];

		if (s->node[i] == FLAME_NONE)
			continue;
		json_array(j, NULL);
		json_int(j, NULL, n->depth > 0 ?
		    (int64_t)s->node[n->parent] : -1);
		json_int(j, NULL, n->depth > 0 ? s->fn[n->label] : processes++);
		json_uint(j, NULL, s->f->called[i].calls);
		json_int(j, NULL, n->self);
		json_int(j, NULL, n->total);
		json_end(j);
	}
	json_end(j);
}

static void
json_put(struct kp_buf *b, struct shown *s, const struct kp_calls_clock *sums)
{
	const struct trace_view *v = s->f->v;
	struct kp_buf targets;
	struct json j;

	kp_buf_init(&targets, TARGETS_BYTES_MAX);
	trace_put_targets(&targets, v);
	json_open(&j, b);
	json_string(&j, "targets", kp_buf_cstr(&targets));
	json_ms(&j, "length_ms", v->sum->last - v->sum->first);
	json_uint(&j, "events", v->sum->events);
	json_uint(&j, "lost", v->info->lost);
	json_uint(&j, "requests", v->info->requests);
	json_uint(&j, "begun", v->info->begun);
	json_uint(&j, "ended", v->info->ended);
	json_processes(&j, s);
	json_functions(&j, s, sums);
	json_nodes(&j, s);
	json_object(&j, "left_out");
	json_uint(&j, "nodes", s->nodes_left);
	json_ms(&j, "ms", s->left);
	json_end(&j);
	json_close(&j);
	kp_buf_free(&targets);
}

void
trace_json(struct kp_buf *b, const struct trace_view *v)
{
	struct kp_calls_clock *sums = calloc(v->names->nfns + 1, sizeof(*sums));
	struct forest f;
	struct shown s = { .f = &f,
		.fn = malloc((v->names->nfns + 1) * sizeof(*s.fn)) };
	bool made = forest_make(&f, v, b);

	if (made)
		s.node = malloc((f.t.n + 1) * sizeof(*s.node));
	if (sums != NULL && s.fn != NULL && s.node != NULL) {
		for (uint32_t i = 0; i < v->names->nfns; i++)
			s.fn[i] = FLAME_NONE;
		for (uint32_t i = 0; i < v->sum->nclocks; i++) {
			const struct kp_calls_clock *c = &v->sum->clocks[i];

			sums[c->fn].calls += c->calls;
			sums[c->fn].acc = sat_add(sums[c->fn].acc, c->acc);
			sums[c->fn].own = sat_add(sums[c->fn].own, c->own);
		}
		shown_choose(&s, v->rows);
		json_put(b, &s, sums);
	} else
		b->err = KP_ENOMEM;
	free(sums);
	free(s.fn);
	free(s.node);
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
trace_viewer(struct kp_buf *b, const struct trace_view *v,
    struct trace_slice *slices, size_t nslices, enum flame_viewer form)
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
				s->from - v->sum->first, s->to - s->from, 0 };
	}
	if (to != NULL)
		flame_tree_viewer(b, &f.t, &l, kp_buf_cstr(&targets), to, n,
		    form);
	free(to);
	forest_free(&f);
	kp_buf_free(&targets);
}
