/*
 * stack_tree.c - writes sampled stacks as call trees: for people, folded, and for
 * speedscope.
 *
 * Lines are cells, sorted by root and by functions from the outermost one on: a
 * subtree is a range of them.  A stack that is as long as the VM shows them may
 * have lost its outer end, and stands below "...".
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "stack_report.h"
#include "text/flame.h"
#include "text/text.h"

#define LEVELS_MAX (KP_STACK_DEPTH_MAX + 2)	/* with the root and "..." */

struct line {
	uint32_t root;
	uint32_t n;		/* levels */
	const struct stack_cell *cell;
	uint32_t *fns;		/* n numbers, as of put_level() */
};

struct lines {
	const struct stack_view *v;
	struct stack_roots roots;
	struct line *v_lines;
	size_t n;
	uint32_t cut, none, not_seen;	/* numbers past those of functions */
	struct stack_figure all;
};

static const char *
level_name(const struct lines *l, uint32_t fn)
{
	return fn == l->cut ? "..." : fn == l->none ? "(no stack)" :
	    fn == l->not_seen ? "(not seen)" :
	    kp_stack_fn(l->v->sum->table, fn);
}

static int
line_order(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->root != y->root)
		return x->root < y->root ? -1 : 1;
	for (uint32_t i = 0; i < x->n && i < y->n; i++)
		if (x->fns[i] != y->fns[i])
			return x->fns[i] < y->fns[i] ? -1 : 1;
	return (x->n > y->n) - (x->n < y->n);
}

static bool
line_make(struct lines *l, struct line *to, size_t i)
{
	const struct stack_cell *c = &l->v->sum->cells[i];
	const struct kp_stack_frame *f;
	uint32_t n, at = 0;

	f = kp_stack_frames(l->v->sum->table, c->stack, &n);
	*to = (struct line){ .root = (uint32_t)l->roots.of[i], .cell = c,
		.fns = malloc((n + 1) * sizeof(*to->fns)) };
	if (to->fns == NULL)
		return false;
	if (stack_is_cut(l->v, n))
		to->fns[at++] = l->cut;
	for (uint32_t j = 0; j < n; j++)
		to->fns[at++] = f[j].fn;
	if (n == 0)
		to->fns[at++] = c->state == KP_STACK_NOT_SEEN ? l->not_seen :
		    l->none;
	to->n = at;
	stack_figure_add(&l->all, &c->f);
	return true;
}

static void
lines_free(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v_lines[i].fns);
	free(l->v_lines);
	stack_roots_free(&l->roots);
}

/* False after setting the error of b; to be freed in any case. */
static bool
lines_make(struct lines *l, const struct stack_view *v, struct kp_buf *b)
{
	const struct stack_sum *s = v->sum;
	uint32_t fns = kp_stack_table_fns(s->table);

	*l = (struct lines){ .v = v, .cut = fns, .none = fns + 1,
		.not_seen = fns + 2,
		.v_lines = calloc(s->ncells + 1, sizeof(*l->v_lines)) };
	if (stack_roots_make(&l->roots, s) != KP_OK || l->v_lines == NULL) {
		b->err = KP_ENOMEM;
		return false;
	}
	for (size_t i = 0; i < s->ncells; i++) {
		if (!stack_is_shown(v, &s->cells[i]))
			continue;
		if (!line_make(l, &l->v_lines[l->n], i)) {
			b->err = KP_ENOMEM;
			return false;
		}
		l->n++;
	}
	qsort(l->v_lines, l->n, sizeof(*l->v_lines), line_order);
	return true;
}

/* ---- the tree ---- */

/* A range of lines that have the first `level` functions in common. */
struct range {
	size_t from, n;
	struct stack_figure f;
};

struct tree {
	struct lines *l;
	struct kp_buf *b;
	size_t rows;
	uint64_t hidden;
};

static bool
is_full(const struct tree *t)
{
	return t->b->err != KP_OK || (t->l->v->rows > 0 &&
	    t->rows >= t->l->v->rows);
}

static void
put_row(struct tree *t, const struct range *r, uint32_t level, const char *name)
{
	struct stack_share s = stack_share(&r->f, &t->l->all);
	char share[TEXT_MAX], low[TEXT_MAX], high[TEXT_MAX], n[TEXT_MAX];
	size_t width = t->l->v->width, fit;
	struct kp_buf line;

	kp_buf_init(&line, STACK_LINE_MAX);
	kp_buf_printf(&line, "%8s  %7s to %-7s %9s  %*s", text_share(share,
	    s.part), text_share(low, s.low), text_share(high, s.high),
	    text_count(n, r->f.samples), (int)(2 * level), "");
	text_put(&line, name);
	fit = width > 0 ? text_fit(kp_buf_cstr(&line), width) : line.len;
	kp_buf_put(t->b, line.p, fit);
	kp_buf_u8(t->b, '\n');
	kp_buf_free(&line);
	t->rows++;
}

static int
range_order(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->f.time != y->f.time)
		return x->f.time < y->f.time ? 1 : -1;
	return x->from < y->from ? -1 : 1;
}

/* The key of a line at a level: its root, and then its functions. */
static bool
is_same_at(const struct line *x, const struct line *y, uint32_t level)
{
	return level == 0 ? x->root == y->root :
	    x->fns[level - 1] == y->fns[level - 1];
}

/* Puts what is below a range, which has `level` levels in common. */
static void
put_below(struct tree *t, const struct range *in, uint32_t level)
{
	const struct line *v = t->l->v_lines;
	struct range *below = malloc((in->n + 1) * sizeof(*below));
	size_t n = 0;

	if (below == NULL) {
		t->b->err = KP_ENOMEM;
		return;
	}
	for (size_t i = in->from; i < in->from + in->n; i++) {
		if (level > 0 && v[i].n < level)
			continue;	/* it ends here */
		if (n == 0 || !is_same_at(&v[below[n - 1].from], &v[i], level))
			below[n++] = (struct range){ .from = i };
		below[n - 1].n = i + 1 - below[n - 1].from;
		stack_figure_add(&below[n - 1].f, &v[i].cell->f);
	}
	qsort(below, n, sizeof(*below), range_order);
	for (size_t i = 0; i < n && !is_full(t); i++) {
		if ((double)below[i].f.time < t->l->v->least *
		    (double)t->l->all.time) {
			t->hidden++;
			continue;
		}
		put_row(t, &below[i], level, level == 0 ?
		    t->l->roots.names[v[below[i].from].root] :
		    level_name(t->l, v[below[i].from].fns[level - 1]));
		if (level < LEVELS_MAX)
			put_below(t, &below[i], level + 1);
	}
	free(below);
}

void
stack_tree(struct kp_buf *b, const struct stack_view *v)
{
	struct lines l;
	struct tree t = { .l = &l, .b = b };
	char n[TEXT_MAX];

	if (lines_make(&l, v, b) && l.n == 0) {
		stack_nothing(b, v);
	} else if (b->err == KP_OK) {
		struct range all = { .n = l.n };

		kp_buf_printf(b, "%8s  %18s  %9s\n", "% total",
		    "95 % interval", "samples");
		put_below(&t, &all, 0);
		if (is_full(&t))
			kp_buf_printf(b, "%s rows shown (-n)\n",
			    text_count(n, t.rows));
		else if (t.hidden > 0)
			kp_buf_printf(b, "%s more with less than %.2g %% of "
			    "the time (-least)\n", text_count(n, t.hidden),
			    100 * v->least);
	}
	lines_free(&l);
}

/* ---- folded stacks ---- */

static void
put_frame(struct kp_buf *b, const char *name)
{
	size_t from = b->len;

	text_put(b, name);
	flame_clean(b, from);
}

static bool
is_same_stack(const struct line *x, const struct line *y)
{
	return line_order(x, y) == 0;
}

void
stack_folded(struct kp_buf *b, const struct stack_view *v)
{
	struct lines l;

	if (!lines_make(&l, v, b)) {
		lines_free(&l);
		return;
	}
	for (size_t i = 0, next; i < l.n && b->err == KP_OK; i = next) {
		const struct line *line = &l.v_lines[i];
		struct stack_figure f = { 0 };

		for (next = i; next < l.n &&
		     is_same_stack(line, &l.v_lines[next]); next++)
			stack_figure_add(&f, &l.v_lines[next].cell->f);
		put_frame(b, l.roots.names[line->root]);
		for (uint32_t j = 0; j < line->n; j++) {
			kp_buf_u8(b, ';');
			put_frame(b, level_name(&l, line->fns[j]));
		}
		kp_buf_printf(b, " %" PRId64 "\n", f.time / KP_NS_PER_US);
	}
	lines_free(&l);
}

/* ---- speedscope ---- */

/* n lines of one root */
static void
put_profile(struct json *j, const struct lines *l, const struct line *v,
    size_t n)
{
	kp_dur_ns end = 0;

	for (size_t i = 0; i < n; i++)
		end = sat_add(end, v[i].cell->f.time);
	speedscope_profile(j, l->roots.names[v->root], 0, end);
	for (size_t i = 0; i < n && j->b->err == KP_OK; i++) {
		json_array(j, NULL);
		for (uint32_t k = 0; k < v[i].n; k++)
			json_uint(j, NULL, v[i].fns[k]);
		json_end(j);
	}
	speedscope_weights(j);
	for (size_t i = 0; i < n; i++)
		json_int(j, NULL, v[i].cell->f.time);
	speedscope_profile_end(j);
}

void
stack_speedscope(struct kp_buf *b, const struct stack_view *v)
{
	struct lines l;
	struct json j;

	if (!lines_make(&l, v, b)) {
		lines_free(&l);
		return;
	}
	speedscope_begin(&j, b, v->target);
	for (uint32_t i = 0; i <= l.not_seen; i++)
		speedscope_frame(&j, level_name(&l, i), "");
	speedscope_profiles(&j);
	for (size_t i = 0, n; i < l.n && b->err == KP_OK; i += n) {
		for (n = 1; i + n < l.n &&
		     l.v_lines[i + n].root == l.v_lines[i].root;)
			n++;
		put_profile(&j, &l, &l.v_lines[i], n);
	}
	speedscope_end(&j);
	lines_free(&l);
}
