/*
 * stored_table.c - writes trees of tiers, functions and stacks for people.
 *
 * Everything is estimated from samples, so shares have an interval: Wilson's, of
 * a share of N samples.  Weights, which differ between requests, make it a
 * little wider than shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sat.h"
#include "base/vec.h"
#include "frames.h"
#include "report/losses.h"
#include "report/report.h"
#include "stored_stacks.h"
#include "text/flame_tree.h"
#include "text/grid.h"
#include "text/text.h"
#include "text/timefmt.h"

#define NAME_BYTES_MAX (1u << 16)
#define STATES_SHOWN 3
#define STATES_NARROW 2		/* where there is little room */
#define WIDE 120u
#define STACK_BYTES 80	/* of a stack's text, and its last frame */
#define STACK_LEAST 0.1		/* share of a function whose stack is shown */
#define STATE_LEAST 0.05	/* a part of the row's time */

/* ---- the tree: tiers as they called each other, the functions of each, their stacks ---- */

/* Samples of anything, added up. */
struct stack_figures {
	uint64_t samples;
	kp_dur_ns time;		/* w_time */
	kp_dur_ns of[KP_STACK_STATES];
};

enum stack_kind { STACK_TIER, STACK_FN, STACK_FRAMES, STACK_KINDS };

struct stack_node {
	enum stack_kind kind;
	const char *name;	/* borrowed, n bytes: a tier, a frame's function,
				   or all frames */
	size_t n;
	struct stack_figures all;	/* with the nodes below */
};

/* Of one request type, or of all, which is node 0. */
struct stack_tree {
	struct flame_tree t;
	struct stack_node *v;		/* by node */
	uint32_t nv;
	struct intern names;		/* with the kind, a label */
};

static void
stack_tree_free(struct stack_tree *t)
{
	flame_tree_free(&t->t);
	free(t->v);
	intern_free(&t->names);
}

static void
add_figures(struct stack_figures *f, const struct kp_query_stack *row)
{
	f->samples += row->samples;
	f->time = sat_add(f->time, row->w_time);
	f->of[row->state] = sat_add(f->of[row->state], row->w_time);
}

/* Adds a row's figures to the child of that name; false: out of memory. */
static bool
step(struct stack_tree *t, uint32_t *node, enum stack_kind kind,
    const char *name, size_t n, const struct kp_query_stack *row)
{
	const struct interned *known = intern_get(&t->names, name, n);

	if (known == NULL)
		known = intern_put(&t->names, name, n, (uint32_t)t->names.len);
	if (known == NULL)
		return false;
	*node = flame_tree_child(&t->t, *node, known->val * STACK_KINDS + kind);
	if (*node == FLAME_NONE || vec_reach(&t->v, &t->nv, *node) != KP_OK)
		return false;
	t->v[*node].kind = kind;
	t->v[*node].name = name;
	t->v[*node].n = n;
	add_figures(&t->v[*node].all, row);
	return true;
}

/* Adds the row to the root and to each node on its way. */
static bool
add_row(struct stack_tree *t, const struct kp_query_stack *row)
{
	const char *path = row->path, *part;
	uint32_t node = FLAME_NONE;
	bool made = step(t, &node, STACK_TIER, "", 0, row);
	size_t n = 0;

	while (made && (part = frames_next(&path, &n)) != NULL)
		made = step(t, &node, STACK_TIER, part, n, row);
	part = frames_app(row->frames, &n);
	made = made && step(t, &node, STACK_FN, part != NULL ? part : "",
	    part != NULL ? frame_fn(part, n) : 0, row);
	if (made && frames_count(row->frames) >= 2)
		made = step(t, &node, STACK_FRAMES, row->frames,
		    strlen(row->frames), row);
	if (made)
		t->t.v[node].self = sat_add(t->t.v[node].self, row->w_time);
	return made;
}

/* identity NULL: of all types; tier NULL: of all.  KP_ENOMEM leaves it empty. */
static enum kp_err
stack_tree_make(struct stack_tree *t, const struct stacks *s,
    const char *identity, const char *tier)
{
	const struct kp_query_stack *row;
	bool made = true;

	*t = (struct stack_tree){ .nv = 0 };
	for (size_t i = 0; i < s->stacks.n && made; i++) {
		row = &s->stacks.v[i];
		if ((identity == NULL || strcmp(row->identity, identity) == 0) &&
		    (tier == NULL || frames_in_tier(row->path, tier)))
			made = add_row(t, row);
	}
	if (made && flame_tree_sum(&t->t) == KP_OK)
		return KP_OK;
	stack_tree_free(t);
	return KP_ENOMEM;
}

struct table {
	const struct stacks *s;
	const struct stacks_opts *o;
	struct stack_tree *tree;		/* of the current type */
	uint64_t requests;		/* of that; 0: not known */
	struct grid g;
};

/* ---- figures ---- */

static const char *
interval_text(char *buf, double p, uint64_t samples)
{
	double low, high;
	int digits;

	kp_stack_interval(p, (double)samples, &low, &high);
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
put_row(struct table *t, const struct stack_node *n, uint32_t depth,
    const char *head)
{
	struct kp_buf b;

	kp_buf_init(&b, NAME_BYTES_MAX);
	kp_buf_printf(&b, "%*s", (int)(2 * depth), "");
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
	const struct flame_node *nodes = t->tree->t.v;
	uint32_t depth = 0;
	uint64_t n = 0;

	for (; from != FLAME_NONE; from = nodes[from].next) {
		if (t->tree->v[from].kind != STACK_FN)
			continue;
		depth = nodes[from].depth;
		add(&sum.all, &t->tree->v[from].all);
		n++;
	}
	if (n == 0)
		return;
	snprintf(text, sizeof(text), "(%s more)", text_count(count, n));
	put_row(t, &sum, depth, text);
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

/* Functions before tiers.  A tree is as deep as its paths: KP_TIER_MAX and two. */
static void
put_children(struct table *t, uint32_t parent)
{
	static const enum stack_kind kinds[] = { STACK_FRAMES, STACK_FN,
		STACK_TIER };
	struct flame_tree *tree = &t->tree->t;
	size_t left;

	for (int k = 0; k < STACK_KINDS; k++) {
		left = shown_of(t, &t->tree->v[parent], kinds[k]);
		for (uint32_t i = flame_tree_first(tree, parent); left > 0 &&
		     i != FLAME_NONE; i = tree->v[i].next) {
			if (t->tree->v[i].kind != kinds[k])
				continue;
			put_row(t, &t->tree->v[i], tree->v[i].depth, NULL);
			put_children(t, i);
			if (--left == 0 && kinds[k] == STACK_FN)
				put_rest(t, tree->v[i].next);
		}
	}
}

/* ---- request types ---- */

struct type {
	const char *identity;	/* borrowed */
	kp_dur_ns time;		/* of its rows */
};

static int
by_name(const void *pa, const void *pb)
{
	const struct type *a = pa, *b = pb;

	return strcmp(a->identity, b->identity);
}

static int
by_time(const void *pa, const void *pb)
{
	const struct type *a = pa, *b = pb;

	if (a->time != b->time)
		return a->time < b->time ? 1 : -1;
	return by_name(pa, pb);
}

/* The request types, the longest time first; free() it.  NULL: no memory. */
static struct type *
types_of(const struct stacks *s, size_t *n)
{
	struct type *v = calloc(s->stacks.n + 1, sizeof(*v));
	size_t kept = 0;

	if (v == NULL)
		return NULL;
	for (size_t i = 0; i < s->stacks.n; i++)
		v[i] = (struct type){ s->stacks.v[i].identity,
			s->stacks.v[i].w_time };
	qsort(v, s->stacks.n, sizeof(*v), by_name);
	for (size_t i = 0; i < s->stacks.n; i++) {
		if (kept > 0 && by_name(&v[kept - 1], &v[i]) == 0)
			v[kept - 1].time = sat_add(v[kept - 1].time, v[i].time);
		else
			v[kept++] = v[i];
	}
	qsort(v, kept, sizeof(*v), by_time);
	*n = kept;
	return v;
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
	t->requests = stacks_requests_of(t->s, identity != NULL ? identity :
	    "_total");
	if (tree.t.n > 0 && tree.v[0].all.samples > 0) {
		if (t->g.ncells > 0)
			grid_rule(&t->g);
		put_row(t, &tree.v[0], 0, identity != NULL ? identity :
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
	struct type *v = types_of(t->s, &n);
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

void
stacks_put_took(struct kp_buf *b, const struct stacks *s, unsigned width)
{
	char text[REPORT_TOOK_MAX], n[TEXT_MAX];

	if (s->took_to == 0)
		return;
	text_note(b, width, "requests that took %s (limits are powers of two of a "
	    "second)%s%s%s", report_took(text, s->took_from, s->took_to),
	    s->stacks.untimed > 0 ? "; left out: " : "", s->stacks.untimed > 0 ?
	    text_counted(n, s->stacks.untimed, "sample") : "", s->stacks.untimed > 0 ?
	    " of requests whose duration is not known" : "");
}

static void
put_notes(struct kp_buf *b, const struct stacks *s,
    const struct stacks_opts *o, size_t hidden)
{
	char n[TEXT_MAX], share[TEXT_MAX];
	struct kp_buf range;

	kp_buf_init(&range, 4096);
	timefmt_put_range(&range, s->start, s->end);
	text_note(b, o->width, "sampled stacks: %s", kp_buf_cstr(&range));
	kp_buf_free(&range);
	stacks_put_took(b, s, o->width);
	text_note(b, o->width, "%s, %s of them not seen: no answer in 5 ms",
	    text_counted(n, s->stacks.samples, "sample"),
	    s->stacks.not_seen == 0 ? "none" : text_share(share,
	    (double)s->stacks.not_seen / (double)s->stacks.samples));
	text_note(b, o->width, "~: estimated from samples, with the 95 %% "
	    "interval of the share; <: called by");
	text_note(b, o->width, "times are of processes: while one waits for "
	    "another, both count");
	if (s->cut > 0)
		text_note(b, o->width, "%s of the samples have %u frames, the most "
		    "that the VM shows (backtrace_depth), and may lack outer ones",
		    text_share(share, (double)s->cut / (double)s->stacks.samples),
		    s->depth);
	if (hidden > 0)
		text_note(b, o->width, "%s more (-n, -identity)",
		    text_counted(n, hidden, "request type"));
	if (s->stacks.left > 0)
		text_note(b, o->width, "%s not read: too many (a shorter range "
		    "has fewer)", text_counted(n, s->stacks.left, "stack"));
}

enum kp_err
stacks_table(struct kp_buf *b, const struct stacks *s,
    const struct stacks_opts *o)
{
	struct table t = { .s = s, .o = o };
	size_t hidden = 0;
	enum kp_err err;

	if (s->stacks.samples == 0) {
		text_note(b, o->width, "%s", s->why);
		if (s->windows > 0)
			losses_text(b, &s->losses, o->width);
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
		text_note(b, o->width, "%s", s->why);
	losses_text(b, &s->losses, o->width);
	return KP_OK;
}
