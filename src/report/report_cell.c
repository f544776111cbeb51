/*
 * report_cell.c - computes the figures of a report's cells and rows, and formats
 * counts by how much of them was seen.
 */
#include <math.h>
#include <stdio.h>

#include "source.h"

#define SURE 3	/* standard errors that chance alone does not exceed */

void
report_no_times(struct report_cell *c)
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
 * One standard error of a quantile: that of its rank among the requests measured.
 * It counts requests, not calls, because the calls of one request are alike.
 */
static kp_dur_ns
quantile_error(const struct kp_cell *c, double q)
{
	double n = fmax((double)c->requests, 1);
	double rank = sqrt(q * (1 - q) / n);

	return (quantile(c, fmin(q + rank, 1)) -
	    quantile(c, fmax(q - rank, 0))) / 2;
}

void
report_take_cell(struct report_cell *to, const struct kp_cell *c, bool request)
{
	to->requests = c->w_requests;
	to->calls = c->w_calls;
	to->raised = kp_cell_raised(c, request);
	to->unfinished = c->w_unfinished;
	to->ambiguous = c->w_ambiguous;
	to->unknown_outcomes = c->w_unknown_outcomes;
	to->unseen = kp_cell_unseen(c, request);
	to->async_calls = c->w_async_calls;
	to->async_raised = c->w_async_raised;
	to->async_unknown = c->w_async_unknown;
	to->async_unfinished = c->w_async_unfinished;
	to->outlasting = c->w_outlasting;
	to->timed = c->w_timed;
	to->inside = c->w_inside;
	to->made = c->w_made;
	to->counted = c->counted;
	to->strayed = c->strayed;
	to->missed = c->missed;
	to->sampled_requests = c->requests;
	to->sampled_calls = c->calls;
	to->sampled_async = c->async_calls + c->outlasting;
	to->total = c->w_total;
	to->self = c->w_self;
	to->busy = c->w_busy;
	to->async = c->w_async;
	to->gc = c->has_gc ? c->w_gc : -1;
	to->out = c->has_out ? c->w_out : -1;
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
	to->spread = kp_hist_spread(&c->hist);
	to->p50 = quantile(c, 0.50);
	to->p90 = quantile(c, 0.90);
	to->p95 = quantile(c, 0.95);
	to->p99 = quantile(c, 0.99);
	to->p50_error = quantile_error(c, 0.50);
	to->p90_error = quantile_error(c, 0.90);
	to->p99_error = quantile_error(c, 0.99);
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

/*
 * Sampling makes the sum of types differ from the VM's count by chance: its
 * variance is that of the weights, about requests x (weight - 1).
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
	return rest * rest > SURE * SURE * chance ? n - c->requests : 0;
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
report_value(const struct report_row *row, size_t tier, enum report_what what)
{
	const struct report_cell *c = &row->cells[tier];
	uint64_t requests = row->cells[0].requests, of = c->timed;
	double v;

	if (what == REPORT_CALLS)
		of = c->calls;
	else if (what == REPORT_ASYNC)
		of = c->async_calls + c->outlasting;
	if (requests == 0 || of == 0)
		return -1;
	switch (what) {
	case REPORT_SELF:
		v = (double)c->self;
		break;
	case REPORT_TOTAL:
		v = (double)c->total;
		break;
	case REPORT_CALLS:
		v = (double)c->calls;
		break;
	case REPORT_ASYNC:
		v = (double)c->async;
		break;
	case REPORT_GC:
	case REPORT_OUT:
		v = (double)(what == REPORT_GC ? c->gc : c->out);
		if (v < 0)
			return -1;
		break;
	case REPORT_BUSY:
	default:
		v = (double)c->busy;
	}
	return v / (double)requests;
}

void
report_shares(struct report *r)
{
	for (size_t i = 0; i < r->nrows; i++)
		r->rows[i].share = r->cost <= 0 ? -1 :
		    (double)r->rows[i].cells[0].total / (double)r->cost;
}

const char *
seen_name(enum kp_seen seen)
{
	static const char *const names[] = { [KP_SEEN] = "known",
		[KP_SEEN_PART] = "at_least", [KP_NOT_SEEN] = "not_seen" };

	return names[seen];
}

static const char *
seen_count(char *buf, enum kp_seen seen, uint64_t n, bool known)
{
	char text[TEXT_MAX];

	if (seen == KP_SEEN)
		return text_known(buf, n, known);
	text_known(text, n, known);
	if (seen == KP_NOT_SEEN)
		snprintf(buf, TEXT_MAX, "-");
	else if (known)
		snprintf(buf, TEXT_MAX, ">= %.40s", text);
	else
		snprintf(buf, TEXT_MAX, "%.30s or more", text);
	return buf;
}

const char *
seen_share(char *buf, enum kp_seen seen, uint64_t n, uint64_t of, bool known)
{
	if (seen != KP_SEEN)
		return seen_count(buf, seen, n, known);
	return text_share(buf, of == 0 ? -1 : (double)n / (double)of);
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
