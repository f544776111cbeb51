/*
 * columns.c - decides which tiers have a column of their own in a table, for kprof
 * report and kprof top: the costliest ones that fit.  The others are one column, their
 * sum, so that a row adds up to what it did.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define COSTLIEST 3
#define SEEN_REST 0.005	/* of total: less does not show in figures of two digits */

bool
report_has_rest(const struct report *r, enum report_what what)
{
	const struct report_row *row;

	for (size_t i = 0; what == REPORT_SELF && i < r->nrows; i++) {
		row = &r->rows[i];
		if (report_value(row, 0, what) > SEEN_REST *
		    report_value(row, 0, REPORT_TOTAL))
			return true;
	}
	return false;
}

struct order {
	const struct report *r;
	enum report_what what;
	const char *keep;
};

/* Those that must not be overlooked are above any figure. */
static double
weight(const struct order *o, size_t tier)
{
	struct report_missing m;

	if (o->keep != NULL && strcmp(o->r->tiers[tier - 1], o->keep) == 0)
		return HUGE_VAL;
	if (report_missing(o->r, tier, &m) && m.sure)
		return 1e300;
	return report_value(&o->r->rows[0], tier, o->what);
}

/* The costliest first; of equal ones, the first of tiers.conf. */
static int
weight_cmp(const void *pa, const void *pb, void *ctx)
{
	size_t a = *(const size_t *)pa, b = *(const size_t *)pb;
	double wa = weight(ctx, a), wb = weight(ctx, b);

	return wa != wb ? (wa > wb ? -1 : 1) : a < b ? -1 : 1;
}

/* Has the tier a figure in some row, or calls that are missing? */
static bool
has_figures(const struct report *r, size_t tier, enum report_what what)
{
	const struct report_cell *c;
	struct report_missing m;

	for (size_t i = 0; i < r->nrows; i++) {
		c = &r->rows[i].cells[tier];
		if (c->calls > 0 || c->async_calls > 0 ||
		    report_value(&r->rows[i], tier, what) > 0)
			return true;
	}
	return report_missing(r, tier, &m);
}

bool
report_columns(struct report_columns *c, const struct report *r,
    enum report_what what, const char *keep)
{
	struct order o = { r, what, keep };
	size_t *order = calloc(r->ntiers + 1, sizeof(*order));

	*c = (struct report_columns){ .r = r, .what = what,
		.rank = calloc(r->ntiers + 1, sizeof(*c->rank)) };
	if (order == NULL || c->rank == NULL) {
		free(order);
		report_columns_free(c);
		return false;
	}
	for (size_t t = 1; t <= r->ntiers; t++)
		if (has_figures(r, t, what) || weight(&o, t) == HUGE_VAL)
			order[c->n++] = t;
	c->extra = c->n > COSTLIEST ? 2 * (unsigned)(c->n - COSTLIEST) + 1 : 1;
	qsort_r(order, c->n, sizeof(*order), weight_cmp, &o);
	for (size_t i = 0; i < c->n; i++)
		c->rank[order[i]] = 2 * (unsigned)(c->n - i);
	free(order);
	return true;
}

void
report_columns_free(struct report_columns *c)
{
	free(c->rank);
	c->rank = NULL;
}

bool
report_columns_fold(struct report_columns *c, unsigned rank)
{
	size_t folded = rank / 2, before = c->folded;

	if (rank == 0)
		return false;
	if (c->narrow < 2) {
		c->narrow++;
		return true;	/* that may be enough */
	}
	if (c->what == REPORT_BUSY || c->what == REPORT_TOTAL)
		return false;
	if (folded == 1)	/* the column would be as wide as the tier's */
		folded = 2;
	if (folded >= c->n)
		folded = c->n > 0 ? c->n - 1 : 0;
	if (folded > 1 && folded > before)
		c->folded = folded;
	return c->folded > before;
}

bool
report_has_column(const struct report_columns *c, size_t tier)
{
	return c->rank[tier] > 2 * c->folded;
}

void
report_add_others(const struct report_columns *c, const struct report_row *row,
    struct report_row *to, struct report_cell cells[2])
{
	cells[0] = row->cells[0];
	cells[1] = (struct report_cell){ .gc = -1, .out = -1 };
	for (size_t i = 1; i <= c->r->ntiers; i++) {
		if (c->rank[i] == 0 || report_has_column(c, i))
			continue;
		report_add_cell(&cells[1], &row->cells[i]);
	}
	*to = (struct report_row){ .identity = row->identity, .cells = cells };
}
