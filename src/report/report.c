/*
 * report.c - makes a report of merged cells: of a window, of a range of stored ones, or
 * of those that run; estimates what tracing adds to its times; and sorts it.
 *
 * Cells come in any order; identities are found by bisection, tiers by going
 * through all, since they are few.  Percentiles are computed here, so that a
 * report outlives the histograms it came from.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "report.h"
#include "store/live_window.h"
#include "text/timefmt.h"

#define SURE 3	/* standard errors that chance alone does not exceed */
#define SMALL 10	/* a mean below SMALL times what tracing adds is reported */

const char report_whats[] = "busy,self,total,calls,async,gc,out";

void
report_free(struct report *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < r->nrows; i++) {
		for (size_t k = 0; k < r->rows[i].nlabels; k++)
			free(r->rows[i].labels[k].name);
		free(r->rows[i].labels);
		free(r->rows[i].identity);
		free(r->rows[i].cells);
	}
	for (size_t i = 0; i < r->nnodes; i++)
		free(r->nodes[i]);
	for (size_t i = 0; i < r->ntiers; i++)
		free(r->tiers[i]);
	for (size_t i = 0; i < r->nhints; i++)
		free(r->hints[i]);
	report_free(r->whole);
	free(r->hints);
	free(r->rows);
	free(r->nodes);
	free(r->tiers);
	free(r);
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

/* ---- the figures of a cell ---- */

static void
no_times(struct report_cell *c)
{
	c->gc = c->out = c->tracing = -1;
	c->mean = c->min = c->p50 = c->p90 = c->p95 = c->p99 = c->max = -1;
	c->async_p50 = c->async_p90 = c->async_p95 = c->async_p99 =
	    c->async_max = -1;
}

static kp_dur_ns
quantile(const struct kp_cell *c, double q)
{
	return kp_hist_quantile_within(&c->hist, q, c->min, c->max);
}

static kp_dur_ns
async_quantile(const struct kp_cell *c, double q)
{
	return kp_hist_quantile_within(&c->async_hist, q, 0, c->async_max);
}

/*
 * The quantiles at both ends of the part of requests below this one.  It counts requests,
 * not calls, because the calls of one request are alike.
 */
static struct report_interval
quantile_chance(const struct kp_cell *c, double q)
{
	double n = fmax((double)c->requests, 1);
	double by = REPORT_ERRORS / sqrt(q * (1 - q) * n);

	return (struct report_interval){ (double)quantile(c, report_by_odds(q, -by)),
		(double)quantile(c, report_by_odds(q, by)) };
}

void
report_take_cell(struct report_cell *to, const struct kp_cell *c, bool request)
{
	double mean;

#define TAKE(X, field, null) to->field = c->w_##field;
#define TAKE_ONCE(X, field, null) to->field = c->field;
	KP_CELL_FIGURES(TAKE, TAKE, TAKE_ONCE, )
#undef TAKE
#undef TAKE_ONCE
	no_times(to);
	to->raised = kp_cell_raised(c, request);
	to->unseen = kp_cell_unseen(c, request);
	to->sampled_requests = c->requests;
	to->sampled_calls = c->calls;
	to->sampled_async = c->async_calls + c->outlasting;
	if (c->has_gc)
		to->gc = c->w_gc;
	if (c->has_out)
		to->out = c->w_out;
	if (c->async_hist.count > 0) {
		to->async_p50 = async_quantile(c, 0.50);
		to->async_p90 = async_quantile(c, 0.90);
		to->async_p95 = async_quantile(c, 0.95);
		to->async_p99 = async_quantile(c, 0.99);
		to->async_max = c->async_max;
	}
	if (c->w_timed == 0)
		return;
	to->mean = c->w_total / (int64_t)c->w_timed;
	to->min = c->min;
	to->max = c->max;
	if (c->hist.count == 0)
		return;
	to->spread = kp_hist_deviation(&c->hist, &mean) / mean;
	to->p50 = quantile(c, 0.50);
	to->p90 = quantile(c, 0.90);
	to->p95 = quantile(c, 0.95);
	to->p99 = quantile(c, 0.99);
	*REPORT_CHANCE(to, REPORT_OF_P50) = quantile_chance(c, 0.50);
	*REPORT_CHANCE(to, REPORT_OF_P90) = quantile_chance(c, 0.90);
	*REPORT_CHANCE(to, REPORT_OF_P99) = quantile_chance(c, 0.99);
}

uint64_t
report_requests(const struct report *r, size_t row, bool *known)
{
	const struct report_cell *c = &r->rows[row].cells[0];

	*known = c->requests == c->sampled_requests;
	if (row > 0 || r->filtered || r->uncounted ||
	    r->losses.n[KP_LOSS_UNCOUNTED] > 0 || r->entry_calls == 0 ||
	    r->entry_calls < r->sampled)
		return c->requests;
	*known = true;
	return r->entry_calls;
}

/* Requests that no measured one stands for, as far as losses tell; w: what each stands for. */
static double
lost_requests(const struct kp_losses *l, double w)
{
	static const enum kp_loss of_measured[] = { KP_LOSS_DROPPED_ENTRIES,
		KP_LOSS_TRIPPED, KP_LOSS_DISCONNECTED, KP_LOSS_RELOADED,
		KP_LOSS_SLICE, KP_LOSS_EXPIRED, KP_LOSS_COLLIDED,
		KP_LOSS_REQUEST_CAP, KP_LOSS_UNWRITTEN, KP_LOSS_FOREIGN_TOKEN,
		KP_LOSS_RUNNING };
	double lost = (double)l->n[KP_LOSS_UNSEEN];

	for (size_t i = 0; i < sizeof(of_measured) / sizeof(of_measured[0]); i++)
		lost += w * (double)l->n[of_measured[i]];
	return lost;
}

/*
 * Sampling makes the sum of types differ from the VM's count by chance: its
 * variance is that of the weights, about requests x (weight - 1).  Of slices of time it
 * is more, but no more is left over than was lost.
 */
uint64_t
report_unmeasured(const struct report *r)
{
	const struct report_cell *c = &r->rows[0].cells[0];
	double sampled = (double)c->sampled_requests, chance, rest;
	bool known;
	uint64_t n = report_requests(r, 0, &known);

	if (!known || n <= c->requests)
		return 0;
	rest = (double)(n - c->requests);
	chance = sampled > 0 ? (double)c->requests *
	    ((double)c->requests / sampled - 1) : 0;
	if (rest * rest <= SURE * SURE * chance)
		return 0;
	if (r->losses.n[KP_LOSS_SAMPLED_OUT] > 0 && sampled > 0)
		rest = fmin(rest, lost_requests(&r->losses,
		    (double)c->requests / sampled));
	return (uint64_t)rest;
}

uint64_t
report_calls(const struct report *r, size_t row, size_t tier, bool *known)
{
	const struct report_cell *c = &r->rows[row].cells[tier];

	if (tier == 0)
		return report_requests(r, row, known);
	*known = c->calls == c->sampled_calls;
	return c->calls;
}

double
report_value_of(const struct report_row *row, const struct report_cell *c,
    enum report_what what)
{
	const double of[] = {
		[REPORT_BUSY] = (double)c->busy, [REPORT_SELF] = (double)c->self,
		[REPORT_TOTAL] = (double)c->total,
		[REPORT_CALLS] = (double)c->calls,
		[REPORT_ASYNC] = (double)c->async,
		[REPORT_GC] = (double)c->gc, [REPORT_OUT] = (double)c->out,
	};
	uint64_t requests = row->cells[0].requests, calls = c->timed;

	if (what == REPORT_CALLS)
		calls = c->calls;
	else if (what == REPORT_ASYNC)
		calls = c->async_calls + c->outlasting;
	if (requests == 0 || calls == 0 || of[what] < 0)
		return -1;
	return of[what] / (double)requests;
}

double
report_value(const struct report_row *row, size_t tier, enum report_what what)
{
	return report_value_of(row, &row->cells[tier], what);
}

const char *
seen_name(enum kp_seen seen)
{
	static const char *const names[] = { [KP_SEEN] = "known",
		[KP_SEEN_PART] = "at_least", [KP_NOT_SEEN] = "not_seen" };

	return names[seen];
}

const char *
seen_share(char *buf, enum kp_seen seen, uint64_t n, uint64_t of, bool known)
{
	char text[TEXT_MAX];

	text_known(text, n, known);
	switch (seen) {
	case KP_SEEN:
		return text_share(buf, of == 0 ? -1 : (double)n / (double)of);
	case KP_SEEN_PART:
		snprintf(buf, TEXT_MAX, known ? ">= %.40s" : "%.30s or more",
		    text);
		return buf;
	case KP_NOT_SEEN:
	default:
		return strcpy(buf, "-");
	}
}

/*
 * Are hardly any of the calls that the VM counted in requests?  Each call in a
 * request would be sampled with it.
 */
static bool
are_absent(const struct report_cell *all, const struct report_cell *c)
{
	double expected = (double)c->counted * (double)all->sampled_requests /
	    (double)all->counted;

	return all->sampled_requests >= KP_ABSENT_MIN &&
	    expected >= KP_ABSENT_MIN && (double)(c->sampled_calls +
	    c->sampled_async) < expected * KP_ABSENT;
}

bool
report_missing(const struct report *r, size_t tier, struct report_missing *m)
{
	const struct report_cell *c = &r->rows[0].cells[tier];
	const struct report_cell *all = &r->rows[0].cells[0];
	bool counted = !r->filtered && c->counted > 0 && all->counted > 0;
	double most;

	if (tier == 0)
		return false;
	*m = (struct report_missing){ .counted = counted ? c->counted : 0,
		.entries = counted ? all->counted : 0, .calls = c->calls,
		.after = c->async_calls, .missed = c->missed };
	/* With what was measured they cannot be more than the VM counted. */
	most = counted ? (double)c->counted * (double)all->requests /
	    (double)all->counted - (double)c->calls : (double)c->missed;
	if ((double)m->missed > most)
		m->missed = most > 0 ? (uint64_t)most : 0;
	m->sure = c->strayed >= KP_STRAYED_MIN && (double)m->missed >=
	    KP_MISSED_MIN * (double)(m->missed + m->calls);
	return m->sure || (counted && are_absent(all, c));
}

struct report_cell *
report_cell(const struct report_row *row, size_t tier, const char *label)
{
	for (size_t i = 0; label != NULL && i < row->nlabels; i++)
		if (row->labels[i].tier == tier &&
		    strcmp(row->labels[i].name, label) == 0)
			return &row->labels[i].cell;
	return label == NULL ? &row->cells[tier] : NULL;
}

struct report_cell *
report_row_cell(const struct report *r, const struct report_row *row, size_t i)
{
	if (i <= r->ntiers)
		return &row->cells[i];
	i -= r->ntiers + 1;
	return i < row->nlabels ? &row->labels[i].cell : NULL;
}

/* ---- what tracing adds ---- */

/* The part in its own time, and that of the calls it waited for; -1: not known. */
static kp_dur_ns
tracing_of(const struct report *r, const struct report_cell *c)
{
	double inside;

	if (r->traced_call <= 0 || c->timed == 0)
		return -1;
	inside = (double)c->w_inside / (double)c->timed;
	return (kp_dur_ns)((double)r->traced_call + inside *
	    (double)(r->traced_call + r->traced_caller) + 0.5);
}

static void
subtract(kp_dur_ns *from, double v)
{
	if (*from > 0)
		*from = (double)*from > v ? (kp_dur_ns)((double)*from - v) : 0;
}

/* Of a figure that was v; its error is as large, but not in relation to it. */
static void
shift(struct report_cell *c, enum report_of of, double v, double by)
{
	struct report_interval *const both[] = { &c->interval[of],
		of >= REPORT_OF_P50 && of <= REPORT_OF_P99 ? REPORT_CHANCE(c, of) : NULL };

	for (size_t i = 0; i < 2 && both[i] != NULL; i++) {
		both[i]->low = fmax(both[i]->low - by, 0);
		both[i]->high = fmax(both[i]->high - by, 0);
	}
	if (v > by)
		c->error[of] *= v / (v - by);
}

static void
subtract_from_cell(const struct report *r, const struct report_row *row,
    struct report_cell *c)
{
	kp_dur_ns *const one[] = { &c->mean, &c->min, &c->p50, &c->p90,
		&c->p95, &c->p99, &c->max };
	double total = (double)c->total, self = (double)c->self, mean = (double)c->mean;
	double busy = (double)c->busy, n = fmax((double)row->cells[0].requests, 1);

	if (c->tracing < 0)
		return;
	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
		subtract(one[i], (double)c->tracing);
	shift(c, REPORT_OF_MEAN, mean, (double)c->tracing);
	for (enum report_of of = REPORT_OF_P50; of <= REPORT_OF_P99; of++)
		shift(c, of, 0, (double)c->tracing);
	subtract(&c->total, (double)c->tracing * (double)c->timed);
	subtract(&c->self, (double)r->traced_call * (double)c->timed +
	    (double)r->traced_caller * (double)c->w_made);
	/* of the union of calls, in proportion to their sum */
	if (total > 0) {
		c->busy = (kp_dur_ns)((double)c->busy *
		    ((double)c->total / total));
		if (c->busy_per_request > 0)
			c->busy_per_request = (kp_dur_ns)((double)
			    c->busy_per_request * ((double)c->total / total));
	}
	shift(c, REPORT_OF_TOTAL, total / n, (total - (double)c->total) / n);
	shift(c, REPORT_OF_SELF, self / n, (self - (double)c->self) / n);
	shift(c, REPORT_OF_BUSY, busy / n, (busy - (double)c->busy) / n);
}

/* Is it known of all calls what tracing added to them? */
static bool
is_known(const struct report *r)
{
	const struct report_cell *c;

	for (size_t i = 0; i < r->nrows; i++)
		for (size_t t = 0; (c = report_row_cell(r, &r->rows[i], t)) != NULL; t++)
			if (c->timed > 0 && c->tracing < 0)
				return false;
	return r->traced_call > 0;
}

static void
fill_shares(struct report *r)
{
	struct report_interval *v;
	double was;

	for (size_t i = 0; i < r->nrows; i++) {
		was = r->rows[i].share;
		r->rows[i].share = r->cost <= 0 ? -1 :
		    (double)r->rows[i].cells[0].total / (double)r->cost;
		v = &r->rows[i].cells[0].interval[REPORT_OF_SHARE];
		v->low *= was > 0 ? r->rows[i].share / was : 0;
		v->high *= was > 0 ? r->rows[i].share / was : 0;
	}
}

bool
report_less_tracing(struct report *r)
{
	struct report_cell *c;

	if (!is_known(r))
		return false;
	for (size_t i = 0; i < r->nrows; i++)
		for (size_t t = 0; (c = report_row_cell(r, &r->rows[i], t)) != NULL; t++)
			subtract_from_cell(r, &r->rows[i], c);
	if (r->cost_tracing < 0)
		r->cost = 0;
	subtract(&r->cost, (double)r->cost_tracing);
	fill_shares(r);
	r->less_tracing = true;
	return true;
}

void
report_put_tracing(struct kp_buf *b, const struct report *r)
{
	const char *sep = "tracing adds to each call of ";
	char text[TEXT_MAX], mean[TEXT_MAX];
	const struct report_cell *c;

	if (r->less_tracing) {
		kp_buf_printf(b, "~ estimated: less what tracing adds, about "
		    "%s to a traced call and %s more to its caller",
		    text_dur(text, r->traced_call),
		    text_dur(mean, r->traced_caller));
		return;
	}
	for (size_t t = 1; t <= r->ntiers; t++) {
		c = &r->rows[0].cells[t];
		if (c->tracing < 0 || c->mean >= SMALL * c->tracing)
			continue;
		kp_buf_str(b, sep);
		text_put(b, r->tiers[t - 1]);
		kp_buf_printf(b, " about %s of its %s",
		    text_dur(text, c->tracing), text_dur(mean, c->mean));
		sep = ", ";
	}
	if (*sep == ',')
		kp_buf_str(b, " (-less-tracing subtracts it)");
}

void
report_add_cell(struct report_cell *to, const struct report_cell *c)
{
	kp_dur_ns gc = to->gc, out = to->out;

#define ADD(X, field, null) to->field += c->field;
	KP_CELL_FIGURES(ADD, ADD, ADD, )
#undef ADD
	to->gc = c->gc < 0 ? gc : c->gc + (gc > 0 ? gc : 0);
	to->out = c->out < 0 ? out : c->out + (out > 0 ? out : 0);
}

/* ---- building ---- */

struct source {
	const struct kp_query_sum *sum;
	const char *const *nodes, *const *tiers;
	size_t nnodes, ntiers;	/* cells of other tiers are ignored */
	const char *identity;	/* glob; NULL: all */
	bool totals;		/* the row of all alone */
};

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
is_wanted(const struct source *s, const char *identity)
{
	return !is_total(identity) && (s->identity == NULL ||
	    fnmatch(s->identity, identity, 0) == 0);
}

/* All wanted identities, sorted, without duplicates.  The caller frees *out. */
static enum kp_err
identities(const struct source *s, const char ***out, size_t *count)
{
	const struct kp_query_sum *sum = s->sum;
	const char **v = calloc(sum->ncells > 0 ? sum->ncells : 1, sizeof(*v));
	size_t n = 0, kept = 0;

	if (v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < sum->ncells; i++) {
		if (!s->totals && is_wanted(s, sum->cells[i].identity))
			v[n++] = sum->cells[i].identity;
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
			no_times(&row->cells[t]);
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

size_t
report_part(const struct report *r, const char *name, const char **label)
{
	const char *sep = strstr(name, KP_PART_SEP);
	size_t tier = report_tier(r, name), n = sep != NULL ? (size_t)(sep - name) : 0;

	*label = NULL;
	for (size_t t = 0; tier == REPORT_NO_TIER && sep != NULL && t < r->ntiers; t++)
		if (strncmp(r->tiers[t], name, n) == 0 && r->tiers[t][n] == '\0') {
			*label = sep + strlen(KP_PART_SEP);
			tier = t + 1;
		}
	return tier;
}

static enum kp_err
add_label(struct report_row *row, size_t tier, const char *name,
    const struct kp_cell *c)
{
	struct report_label *l;

	if (c->calls + c->async_calls == 0)
		return KP_OK;
	if (vec_room_by_len(&row->labels, row->nlabels, VEC_NO_CAP) != KP_OK)
		return KP_ENOMEM;
	l = &row->labels[row->nlabels];
	*l = (struct report_label){ .tier = tier, .name = strdup(name) };
	if (l->name == NULL)
		return KP_ENOMEM;
	row->nlabels++;
	report_take_cell(&l->cell, c, false);
	return KP_OK;
}

static int
label_cmp(const void *pa, const void *pb)
{
	const struct report_label *a = pa, *b = pb;
	uint64_t na = a->cell.calls + a->cell.async_calls;
	uint64_t nb = b->cell.calls + b->cell.async_calls;

	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	if (na != nb)
		return na > nb ? -1 : 1;
	return strcmp(a->name, b->name);
}

/*
 * Sums a tier, or a part of one, over the wanted identities, for the first row.  label:
 * its label, if it is a part.
 */
static enum kp_err
sum_wanted(struct report *r, const struct source *s, const char *name, size_t tier,
    const char *label)
{
	const struct kp_cell *c = s->sum->cells, *past = c + s->sum->ncells;
	struct kp_cell sum = { .min = -1 };
	enum kp_err err = KP_OK;

	for (; c < past && err == KP_OK; c++)
		if (strcmp(c->tier, name) == 0 && is_wanted(s, c->identity))
			err = kp_cell_merge(&sum, c);
	if (err == KP_OK && label != NULL)
		err = add_label(&r->rows[0], tier, label, &sum);
	else if (err == KP_OK)
		report_take_cell(&r->rows[0].cells[tier], &sum, tier == 0);
	kp_cell_free(&sum);
	return err;
}

/* The first row of a filtered report. */
static enum kp_err
fill_wanted(struct report *r, const struct source *s)
{
	const struct kp_cell *c = s->sum->cells, *past = c + s->sum->ncells;
	const char *label, *before = "";
	enum kp_err err = KP_OK;
	size_t t;

	for (t = 0; t <= r->ntiers && err == KP_OK; t++)
		err = sum_wanted(r, s, t == 0 ? "_total" : r->tiers[t - 1], t, NULL);
	for (; c < past && err == KP_OK; before = c++->tier)
		if (strcmp(c->tier, before) != 0) {
			t = report_part(r, c->tier, &label);
			if (label != NULL)
				err = sum_wanted(r, s, c->tier, t, label);
		}
	return err;
}

static enum kp_err
fill_rows(struct report *r, const struct source *s, const char *const *names,
    size_t n)
{
	const struct kp_cell *c = s->sum->cells, *past = c + s->sum->ncells;
	const char *const *found;
	enum kp_err err = KP_OK;
	const char *label;
	size_t t, row;

	for (; c < past && err == KP_OK; c++) {
		t = report_part(r, c->tier, &label);
		found = n == 0 ? NULL : bsearch(&c->identity, names, n,
		    sizeof(*names), text_cmp);
		row = found != NULL ? (size_t)(found - names) + 1 : 0;
		if (t == REPORT_NO_TIER || (found == NULL && (r->filtered ||
		    !is_total(c->identity))))
			continue;
		if (label != NULL)
			err = add_label(&r->rows[row], t, label, c);
		else
			report_take_cell(&r->rows[row].cells[t], c, t == 0);
	}
	if (r->filtered && err == KP_OK)
		err = fill_wanted(r, s);
	for (row = 0; row < r->nrows; row++)
		if (r->rows[row].nlabels > 1)
			qsort(r->rows[row].labels, r->rows[row].nlabels,
			    sizeof(*r->rows[row].labels), label_cmp);
	return err;
}

static kp_dur_ns
per_request(const struct report_row *row, const struct report_cell *c,
    enum report_what what)
{
	double v = report_value_of(row, c, what);

	return v < 0 ? -1 : (kp_dur_ns)(v + 0.5);
}

/* Figures that need the whole row, and the time of all requests. */
static void
fill_derived(struct report *r, kp_dur_ns counted)
{
	const struct report_cell *all;
	struct report_row *row;
	struct report_cell *c;

	for (row = r->rows; row < r->rows + r->nrows; row++) {
		row->counted = counted;
		for (size_t t = 0; (c = report_row_cell(r, row, t)) != NULL; t++) {
			c->tracing = tracing_of(r, c);
			c->busy_per_request = per_request(row, c, REPORT_BUSY);
			c->after_per_request = per_request(row, c,
			    REPORT_ASYNC);
		}
	}
	all = &(r->whole != NULL ? r->whole : r)->rows[0].cells[0];
	r->cost = all->total;
	r->cost_tracing = all->tracing < 0 ? -1 :
	    all->tracing * (kp_dur_ns)all->timed;
	fill_shares(r);
}

/* Copies texts and figures. */
static enum kp_err
report_make(const struct source *s, struct report **out)
{
	const struct kp_query_sum *sum = s->sum;
	struct report *r = calloc(1, sizeof(*r));
	struct source whole = *s;
	const char **names = NULL;
	enum kp_err err = KP_OK;
	size_t n = 0;

	if (r == NULL)
		return KP_ENOMEM;
	*r = (struct report){ .start = sum->start, .end = sum->end,
		.windows = sum->windows, .covered = sum->covered,
		.entry_calls = sum->entry_calls, .sampled = sum->sampled,
		.uncounted = sum->uncounted, .losses = sum->losses,
		.traced_call = sum->traced_call,
		.traced_caller = sum->traced_caller,
		.totals = s->totals, .filtered = s->identity != NULL };
	if (r->filtered) {
		whole.identity = NULL;
		err = report_make(&whole, &r->whole);
		/* A filter is the way out where there are too many. */
		whole.totals = err == KP_ELIMIT;
		if (whole.totals)
			err = report_make(&whole, &r->whole);
	}
	if (err == KP_OK)
		err = copy_texts(&r->nodes, &r->nnodes, s->nodes, s->nnodes);
	if (err == KP_OK)
		err = copy_texts(&r->tiers, &r->ntiers, s->tiers, s->ntiers);
	if (err == KP_OK)
		err = identities(s, &names, &n);
	if (err == KP_OK)
		err = make_rows(r, names, n);
	if (err == KP_OK)
		err = fill_rows(r, s, names, n);
	if (err == KP_OK)
		fill_derived(r, sum->counted);
	free(names);
	if (err != KP_OK) {
		report_free(r);
		return err;
	}
	report_sort(r, NULL, REPORT_BUSY);
	*out = r;
	return KP_OK;
}

/* ---- of windows ---- */

enum kp_err
report_from_window(const struct kp_window *w, const struct kp_conf *conf,
    struct report **out)
{
	const struct kp_query_sum sum = { .start = w->start, .end = w->end,
		.windows = 1, .covered = w->end - w->start,
		.counted = kp_window_counted(w),
		.entry_calls = w->entry_calls, .sampled = w->sampled,
		.uncounted = w->entry_calls == 0 && w->sampled > 0,
		.losses = w->losses, .cells = w->cells, .ncells = w->ncells,
		.traced_call = w->cost.traced_call,
		.traced_caller = w->cost.traced_caller };
	const char **tiers = calloc(conf->ntiers + 1, sizeof(*tiers));
	const struct source s = { .sum = &sum, .nodes = &w->node, .nnodes = 1,
		.tiers = tiers, .ntiers = conf->ntiers };
	enum kp_err err;

	if (tiers == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < conf->ntiers; i++)
		tiers[i] = conf->tiers[i].name;
	err = report_make(&s, out);
	free(tiers);
	return err;
}

static bool
has_cells(const struct kp_query_sum *s, const char *tier)
{
	for (size_t i = 0; i < s->ncells; i++) {
		if (strcmp(s->cells[i].tier, tier) == 0)
			return true;
	}
	return false;
}

/*
 * Makes the report of what s has but for tiers, which lose those that tiers.conf no
 * longer has and that have no figures.
 */
static enum kp_err
make(struct source s, struct kp_query_tiers *tiers, struct report **out)
{
	s.tiers = tiers->v;
	s.ntiers = tiers->current;
	for (size_t i = tiers->current; i < tiers->n; i++)
		if (has_cells(s.sum, tiers->v[i]))
			tiers->v[s.ntiers++] = tiers->v[i];
	return report_make(&s, out);
}

/* Do some requests stand for others? */
static bool
is_sampled(const struct kp_query_sum *s)
{
	const struct kp_cell *all = kp_query_cell(s, "_total", "_total");

	return all != NULL && all->w_requests > all->requests;
}

/* ---- rows of nodes ---- */

/* Merges the cells of `from`, of all its request types, into those of this name. */
static enum kp_err
take_node(struct kp_query_sum *to, const struct kp_query_sum *from, const char *name,
    bool all)
{
	size_t first = to->ncells, k;
	const struct kp_cell *c;
	enum kp_err err = KP_OK;

	for (c = from->cells; c < from->cells + from->ncells && err == KP_OK; c++) {
		if (all != is_total(c->identity))
			continue;
		for (k = first; k < to->ncells; k++)
			if (strcmp(to->cells[k].tier, c->tier) == 0)
				break;
		if (k == to->ncells) {
			if (vec_room_by_len(&to->cells, k, VEC_NO_CAP) != KP_OK)
				return KP_ENOMEM;
			to->cells[to->ncells++] = (struct kp_cell){ .min = -1,
				.tier = c->tier, .identity = name };
		}
		err = kp_cell_merge(&to->cells[k], c);
	}
	return err;
}

/* Replaces the cells of request types by those of nodes; counted: gets that of each node. */
static enum kp_err
sum_by_node(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_query_nodes *nodes, struct kp_query_sum *sum, kp_dur_ns *counted)
{
	bool all = r->identity_glob == NULL;
	struct kp_query_range of = *r;
	struct kp_query_sum one, rows = { .ncells = 0 };
	enum kp_err err = take_node(&rows, sum, "_total", all);

	for (size_t i = 0; i < nodes->n && err == KP_OK; i++) {
		of.node = nodes->v[i];
		err = kp_query_sum(q, &of, &one);
		if (err != KP_OK)
			break;
		counted[i] = one.counted;
		err = take_node(&rows, &one, nodes->v[i], all);
		kp_query_sum_free(&one);
	}
	for (size_t i = 0; i < sum->ncells; i++)
		kp_cell_free(&sum->cells[i]);
	free(sum->cells);
	sum->cells = rows.cells;
	sum->ncells = rows.ncells;
	sum->uncounted |= !all;	/* calls of entries are those of all types */
	return err;
}

enum kp_err
report_from_db(struct kp_query *q, const struct kp_query_range *r,
    struct report **out)
{
	struct kp_query_range all = *r;
	struct kp_query_tiers tiers = { 0 };
	struct kp_query_nodes nodes = { 0 };
	struct kp_query_sum sum = { 0 };
	struct report *made = NULL;
	kp_dur_ns *counted = NULL;
	size_t ncells;
	enum kp_err err;

	if (!r->by_node)
		all.identity_glob = NULL;	/* report_make() filters and adds up */
	else if (all.identity_glob == NULL)
		all.identity = "_total";
	kp_query_hold(q);	/* so that nodes add up to all of them */
	err = kp_query_tiers(q, &tiers);
	if (err == KP_OK)
		err = kp_query_nodes(q, &all, &nodes);
	if (err == KP_OK)
		err = kp_query_sum(q, &all, &sum);
	ncells = sum.ncells;
	if (err == KP_OK && (counted = calloc(nodes.n + 1, sizeof(*counted))) == NULL)
		err = KP_ENOMEM;
	if (err == KP_OK && r->by_node)
		err = sum_by_node(q, &all, &nodes, &sum, counted);
	if (err == KP_OK)
		err = make((struct source){ .sum = &sum, .nodes = nodes.v, .nnodes = nodes.n,
			.identity = r->by_node ? NULL : r->identity_glob }, &tiers, &made);
	if (err == KP_OK) {
		made->by_node = r->by_node;
		for (size_t i = 1; r->by_node && i < made->nrows; i++)
			for (size_t k = 0; k < nodes.n; k++)
				if (strcmp(made->rows[i].identity, nodes.v[k]) == 0)
					made->rows[i].counted = counted[k];
		if (is_sampled(&sum) && !r->no_intervals)
			err = report_intervals(made, q, r->by_node ? &all : r, ncells);
	}
	kp_query_release(q);
	free(counted);
	kp_query_tiers_free(&tiers);
	kp_query_nodes_free(&nodes);
	kp_query_sum_free(&sum);
	if (err == KP_OK)
		*out = made;
	else
		report_free(made);
	return err;
}

enum kp_err
report_from_running(struct kp_query_tiers *tiers, const char *identity,
    const struct live_windows *running, struct report **out)
{
	struct kp_query_sum sum = { 0 };
	const char *nodes[LIVE_WINDOWS_MAX];
	enum kp_err err;
	size_t n;

	for (n = 0; n < running->n && n < LIVE_WINDOWS_MAX; n++)
		nodes[n] = running->v[n].node;
	err = live_windows_sum(running, tiers, &sum);
	if (err == KP_OK)
		err = make((struct source){ .sum = &sum, .identity = identity,
			.nodes = nodes, .nnodes = n }, tiers, out);
	if (err == KP_OK) {
		(*out)->running = true;
		(*out)->left = running->left;
	}
	kp_query_sum_free(&sum);
	return err;
}

void
report_apart(const struct kp_query_range *r, kp_wall_ns start, kp_wall_ns end,
    struct kp_query_range *then)
{
	if (then->until <= r->since && start > then->since && start < then->until)
		then->until = start;
	else if (then->since >= r->until && end < then->until && end > then->since)
		then->since = end;
}

/* ---- how long requests took ---- */

const char *
report_parse_took(const char *s, struct kp_query_range *r)
{
	static const char forms[] = "give FROM,TO as 250ms,1s, or FROM alone";
	size_t n = strcspn(s, ",");
	kp_dur_ns from, to = INT64_MAX;
	char text[32];

	if (n >= sizeof(text))
		return forms;
	memcpy(text, s, n);
	text[n] = '\0';
	if (!kp_dur_parse(text, &from) ||
	    (s[n] == ',' && !kp_dur_parse(s + n + 1, &to)))
		return forms;
	if (from >= to)
		return "FROM is not less than TO";
	r->took_from = kp_hist_octave(from + 1);
	r->took_to = kp_hist_octave(to);
	return NULL;
}

const char *
report_took(char *buf, unsigned from, unsigned to)
{
	char over[TEXT_MAX], most[TEXT_MAX];

	text_dur(over, kp_hist_octave_end(from - 1));
	text_dur(most, kp_hist_octave_end(to));
	if (to >= KP_HIST_OCTAVES)
		snprintf(buf, REPORT_TOOK_MAX, "over %s", over);
	else
		snprintf(buf, REPORT_TOOK_MAX, "over %s, up to %s", over, most);
	return buf;
}

/* ---- the order of rows ---- */

struct sort {
	bool by_name, by_tier, by_cost, by_mean, reverse;
	size_t tier;
	enum report_what what;
};

static int
row_cmp(const void *pa, const void *pb, void *ctx)
{
	const struct sort *s = ctx;
	const struct report_row *a = s->reverse ? pb : pa;
	const struct report_row *b = s->reverse ? pa : pb;
	double va = 0, vb = 0;

	if (s->by_tier) {
		va = report_value(a, s->tier, s->what);
		vb = report_value(b, s->tier, s->what);
	}
	if (s->by_cost) {
		va = (double)a->cells[0].total;
		vb = (double)b->cells[0].total;
	}
	if (s->by_mean) {
		va = (double)a->cells[0].mean;
		vb = (double)b->cells[0].mean;
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
	struct sort s = { .what = what,
		.reverse = by != NULL && by[0] == '-' };

	by = s.reverse ? by + 1 : by;
	if (by != NULL && strcmp(by, "name") == 0) {
		s.by_name = true;
	} else if (by != NULL && strcmp(by, "cost") == 0) {
		s.by_cost = true;
	} else if (by != NULL && strcmp(by, "total") == 0) {
		s.by_mean = true;
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
