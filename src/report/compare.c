/*
 * compare.c - pairs the identities and tiers of two reports, and estimates
 * which changes chance alone could have made.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

/* Percentiles of histograms are right to 1.1 %, on either side. */
#define RESOLUTION 0.022
#define TAIL_FEW 10.0		/* requests measured above a percentile */

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
	if (row == NULL || tier == REPORT_NO_TIER)
		return NULL;
	for (size_t i = 0; label != NULL && i < row->nlabels; i++)
		if (row->labels[i].tier == tier &&
		    strcmp(row->labels[i].name, label) == 0)
			return &row->labels[i].cell;
	return label == NULL ? &row->cells[tier] : NULL;
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

/* Is there a difference that chance could make?  Variances are relative. */
static bool
by_chance(const struct compare_figure *f, double var_now, double var_then)
{
	double a = f->now * f->now * var_now;
	double b = f->then * f->then * var_then;

	return fabs(f->now - f->then) > 0 &&
	    fabs(f->now - f->then) <= REPORT_ERRORS * sqrt(a + b);
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
	struct compare_figure f = { -1, -1, false };

	if (now != NULL)
		f.now = report_value_of(row->now, now, what);
	if (then != NULL)
		f.then = report_value_of(row->then, then, what);
	f.uncertain = few(f.now, measured(now, what)) ||
	    few(f.then, measured(then, what));
	if (f.now >= 0 && f.then >= 0 && !f.uncertain)
		f.uncertain = by_chance(&f,
		    report_variance(v->now, row->now, now, what),
		    report_variance(v->then, row->then, then, what));
	return f;
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
	struct compare_requests q = { .now_known = false };

	q.n.now = requests(v->now, row->now, &q.now_known);
	q.n.then = requests(v->then, row->then, &q.then_known);
	return q;
}

static double
per_second(double n, kp_dur_ns covered)
{
	return n < 0 || covered <= 0 ? -1 : n * 1e9 / (double)covered;
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
	struct compare_figure f = q.n;
	uint64_t now = measured(cell(row->now, 0, NULL), REPORT_BUSY);
	uint64_t then = measured(cell(row->then, 0, NULL), REPORT_BUSY);

	f.now = per_second(f.now, v->now->covered);
	f.then = per_second(f.then, v->then->covered);
	f.uncertain = few(f.now, now) || few(f.then, then) ||
	    (f.now >= 0 && f.then >= 0 &&
	    by_chance(&f, rate_variance(row->now, q.now_known, now),
	    rate_variance(row->then, q.then_known, then)));
	return f;
}

/* The same; NULL, too, if it has no calls. */
static const struct report_cell *
called(const struct report_row *row, size_t tier, const char *label)
{
	const struct report_cell *c = cell(row, tier, label);

	return c != NULL && c->calls > 0 ? c : NULL;
}

struct compare_figure
compare_calls(const struct compare_row *row, const struct compare_tier *tier)
{
	const struct report_cell *now = called(row->now, tier->now,
	    tier->label);
	const struct report_cell *then = called(row->then, tier->then,
	    tier->label);

	return (struct compare_figure){ now != NULL ? (double)now->calls : -1,
		then != NULL ? (double)then->calls : -1, false };
}

static double
of_call(const struct report_cell *c, int percentile)
{
	if (c == NULL)
		return -1;
	return (double)(percentile == 50 ? c->p50 : percentile == 90 ? c->p90 :
	    percentile == 99 ? c->p99 : c->mean);
}

/* Too few requests, or too few above the percentile? */
static bool
few_calls(const struct report_cell *c, int percentile)
{
	double n = c == NULL ? 0 : (double)c->sampled_requests;

	return c != NULL && (n < COMPARE_FEW || (percentile > 0 &&
	    n * (100 - percentile) / 100 < TAIL_FEW));
}

/* The relative variance of of_call(). */
static double
call_variance(const struct report_cell *c, int percentile)
{
	double error, of = of_call(c, percentile);

	if (percentile == 0) {
		error = fmax(c->error[REPORT_OF_MEAN], c->spread /
		    sqrt(fmax((double)c->sampled_requests, 1)));
		return error * error;
	}
	error = (double)(percentile == 50 ? c->p50_error : percentile == 90 ?
	    c->p90_error : c->p99_error);
	return of > 0 ? error * error / (of * of) : 0;
}

struct compare_figure
compare_call(const struct compare_row *row, const struct compare_tier *tier,
    int percentile)
{
	const struct report_cell *now = called(row->now, tier->now,
	    tier->label);
	const struct report_cell *then = called(row->then, tier->then,
	    tier->label);
	struct compare_figure f = { of_call(now, percentile),
		of_call(then, percentile), false };

	f.uncertain = few_calls(now, percentile) ||
	    few_calls(then, percentile);
	if (f.now < 0 || f.then < 0 || f.uncertain)
		return f;
	f.uncertain = by_chance(&f, call_variance(now, percentile),
	    call_variance(then, percentile)) || (percentile > 0 &&
	    fabs(f.now - f.then) > 0 &&
	    fabs(f.now - f.then) <= RESOLUTION * fmax(f.now, f.then));
	return f;
}

/* The time that its requests take per second. */
static double
cost(const struct report_row *row, kp_dur_ns covered)
{
	return row == NULL || covered <= 0 ? 0 :
	    (double)row->cells[0].total / (double)covered;
}

static int
change_cmp(const void *pa, const void *pb, void *ctx)
{
	const struct compare *v = ctx;
	const struct compare_row *a = v->reverse ? pb : pa;
	const struct compare_row *b = v->reverse ? pa : pb;
	double ca = cost(a->now, v->now->covered) -
	    cost(a->then, v->then->covered);
	double cb = cost(b->now, v->now->covered) -
	    cost(b->then, v->then->covered);

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
