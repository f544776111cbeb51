/*
 * What is made of other tables, when databases are merged or read as one:
 * times that slow requests go by, and sums of coarser levels.
 */
#include "cases.h"
#include "store/merge.h"
#include "store_fixture.h"

static const char *const times = "select request_id, tier_id, self_ns"
    " from request_time order by 1, 2";
static const char *const calls = "select request_id, 0 as tier, self_ns"
    " from call where seq = 0 and self_ns is not null"
    " union all select request_id, tier_id, sum(self_ns) from call"
    " where tier_id is not null and async = 0 and self_ns is not null"
    " group by 1, 2 order by 1, 2";
static volatile sig_atomic_t stop;
static char a_db[96], b_db[96], out_db[96];

FIXTURE(setup_files)
{
	int rc = setup(state);

	snprintf(a_db, sizeof(a_db), "%.64s/a.db", dir);
	snprintf(b_db, sizeof(b_db), "%.64s/b.db", dir);
	snprintf(out_db, sizeof(out_db), "%.64s/out.db", dir);
	return rc;
}

/* From here on the fixture speaks of this file. */
static void
use(const char *file)
{
	snprintf(path, sizeof(path), "%s", file);
}

/* A request of this node; its call of this tier took so many ms by itself. */
static void
put_request(struct kp_store *s, const char *node, const char *tier, int ms)
{
	struct kp_tree *t = new_tree(2);

	t->node = node;
	t->start = NOON + ms * S;
	t->calls[0].tier = "";
	t->calls[1].tier = tier;
	t->calls[1].self = ms * KP_NS_PER_MS;
	kp_store_tree(s, t);
}

static void
merge(const char *in)
{
	struct kp_merge_count count;
	struct kp_merge *m;
	char *why = NULL;

	if (kp_merge_open(&m, out_db, &stop, &why) != KP_OK ||
	    kp_merge_add(m, in, &count, &why) != KP_OK ||
	    kp_merge_finish(m, &why) != KP_OK)
		fail_msg("%s", why);
	assert_int_equal(count.runs, 1);
}

static struct kp_query *
open_both(const char *a, const char *b)
{
	const char *const v[] = { a, b };
	struct kp_query *q = NULL;
	char *why = NULL;

	if (kp_query_open_all(&q, &(struct kp_query_files){ v, 2 }, &why) !=
	    KP_OK)
		fail_msg("%s", why);
	return q;
}

/* "70 30": self times by which they were chosen, in ms. */
static const char *
chosen(struct kp_query *q, const char *tier, size_t skip, size_t limit)
{
	struct kp_query_requests rs;
	static char text[256];
	char *p = text;

	*p = '\0';
	assert_int_equal(kp_query_slow(q, &all, KP_SLOW_TIER, tier, skip,
	    limit, &rs), KP_OK);
	for (size_t i = 0; i < rs.n; i++)
		p += sprintf(p, "%s%g", i > 0 ? " " : "",
		    (double)rs.v[i].by / 1e6);
	kp_query_requests_free(&rs);
	return text;
}

static void
assert_times(int rows)
{
	static char want[4096];
	char count[16];

	snprintf(want, sizeof(want), "%s", sql_text(calls));
	assert_sql(times, want);
	snprintf(count, sizeof(count), "%d", rows);
	assert_sql("select count(*) from request_time", count);
}

TEST(test_merged_times)
{
	struct kp_query *q;
	struct kp_store *s;

	use(a_db);
	s = open_store();
	put_request(s, "a@h", "db", 210);
	put_request(s, "b@h", "db", 140);
	put_request(s, "a@h", "db", 70);
	kp_store_close(s);
	use(b_db);
	s = open_store();
	put_request(s, "c@h", "db", 100);
	kp_store_close(s);
	merge(a_db);
	use(out_db);
	assert_times(6);
	merge(b_db);
	assert_times(8);
	q = open_query();
	assert_string_equal(chosen(q, "db", 0, 9), "210 140 100 70");
	kp_query_close(q);
	assert_sql("pragma foreign_key_check", "");
	assert_sql("pragma integrity_check", "ok");
}

/* The slowest of several files, page by page. */
TEST(test_chosen)
{
	struct kp_query_requests rs;
	struct kp_query *q;
	struct kp_store *s;

	use(a_db);
	s = open_store();
	put_request(s, "a@h", "db", 50);
	put_request(s, "a@h", "db", 10);
	put_request(s, "a@h", "cache", 7);
	kp_store_close(s);
	use(b_db);
	s = open_store();
	put_request(s, "b@h", "db", 30);
	put_request(s, "b@h", "db", 70);
	kp_store_close(s);
	q = open_both(a_db, b_db);
	assert_string_equal(chosen(q, "db", 0, 9), "70 50 30 10");
	assert_string_equal(chosen(q, "db", 1, 2), "50 30");
	/* one of them has never heard of it */
	assert_string_equal(chosen(q, "cache", 0, 9), "7");
	assert_int_equal(kp_query_slow(q, &all, KP_SLOW_TIER, "nosuch", 0, 9,
	    &rs), KP_ENOENT);
	kp_query_close(q);
}

static void
make_hour(const char *file, const char *node)
{
	struct kp_db *db;

	use(file);
	db = keep_open(NULL);
	for (int i = 0; i < 60; i++)
		keep_put_known(db, node, NOON + i * MIN);
	keep_settle(db, NOON + DAY);
	assert_true(atoi(sql_text("select count(*) from level_sum")) > 0);
	db_close(db, 0);
}

static uint64_t
calls_of(struct kp_query *q)
{
	struct kp_query_sum s;
	uint64_t n;

	assert_int_equal(kp_query_sum(q, &all, &s), KP_OK);
	n = kp_query_cell(&s, "db", "create")->calls;
	assert_int_equal(s.windows, 120);
	kp_query_sum_free(&s);
	kp_query_close(q);
	return n;
}

/* Sums of what was there are no sums of what is: they are made again. */
TEST(test_merged_sums)
{
	make_hour(out_db, "a@h");
	make_hour(b_db, "b@h");
	merge(b_db);
	use(out_db);
	assert_sql("select count(distinct node_id) from level_sum", "3");
	assert_int_equal(calls_of(open_query()), 120 * 3);
	sql_exec("delete from level_stat; delete from level_sum");
	assert_int_equal(calls_of(open_query()), 120 * 3);
}

/* Of two files that both have theirs. */
TEST(test_sums_of_both)
{
	make_hour(a_db, "a@h");
	make_hour(b_db, "b@h");
	assert_int_equal(calls_of(open_both(a_db, b_db)), 120 * 3);
}

TESTS(setup_files, teardown)
