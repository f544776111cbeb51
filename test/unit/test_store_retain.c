/*
 * Retention: what is too old goes, and so does what is too much; what was
 * freed is given back.
 */
#include <sys/stat.h>

#include "cases.h"
#include "store/retain.h"
#include "store_fixture.h"

/* ---- what -retain says ---- */

TEST_WITH(test_retain, setup, teardown)
{
	static const char *const bad[] = { "", "10s", "10s:", ":2h", "10s:2h,",
		"10s:0s", "0s:1h", "10s:5s", "500ms:1h", "10s:2h,10s:3h",
		"10s:2h,1m:1h", "10s:2h,15s:3h", "slow:1d", "10s:2h;1m:1d",
		"10s:2h,1m:1d,slow", "1s:1m,2s:2m,4s:3m,8s:4m,16s:5m,32s:6m,"
		"64s:7m,128s:8m,256s:9m", "10s:2h, 1m:1d",
		"10s:2h,111111111111111111111111111111111111111111111111m:1d" };
	struct kp_retain r;
	uint64_t n;

	assert_true(kp_retain_parse(KP_RETAIN_DEFAULT, &r));
	assert_fields(r, IS(n, 4) IS(step[1].length, MIN)
	    IS(step[3].age, 400 * DAY) IS(slow, 14 * DAY)
	    IS(events, 400 * DAY));
	assert_int_equal(kp_retain_longest(&r), 400 * DAY);
	assert_true(kp_retain_parse("1m:1d", &r));
	assert_fields(r, IS(slow, DAY) IS(events, DAY));
	assert_true(kp_retain_parse("slow:3d,10s:1h,events:9d", &r));
	assert_int_equal(r.slow, 3 * DAY);
	assert_int_equal(kp_retain_longest(&r), 9 * DAY);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (kp_retain_parse(bad[i], &r))
			fail_msg("'%s' was taken", bad[i]);
	}
	assert_int_equal(r.n, 1);

	assert_true(kp_retain_bytes("1G", &n));
	assert_int_equal(n, 1 << 30);
	assert_true(kp_retain_bytes("1536K", &n));
	assert_int_equal(n, 1536 << 10);
	assert_true(kp_retain_bytes("0", &n));
	assert_int_equal(n, 0);
	assert_false(kp_retain_bytes("1023K", &n));
	assert_false(kp_retain_bytes("-1G", &n));
	assert_false(kp_retain_bytes("1GB", &n));
	assert_false(kp_retain_bytes("", &n));
	assert_false(kp_retain_bytes("9999999T", &n));
	assert_false(kp_retain_bytes("99999999999999999999", &n));
}

/* ---- deleting ---- */

static void
put_tree(struct kp_db *db, kp_wall_ns start, uint32_t ncalls)
{
	struct kp_tree *t = new_tree(ncalls);

	t->start = start;
	db_begin(db);
	db_tree(db, t);
	assert_int_equal(db_commit(db), SQLITE_OK);
	free(t);
}

static void
put_event(struct kp_db *db, kp_wall_ns at)
{
	const struct kp_happening h = { .at = at, .node = "a@h",
		.kind = "trip", .text = "queue" };

	db_begin(db);
	db_happening(db, &h);
	assert_int_equal(db_commit(db), SQLITE_OK);
}

static const char counts[] = "select (select count(*) from time_window),"
    " (select count(*) from stat), (select count(*) from request),"
    " (select count(*) from call), (select count(*) from event)";

TEST_WITH(test_expire, setup, teardown)
{
	struct kp_db *db = keep_open("10s:2h,slow:3h,events:4h");

	for (int i = 0; i < 100; i++) {
		keep_put_known(db, "a@h", NOON + i * 10 * S);
		put_tree(db, NOON + i * 10 * S, 3);
		put_event(db, NOON + i * 10 * S);
	}
	keep_settle(db, NOON + 2 * HOUR + 9 * S);
	assert_sql(counts, "100|400|100|300|100");
	keep_settle(db, NOON + 2 * HOUR + 20 * S);
	assert_sql(counts, "98|392|100|300|100");
	keep_settle(db, NOON + 3 * HOUR + 20 * S);
	assert_sql(counts, "0|0|97|291|100");
	keep_settle(db, NOON + 5 * HOUR);
	assert_sql(counts, "0|0|0|0|0");
	db_close(db, 0);
}

/* Much to delete is deleted a part at a time. */
TEST_WITH(test_expire_bounded, setup, teardown)
{
	struct kp_db *db = keep_open("10s:2h");
	int rows;
	bool more;

	for (int i = 0; i < 10; i++)
		put_tree(db, NOON, 20000);
	rows = sqlite3_total_changes(db->conn);
	assert_int_equal(upkeep_turn(&keep, db, NOON + DAY, &more), SQLITE_OK);
	assert_true(more);
	assert_in_range(sqlite3_total_changes(db->conn) - rows, 20001, 60000);
	keep_settle(db, NOON + DAY);
	assert_sql(counts, "0|0|0|0|0");
	db_close(db, 0);
}

/* A run goes when nothing of it is left; never the one that runs. */
TEST_WITH(test_expire_runs, setup, teardown)
{
	struct kp_db *db = keep_open("10s:2h,slow:1d,events:2d");

	keep_put_known(db, "a@h", kp_wall_now());
	db_close(db, 0);
	db = keep_open("10s:2h,slow:1d,events:2d");
	keep_settle(db, kp_wall_now() + DAY);
	assert_sql("select run, state from runs", "1|clean\n2|running");
	keep_settle(db, kp_wall_now() + 2 * DAY + HOUR);
	assert_sql("select run, state from runs", "2|running");
	db_close(db, 0);
	/* for ever is for ever */
	db = keep_open(NULL);
	keep_settle(db, kp_wall_now() + 9000 * DAY);
	assert_sql("select run, state from runs", "2|clean\n3|running");
	db_close(db, 0);
}

/* ---- size ---- */

static struct kp_window *
wide_window(kp_wall_ns start)
{
	static char ids[200][16];
	struct kp_window *w = new_window("a@h", start, 200);

	for (size_t i = 0; i < 200; i++) {
		snprintf(ids[i], sizeof(ids[i]), "id%zu", i);
		fill_cell(&w->cells[i], "db", ids[i]);
	}
	return w;
}

/*
 * Too much for the size: everything is kept for a shorter time, the file
 * itself shrinks, and an event says so once.
 */
TEST_WITH(test_size, setup, teardown)
{
	struct kp_db *db = keep_open("10s:2h,1m:1d,10m:14d,1h:400d");
	struct kp_window *w;
	struct stat sb;
	unsigned percent = 100;

	keep.max_bytes = 3 << 20;
	for (int i = 0; i < 720; i++) {
		w = wide_window(NOON + i * 10 * S);
		keep_put(db, w);
		kp_window_free(w);
		keep_settle(db, NOON + (i + 1) * 10 * S);
		assert_true(keep.bytes <= keep.max_bytes);
		if (upkeep_percent(&keep) < percent)
			percent = upkeep_percent(&keep);
	}
	assert_in_range(percent, 1, 60);
	/* the latest are there as they were measured; nothing is missing */
	assert_sql("select max(start_ns) from time_window where level = 0",
	    "1700056790000000000");
	assert_sql("select sum(entry_calls) from time_window", "72000");
	assert_sql("select count(*) > 0, count(*) < 20, min(kind), min(text)"
	    " like 'the database would grow past 3 MiB: what it holds is kept %"
	    " % as long' from event", "1|1|store_size|1");
	db_close(db, 0);
	assert_int_equal(stat(path, &sb), 0);
	assert_true(sb.st_size <= 3 << 20);

	/* with more room it is as it was said, and nothing is told */
	db = keep_open("10s:2h,1m:1d,10m:14d,1h:400d");
	keep.max_bytes = 64 << 20;
	keep_settle(db, NOON + 2 * HOUR);
	assert_int_equal(upkeep_percent(&keep), 100);
	db_close(db, 0);
}

/* Even what cannot be enough ends, and keeps the latest window. */
TEST_WITH(test_size_too_small, setup, teardown)
{
	struct kp_db *db = keep_open("10s:2h,1h:400d");
	struct kp_window *w;

	keep.max_bytes = 1;
	for (int i = 0; i < 3; i++) {
		w = wide_window(NOON + i * 10 * S);
		keep_put(db, w);
		kp_window_free(w);
		assert_true(keep_settle(db, NOON + (i + 1) * 10 * S) < 1000);
	}
	assert_sql("select start_ns from time_window", "1700049620000000000");
	db_close(db, 0);
}

/* What was freed is given back, but for a tenth. */
TEST_WITH(test_gives_back, setup, teardown)
{
	struct kp_db *db = keep_open("10s:1h");
	struct kp_window *w;
	struct stat sb;
	long before;

	for (int i = 0; i < 100; i++) {
		w = wide_window(NOON + i * 10 * S);
		keep_put(db, w);
		kp_window_free(w);
	}
	keep_settle(db, NOON + 17 * MIN);
	before = atol(sql_text("pragma page_count"));
	assert_true(before > 1000);
	keep_settle(db, NOON + DAY);
	assert_true(atol(sql_text("pragma page_count")) < 200);
	db_close(db, 0);
	assert_int_equal(stat(path, &sb), 0);
	assert_true(sb.st_size < 200 * 4096);
	assert_sql("pragma integrity_check", "ok");
}

/* ---- clocks that are set ---- */

/* A span's end: by the clock, unless that was set. */
TEST(test_span_ends)
{
	assert_int_equal(kp_wall_end(T0, 10 * S, T0 + 10 * S), T0 + 10 * S);
	/* slewed, or read a moment later */
	assert_int_equal(kp_wall_end(T0, 10 * S, T0 + 9 * S), T0 + 9 * S);
	assert_int_equal(kp_wall_end(T0, HOUR, T0 + HOUR + 4 * S),
	    T0 + HOUR + 4 * S);
	/* an hour back, ten years on; and back by less than it lasted */
	assert_int_equal(kp_wall_end(T0, 10 * S, T0 - HOUR), T0 + 10 * S);
	assert_int_equal(kp_wall_end(T0, 10 * S, T0 + 3652 * DAY), T0 + 10 * S);
	assert_int_equal(kp_wall_end(T0, 10 * S, T0 + 3 * S), T0 + 10 * S);
	assert_int_equal(kp_wall_end(T0, S / 10, T0 - S / 2), T0 + S / 10);
	assert_int_equal(kp_wall_end(T0, 0, T0), T0);
}

/* Ages are counted by a clock that is ahead when it has been so for a day. */
TEST(test_hold)
{
	struct hold h;

	hold_begin(&h, 0, T0, 5 * S);
	assert_int_equal(hold_now(&h, T0 + 10 * S, 15 * S), T0 + 10 * S);
	/* an hour back, and on again; a night asleep */
	assert_int_equal(hold_now(&h, T0 - HOUR, 25 * S), T0 - HOUR);
	assert_int_equal(hold_now(&h, T0 + 30 * S, 35 * S), T0 + 30 * S);
	assert_int_equal(hold_now(&h, T0 + 9 * HOUR, 45 * S), T0 + 9 * HOUR);
	assert_int_equal(h.ahead, 0);
	/* ten years on */
	assert_int_equal(hold_now(&h, T0 + 3652 * DAY, 55 * S),
	    T0 + 9 * HOUR + 10 * S);
	assert_true(h.ahead > 3650 * DAY);
	assert_int_equal(hold_now(&h, T0 + 3652 * DAY + 23 * HOUR,
	    55 * S + 23 * HOUR), T0 + 32 * HOUR + 10 * S);
	/* it was a mistake */
	assert_int_equal(hold_now(&h, T0 + 33 * HOUR, 65 * S + 23 * HOUR),
	    T0 + 33 * HOUR);
	assert_int_equal(h.ahead, 0);
	/* or it was right: but not by the first half of one mistake and
	   the second of another */
	hold_begin(&h, T0, T0 + 100 * DAY, 0);
	assert_int_equal(hold_now(&h, T0 + 100 * DAY, 0), T0);
	assert_int_equal(hold_now(&h, T0 + 900 * DAY, 12 * HOUR),
	    T0 + 12 * HOUR);
	assert_int_equal(hold_now(&h, T0 + 901 * DAY, 35 * HOUR),
	    T0 + 35 * HOUR);
	assert_int_equal(hold_now(&h, T0 + 901 * DAY + HOUR, 36 * HOUR),
	    T0 + 901 * DAY + HOUR);
	assert_int_equal(h.ahead, 0);
	assert_int_equal(hold_now(&h, T0 + 902 * DAY, 37 * HOUR),
	    T0 + 902 * DAY);
}

TESTS(NULL, NULL)
