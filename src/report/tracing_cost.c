/*
 * tracing_cost.c - estimates which part of a report's times tracing adds, and
 * subtracts it.
 */
#include "source.h"
#include "text/text.h"

#define SMALL 10	/* a mean below SMALL times that part is reported */

/* The part in its own time, and that of the calls it waited for. */
kp_dur_ns
report_tracing_of(const struct report *r, const struct report_cell *c)
{
	double inside;

	if (r->traced_call <= 0 || c->timed == 0)
		return -1;
	inside = (double)c->inside / (double)c->timed;
	return (kp_dur_ns)((double)r->traced_call + inside *
	    (double)(r->traced_call + r->traced_caller) + 0.5);
}

void
report_tracing(struct report *r)
{
	struct report_cell *c;

	for (size_t i = 0; i < r->nrows; i++)
		for (size_t t = 0; t <= r->ntiers; t++) {
			c = &r->rows[i].cells[t];
			c->tracing = report_tracing_of(r, c);
		}
}

static void
subtract(kp_dur_ns *from, double v)
{
	if (*from > 0)
		*from = (double)*from > v ? (kp_dur_ns)((double)*from - v) : 0;
}

static void
subtract_from_cell(const struct report *r, struct report_cell *c)
{
	kp_dur_ns *const one[] = { &c->mean, &c->min, &c->p50, &c->p90,
		&c->p95, &c->p99, &c->max };
	double total = (double)c->total;

	if (c->tracing < 0)
		return;
	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
		subtract(one[i], (double)c->tracing);
	subtract(&c->total, (double)c->tracing * (double)c->timed);
	subtract(&c->self, (double)r->traced_call * (double)c->timed +
	    (double)r->traced_caller * (double)c->made);
	/* of the union of calls, in proportion to their sum */
	if (total > 0) {
		c->busy = (kp_dur_ns)((double)c->busy *
		    ((double)c->total / total));
		if (c->busy_per_request > 0)
			c->busy_per_request = (kp_dur_ns)((double)
			    c->busy_per_request * ((double)c->total / total));
	}
}

/* Is it known of all calls what tracing added to them? */
static bool
is_known(const struct report *r)
{
	const struct report_cell *c;

	for (size_t i = 0; i < r->nrows; i++)
		for (size_t t = 0; t <= r->ntiers; t++) {
			c = &r->rows[i].cells[t];
			if (c->timed > 0 && c->tracing < 0)
				return false;
		}
	return r->traced_call > 0;
}

bool
report_less_tracing(struct report *r)
{
	if (!is_known(r))
		return false;
	for (size_t i = 0; i < r->nrows; i++)
		for (size_t t = 0; t <= r->ntiers; t++)
			subtract_from_cell(r, &r->rows[i].cells[t]);
	if (r->cost_tracing < 0)
		r->cost = 0;
	subtract(&r->cost, (double)r->cost_tracing);
	report_shares(r);
	r->less_tracing = true;
	return true;
}

/* Is the mean of a tier's calls so small that tracing shows in it? */
static bool
is_small(const struct report *r, size_t tier)
{
	const struct report_cell *c = &r->rows[0].cells[tier];

	return !r->less_tracing && c->tracing >= 0 &&
	    c->mean < SMALL * c->tracing;
}

void
report_put_tracing(struct kp_buf *b, const struct report *r)
{
	const char *sep = "tracing adds to each call of ";
	char text[TEXT_MAX], mean[TEXT_MAX];

	if (r->less_tracing) {
		kp_buf_printf(b, "~ estimated: less what tracing adds, about "
		    "%s to a traced call and %s more to its caller",
		    text_dur(text, r->traced_call),
		    text_dur(mean, r->traced_caller));
		return;
	}
	for (size_t t = 1; t <= r->ntiers; t++) {
		if (!is_small(r, t))
			continue;
		kp_buf_str(b, sep);
		text_put(b, r->tiers[t - 1]);
		kp_buf_printf(b, " about %s of its %s",
		    text_dur(text, r->rows[0].cells[t].tracing),
		    text_dur(mean, r->rows[0].cells[t].mean));
		sep = ", ";
	}
	if (*sep == ',')
		kp_buf_str(b, " (-less-tracing subtracts it)");
}
