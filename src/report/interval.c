/*
 * interval.c - estimates how far chance may have moved a report's figures, where
 * requests were sampled.
 *
 * The range is cut into tenths, each of which has windows of all of it (tenths.h).  A
 * percentile's error is that of the part of calls below it, and its interval has the
 * values at both ends of that part's: Woodruff's.
 *
 * Source: R. S. Woodruff, "Confidence Intervals for Medians and Other Position Measures",
 * 1952.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/stacks.h"
#include "report.h"

#define TAIL_MIN 15	/* requests measured above a percentile; of fewer likewise, */
#define RAISED_MIN 5	/* and of fewer calls measured that raised */
#define TAIL_FEW 10.0	/* the same of a percentile that is compared */
#define EDGE 1.0109	/* from the middle of a bucket to its end, and more */
/*
 * Two percentiles of the same bucket may be EDGE^2 apart: where a difference takes the
 * root of the sum of squares of both, each has this part of it.
 */
#define EDGE_OF_TWO 1.0156

/* Of one cell in one tenth. */
enum value { REQUESTS, CALLS, ALL_CALLS, TIMED, TOTAL, SELF, BUSY, RAISED, BELOW50, BELOW90,
	BELOW99, IN_HIST, VALUES };

struct report_spread {
	const struct kp_tenths *of;
	double v[VALUES][KP_TENTHS];
	struct kp_hist hist;	/* of all tenths */
	kp_dur_ns min, max;
};

static const struct {
	enum report_of of;
	enum value below;
	double q;
	size_t at;		/* in struct report_cell */
} percentiles[] = {
	{ REPORT_OF_P50, BELOW50, 0.50, offsetof(struct report_cell, p50) },
	{ REPORT_OF_P90, BELOW90, 0.90, offsetof(struct report_cell, p90) },
	{ REPORT_OF_P99, BELOW99, 0.99, offsetof(struct report_cell, p99) },
};
#define NPERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

static kp_dur_ns *
dur_at(struct report_cell *c, size_t at)
{
	return (kp_dur_ns *)((char *)c + at);
}

/* ---- chance, if requests were sampled one by one ---- */

/*
 * The spread of async calls is not measured.  They are assumed to vary as the
 * tier's other calls do; for tier 0, as those of the tier that varies most.
 */
static double
async_variance(const struct report *r, const struct report_row *row,
    const struct report_cell *c)
{
	double spread = c->spread;

	for (size_t t = 1; c == row->cells && t <= r->ntiers; t++)
		spread = fmax(spread, row->cells[t].spread);
	spread = fmax(spread, 1);
	return (1 + spread * spread) / fmax((double)c->sampled_async, 1);
}

static double
single_variance(const struct report_row *row, const struct report_cell *c, bool times)
{
	double n = fmax((double)c->sampled_requests, 1), through, calls, own;

	through = n / fmax((double)row->cells[0].sampled_requests, n);
	calls = fmax((double)c->sampled_calls / n, 1);
	own = times ? c->spread * c->spread : (calls - 1) / (calls * calls);
	return (1 - through + own) / n;
}

/* What differs as this does. */
static const enum report_of like[] = { [REPORT_BUSY] = REPORT_OF_BUSY,
	[REPORT_SELF] = REPORT_OF_SELF, [REPORT_TOTAL] = REPORT_OF_TOTAL,
	[REPORT_CALLS] = REPORT_OF_CALLS, [REPORT_ASYNC] = REPORT_OF_BUSY,
	[REPORT_GC] = REPORT_OF_SELF, [REPORT_OUT] = REPORT_OF_SELF };

double
report_variance(const struct report *r, const struct report_row *row,
    const struct report_cell *c, enum report_what what)
{
	double v = what == REPORT_ASYNC ? async_variance(r, row, c) :
	    single_variance(row, c, what != REPORT_CALLS);
	double error = c->error[like[what]];

	return fmax(v, error * error);
}

/* ---- the tenths ---- */

struct work {
	struct report *r;
	struct report_row **rows;	/* but for the first, by name */
	const struct kp_tenths *t;	/* which are read */
	/* by node: whose cells are read, for its row; NULL: those of all, for the first */
	const char *node;
	bool types;			/* by node: cells of types count, not of _total */
	double total[KP_TENTHS];	/* of all requests */
};

/* Adds how many of its calls lasted no longer than each percentile, and the rest of its bucket. */
static void
add_below(struct report_spread *s, size_t tenth, struct report_cell *to,
    const struct kp_hist *h)
{
	uint64_t n = 0;
	uint32_t k = 0;
	int64_t end;

	for (size_t i = 0; i < NPERCENTILES; i++) {	/* in ascending order */
		end = kp_hist_bucket(*dur_at(to, percentiles[i].at)) - (int64_t)h->lo;
		for (; k < h->len && (int64_t)k <= end; k++)
			n += h->n[k];
		s->v[percentiles[i].below][tenth] += (double)n;
	}
}

static bool
add_cell(const struct work *w, size_t tenth, struct report_cell *to,
    const struct kp_cell *c, bool request)
{
	struct report_spread *s;
	const double of[] = { [REQUESTS] = (double)c->w_requests,
		[CALLS] = (double)c->w_calls, [TIMED] = (double)c->w_timed,
		[TOTAL] = (double)c->w_total, [SELF] = (double)c->w_self,
		[BUSY] = (double)c->w_busy,
		[RAISED] = (double)kp_cell_raised(c, request),
		[ALL_CALLS] = (double)(c->w_calls + (request ? 0 : c->w_async_calls)) };

	if (to == NULL)
		return true;
	if (to->tenths == NULL) {
		to->tenths = calloc(1, sizeof(*to->tenths));
		if (to->tenths == NULL)
			return false;
		to->tenths->of = w->t;
		to->tenths->min = -1;
	}
	s = to->tenths;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		s->v[i][tenth] += of[i];
	s->v[IN_HIST][tenth] += (double)c->hist.count;
	add_below(s, tenth, to, &c->hist);
	if (s->min < 0 || (c->min >= 0 && c->min < s->min))
		s->min = c->min;
	if (c->max > s->max)
		s->max = c->max;
	return kp_hist_merge(&s->hist, &c->hist) != KP_ENOMEM;
}

static int
row_cmp(const void *pa, const void *pb)
{
	const struct report_row *const *a = pa, *const *b = pb;

	return strcmp((*a)->identity, (*b)->identity);
}

static struct report_row *
row_of(const struct work *w, const char *name)
{
	const struct report_row key = { .identity = (char *)name }, *const at = &key;
	struct report_row *const *found = bsearch(&at, w->rows, w->r->nrows - 1,
	    sizeof(*w->rows), row_cmp);

	return found != NULL ? *found : NULL;
}

/* A cell of a type counts in the first row, too, where that is a sum of some. */
static bool
take(void *ctx, size_t tenth, const struct kp_cell *c)
{
	bool of_all = strcmp(c->identity, "_total") == 0, first, ok = true;
	struct work *w = ctx;
	struct report *r = w->r;
	struct report_row *row;
	const char *label;
	size_t tier;

	if (r->by_node && of_all == w->types)
		return true;
	tier = report_part(r, c->tier, &label);
	first = r->by_node ? w->node == NULL : of_all;
	if (tier == 0 && first)
		w->total[tenth] += (double)c->w_total;
	if (tier == REPORT_NO_TIER)
		return true;
	row = first ? NULL : row_of(w, r->by_node ? w->node : c->identity);
	if (row != NULL)
		ok = add_cell(w, tenth, report_cell(row, tier, label), c, tier == 0);
	if (ok && (r->filtered ? row != NULL : first))
		ok = add_cell(w, tenth, report_cell(r->rows, tier, label), c, tier == 0);
	return ok;
}

/* ---- the errors ---- */

double
report_tenths_error(const double *y, const double *x, size_t tenths, double least)
{
	size_t with = kp_tenths_filled(y);
	struct kp_ratio ratio;

	if (with < KP_TENTHS_MIN)
		return 0;
	ratio = kp_ratio_of(y, x, tenths, with);
	return ratio.v <= 0 ? 0 : ratio.t / REPORT_ERRORS *
	    fmax(ratio.error / ratio.v, sqrt(least));
}

/* With those after the request, as kp_cell_raised() has them. */
static double
all_calls(const struct report_row *row, const struct report_cell *c)
{
	return (double)(c->calls + (c == row->cells ? 0 : c->async_calls));
}

/* What the report says of it; 0: nothing. */
static double
figure(const struct report_row *row, const struct report_cell *c, enum report_of of)
{
	switch (of) {
	case REPORT_OF_REQUESTS:
		return (double)c->requests;
	case REPORT_OF_MEAN:
		return (double)c->mean;
	case REPORT_OF_CALLS:
		return report_value_of(row, c, REPORT_CALLS);
	case REPORT_OF_SELF:
		return report_value_of(row, c, REPORT_SELF);
	case REPORT_OF_TOTAL:
		return report_value_of(row, c, REPORT_TOTAL);
	case REPORT_OF_BUSY:
		return report_value_of(row, c, REPORT_BUSY);
	case REPORT_OF_RAISED:
		return c->unseen > 0 || (double)c->raised * (double)c->sampled_requests <
		    RAISED_MIN * (double)c->requests || c->raised == 0 ? 0 :
		    (double)c->raised / all_calls(row, c);
	case REPORT_OF_SHARE:
		return row->share;
	default:
		return 0;
	}
}

/*
 * The least relative variance of figure(): of requests that were sampled one by one, and
 * calls that are not alike.
 */
static double
least_variance(const struct report_row *row, const struct report_cell *c,
    enum report_of of)
{
	double n = fmax((double)c->sampled_requests, 1), p, spread;
	double through = n / fmax((double)row->cells[0].sampled_requests, n);
	double calls = fmax((double)c->sampled_calls / n, 1);

	spread = c->spread * c->spread;
	switch (of) {
	case REPORT_OF_REQUESTS:
		return 1 / n;
	case REPORT_OF_MEAN:
		return spread / (n * calls);
	case REPORT_OF_CALLS:
		return (1 - through) / n;
	case REPORT_OF_RAISED:
		p = figure(row, c, of);
		return p > 0 ? (1 - p) / (p * n) : 0;
	case REPORT_OF_SHARE:
		return (1 + spread) * (1 - fmin(row->share, 1)) / n;
	default:
		return (1 - through + spread / calls) / n;
	}
}

/* Which part of the error sampling makes: that of the requests it passed over. */
static double
passed_over(const struct report_row *row)
{
	const struct report_cell *c = &row->cells[0];

	return c->requests <= c->sampled_requests ? 0 :
	    sqrt(1 - (double)c->sampled_requests / (double)c->requests);
}

/* Of figures that are above 0, so the interval is as wide on either side as a factor. */
static void
take_figure(struct report_cell *c, enum report_of of, double value, double within)
{
	double most = of == REPORT_OF_RAISED || of == REPORT_OF_SHARE ? 1 : HUGE_VAL;

	if (value > 0 && within > 0)
		c->interval[of] = (struct report_interval){ value * exp(-within),
			fmin(value * exp(within), most) };
}

static void
take_ratios(const struct work *w, const struct report_row *row, struct report_cell *c,
    const struct report_spread *s, const struct report_spread *request)
{
	double value, passed = passed_over(row);
	const struct { const double *y, *x; } ratios[REPORT_OFS] = {
		[REPORT_OF_REQUESTS] = { s->v[REQUESTS], s->of->counted },
		[REPORT_OF_MEAN] = { s->v[TOTAL], s->v[TIMED] },
		[REPORT_OF_CALLS] = { s->v[CALLS], request->v[REQUESTS] },
		[REPORT_OF_SELF] = { s->v[SELF], request->v[REQUESTS] },
		[REPORT_OF_TOTAL] = { s->v[TOTAL], request->v[REQUESTS] },
		[REPORT_OF_BUSY] = { s->v[BUSY], request->v[REQUESTS] },
		[REPORT_OF_RAISED] = { s->v[RAISED], s->v[ALL_CALLS] },
		[REPORT_OF_SHARE] = { s->v[TOTAL], w->total },
	};
	double error;

	for (enum report_of of = 0; of < REPORT_OFS; of++) {
		value = figure(row, c, of);
		if (ratios[of].y == NULL || value <= 0 ||
		    (of == REPORT_OF_SHARE && c != row->cells))
			continue;
		error = report_tenths_error(ratios[of].y, ratios[of].x, s->of->n,
		    least_variance(row, c, of));
		if (error <= 0)
			continue;
		c->error[of] = error;
		take_figure(c, of, value, REPORT_ERRORS * passed * error);
	}
}

static double
quantile(const struct report_spread *s, double q)
{
	return (double)kp_hist_quantile_within(&s->hist, fmin(fmax(q, 0), 1), s->min,
	    s->max);
}

static void
take_percentiles(const struct report_row *row, struct report_cell *c,
    const struct report_spread *s)
{
	double above[KP_TENTHS], error, within, q, least;
	struct kp_ratio ratio;
	size_t n;

	for (size_t i = 0; i < NPERCENTILES; i++) {
		for (size_t k = 0; k < KP_TENTHS; k++)
			above[k] = s->v[IN_HIST][k] - s->v[percentiles[i].below][k];
		n = kp_tenths_filled(above);
		if (n < KP_TENTHS_MIN)
			continue;
		q = percentiles[i].q;
		ratio = kp_ratio_of(s->v[percentiles[i].below], s->v[IN_HIST], s->of->n, n);
		/* requests, not calls, because the calls of one are alike */
		least = q * (1 - q) / fmax((double)c->sampled_requests, 1);
		error = ratio.t / REPORT_ERRORS * fmax(ratio.error, sqrt(least));
		within = REPORT_ERRORS * error / (q * (1 - q));
		*REPORT_CHANCE(c, percentiles[i].of) = (struct report_interval){
			quantile(s, report_by_odds(q, -within)),
			quantile(s, report_by_odds(q, within)) };
		within *= passed_over(row);
		if (within > 0 && (double)c->sampled_requests * (1 - q) >= TAIL_MIN)
			c->interval[percentiles[i].of] = (struct report_interval){
				quantile(s, report_by_odds(q, -within)) / EDGE,
				quantile(s, report_by_odds(q, within)) * EDGE };
	}
}

static void
take_row(const struct work *w, struct report_row *row)
{
	const struct report_spread *request = row->cells[0].tenths;
	struct report_missing m;
	struct report_cell *c;
	size_t tier;

	for (size_t i = 0; request != NULL && (c = report_row_cell(w->r, row, i)) != NULL;
	    i++) {
		tier = i <= w->r->ntiers ? i : row->labels[i - w->r->ntiers - 1].tier;
		/* How sure is what is there says nothing of what is not. */
		if (c->tenths == NULL || c->tenths->of->n == 0 ||
		    (report_missing(w->r, tier, &m) && m.sure))
			continue;
		take_ratios(w, row, c, c->tenths, request);
		take_percentiles(row, c, c->tenths);
	}
}

static struct report_row **
rows_by_name(const struct report *r)
{
	struct report_row **v = calloc(r->nrows, sizeof(*v));

	for (size_t i = 1; v != NULL && i < r->nrows; i++)
		v[i - 1] = &r->rows[i];
	if (v != NULL)
		qsort(v, r->nrows - 1, sizeof(*v), row_cmp);
	return v;
}

/* Those of all nodes, and by node of each. */
static enum kp_err
read_tenths(struct work *w, struct kp_query *q, const struct kp_query_range *range,
    size_t ncells, struct kp_tenths *t)
{
	struct kp_query_range of = *range;
	size_t nodes = w->r->by_node ? w->r->nnodes : 0;
	enum kp_err err = KP_OK;

	/* without those of all, which shares are of, there are none */
	for (size_t i = 0; i <= nodes && err == KP_OK && (i == 0 || t[0].n > 0); i++) {
		if (i > 0)
			of.node = w->node = w->r->nodes[i - 1];
		t[i].unit = t[0].unit;
		w->t = &t[i];
		err = kp_query_tenths(q, &of, ncells, nodes, &t[i], take, w);
	}
	return err;
}

enum kp_err
report_intervals(struct report *r, struct kp_query *q,
    const struct kp_query_range *range, size_t ncells)
{
	struct kp_tenths *t = calloc(r->nnodes + 1, sizeof(*t));
	struct work w = { .r = r, .rows = rows_by_name(r),
		.types = range->identity_glob != NULL };
	enum kp_err err = t != NULL && w.rows != NULL ? KP_OK : KP_ENOMEM;
	struct report_cell *c;

	if (err == KP_OK)
		err = read_tenths(&w, q, range, ncells, t);
	for (size_t i = 0; i < r->nrows; i++) {
		if (err == KP_OK)
			take_row(&w, &r->rows[i]);
		for (size_t k = 0; (c = report_row_cell(r, &r->rows[i], k)) != NULL; k++) {
			if (c->tenths != NULL)
				kp_hist_free(&c->tenths->hist);
			free(c->tenths);
			c->tenths = NULL;
		}
	}
	free(w.rows);
	free(t);
	return err;
}

/* ---- for comparisons ---- */

/* Errors of which tenths differ count for fewer calls than were measured. */
static double
raised_of(const struct report_row *row, const struct report_cell *c,
    struct report_interval *chance)
{
	double p = (double)c->raised / all_calls(row, c), n = (double)c->sampled_requests;
	double error = p * c->error[REPORT_OF_RAISED];

	if (kp_raised_seen(c->raised, c->unseen) != KP_SEEN)
		return -1;
	if (error > 0)
		n = fmin(n, p * (1 - p) / (error * error));
	kp_stack_interval(p, n, &chance->low, &chance->high);
	return p;
}

static double
mean_of(const struct report_cell *c, struct report_interval *chance)
{
	double error = REPORT_ERRORS * fmax(c->error[REPORT_OF_MEAN], c->spread /
	    sqrt(fmax((double)c->sampled_requests, 1)));

	*chance = (struct report_interval){ (double)c->mean * exp(-error),
		(double)c->mean * exp(error) };
	return (double)c->mean;
}

double
report_of_call(const struct report_row *row, const struct report_cell *c,
    enum report_of of, struct report_interval *chance)
{
	struct report_interval none = { (double)NAN, (double)NAN };
	double v = -1, above = (double)c->sampled_requests;

	*chance = none;
	if (c->calls == 0)
		return -1;
	if (of == REPORT_OF_RAISED)
		return raised_of(row, c, chance);
	if (of == REPORT_OF_MEAN)
		return mean_of(c, chance);
	for (size_t i = 0; i < NPERCENTILES; i++) {
		if (percentiles[i].of != of)
			continue;
		v = (double)*dur_at((struct report_cell *)c, percentiles[i].at);
		*chance = *REPORT_CHANCE(c, of);
		chance->low = fmin(chance->low, v) / EDGE_OF_TWO;
		chance->high = fmax(chance->high, v) * EDGE_OF_TWO;
		above *= 1 - percentiles[i].q;
	}
	if (v < 0 || above < TAIL_FEW)
		*chance = none;
	return v;
}

/* Of a percentile the ends are not as far off on either side. */
static double
farther(double v, const struct report_interval *i)
{
	return v <= 0 || i->high <= 0 ? 0 : fmax(i->high / v, v / fmax(i->low, 1e-9)) - 1;
}

enum report_of
report_of_what(enum report_what what)
{
	return what <= REPORT_CALLS ? like[what] : REPORT_OFS;
}

const char *
report_with_interval(char *buf, const char *text, const struct report_row *row,
    const struct report_cell *c, enum report_of of)
{
	char shown[TEXT_MAX];
	double v;

	if (of == REPORT_OFS)
		return text;
	v = figure(row, c, of);
	for (size_t k = 0; k < NPERCENTILES; k++)
		if (percentiles[k].of == of)
			v = (double)*dur_at((struct report_cell *)c, percentiles[k].at);
	v = farther(v, &c->interval[of]);
	snprintf(shown, sizeof(shown), "%s", text);	/* buf may be text */
	if (v > 1)
		snprintf(buf, TEXT_MAX, "%.30s ±>100 %%", shown);
	else if (v > 0)
		snprintf(buf, TEXT_MAX, "%.30s ±%.*f %%", shown, v < 0.0095, 100 * v);
	return v > 0 ? buf : text;
}
