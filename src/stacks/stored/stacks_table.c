/*
 * stacks_table.c - writes trees of tiers, functions and stacks for people.
 *
 * Everything is estimated from samples, so shares have an interval: Wilson's, of
 * a share of so many samples.  Weights, which differ between requests, make it a
 * little wider than shown.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "report/losses.h"
#include "stack_tree.h"
#include "stacks_internal.h"
#include "text/grid.h"
#include "text/text.h"
#include "text/timefmt.h"

#define Z 1.96			/* of 95 % */
#define NAME_BYTES_MAX (1u << 16)
#define STATES_SHOWN 3
#define STATES_NARROW 2		/* where there is little room */
#define WIDE 120u
#define STACK_BYTES 80	/* of a stack's text, and its last frame */
#define STACK_LEAST 0.1		/* share of a function whose stack is shown */
#define STATE_LEAST 0.05	/* a part of the row's time */

struct table {
	const struct stacks *s;
	const struct stacks_opts *o;
	const struct stack_tree *tree;	/* of the current type */
	uint64_t requests;		/* of that; 0: not known */
	struct grid g;
};

/* ---- figures ---- */

/* Source: E. B. Wilson, 1927: the score interval. */
static void
wilson(double p, double n, double *low, double *high)
{
	double z2n = Z * Z / n;
	double middle = (p + z2n / 2) / (1 + z2n);
	double half = Z / (1 + z2n) * sqrt(p * (1 - p) / n + z2n / (4 * n));

	*low = middle - half > 0 ? middle - half : 0;
	*high = middle + half < 1 ? middle + half : 1;
}

static const char *
interval_text(char *buf, double p, uint64_t samples)
{
	double low, high;
	int digits;

	wilson(p, (double)samples, &low, &high);
	digits = high < 0.0995;
	snprintf(buf, TEXT_MAX, "%.*f-%.*f %%", digits, 100 * low, digits,
	    100 * high);
	return buf;
}

/* "in a call 62 %, running 30 %"; "running" if it was that all the time. */
static void
states_text(char *buf, size_t size, const struct stack_figures *f, int states)
{
	bool shown[KP_STACK_STATES] = { false };
	char share[TEXT_MAX];
	size_t len = 0;
	int most;

	buf[0] = '\0';
	for (int k = 0; k < states; k++) {
		most = -1;
		for (int i = 0; i < KP_STACK_STATES; i++)
			if (!shown[i] && (double)f->of[i] >= STATE_LEAST *
			    (double)f->time && f->of[i] > 0 &&
			    (most < 0 || f->of[i] > f->of[most]))
				most = i;
		if (most < 0)
			return;
		shown[most] = true;
		len += (size_t)snprintf(buf + len, size - len, "%s%s%s%s",
		    k > 0 ? ", " : "",
		    kp_stack_state_name((enum kp_stack_state)most),
		    f->of[most] < f->time ? " " : "",
		    f->of[most] < f->time ? text_share(share,
		    (double)f->of[most] / (double)f->time) : "");
	}
}

static const char *
estimate(char *buf, const char *text)
{
	snprintf(buf, TEXT_MAX, "~%.*s", TEXT_MAX - 2, text);
	return buf;
}

static void
put_figures(struct table *t, const struct stack_figures *f)
{
	const struct stack_figures *all = &t->tree->v[0].all;
	double share = all->time > 0 ? (double)f->time / (double)all->time : 0;
	char text[TEXT_MAX], marked[TEXT_MAX], states[4 * TEXT_MAX];

	if (t->requests > 0)
		grid_cell(&t->g, estimate(marked, text_dur(text, f->time /
		    (kp_dur_ns)t->requests)));
	else
		grid_cell(&t->g, "-");
	grid_cell(&t->g, f == all ? text_share(text, 1) :
	    estimate(marked, text_share(text, share)));
	grid_cell(&t->g, f == all ? "" : interval_text(text, share,
	    all->samples));
	grid_cell(&t->g, text_count(text, f->samples));
	states_text(states, sizeof(states), f, t->o->width == 0 ||
	    t->o->width >= WIDE ? STATES_SHOWN : STATES_NARROW);
	grid_cell(&t->g, states);
}

/* ---- rows ---- */

/*
 * The innermost frame first, so that it is seen where the rest is cut: by the
 * terminal, or where there is none past STACK_BYTES, so that figures stay near.
 */
static void
put_stack(struct kp_buf *b, const char *s, size_t n)
{
	size_t end = n, from, start = b->len;

	while (end > 0) {
		if (b->len - start > STACK_BYTES) {
			kp_buf_str(b, " < ...");
			return;
		}
		for (from = end; from > 0 && s[from - 1] != ';'; from--)
			;
		kp_buf_str(b, end < n ? " < " : "");
		kp_buf_put(b, s + from, end - from);
		end = from > 0 ? from - 1 : 0;
	}
}

static void
put_name(struct kp_buf *b, const struct stack_node *n)
{
	char name[NAME_BYTES_MAX / 16];

	if (n->kind == STACK_FRAMES) {
		put_stack(b, n->name, n->n);
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)n->n, n->name);
	kp_buf_str(b, n->kind == STACK_FN ? stacks_fn_name(name) :
	    stacks_tier_name(name));
}

static void
put_row(struct table *t, const struct stack_node *n, const char *head)
{
	struct kp_buf b;

	kp_buf_init(&b, NAME_BYTES_MAX);
	kp_buf_printf(&b, "%*s", (int)(2 * n->depth), "");
	if (head != NULL)
		kp_buf_str(&b, head);
	else
		put_name(&b, n);
	grid_cell(&t->g, kp_buf_cstr(&b));
	kp_buf_free(&b);
	put_figures(t, &n->all);
}

static void
add(struct stack_figures *to, const struct stack_figures *f)
{
	to->samples += f->samples;
	to->time = sat_add(to->time, f->time);
	for (int i = 0; i < KP_STACK_STATES; i++)
		to->of[i] = sat_add(to->of[i], f->of[i]);
}

/* Adds up the functions from this one on, as one row; none: no row. */
static void
put_rest(struct table *t, uint32_t from)
{
	struct stack_node sum = { .kind = STACK_FN };
	char count[TEXT_MAX], text[2 * TEXT_MAX];
	const struct stack_node *v = t->tree->v;
	uint64_t n = 0;

	for (; from != STACK_NO_NODE && v[from].kind == STACK_FN;
	     from = v[from].next) {
		sum.depth = v[from].depth;
		add(&sum.all, &v[from].all);
		n++;
	}
	if (n == 0)
		return;
	snprintf(text, sizeof(text), "(%s more)", text_count(count, n));
	put_row(t, &sum, text);
}

/* How many children of this kind are shown. */
static size_t
shown_of(const struct table *t, const struct stack_node *parent,
    enum stack_kind kind)
{
	double all = (double)t->tree->v[0].all.time;

	if (kind == STACK_TIER || t->o->rows == 0)
		return SIZE_MAX;
	if (kind == STACK_FN)
		return t->o->rows;
	return (double)parent->all.time >= STACK_LEAST * all;
}

/* A tree is as deep as its paths: KP_TIER_MAX and two. */
static void
put_children(struct table *t, uint32_t parent)
{
	size_t left = 0;
	uint32_t i = t->tree->v[parent].child;
	int kind = -1;

	for (; i != STACK_NO_NODE; i = t->tree->v[i].next) {
		if ((int)t->tree->v[i].kind != kind) {
			kind = (int)t->tree->v[i].kind;
			left = shown_of(t, &t->tree->v[parent],
			    (enum stack_kind)kind);
		}
		if (left == 0)
			continue;
		put_row(t, &t->tree->v[i], NULL);
		put_children(t, i);
		if (--left == 0 && kind == STACK_FN)
			put_rest(t, t->tree->v[i].next);
	}
}

static uint64_t
requests_of(const struct stacks *s, const char *identity)
{
	for (size_t i = 0; i < s->nrequests; i++)
		if (strcmp(s->requests[i].identity, identity) == 0)
			return s->requests[i].requests;
	return 0;
}

/* identity NULL: all requests */
static enum kp_err
put_type(struct table *t, const char *identity)
{
	struct stack_tree tree;
	enum kp_err err = stack_tree_make(&tree, t->s, identity, t->o->tier);

	if (err != KP_OK)
		return err;
	t->tree = &tree;
	t->requests = requests_of(t->s, identity != NULL ? identity :
	    "_total");
	if (tree.v[0].all.samples > 0) {
		if (t->g.ncells > 0)
			grid_rule(&t->g);
		put_row(t, &tree.v[0], identity != NULL ? identity :
		    "all requests");
		put_children(t, 0);
	}
	t->tree = NULL;
	stack_tree_free(&tree);
	return KP_OK;
}

static enum kp_err
put_types(struct table *t, size_t *hidden)
{
	size_t n = 0, shown;
	struct stacks_type *v = stacks_types(t->s, &n);
	enum kp_err err = v != NULL ? put_type(t, n == 1 ? v[0].identity :
	    NULL) : KP_ENOMEM;

	shown = t->o->rows > 0 && t->o->rows < n ? t->o->rows : n;
	*hidden = n - shown;
	for (size_t i = 0; n > 1 && i < shown && err == KP_OK; i++)
		err = put_type(t, v[i].identity);
	free(v);
	return err;
}

/* ---- below the table ---- */

static void
put_line(struct kp_buf *b, struct kp_buf *line, unsigned width)
{
	text_wrap(b, kp_buf_cstr(line), width, 2);
}

static void
put_notes(struct kp_buf *b, const struct stacks *s,
    const struct stacks_opts *o, size_t hidden)
{
	char n[TEXT_MAX], share[TEXT_MAX];
	struct kp_buf line;

	kp_buf_init(&line, 4096);
	kp_buf_str(&line, "sampled stacks: ");
	timefmt_put_range(&line, s->start, s->end);
	put_line(b, &line, o->width);
	kp_buf_reset(&line);
	kp_buf_printf(&line, "%s, ", text_counted(n, s->stacks.samples,
	    "sample"));
	kp_buf_printf(&line, "%s of them not seen: no answer in 5 ms",
	    s->stacks.not_seen == 0 ? "none" : text_share(share,
	    (double)s->stacks.not_seen / (double)s->stacks.samples));
	put_line(b, &line, o->width);
	text_wrap(b, "~: estimated from samples, with the 95 % interval of "
	    "the share; <: called by", o->width, 2);
	text_wrap(b, "times are of processes: while one waits for another, "
	    "both count", o->width, 2);
	kp_buf_reset(&line);
	if (hidden > 0) {
		kp_buf_printf(&line, "%s more (-n, -identity)",
		    text_counted(n, hidden, "request type"));
		put_line(b, &line, o->width);
	}
	kp_buf_reset(&line);
	if (s->stacks.left > 0) {
		kp_buf_printf(&line, "%s not read: too many (a shorter range "
		    "has fewer)", text_counted(n, s->stacks.left, "stack"));
		put_line(b, &line, o->width);
	}
	kp_buf_free(&line);
}

static void
put_why(struct kp_buf *b, const struct stacks *s, const struct stacks_opts *o)
{
	text_wrap(b, s->why, o->width, 2);
	if (s->windows > 0)
		losses_text(b, &s->losses, o->width);
}

enum kp_err
stacks_table(struct kp_buf *b, const struct stacks *s,
    const struct stacks_opts *o)
{
	struct table t = { .s = s, .o = o };
	size_t hidden = 0;
	enum kp_err err;

	if (s->stacks.samples == 0) {
		put_why(b, s, o);
		return KP_OK;
	}
	grid_init(&t.g);
	grid_col(&t.g, "", GRID_LEFT);
	grid_col(&t.g, "per request", GRID_RIGHT);
	grid_col(&t.g, "share", GRID_RIGHT);
	grid_col_optional(&t.g, "95 %", GRID_RIGHT, 2);
	grid_col_optional(&t.g, "samples", GRID_RIGHT, 1);
	grid_col_optional(&t.g, "processes were", GRID_LEFT, 3);
	err = put_types(&t, &hidden);
	if (err == KP_OK && t.g.ncells > 0)
		grid_write(&t.g, o->width, b);
	else if (err == KP_OK)
		text_wrap(b, "no sample is in this tier (see -tier)", o->width,
		    2);
	grid_free(&t.g);
	if (err != KP_OK)
		return err;
	kp_buf_u8(b, '\n');
	put_notes(b, s, o, hidden);
	if (s->why != NULL)
		text_wrap(b, s->why, o->width, 2);
	losses_text(b, &s->losses, o->width);
	return KP_OK;
}
