/*
 * stack_tree.c - writes sampled stacks as call trees: for people, folded, and for
 * speedscope and pprof.
 *
 * Cells come in the order of their roots, and of their functions from the outermost
 * one on.  A stack that is as long as the VM shows them may have lost its outer
 * end, and stands below "...".  A function that calls itself is one box there, as in
 * a trace; pprof has each call, since it adds up a function's time once by itself.
 */
#include <stdlib.h>

#include "base/sat.h"
#include "base/vec.h"
#include "kprofd/fn_name.h"
#include "kprofd/request.h"
#include "stack_report.h"
#include "text/flame_tree.h"
#include "text/pprof.h"
#include "text/text.h"

struct forest {
	const struct stack_view *v;
	struct stack_roots roots;
	struct flame_tree t;
	struct stack_figure *figures;	/* by node, with the nodes below */
	uint32_t nfigures;
	struct stack_figure all;
	size_t *order;		/* numbers of cells */
	struct flame_slice *slices;	/* a cell each, in this order */
	size_t n;
	uint32_t cut, none, not_seen;	/* numbers past those of functions */
};

/* What a cell stands below at level i, from the outermost on; FLAME_NONE: no more. */
static uint32_t
level(const struct forest *f, const struct stack_cell *c, uint32_t i)
{
	const struct kp_stack_frame *frames;
	uint32_t n;

	frames = kp_stack_frames(f->v->sum->table, c->stack, &n);
	if (n == 0 && i == 0)
		return c->state == KP_STACK_NOT_SEEN ? f->not_seen : f->none;
	if (stack_is_cut(f->v, n) && i-- == 0)
		return f->cut;
	/* the i-th that is not called by itself */
	for (uint32_t k = 0; k < n; k++)
		if ((k == 0 || frames[k].fn != frames[k - 1].fn) && i-- == 0)
			return frames[k].fn;
	return FLAME_NONE;
}

static int
cell_order(const void *pa, const void *pb, void *ctx)
{
	const struct forest *f = ctx;
	const size_t a = *(const size_t *)pa, b = *(const size_t *)pb;
	const struct stack_cell *cells = f->v->sum->cells;
	uint32_t x, y;

	if (f->roots.of[a] != f->roots.of[b])
		return f->roots.of[a] < f->roots.of[b] ? -1 : 1;
	for (uint32_t i = 0; (x = level(f, &cells[a], i)) ==
	     (y = level(f, &cells[b], i)); i++)
		if (x == FLAME_NONE)
			return (a > b) - (a < b);
	/* where one has no more, it comes first */
	return x + 1 < y + 1 ? -1 : 1;
}

/* False: out of memory. */
static bool
cell_put(struct forest *f, size_t cell)
{
	const struct stack_cell *c = &f->v->sum->cells[cell];
	uint32_t label = (uint32_t)f->roots.of[cell], node = FLAME_NONE;

	for (uint32_t i = 0; label != FLAME_NONE; i++) {
		node = flame_tree_child(&f->t, node, label);
		if (node == FLAME_NONE || vec_reach(&f->figures, &f->nfigures,
		    node) != KP_OK)
			return false;
		stack_figure_add(&f->figures[node], &c->f);
		label = level(f, c, i);
	}
	f->t.v[node].self = sat_add(f->t.v[node].self, c->f.time);
	flame_slice_put(&f->t, f->slices, &f->n, node, c->f.time);
	stack_figure_add(&f->all, &c->f);
	return true;
}

/* False after setting the error of b; to be freed in any case. */
static bool
forest_make(struct forest *f, const struct stack_view *v, struct kp_buf *b)
{
	const struct stack_sum *s = v->sum;
	uint32_t fns = kp_stack_table_fns(s->table);
	size_t n = 0;
	bool made;

	*f = (struct forest){ .v = v, .cut = fns, .none = fns + 1,
		.not_seen = fns + 2,
		.order = calloc(s->ncells + 1, sizeof(*f->order)),
		.slices = calloc(s->ncells + 1, sizeof(*f->slices)) };
	made = stack_roots_make(&f->roots, s) == KP_OK && f->order != NULL &&
	    f->slices != NULL;
	for (size_t i = 0; i < s->ncells && made; i++)
		if (stack_is_shown(v, &s->cells[i]))
			f->order[n++] = i;
	if (made)
		qsort_r(f->order, n, sizeof(*f->order), cell_order, f);
	for (size_t i = 0; i < n && made; i++)
		made = cell_put(f, f->order[i]);
	if (!made || flame_tree_sum(&f->t) != KP_OK) {
		b->err = KP_ENOMEM;
		return false;
	}
	return true;
}

static void
forest_free(struct forest *f)
{
	stack_roots_free(&f->roots);
	flame_tree_free(&f->t);
	free(f->figures);
	free(f->order);
	free(f->slices);
}

static const char *
label_name(char text[FN_NAME_MAX], const struct forest *f, uint32_t label,
    bool is_root)
{
	return is_root ? f->roots.names[label] : label == f->cut ? "..." :
	    label == f->none ? "(no stack)" : label == f->not_seen ?
	    "(not seen)" : fn_read(text, FN_NAME_MAX,
	    kp_stack_fn(f->v->sum->table, label));
}

static void
put_label(struct kp_buf *b, const void *ctx, uint32_t label, bool is_root)
{
	char name[FN_NAME_MAX];

	kp_buf_str(b, label_name(name, ctx, label, is_root));
}

static void
put_row(struct kp_buf *b, const void *ctx, uint32_t node)
{
	const struct forest *f = ctx;
	const struct flame_node *n = &f->t.v[node];
	struct stack_share s = stack_share(&f->figures[node], &f->all);
	char share[TEXT_MAX], low[TEXT_MAX], high[TEXT_MAX], count[TEXT_MAX];
	char name[FN_NAME_MAX];

	kp_buf_printf(b, "%8s  %7s to %-7s %9s  %*s", text_share(share, s.part),
	    text_share(low, s.low), text_share(high, s.high),
	    text_count(count, f->figures[node].samples), (int)(2 * n->depth),
	    "");
	text_put(b, label_name(name, f, n->label, n->depth == 0));
}

void
stack_tree(struct kp_buf *b, const struct stack_view *v)
{
	struct forest f;

	if (forest_make(&f, v, b) && f.n == 0) {
		stack_nothing(b, v);
	} else if (b->err == KP_OK) {
		kp_buf_printf(b, "%8s  %18s  %9s\n", "% total",
		    "95 % interval", "samples");
		flame_tree_rows(b, &f.t, &(struct flame_rows){ .put = put_row,
		    .ctx = &f, .least = v->least, .rows = v->rows,
		    .width = v->width });
	}
	forest_free(&f);
}

void
stack_folded(struct kp_buf *b, const struct stack_view *v)
{
	struct forest f;

	if (forest_make(&f, v, b))
		flame_tree_folded(b, &f.t, &(struct flame_labels){
		    f.not_seen + 1, put_label, NULL, &f }, f.slices, f.n,
		    false);
	forest_free(&f);
}

void
stack_speedscope(struct kp_buf *b, const struct stack_view *v)
{
	struct forest f;

	if (forest_make(&f, v, b))
		flame_tree_viewer(b, &f.t, &(struct flame_labels){
		    f.not_seen + 1, put_label, NULL, &f }, v->target, f.slices,
		    f.n, FLAME_SPEEDSCOPE);
	forest_free(&f);
}

void
stack_pprof(struct kp_buf *b, const struct stack_view *v)
{
	static const struct pprof_type types[] = { PPROF_STACK_TYPES };
	uint64_t places[KP_STACK_DEPTH_MAX + 2];
	const struct kp_stack_table *t = v->sum->table;
	const struct kp_stack_frame *frames;
	kp_dur_ns time = 0;
	uint64_t samples = 0;
	char name[FN_NAME_MAX], pid[64];
	struct pprof p;
	uint32_t n, k;

	pprof_begin(&p, types, 3, 2, NULL);
	for (size_t i = 0; i < v->sum->ncells; i++) {
		const struct stack_cell *c = &v->sum->cells[i];
		const struct pprof_label labels[] = { { "node", v->target },
			{ "group", stack_group_name(v->sum, c->group) },
			{ "application", stack_group_application(v->sum,
			    c->group) }, { "process", pid },
			{ "state", kp_stack_state_name(c->state) } };

		if (!stack_is_shown(v, c))
			continue;
		pid[0] = '\0';
		if (v->sum->by == STACK_BY_PROCESS)
			kp_proc_text(c->proc, pid, sizeof(pid));
		frames = kp_stack_frames(t, c->stack, &n);
		for (k = 0; k < n && k < KP_STACK_DEPTH_MAX; k++) {
			const struct kp_stack_frame *f = &frames[n - 1 - k];
			const char *fn = fn_read(name, sizeof(name),
			    kp_stack_fn(t, f->fn));

			places[k] = pprof_place(&p, fn, strlen(fn), f->line);
		}
		if (n == 0)
			places[k++] = c->state == KP_STACK_NOT_SEEN ?
			    pprof_place(&p, "(not seen)", 10, 0) :
			    pprof_place(&p, "(no stack)", 10, 0);
		else if (stack_is_cut(v, n))
			places[k++] = pprof_place(&p, "...", 3, 0);
		pprof_sample(&p, places, k, (const int64_t[]){
		    (int64_t)c->f.samples, c->f.time,
		    (KP_STACK_WORKING >> c->state & 1) != 0 ? c->f.time : 0 },
		    labels, 5);
		samples += c->f.samples;
		time = sat_add(time, c->f.time);
	}
	pprof_end(&p, b, v->from, v->elapsed, samples > 0 ?
	    time / (kp_dur_ns)samples : 0);
}
