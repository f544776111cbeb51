/*
 * report.c - builds a report from merged cells, and sorts it.
 *
 * Cells come in any order; identities are found by bisection, tiers by going
 * through all, since they are few.  Percentiles are computed here, so that a
 * report outlives the histograms it came from.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

const char report_whats[] = "busy,self,total,calls,async,gc,out";

void
report_free(struct report *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < r->nrows; i++) {
		free(r->rows[i].identity);
		free(r->rows[i].cells);
	}
	for (size_t i = 0; i < r->nnodes; i++)
		free(r->nodes[i]);
	for (size_t i = 0; i < r->ntiers; i++)
		free(r->tiers[i]);
	for (size_t i = 0; i < r->nhints; i++)
		free(r->hints[i]);
	free(r->hints);
	free(r->rows);
	free(r->nodes);
	free(r->tiers);
	free(r);
}

void
report_hint(struct report *r, char *text)
{
	char **v = text != NULL ? realloc(r->hints, (r->nhints + 1) *
	    sizeof(*v)) : NULL;

	if (v == NULL) {
		free(text);
		return;
	}
	r->hints = v;
	v[r->nhints++] = text;
}

bool
report_empty(const struct report *r)
{
	const struct report_row *all = &r->rows[0];

	for (size_t t = 0; t <= r->ntiers; t++) {
		if (all->cells[t].calls > 0 || all->cells[t].async_calls > 0)
			return false;
	}
	return all->cells[0].requests == 0;
}

/* Copies n texts; *count are there, also after an error. */
static enum kp_err
copy_texts(char ***to, size_t *count, const char *const *from, size_t n)
{
	*to = calloc(n > 0 ? n : 1, sizeof(**to));
	if (*to == NULL)
		return KP_ENOMEM;
	for (; *count < n; (*count)++) {
		(*to)[*count] = strdup(from[*count]);
		if ((*to)[*count] == NULL)
			return KP_ENOMEM;
	}
	return KP_OK;
}

static int
text_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool
is_total(const char *name)
{
	return strcmp(name, "_total") == 0;
}

static bool
is_wanted(const struct report_source *s, const char *identity)
{
	return !is_total(identity) && (s->identity == NULL ||
	    fnmatch(s->identity, identity, 0) == 0);
}

/* All wanted identities, sorted, without duplicates.  The caller frees *out. */
static enum kp_err
identities(const struct report_source *s, const char ***out, size_t *count)
{
	const char **v = calloc(s->ncells > 0 ? s->ncells : 1, sizeof(*v));
	size_t n = 0, kept = 0;

	if (v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < s->ncells; i++) {
		if (is_wanted(s, s->cells[i].identity))
			v[n++] = s->cells[i].identity;
	}
	qsort(v, n, sizeof(*v), text_cmp);
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || strcmp(v[kept - 1], v[i]) != 0)
			v[kept++] = v[i];
	}
	*out = v;
	*count = kept;
	return kept >= REPORT_ROWS_MAX ? KP_ELIMIT : KP_OK;
}

static enum kp_err
make_rows(struct report *r, const char *const *names, size_t n)
{
	struct report_row *row;

	r->rows = calloc(n + 1, sizeof(*r->rows));
	if (r->rows == NULL)
		return KP_ENOMEM;
	for (; r->nrows <= n; r->nrows++) {
		row = &r->rows[r->nrows];
		row->identity = strdup(r->nrows == 0 ? "_total" :
		    names[r->nrows - 1]);
		row->cells = calloc(r->ntiers + 1, sizeof(*row->cells));
		if (row->identity == NULL || row->cells == NULL) {
			r->nrows++;
			return KP_ENOMEM;
		}
		for (size_t t = 0; t <= r->ntiers; t++)
			report_no_times(&row->cells[t]);
	}
	return KP_OK;
}

size_t
report_tier(const struct report *r, const char *name)
{
	if (is_total(name))
		return 0;
	for (size_t t = 0; t < r->ntiers; t++)
		if (strcmp(r->tiers[t], name) == 0)
			return t + 1;
	return REPORT_NO_TIER;
}

/* Makes a cell of the first row: the tier's sum over the wanted identities. */
static enum kp_err
sum_wanted(struct report *r, const struct report_source *s, size_t tier)
{
	const char *name = tier == 0 ? "_total" : r->tiers[tier - 1];
	struct kp_cell sum = { .min = -1 };
	enum kp_err err = KP_OK;

	for (size_t i = 0; i < s->ncells && err == KP_OK; i++) {
		if (strcmp(s->cells[i].tier, name) == 0 &&
		    is_wanted(s, s->cells[i].identity))
			err = kp_cell_merge(&sum, &s->cells[i]);
	}
	if (err == KP_OK)
		report_take_cell(&r->rows[0].cells[tier], &sum, tier == 0);
	kp_cell_free(&sum);
	return err;
}

static enum kp_err
fill_rows(struct report *r, const struct report_source *s,
    const char *const *names, size_t n)
{
	const struct kp_cell *c;
	const char *const *found;
	enum kp_err err = KP_OK;
	size_t t, row;

	for (size_t i = 0; i < s->ncells; i++) {
		c = &s->cells[i];
		t = report_tier(r, c->tier);
		found = n == 0 ? NULL : bsearch(&c->identity, names, n,
		    sizeof(*names), text_cmp);
		row = found != NULL ? (size_t)(found - names) + 1 : 0;
		if (t == REPORT_NO_TIER || (found == NULL && (r->filtered ||
		    !is_total(c->identity))))
			continue;
		report_take_cell(&r->rows[row].cells[t], c, t == 0);
	}
	for (t = 0; r->filtered && t <= r->ntiers && err == KP_OK; t++)
		err = sum_wanted(r, s, t);
	return err;
}

/* The time of all requests, also of those that are filtered out. */
static void
cost_of_all(struct report *r, const struct report_source *s)
{
	struct report_cell all = { .timed = 0 };
	kp_dur_ns each;

	for (size_t i = 0; i < s->ncells; i++) {
		if (!is_total(s->cells[i].tier) ||
		    !is_total(s->cells[i].identity))
			continue;
		report_take_cell(&all, &s->cells[i], true);
		r->cost = all.total;
		each = report_tracing_of(r, &all);
		r->cost_tracing = each < 0 ? -1 :
		    each * (kp_dur_ns)all.timed;
	}
}

static kp_dur_ns
per_request(const struct report_row *row, size_t tier, enum report_what what)
{
	double v = report_value(row, tier, what);

	return v < 0 ? -1 : (kp_dur_ns)(v + 0.5);
}

/* Figures that need the whole row. */
static void
fill_derived(struct report *r)
{
	report_shares(r);
	for (size_t i = 0; i < r->nrows; i++) {
		for (size_t t = 0; t <= r->ntiers; t++) {
			r->rows[i].cells[t].busy_per_request =
			    per_request(&r->rows[i], t, REPORT_BUSY);
			r->rows[i].cells[t].after_per_request =
			    per_request(&r->rows[i], t, REPORT_ASYNC);
		}
	}
}

enum kp_err
report_make(const struct report_source *s, struct report **out)
{
	struct report *r = calloc(1, sizeof(*r));
	const char **names = NULL;
	enum kp_err err;
	size_t n = 0;

	if (r == NULL)
		return KP_ENOMEM;
	r->filtered = s->identity != NULL;
	err = copy_texts(&r->nodes, &r->nnodes, s->nodes, s->nnodes);
	if (err == KP_OK)
		err = copy_texts(&r->tiers, &r->ntiers, s->tiers, s->ntiers);
	if (err == KP_OK)
		err = identities(s, &names, &n);
	if (err == KP_OK)
		err = make_rows(r, names, n);
	if (err == KP_OK)
		err = fill_rows(r, s, names, n);
	free(names);
	if (err != KP_OK) {
		report_free(r);
		return err;
	}
	r->traced_call = s->traced_call;
	r->traced_caller = s->traced_caller;
	cost_of_all(r, s);
	report_tracing(r);
	fill_derived(r);
	report_sort(r, NULL, REPORT_BUSY);
	*out = r;
	return KP_OK;
}

enum kp_err
report_from_window(const struct kp_window *w, const struct kp_conf *conf,
    struct report **out)
{
	struct report_source s = { .nodes = &w->node, .nnodes = 1,
		.cells = w->cells, .ncells = w->ncells,
		.traced_call = w->cost.traced_call,
		.traced_caller = w->cost.traced_caller };
	const char **tiers;
	enum kp_err err;

	tiers = calloc(conf->ntiers > 0 ? conf->ntiers : 1, sizeof(*tiers));
	if (tiers == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < conf->ntiers; i++)
		tiers[i] = conf->tiers[i].name;
	s.tiers = tiers;
	s.ntiers = conf->ntiers;
	err = report_make(&s, out);
	free(tiers);
	if (err != KP_OK)
		return err;
	(*out)->start = w->start;
	(*out)->end = w->end;
	(*out)->windows = 1;
	(*out)->covered = w->end - w->start;
	(*out)->entry_calls = w->entry_calls;
	(*out)->sampled = w->sampled;
	(*out)->uncounted = w->entry_calls == 0 && w->sampled > 0;
	(*out)->losses = w->losses;
	return KP_OK;
}

struct sort {
	bool by_name, by_tier, by_cost;
	size_t tier;
	enum report_what what;
};

static int
row_cmp(const void *pa, const void *pb, void *ctx)
{
	const struct report_row *a = pa, *b = pb;
	const struct sort *s = ctx;
	double va = 0, vb = 0;

	if (s->by_tier) {
		va = report_value(a, s->tier, s->what);
		vb = report_value(b, s->tier, s->what);
	}
	if (s->by_cost) {
		va = (double)a->cells[0].total;
		vb = (double)b->cells[0].total;
	}
	if (va == vb && !s->by_name) {
		va = (double)a->cells[0].requests;
		vb = (double)b->cells[0].requests;
	}
	if (va != vb)
		return va > vb ? -1 : 1;
	return strcmp(a->identity, b->identity);
}

enum kp_err
report_sort(struct report *r, const char *by, enum report_what what)
{
	struct sort s = { .what = what };

	if (by != NULL && strcmp(by, "name") == 0) {
		s.by_name = true;
	} else if (by != NULL && strcmp(by, "cost") == 0) {
		s.by_cost = true;
	} else if (by != NULL && strcmp(by, "requests") != 0) {
		s.by_tier = true;
		s.tier = report_tier(r, by);
		if (s.tier == REPORT_NO_TIER)
			return KP_ENOENT;
	}
	if (r->nrows > 2)
		qsort_r(r->rows + 1, r->nrows - 1, sizeof(*r->rows), row_cmp,
		    &s);
	return KP_OK;
}
