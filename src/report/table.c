/*
 * table.c - writes a report for people: the table, what its figures add up to, and
 * the lines below it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grid.h"
#include "losses.h"
#include "report.h"
#include "requests.h"
#include "text/text.h"
#include "text/timefmt.h"

#define AFTER 0.1	/* less, as a part of the time inside, is not shown */
#define PERCENTILES 5	/* with the mean, and the most */
#define MISSING " !"	/* behind the name of a tier that calls are missing from */
#define UNMEASURED "not measured"
#define SUM_ROUNDING 0.01	/* of total: as exact as figures of two digits are */

static const char *const titles[] = {
	[REPORT_BUSY] = "time in tier (inclusive) per request",
	[REPORT_SELF] = "self (exclusive) time per request",
	[REPORT_TOTAL] = "total (inclusive) time of calls per request",
	[REPORT_CALLS] = "calls per request",
	[REPORT_ASYNC] = "time after the end of each request",
	[REPORT_GC] = "self time per request in garbage collection",
	[REPORT_OUT] = "self time per request while scheduled out",
};

const char *
report_title(enum report_what what)
{
	return titles[what];
}

const char *
report_row_name(const struct report *r, size_t row)
{
	if (row > 0)
		return r->rows[row].identity;
	return r->by_node ? "all nodes" : r->filtered ? "all of these" :
	    "all requests";
}

const char *
report_corrected(const struct report *r, char *buf, const char *text)
{
	char plain[TEXT_MAX];

	if (!r->less_tracing || *text == '-' || *text == '?')
		return text;
	snprintf(plain, sizeof(plain), "%s", text);
	snprintf(buf, TEXT_MAX, "~%.*s", TEXT_MAX - 2, plain);
	return buf;
}

static const char *
value_text(char *buf, const struct report_row *row, size_t tier,
    enum report_what what)
{
	double v = report_value(row, tier, what);

	if (what == REPORT_CALLS)
		return text_average(buf, v);
	if (v < 0 && what < REPORT_ASYNC && row->cells[tier].calls > 0)
		return "?";
	return text_dur(buf, v < 0 ? -1 : (kp_dur_ns)(v + 0.5));
}

/* Appends the time after the request, if it is large enough: 6.3 ms +18 ms. */
static const char *
with_after(char *text, const char *inside, const struct report_row *row,
    size_t tier, enum report_what what)
{
	double after = report_value(row, tier, REPORT_ASYNC);
	double in = report_value(row, tier, what);
	char own[TEXT_MAX], more[TEXT_MAX];

	if (what >= REPORT_CALLS || after <= 0 || after < AFTER * in)
		return inside;
	snprintf(own, sizeof(own), "%s", row->cells[tier].calls > 0 ? inside : "");
	snprintf(text, TEXT_MAX, "%.20s%s+%.20s", own,
	    own[0] != '\0' ? " " : "",
	    text_dur(more, (kp_dur_ns)(after + 0.5)));
	return text;
}

/* Columns of the request itself that are shown only if a row has such time. */
static const struct extra {
	enum report_what what;
	const char *title;
} extras[] = {
	{ REPORT_ASYNC, "after" }, { REPORT_GC, "gc" }, { REPORT_OUT, "out" },
};
#define EXTRAS (sizeof(extras) / sizeof(extras[0]))

/* Time after the request is shown also if it is 0, as calls began then. */
static bool
has_extra(const struct report *r, enum report_what what)
{
	double v;

	for (size_t i = 0; i < r->nrows; i++) {
		v = report_value(&r->rows[i], 0, what);
		if (what == REPORT_ASYNC ? v >= 0 : v > 0)
			return true;
	}
	return false;
}

/* The columns of the request itself. */
static void
put_request(struct grid *g, const struct report_columns *col, size_t i,
    const bool *extra)
{
	const struct report *r = col->r;
	const struct report_row *row = &r->rows[i];
	const char *value;
	char text[TEXT_MAX];
	bool known, plain = col->narrow > 1;
	uint64_t n = report_requests(r, i, &known);

	value = text_known(text, n, known);
	grid_cell(g, known || plain ? value : report_with_interval(text, value, row,
	    &row->cells[0], REPORT_OF_REQUESTS));
	value = report_corrected(r, text, text_dur(text, row->cells[0].mean));
	grid_cell(g, plain ? value : report_with_interval(text, value, row,
	    &row->cells[0], REPORT_OF_MEAN));
	for (size_t e = 0; e < EXTRAS; e++)
		if (extra[e])
			grid_cell(g, value_text(text, row, 0,
			    extras[e].what));
	grid_cell(g, text_share(text, row->share));
}

static void
put_tier(struct grid *g, const struct report_columns *c,
    const struct report_row *row, size_t tier)
{
	char text[TEXT_MAX];
	const char *value = value_text(text, row, tier, c->what);

	if (c->what < REPORT_CALLS)
		value = report_corrected(c->r, text, value);
	if (c->narrow == 0)
		value = report_with_interval(text, value, row, &row->cells[tier],
		    report_of_what(c->what));
	if (c->narrow == 0)
		value = with_after(text, value, row, tier, c->what);
	grid_cell(g, value);
}

/* The columns of tiers, and the time in none of them. */
static void
put_tiers(struct grid *g, const struct report_columns *c,
    const struct report_row *row, bool rest)
{
	struct report_cell cells[2];
	struct report_row others;
	char text[TEXT_MAX];

	for (size_t t = 1; t <= c->r->ntiers; t++)
		if (report_has_column(c, t))
			put_tier(g, c, row, t);
	if (c->folded > 0) {
		report_add_others(c, row, &others, cells);
		put_tier(g, c, &others, 1);
	}
	if (rest)
		grid_cell(g, report_corrected(c->r, text,
		    value_text(text, row, 0, c->what)));
}

/* rank: as of grid_col_optional() */
static void
tier_col(struct grid *g, const struct report *r, size_t tier,
    enum grid_align align, unsigned rank)
{
	struct report_missing m;
	struct kp_buf head;

	kp_buf_init(&head, 1 << 16);
	kp_buf_str(&head, tier == 0 ? "whole request" : r->tiers[tier - 1]);
	if (report_missing(r, tier, &m) && m.sure)
		kp_buf_str(&head, MISSING);
	grid_col_optional(g, kp_buf_cstr(&head), align, rank);
	kp_buf_free(&head);
}

/* The rest of the requests, in no type's row; cols: those after their number. */
static void
put_unmeasured(struct grid *g, const struct report *r, size_t cols)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	uint64_t n = report_unmeasured(r);
	char text[TEXT_MAX];

	if (n == 0)
		return;
	if (r->nrows == 1)
		grid_rule(g);
	grid_cell(g, UNMEASURED);
	grid_cell(g, text_known(text, n,
	    all->requests == all->sampled_requests));
	for (size_t i = 0; i < cols; i++)
		grid_cell(g, "-");
}

static void
fill_values(struct grid *g, const struct report_columns *c)
{
	const struct report *r = c->r;
	bool extra[EXTRAS], rest = report_has_rest(r, c->what);
	size_t cols = 2 + rest + (c->folded > 0);	/* after requests */
	char head[TEXT_MAX];

	grid_col(g, "", GRID_LEFT);
	grid_fix(g);
	grid_col(g, "requests", GRID_RIGHT);
	grid_col(g, "total", GRID_RIGHT);
	for (size_t i = 0; i < EXTRAS; i++) {
		extra[i] = has_extra(r, extras[i].what);
		if (extra[i])
			grid_col_optional(g, extras[i].title, GRID_RIGHT,
			    c->extra);
		cols += extra[i];
	}
	grid_col(g, "share", GRID_RIGHT);
	for (size_t t = 1; t <= r->ntiers; t++) {
		if (!report_has_column(c, t))
			continue;
		tier_col(g, r, t, GRID_RIGHT, c->rank[t] < 2 * c->n ? c->rank[t] : 0);
		cols++;
	}
	snprintf(head, sizeof(head), REPORT_OTHERS, c->folded);
	if (c->folded > 0)
		grid_col(g, head, GRID_RIGHT);
	if (rest)
		grid_col(g, REPORT_REST, GRID_RIGHT);
	for (size_t i = 0; i < r->nrows; i++) {
		if (i == 1)
			grid_rule(g);
		grid_cell(g, report_row_name(r, i));
		put_request(g, c, i, extra);
		put_tiers(g, c, &r->rows[i], rest);
	}
	put_unmeasured(g, r, cols);
}

static void
put_values(struct kp_buf *b, struct report_columns *c, unsigned width)
{
	struct grid g;

	grid_init(&g);
	do {
		grid_free(&g);
		fill_values(&g, c);
	} while (report_columns_fold(c, grid_drops(&g, width)));
	grid_write(&g, width, b);
	grid_free(&g);
}

/* Tiers without a column of their own. */
static void
put_left_out(struct kp_buf *b, const struct report_columns *c)
{
	const char *sep = "\nno calls of tier";

	for (size_t t = 1; t <= c->r->ntiers; t++) {
		if (c->rank[t] > 0)
			continue;
		kp_buf_printf(b, "%s ", sep);
		text_put(b, c->r->tiers[t - 1]);
		sep = ",";
	}
	if (c->folded == 0)
		return;
	kp_buf_printf(b, "\n" REPORT_OTHERS ": the sum of tiers that have no room "
	    "here", c->folded);
	sep = ":";
	for (size_t t = 1; t <= c->r->ntiers; t++) {
		if (c->rank[t] == 0 || report_has_column(c, t))
			continue;
		kp_buf_printf(b, "%s ", sep);
		text_put(b, c->r->tiers[t - 1]);
		sep = ",";
	}
	kp_buf_str(b, "; a wider terminal shows them, and kprof report | less -S");
}

/* after: of the calls that began after their request; their mean is not known. */
static void
percentile_row(struct grid *g, const struct report *r, size_t row, size_t tier,
    bool after)
{
	const struct report_cell *c = &r->rows[row].cells[tier];
	const kp_dur_ns inside[] = { c->mean, c->p50, c->p90, c->p99, c->max };
	static const enum report_of of[] = { REPORT_OF_MEAN, REPORT_OF_P50,
		REPORT_OF_P90, REPORT_OF_P99, REPORT_OFS };
	const kp_dur_ns later[] = { -1, c->async_p50, c->async_p90,
		c->async_p99, c->async_max };
	bool known = c->async_calls + c->outlasting == c->sampled_async;
	uint64_t n = c->async_calls;
	const char *value;
	char text[TEXT_MAX];
	struct kp_buf name;

	if (!after)
		n = report_calls(r, row, tier, &known);
	kp_buf_init(&name, 1 << 16);
	kp_buf_printf(&name, "%s%s", report_row_name(r, row),
	    after ? ", after" : "");
	grid_cell(g, kp_buf_cstr(&name));
	kp_buf_free(&name);
	grid_cell(g, text_known(text, n, known));
	for (size_t i = 0; i < PERCENTILES; i++) {
		value = text_dur(text, (after ? later : inside)[i]);
		if (!after)
			value = report_corrected(r, text, value);
		grid_cell(g, after ? value :
		    report_with_interval(text, value, &r->rows[row], c, of[i]));
	}
}

/* A grid of the tier (0: the request itself): how long one call takes. */
static void
put_percentiles(struct kp_buf *b, const struct report *r, size_t tier,
    unsigned width)
{
	static const char *const heads[PERCENTILES] = { "mean", "p50", "p90",
		"p99", "max" };
	struct grid g;

	grid_init(&g);
	tier_col(&g, r, tier, GRID_LEFT, 0);
	grid_fix(&g);
	grid_col(&g, tier == 0 ? "requests" : "calls", GRID_RIGHT);
	for (size_t i = 0; i < PERCENTILES; i++)
		grid_col(&g, heads[i], GRID_RIGHT);
	for (size_t i = 0; i < r->nrows; i++) {
		if (r->rows[i].cells[tier].calls > 0)
			percentile_row(&g, r, i, tier, false);
		if (tier > 0 && r->rows[i].cells[tier].async_max >= 0)
			percentile_row(&g, r, i, tier, true);
	}
	kp_buf_u8(b, '\n');
	grid_write(&g, width, b);
	grid_free(&g);
}

/* ---- labels of calls ---- */

#define LABELS_SHOWN 3	/* of a row, if there are several; the others are added up */
#define LABEL_TYPES 5	/* request types with labels: those with most calls */

/* How the labels of a tier are shown. */
struct label_table {
	struct grid *g;
	const struct report *r;
	size_t tier;
	enum report_what what;
	bool intervals;
};

static void
label_row(const struct label_table *t, const struct report_row *row, const char *name,
    const struct report_cell *c)
{
	enum report_what what = report_label_what(t->what);
	double of_request = report_value_of(row, c, what);
	const struct {
		kp_dur_ns v;
		enum report_of of;
		bool shown;
	} times[] = {
		{ of_request < 0 ? -1 : (kp_dur_ns)(of_request + 0.5), report_of_what(what),
		    what != REPORT_CALLS },
		{ c->mean, REPORT_OF_MEAN, true }, { c->p99, REPORT_OF_P99, true },
	};
	char text[TEXT_MAX];
	const char *value = text_average(text, report_value_of(row, c, REPORT_CALLS));

	grid_cell(t->g, name);
	grid_cell(t->g, !t->intervals ? value : report_with_interval(text, value, row, c,
	    REPORT_OF_CALLS));
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		value = report_corrected(t->r, text, text_dur(text, times[i].v));
		if (t->intervals)
			value = report_with_interval(text, value, row, c, times[i].of);
		if (times[i].shown)
			grid_cell(t->g, value);
	}
}

/* The calls of a tier in a row of which some have labels; 0: none has. */
static uint64_t
labelled_calls(const struct report_row *row, size_t tier)
{
	const struct report_cell *c = &row->cells[tier];

	for (size_t i = 0; i < row->nlabels; i++)
		if (row->labels[i].tier == tier)
			return c->calls + c->async_calls;
	return 0;
}

/*
 * The number of labelled calls from which on a type is shown; sets *types to how many
 * have any.
 */
static uint64_t
calls_shown(const struct report *r, size_t tier, size_t *types)
{
	uint64_t most[LABEL_TYPES] = { 0 }, v, lower;

	*types = 0;
	for (size_t i = 1; i < r->nrows; i++) {
		v = labelled_calls(&r->rows[i], tier);
		*types += v > 0;
		for (size_t k = 0; k < LABEL_TYPES; k++) {
			lower = v < most[k] ? v : most[k];
			most[k] = v < most[k] ? most[k] : v;
			v = lower;
		}
	}
	return most[LABEL_TYPES - 1] > 0 ? most[LABEL_TYPES - 1] : 1;
}

/* The labels in a row; the rarest are added up. */
static void
put_labels_of(const struct label_table *t, size_t i)
{
	const struct report_row *row = &t->r->rows[i];
	struct report_cell rest = { .mean = -1, .p99 = -1, .gc = -1, .out = -1 };
	const struct report_label *l = row->labels;
	size_t n = 0, others = 0;
	char text[TEXT_MAX + 16];

	for (; l < row->labels + row->nlabels; l++) {
		if (l->tier != t->tier)
			continue;
		if (t->r->nrows > 2 && n >= LABELS_SHOWN) {
			report_add_cell(&rest, &l->cell);
			others++;
			continue;
		}
		grid_cell(t->g, n++ == 0 ? report_row_name(t->r, i) : "");
		label_row(t, row, l->name, &l->cell);
	}
	if (others == 0)
		return;
	grid_cell(t->g, "");
	snprintf(text, sizeof(text), "%zu other%s", others, others > 1 ? "s" : "");
	label_row(t, row, text, &rest);
}

/* Returns how many types are shown, of those that have so many labelled calls. */
static size_t
fill_labels(const struct label_table *t, uint64_t least)
{
	struct grid *g = t->g;
	struct kp_buf head;
	size_t shown = 0;

	kp_buf_init(&head, 1 << 16);
	kp_buf_printf(&head, "%s, by label", t->r->tiers[t->tier - 1]);
	grid_col(g, kp_buf_cstr(&head), GRID_LEFT);
	kp_buf_free(&head);
	grid_col(g, "", GRID_LEFT);
	grid_fix(g);
	grid_cut(g);
	grid_col(g, "calls", GRID_RIGHT);
	if (t->what != REPORT_CALLS)
		grid_col_optional(g, "each request", GRID_RIGHT, 3);
	grid_col_optional(g, "mean", GRID_RIGHT, 1);
	grid_col_optional(g, "p99", GRID_RIGHT, 2);
	for (size_t i = 0; i < t->r->nrows; i++) {
		if (i == 1)
			grid_rule(g);
		if (i > 0 && labelled_calls(&t->r->rows[i], t->tier) < least)
			continue;
		put_labels_of(t, i);
		shown += i > 0;
	}
	return shown;
}

/*
 * A grid of a tier's calls by label: how many of each a request makes.  Intervals go
 * before a column does.
 */
static void
put_labels(struct kp_buf *b, const struct report *r, size_t tier,
    const struct report_opts *o)
{
	size_t types, shown;
	uint64_t least = calls_shown(r, tier, &types);
	struct label_table t = { .r = r, .tier = tier, .what = o->what,
		.intervals = true };
	char line[100];
	struct grid g;

	t.g = &g;
	grid_init(&g);
	shown = fill_labels(&t, least);
	if (grid_drops(&g, o->width) > 0) {
		t.intervals = false;
		grid_free(&g);
		fill_labels(&t, least);
	}
	kp_buf_u8(b, '\n');
	grid_write(&g, o->width, b);
	grid_free(&g);
	if (types == shown)
		return;
	snprintf(line, sizeof(line), "and %zu more request type%s: -identity TYPE "
	    "shows those of one", types - shown, types - shown > 1 ? "s" : "");
	text_wrap(b, line, o->width, 2);
}

/* ---- calls that raised ---- */

static bool
row_raised(const struct report *r, const struct report_row *row)
{
	for (size_t t = 0; t <= r->ntiers; t++)
		if (row->cells[t].raised > 0)
			return true;
	return false;
}

static void
raised_cell(struct grid *g, const struct report_row *row, size_t tier)
{
	const struct report_cell *c = &row->cells[tier];
	uint64_t of = c->calls + (tier > 0 ? c->async_calls : 0);
	enum kp_seen seen = kp_raised_seen(c->raised, c->unseen);
	const struct report_interval *v = &c->interval[REPORT_OF_RAISED];
	char text[TEXT_MAX], low[TEXT_MAX], high[TEXT_MAX], ends[2 * TEXT_MAX];
	const char *value;

	value = of == 0 ? "" : seen_share(text, seen, c->raised, of,
	    c->calls == c->sampled_calls);
	if (of > 0 && seen == KP_SEEN && v->high > 0) {
		snprintf(ends, sizeof(ends), "%.20s (%.20s to %.20s)", value,
		    text_share(low, v->low), text_share(high, v->high));
		value = ends;
	}
	grid_cell(g, value);
}

/*
 * A grid of which share of requests, and of the calls of each tier, raised: errors
 * that a request handles are not its own.  Only of rows and tiers that have some.
 */
static void
put_raised(struct kp_buf *b, const struct report *r, unsigned width)
{
	bool ruled = false;
	struct grid g;

	if (!row_raised(r, &r->rows[0]))
		return;
	grid_init(&g);
	grid_col(&g, "errors", GRID_LEFT);
	grid_fix(&g);
	grid_col(&g, "requests", GRID_RIGHT);
	for (size_t t = 1; t <= r->ntiers; t++)
		if (r->rows[0].cells[t].raised > 0)
			grid_col(&g, r->tiers[t - 1], GRID_RIGHT);
	for (size_t i = 0; i < r->nrows; i++) {
		if (!row_raised(r, &r->rows[i]))
			continue;
		if (i > 0 && !ruled)
			grid_rule(&g);
		ruled = i > 0;
		grid_cell(&g, report_row_name(r, i));
		for (size_t t = 0; t <= r->ntiers; t++)
			if (t == 0 || r->rows[0].cells[t].raised > 0)
				raised_cell(&g, &r->rows[i], t);
	}
	kp_buf_u8(b, '\n');
	grid_write(&g, width, b);
	grid_free(&g);
}

/* ---- what the figures add up to ---- */

/* The mean time of the row's requests, in tiers and in none. */
static double
self_of_all(const struct report *r, const struct report_row *row)
{
	double sum = 0;

	for (size_t t = 0; t <= r->ntiers; t++)
		sum += (double)row->cells[t].self;
	return sum / (double)row->cells[0].requests;
}

static bool
adds_up(const struct report *r, const struct report_row *row)
{
	double total = (double)row->cells[0].mean;

	return row->cells[0].requests == 0 || total <= 0 ||
	    fabs(self_of_all(r, row) - total) <= total * SUM_ROUNDING;
}

/*
 * A row whose self times are not its total: that of all requests, or else the first
 * of those that the means of all requests hide.
 */
static const struct report_row *
odd_row(const struct report *r)
{
	for (size_t i = 0; i < r->nrows; i++)
		if (!adds_up(r, &r->rows[i]))
			return &r->rows[i];
	return NULL;
}

/* Compares the self times of requests with their total. */
static void
put_sum_of_self(struct kp_buf *b, const struct report *r)
{
	const struct report_row *all = &r->rows[0], *odd = odd_row(r);
	char sum_text[TEXT_MAX], total_text[TEXT_MAX];
	double sum;

	if (all->cells[0].requests == 0 || all->cells[0].mean <= 0)
		return;
	kp_buf_str(b, "self: the tiers of a row");
	if (report_has_rest(r, REPORT_SELF))
		kp_buf_str(b, ", and the time in " REPORT_REST ",");
	kp_buf_str(b, " add up to ");
	if (odd == NULL) {
		kp_buf_str(b, "total (inclusive)");
		return;
	}
	sum = self_of_all(r, odd);
	text_dur(sum_text, (kp_dur_ns)sum);
	text_dur(total_text, odd->cells[0].mean);
	if (strcmp(sum_text, total_text) == 0) {
		kp_buf_str(b, "total (inclusive)");
		return;
	}
	if (odd != all) {
		kp_buf_str(b, "total (inclusive), but not in each: those of ");
		text_put(b, odd->identity);
		kp_buf_str(b, " to ");
	}
	kp_buf_printf(b, "%s, not to %s%s: %s",
	    sum_text, odd == all ? "total (inclusive), " : "", total_text,
	    sum > (double)odd->cells[0].mean ?
	    "calls that run at the same time, outlast their request or are in "
	    "two tiers count in full" :
	    "the end of some calls was not seen, so their time is missing");
}

/* How the columns of tiers compare with the column total. */
static void
put_sum(struct kp_buf *b, const struct report *r, enum report_what what)
{
	if (what < REPORT_CALLS && r->rows[0].nlabels > 0)
		kp_buf_str(b, "by label: times are inclusive, of whole calls\n");
	if (what == REPORT_SELF)
		put_sum_of_self(b, r);
	else if (what == REPORT_BUSY)
		kp_buf_str(b, "time in tier: with that of the tiers it calls, so "
		    "a row does not add up to total (-what self does)");
	else if (what == REPORT_TOTAL)
		kp_buf_str(b, "total of a tier: all of its calls added up, also "
		    "those inside each other (-what self counts no moment of "
		    "a process twice)");
}

/* Explains the rows where types do not add up to all requests. */
static void
put_counted(struct kp_buf *b, const struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	char text[TEXT_MAX];
	bool known;
	uint64_t n = report_requests(r, 0, &known);

	if (!known || n == all->requests)
		return;
	kp_buf_str(b, "\nrequests: the VM counted all; each type has those that were "
	    "measured");
	if (all->requests != all->sampled_requests)
		kp_buf_printf(b, ", for which the sampled ones stand: ~%s in all",
		    text_count(text, all->requests));
	if (report_unmeasured(r) > 0)
		kp_buf_str(b, "; the others are \"" UNMEASURED "\", and "
		    "times are of those measured");
}

/* ---- the lines below it ---- */

#define NODES_NAMED 3	/* more are counted */
#define UNTIMED 0.005	/* a smaller part of a tier's calls is not reported */

static void
put_nodes(struct kp_buf *b, const struct report *r)
{
	size_t n = r->nnodes > NODES_NAMED + 1 ? NODES_NAMED : r->nnodes;

	for (size_t i = 0; i < n; i++) {
		kp_buf_str(b, ", ");
		text_put(b, r->nodes[i]);
	}
	if (r->nnodes > n)
		kp_buf_printf(b, " and %zu more nodes", r->nnodes - n);
}

/*
 * Says how much of the time from the first window to the last was measured: less
 * than all of it where kprofd was off, or had no target, in between.
 */
static void
put_gaps(struct kp_buf *b, const struct report *r)
{
	uint64_t of_each = r->windows / (r->nnodes > 0 ? r->nnodes : 1);
	kp_dur_ns window = r->covered / (int64_t)(of_each > 0 ? of_each : 1);
	char covered[TEXT_MAX], range[TEXT_MAX];

	if (r->end - r->start - r->covered > window)
		kp_buf_printf(b, ", covered %s of %s",
		    text_span(covered, r->covered),
		    text_span(range, r->end - r->start));
}

/* The lines below a table: each is built in `line`, then wrapped into `out`. */
struct lines {
	struct kp_buf *out, line;
	unsigned width;
};

/* Ends the line; does nothing if it is empty. */
static void
end_line(struct lines *l)
{
	if (l->line.len > 0)
		text_wrap(l->out, kp_buf_cstr(&l->line), l->width, 2);
	kp_buf_reset(&l->line);
}

static void
put_sampling(struct kp_buf *b, const struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	char some[TEXT_MAX], of[TEXT_MAX];
	bool known;
	uint64_t n = report_requests(r, 0, &known);

	if (all->requests == all->sampled_requests)
		return;
	kp_buf_printf(b, "sampling: %s of %s requests%s were measured; the "
	    "table estimates ", text_count(some, all->sampled_requests),
	    text_known(of, n, known), known ? ", as the VM counted them," : "");
	if (report_unmeasured(r) > 0)
		kp_buf_printf(b, "the ~%s that were made while tracing was on",
		    text_count(of, all->requests));
	else
		kp_buf_str(b, "all");
	kp_buf_str(b, " (~: an estimated count)");
}

/* Has any figure that is shown one? */
static bool
has_interval(const struct report *r)
{
	for (size_t i = 0; i < r->nrows; i++)
		for (size_t t = 0; t <= r->ntiers; t++)
			for (int of = 0; of < REPORT_OFS; of++)
				if (r->rows[i].cells[t].interval[of].high > 0)
					return true;
	return false;
}

/* What ± means, or why it is not there; nothing if all requests were measured. */
static void
put_intervals(struct kp_buf *b, const struct report *r, const struct report_columns *c)
{
	const struct report_cell *all = &r->rows[0].cells[0];

	if (all->requests == all->sampled_requests)
		return;
	kp_buf_str(b, "\n±: ");
	if (!has_interval(r))
		kp_buf_str(b, r->windows < 3 ? "not known; that needs at least three "
		    "windows" : "not known, of so few requests or so many tiers and types");
	else if (c->narrow > 1)
		kp_buf_str(b, "how sure estimates are has no room here; a wider terminal "
		    "shows it, and -percentiles");
	else
		kp_buf_str(b, "of that figure; in 95 of 100 cases the true one, of all "
		    "requests, is no farther, but for what was lost. Not known of few "
		    "requests, and where calls are missing (!)");
}

static void
put_missing_of(struct kp_buf *b, const struct report *r, size_t tier,
    const struct report_missing *m)
{
	double requests = (double)r->rows[0].cells[0].requests;
	char text[TEXT_MAX];

	text_put(b, r->tiers[tier - 1]);
	kp_buf_printf(b, ": %s calls per request",
	    text_average(text, (double)m->calls / requests));
	if (m->after > 0)
		kp_buf_printf(b, " and %s after it",
		    text_average(text, (double)m->after / requests));
	if (m->counted > 0) {
		kp_buf_printf(b, ", where the VM counted %s, ",
		    text_known(text, m->counted, true));
		kp_buf_printf(b, "%s per request",
		    text_average(text, (double)m->counted / (double)m->entries));
	}
	kp_buf_printf(b, "; about %s per request are missing",
	    text_average(text, (double)m->missed / requests));
}

/*
 * Tiers with calls that requests lost: the VM counts all calls, also those outside of
 * requests, so how many are missing comes from the calls that strayed or crossed.
 */
static void
put_missing(struct kp_buf *b, const struct report *r)
{
	struct report_missing m;
	const char *sep = "!";

	for (size_t t = 1; t <= r->ntiers; t++) {
		if (!report_missing(r, t, &m) || !m.sure)
			continue;
		kp_buf_printf(b, "%s ", sep);
		put_missing_of(b, r, t, &m);
		sep = ";";
	}
	if (*sep == ';')
		kp_buf_str(b, ": a process was answered because of another request "
		    "(a pool's worker was given back, a reply deferred, an event "
		    "postponed). Where sampling had passed that over, what the "
		    "process did then is not seen, or counts after another "
		    "({sampling, all} sees it); else nobody can tell whose it is. "
		    "Times of these tiers are too small");
}

/* Tiers of which the VM counted calls and requests have hardly any. */
static void
put_absent(struct kp_buf *b, const struct report *r)
{
	char calls[TEXT_MAX], each[TEXT_MAX];
	const char *sep = "not in requests:";
	struct report_missing m;

	for (size_t t = 1; t <= r->ntiers; t++) {
		if (!report_missing(r, t, &m) || m.sure)
			continue;
		kp_buf_printf(b, "%s %s calls of ", sep,
		    text_known(calls, m.counted, true));
		text_put(b, r->tiers[t - 1]);
		kp_buf_printf(b, ", %s per request", text_average(each,
		    (double)m.counted / (double)m.entries));
		sep = ";";
	}
	if (*sep == ';')
		kp_buf_str(b, ": the VM counted them, and measured requests have "
		    "hardly any; they are made outside of requests, or tokens are "
		    "lost before them, as where all workers of a pool are taken, "
		    "and a request gets its worker from one that is not measured");
}

/* The time after the end of requests, and which share of calls cause it. */
static void
put_after(struct kp_buf *b, const struct report *r)
{
	const struct report_row *all = &r->rows[0];
	double after = report_value(all, 0, REPORT_ASYNC);
	double async = 0, outlast = 0, calls = 0;
	char text[TEXT_MAX];

	for (size_t t = 1; t <= r->ntiers; t++) {
		async += (double)all->cells[t].async_calls;
		outlast += (double)all->cells[t].outlasting;
		calls += (double)all->cells[t].calls;
	}
	if (async + outlast == 0)
		return;
	kp_buf_printf(b, "after: time after the request's end, %s %s",
	    text_dur(text, after < 0 ? all->cells[0].async :
	    (kp_dur_ns)(after + 0.5)), after < 0 ? "in all" :
	    "per request (+ in a tier's column, where there is room), not in total");
	if (async > 0)
		kp_buf_printf(b, "; %s of the calls began after it",
		    text_share(text, async / (async + calls)));
	if (outlast > 0)
		kp_buf_printf(b, "; %s of the calls outlast it",
		    text_share(text, outlast / (async + calls)));
}

static void
put_part(struct kp_buf *b, const char *sep, double part, double of,
    const char *what)
{
	char text[TEXT_MAX];

	kp_buf_printf(b, "%s%s %s", sep, text_share(text, part / of), what);
}

/* The parts of tiers' self time in gc and scheduled out, if measured. */
static void
put_pauses(struct kp_buf *b, const struct report *r)
{
	const struct report_cell *c = r->rows[0].cells;
	double self = 0, gc = 0, out = 0;
	bool has_gc = false, has_out = false;

	for (size_t t = 1; t <= r->ntiers; t++) {
		self += (double)c[t].self;
		has_gc |= c[t].calls > 0 && c[t].gc >= 0;
		has_out |= c[t].calls > 0 && c[t].out >= 0;
		gc += c[t].gc > 0 ? (double)c[t].gc : 0;
		out += c[t].out > 0 ? (double)c[t].out : 0;
	}
	if (self <= 0 || (!has_gc && !has_out))
		return;
	kp_buf_str(b, "of tiers' self time ");
	if (has_gc)
		put_part(b, "", gc, self, "garbage collection");
	if (has_out)
		put_part(b, has_gc ? ", " : "", out, self, "scheduled out");
}

static void
put_untimed_of(struct kp_buf *b, const char **sep, uint64_t untimed,
    uint64_t calls, const char *tier, const char *when)
{
	double share = calls > 0 ? (double)untimed / (double)calls : 0;

	if (share < UNTIMED)
		return;
	kp_buf_printf(b, "%s %.0f %% of the calls of ", *sep, 100 * share);
	text_put(b, tier);
	kp_buf_str(b, when);
	*sep = ",";
}

/* The tiers in which some calls have no time. */
static void
put_untimed(struct kp_buf *b, const struct report *r)
{
	const char *sep = "no time for";

	for (size_t t = 1; t <= r->ntiers; t++) {
		const struct report_cell *c = &r->rows[0].cells[t];

		put_untimed_of(b, &sep, c->calls - c->timed, c->calls,
		    r->tiers[t - 1], "");
		put_untimed_of(b, &sep, c->async_unfinished, c->async_calls,
		    r->tiers[t - 1], " after the end");
	}
	if (*sep == ',')
		kp_buf_str(b, ": their end was not seen");
}

/* What to do if it is not seen how calls end. */
#define WAY_OUT "the native probe sees it (-probe auto, the default; " \
	"-probe-library where a target could not load it: the event probe "   \
	"says so), and the relay where the entry is in a tier that has [exact]"

/* How many requests raised, and whether that was seen of all of them. */
static void
put_errors(struct kp_buf *b, const struct report *r)
{
	const struct report_cell *c = &r->rows[0].cells[0];
	char text[TEXT_MAX], share[TEXT_MAX];
	bool known = c->calls == c->sampled_calls;

	switch (kp_raised_seen(c->raised, c->unseen)) {
	case KP_SEEN:
		if (c->raised > 0)
			kp_buf_printf(b, "errors: %s of the requests raised "
			    "(%s)", text_known(text, c->raised, known),
			    text_share(share, (double)c->raised /
			    (double)c->calls));
		return;
	case KP_SEEN_PART:
		kp_buf_printf(b, "errors: %s%s%s of the requests raised; "
		    "of others it is", known ? "at least " : "",
		    text_known(text, c->raised, known), known ? "" : " or more");
		break;
	case KP_NOT_SEEN:
		kp_buf_str(b, "errors:");
	}
	kp_buf_str(b, " not seen: " WAY_OUT);
}

void
report_put_running(struct kp_buf *b, const struct report *r)
{
	char so_far[TEXT_MAX], left[TEXT_MAX];

	if (r->running)
		kp_buf_printf(b, "running window: %s so far; it is stored when "
		    "it ends, in %s", text_about(so_far, r->covered),
		    text_about(left, r->left));
}

void
report_put_hints(struct kp_buf *b, const struct report *r, unsigned width)
{
	struct lines l = { .out = b, .width = width };

	kp_buf_init(&l.line, 1 << 16);
	for (size_t i = 0; i < r->nhints; i++) {
		text_put(&l.line, r->hints[i]);
		end_line(&l);
	}
	kp_buf_free(&l.line);
}

void
report_coverage(struct kp_buf *b, const struct report *r,
    const struct report_opts *o, const char *title, const char *note)
{
	static const struct {
		void (*put)(struct kp_buf *b, const struct report *r);
		bool of_times;	/* not of numbers of calls, or of async time */
	} notes[] = {
		{ put_sampling, false }, { put_missing, false },
		{ put_absent, false }, { put_after, false },
		{ put_pauses, false }, { put_untimed, true },
		{ report_put_tracing, true }, { put_errors, false },
	};
	struct lines l = { .out = b, .width = o->width };
	size_t n;

	kp_buf_init(&l.line, 1 << 16);
	kp_buf_str(&l.line, title);
	timefmt_put_range(&l.line, r->start, r->end);
	put_gaps(&l.line, r);
	put_nodes(&l.line, r);
	end_line(&l);
	report_put_running(&l.line, r);
	end_line(&l);
	for (const char *s = note; *s != '\0'; s += n + (s[n] == '\n')) {
		n = strcspn(s, "\n");
		kp_buf_put(&l.line, s, n);
		end_line(&l);
	}
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		if (notes[i].of_times && (o->what == REPORT_CALLS ||
		    o->what == REPORT_ASYNC))
			continue;
		notes[i].put(&l.line, r);
		end_line(&l);
	}
	kp_buf_free(&l.line);
	report_put_hints(b, r, o->width);
	losses_text(b, &r->losses, o->width);
}

void
report_table(struct kp_buf *b, const struct report *r,
    const struct report_opts *o)
{
	struct report_columns columns;
	const struct report_cell *c;
	char title[80], text[TEXT_MAX];
	struct kp_buf notes;

	if (!report_columns(&columns, r, o->what, o->keep)) {
		b->err = KP_ENOMEM;
		return;
	}
	put_values(b, &columns, o->width);
	for (size_t t = 0; o->percentiles && t <= r->ntiers; t++) {
		c = &r->rows[0].cells[t];
		if (c->calls > 0 || (t > 0 && c->async_max >= 0))
			put_percentiles(b, r, t, o->width);
	}
	for (size_t t = 1; t <= r->ntiers; t++)
		if (labelled_calls(&r->rows[0], t) > 0)
			put_labels(b, r, t, o);
	put_raised(b, r, o->width);
	if (o->queues != NULL)
		queues_table(b, o->queues, o->width);
	snprintf(title, sizeof(title), "%s; ", titles[o->what]);
	kp_buf_u8(b, '\n');
	kp_buf_init(&notes, 1024);
	put_sum(&notes, r, o->what);
	put_left_out(&notes, &columns);
	put_intervals(&notes, r, &columns);
	report_columns_free(&columns);
	put_counted(&notes, r);
	if (r->cost > 0)
		kp_buf_printf(&notes, "\nshare: of the %s that %s took, added up",
		    report_corrected(r, text, text_dur(text, r->cost)),
		    r->filtered ? "requests of all types" : "all requests");
	report_coverage(b, r, o, title, kp_buf_cstr(&notes));
	kp_buf_free(&notes);
}
