/*
 * Two ranges side by side: the figures of both, what is new and what is gone,
 * and a change told only where there is one.
 */
#include <math.h>
#include <sqlite3.h>
#include <time.h>

#include "cases.h"
#include "text/text.h"
#include "report/compare.h"

#define MS KP_NS_PER_MS
#define S KP_NS_PER_S
#define T0 (INT64_C(1795255200) * S)	/* 2026-11-21T10:00:00Z */

static struct kp_tier tiers[] = { { .name = "http" }, { .name = "db" } };
static const struct kp_conf conf = { .tiers = tiers, .ntiers = 2 };
static struct kp_tier later[] = { { .name = "db" }, { .name = "cache" } };
static const struct kp_conf later_conf = { .tiers = later, .ntiers = 2 };
static struct kp_buf buf;
static uint64_t seed;

FIXTURE(setup)
{
	setenv("TZ", "UTC", 1);
	tzset();
	seed = 1;
	kp_buf_init(&buf, 1 << 20);
	return 0;
}

FIXTURE(teardown)
{
	kp_buf_free(&buf);
	return 0;
}

static double
uniform(void)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return ((double)(seed >> 20) + 0.5) / 17592186044416.0;
}

/* Starts at T0 plus so many minutes, and is as long as told. */
static struct kp_window *
new_window(int at, int minutes)
{
	struct kp_window *w = calloc(1, sizeof(*w));

	w->node = "app@host";
	w->start = T0 + at * 60 * S;
	w->end = w->start + minutes * 60 * S;
	w->cells = calloc(32, sizeof(*w->cells));
	return w;
}

static struct kp_cell *
cell_of(struct kp_window *w, const char *tier, const char *identity)
{
	for (size_t i = 0; i < w->ncells; i++) {
		if (strcmp(w->cells[i].tier, tier) == 0 &&
		    strcmp(w->cells[i].identity, identity) == 0)
			return &w->cells[i];
	}
	w->cells[w->ncells] = (struct kp_cell){ .tier = tier,
		.identity = identity, .min = -1 };
	return &w->cells[w->ncells++];
}

/* One request of weight 1 with so many calls of a tier, each of d ns. */
static void
add_to(struct kp_cell *c, unsigned calls, kp_dur_ns d)
{
	c->requests++;
	c->w_requests++;
	for (; calls > 0; calls--) {
		c->calls++;
		c->w_calls++;
		c->timed++;
		c->w_timed++;
		c->total += d;
		c->w_total += d;
		c->busy += d;
		c->w_busy += d;
		c->min = c->min < 0 || d < c->min ? d : c->min;
		c->max = d > c->max ? d : c->max;
		assert_int_equal(kp_hist_add(&c->hist, d, 1), KP_OK);
	}
}

static void
add(struct kp_window *w, const char *tier, const char *identity,
    unsigned calls, kp_dur_ns d)
{
	add_to(cell_of(w, tier, identity), calls, d);
	add_to(cell_of(w, tier, "_total"), calls, d);
}

static void
add_many(struct kp_window *w, const char *identity, int n, kp_dur_ns http,
    kp_dur_ns db)
{
	for (int i = 0; i < n; i++) {
		add(w, "_total", identity, 1, http + 10 * MS);
		add(w, "http", identity, 1, http);
		add(w, "db", identity, 1, db);
	}
}

static struct compare *
compare_of(struct kp_window *now, const struct kp_conf *now_conf,
    struct kp_window *then)
{
	struct report *a, *b;
	struct compare *v;

	assert_int_equal(report_from_window(now, now_conf, &a), KP_OK);
	assert_int_equal(report_from_window(then, &conf, &b), KP_OK);
	kp_window_free(now);
	kp_window_free(then);
	assert_int_equal(compare_make(&v, a, b), KP_OK);
	return v;
}

static void
free_all(struct compare *v)
{
	report_free((struct report *)v->now);
	report_free((struct report *)v->then);
	compare_free(v);
}

static const char *
table(const struct compare *v, unsigned width, bool percentiles)
{
	const struct report_opts o = { .width = width,
		.percentiles = percentiles };

	kp_buf_reset(&buf);
	compare_table(&buf, v, &o);
	assert_int_equal(buf.err, KP_OK);
	return kp_buf_cstr(&buf);
}

/* create is slower, update is gone, delete is new: in all too few. */
static struct compare *
known(void)
{
	struct kp_window *now = new_window(60, 60), *then = new_window(0, 60);

	add_many(then, "create", 300, 50 * MS, 20 * MS);
	add_many(then, "update", 100, 40 * MS, 30 * MS);
	add_many(now, "create", 330, 75 * MS, 20 * MS);
	add_many(now, "delete", 5, 20 * MS, 10 * MS);
	now->losses.n[KP_LOSS_STALE] = 3;
	then->losses.n[KP_LOSS_EXPIRED] = 2;
	return compare_of(now, &conf, then);
}

TEST(test_table)
{
	struct compare *v = known();

	assert_string_equal(table(v, 0, false),
	    "              --- requests ----  ------ total -------  "
	    "------- http -------  -------- db --------\n"
	    "              now  then  change    now   then  change  "
	    "  now   then  change    now   then  change\n"
	    "-------------------------------------------------------"
	    "------------------------------------------\n"
	    "all requests  335   400   -16 %  84 ms  58 ms   +46 %  "
	    "74 ms  48 ms   +56 %  20 ms  23 ms   -12 %\n"
	    "-------------------------------------------------------"
	    "------------------------------------------\n"
	    "create        330   300  ~+10 %  85 ms  60 ms   +42 %  "
	    "75 ms  50 ms   +50 %  20 ms  20 ms     0 %\n"
	    "delete          5     -    ~new  30 ms      -          "
	    "20 ms      -          10 ms      -\n"
	    "update          -   100    gone      -  50 ms          "
	    "    -  40 ms              -  30 ms\n"
	    "\n"
	    "                       -- figure --  - absolute -  ------ 95 % ------  - relative -  ---- 95 % ----\n"
	    "whole request            now   then        change      from        to        change    from      to\n"
	    "---------------------------------------------------------------------------------------------------\n"
	    "all requests   req/s    0.09   0.11         -0.02     -0.03    -<0.01         -16 %   -28 %  -2.9 %\n"
	    "               errors    0 %    0 %          0 pp  -0.95 pp  +1.13 pp           0 %       -       -\n"
	    "               mean    84 ms  58 ms        +27 ms    +26 ms    +28 ms         +46 %   +45 %   +48 %\n"
	    "               p50     85 ms  60 ms        +25 ms    +23 ms    +27 ms         +42 %   +39 %   +45 %\n"
	    "               p90     85 ms  60 ms        +25 ms    +23 ms    +27 ms         +42 %   +39 %   +45 %\n"
	    "               p99     85 ms  60 ms       ~+25 ms         -         -        ~+42 %       -       -\n"
	    "---------------------------------------------------------------------------------------------------\n"
	    "create         req/s    0.09   0.08        ~+0.01     -0.01     +0.02        ~+10 %  -6.2 %   +29 %\n"
	    "               errors    0 %    0 %          0 pp  -1.26 pp  +1.15 pp           0 %       -       -\n"
	    "               mean    85 ms  60 ms        +25 ms    +25 ms    +25 ms         +42 %   +42 %   +42 %\n"
	    "               p50     85 ms  60 ms        +25 ms    +23 ms    +27 ms         +42 %   +39 %   +45 %\n"
	    "               p90     85 ms  60 ms        +25 ms    +23 ms    +27 ms         +42 %   +39 %   +45 %\n"
	    "               p99     85 ms  60 ms       ~+25 ms         -         -        ~+42 %       -       -\n"
	    "\n"
	    "time in tier (inclusive) per request\n"
	    "~ before a change, uncertain: fewer than 30 measured in one of "
	    "the ranges, few above a percentile, or no more than chance can make\n"
	    "\n"
	    "now: 2026-11-21 11:00:00 to 12:00:00 UTC (1h), app@host\n"
	    "losses:\n"
	    "           3 calls     not measured: they belong to no request "
	    "of the last 30 s (stale)\n"
	    "\n"
	    "then: 2026-11-21 10:00:00 to 11:00:00 UTC (1h), app@host\n"
	    "losses:\n"
	    "           2 requests  without a time: no end was seen within "
	    "60 s (expired)\n");
	assert_lacks(kp_buf_cstr(&buf), "\nhttp  ");
	assert_has(table(v, 0, true), "\nhttp  ");
	free_all(v);
}

/* No line is wider than the terminal, and a group's columns stay together. */
TEST(test_widths)
{
	struct compare *v = known();
	const char *s, *end;
	char line[512];

	for (unsigned width = 40; width < 120; width++) {
		s = table(v, width, true);
		for (; *s != '\0'; s = end + 1) {
			end = strchr(s, '\n');
			memcpy(line, s, (size_t)(end - s));
			line[end - s] = '\0';
			if (text_width(line) > width)
				fail_msg("%u: %s", width, line);
			/* one "then" for each "now" in a line of heads */
			if (strstr(line, " now  ") != NULL)
				assert_has(strstr(line, " now  "), " then");
		}
	}
	free_all(v);
}

static struct compare_figure
figure(const struct compare *v, size_t row, size_t tier)
{
	return compare_value(v, &v->rows[row], &v->tiers[tier], REPORT_BUSY);
}

/* By the second: half of the time, the same load. */
/* Those that changed least become one, where the terminal has no room for all. */
TEST(test_cheapest_are_one)
{
	static struct kp_tier six[] = { { .name = "a" }, { .name = "b" },
		{ .name = "c" }, { .name = "d" }, { .name = "e" }, { .name = "f" } };
	static const struct kp_conf of_six = { .tiers = six, .ntiers = 6 };
	static const unsigned calls[2][6] = { { 9, 1, 2, 8, 3, 1 },
		{ 2, 1, 1, 4, 3, 2 } };
	struct report_opts o = { .what = REPORT_CALLS, .width = 60 };
	struct kp_window *w[2] = { new_window(60, 10), new_window(0, 10) };
	struct report *r[2];
	struct compare *v;

	for (int k = 0; k < 2; k++) {
		add(w[k], "_total", "get", 1, 10 * MS);
		for (int t = 0; t < 6; t++)
			add(w[k], six[t].name, "get", calls[k][t], MS);
		assert_int_equal(report_from_window(w[k], &of_six, &r[k]), KP_OK);
		kp_window_free(w[k]);
	}
	assert_int_equal(compare_make(&v, r[0], r[1]), KP_OK);
	kp_buf_reset(&buf);
	compare_table(&buf, v, &o);
	assert_has(kp_buf_cstr(&buf), " a ");
	assert_has(kp_buf_cstr(&buf), "- 5 other -");
	assert_has(kp_buf_cstr(&buf), "  15.0  11.0  ~+36 %\n");
	assert_has(kp_buf_cstr(&buf), "\n5 other: the sum of tiers that changed less: b, "
	    "c, d, e, f;\n  a wider terminal shows them, and less -S behind a pipe\n");
	/* what rows are in order of stays; and all are there where there is room */
	o.keep = "f";
	kp_buf_reset(&buf);
	compare_table(&buf, v, &o);
	assert_has(kp_buf_cstr(&buf), "less: a, b, c, d, e;\n");
	o.what = REPORT_TOTAL;
	kp_buf_reset(&buf);
	compare_table(&buf, v, &o);
	assert_lacks(kp_buf_cstr(&buf), "other");
	assert_has(kp_buf_cstr(&buf), "\nno room for tiers that changed less: a, b, c, d,");
	o.width = 0;
	kp_buf_reset(&buf);
	compare_table(&buf, v, &o);
	assert_lacks(kp_buf_cstr(&buf), "changed less");
	free_all(v);
}

TEST(test_rates)
{
	struct kp_window *now = new_window(60, 30), *then = new_window(0, 60);
	struct compare_figure f;
	struct compare *v;

	add_many(then, "create", 400, MS, MS);
	add_many(now, "create", 200, MS, MS);
	v = compare_of(now, &conf, then);
	f = compare_rate(v, &v->rows[1]);
	assert_true(fabs(compare_change(&f)) < 1e-9);
	assert_true(fabs(f.now - 200 / 1800.0) < 1e-9);
	assert_has(table(v, 0, false),
	    "\nrequests: their change is by the second; they were "
	    "counted for 30m now, 1h then\n");
	assert_lacks(kp_buf_cstr(&buf), "in common");
	free_all(v);
	now = new_window(30, 60);
	add_many(now, "create", 200, MS, MS);
	then = new_window(0, 60);
	add_many(then, "create", 200, MS, MS);
	v = compare_of(now, &conf, then);
	assert_has(table(v, 0, false), "\nboth ranges have windows in common");
	assert_lacks(kp_buf_cstr(&buf), "by the second");
	free_all(v);
}

/* Tiers of either tiers.conf, each once. */
TEST(test_tiers)
{
	struct kp_window *now = new_window(60, 60), *then = new_window(0, 60);
	struct compare_figure f;
	struct compare *v;

	add_many(then, "create", 50, 2 * MS, 1 * MS);
	for (int i = 0; i < 50; i++) {
		add(now, "_total", "create", 1, 12 * MS);
		add(now, "db", "create", 1, 2 * MS);
		add(now, "cache", "create", 1, 3 * MS);
	}
	v = compare_of(now, &later_conf, then);
	assert_fields(*v, IS(ntiers, 4) IS(tiers[1].name, "db")
	    IS(tiers[2].name, "cache") IS(tiers[3].name, "http"));
	f = figure(v, 1, 1);
	assert_true(fabs(compare_change(&f) - 1) < 1e-9);
	assert_false(f.uncertain);
	f = figure(v, 1, 2);
	assert_true(f.then < 0 && isnan(compare_change(&f)));
	assert_has(table(v, 0, false),
	    "2.0 ms  1.0 ms  +100 %  3.0 ms     -     new    -  2.0 ms"
	    "    gone\n");
	free_all(v);
}

static kp_dur_ns
exponential(double mean)
{
	return (kp_dur_ns)(-log(uniform()) * mean);
}

/* n requests, one in so many with 1 to 3 calls of db, times drawn, of which some fail. */
static struct kp_window *
drawn(int at, int n, double mean, double through, double fails)
{
	struct kp_window *w = new_window(at, 60);
	struct kp_cell *c;

	for (int i = 0; i < n; i++) {
		add(w, "_total", "create", 1, exponential(mean));
		c = cell_of(w, "_total", "create");
		c->raised = c->w_raised += uniform() < fails;
		if (uniform() < through)
			add(w, "db", "create", 1 + (unsigned)(3 * uniform()),
			    exponential(mean));
	}
	return w;
}

struct told {
	int changes, of;	/* certain ones, of so many */
	int within;		/* intervals of the change that hold what it truly is */
};

/* factor: by which it truly changed. */
static void
count(struct told *t, struct compare_figure f, double factor)
{
	t->changes += !f.uncertain && fabs(compare_change(&f)) > 0;
	t->within += f.change.low <= factor - 1 && factor - 1 <= f.change.high;
	t->of++;
	if (fabs(f.now - f.then) > 0)
		assert_int_equal(f.uncertain, f.difference.low <= 0 && f.difference.high >= 0);
	assert_int_equal(f.difference.low <= 0 && f.difference.high >= 0,
	    f.change.low <= 0 && f.change.high >= 0);
}

/*
 * Where both are draws of one thing, about one change in twenty is told by
 * mistake; where one is truly greater, it is told.
 */
TEST(test_chance)
{
	static const enum report_of of[] = { REPORT_OF_MEAN, REPORT_OF_P50, REPORT_OF_P90,
		REPORT_OF_P99 };
	struct told same[8] = { 0 }, more[8] = { 0 }, *t;
	double factor, calls;
	struct compare *v;
	size_t k;

	for (int i = 0; i < 400; i++) {
		t = i % 2 == 0 ? same : more;
		factor = i % 2 == 0 ? 1 : 1.6;
		calls = i % 2 == 0 ? 1 : 5.0 / 3;
		v = compare_of(drawn(60, 1200, i % 2 == 0 ? 5e6 : 8e6,
		    i % 2 == 0 ? 0.3 : 0.5, i % 2 == 0 ? 0.05 : 0.15), &conf,
		    drawn(0, 1200, 5e6, 0.3, 0.05));
		for (k = 0; k < 4; k++)
			count(&t[k], compare_call(&v->rows[1], &v->tiers[0], of[k]), factor);
		count(&t[4], figure(v, 1, 2), factor * calls);
		count(&t[5], compare_value(v, &v->rows[1], &v->tiers[2],
		    REPORT_CALLS), calls);
		count(&t[6], compare_call(&v->rows[1], &v->tiers[2], REPORT_OF_MEAN), factor);
		count(&t[7], compare_call(&v->rows[1], &v->tiers[0], REPORT_OF_RAISED),
		    i % 2 == 0 ? 1 : 3);
		free_all(v);
	}
	for (k = 0; k < 8; k++) {
		for (t = same; t != NULL; t = t == same ? more : NULL)
			if (t[k].within < t[k].of * 9 / 10)
				fail_msg("%zu: %d of %d intervals hold what is true", k,
				    t[k].within, t[k].of);
		if (same[k].changes > same[k].of / 8)
			fail_msg("%zu: %d of %d told by mistake", k,
			    same[k].changes, same[k].of);
		if (more[k].changes < more[k].of * 9 / 10)
			fail_msg("%zu: only %d of %d told", k,
			    more[k].changes, more[k].of);
	}
}

/* Of this many requests as many fail. */
static struct kp_window *
failing(int at, int n, int fail)
{
	struct kp_window *w = new_window(at, 60);

	for (int i = 0; i < n; i++)
		add(w, "_total", "create", 1, MS);
	for (size_t i = 0; i < w->ncells; i++)
		w->cells[i].raised = w->cells[i].w_raised = (uint64_t)fail;
	return w;
}

/*
 * R. G. Newcombe, "Interval estimation for the difference between independent proportions",
 * 1998, table II: method 10 of the first.  Of 0 there is a difference, and nothing relative.
 */
TEST(test_errors)
{
	static const struct {
		int now[2], then[2];
		double low, high;
	} t[] = { { { 56, 70 }, { 48, 80 }, 0.0524, 0.3339 },
		{ { 9, 10 }, { 3, 10 }, NAN, NAN }, { { 10, 56 }, { 0, 48 }, 0.0706, 0.2984 },
		{ { 0, 100 }, { 0, 100 }, -0.0370, 0.0370 } };
	struct compare_figure f;
	struct compare *v;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		v = compare_of(failing(60, t[i].now[1], t[i].now[0]), &conf,
		    failing(0, t[i].then[1], t[i].then[0]));
		f = compare_call(&v->rows[1], &v->tiers[0], REPORT_OF_RAISED);
		assert_true(fabs(f.now - (double)t[i].now[0] / t[i].now[1]) < 1e-9);
		assert_int_equal(f.uncertain, isnan(t[i].low));
		assert_int_equal(isnan(f.difference.low), isnan(t[i].low));
		if (fabs(f.difference.low - t[i].low) > 1e-4 ||
		    fabs(f.difference.high - t[i].high) > 1e-4)
			fail_msg("%zu: %f to %f", i, f.difference.low, f.difference.high);
		assert_int_equal(isnan(f.change.low), i > 0);
		free_all(v);
	}
}

/* How some ended was not seen: no share, where 0 of those seen raised. */
TEST(test_errors_not_seen)
{
	struct kp_window *now = failing(60, 100, 0), *then = failing(0, 100, 5);
	struct compare_figure f;
	struct compare *v;

	now->cells[0].unknown_outcomes = now->cells[0].w_unknown_outcomes = 1;
	v = compare_of(now, &conf, then);
	f = compare_call(&v->rows[1], &v->tiers[0], REPORT_OF_RAISED);
	assert_true(f.now < 0 && fabs(f.then - 0.05) < 1e-9 && isnan(f.difference.low));
	assert_has(table(v, 0, false), "errors       -   5.0 %             -         -         -             -");
	free_all(v);
}

/* 29 are too few to tell anything, however clear it looks. */
TEST(test_few)
{
	struct compare_figure f;
	struct compare *v;

	for (int n = 29; n <= 30; n++) {
		struct kp_window *now = new_window(60, 60);
		struct kp_window *then = new_window(0, 60);

		add_many(now, "create", n, 500 * MS, MS);
		add_many(then, "create", 1000, MS, MS);
		v = compare_of(now, &conf, then);
		f = figure(v, 1, 1);
		assert_int_equal(f.uncertain, n < 30);
		f = compare_call(&v->rows[1], &v->tiers[1], REPORT_OF_MEAN);
		assert_int_equal(f.uncertain, n < 30);
		/* the 99th percentile has less than one of them above it */
		f = compare_call(&v->rows[1], &v->tiers[1], REPORT_OF_P99);
		assert_true(f.uncertain);
		f = compare_rate(v, &v->rows[1]);
		assert_int_equal(f.uncertain, n < 30);
		free_all(v);
	}
}

TEST(test_sort)
{
	struct kp_window *now = new_window(60, 60), *then = new_window(0, 60);
	static const char *const want[] = { "_total", "new", "slower", "same",
		"gone", "faster" };
	struct compare *v;

	add_many(then, "slower", 100, 10 * MS, MS);
	add_many(now, "slower", 100, 20 * MS, MS);
	add_many(then, "same", 5000, 10 * MS, MS);
	add_many(now, "same", 5000, 10 * MS, MS);
	add_many(now, "new", 1000, 10 * MS, MS);
	add_many(then, "gone", 100, 10 * MS, MS);
	add_many(then, "faster", 1000, 100 * MS, MS);
	add_many(now, "faster", 1000, 10 * MS, MS);
	v = compare_of(now, &conf, then);
	compare_sort_change(v, false);
	assert_int_equal(v->nrows, 6);
	for (size_t i = 0; i < 6; i++)
		assert_string_equal(compare_name(&v->rows[i]), want[i]);
	assert_string_equal(compare_state(&v->rows[1]), "new");
	assert_string_equal(compare_state(&v->rows[4]), "gone");
	free_all(v);
}

/* What SQLite reads out of our JSON; "null" for null. */
static const char *
json_at(const char *path)
{
	static char got[200];
	sqlite3_stmt *st;
	sqlite3 *db;
	const char *s;

	sqlite3_open(":memory:", &db);
	sqlite3_prepare_v2(db, "select json_extract(?, ?)", -1, &st, NULL);
	sqlite3_bind_text(st, 1, kp_buf_cstr(&buf), -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, path, -1, SQLITE_STATIC);
	if (sqlite3_step(st) != SQLITE_ROW)
		fail_msg("%s: %s", path, sqlite3_errmsg(db));
	s = (const char *)sqlite3_column_text(st, 0);
	snprintf(got, sizeof(got), "%s", s != NULL ? s : "null");
	sqlite3_finalize(st);
	sqlite3_close(db);
	return got;
}

TEST(test_json)
{
	static const struct {
		const char *path, *want;
	} t[] = {
		{ "$.now.losses[0].cause", "stale" },
		{ "$.then.losses[0].cause", "expired" },
		{ "$.now.rows[0].requests", "335" },
		{ "$.now.covered_ms", "3600000" },
		{ "$.changes[0].identity", "_total" },
		{ "$.changes[1].identity", "create" },
		{ "$.changes[1].state", "both" },
		{ "$.changes[1].requests.now", "330" },
		{ "$.changes[1].requests.change_percent", "10.0" },
		{ "$.changes[1].requests.uncertain", "1" },
		{ "$.changes[1].figures[0].tier", "_total" },
		{ "$.changes[1].figures[0].figure", "mean_ms" },
		{ "$.changes[1].figures[0].now", "85" },
		{ "$.changes[1].figures[1].tier", "http" },
		{ "$.changes[1].figures[1].figure", "busy_per_request_ms" },
		{ "$.changes[1].figures[1].then", "50" },
		{ "$.changes[1].figures[1].change_percent", "50.0" },
		{ "$.changes[1].figures[1].uncertain", "0" },
		{ "$.changes[2].state", "new" },
		{ "$.changes[2].requests.then", "null" },
		{ "$.changes[2].requests.change_percent", "null" },
		{ "$.changes[3].state", "gone" },
		{ "$.changes[4]", "null" },
	};
	struct compare *v = known();

	compare_json(&buf, v, REPORT_BUSY);
	assert_ptr_equal(strchr(kp_buf_cstr(&buf), '\n'),
	    kp_buf_cstr(&buf) + buf.len - 1);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		if (strcmp(json_at(t[i].path), t[i].want) != 0 &&
		    fabs(atof(json_at(t[i].path)) - atof(t[i].want)) > 1e-6)
			fail_msg("%s: %s, expected %s", t[i].path,
			    json_at(t[i].path), t[i].want);
	}
	free_all(v);
}

TEST(test_csv)
{
	static const char *const lines[] = {
		"identity,state,tier,figure,now,then,change_percent,uncertain,"
		    "now_known,then_known,less_tracing,difference_low,difference_high,"
		    "change_percent_low,change_percent_high\n",
		"\ncreate,both,_total,requests_per_s,",
		"\ncreate,both,_total,mean_ms,85,60,41.66666667,0,,,0,",
		"\ncreate,both,http,busy_per_request_ms,75,50,50,0,,,0,",
		"\ndelete,new,http,busy_per_request_ms,20,,,1,,,0,,,,\n",
		"\nupdate,gone,http,busy_per_request_ms,,40,,0,,,0,,,,\n",
	};
	struct compare *v = known();

	compare_csv(&buf, v, REPORT_BUSY);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (strstr(kp_buf_cstr(&buf), lines[i]) == NULL)
			fail_msg("no '%s' in\n%s", lines[i],
			    kp_buf_cstr(&buf));
	}
	free_all(v);
}

/* That an N+1 was mended shows: which calls a request makes fewer of. */
TEST(test_labels)
{
	static const char *const lines[] = {
		"\ncreate,both,\"db: users\",calls_per_request,2,20,-90,0,,,0,",
		"\ncreate,both,\"db: users\",busy_per_request_ms,2,20,-90,0,,,0,",
		"\ncreate,both,\"db: one user\",calls_per_request,,1,,0,,,0,,,,\n",
		"\n_total,both,\"db: join\",calls_per_request,1,,,0,,,0,,,,\n",
	};
	struct kp_window *now = new_window(60, 60), *then = new_window(0, 60);
	struct compare *v;

	add_many(then, "create", 100, 50 * MS, 21 * MS);
	add_many(then, "gone", 100, 50 * MS, 21 * MS);
	add_many(now, "create", 100, 50 * MS, 3 * MS);
	for (int i = 0; i < 100; i++) {
		add(then, "db: users", "create", 20, MS);
		add(then, "db: one user", "create", 1, MS);
		add(then, "db: users", "gone", 20, MS);
		add(now, "db: users", "create", 2, MS);
		add(now, "db: join", "create", 1, MS);
	}
	v = compare_of(now, &conf, then);
	assert_int_equal(v->nlabels, 3);
	assert_has(table(v, 0, false), "\n"
	    "db, by label         now  then  change     now    then  change     now    then  change\n"
	    "--------------------------------------------------------------------------------------\n"
	    "users in create     2.00  20.0   -90 %  2.0 ms   20 ms   -90 %  1.0 ms  1.0 ms     0 %\n"
	    "join in create      1.00     -     new  1.0 ms       -     new  1.0 ms       -     new\n"
	    "one user in create     -  1.00    gone       -  1.0 ms    gone       -  1.0 ms    gone\n"
	    "\n");
	kp_buf_reset(&buf);
	compare_csv(&buf, v, REPORT_BUSY);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (strstr(kp_buf_cstr(&buf), lines[i]) == NULL)
			fail_msg("no '%s' in\n%s", lines[i], kp_buf_cstr(&buf));
	free_all(v);
}

/*
 * The VM counted 3 300 of which 300 were measured: the change was that of the
 * estimate, 3 000, and programs were given the estimate.
 */
TEST(test_sampled)
{
	struct kp_window *now = new_window(60, 60), *then = new_window(0, 60);
	struct compare *v;

	add_many(then, "create", 300, MS, MS);
	add_many(now, "create", 300, MS, MS);
	for (size_t i = 0; i < now->ncells; i++) {
		now->cells[i].w_requests *= 10;
		now->cells[i].w_calls *= 10;
		now->cells[i].w_timed *= 10;
		now->cells[i].w_total *= 10;
		now->cells[i].w_busy *= 10;
	}
	now->entry_calls = 3300;
	now->sampled = then->sampled = then->entry_calls = 300;
	v = compare_of(now, &conf, then);
	assert_has(table(v, 0, true),
	    "\nall requests   3 300   300  +1 000 %  11 ms  ");
	assert_has(kp_buf_cstr(&buf),
	    "\ncreate        ~3 000   300    +900 %  11 ms  ");
	assert_has(kp_buf_cstr(&buf), "\nall requests   req/s    0.92   0.08  ");
	assert_has(kp_buf_cstr(&buf), "\ncreate         req/s    0.83   0.08  ");
	kp_buf_reset(&buf);
	compare_json(&buf, v, REPORT_BUSY);
	assert_string_equal(json_at("$.changes[0].requests.now"), "3300");
	assert_string_equal(json_at("$.changes[0].requests.now_known"), "1");
	assert_string_equal(json_at("$.changes[1].requests.now"), "3000");
	assert_string_equal(json_at("$.changes[1].requests.now_known"), "0");
	assert_string_equal(json_at("$.changes[1].requests.then_known"), "1");
	kp_buf_reset(&buf);
	compare_csv(&buf, v, REPORT_BUSY);
	assert_has(kp_buf_cstr(&buf), "\ncreate,both,_total,"
	    "requests_per_s,0.8333333333,0.08333333333,900,0,0,1,0,");
	free_all(v);
}

/* Calls that outlast their requests are measured, too: 18 ms after, not 9. */
TEST(test_outlasting)
{
	struct kp_window *w[] = { new_window(60, 60), new_window(0, 60) };
	struct compare_figure f;
	struct kp_cell *c;
	struct compare *v;

	for (int i = 0; i < 2; i++) {
		add_many(w[i], "create", 300, 50 * MS, 20 * MS);
		c = cell_of(w[i], "db", "create");
		c->outlasting = c->w_outlasting = 300;
		c->async = c->w_async = 300 * (i == 0 ? 18 : 9) * MS;
	}
	v = compare_of(w[0], &conf, w[1]);
	f = compare_value(v, &v->rows[1], &v->tiers[2], REPORT_ASYNC);
	assert_true(fabs(compare_change(&f) - 1) < 1e-6);
	assert_false(f.uncertain);
	free_all(v);
}

/* With tracing's part subtracted every time is an estimate, and looks like it. */
TEST(test_less_tracing)
{
	struct kp_window *now = new_window(60, 60), *then = new_window(0, 60);
	struct compare *v;

	add_many(then, "create", 300, 50 * MS, 20 * MS);
	add_many(now, "create", 300, 75 * MS, 20 * MS);
	now->cost.traced_call = then->cost.traced_call = 5 * MS;
	v = compare_of(now, &conf, then);
	assert_true(report_less_tracing((struct report *)v->now));
	assert_true(report_less_tracing((struct report *)v->then));
	assert_has(table(v, 0, true), "\ncreate        300   300  "
	    "   0 %  ~80 ms  ~55 ms   +45 %  ~70 ms  ~45 ms   +56 %  ~15 ms  "
	    "~15 ms     0 %\n");
	assert_has(kp_buf_cstr(&buf), "mean    ~80 ms  ~55 ms        +25 ms");
	kp_buf_reset(&buf);
	compare_csv(&buf, v, REPORT_BUSY);
	assert_has(kp_buf_cstr(&buf), ",less_tracing,");
	assert_has(kp_buf_cstr(&buf), "\ncreate,both,http,"
	    "busy_per_request_ms,70,45,55.55555556,0,,,1,");
	free_all(v);
}

/* Nothing on either side: still valid, and no division by it. */
TEST(test_empty)
{
	struct compare *v = compare_of(new_window(60, 60), &conf,
	    new_window(0, 60));

	assert_int_equal(v->nrows, 1);
	table(v, 0, true);
	kp_buf_reset(&buf);
	compare_json(&buf, v, REPORT_CALLS);
	assert_string_equal(json_at("$.changes[0].requests.now"), "0");
	free_all(v);
}

TESTS(setup, teardown)
