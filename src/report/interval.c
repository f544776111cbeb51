/*
 * interval.c - estimates how far chance may have moved a report's figures, where
 * requests were sampled.
 *
 * Requests of one slice of time are alike, and so are those of a burst, so the number
 * of requests does not say how sure a figure is.  The range is cut into tenths, each of
 * which has windows of all of it, and a figure's error is how its tenths differ: the
 * method of random groups, with ratios made linear.  A percentile's error is that of
 * the part of calls below it, and its interval has the values at both ends of that
 * part's: Woodruff's.
 *
 * Source: K. M. Wolter, "Introduction to Variance Estimation", 2007, chapters 2 and 6;
 * R. S. Woodruff, "Confidence Intervals for Medians and Other Position Measures", 1952.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define TENTHS_MIN 3	/* with figures; of fewer nothing is said */
#define TAIL_MIN 15	/* requests measured above a percentile; of fewer likewise, */
#define RAISED_MIN 5	/* and of fewer calls measured that raised */
/*
 * How many tenths differ alike: (sum of squares)^2 / sum of fourth powers is some 4 where
 * ten normal figures do, and 1 where a single one differs.  Times this, less one, it is
 * taken for degrees of freedom, found by trials (test_intervals).
 */
#define ALIKE 2.0
#define EDGE 1.0109	/* from the middle of a bucket to its end, and more */

/* Of one cell in one tenth. */
enum value { REQUESTS, CALLS, ALL_CALLS, TIMED, TOTAL, SELF, BUSY, RAISED, BELOW50, BELOW90,
	BELOW99, IN_HIST, VALUES };

struct spread {
	double v[VALUES][KP_TENTHS];
	struct kp_hist hist;	/* of all tenths */
	kp_dur_ns min, max;
};

static const struct {
	enum report_of of;
	enum value below;
	double q;
	size_t at, error;	/* in struct report_cell */
} percentiles[] = {
#define AT(p) offsetof(struct report_cell, p), offsetof(struct report_cell, p##_error)
	{ REPORT_OF_P50, BELOW50, 0.50, AT(p50) },
	{ REPORT_OF_P90, BELOW90, 0.90, AT(p90) },
	{ REPORT_OF_P99, BELOW99, 0.99, AT(p99) },
#undef AT
};
#define NPERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

/* Two-sided quantiles of Student's t at 95 %, by degrees of freedom. */
static double
student(size_t df)
{
	static const double t[KP_TENTHS] = { 0, 12.706, 4.303, 3.182, 2.776, 2.571,
		2.447, 2.365, 2.306, 2.262 };

	return t[df];
}

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

/* The error by tenths of what differs as this does. */
static double
tenths_error(const struct report_cell *c, enum report_what what)
{
	static const enum report_of like[] = { [REPORT_BUSY] = REPORT_OF_BUSY,
		[REPORT_SELF] = REPORT_OF_SELF, [REPORT_TOTAL] = REPORT_OF_TOTAL,
		[REPORT_CALLS] = REPORT_OF_CALLS, [REPORT_ASYNC] = REPORT_OF_BUSY,
		[REPORT_GC] = REPORT_OF_SELF, [REPORT_OUT] = REPORT_OF_SELF };

	return c->error[like[what]];
}

double
report_variance(const struct report *r, const struct report_row *row,
    const struct report_cell *c, enum report_what what)
{
	double v = what == REPORT_ASYNC ? async_variance(r, row, c) :
	    single_variance(row, c, what != REPORT_CALLS);
	double error = tenths_error(c, what);

	return fmax(v, error * error);
}

/* ---- the tenths ---- */

struct work {
	struct report *r;
	const struct kp_tenths *t;
	const char *const *names;
	struct spread **v;	/* by row and tier; NULL: it has no figures */
	struct spread all;	/* of all requests, only TOTAL */
};

static struct spread **
spread_at(const struct work *w, size_t row, size_t tier)
{
	return &w->v[row * (w->r->ntiers + 1) + tier];
}

/* How many of its calls lasted no longer than this, and the rest of its bucket. */
static double
below(const struct kp_hist *h, kp_dur_ns d)
{
	int32_t last = kp_hist_bucket(d);
	uint64_t n = 0;

	for (uint32_t i = 0; i < h->len && h->lo + (int32_t)i <= last; i++)
		n += h->n[i];
	return (double)n;
}

static bool
add_cell(struct work *w, size_t tenth, size_t row, size_t tier, const struct kp_cell *c)
{
	struct report_cell *to = &w->r->rows[row].cells[tier];
	struct spread **at = spread_at(w, row, tier), *s = *at;
	const double of[] = { [REQUESTS] = (double)c->w_requests,
		[CALLS] = (double)c->w_calls, [TIMED] = (double)c->w_timed,
		[TOTAL] = (double)c->w_total, [SELF] = (double)c->w_self,
		[BUSY] = (double)c->w_busy,
		[RAISED] = (double)kp_cell_raised(c, tier == 0),
		[ALL_CALLS] = (double)(c->w_calls + (tier == 0 ? 0 : c->w_async_calls)) };

	if (s == NULL) {
		s = *at = calloc(1, sizeof(*s));
		if (s == NULL)
			return false;
		s->min = -1;
	}
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		s->v[i][tenth] += of[i];
	s->v[IN_HIST][tenth] += (double)c->hist.count;
	for (size_t i = 0; i < NPERCENTILES; i++)
		s->v[percentiles[i].below][tenth] += below(&c->hist,
		    *dur_at(to, percentiles[i].at));
	if (s->min < 0 || (c->min >= 0 && c->min < s->min))
		s->min = c->min;
	if (c->max > s->max)
		s->max = c->max;
	return kp_hist_merge(&s->hist, &c->hist) != KP_ENOMEM;
}

static int
name_cmp(const void *name, const void *at)
{
	return strcmp(name, *(const char *const *)at);
}

/* A cell of a type, which counts in the first row, too, where that is a sum of some. */
static bool
add_tenth(struct work *w, size_t tenth)
{
	const struct kp_cell *c = w->t->v[tenth].cells, *end = c + w->t->v[tenth].ncells;
	const char *const *found;
	bool total, ok = true;
	size_t tier;

	for (; c < end && ok; c++) {
		tier = report_tier(w->r, c->tier);
		total = strcmp(c->identity, "_total") == 0;
		if (tier == 0 && total)
			w->all.v[TOTAL][tenth] += (double)c->w_total;
		found = w->r->nrows < 2 ? NULL : bsearch(c->identity, w->names,
		    w->r->nrows - 1, sizeof(*w->names), name_cmp);
		if (tier == REPORT_NO_TIER)
			continue;
		if (found != NULL)
			ok = add_cell(w, tenth, (size_t)(found - w->names) + 1,
			    tier, c);
		if (ok && (w->r->filtered ? found != NULL : total))
			ok = add_cell(w, tenth, 0, tier, c);
	}
	return ok;
}

/* ---- the errors ---- */

/* Tenths in which there is anything. */
static size_t
filled(const double *v)
{
	size_t n = 0;

	for (size_t i = 0; i < KP_TENTHS; i++)
		n += v[i] > 0;
	return n;
}

/* A ratio of sums, and its standard error by how tenths differ. */
struct ratio {
	double v, error;
	double t;	/* Student's: an interval is so many errors wide on each side */
};

/*
 * Of y / x in n tenths, `filled` of which have some of y.  Where the difference is that
 * of a few tenths the error is less sure, as if there were fewer of them.
 */
static struct ratio
ratio_of(const double *y, const double *x, size_t n, size_t with)
{
	double sy = 0, sx = 0, squares = 0, fourths = 0, e, df;
	struct ratio r = { 0 };

	for (size_t i = 0; i < KP_TENTHS; i++) {
		sy += y[i];
		sx += x[i];
	}
	if (sx <= 0 || sy <= 0)
		return r;
	r.v = sy / sx;
	for (size_t i = 0; i < KP_TENTHS; i++) {
		e = y[i] / sx - r.v * (x[i] / sx);
		squares += e * e;
		fourths += e * e * e * e;
	}
	r.error = sqrt((double)n / (double)(n - 1) * squares);
	df = fourths > 0 ? ALIKE * squares * squares / fourths - 1 : KP_TENTHS;
	r.t = student((size_t)fmin(fmax(df, 2), (double)with - 1));
	return r;
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
    const struct spread *s, const struct spread *request)
{
	double covered[KP_TENTHS], value, passed = passed_over(row);
	const struct { const double *y, *x; } ratios[REPORT_OFS] = {
		[REPORT_OF_REQUESTS] = { s->v[REQUESTS], covered },
		[REPORT_OF_MEAN] = { s->v[TOTAL], s->v[TIMED] },
		[REPORT_OF_CALLS] = { s->v[CALLS], request->v[REQUESTS] },
		[REPORT_OF_SELF] = { s->v[SELF], request->v[REQUESTS] },
		[REPORT_OF_TOTAL] = { s->v[TOTAL], request->v[REQUESTS] },
		[REPORT_OF_BUSY] = { s->v[BUSY], request->v[REQUESTS] },
		[REPORT_OF_RAISED] = { s->v[RAISED], s->v[ALL_CALLS] },
		[REPORT_OF_SHARE] = { s->v[TOTAL], w->all.v[TOTAL] },
	};
	struct ratio ratio;
	size_t n;

	for (size_t i = 0; i < KP_TENTHS; i++)
		covered[i] = (double)w->t->v[i].covered;
	for (enum report_of of = 0; of < REPORT_OFS; of++) {
		value = figure(row, c, of);
		if (ratios[of].y == NULL || value <= 0 ||
		    (of == REPORT_OF_SHARE && c != row->cells))
			continue;
		n = filled(ratios[of].y);
		if (n < TENTHS_MIN)
			continue;
		ratio = ratio_of(ratios[of].y, ratios[of].x, w->t->n, n);
		if (ratio.v <= 0)
			continue;
		c->error[of] = ratio.t / REPORT_ERRORS * fmax(ratio.error / ratio.v,
		    sqrt(least_variance(row, c, of)));
		take_figure(c, of, value, REPORT_ERRORS * passed * c->error[of]);
	}
}

static double
quantile(const struct spread *s, double q)
{
	return (double)kp_hist_quantile_within(&s->hist, fmin(fmax(q, 0), 1), s->min,
	    s->max);
}

/* A part whose odds differ by this factor, exp(by): it stays between 0 and 1. */
static double
by_odds(double part, double by)
{
	return 1 / (1 + (1 - part) / part * exp(-by));
}

static void
take_percentiles(const struct work *w, const struct report_row *row,
    struct report_cell *c, const struct spread *s)
{
	size_t n = filled(s->v[IN_HIST]);
	double error, within, q, least;
	struct ratio ratio;

	for (size_t i = 0; i < NPERCENTILES && n >= TENTHS_MIN; i++) {
		q = percentiles[i].q;
		ratio = ratio_of(s->v[percentiles[i].below], s->v[IN_HIST], w->t->n, n);
		/* requests, not calls, because the calls of one are alike */
		least = q * (1 - q) / fmax((double)c->sampled_requests, 1);
		error = ratio.t / REPORT_ERRORS * fmax(ratio.error, sqrt(least));
		*dur_at(c, percentiles[i].error) = (kp_dur_ns)((quantile(s,
		    q + error) - quantile(s, q - error)) / 2);
		within = REPORT_ERRORS * passed_over(row) * error / (q * (1 - q));
		if (within > 0 && (double)c->sampled_requests * (1 - q) >= TAIL_MIN)
			c->interval[percentiles[i].of] = (struct report_interval){
				quantile(s, by_odds(q, -within)) / EDGE,
				quantile(s, by_odds(q, within)) * EDGE };
	}
}

enum kp_err
report_intervals(struct report *r, const struct kp_tenths *t,
    const char *const *names)
{
	struct work w = { .r = r, .t = t, .names = names,
		.v = calloc(r->nrows * (r->ntiers + 1), sizeof(*w.v)) };
	struct spread *s, *request;
	struct report_missing m;
	bool ok = w.v != NULL;

	for (size_t i = 0; i < KP_TENTHS && ok; i++)
		ok = add_tenth(&w, i);
	for (size_t i = 0; i < r->nrows && ok; i++) {
		request = *spread_at(&w, i, 0);
		for (size_t k = 0; k <= r->ntiers && request != NULL; k++) {
			s = *spread_at(&w, i, k);
			/* How sure is what is there says nothing of what is not. */
			if (s == NULL || (report_missing(r, k, &m) && m.sure))
				continue;
			take_ratios(&w, &r->rows[i], &r->rows[i].cells[k], s, request);
			take_percentiles(&w, &r->rows[i], &r->rows[i].cells[k], s);
		}
	}
	for (size_t i = 0; w.v != NULL && i < r->nrows * (r->ntiers + 1); i++) {
		if (w.v[i] != NULL)
			kp_hist_free(&w.v[i]->hist);
		free(w.v[i]);
	}
	free(w.v);
	return ok ? KP_OK : KP_ENOMEM;
}

/* Of a percentile the ends are not as far off on either side. */
static double
farther(double v, const struct report_interval *i)
{
	return v <= 0 || i->high <= 0 ? 0 : fmax(i->high / v, v / fmax(i->low, 1e-9)) - 1;
}

const char *
report_within(char *buf, const struct report_row *row, const struct report_cell *c,
    enum report_of of)
{
	const struct report_interval *i = &c->interval[of];
	double v = figure(row, c, of);

	for (size_t k = 0; k < NPERCENTILES; k++)
		if (percentiles[k].of == of)
			v = (double)*dur_at((struct report_cell *)c, percentiles[k].at);
	v = farther(v, i);
	if (v <= 0)
		return strcpy(buf, "");
	if (v > 1)
		return strcpy(buf, " ±>100 %");
	snprintf(buf, TEXT_MAX, " ±%.*f %%", v < 0.0095, 100 * v);
	return buf;
}
