/*
 * compare_write.c - writes two reports side by side: as a table for people, and as JSON
 * and CSV for programs.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grid.h"
#include "text/text.h"
#include "compare.h"

#define UNEQUAL 0.01		/* a larger difference of ranges is reported */
#define BLOCKS 4		/* one below the other: tiers that need more are one */
#define GROUP 25		/* columns of the terminal that one takes */
#define LABELS_SHOWN 10		/* lines of a table of labels */
#define TYPES_SHOWN 5		/* whose single calls are in a table, unless asked for */

struct sheet {
	const struct compare *v;
	struct grid g;
	bool uncertain;		/* some change was */
	bool rest;		/* has the column of the time in no tier */
	bool *folded;		/* by tier: it has no columns of its own */
	size_t nfolded;
};

static void
sheet_start(struct sheet *s, const char *head)
{
	grid_init(&s->g);
	grid_col(&s->g, head, GRID_LEFT);
	grid_fix(&s->g);
}

static void
three_columns(struct sheet *s, const char *group)
{
	grid_group(&s->g, group);
	grid_col(&s->g, "now", GRID_RIGHT);
	grid_col(&s->g, "then", GRID_RIGHT);
	grid_col(&s->g, "change", GRID_RIGHT);
}

/* +11 %, new or gone; ~ before it if it is uncertain. */
static void
put_change(struct sheet *s, const struct compare_figure *f)
{
	char text[TEXT_MAX], marked[TEXT_MAX + 2];
	double change = compare_change(f);

	if (f->now < 0 && f->then < 0)
		marked[0] = '\0';
	else if (isnan(change) && f->now >= 0 && f->then >= 0)
		snprintf(marked, sizeof(marked), "-");
	else
		snprintf(marked, sizeof(marked), "%s%s", f->uncertain ? "~" : "",
		    f->then < 0 ? "new" : f->now < 0 ? "gone" : text_change(text, change));
	s->uncertain |= marked[0] == '~';
	grid_cell(&s->g, marked);
}

static const char *
figure_text(const struct report *r, char *buf, double v, enum report_what what)
{
	if (what == REPORT_CALLS)
		return text_average(buf, v);
	text_dur(buf, v < 0 ? -1 : (kp_dur_ns)(v + 0.5));
	return what < REPORT_CALLS ? report_corrected(r, buf, buf) : buf;
}

/* put_requests() marks an identity that is only on one side: not repeated here. */
static void
put_three(struct sheet *s, const struct compare_row *row,
    const struct compare_figure *f, enum report_what what)
{
	char text[TEXT_MAX];

	grid_cell(&s->g, figure_text(s->v->now, text, f->now, what));
	grid_cell(&s->g, figure_text(s->v->then, text, f->then, what));
	if (row->now != NULL && row->then != NULL)
		put_change(s, f);
	else
		grid_cell(&s->g, "");
}

static void
put_count(struct sheet *s, double n, bool known)
{
	char text[TEXT_MAX];

	grid_cell(&s->g, n < 0 ? "-" : text_known(text, (uint64_t)n, known));
}

static void
put_requests(struct sheet *s, const struct compare_row *row)
{
	struct compare_requests q = compare_requests(s->v, row);
	struct compare_figure rate = compare_rate(s->v, row);

	put_count(s, q.n.now, q.now_known);
	put_count(s, q.n.then, q.then_known);
	put_change(s, &rate);
}

static const char *
name_of(const struct sheet *s, size_t row)
{
	return row == 0 ? report_row_name(s->v->now, 0) :
	    compare_name(&s->v->rows[row]);
}

/* Has the tier a figure in the sum of all rows? */
static bool
is_shown(const struct compare *v, size_t t, enum report_what what)
{
	struct compare_figure calls = compare_calls(&v->rows[0], &v->tiers[t]);
	struct compare_figure f = compare_value(v, &v->rows[0], &v->tiers[t], what);

	return calls.now > 0 || calls.then > 0 || f.now > 0 || f.then > 0;
}

/* How much the time, or number of calls, of the tier changed for all requests. */
static double
changed_by(const struct compare *v, size_t t, enum report_what what)
{
	struct compare_figure f = compare_value(v, &v->rows[0], &v->tiers[t], what);

	return fabs((f.now > 0 ? f.now : 0) - (f.then > 0 ? f.then : 0));
}

/* Folds the tiers that changed least, if there are more than BLOCKS have room for. */
static void
fold_tiers(struct sheet *s, const struct report_opts *o)
{
	const struct compare *v = s->v;
	size_t n = 0, least, room = BLOCKS * ((o->width - o->width / 3) / GROUP);
	size_t others = 2u + v->async + s->rest;

	for (size_t t = 1; t < v->ntiers; t++)
		n += is_shown(v, t, o->what);
	if (o->width == 0 || n + others <= room)
		return;
	room = room > others + 2 ? room - others - 1 : 1;
	for (; n > room; n--, s->nfolded++) {
		least = 0;
		for (size_t t = 1; t < v->ntiers; t++)
			if (!s->folded[t] && is_shown(v, t, o->what) &&
			    (o->keep == NULL || strcmp(v->tiers[t].name, o->keep) != 0) &&
			    (least == 0 || changed_by(v, t, o->what) <
			    changed_by(v, least, o->what)))
				least = t;
		if (least == 0)
			return;		/* that which is kept is the only one */
		s->folded[least] = true;
	}
}

static bool
has_columns(const struct sheet *s, size_t t, enum report_what what)
{
	return is_shown(s->v, t, what) && !s->folded[t];
}

/* The sum of the folded tiers; inclusive times have none. */
static bool
has_others(const struct sheet *s, enum report_what what)
{
	return s->nfolded > 0 && what != REPORT_BUSY && what != REPORT_TOTAL;
}

static void
put_others(struct sheet *s, const struct compare_row *row, enum report_what what)
{
	struct compare_figure sum = { .now = -1, .then = -1 }, f;

	for (size_t t = 1; t < s->v->ntiers; t++) {
		if (!s->folded[t])
			continue;
		f = compare_value(s->v, row, &s->v->tiers[t], what);
		if (f.now >= 0)
			sum.now = f.now + (sum.now > 0 ? sum.now : 0);
		if (f.then >= 0)
			sum.then = f.then + (sum.then > 0 ? sum.then : 0);
		sum.uncertain |= f.uncertain;
	}
	put_three(s, row, &sum, what);
}

static void
put_row(struct sheet *s, size_t i, enum report_what what)
{
	const struct compare_row *row = &s->v->rows[i];
	struct compare_figure f = compare_call(row, &s->v->tiers[0], REPORT_OF_MEAN);

	grid_cell(&s->g, name_of(s, i));
	put_requests(s, row);
	put_three(s, row, &f, REPORT_TOTAL);
	if (s->v->async) {
		f = compare_value(s->v, row, &s->v->tiers[0], REPORT_ASYNC);
		put_three(s, row, &f, REPORT_ASYNC);
	}
	for (size_t t = 1; t < s->v->ntiers; t++) {
		if (!has_columns(s, t, what))
			continue;
		f = compare_value(s->v, row, &s->v->tiers[t], what);
		put_three(s, row, &f, what);
	}
	if (has_others(s, what))
		put_others(s, row, what);
	if (s->rest) {
		f = compare_value(s->v, row, &s->v->tiers[0], what);
		put_three(s, row, &f, what);
	}
}

static void
put_values(struct kp_buf *b, struct sheet *s, const struct report_opts *o)
{
	char head[TEXT_MAX];

	sheet_start(s, "");
	three_columns(s, "requests");
	three_columns(s, "total");
	if (s->v->async)
		three_columns(s, "after");
	for (size_t t = 1; t < s->v->ntiers; t++)
		if (has_columns(s, t, o->what))
			three_columns(s, s->v->tiers[t].name);
	snprintf(head, sizeof(head), REPORT_OTHERS, s->nfolded);
	if (has_others(s, o->what))
		three_columns(s, head);
	if (s->rest)
		three_columns(s, REPORT_REST);
	for (size_t i = 0; i < s->v->nrows; i++) {
		if (i == 1)
			grid_rule(&s->g);
		put_row(s, i, o->what);
	}
	grid_write(&s->g, o->width, b);
	grid_free(&s->g);
}

/* ---- single calls ---- */

enum unit { NS, SHARE, NUMBER };

/* What is compared of one call; of the request itself the rate comes before. */
static const struct {
	const char *head, *name;	/* for people, and for programs */
	enum report_of of;
	enum unit unit;
} calls[] = {
	{ "errors", "raised_share", REPORT_OF_RAISED, SHARE },
	{ "mean", "mean_ms", REPORT_OF_MEAN, NS }, { "p50", "p50_ms", REPORT_OF_P50, NS },
	{ "p90", "p90_ms", REPORT_OF_P90, NS }, { "p99", "p99_ms", REPORT_OF_P99, NS },
};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

static const char *
unit_text(const struct sheet *s, char *buf, double v, enum unit unit)
{
	if (unit == NS)
		return figure_text(s->v->now, buf, v, REPORT_TOTAL);
	return unit == SHARE ? text_share(buf, v) : text_average(buf, v);
}

/* +14 ms, +1.25 pp (percentage points), -0.40; NAN: "-" */
static void
put_signed(struct sheet *s, const char *mark, double v, enum unit unit)
{
	char text[TEXT_MAX], line[TEXT_MAX + 4];

	if (unit == NS)
		text_dur(text, isnan(v) ? -1 : llround(fabs(v)));
	else
		text_average(text, fabs(v) * (unit == SHARE ? 100 : 1));
	snprintf(line, sizeof(line), "%s%s%s%s", mark, v < 0 ? "-" : v > 0 ? "+" : "", text,
	    unit == SHARE && !isnan(v) ? " pp" : "");
	grid_cell(&s->g, line);
}

static void
put_percent(struct sheet *s, double v)
{
	char text[TEXT_MAX];

	grid_cell(&s->g, text_change(text, v));
}

/* The name of the row stands in its first line alone. */
static void
put_single(struct sheet *s, const char **name, const char *head,
    const struct compare_figure *f, enum unit unit)
{
	bool both = f->now >= 0 && f->then >= 0;
	char text[TEXT_MAX];

	if (f->now < 0 && f->then < 0)
		return;
	grid_cell(&s->g, *name);
	*name = "";
	grid_cell(&s->g, head);
	grid_cell(&s->g, unit_text(s, text, f->now, unit));
	grid_cell(&s->g, unit_text(s, text, f->then, unit));
	put_signed(s, both && f->uncertain ? "~" : "", both ? f->now - f->then : (double)NAN,
	    unit);
	put_signed(s, "", f->difference.low, unit);
	put_signed(s, "", f->difference.high, unit);
	if (both)
		put_change(s, f);
	else
		grid_cell(&s->g, "-");
	put_percent(s, f->change.low);
	put_percent(s, f->change.high);
}

/*
 * A line for each figure of single calls, of all requests and of the types with requests in
 * both ranges that are first: they have changed most, if nothing else was asked for.
 */
static void
put_singles(struct kp_buf *b, struct sheet *s, size_t t, const struct report_opts *o)
{
	const struct compare *v = s->v;
	size_t most = o->percentiles ? SIZE_MAX : TYPES_SHOWN + 1, n = 0;
	const struct compare_row *row;
	struct compare_figure f;
	const char *name;
	char line[100];

	sheet_start(s, t == 0 ? "whole request" : v->tiers[t].name);
	grid_col(&s->g, "", GRID_LEFT);
	grid_fix(&s->g);
	grid_group(&s->g, "figure");
	grid_col(&s->g, "now", GRID_RIGHT);
	grid_col(&s->g, "then", GRID_RIGHT);
	for (size_t i = 0; i < 2; i++) {
		grid_group(&s->g, i == 0 ? "absolute" : "relative");
		grid_col(&s->g, "change", GRID_RIGHT);
		grid_group(&s->g, "95 %");
		grid_col(&s->g, "from", GRID_RIGHT);
		grid_col(&s->g, "to", GRID_RIGHT);
	}
	for (size_t i = 0; i < v->nrows; i++) {
		row = &v->rows[i];
		if (row->now == NULL || row->then == NULL || n++ >= most)
			continue;
		if (n == 2)
			grid_rule(&s->g);
		name = name_of(s, i);
		f = compare_rate(v, row);
		if (t == 0)
			put_single(s, &name, "req/s", &f, NUMBER);
		for (size_t k = 0; k < NCALLS; k++) {
			f = compare_call(row, &v->tiers[t], calls[k].of);
			put_single(s, &name, calls[k].head, &f, calls[k].unit);
		}
	}
	kp_buf_u8(b, '\n');
	grid_write(&s->g, o->width, b);
	grid_free(&s->g);
	if (n <= most)
		return;
	snprintf(line, sizeof(line), "and %zu more: -percentiles shows all, and tiers",
	    n - most);
	text_wrap(b, line, o->width, 2);
}

/* ---- labels of calls ---- */

/* The calls of a tier with one label in a row. */
struct labelled {
	size_t row;
	const struct compare_tier *tier;
	double by;		/* change of calls in each request */
};

/*
 * Puts into `most` those of the tier that changed most, and returns how many there are:
 * of types with requests in both ranges.
 */
static size_t
most_changed(const struct compare *v, const struct compare_tier *tier,
    struct labelled most[LABELS_SHOWN])
{
	const struct compare_tier *t = v->tiers + v->ntiers;
	size_t n = 0, at;
	struct compare_figure f;
	struct labelled one;

	for (; t < v->tiers + v->ntiers + v->nlabels; t++)
		for (size_t i = 1; t->name == tier->name && i < v->nrows; i++) {
			f = compare_value(v, &v->rows[i], t, REPORT_CALLS);
			if (v->rows[i].now == NULL || v->rows[i].then == NULL ||
			    (f.now < 0 && f.then < 0))
				continue;
			one = (struct labelled){ i, t,
				fabs(fmax(f.now, 0) - fmax(f.then, 0)) };
			at = n < LABELS_SHOWN ? n : LABELS_SHOWN;
			for (; at > 0 && most[at - 1].by < one.by; at--)
				if (at < LABELS_SHOWN)
					most[at] = most[at - 1];
			if (at < LABELS_SHOWN)
				most[at] = one;
			n++;
		}
	return n;
}

/* Which calls a request makes more or fewer of than then: those that changed most. */
static void
put_labels(struct kp_buf *b, struct sheet *s, const struct compare_tier *tier,
    const struct report_opts *o)
{
	struct labelled most[LABELS_SHOWN];
	size_t n = most_changed(s->v, tier, most);
	const struct compare_row *row;
	enum report_what what;
	struct compare_figure f;
	struct kp_buf name;
	char line[100];

	if (n == 0)
		return;
	kp_buf_init(&name, 1 << 16);
	kp_buf_printf(&name, "%s, by label", tier->name);
	sheet_start(s, kp_buf_cstr(&name));
	three_columns(s, "calls");
	if (o->what != REPORT_CALLS)
		three_columns(s, "each request");
	three_columns(s, "mean");
	for (size_t i = 0; i < n && i < LABELS_SHOWN; i++) {
		row = &s->v->rows[most[i].row];
		kp_buf_reset(&name);
		kp_buf_printf(&name, "%s in %s", most[i].tier->label, compare_name(row));
		grid_cell(&s->g, kp_buf_cstr(&name));
		f = compare_value(s->v, row, most[i].tier, REPORT_CALLS);
		put_three(s, row, &f, REPORT_CALLS);
		what = report_label_what(o->what);
		f = compare_value(s->v, row, most[i].tier, what);
		if (what != REPORT_CALLS)
			put_three(s, row, &f, what);
		f = compare_call(row, most[i].tier, REPORT_OF_MEAN);
		put_three(s, row, &f, REPORT_TOTAL);
	}
	kp_buf_u8(b, '\n');
	grid_write(&s->g, o->width, b);
	grid_free(&s->g);
	kp_buf_free(&name);
	if (n <= LABELS_SHOWN)
		return;
	snprintf(line, sizeof(line), "and %zu more, whose calls changed less: -identity "
	    "TYPE shows those of one type", n - LABELS_SHOWN);
	text_wrap(b, line, o->width, 2);
}

static bool
was_called(const struct compare *v, size_t t)
{
	struct compare_figure f = compare_calls(&v->rows[0], &v->tiers[t]);

	return f.now >= 0 || f.then >= 0;
}

/* Tiers without columns of their own. */
static void
put_left_out(struct kp_buf *b, const struct sheet *s, const struct report_opts *o)
{
	const struct compare *v = s->v;
	const char *sep = "no calls of tier";
	struct kp_buf line;

	kp_buf_init(&line, 1 << 16);
	for (size_t t = 1; t < v->ntiers; t++)
		if (!is_shown(v, t, o->what)) {
			kp_buf_printf(&line, "%s ", sep);
			text_put(&line, v->tiers[t].name);
			sep = ",";
		}
	if (line.len > 0)
		text_wrap(b, kp_buf_cstr(&line), o->width, 2);
	kp_buf_reset(&line);
	if (has_others(s, o->what))
		kp_buf_printf(&line, REPORT_OTHERS ": the sum of tiers that changed "
		    "less:", s->nfolded);
	else if (s->nfolded > 0)
		kp_buf_str(&line, "no room for tiers that changed less:");
	sep = "";
	for (size_t t = 1; t < v->ntiers; t++)
		if (s->folded[t]) {
			kp_buf_printf(&line, "%s ", sep);
			text_put(&line, v->tiers[t].name);
			sep = ",";
		}
	if (line.len > 0)
		kp_buf_str(&line, "; a wider terminal shows them, and less -S behind "
		    "a pipe");
	if (line.len > 0)
		text_wrap(b, kp_buf_cstr(&line), o->width, 2);
	kp_buf_free(&line);
}

/* Notes on how to read the figures. */
static void
put_notes(struct kp_buf *b, const struct sheet *s, const struct report_opts *o)
{
	const struct compare *v = s->v;
	unsigned width = o->width;
	kp_dur_ns a = v->now->rows->counted, c = v->then->rows->counted;
	char now[TEXT_MAX], then[TEXT_MAX], line[256];

	if (fabs((double)a - (double)c) > UNEQUAL * (double)a) {
		snprintf(line, sizeof(line), "requests: their change is by "
		    "the second; they were counted for %s now, %s then",
		    text_span(now, a), text_span(then, c));
		text_wrap(b, line, width, 2);
	}
	if (v->now->start < v->then->end && v->then->start < v->now->end)
		text_wrap(b, "both ranges have windows in common: those are "
		    "compared with themselves", width, 2);
	put_left_out(b, s, o);
	if (!s->uncertain)
		return;
	snprintf(line, sizeof(line), "~ before a change, uncertain: fewer than "
	    "%u measured in one of the ranges, few above a percentile, or no more than "
	    "chance can make", COMPARE_FEW);
	text_wrap(b, line, width, 2);
}

void
compare_table(struct kp_buf *b, const struct compare *v,
    const struct report_opts *o)
{
	struct sheet s = { .v = v, .rest = report_has_rest(v->now, o->what) ||
		report_has_rest(v->then, o->what),
		.folded = calloc(v->ntiers, sizeof(*s.folded)) };

	if (s.folded == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	fold_tiers(&s, o);
	put_values(b, &s, o);
	for (size_t t = 0; t < (o->percentiles ? v->ntiers : 1); t++) {
		if (was_called(v, t))
			put_singles(b, &s, t, o);
	}
	for (size_t t = 1; t < v->ntiers; t++)
		put_labels(b, &s, &v->tiers[t], o);
	kp_buf_printf(b, "\n%s\n", report_title(o->what));
	put_notes(b, &s, o);
	free(s.folded);
	kp_buf_u8(b, '\n');
	report_coverage(b, v->now, o, "now: ", "");
	kp_buf_u8(b, '\n');
	report_coverage(b, v->then, o, "then: ", "");
}

/* ---- for programs ---- */

/* Means per request, but for the time of the request itself, which is a mean. */
static const char *const names[] = {
	[REPORT_BUSY] = "busy_per_request_ms",
	[REPORT_SELF] = "self_per_request_ms",
	[REPORT_TOTAL] = "total_per_request_ms",
	[REPORT_CALLS] = "calls_per_request",
	[REPORT_ASYNC] = "async_per_request_ms",
	[REPORT_GC] = "gc_per_request_ms",
	[REPORT_OUT] = "out_per_request_ms",
};

/* One figure of a row. */
struct cell {
	const struct compare_tier *tier;
	const char *name;
	enum unit unit;
	struct compare_figure f;
};

/* The i-th of one call of a tier.  The mean of requests, which stands first of all, is none. */
static struct cell
single_at(const struct compare *v, const struct compare_row *row, size_t i)
{
	const struct compare_tier *t = &v->tiers[i / NCALLS];
	size_t k = i % NCALLS;
	struct cell c = { t, calls[k].name, calls[k].unit, compare_call(row, t, calls[k].of) };

	if (i / NCALLS == 0 && calls[k].of == REPORT_OF_MEAN)
		c.f.now = c.f.then = -1;
	return c;
}

/*
 * The i-th: of the request itself its mean and its time after its end, then `what` of
 * each tier, then calls and `what` of those with each label, then those of one call.
 * False: there are fewer.
 */
static bool
cell_at(const struct compare *v, const struct compare_row *row, size_t i,
    enum report_what what, struct cell *c)
{
	const struct compare_tier *t = v->tiers;
	size_t each = what == REPORT_CALLS ? 1 : 2, label, single = 1 + v->ntiers +
	    each * v->nlabels;

	if (i == 0) {
		*c = (struct cell){ t, "mean_ms", NS, compare_call(row, t, REPORT_OF_MEAN) };
		return true;
	}
	if (i >= single) {
		if (i - single >= NCALLS * v->ntiers)
			return false;
		*c = single_at(v, row, i - single);
		return true;
	}
	if (i == 1) {
		what = REPORT_ASYNC;
	} else if (i <= v->ntiers) {
		t += i - 1;
	} else {
		label = (i - v->ntiers - 1) / each;
		t += v->ntiers + label;
		if ((i - v->ntiers - 1) % each == 0)
			what = REPORT_CALLS;
	}
	*c = (struct cell){ t, names[what], what == REPORT_CALLS ? NUMBER : NS,
		compare_value(v, row, t, what) };
	return true;
}

/* "db", or "db: users", as the database has it. */
static void
tier_put(struct kp_buf *b, const struct compare_tier *t)
{
	kp_buf_init(b, 1 << 16);
	kp_buf_printf(b, "%s%s%s", t->name, t->label != NULL ? KP_PART_SEP : "",
	    t->label != NULL ? t->label : "");
}

static bool
is_none(const struct compare_figure *f)
{
	return f->now < 0 && f->then < 0;
}

/* As programs have it: ms, not ns.  NAN stays. */
static double
in_unit(double v, enum unit unit)
{
	return unit == NS ? round(v) / 1e6 : v;
}

static void
json_side(struct json *j, const char *key, double v, enum unit unit)
{
	if (unit == NS)
		json_ms(j, key, v < 0 ? -1 : (kp_dur_ns)(v + 0.5));
	else
		json_number(j, key, v);
}

static void
json_count(struct json *j, const char *key, double n)
{
	if (n < 0)
		json_null(j, key);
	else
		json_uint(j, key, (uint64_t)n);
}

static void
json_known(struct json *j, const char *key, double n, bool known)
{
	if (n < 0)
		json_null(j, key);
	else
		json_bool(j, key, known);
}

static void
json_rest(struct json *j, const struct compare_figure *f, enum unit unit)
{
	bool both = f->now >= 0 && f->then >= 0;

	json_change(j, "difference", both ? in_unit(f->now - f->then, unit) : (double)NAN);
	json_change(j, "difference_low", in_unit(f->difference.low, unit));
	json_change(j, "difference_high", in_unit(f->difference.high, unit));
	json_change(j, "change_percent", 100 * compare_change(f));
	json_change(j, "change_percent_low", 100 * f->change.low);
	json_change(j, "change_percent_high", 100 * f->change.high);
	json_bool(j, "uncertain", f->uncertain);
	json_end(j);
}

static void
json_row(struct json *j, const struct compare *v, const struct compare_row *row,
    enum report_what what)
{
	struct compare_requests q = compare_requests(v, row);
	struct compare_figure f = compare_rate(v, row);
	struct kp_buf tier;
	struct cell c;

	json_object(j, NULL);
	json_string(j, "identity", compare_name(row));
	json_string(j, "state", compare_state(row));
	json_object(j, "requests");
	json_count(j, "now", q.n.now);
	json_count(j, "then", q.n.then);
	json_known(j, "now_known", q.n.now, q.now_known);
	json_known(j, "then_known", q.n.then, q.then_known);
	json_number(j, "now_per_s", f.now);
	json_number(j, "then_per_s", f.then);
	json_rest(j, &f, NUMBER);
	json_array(j, "figures");
	for (size_t i = 0; cell_at(v, row, i, what, &c); i++) {
		if (is_none(&c.f))
			continue;
		json_object(j, NULL);
		tier_put(&tier, c.tier);
		json_string(j, "tier", kp_buf_cstr(&tier));
		kp_buf_free(&tier);
		json_string(j, "figure", c.name);
		json_side(j, "now", c.f.now, c.unit);
		json_side(j, "then", c.f.then, c.unit);
		json_rest(j, &c.f, c.unit);
	}
	json_end(j);
	json_end(j);
}

void
compare_json(struct kp_buf *b, const struct compare *v, enum report_what what)
{
	struct json j;

	json_open(&j, b);
	report_object(&j, "now", v->now);
	report_object(&j, "then", v->then);
	json_array(&j, "changes");
	for (size_t i = 0; i < v->nrows; i++)
		if (!(v->rows[i].now != NULL ? v->rows[i].now :
		    v->rows[i].then)->left_out)
			json_row(&j, v, &v->rows[i], what);
	json_end(&j);
	json_close(&j);
}

static void
csv_number(struct kp_buf *b, double v)
{
	kp_buf_u8(b, ',');
	if (isfinite(v))
		kp_buf_printf(b, "%.10g", v);
}

/* q: of the numbers of requests, which are known; else NULL. */
static void
csv_line(struct kp_buf *b, const struct compare *v,
    const struct compare_row *row, const struct cell *c,
    const struct compare_requests *q)
{
	struct kp_buf tier;

	if (is_none(&c->f))
		return;
	report_csv_text(b, compare_name(row));
	kp_buf_printf(b, ",%s,", compare_state(row));
	tier_put(&tier, c->tier);
	report_csv_text(b, kp_buf_cstr(&tier));
	kp_buf_free(&tier);
	kp_buf_printf(b, ",%s", c->name);
	csv_number(b, c->f.now < 0 ? (double)NAN : in_unit(c->f.now, c->unit));
	csv_number(b, c->f.then < 0 ? (double)NAN : in_unit(c->f.then, c->unit));
	csv_number(b, 100 * compare_change(&c->f));
	kp_buf_printf(b, ",%d", c->f.uncertain);
	csv_number(b, q == NULL || c->f.now < 0 ? (double)NAN : q->now_known);
	csv_number(b, q == NULL || c->f.then < 0 ? (double)NAN : q->then_known);
	kp_buf_printf(b, ",%d", v->now->less_tracing);
	csv_number(b, in_unit(c->f.difference.low, c->unit));
	csv_number(b, in_unit(c->f.difference.high, c->unit));
	csv_number(b, 100 * c->f.change.low);
	csv_number(b, 100 * c->f.change.high);
	kp_buf_u8(b, '\n');
}

void
compare_csv(struct kp_buf *b, const struct compare *v, enum report_what what)
{
	const struct compare_row *row;
	struct compare_requests q;
	struct cell c;

	kp_buf_str(b, "identity,state,tier,figure,now,then,change_percent,"
	    "uncertain,now_known,then_known,less_tracing,difference_low,"
	    "difference_high,change_percent_low,change_percent_high\n");
	for (row = v->rows; row < v->rows + v->nrows; row++) {
		q = compare_requests(v, row);
		c = (struct cell){ v->tiers, "requests_per_s", NUMBER,
			compare_rate(v, row) };
		csv_line(b, v, row, &c, &q);
		for (size_t i = 0; cell_at(v, row, i, what, &c); i++)
			csv_line(b, v, row, &c, NULL);
	}
}
