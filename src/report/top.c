/*
 * top.c - changes the view of `kprof top` by a key, and draws a frame of it: head,
 * body, and the line of keys.
 *
 * The body is written at full length and then cut: the head of a table stays, its
 * rows scroll.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grid.h"
#include "text/keys.h"
#include "kprofd/nodes.h"
#include "losses.h"
#include "requests.h"
#include "text/text.h"
#include "top.h"
#include "text/timefmt.h"

#define FRAME_MAX (16u << 20)	/* bytes of a body before it is cut */
#define TABLE_HEAD 4u		/* lines: heads, rule, all requests, rule */
#define SLOW_HEAD 2u
#define SLOW_BELOW 6u		/* slow requests below the tiers, at most */
#define SLOW_ROOM 12u		/* rows of tiers that go before those */
#define HINTS_SHOWN 2u		/* a line each */
#define TARGETS_NAMED 4u	/* more are summed up in a line */

/* ---- the view ---- */

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

/* The sort key in force: v->sort, or "requests" if r lacks that tier. */
static const char *
sort_now(const struct report *r, const struct top_view *v)
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
	const double v[NSORTS] = { (double)c->requests, (double)c->mean,
		(double)c->p99, c->calls > 0 ? (double)c->raised /
		(double)c->calls : -1, (double)c->total, 0 };

	return o->by < NSORTS ? v[o->by] :
	    report_value(row, o->by - NSORTS + 1, o->what);
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

/* ---- a frame ---- */

struct frame {
	struct kp_buf *out;
	struct kp_buf text;	/* being built, for put_text() */
	unsigned width, height;	/* 0: no limit */
	unsigned lines;		/* written */
};

static bool
is_full(const struct frame *f)
{
	return f->height > 0 && f->lines >= f->height;
}

/* Writes a line, cut to the width, unless the frame is full. */
static void
put_line(struct frame *f, const char *s, size_t n)
{
	struct kp_buf line;

	if (is_full(f))
		return;
	if (f->lines++ > 0)
		kp_buf_u8(f->out, '\n');
	kp_buf_init(&line, FRAME_MAX);
	kp_buf_put(&line, s, n);
	s = kp_buf_cstr(&line);
	kp_buf_put(f->out, s, f->width > 0 ? text_fit(s, f->width) :
	    strlen(s));
	if (line.err != KP_OK)
		f->out->err = line.err;
	kp_buf_free(&line);
}

/* Writes at most n lines of a text, from line `from` on. */
static void
put_lines(struct frame *f, const char *s, size_t from, size_t n)
{
	size_t len;

	for (; *s != '\0' && n > 0; s += len + (s[len] == '\n')) {
		len = strcspn(s, "\n");
		if (from > 0) {
			from--;
			continue;
		}
		put_line(f, s, len);
		n--;
	}
}

/* Writes the lines of f->text, and empties it. */
static void
put_text(struct frame *f)
{
	if (f->text.err != KP_OK)
		f->out->err = f->text.err;
	put_lines(f, kp_buf_cstr(&f->text), 0, SIZE_MAX);
	kp_buf_reset(&f->text);
}

static size_t
lines_left(const struct frame *f)
{
	return f->height == 0 ? SIZE_MAX : f->height - f->lines;
}

/* ---- head ---- */

static void
put_order(struct kp_buf *b, const struct top_view *v, const struct report *r)
{
	/* without a window the tiers are not known */
	bool known = r != NULL && r->windows > 0;
	const char *by = known ? sort_now(r, v) : v->sort;

	kp_buf_printf(b, "  by %s", v->reverse ? "least " : "");
	text_put(b, by);
	if (known)
		kp_buf_u8(b, '*');	/* as at the column */
	if (strcmp(by, v->sort) == 0)
		return;
	kp_buf_str(b, " (there is no tier ");
	text_put(b, v->sort);
	kp_buf_u8(b, ')');
}

static void
put_title(struct frame *f, const struct top_view *v, const struct top_data *d)
{
	char span[TEXT_MAX], when[TIMEFMT_MAX], ago[TEXT_MAX];
	struct kp_buf *b = &f->text;

	kp_buf_printf(b, "kprof top  %s", v->held ? "HELD  " : "");
	if (v->node[0] != '\0')
		text_put(b, v->node);
	else
		kp_buf_printf(b, "all nodes (%zu)",
		    d->nodes != NULL ? d->nodes->n : 0);
	kp_buf_printf(b, "  last %s", text_span(span, top_spans[v->span]));
	put_order(b, v, d->report);
	kp_buf_printf(b, "  %s", timefmt_local(when, d->now));
	if (d->report != NULL && d->report->running)
		kp_buf_printf(b, "  (running window: %s so far)",
		    text_about(ago, d->report->covered));
	else if (d->last != 0)
		kp_buf_printf(b, "  (windows until %s ago)",
		    text_span(ago, d->now > d->last ? d->now - d->last : 0));
	put_text(f);
}

static void
put_target(struct frame *f, const struct top_target *t)
{
	struct kp_buf *b = &f->text;

	text_put(b, t->node);
	kp_buf_str(b, ": ");
	text_put(b, t->state);
	if (!t->ended) {
		if (t->one_in > 1)
			kp_buf_printf(b, ", one request in %" PRIu64,
			    t->one_in);
		kp_buf_printf(b, ", %" PRIu64 " in flight, costs %.2f %% of a "
		    "scheduler", t->in_flight, t->cost);
		if (t->trips > 0)
			kp_buf_printf(b, ", %" PRIu64 " %s%s", t->trips,
			    t->trips == 1 ? "overload" : "overloads",
			    t->resting ? ", paused" : "");
	}
	put_text(f);
}

static bool
is_chosen(const struct top_view *v, const struct top_target *t)
{
	return v->node[0] == '\0' || kp_globs(v->node, t->node);
}

/* A line for each chosen target; if they are many, one for all. */
static void
put_targets(struct frame *f, const struct top_view *v,
    const struct top_status *s)
{
	uint64_t in_flight = 0;
	unsigned resting = 0;
	double cost = 0;
	size_t n = 0;
	char line[256], count[TEXT_MAX];

	for (size_t i = 0; i < s->n; i++) {
		if (!is_chosen(v, &s->targets[i]))
			continue;
		n++;
		in_flight += s->targets[i].in_flight;
		resting += s->targets[i].resting;
		cost = s->targets[i].cost > cost ? s->targets[i].cost : cost;
	}
	for (size_t i = 0; n <= TARGETS_NAMED && i < s->n; i++) {
		if (is_chosen(v, &s->targets[i]))
			put_target(f, &s->targets[i]);
	}
	if (n <= TARGETS_NAMED)
		return;
	snprintf(line, sizeof(line), "%u of %u targets armed, %u overloaded, "
	    "%s in flight, at most %.2f %% of a scheduler each", s->armed,
	    s->ntargets, resting, text_counted(count, in_flight, "request"),
	    cost);
	put_line(f, line, strlen(line));
}

static void
put_status(struct frame *f, const struct top_view *v,
    const struct top_status *s)
{
	struct kp_buf *b = &f->text;

	if (s == NULL)
		return;
	if (s->answered > 0)
		put_targets(f, v, s);
	if (s->answered == s->asked)
		return;
	if (s->asked > 1)
		kp_buf_printf(b, "%u of %u kprofds answer; ", s->answered,
		    s->asked);
	text_put(b, s->why);
	put_text(f);
}

/* One line, cut to the width; the third screen has all of them. */
static void
put_losses(struct frame *f, const struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	char some[TEXT_MAX], of[TEXT_MAX];
	struct kp_buf *b = &f->text;
	bool any = false, known;
	uint64_t n = report_requests(r, 0, &known);

	if (all->requests != all->sampled_requests)
		kp_buf_printf(b, "measured %s of %s requests; ",
		    text_count(some, all->sampled_requests),
		    text_known(of, n, known));
	kp_buf_str(b, "losses: ");
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		if (r->losses.n[i] == 0)
			continue;
		kp_buf_str(b, any ? "; " : "");
		losses_put(b, i, r->losses.n[i]);
		any = true;
	}
	kp_buf_str(b, any ? "" : "none");
	put_text(f);
	report_put_tracing(b, r);
	if (b->len > 0)
		put_text(f);
	for (size_t i = 0; i < r->nhints && i < HINTS_SHOWN; i++) {
		text_put(b, r->hints[i]);
		put_text(f);
	}
}

/* ---- body ---- */

/* A column, with a mark on its head if the rows are sorted by it. */
static void
put_col(struct grid *g, const char *by, const char *head, const char *sort,
    unsigned rank)
{
	char text[TOP_SORT_MAX + 1];

	snprintf(text, sizeof(text), "%s%s", head,
	    strcmp(by, sort) == 0 ? "*" : "");
	grid_col_optional(g, text, GRID_RIGHT, rank);
}

/* Does any request have time after its end? */
static bool
has_after(const struct report *r)
{
	for (size_t i = 0; i < r->nrows; i++)
		if (r->rows[i].cells[0].after_per_request >= 0)
			return true;
	return false;
}

static void
put_cols(struct grid *g, const struct top_view *v, const struct report_columns *c)
{
	static const struct {
		const char *head, *sort;
		unsigned drop;	/* tiers are dropped before these */
	} cols[] = {
		{ "req/s", "requests", 0 }, { "total", "total", 0 },
		{ "p99", "p99", 4 }, { "errors", "errors", 2 },
		{ "share", "share", 3 },
	};
	const struct report *r = c->r;
	const char *by = sort_now(r, v);
	unsigned tiers = 2 * (unsigned)c->n;
	char head[TEXT_MAX];

	grid_col(g, strcmp(by, "name") == 0 ? "identity*" : "identity",
	    GRID_LEFT);
	grid_cut(g);
	grid_fix(g);
	for (size_t i = 0; i < sizeof(cols) / sizeof(cols[0]); i++) {
		put_col(g, by, cols[i].head, cols[i].sort, cols[i].drop > 0 ?
		    tiers + cols[i].drop : 0);
	}
	if (has_after(r))
		grid_col_optional(g, "after", GRID_RIGHT, c->extra);
	for (size_t t = 1; t <= r->ntiers; t++)
		if (report_has_column(c, t))
			put_col(g, by, r->tiers[t - 1], r->tiers[t - 1], c->rank[t]);
	snprintf(head, sizeof(head), REPORT_OTHERS, c->folded);
	if (c->folded > 0)
		grid_col_optional(g, head, GRID_RIGHT, tiers + 1);
	if (report_has_rest(r, v->what))
		grid_col_optional(g, REPORT_REST, GRID_RIGHT, tiers + 1);
}

static void
put_figure(struct grid *g, const struct report_columns *c, const struct report_row *row,
    size_t tier)
{
	double value = report_value(row, tier, c->what);
	char text[TEXT_MAX];

	if (c->what == REPORT_CALLS)
		text_average(text, value);
	else
		text_dur(text, value < 0 ? -1 : (kp_dur_ns)value);
	grid_cell(g, c->narrow > 0 || tier == 0 ? text : report_with_interval(text, text,
	    row, &row->cells[tier], report_of_what(c->what)));
}

static void
put_row(struct grid *g, const struct report_columns *columns, size_t row)
{
	const struct report *r = columns->r;
	const struct report_cell *c = &r->rows[row].cells[0];
	struct report_cell cells[2];
	struct report_row others;
	double seconds = (double)r->rows[row].counted / (double)KP_NS_PER_S;
	char text[TEXT_MAX];
	bool known, plain = columns->narrow > 1;
	uint64_t n = report_requests(r, row, &known);
	const struct {
		kp_dur_ns v;
		enum report_of of;
	} times[] = { { c->mean, REPORT_OF_MEAN }, { c->p99, REPORT_OF_P99 } };

	grid_cell(g, report_row_name(r, row));
	text[0] = '~';
	text_average(text + !known, (double)n / seconds);
	if (r->rows[row].counted <= 0)
		strcpy(text, "-");
	grid_cell(g, report_with_interval(text, text, &r->rows[row], c,
	    known || plain ? REPORT_OFS : REPORT_OF_REQUESTS));
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		grid_cell(g, report_with_interval(text, text_dur(text, times[i].v),
		    &r->rows[row], c, plain ? REPORT_OFS : times[i].of));
	grid_cell(g, seen_share(text, kp_raised_seen(c->raised, c->unseen),
	    c->raised, c->calls, c->calls == c->sampled_calls));
	grid_cell(g, text_share(text, r->rows[row].share));
	if (has_after(r))
		grid_cell(g, text_dur(text, c->after_per_request));
	for (size_t t = 1; t <= r->ntiers; t++)
		if (report_has_column(columns, t))
			put_figure(g, columns, &r->rows[row], t);
	if (columns->folded > 0) {
		report_add_others(columns, &r->rows[row], &others, cells);
		put_figure(g, columns, &others, 1);
	}
	if (report_has_rest(r, columns->what))
		put_figure(g, columns, &r->rows[row], 0);
}

static void
write_tiers(struct kp_buf *b, const struct top_view *v,
    const struct report *r, unsigned width)
{
	struct report_columns c;
	struct grid g;

	if (!report_columns(&c, r, v->what, sort_now(r, v))) {
		b->err = KP_ENOMEM;
		return;
	}
	grid_init(&g);
	do {
		grid_free(&g);
		put_cols(&g, v, &c);
		for (size_t i = 0; i < r->nrows; i++) {
			if (i == 1)
				grid_rule(&g);
			put_row(&g, &c, i);
		}
	} while (report_columns_fold(&c, grid_drops(&g, width)));
	report_columns_free(&c);
	grid_write(&g, width, b);
	grid_free(&g);
}

/* Writes the table in f->text into `room` lines, from row *first, which it corrects. */
static void
put_rows(struct frame *f, size_t head, size_t rows, size_t room, size_t *first)
{
	const char *s = kp_buf_cstr(&f->text);
	size_t show = room > head ? room - head : 0;

	if (f->text.err != KP_OK)
		f->out->err = f->text.err;
	if (*first + show > rows || show >= rows)
		*first = rows > show ? rows - show : 0;
	put_lines(f, s, 0, head < room ? head : room);
	put_lines(f, s, head + *first, show);
	kp_buf_reset(&f->text);
}

static void
put_slow(struct frame *f, struct top_view *v, const struct top_data *d,
    size_t room)
{
	size_t top = 0;

	requests_rows(&f->text, d->slow, f->width);
	put_rows(f, SLOW_HEAD, d->slow->n, room,
	    v->screen == TOP_SLOW ? &v->first : &top);
}

/* The tiers, and below them slow requests if there is room. */
static void
put_tiers(struct frame *f, struct top_view *v, const struct top_data *d)
{
	size_t rows = d->report->nrows - 1, room = lines_left(f), slow = 0;

	if (d->slow != NULL && d->slow->n > 0) {
		slow = d->slow->n < SLOW_BELOW ? d->slow->n : SLOW_BELOW;
		slow += SLOW_HEAD + 1;
	}
	if (room < slow + TABLE_HEAD + (rows < SLOW_ROOM ? rows : SLOW_ROOM))
		slow = 0;
	write_tiers(&f->text, v, d->report, f->width);
	put_rows(f, rows > 0 ? TABLE_HEAD : TABLE_HEAD - 1, rows, room - slow,
	    &v->first);
	if (slow > 0) {
		put_line(f, "", 0);
		put_slow(f, v, d, slow - 1);
	}
}

static const char help_text[] =
    "q  end                          space  hold what is shown, and go on\n"
    "1  tiers by request type        2  slow requests    3  losses    tab  "
    "next\n"
    "s > right, < left  sort by the next column (*), or the one before\n"
    "r  in the other order           w  self, total, calls, async, busy\n"
    "n N  next node, the one before  + -  a longer time, a shorter one\n"
    "p  pause measuring on the nodes that are shown        c  resume it\n"
    "up down pgup pgdn home end  scroll                    h ?  this help\n"
    "\n"
    "req/s: requests, ~ an estimate; total: of one, on average; errors: raised;\n"
    "±: in 95 of 100 cases the true figure is no farther; on a wide terminal\n"
    "share: of the time of all requests; tiers: self (exclusive) time of one\n"
    "request, which adds up to total (inclusive), or what w chooses\n"
    "N other: the sum of N tiers that have no room; a wider terminal shows them\n"
    "after: time after a request's end\n"
    "(kprof report explains them).  kprof tree ID shows a slow request.\n";

static void
put_all_losses(struct frame *f, struct top_view *v, const struct report *r)
{
	size_t lines = 0;

	losses_text(&f->text, &r->losses, f->width);
	for (const char *s = kp_buf_cstr(&f->text); *s != '\0'; s++)
		lines += *s == '\n';
	put_rows(f, 0, lines, lines_left(f), &v->first);
}

static void
put_none(struct frame *f, const struct top_data *d)
{
	struct kp_buf *b = &f->text;

	if (d->why != NULL) {
		kp_buf_str(b, "no figures: ");
		text_put(b, d->why);
	} else if (d->report != NULL && d->report->nhints > 0) {
		report_put_hints(b, d->report, f->width);
	} else {
		kp_buf_str(b, "no figures yet: kprofd writes a window every "
		    "interval (10 s) while it is attached to a target");
	}
	put_text(f);
}

static void
put_body(struct frame *f, struct top_view *v, const struct top_data *d)
{
	if (v->screen == TOP_HELP)
		put_lines(f, help_text, 0, SIZE_MAX);
	else if (d->report == NULL || d->report->windows == 0)
		put_none(f, d);
	else if (v->screen == TOP_LOSSES)
		put_all_losses(f, v, d->report);
	else if (v->screen == TOP_TIERS)
		put_tiers(f, v, d);
	else if (d->slow != NULL && d->slow->n > 0)
		put_slow(f, v, d, lines_left(f));
	else
		put_lines(f, "no slow requests in this time", 0, 1);
}

/* Is measuring paused by hand, on one of the chosen nodes? */
static bool
is_paused(const struct top_view *v, const struct top_status *s)
{
	for (size_t i = 0; s != NULL && i < s->n; i++)
		if (is_chosen(v, &s->targets[i]) &&
		    strncmp(s->targets[i].state, "paused", 6) == 0)
			return true;
	return false;
}

static void
put_keys(struct frame *f, const struct top_view *v, const struct top_status *s)
{
	/* fits into 80 columns; h has the rest */
	static const char keys[] = "q end  s sort  w figure  n node  +- time  "
	    "1 2 3 screen  %s  h help";
	struct kp_buf *b = &f->text;

	if (v->message[0] != '\0')
		text_put(b, v->message);
	else
		kp_buf_printf(b, keys, is_paused(v, s) ? "c resume" :
		    "p pause");
	put_text(f);
}

void
top_frame(struct kp_buf *b, struct top_view *v, const struct top_data *d,
    unsigned width, unsigned height)
{
	struct frame f = { .out = b, .width = width, .height = height };
	char title[128];

	kp_buf_init(&f.text, FRAME_MAX);
	if (height > 1)
		f.height = height - 1;	/* the last line is the keys' */
	put_title(&f, v, d);
	put_status(&f, v, d->status);
	if (d->report != NULL && d->report->windows > 0)
		put_losses(&f, d->report);
	if (v->screen == TOP_TIERS && d->report != NULL) {
		snprintf(title, sizeof(title), "tiers: %s",
		    report_title(v->what));
		put_line(&f, title, strlen(title));
	}
	put_line(&f, "", 0);
	put_body(&f, v, d);
	while (height > 0 && !is_full(&f))
		put_line(&f, "", 0);
	f.height = height;
	if (height > 1)
		put_keys(&f, v, d->status);
	kp_buf_free(&f.text);
}
