/*
 * report_json_csv.c - writes a report for programs: JSON and CSV.
 *
 * Both have the same figures under the same names, which are those of the
 * database's views.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "losses.h"
#include "report.h"
#include "text/text.h"
#include "text/timefmt.h"

/* All but MS are counts.  RAISED and ASYNC_RAISED may be null: see is_null(). */
enum kind { COUNT, MS, RAISED, ASYNC_RAISED };

/* In the order in which they are written; names are those of the database's views. */
static const struct figure {
	const char *name;
	enum kind kind;
	size_t at;
} figures[] = {
#define FIGURE(name, kind, field) \
	{ name, kind, offsetof(struct report_cell, field) }
#define COUNT(field) FIGURE(#field, COUNT, field)
#define MS(field) FIGURE(#field "_ms", MS, field)
	COUNT(requests), COUNT(calls), FIGURE("raised", RAISED, raised),
	COUNT(unfinished), COUNT(ambiguous), COUNT(async_calls),
	MS(total), MS(mean), MS(self), MS(busy), MS(busy_per_request), MS(async),
	MS(min), MS(p50), MS(p90), MS(p95), MS(p99), MS(max),
	COUNT(sampled_requests), COUNT(sampled_calls),
	MS(gc), MS(out), MS(tracing),
	COUNT(unknown_outcomes), COUNT(outlasting),
	FIGURE("after_ms", MS, async), MS(after_per_request),
	FIGURE("async_raised", ASYNC_RAISED, async_raised),
	COUNT(async_unknown), COUNT(async_unfinished), MS(async_p50),
	MS(async_p90), MS(async_p95), MS(async_p99), MS(async_max),
#undef FIGURE
#undef COUNT
#undef MS
};
#define NFIGURES (sizeof(figures) / sizeof(figures[0]))

/* A count; also a time, whose bits are the same. */
static uint64_t
value_of(const struct report_cell *c, const struct figure *f)
{
	uint64_t v;

	memcpy(&v, (const char *)c + f->at, sizeof(v));
	return v;
}

static const char *
tier_name(const struct report *r, size_t t)
{
	return t == 0 ? "_total" : r->tiers[t - 1];
}

static enum kp_seen
raised_seen(const struct report_cell *c)
{
	return kp_raised_seen(c->raised, c->unseen);
}

/* True: how calls end is not seen. */
static bool
is_null(const struct report_cell *c, const struct figure *f)
{
	if (f->kind == RAISED)
		return raised_seen(c) == KP_NOT_SEEN;
	return f->kind == ASYNC_RAISED && kp_raised_seen(c->async_raised,
	    kp_calls_unseen(c->async_calls, c->async_unfinished,
	    c->async_unknown)) == KP_NOT_SEEN;
}

static bool
has_figures(const struct report_cell *c)
{
	return c->requests > 0 || c->calls > 0 || c->async_calls > 0;
}

/* What has an interval: a low and a high end each. */
static const struct {
	const char *name;
	enum report_of of;
	bool ms;
} intervals[] = {
	{ "requests", REPORT_OF_REQUESTS, false },
	{ "mean_ms", REPORT_OF_MEAN, true }, { "p50_ms", REPORT_OF_P50, true },
	{ "p90_ms", REPORT_OF_P90, true }, { "p99_ms", REPORT_OF_P99, true },
	{ "calls_per_request", REPORT_OF_CALLS, false },
	{ "self_per_request_ms", REPORT_OF_SELF, true },
	{ "busy_per_request_ms", REPORT_OF_BUSY, true },
	{ "raised_share", REPORT_OF_RAISED, false },
	{ "share", REPORT_OF_SHARE, false },
};
#define NINTERVALS (sizeof(intervals) / sizeof(intervals[0]))

static double
interval_end(const struct report_cell *c, size_t i, bool high)
{
	const struct report_interval *v = &c->interval[intervals[i].of];

	return v->high <= 0 ? -1 : (high ? v->high : v->low) /
	    (intervals[i].ms ? 1e6 : 1);
}

/* Of a cell of which nothing is estimated: null. */
static void
json_intervals(struct json *j, const struct report_cell *c)
{
	bool any = false;

	for (size_t i = 0; i < NINTERVALS; i++)
		any |= interval_end(c, i, true) >= 0;
	if (!any) {
		json_null(j, "intervals");
		return;
	}
	json_object(j, "intervals");
	for (size_t i = 0; i < NINTERVALS; i++) {
		if (interval_end(c, i, true) < 0) {
			json_null(j, intervals[i].name);
			continue;
		}
		json_array(j, intervals[i].name);
		json_number(j, NULL, interval_end(c, i, false));
		json_number(j, NULL, interval_end(c, i, true));
		json_end(j);
	}
	json_end(j);
}

static void
json_figures(struct json *j, const struct report_cell *c)
{
	for (size_t i = 0; i < NFIGURES; i++) {
		if (figures[i].kind == MS)
			json_ms(j, figures[i].name,
			    (kp_dur_ns)value_of(c, &figures[i]));
		else if (is_null(c, &figures[i]))
			json_null(j, figures[i].name);
		else
			json_uint(j, figures[i].name,
			    value_of(c, &figures[i]));
	}
	json_string(j, "raised_seen", seen_name(raised_seen(c)));
	json_intervals(j, c);
}

/* labels: of its calls, from the one at *label on, which moves behind them. */
static void
json_cell(struct json *j, const struct report *r, const struct report_row *row,
    size_t tier, size_t *label)
{
	const struct report_cell *c = &row->cells[tier];
	const struct report_label *l;

	json_object(j, NULL);
	json_string(j, "tier", tier_name(r, tier));
	json_figures(j, c);
	if (c->counted > 0)
		json_uint(j, "counted_calls", c->counted);
	else
		json_null(j, "counted_calls");
	json_uint(j, "missed_calls", c->missed);
	json_array(j, "labels");
	for (; *label < row->nlabels && row->labels[*label].tier == tier; ++*label) {
		l = &row->labels[*label];
		json_object(j, NULL);
		json_string(j, "label", l->name);
		json_figures(j, &l->cell);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void
json_row(struct json *j, const struct report *r, const struct report_row *row)
{
	size_t label = 0;

	json_object(j, NULL);
	json_string(j, "identity", row->identity);
	json_uint(j, "requests", row->cells[0].requests);
	json_bool(j, "requests_known", row->cells[0].requests ==
	    row->cells[0].sampled_requests);
	json_ms(j, "counted_ms", row->counted);
	json_number(j, "share", row->share);
	json_array(j, "tiers");
	for (size_t t = 0; t <= r->ntiers; t++) {
		if (has_figures(&row->cells[t]))
			json_cell(j, r, row, t, &label);
	}
	json_end(j);
	json_end(j);
}

/* The tiers of which calls are missing; how many: null if that is not sure. */
static void
json_missing(struct json *j, const struct report *r)
{
	struct report_missing m;

	json_array(j, "missing");
	for (size_t t = 1; t <= r->ntiers; t++) {
		if (!report_missing(r, t, &m))
			continue;
		json_object(j, NULL);
		json_string(j, "tier", r->tiers[t - 1]);
		if (m.counted > 0) {
			json_uint(j, "counted_calls", m.counted);
			json_uint(j, "counted_requests", m.entries);
		} else {
			json_null(j, "counted_calls");
			json_null(j, "counted_requests");
		}
		json_uint(j, "calls", m.calls);
		json_uint(j, "async_calls", m.after);
		if (m.sure)
			json_uint(j, "missed_calls", m.missed);
		else
			json_null(j, "missed_calls");
		json_end(j);
	}
	json_end(j);
}

static void
json_texts(struct json *j, const char *key, char *const *v, size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_string(j, NULL, v[i]);
	json_end(j);
}

void
report_object(struct json *j, const char *key, const struct report *r)
{
	uint64_t n;
	bool known;

	json_object(j, key);
	json_time(j, "start", r->start);
	json_time(j, "end", r->end);
	json_texts(j, "nodes", r->nodes, r->nnodes);
	json_uint(j, "windows", r->windows);
	json_ms(j, "covered_ms", r->covered);
	json_ms(j, "counted_ms", r->rows->counted);
	json_bool(j, "running", r->running);
	json_ms(j, "left_ms", r->running ? r->left : -1);
	n = report_requests(r, 0, &known);
	json_uint(j, "requests", n);
	json_bool(j, "requests_known", known);
	json_uint(j, "entry_calls", r->entry_calls);
	json_uint(j, "sampled", r->sampled);
	json_uint(j, "unmeasured_requests", report_unmeasured(r));
	json_ms(j, "traced_call_ms", r->traced_call > 0 ? r->traced_call : -1);
	json_ms(j, "traced_caller_ms", r->traced_call > 0 ?
	    r->traced_caller : -1);
	json_bool(j, "less_tracing", r->less_tracing);
	json_texts(j, "tiers", r->tiers, r->ntiers);
	json_array(j, "rows");
	for (size_t i = 0; i < r->nrows; i++)
		if (!r->rows[i].left_out)
			json_row(j, r, &r->rows[i]);
	json_end(j);
	json_missing(j, r);
	losses_json(j, &r->losses);
	if (r->hinted)
		json_texts(j, "hints", r->hints, r->nhints);
	else
		json_null(j, "hints");
	json_end(j);
}

void
report_json(struct kp_buf *b, const struct report *r)
{
	struct json j;

	json_begin(&j, b);
	report_object(&j, NULL, r);
	kp_buf_u8(b, '\n');
}

/*
 * Quotes by RFC 4180 where needed.  Identities come from clients, and a spreadsheet
 * runs a field that begins with one of these characters as a formula: a ' before
 * it prevents that.
 */
void
report_csv_text(struct kp_buf *b, const char *s)
{
	struct kp_buf clean;

	kp_buf_init(&clean, 64u << 10);
	if (*s != '\0' && strchr("=+-@\t\r|%", *s) != NULL)
		kp_buf_u8(&clean, '\'');
	text_put(&clean, s);
	s = kp_buf_cstr(&clean);
	if (strpbrk(s, ",\"'; ") == NULL) {
		kp_buf_str(b, s);
	} else {
		kp_buf_u8(b, '"');
		for (; *s != '\0'; s++) {
			if (*s == '"')
				kp_buf_u8(b, '"');
			kp_buf_u8(b, (uint8_t)*s);
		}
		kp_buf_u8(b, '"');
	}
	kp_buf_free(&clean);
}

/* A tier's figures, or those of its calls with a label; label NULL: of all. */
static void
csv_line(struct kp_buf *b, const char *start, const char *end,
    const char *identity, size_t tier, const struct report_label *label,
    const struct report_cell *c, const struct report *r)
{
	struct report_missing m;
	char text[TEXT_MAX];
	struct kp_buf name;
	kp_dur_ns d;

	kp_buf_printf(b, "%s,%s,", start, end);
	report_csv_text(b, identity);
	kp_buf_u8(b, ',');
	kp_buf_init(&name, 64u << 10);
	kp_buf_printf(&name, "%s%s%s", tier_name(r, tier), label != NULL ?
	    KP_PART_SEP : "", label != NULL ? label->name : "");
	report_csv_text(b, kp_buf_cstr(&name));
	kp_buf_free(&name);
	for (size_t i = 0; i < NFIGURES; i++) {
		kp_buf_u8(b, ',');
		if (is_null(c, &figures[i]))
			continue;
		if (figures[i].kind != MS) {
			kp_buf_printf(b, "%" PRIu64, value_of(c, &figures[i]));
			continue;
		}
		d = (kp_dur_ns)value_of(c, &figures[i]);
		if (d >= 0)
			kp_buf_str(b, text_exact_ms(text, d));
	}
	kp_buf_printf(b, ",%s,%d,%d,", seen_name(raised_seen(c)),
	    r->less_tracing, r->running);
	if (c->counted > 0)
		kp_buf_printf(b, "%" PRIu64, c->counted);
	kp_buf_printf(b, ",%" PRIu64 ",%d", c->missed, label == NULL &&
	    report_missing(r, tier, &m) && m.sure);
	for (size_t i = 0; i < NINTERVALS; i++) {
		if (interval_end(c, i, true) < 0)
			kp_buf_str(b, ",,");
		else
			kp_buf_printf(b, ",%.6g,%.6g", interval_end(c, i, false),
			    interval_end(c, i, true));
	}
	kp_buf_u8(b, '\n');
}

/* With the rows of types it makes up what the VM counted. */
static void
csv_unmeasured(struct kp_buf *b, const char *start, const char *end,
    const struct report *r)
{
	uint64_t n = report_unmeasured(r);

	if (n == 0)
		return;
	kp_buf_printf(b, "%s,%s,_not_measured,_total,%" PRIu64, start, end, n);
	for (size_t i = 1; i < NFIGURES; i++)
		kp_buf_u8(b, ',');
	kp_buf_printf(b, ",,%d,%d,,,", r->less_tracing, r->running);
	for (size_t i = 0; i < NINTERVALS; i++)
		kp_buf_str(b, ",,");
	kp_buf_u8(b, '\n');
}

void
report_csv(struct kp_buf *b, const struct report *r)
{
	char start[TIMEFMT_MAX] = "", end[TIMEFMT_MAX] = "";
	const struct report_row *row;

	if (r->start != 0) {
		timefmt_iso(start, r->start);
		timefmt_iso(end, r->end);
	}
	kp_buf_str(b, "start,end,identity,tier");
	for (size_t i = 0; i < NFIGURES; i++)
		kp_buf_printf(b, ",%s", figures[i].name);
	kp_buf_str(b, ",raised_seen,less_tracing,running,"
	    "counted_calls,missed_calls,missing");
	for (size_t i = 0; i < NINTERVALS; i++)
		kp_buf_printf(b, ",%s_low,%s_high", intervals[i].name,
		    intervals[i].name);
	kp_buf_u8(b, '\n');
	for (size_t i = 0; i < r->nrows; i++) {
		row = &r->rows[i];
		for (size_t t = 0; t <= r->ntiers; t++) {
			if (has_figures(&row->cells[t]))
				csv_line(b, start, end, row->identity, t, NULL,
				    &row->cells[t], r);
		}
		for (size_t k = 0; k < row->nlabels; k++)
			csv_line(b, start, end, row->identity,
			    row->labels[k].tier, &row->labels[k],
			    &row->labels[k].cell, r);
	}
	csv_unmeasured(b, start, end, r);
}
