/*
 * trace_tree.c - writes call trees: for people, and as folded stacks.
 *
 * The number of a parent is less than that of its children, so sums and lists of
 * children are made from the last node to the first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace_report.h"
#include "base/sat.h"
#include "text/flame.h"
#include "text/text.h"

struct node {
	kp_dur_ns all;		/* total time, with the nodes below */
	uint32_t child, next;	/* first child, next child of the parent */
};

struct tree {
	struct kp_buf *b;
	const struct trace_view *v;
	struct node *nodes;
	uint32_t *order;	/* to sort the children of one node */
	kp_dur_ns total;	/* of all processes */
	uint64_t hidden;	/* nodes below `least` */
	size_t rows;		/* written so far */
};

static bool
tree_init(struct tree *t, struct kp_buf *b, const struct trace_view *v)
{
	const struct kp_calls_sum *s = v->sum;
	const struct kp_calls_path *p;
	struct node *parent;

	*t = (struct tree){ .b = b, .v = v };
	t->nodes = malloc((s->npaths + 1) * sizeof(*t->nodes));
	t->order = malloc((s->npaths + 1) * sizeof(*t->order));
	if (t->nodes == NULL || t->order == NULL) {
		b->err = KP_ENOMEM;
		return false;
	}
	for (uint32_t i = 0; i < s->npaths; i++)
		t->nodes[i] = (struct node){ s->paths[i].own, KP_PATH_NONE,
			KP_PATH_NONE };
	for (uint32_t i = s->npaths; i-- > 0;) {
		p = &s->paths[i];
		if (p->parent == KP_PATH_NONE) {
			t->total = sat_add(t->total, t->nodes[i].all);
			continue;
		}
		parent = &t->nodes[p->parent];
		parent->all = sat_add(parent->all, t->nodes[i].all);
		t->nodes[i].next = parent->child;
		parent->child = i;
	}
	return true;
}

static void
tree_free(struct tree *t)
{
	free(t->nodes);
	free(t->order);
}

static int
node_order(const void *a, const void *b, void *ctx)
{
	const uint32_t *x = a, *y = b;
	const struct node *nodes = ctx;
	kp_dur_ns p = nodes[*x].all, q = nodes[*y].all;

	return p != q ? (p < q) - (p > q) : (*x > *y) - (*x < *y);
}

/* Relinks the children of a node in descending order of time. */
static void
sort_children(struct tree *t, uint32_t node)
{
	uint32_t n = 0, *link = &t->nodes[node].child;

	for (uint32_t i = *link; i != KP_PATH_NONE; i = t->nodes[i].next)
		t->order[n++] = i;
	qsort_r(t->order, n, sizeof(*t->order), node_order, t->nodes);
	for (uint32_t i = 0; i < n; i++) {
		*link = t->order[i];
		link = &t->nodes[*link].next;
	}
	*link = KP_PATH_NONE;
}

/* Cuts the row that begins at `from` to the width of the terminal. */
static void
end_row(struct tree *t, size_t from)
{
	const char *row = kp_buf_cstr(t->b);

	t->rows++;
	if (t->v->width > 0 && t->b->err == KP_OK)
		t->b->len = from + text_fit(row + from, t->v->width);
	kp_buf_str(t->b, "\n");
}

static bool
is_full(const struct tree *t)
{
	return t->v->rows > 0 && t->rows >= t->v->rows;
}

static void
put_node(struct tree *t, uint32_t i)
{
	size_t from = t->b->len;
	const struct kp_calls_path *p = &t->v->sum->paths[i];
	char calls[TEXT_MAX], all[TEXT_MAX], own[TEXT_MAX];

	kp_buf_printf(t->b, "%10s  %12s  %12s  %*s",
	    text_count(calls, p->calls), text_ms(all, t->nodes[i].all),
	    text_ms(own, p->own), (int)(2 * p->depth), "");
	trace_put_fn(t->b, t->v->names, p->fn);
	if (!p->args_vary)
		trace_put_args(t->b, p->args);
	end_row(t, from);
}

/* The next in depth-first order, below root. */
static uint32_t
node_after(const struct tree *t, uint32_t root, uint32_t i)
{
	while (i != root && t->nodes[i].next == KP_PATH_NONE)
		i = t->v->sum->paths[i].parent;
	return i == root ? KP_PATH_NONE : t->nodes[i].next;
}

static void
put_below(struct tree *t, uint32_t root)
{
	double least = t->v->least * (double)t->total;
	uint32_t i;

	sort_children(t, root);
	i = t->nodes[root].child;
	while (i != KP_PATH_NONE && !is_full(t) && t->b->err == KP_OK) {
		if ((double)t->nodes[i].all < least) {
			t->hidden++;
			i = node_after(t, root, i);
			continue;
		}
		put_node(t, i);
		sort_children(t, i);
		i = t->nodes[i].child != KP_PATH_NONE ? t->nodes[i].child :
		    node_after(t, root, i);
	}
}

/* True for a root of several processes, which have no common parent. */
static bool
is_many(const struct trace_view *v, uint32_t proc)
{
	return v->roots != NULL && v->roots->v[proc].n > 1;
}

static void
put_process(struct tree *t, uint32_t root)
{
	const struct kp_calls_sum *s = t->v->sum;
	const struct kp_calls_proc *p = &s->procs[s->paths[root].proc];
	size_t from = t->b->len;
	char all[TEXT_MAX];

	if ((double)t->nodes[root].all < t->v->least * (double)t->total) {
		t->hidden++;
		return;
	}
	kp_buf_printf(t->b, "%10s  %12s  %12s  ", "",
	    text_ms(all, t->nodes[root].all), "");
	trace_put_root(t->b, t->v, s->paths[root].proc);
	if (p->spawned && !is_many(t->v, s->paths[root].proc)) {
		kp_buf_str(t->b, ", spawned by ");
		trace_put_proc(t->b, t->v->names, p->parent);
	}
	end_row(t, from);
	put_below(t, root);
}

static void
put_processes(struct tree *t)
{
	const struct kp_calls_sum *s = t->v->sum;
	uint32_t *roots = malloc((s->nprocs + 1) * sizeof(*roots)), n = 0;

	if (roots == NULL) {
		t->b->err = KP_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < s->npaths; i++)
		if (s->paths[i].parent == KP_PATH_NONE &&
		    t->nodes[i].child != KP_PATH_NONE)
			roots[n++] = i;
	qsort_r(roots, n, sizeof(*roots), node_order, t->nodes);
	for (uint32_t i = 0; i < n && !is_full(t); i++)
		put_process(t, roots[i]);
	free(roots);
}

void
trace_tree(struct kp_buf *b, const struct trace_view *v)
{
	char n[TEXT_MAX];
	struct tree t;

	if (tree_init(&t, b, v)) {
		kp_buf_printf(b, "%10s  %12s  %12s\n", "calls", "total ms",
		    "own ms");
		put_processes(&t);
		if (is_full(&t))
			kp_buf_printf(b, "%s rows shown (-n)\n",
			    text_count(n, t.rows));
		else if (t.hidden > 0)
			kp_buf_printf(b, "%s more with less than %.2g %% of "
			    "the time (-least)\n", text_count(n, t.hidden),
			    100 * v->least);
	}
	tree_free(&t);
}

/* ---- folded stacks ---- */

/* Replaces semicolons, which separate frames. */
static void
put_frame(struct kp_buf *b, const struct trace_view *v, uint32_t path)
{
	const struct kp_calls_path *p = &v->sum->paths[path];
	size_t from = b->len;

	if (p->parent == KP_PATH_NONE)
		trace_put_root(b, v, p->proc);
	else
		trace_put_fn(b, v->names, p->fn);
	flame_clean(b, from);
}

static void
put_folded(struct kp_buf *b, const struct trace_view *v, uint32_t path,
    uint64_t us)
{
	uint32_t way[KP_CALLS_DEPTH_MAX + 1], n = 0;

	for (uint32_t i = path; i != KP_PATH_NONE; i = v->sum->paths[i].parent)
		way[n++] = i;
	while (n-- > 0) {
		put_frame(b, v, way[n]);
		kp_buf_str(b, n > 0 ? ";" : " ");
	}
	kp_buf_printf(b, "%" PRIu64 "\n", us);
}

void
trace_folded(struct kp_buf *b, const struct trace_view *v)
{
	const struct kp_calls_path *p;
	uint64_t us;

	for (uint32_t i = 0; i < v->sum->npaths && b->err == KP_OK; i++) {
		p = &v->sum->paths[i];
		us = (uint64_t)p->own / KP_NS_PER_US;
		if (p->parent != KP_PATH_NONE && us > 0)
			put_folded(b, v, i, us);
	}
}
