/*
 * compare.c - pairs the identities and tiers of two reports, and estimates
 * which changes chance alone could have made.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

void
compare_free(struct compare *v)
{
	if (v == NULL)
		return;
	free(v->rows);
	free(v->tiers);
	free(v);
}

static bool
has_requests(const struct report_row *row)
{
	return row->cells[0].requests > 0 || row->cells[0].async_calls > 0;
}

static int
row_cmp(const void *pa, const void *pb)
{
	const struct report_row *const *a = pa, *const *b = pb;

	return strcmp((*a)->identity, (*b)->identity);
}

/* The rows after the first, sorted by name.  The caller frees it. */
static const struct report_row **
by_name(const struct report *r)
{
	const struct report_row **v = calloc(r->nrows, sizeof(*v));

	for (size_t i = 1; v != NULL && i < r->nrows; i++)
		v[i - 1] = &r->rows[i];
	if (v != NULL && r->nrows > 1)
		qsort(v, r->nrows - 1, sizeof(*v), row_cmp);
	return v;
}

/* The row of the same identity in r; NULL: it has no requests there. */
static const struct report_row *
partner(const struct report_row *row, const struct report_row **names,
    const struct report *r)
{
	const struct report_row **found;

	found = r->nrows < 2 ? NULL : bsearch(&row, names, r->nrows - 1,
	    sizeof(*names), row_cmp);
	return found != NULL && has_requests(*found) ? *found : NULL;
}

static void
pair_rows(struct compare *v, const struct report_row **now,
    const struct report_row **then)
{
	const struct report_row *row;

	v->rows[v->nrows++] = (struct compare_row){ &v->now->rows[0],
		&v->then->rows[0] };
	for (size_t i = 1; i < v->now->nrows; i++) {
		row = &v->now->rows[i];
		if (has_requests(row))
			v->rows[v->nrows++] = (struct compare_row){ row,
				partner(row, then, v->then) };
	}
	for (size_t i = 1; i < v->then->nrows; i++) {
		row = &v->then->rows[i];
		if (has_requests(row) && partner(row, now, v->now) == NULL)
			v->rows[v->nrows++] = (struct compare_row){ NULL, row };
	}
}

static void
pair_tiers(struct compare *v)
{
	v->tiers[v->ntiers++] = (struct compare_tier){ .name = "_total" };
	for (size_t t = 0; t < v->now->ntiers; t++)
		v->tiers[v->ntiers++] = (struct compare_tier){
			v->now->tiers[t], NULL, t + 1,
			report_tier(v->then, v->now->tiers[t]) };
	for (size_t t = 0; t < v->then->ntiers; t++) {
		if (report_tier(v->now, v->then->tiers[t]) == REPORT_NO_TIER)
			v->tiers[v->ntiers++] = (struct compare_tier){
				v->then->tiers[t], NULL, REPORT_NO_TIER, t + 1 };
	}
}

/* What a row has of a tier, or of its calls with the label; NULL: nothing. */
static const struct report_cell *
cell(const struct report_row *row, size_t tier, const char *label)
{
	return row == NULL || tier == REPORT_NO_TIER ? NULL :
	    report_cell(row, tier, label);
}

/* The first rows have all labels.  Those of now, then those that are gone. */
static void
pair_labels(struct compare *v)
{
	const struct report_row *now = &v->now->rows[0], *then = &v->then->rows[0];
	const struct report_label *l;
	struct compare_tier t;

	for (size_t i = 1; i < v->ntiers; i++) {
		t = v->tiers[i];
		for (l = now->labels; l < now->labels + now->nlabels; l++) {
			t.label = l->name;
			if (l->tier == t.now)
				v->tiers[v->ntiers + v->nlabels++] = t;
		}
		for (l = then->labels; l < then->labels + then->nlabels; l++) {
			t.label = l->name;
			if (l->tier == t.then && cell(now, t.now, t.label) == NULL)
				v->tiers[v->ntiers + v->nlabels++] = t;
		}
	}
}

enum kp_err
compare_make(struct compare **out, const struct report *now,
    const struct report *then)
{
	struct compare *v = calloc(1, sizeof(*v));
	const struct report_row **a = by_name(now), **b = by_name(then);
	enum kp_err err = KP_ENOMEM;

	if (v == NULL || a == NULL || b == NULL)
		goto out;
	v->now = now;
	v->then = then;
	v->rows = calloc(now->nrows + then->nrows, sizeof(*v->rows));
	v->tiers = calloc(1 + now->ntiers + then->ntiers + now->rows[0].nlabels +
	    then->rows[0].nlabels, sizeof(*v->tiers));
	if (v->rows == NULL || v->tiers == NULL)
		goto out;
	pair_rows(v, a, b);
	pair_tiers(v);
	pair_labels(v);
	for (size_t i = 0; i < v->nrows; i++)
		v->async |= (v->rows[i].now != NULL &&
		    v->rows[i].now->cells[0].async > 0) ||
		    (v->rows[i].then != NULL &&
		    v->rows[i].then->cells[0].async > 0);
	*out = v;
	v = NULL;
	err = KP_OK;
out:
	compare_free(v);
	free(a);
	free(b);
	return err;
}

const char *
compare_name(const struct compare_row *row)
{
	return row->now != NULL ? row->now->identity : row->then->identity;
}

const char *
compare_state(const struct compare_row *row)
{
	return row->now == NULL ? "gone" : row->then == NULL ? "new" : "both";
}

double
compare_change(const struct compare_figure *f)
{
	if (f->now < 0 || f->then < 0 || (f->then <= 0 && f->now > 0))
		return (double)NAN;
	return f->then > 0 ? f->now / f->then - 1 : 0;
}

static const struct report_interval unknown = { (double)NAN, (double)NAN };

/* Of a figure above 0, whose relative variance this is. */
static struct report_interval
by_variance(double v, double variance)
{
	double within = REPORT_ERRORS * sqrt(variance);

	return (struct report_interval){ v * exp(-within), v * exp(within) };
}

/*
 * Intervals of a difference and of a ratio, from those of both figures.  The ratio's holds
 * 1 where the difference's holds 0.
 *
 * Source: A. Donner, G. Y. Zou, "Closed-form confidence intervals for functions of the
 * normal mean and standard deviation", 2012: the method of variance estimates recovery.
 */
static void
take_intervals(struct compare_figure *f, const struct report_interval *now,
    const struct report_interval *then)
{
	double d = f->now - f->then, b = f->now * f->then, a, c;

	f->difference.low = d - hypot(f->now - now->low, then->high - f->then);
	f->difference.high = d + hypot(now->high - f->now, f->then - then->low);
	f->uncertain = fabs(d) > 0 && f->difference.low <= 0 && f->difference.high >= 0;
	if (f->then <= 0)
		return;
	a = then->high * (2 * f->then - then->high);
	c = now->low * (2 * f->now - now->low);
	f->change.low = c > 0 ? c / (b + sqrt(b * b - a * c)) - 1 : -1;
	a = then->low * (2 * f->then - then->low);
	c = now->high * (2 * f->now - now->high);
	if (a > 0)
		f->change.high = (b + sqrt(b * b - a * c)) / a - 1;
}

/* few: too few were measured on one side. */
static struct compare_figure
compared(double now, struct report_interval now_in, double then,
    struct report_interval then_in, bool few)
{
	struct compare_figure f = { now, then, few, unknown, unknown };

	if (now >= 0 && then >= 0 && !few && now_in.low >= 0 && then_in.low >= 0)
		take_intervals(&f, &now_in, &then_in);
	return f;
}

static uint64_t
measured(const struct report_cell *c, enum report_what what)
{
	if (c == NULL)
		return 0;
	return what == REPORT_ASYNC ? c->sampled_async : c->sampled_requests;
}

/* Does this side have a figure, but from too few requests? */
static bool
few(double figure, uint64_t n)
{
	return figure >= 0 && n < COMPARE_FEW;
}

struct compare_figure
compare_value(const struct compare *v, const struct compare_row *row,
    const struct compare_tier *tier, enum report_what what)
{
	const struct report_cell *now = cell(row->now, tier->now, tier->label);
	const struct report_cell *then = cell(row->then, tier->then, tier->label);
	double a = now != NULL ? report_value_of(row->now, now, what) : -1;
	double b = then != NULL ? report_value_of(row->then, then, what) : -1;
	bool is_few = few(a, measured(now, what)) || few(b, measured(then, what));

	if (a < 0 || b < 0)
		return compared(a, unknown, b, unknown, is_few);
	return compared(a, by_variance(a, report_variance(v->now, row->now, now, what)),
	    b, by_variance(b, report_variance(v->then, row->then, then, what)), is_few);
}

static double
requests(const struct report *r, const struct report_row *row, bool *known)
{
	return row == NULL ? -1 :
	    (double)report_requests(r, (size_t)(row - r->rows), known);
}

struct compare_requests
compare_requests(const struct compare *v, const struct compare_row *row)
{
	struct compare_requests q = { .n = compared(-1, unknown, -1, unknown, false) };

	q.n.now = requests(v->now, row->now, &q.now_known);
	q.n.then = requests(v->then, row->then, &q.then_known);
	return q;
}

static double
per_second(double n, const struct report_row *row)
{
	return n < 0 || row->counted <= 0 ? -1 : n * 1e9 / (double)row->counted;
}

/* Of a count, or an estimate of one. */
static double
rate_variance(const struct report_row *row, bool known, uint64_t n)
{
	double error = known ? 0 : row->cells[0].error[REPORT_OF_REQUESTS];

	return fmax(error * error, 1 / (double)n);
}

struct compare_figure
compare_rate(const struct compare *v, const struct compare_row *row)
{
	struct compare_requests q = compare_requests(v, row);
	uint64_t now = measured(cell(row->now, 0, NULL), REPORT_BUSY);
	uint64_t then = measured(cell(row->then, 0, NULL), REPORT_BUSY);
	double a = per_second(q.n.now, row->now);
	double b = per_second(q.n.then, row->then);
	bool is_few = few(a, now) || few(b, then);

	if (a < 0 || b < 0 || is_few)
		return compared(a, unknown, b, unknown, is_few);
	return compared(a, by_variance(a, rate_variance(row->now, q.now_known, now)),
	    b, by_variance(b, rate_variance(row->then, q.then_known, then)), false);
}

struct compare_figure
compare_calls(const struct compare_row *row, const struct compare_tier *tier)
{
	const struct report_cell *now = cell(row->now, tier->now, tier->label);
	const struct report_cell *then = cell(row->then, tier->then, tier->label);

	return compared(now != NULL && now->calls > 0 ? (double)now->calls : -1, unknown,
	    then != NULL && then->calls > 0 ? (double)then->calls : -1, unknown, false);
}

static double
of_call(const struct report_row *row, const struct report_cell *c, enum report_of of,
    struct report_interval *in)
{
	*in = unknown;
	return c == NULL ? -1 : report_of_call(row, c, of, in);
}

struct compare_figure
compare_call(const struct compare_row *row, const struct compare_tier *tier,
    enum report_of of)
{
	const struct report_cell *now = cell(row->now, tier->now, tier->label);
	const struct report_cell *then = cell(row->then, tier->then, tier->label);
	struct report_interval now_in, then_in;
	double a = of_call(row->now, now, of, &now_in);
	double b = of_call(row->then, then, of, &then_in);

	return compared(a, now_in, b, then_in, few(a, measured(now, REPORT_BUSY)) ||
	    few(b, measured(then, REPORT_BUSY)) || (a >= 0 && isnan(now_in.low)) ||
	    (b >= 0 && isnan(then_in.low)));
}

/* The time that its requests take per second. */
static double
cost(const struct report_row *row)
{
	return row == NULL || row->counted <= 0 ? 0 :
	    (double)row->cells[0].total / (double)row->counted;
}

static int
change_cmp(const void *pa, const void *pb, void *ctx)
{
	const struct compare *v = ctx;
	const struct compare_row *a = v->reverse ? pb : pa;
	const struct compare_row *b = v->reverse ? pa : pb;
	double ca = cost(a->now) - cost(a->then);
	double cb = cost(b->now) - cost(b->then);

	if (ca > cb || ca < cb)
		return ca > cb ? -1 : 1;
	return strcmp(compare_name(a), compare_name(b));
}

void
compare_sort_change(struct compare *v, bool reverse)
{
	v->reverse = reverse;
	if (v->nrows > 2)
		qsort_r(v->rows + 1, v->nrows - 1, sizeof(*v->rows),
		    change_cmp, v);
}
