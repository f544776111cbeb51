/*
 * top_keys.c - changes the view of `kprof top` by a key: the order, the node, the
 * time, the screen, the row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/keys.h"
#include "text/text.h"
#include "top.h"

const kp_dur_ns top_spans[TOP_SPANS] = {
	10 * KP_NS_PER_S, 30 * KP_NS_PER_S, 60 * KP_NS_PER_S,
	300 * KP_NS_PER_S, 900 * KP_NS_PER_S, 3600 * KP_NS_PER_S,
};
#define SPAN_DEFAULT 2

static const char *const sorts[] = { "requests", "total", "p99", "errors",
	"share", "name" };
#define NSORTS (sizeof(sorts) / sizeof(sorts[0]))

void
top_view_init(struct top_view *v)
{
	*v = (struct top_view){ .what = REPORT_SELF, .span = SPAN_DEFAULT,
		.sort = "requests" };
}

const char *
top_sort_name(const struct report *r, size_t i)
{
	if (i < NSORTS)
		return sorts[i];
	i -= NSORTS;
	return r != NULL && i < r->ntiers ? r->tiers[i] : NULL;
}

/* 0 if the report lacks the tier. */
static size_t
sort_index(const struct report *r, const char *name)
{
	const char *s;

	for (size_t i = 0; (s = top_sort_name(r, i)) != NULL; i++) {
		if (strcmp(s, name) == 0)
			return i;
	}
	return 0;
}

const char *
top_sort_now(const struct report *r, const struct top_view *v)
{
	return top_sort_name(r, sort_index(r, v->sort));
}

struct order {
	size_t by;
	enum report_what what;
	bool reverse;
};

static double
order_value(const struct report_row *row, const struct order *o)
{
	const struct report_cell *c = &row->cells[0];

	switch (o->by) {
	case 0:
		return (double)c->requests;
	case 1:
		return (double)c->mean;
	case 2:
		return (double)c->p99;
	case 3:
		return c->calls > 0 ? (double)c->raised / (double)c->calls :
		    -1;
	case 4:
		return (double)c->total;
	case 5:
		return 0;
	default:
		return report_value(row, o->by - NSORTS + 1, o->what);
	}
}

static int
order_cmp(const void *pa, const void *pb, void *ctx)
{
	const struct report_row *a = pa, *b = pb;
	const struct order *o = ctx;
	double va = order_value(a, o), vb = order_value(b, o);
	int d;

	if (va != vb)
		d = va > vb ? -1 : 1;
	else
		d = strcmp(a->identity, b->identity);
	return o->reverse ? -d : d;
}

void
top_sort(struct report *r, const struct top_view *v)
{
	struct order o = { sort_index(r, v->sort), v->what, v->reverse };

	if (r->nrows > 2)
		qsort_r(r->rows + 1, r->nrows - 1, sizeof(*r->rows),
		    order_cmp, &o);
}

static enum top_action
next_sort(struct top_view *v, const struct report *r, bool back)
{
	size_t n = 0, i = sort_index(r, v->sort);

	while (top_sort_name(r, n) != NULL)
		n++;
	i = (i + (back ? n - 1 : 1)) % n;
	snprintf(v->sort, sizeof(v->sort), "%s", top_sort_name(r, i));
	return TOP_DRAW;
}

/* Cycles through all nodes, and each alone. */
static enum top_action
next_node(struct top_view *v, const struct kp_query_nodes *nodes, bool back)
{
	size_t n = nodes != NULL ? nodes->n : 0, i = 0;

	while (i < n && strcmp(nodes->v[i], v->node) != 0)
		i++;
	i = i < n ? i + 1 : 0;		/* 0: all */
	i = (i + (back ? n : 1)) % (n + 1);
	snprintf(v->node, sizeof(v->node), "%s", i > 0 ? nodes->v[i - 1] : "");
	v->first = 0;
	return TOP_READ;
}

static enum top_action
move_span(struct top_view *v, bool longer)
{
	if (longer ? v->span + 1 >= TOP_SPANS : v->span == 0)
		return TOP_NOTHING;
	v->span = longer ? v->span + 1 : v->span - 1;
	return TOP_READ;
}

/* top_frame() corrects a row that is too far down. */
static enum top_action
scroll(struct top_view *v, bool down, size_t n)
{
	if (down)
		v->first += n;
	else
		v->first = v->first > n ? v->first - n : 0;
	return TOP_DRAW;
}

static enum top_action
show_screen(struct top_view *v, enum top_screen screen)
{
	v->screen = screen;
	v->first = 0;
	return TOP_DRAW;
}

static enum top_action
move_key(struct top_view *v, const struct top_data *d, int key, size_t page)
{
	switch (key) {
	case KEY_UP:
	case 'k':
		return scroll(v, false, 1);
	case KEY_DOWN:
	case 'j':
		return scroll(v, true, 1);
	case KEY_PAGE_UP:
		return scroll(v, false, page);
	case KEY_PAGE_DOWN:
		return scroll(v, true, page);
	case KEY_HOME:
		return scroll(v, false, v->first);
	case KEY_END:
		return scroll(v, true, REPORT_ROWS_MAX);
	case KEY_LEFT:
	case '<':
		return next_sort(v, d->report, true);
	case KEY_RIGHT:
	case '>':
		return next_sort(v, d->report, false);
	default:
		return TOP_NOTHING;
	}
}

static enum top_action
hold(struct top_view *v)
{
	v->held = !v->held;
	return v->held ? TOP_DRAW : TOP_READ;
}

enum top_action
top_key(struct top_view *v, const struct top_data *d, int key, unsigned page)
{
	v->message[0] = '\0';
	switch (key) {
	case 'q':
	case 3:				/* ^C, if the terminal sends no signal */
		return TOP_QUIT;
	case KEY_ESC:
		return show_screen(v, TOP_TIERS);
	case '\t':
		return show_screen(v, (v->screen + 1) % TOP_HELP);
	case '1':
	case '2':
	case '3':
		return show_screen(v, (enum top_screen)(key - '1'));
	case '?':
	case 'h':
		return show_screen(v, v->screen == TOP_HELP ? TOP_TIERS :
		    TOP_HELP);
	case 's':
		return next_sort(v, d->report, false);
	case 'r':
		v->reverse = !v->reverse;
		return TOP_DRAW;
	case 'w':
		v->what = (v->what + 1) % (REPORT_ASYNC + 1);
		return TOP_DRAW;
	case 'n':
		return next_node(v, d->nodes, false);
	case 'N':
		return next_node(v, d->nodes, true);
	case '+':
		return move_span(v, true);
	case '-':
		return move_span(v, false);
	case ' ':
		return hold(v);
	case 'p':
		return TOP_PAUSE;
	case 'c':
		return TOP_RESUME;
	case 12:			/* ^L */
		return TOP_READ;
	default:
		return move_key(v, d, key, page > 0 ? page : 1);
	}
}
