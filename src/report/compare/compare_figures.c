/*
 * compare_figures.c - writes two reports side by side for programs: JSON and
 * CSV.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "text/text.h"
#include "compare_internal.h"

/* Means per request, but for the time of the request itself, which is MEAN. */
static const char *const names[] = {
	[REPORT_BUSY] = "busy_per_request_ms",
	[REPORT_SELF] = "self_per_request_ms",
	[REPORT_TOTAL] = "total_per_request_ms",
	[REPORT_CALLS] = "calls_per_request",
	[REPORT_ASYNC] = "async_per_request_ms",
	[REPORT_GC] = "gc_per_request_ms",
	[REPORT_OUT] = "out_per_request_ms",
};
#define MEAN "mean_ms"

static double
percent(const struct compare_figure *f)
{
	return 100 * compare_change(f);
}

static void
json_side(struct json *j, const char *key, double v, enum report_what what)
{
	if (what == REPORT_CALLS)
		json_number(j, key, v);
	else
		json_ms(j, key, v < 0 ? -1 : (kp_dur_ns)(v + 0.5));
}

static void
json_count(struct json *j, const char *key, double n)
{
	if (n < 0)
		json_null(j, key);
	else
		json_uint(j, key, (uint64_t)n);
}

static void
json_known(struct json *j, const char *key, double n, bool known)
{
	if (n < 0)
		json_null(j, key);
	else
		json_bool(j, key, known);
}

static void
json_rest(struct json *j, const struct compare_figure *f)
{
	json_change(j, "change_percent", percent(f));
	json_bool(j, "uncertain", f->uncertain);
	json_end(j);
}

static void
json_figure(struct json *j, const char *tier, const char *name,
    const struct compare_figure *f, enum report_what what)
{
	if (f->now < 0 && f->then < 0)
		return;
	json_object(j, NULL);
	json_string(j, "tier", tier);
	json_string(j, "figure", name);
	json_side(j, "now", f->now, what);
	json_side(j, "then", f->then, what);
	json_rest(j, f);
}

static void
json_row(struct json *j, const struct compare *v, const struct compare_row *row,
    enum report_what what)
{
	struct compare_requests q = compare_requests(v, row);
	struct compare_figure f = compare_rate(v, row);

	json_object(j, NULL);
	json_string(j, "identity", compare_name(row));
	json_string(j, "state", compare_state(row));
	json_object(j, "requests");
	json_count(j, "now", q.n.now);
	json_count(j, "then", q.n.then);
	json_known(j, "now_known", q.n.now, q.now_known);
	json_known(j, "then_known", q.n.then, q.then_known);
	json_number(j, "now_per_s", f.now);
	json_number(j, "then_per_s", f.then);
	json_rest(j, &f);
	json_array(j, "figures");
	f = compare_call(row, &v->tiers[0], 0);
	json_figure(j, "_total", MEAN, &f, REPORT_TOTAL);
	f = compare_value(v, row, &v->tiers[0], REPORT_ASYNC);
	json_figure(j, "_total", names[REPORT_ASYNC], &f, REPORT_ASYNC);
	for (size_t t = 1; t < v->ntiers; t++) {
		f = compare_value(v, row, &v->tiers[t], what);
		json_figure(j, v->tiers[t].name, names[what], &f, what);
	}
	json_end(j);
	json_end(j);
}

void
compare_json(struct kp_buf *b, const struct compare *v, enum report_what what)
{
	struct json j;

	json_begin(&j, b);
	json_object(&j, NULL);
	report_object(&j, "now", v->now);
	report_object(&j, "then", v->then);
	json_array(&j, "changes");
	for (size_t i = 0; i < v->nrows; i++)
		json_row(&j, v, &v->rows[i], what);
	json_end(&j);
	json_end(&j);
	kp_buf_u8(b, '\n');
}

static void
csv_number(struct kp_buf *b, double v)
{
	kp_buf_u8(b, ',');
	if (isfinite(v))
		kp_buf_printf(b, "%.10g", v);
}

static void
csv_side(struct kp_buf *b, double v, enum report_what what)
{
	csv_number(b, v < 0 ? (double)NAN : what == REPORT_CALLS ? v :
	    round(v) / 1e6);
}

/* q: of the numbers of requests, which are known; else NULL. */
static void
csv_line(struct kp_buf *b, const struct compare *v,
    const struct compare_row *row, const char *tier, const char *name,
    const struct compare_figure *f, const struct compare_requests *q,
    enum report_what what)
{
	if (f->now < 0 && f->then < 0)
		return;
	report_csv_text(b, compare_name(row));
	kp_buf_printf(b, ",%s,", compare_state(row));
	report_csv_text(b, tier);
	kp_buf_printf(b, ",%s", name);
	csv_side(b, f->now, what);
	csv_side(b, f->then, what);
	csv_number(b, percent(f));
	kp_buf_printf(b, ",%d", f->uncertain);
	csv_number(b, q == NULL || f->now < 0 ? (double)NAN : q->now_known);
	csv_number(b, q == NULL || f->then < 0 ? (double)NAN : q->then_known);
	kp_buf_printf(b, ",%d\n", v->now->less_tracing);
}

void
compare_csv(struct kp_buf *b, const struct compare *v, enum report_what what)
{
	const struct compare_row *row;
	struct compare_requests q;
	struct compare_figure f;

	kp_buf_str(b, "identity,state,tier,figure,now,then,change_percent,"
	    "uncertain,now_known,then_known,less_tracing\n");
	for (size_t i = 0; i < v->nrows; i++) {
		row = &v->rows[i];
		q = compare_requests(v, row);
		f = compare_rate(v, row);
		csv_line(b, v, row, "_total", "requests_per_s", &f, &q,
		    REPORT_CALLS);
		f = compare_call(row, &v->tiers[0], 0);
		csv_line(b, v, row, "_total", MEAN, &f, NULL, REPORT_TOTAL);
		f = compare_value(v, row, &v->tiers[0], REPORT_ASYNC);
		csv_line(b, v, row, "_total", names[REPORT_ASYNC], &f, NULL,
		    REPORT_ASYNC);
		for (size_t t = 1; t < v->ntiers; t++) {
			f = compare_value(v, row, &v->tiers[t], what);
			csv_line(b, v, row, v->tiers[t].name, names[what], &f,
			    NULL, what);
		}
	}
}
