/*
 * kprof_sqlite.c - adds SQL functions for stored histograms (column stat.hist),
 * as an extension for SQLite from 3.25 on:
 *
 *	.load /usr/local/lib/kprofd/kprof_sqlite
 *	select kprof_quantile(kprof_merge(hist), 0.99) / 1e6 as ms from stat;
 *
 *	kprof_merge(hist)	aggregate, also a window function: their sum.
 *				It skips NULLs; NULL if there is nothing else
 *	kprof_quantile(hist, q)	ns, right to about 1.1 %; NULL of NULL and of
 *				an empty histogram
 *	kprof_stddev(hist)	the standard deviation in ns, right to about 1.1 % of
 *				the mean; NULL likewise
 *	kprof_count(hist)	the number of durations in it, by weight
 *	kprof_within(start_ns, end_ns, requests, w_requests, y, x)
 *				aggregate: how far the true sum(y) / sum(x) may be
 *				from that of the requests measured, 0.04: 4 %, in
 *				95 of 100 cases; NULL: it is not known, or all were
 *				measured.  A row with a NULL is skipped
 *
 * Blobs are not trusted: the bounded reader of hist.h reads them, and one that
 * is not a histogram gives an SQL error with the reason.
 */
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <sqlite3ext.h>

#include "base/sat.h"
#include "kprofd/hist.h"
#include "kprofd/tenths.h"

SQLITE_EXTENSION_INIT1

#define SQLITE_LEAST 3025000	/* the first with aggregate window functions */
/* A count takes at most ten bytes; a few bytes precede them. */
#define BLOB_MAX (16 + 10 * (KP_HIST_MAX - KP_HIST_MIN + 1))
#define WINDOWS_MAX 1000000	/* in a group of kprof_within(), 24 MB */
#define MEASURED_MIN 30		/* of fewer requests it says nothing */

static void
fail(sqlite3_context *ctx, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = sqlite3_vmprintf(fmt, ap);
	va_end(ap);
	if (text != NULL)
		sqlite3_result_error(ctx, text, -1);
	else
		sqlite3_result_error_nomem(ctx);
	sqlite3_free(text);
}

static const char *
type_name(sqlite3_value *v)
{
	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
		return "an integer";
	case SQLITE_FLOAT:
		return "a real";
	case SQLITE_TEXT:
		return "a text";
	default:
		return "a blob";
	}
}

static void
fail_blob(sqlite3_context *ctx, const char *fn, const uint8_t *p, int n,
    enum kp_err err)
{
	if (err == KP_ENOMEM)
		sqlite3_result_error_nomem(ctx);
	else if (n == 0)
		fail(ctx, "%s: an empty blob is not a histogram", fn);
	else if (p[0] != KP_HIST_VERSION)
		fail(ctx, "%s: no histogram that this version can read: it "
		    "begins with byte %d, not %d (a newer kprofd may have "
		    "written it)", fn, p[0], KP_HIST_VERSION);
	else
		fail(ctx, "%s: damaged histogram: %d bytes that %s", fn, n,
		    err == KP_ESHORT ? "end in the middle of it" :
		    "are not what a histogram is made of");
}

/* False: v is not a histogram; the statement has the error. */
static bool
read_hist(sqlite3_context *ctx, const char *fn, sqlite3_value *v,
    struct kp_hist *h)
{
	const void *p;
	enum kp_err err;
	int n;

	kp_hist_init(h);
	if (sqlite3_value_type(v) != SQLITE_BLOB) {
		fail(ctx, "%s: %s is not a histogram (those are blobs, such as "
		    "the column hist of the table stat)", fn, type_name(v));
		return false;
	}
	p = sqlite3_value_blob(v);
	n = sqlite3_value_bytes(v);
	err = p != NULL ? kp_hist_read(h, p, (size_t)n) : KP_ESHORT;
	if (err != KP_OK)
		fail_blob(ctx, fn, p, n, err);
	return err == KP_OK;
}

static bool
is_null(sqlite3_value *v)
{
	return sqlite3_value_type(v) == SQLITE_NULL;
}

static void
quantile(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	static const char fn[] = "kprof_quantile";
	struct kp_hist h;
	double q;

	(void)argc;
	if (is_null(argv[0]) || is_null(argv[1]))
		return;
	q = sqlite3_value_double(argv[1]);
	if (sqlite3_value_type(argv[1]) != SQLITE_INTEGER &&
	    sqlite3_value_type(argv[1]) != SQLITE_FLOAT) {
		fail(ctx, "%s: %s is not a quantile (those are numbers from 0 to "
		    "1)", fn, type_name(argv[1]));
	} else if (!(q >= 0 && q <= 1)) {
		fail(ctx, "%s: %g is not a quantile (those are from 0 to 1: 0.99 "
		    "for the 99th percentile)", fn, q);
	} else if (read_hist(ctx, fn, argv[0], &h)) {
		if (h.count > 0)
			sqlite3_result_int64(ctx, kp_hist_quantile(&h, q));
		kp_hist_free(&h);
	}
}

/* Clamps to SQL's largest integer, 2^63 - 1, which no real count reaches. */
static void
count(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	struct kp_hist h;

	(void)argc;
	if (is_null(argv[0]) || !read_hist(ctx, "kprof_count", argv[0], &h))
		return;
	sqlite3_result_int64(ctx, h.count < INT64_MAX ? (int64_t)h.count :
	    INT64_MAX);
	kp_hist_free(&h);
}

static void
stddev(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	struct kp_hist h;
	double mean;

	(void)argc;
	if (is_null(argv[0]) || !read_hist(ctx, "kprof_stddev", argv[0], &h))
		return;
	if (h.count > 0)
		sqlite3_result_int64(ctx, (int64_t)kp_hist_deviation(&h, &mean));
	kp_hist_free(&h);
}

/* The aggregate context of a group or window, which SQLite zeroes. */
struct merge {
	struct kp_hist sum;
	uint64_t rows;		/* number of rows in it that are not NULL */
};

static void
merge_row(sqlite3_context *ctx, sqlite3_value *v,
    enum kp_err (*with)(struct kp_hist *, const struct kp_hist *), int step)
{
	struct merge *m = sqlite3_aggregate_context(ctx, sizeof(*m));
	struct kp_hist h;
	enum kp_err err;

	if (m == NULL) {
		sqlite3_result_error_nomem(ctx);
		return;
	}
	if (is_null(v) || !read_hist(ctx, "kprof_merge", v, &h))
		return;
	err = with(&m->sum, &h);
	kp_hist_free(&h);
	if (err == KP_ENOMEM)
		sqlite3_result_error_nomem(ctx);
	else if (err != KP_OK)
		fail(ctx, "kprof_merge: more durations than 64 bits count");
	else
		m->rows += (uint64_t)(int64_t)step;
}

static void
merge_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	(void)argc;
	merge_row(ctx, argv[0], kp_hist_merge, 1);
}

/* Removes a row that leaves the window: counts are sums, so they subtract. */
static void
merge_inverse(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	(void)argc;
	merge_row(ctx, argv[0], kp_hist_take, -1);
}

static void
merge_value(sqlite3_context *ctx)
{
	const struct merge *m = sqlite3_aggregate_context(ctx, 0);
	struct kp_buf b;

	if (m == NULL || m->rows == 0)
		return;
	kp_buf_init(&b, BLOB_MAX);
	kp_hist_write(&m->sum, &b);
	if (b.err == KP_OK)
		sqlite3_result_blob(ctx, b.p, (int)b.len, SQLITE_TRANSIENT);
	else
		sqlite3_result_error_nomem(ctx);
	kp_buf_free(&b);
}

static void
merge_final(sqlite3_context *ctx)
{
	struct merge *m = sqlite3_aggregate_context(ctx, 0);

	merge_value(ctx);
	if (m != NULL)
		kp_hist_free(&m->sum);
}

/* The windows of a group: how long its tenths' units are is not known before the last. */
struct within {
	struct window {
		kp_wall_ns start;
		double y, x;
	} *v;
	uint64_t n, room;
	kp_dur_ns longest;
	double measured, requests;
};

static void
within_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	struct within *w = sqlite3_aggregate_context(ctx, sizeof(*w));
	kp_dur_ns length;
	struct window *v;

	for (int i = 0; i < argc; i++)
		if (is_null(argv[i]))
			return;
	if (w == NULL || w->n == WINDOWS_MAX) {
		if (w == NULL)
			sqlite3_result_error_nomem(ctx);
		else
			fail(ctx, "kprof_within: more than %d windows in a group",
			    WINDOWS_MAX);
		return;
	}
	if (w->n == w->room) {
		v = sqlite3_realloc64(w->v, (2 * w->room + 64) * sizeof(*v));
		if (v == NULL) {
			sqlite3_result_error_nomem(ctx);
			return;
		}
		w->v = v;
		w->room = 2 * w->room + 64;
	}
	w->v[w->n++] = (struct window){ sqlite3_value_int64(argv[0]),
		sqlite3_value_double(argv[4]), sqlite3_value_double(argv[5]) };
	length = sat_span(sqlite3_value_int64(argv[0]), sqlite3_value_int64(argv[1]));
	if (length > w->longest)
		w->longest = length;
	w->measured += sqlite3_value_double(argv[2]);
	w->requests += sqlite3_value_double(argv[3]);
}

static void
within_final(sqlite3_context *ctx)
{
	double y[KP_TENTHS] = { 0 }, x[KP_TENTHS] = { 0 }, seen[KP_TENTHS] = { 0 };
	struct within *w = sqlite3_aggregate_context(ctx, 0);
	struct kp_ratio r;
	size_t k, with;

	if (w == NULL)
		return;
	for (uint64_t i = 0; i < w->n && w->longest > 0; i++) {
		k = kp_tenth(w->v[i].start, w->longest);
		y[k] += w->v[i].y;
		x[k] += w->v[i].x;
		seen[k] = 1;
	}
	sqlite3_free(w->v);
	with = kp_tenths_filled(y);
	if (with < KP_TENTHS_MIN || w->measured < MEASURED_MIN ||
	    w->measured >= w->requests)
		return;
	r = kp_ratio_of(y, x, kp_tenths_filled(seen), with);
	if (r.v > 0)
		sqlite3_result_double(ctx, exp(r.t * r.error / r.v *
		    sqrt(1 - w->measured / w->requests)) - 1);
}

/* SQLite derives its name from the letters of the file's, kprof_sqlite. */
__attribute__((visibility("default"))) int
sqlite3_kprofsqlite_init(sqlite3 *db, char **why,
    const sqlite3_api_routines *api);

int
sqlite3_kprofsqlite_init(sqlite3 *db, char **why,
    const sqlite3_api_routines *api)
{
	const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC |
	    SQLITE_INNOCUOUS;
	int rc;

	SQLITE_EXTENSION_INIT2(api);
	if (sqlite3_libversion_number() < SQLITE_LEAST) {
		*why = sqlite3_mprintf("kprof_sqlite needs SQLite 3.25 or "
		    "later, this is %s", sqlite3_libversion());
		return SQLITE_ERROR;
	}
	rc = sqlite3_create_function_v2(db, "kprof_quantile", 2, flags, NULL,
	    quantile, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_function_v2(db, "kprof_count", 1, flags,
		    NULL, count, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_function_v2(db, "kprof_stddev", 1, flags,
		    NULL, stddev, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_function_v2(db, "kprof_within", 6, flags,
		    NULL, NULL, within_step, within_final, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_window_function(db, "kprof_merge", 1,
		    flags, NULL, merge_step, merge_final, merge_value,
		    merge_inverse, NULL);
	return rc;
}
