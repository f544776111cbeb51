/*
 * The SQLite extension, loaded as any program loads it: what it merges is
 * what was added, quantiles are those of the durations themselves, and no
 * blob makes it do more than fail.
 */
#include <math.h>
#include <sqlite3.h>
#include <unistd.h>

#include "cases.h"
#include "kprofd/hist.h"

#define ERROR_MAX 0.011		/* of a quantile, as hist.h promises */

static sqlite3 *db;
static uint64_t seed;

static uint64_t
pick(uint64_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (seed >> 20) % n;
}

static void
run(const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
}

/* By the name of the file alone: SQLite has to find the entry point. */
static void
load(sqlite3 *to)
{
	char path[4096], *why = NULL;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);

	assert_true(n > 0);
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	strcpy(strrchr(path, '/'), "/kprof_sqlite");
	sqlite3_db_config(to, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
	if (sqlite3_load_extension(to, path, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", path, why);
}

FIXTURE(setup)
{
	seed = 1;
	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	load(db);
	run("create table t (g, at integer primary key, h)");
	return 0;
}

FIXTURE(teardown)
{
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	return 0;
}

static void
insert(int g, const void *p, size_t n)
{
	sqlite3_stmt *st;

	sqlite3_prepare_v2(db, "insert into t (g, h) values (?, ?)", -1, &st,
	    NULL);
	sqlite3_bind_int(st, 1, g);
	sqlite3_bind_blob(st, 2, p, (int)n, SQLITE_TRANSIENT);
	assert_int_equal(sqlite3_step(st), SQLITE_DONE);
	sqlite3_finalize(st);
}

static void
insert_hist(int g, const struct kp_hist *h)
{
	struct kp_buf b;

	kp_buf_init(&b, 1 << 20);
	kp_hist_write(h, &b);
	insert(g, b.p, b.len);
	kp_buf_free(&b);
}

static int64_t
number(const char *sql)
{
	sqlite3_stmt *st;
	int64_t v;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK ||
	    sqlite3_step(st) != SQLITE_ROW)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	v = sqlite3_column_type(st, 0) == SQLITE_NULL ? -1 :
	    sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return v;
}

/* The statement fails, and what it says holds this. */
static void
fails(const char *sql, const char *why)
{
	sqlite3_stmt *st;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL),
	    SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ERROR);
	if (strstr(sqlite3_errmsg(db), why) == NULL)
		fail_msg("%s: '%s', expected '%s'", sql, sqlite3_errmsg(db),
		    why);
	sqlite3_finalize(st);
}

struct raw {
	kp_dur_ns d;
	uint64_t weight;
	int row;
};

static int
raw_cmp(const void *pa, const void *pb)
{
	const struct raw *a = pa, *b = pb;

	return (a->d > b->d) - (a->d < b->d);
}

/* The duration of that rank, among those of rows first to last. */
static kp_dur_ns
brute_quantile(struct raw *v, size_t n, int first, int last, double q)
{
	uint64_t total = 0, seen = 0, rank;
	size_t i, at = 0;

	qsort(v, n, sizeof(*v), raw_cmp);
	for (i = 0; i < n; i++) {
		if (v[i].row >= first && v[i].row <= last)
			total += v[i].weight;
	}
	rank = (uint64_t)ceil(q * (double)total - 1e-9);
	for (i = 0; i < n && (seen < rank || seen == 0); i++) {
		if (v[i].row < first || v[i].row > last)
			continue;
		seen += v[i].weight;
		at = i;
	}
	return v[at].d;
}

static void
assert_near(int64_t got, int64_t want)
{
	if (fabs((double)(got - want)) > ERROR_MAX * (double)want + 1)
		fail_msg("%lld, expected about %lld", (long long)got,
		    (long long)want);
}

#define ROWS 40
#define PER_ROW 50

/* Row by row a histogram of durations from 1 ns to an hour, some weighted. */
static void
fill(struct raw *raw)
{
	struct kp_hist h;
	struct raw *r = raw;

	for (int row = 1; row <= ROWS; row++) {
		kp_hist_init(&h);
		for (int i = 0; i < PER_ROW; i++, r++) {
			*r = (struct raw){ (kp_dur_ns)exp2((double)
			    pick(41000) / 1000), 1 + pick(3) * pick(20), row };
			assert_int_equal(kp_hist_add(&h, r->d, r->weight),
			    KP_OK);
		}
		insert_hist(row % 3, &h);
		kp_hist_free(&h);
	}
}

TEST(test_merge)
{
	static const double q[] = { 0, 0.001, 0.25, 0.5, 0.9, 0.99, 1 };
	struct raw raw[ROWS * PER_ROW];
	uint64_t total = 0;
	char sql[200];

	fill(raw);
	for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++) {
		snprintf(sql, sizeof(sql), "select kprof_quantile("
		    "kprof_merge(h), %g) from t", q[i]);
		assert_near(number(sql), brute_quantile(raw, ROWS * PER_ROW,
		    1, ROWS, q[i]));
	}
	for (size_t i = 0; i < ROWS * PER_ROW; i++)
		total += raw[i].weight;
	assert_int_equal(number("select kprof_count(kprof_merge(h)) from t"),
	    total);
	/* of groups, of merges, in any order: always the same bytes */
	assert_int_equal(number("with g as (select kprof_merge(h) m from t "
	    "group by g) select (select kprof_merge(m) from g) = "
	    "(select kprof_merge(h) from (select h from t order by at desc))"),
	    1);
	assert_int_equal(number("select count(*) from (select kprof_count("
	    "kprof_merge(h)) n from t group by g) where n > 0"), 3);
}

/* A figure that moves along: rows leave the window again. */
TEST(test_window)
{
	struct raw raw[ROWS * PER_ROW];
	sqlite3_stmt *st;
	int n = 0;

	fill(raw);
	sqlite3_prepare_v2(db, "select at, kprof_quantile(kprof_merge(h) over "
	    "(order by at rows between 4 preceding and 1 following), 0.9) "
	    "from t order by at", -1, &st, NULL);
	while (sqlite3_step(st) == SQLITE_ROW) {
		n = sqlite3_column_int(st, 0);
		assert_near(sqlite3_column_int64(st, 1), brute_quantile(raw,
		    ROWS * PER_ROW, n - 4, n + 1, 0.9));
	}
	assert_int_equal(sqlite3_finalize(st), SQLITE_OK);
	assert_int_equal(n, ROWS);
	/* a window without rows, and one of NULLs only */
	assert_int_equal(number("select sum(m is null) from (select "
	    "kprof_merge(h) over (order by at rows between 2 following and "
	    "3 following) m from t)"), 2);
	run("update t set h = null where at between 10 and 19");
	assert_int_equal(number("select count(*) from (select at, "
	    "kprof_merge(h) over (order by at rows 4 preceding) m from t) "
	    "where m is null"), 6);
	/* by value, growing only, one for each group */
	assert_int_equal(number("select count(*) from (select g, kprof_merge(h)"
	    " over (partition by g order by at rows between unbounded "
	    "preceding and unbounded following) m, (select kprof_merge(h) "
	    "from t u where u.g = t.g) w from t) where m is w"), ROWS);
}

TEST(test_nulls)
{
	assert_int_equal(number("select kprof_merge(h) from t"), -1);
	assert_int_equal(number("select count(*) from (select kprof_merge(h) "
	    "from t group by g)"), 0);
	run("insert into t (g, h) values (1, null), (2, x'010000'), "
	    "(2, null), (3, x'01000105')");
	assert_int_equal(number("select kprof_merge(h) from t where g = 1"),
	    -1);
	/* an empty one is one all the same, and has no quantile */
	assert_int_equal(number("select kprof_merge(h) = x'010000' from t "
	    "where g = 2"), 1);
	assert_int_equal(number("select kprof_quantile(x'010000', 0.5)"), -1);
	assert_int_equal(number("select kprof_count(x'010000')"), 0);
	assert_int_equal(number("select kprof_count(kprof_merge(h)) from t"),
	    5);
	assert_int_equal(number("select kprof_quantile(null, 0.5)"), -1);
	assert_int_equal(number("select kprof_quantile(x'01000105', null)"),
	    -1);
	assert_int_equal(number("select kprof_quantile(x'01000105', 1)"),
	    1010889286);
	assert_int_equal(number("select kprof_count(null)"), -1);
	fails("select kprof_quantile('x', 0.5)", "a text is not a histogram");
}

TEST(test_wrong)
{
	static const struct {
		const char *sql, *why;
	} t[] = {
		{ "select kprof_merge(1)",
		    "kprof_merge: an integer is not a histogram" },
		{ "select kprof_merge(1.5)", "a real is not a histogram" },
		{ "select kprof_count('x')",
		    "kprof_count: a text is not a histogram" },
		{ "select kprof_merge(x'')", "an empty blob" },
		{ "select kprof_quantile(x'020000', 0.5)",
		    "kprof_quantile: no histogram that this version can read: "
		    "it begins with byte 2, not 1" },
		{ "select kprof_count(x'01')", "1 bytes that end in the" },
		{ "select kprof_count(x'01000201')", "4 bytes that end in" },
		{ "select kprof_count(x'0100010100')", "5 bytes that are not" },
		{ "select kprof_count(x'01ffff7f00')", "are not what" },
		{ "select kprof_count(x'0100ffff7f')", "are not what" },
		{ "select kprof_quantile(x'010000', 1.01)",
		    "1.01 is not a quantile (those are from 0 to 1: 0.99 for" },
		{ "select kprof_quantile(x'010000', -1)", "-1 is not a quantile" },
		{ "select kprof_quantile(x'010000', 9e999)", "Inf is no" },
		{ "select kprof_quantile(x'010000', '0.5')",
		    "a text is not a quantile" },
		{ "select kprof_quantile(x'010000', x'00')",
		    "a blob is not a quantile" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		fails(t[i].sql, t[i].why);
	/* one bad row of many, in the middle of a group and of a window */
	run("insert into t (g, h) values (1, x'01000105'), (1, x'0100'), "
	    "(1, x'01000105')");
	fails("select kprof_merge(h) from t", "2 bytes that end");
	fails("select max(m) from (select kprof_merge(h) over (order by at "
	    "rows 1 preceding) m from t)", "2 bytes that end");
}

/* Counts up to the last that fits, and no further. */
TEST(test_limits)
{
	struct kp_hist h;

	kp_hist_init(&h);
	kp_hist_add(&h, 1000, UINT64_C(1) << 63);
	insert_hist(1, &h);
	assert_int_equal(number("select kprof_count(h) from t"), INT64_MAX);
	insert_hist(1, &h);
	kp_hist_free(&h);
	fails("select kprof_merge(h) from t", "more durations than 64 bits");
	run("delete from t where at = 2");
	kp_hist_add(&h, INT64_MAX, (UINT64_C(1) << 63) - 1);
	kp_hist_add(&h, 0, 0);
	insert_hist(1, &h);
	kp_hist_free(&h);
	assert_int_equal(number("select kprof_quantile(kprof_merge(h), 1) "
	    "from t"), INT64_MAX);
	assert_near(number("select kprof_quantile(kprof_merge(h), 0.5) "
	    "from t"), 1000);
}

/* Many of the largest there are; in a view that trusts nobody. */
TEST(test_many)
{
	struct kp_hist h;

	kp_hist_init(&h);
	for (int i = 0; i < 63; i++)
		for (int k = 0; k < 64; k++)
			kp_hist_add(&h, (kp_dur_ns)(exp2(i) *
			    (1 + k / 64.0)), UINT64_C(1) << 38);
	insert_hist(0, &h);
	run("insert into t (g, h) with n(i) as (select 1 union all select i + 1 "
	    "from n where i < 4999) select 0, h from n, t where at = 1");
	run("pragma trusted_schema = off");
	run("create view v as select kprof_count(kprof_merge(h)) n from t");
	assert_int_equal(number("select n from v"), 5000 * (int64_t)h.count);
	kp_hist_free(&h);
}

/* Whatever a file holds: a row or an error. */
TEST(test_damaged)
{
	sqlite3_stmt *st;
	struct kp_hist h;
	struct kp_buf b;
	uint8_t *copy;
	int rc;

	kp_hist_init(&h);
	for (int i = 0; i < 60; i++)
		kp_hist_add(&h, (kp_dur_ns)pick(1000000000), 1 + pick(300));
	kp_buf_init(&b, 1 << 20);
	kp_hist_write(&h, &b);
	kp_hist_free(&h);
	sqlite3_prepare_v2(db, "select kprof_merge(v), kprof_quantile("
	    "kprof_merge(v), 0.9) from (select ? v union all select ?)", -1,
	    &st, NULL);
	for (size_t i = 0; i < 9 * b.len; i++) {
		/* an exact copy, so that a sanitizer sees one byte past it */
		size_t n = i < b.len ? i : b.len;

		copy = malloc(n > 0 ? n : 1);
		memcpy(copy, b.p, n);
		if (i >= b.len)
			copy[i % b.len] ^= (uint8_t)(1u << (i / b.len - 1));
		sqlite3_bind_blob(st, 1, copy, (int)n, SQLITE_STATIC);
		sqlite3_bind_blob(st, 2, b.p, (int)b.len, SQLITE_STATIC);
		rc = sqlite3_step(st);
		assert_true(rc == SQLITE_ROW || rc == SQLITE_ERROR);
		/* one that is cut is never taken */
		assert_true(rc == SQLITE_ERROR || i >= b.len);
		sqlite3_reset(st);
		free(copy);
	}
	sqlite3_finalize(st);
	kp_buf_free(&b);
}

TEST(test_connections)
{
	sqlite3 *other;

	load(db);	/* again */
	assert_int_equal(sqlite3_open(":memory:", &other), SQLITE_OK);
	load(other);
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	assert_int_equal(number("select kprof_count(x'01000105')"), 5);
}

TESTS(setup, teardown)
