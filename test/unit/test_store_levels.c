/*
 * Levels: with the sums of whole minutes, hours and days every question has the
 * answer that it has without them, whatever comes late or ages; and long ranges
 * are read from few pieces.
 */
#include <unistd.h>

#include "cases.h"
#include "pick.h"
#include "store/range.h"
#include "store/query.h"
#include "store_fixture.h"

#define ASKED 16		/* questions in a row */
#define ALL_SUMS "select count(*) from level_sum where node_id = 0"

static const char *const nodes[] = { "a@h", "b@h", "c@i" };

/* A window whose figures are its own, in the caller's transaction. */
static void
put(struct kp_db *db, const char *node, kp_wall_ns start)
{
	struct kp_window *w = labelled_window(node, start);
	struct kp_cell *c;
	kp_dur_ns d;

	for (size_t i = 0; i < w->ncells; i++) {
		c = &w->cells[i];
		d = 1000 + pick(1u << 24) * (kp_dur_ns)(1 + pick(50));
		c->timed++;
		c->w_timed += 3;
		c->total += d;
		c->w_total += 3 * d;
		c->requests += pick(4);
		c->share_requests = c->requests - pick(2);
		c->w_share_busy += pick(1000);
		c->min = d < c->min ? d : c->min;
		c->max = d > c->max ? d : c->max;
		assert_int_equal(kp_hist_add(&c->hist, d, 3), KP_OK);
	}
	db_window(db, w, NULL);
	kp_window_free(w);
}

/* ---- answers, as texts ---- */

static void
put_cell(struct kp_buf *b, const struct kp_cell *c)
{
	kp_buf_printf(b, " %s/%s %lld,%lld %lld,%lld %lld,%lld %lld,%lld"
	    " %lld..%lld %lld:", c->tier,
	    c->identity != NULL ? c->identity : "-", (long long)c->requests,
	    (long long)c->w_requests, (long long)c->calls,
	    (long long)c->w_calls, (long long)c->timed, (long long)c->w_timed,
	    (long long)c->busy, (long long)c->w_busy, (long long)c->min,
	    (long long)c->max, (long long)c->w_total);
	kp_hist_write(&c->hist, b);
}

static void
put_sum(struct kp_buf *b, struct kp_query *q, const struct kp_query_range *r)
{
	struct kp_query_sum s;

	assert_int_equal(kp_query_sum(q, r, &s), KP_OK);
	kp_buf_printf(b, "%lld windows", (long long)s.windows);
	for (size_t i = 0; i < s.ncells; i++)
		put_cell(b, &s.cells[i]);
	kp_query_sum_free(&s);
}

static void
put_series(struct kp_buf *b, struct kp_query *q,
    const struct kp_query_range *r, kp_dur_ns step)
{
	const struct kp_series_want want = { .step = step, .cells = true,
		.tier = PART, .others = true };
	struct kp_series s;
	enum kp_err err = kp_query_series(q, r, &want, &s);

	/* Some windows have no such tier. */
	if (err == KP_ELIMIT || err == KP_ENOENT)
		return;
	assert_int_equal(err, KP_OK);
	kp_buf_printf(b, " from %lld by %lld", (long long)s.start,
	    (long long)s.step);
	for (size_t i = 0; i < s.n; i++)
		for (size_t t = 0; t <= s.tiers.n + 1; t++)
			put_cell(b, &s.v[i].cells[t]);
	kp_series_free(&s);
}

/* The same questions for the same seed. */
static void
ask_all(struct kp_buf *b, uint32_t from)
{
	static const char *const whose[] = { NULL, "a@h", "*@h", "a@h c@i" };
	static const kp_dur_ns steps[] = { 0, 10 * S, MIN, 7 * MIN, HOUR, DAY };
	struct kp_query *q = open_query();
	struct kp_query_range r;

	kp_buf_init(b, 256u << 20);
	seed = from;
	for (int i = 0; i < ASKED; i++) {
		r = all;
		r.node = whose[pick(4)];
		if (i >= 4) {
			r.since = NOON - HOUR + (int64_t)pick(4 * 1440) * MIN;
			r.until = r.since + 1 + pick(4 * 1440) * MIN;
		}
		if (i % 3 == 0)
			r.since += pick(3600) * S + 1;
		put_sum(b, q, &r);
		r.identity = pick(2) == 0 ? NULL : "create";
		put_series(b, q, &r, steps[pick(6)]);
	}
	kp_query_close(q);
	assert_int_equal(b->err, KP_OK);
}

static int
count(const char *sql)
{
	return atoi(sql_text(sql));
}

static const char *const sums = "select count(*) from level_sum";
/* Cells of sums that are there no more. */
static const char *const left = "select count(*) from level_stat"
    " where sum_id not in (select id from level_sum)";
static const char *const forget = "delete from level_stat;"
    "delete from level_sum";

/* With sums, and without. */
static void
assert_same_answers(void)
{
	uint32_t from = seed;
	struct kp_buf with, without;

	assert_true(count(sums) > 0);
	ask_all(&with, from);
	assert_int_equal(count(left), 0);
	sql_exec(forget);
	ask_all(&without, from);
	assert_int_equal(with.len, without.len);
	assert_memory_equal(with.p, without.p, with.len);
	kp_buf_free(&with);
	kp_buf_free(&without);
	seed = from + 1;
}

/* All sums anew. */
static void
make_sums(struct kp_db *db, kp_wall_ns now)
{
	sql_exec(forget);
	sql_exec("update level_next set start_ns = 0, node_id = 0");
	keep_settle(db, now);
}

/* ---- tests ---- */

static void
put_hours(struct kp_db *db, kp_wall_ns from, int hours, kp_dur_ns every)
{
	db_begin(db);
	/* not all nodes all the time, and never quite on time */
	for (kp_dur_ns d = 0; d < hours * HOUR; d += every) {
		for (int n = 0; n < 3; n++)
			if (pick(20) != 0 && d / (67 * MIN) % 3 != n)
				put(db, nodes[n], from + d +
				    pick(1000) * KP_NS_PER_MS);
	}
	assert_int_equal(db_commit(db), SQLITE_OK);
}

TEST(test_answers)
{
	struct kp_db *db = keep_open(NULL);

	seed = 1;
	put_hours(db, NOON, 2, 10 * S);
	put_hours(db, NOON + 23 * HOUR, 1, 10 * S);
	put_hours(db, NOON + 3 * DAY - 10 * MIN, 1, 10 * S);
	keep_settle(db, NOON + 5 * DAY);
	assert_int_equal(count("select count(distinct level)"
	    " from level_sum"), 5);
	assert_true(count(ALL_SUMS) > 0);
	assert_same_answers();
	db_close(db, 0);
}

/* What comes late. */
TEST(test_changes)
{
	struct kp_db *db = keep_open(NULL);

	seed = 2;
	put_hours(db, NOON, 3, 30 * S);
	for (int i = 0; i < 3; i++) {
		make_sums(db, NOON + 2 * DAY);
		db_begin(db);
		put(db, nodes[pick(3)], NOON + pick(10800) * S);
		put(db, "new@h", NOON + pick(10800) * S);
		assert_int_equal(db_commit(db), SQLITE_OK);
		if (i > 0)
			keep_settle(db, NOON + 2 * DAY);
		assert_same_answers();
	}
	db_close(db, 0);
}

/* Rolled up by steps that fit, and by others; at last all is gone. */
TEST(test_rolled_up)
{
	static const char *const retain[] = { "10s:1h,1m:2h,10m:3h,1h:9h",
		"10s:1h,70s:2h,490s:5h,2450s:9h" };
	struct kp_db *db;

	seed = 3;
	for (int i = 0; i < 2; i++) {
		db = keep_open(retain[i]);
		put_hours(db, NOON, 2, 10 * S);
		for (int m = 40; m < 11 * 60; m += 140) {
			make_sums(db, NOON + m * MIN);
			/* while these are there, more is rolled up */
			keep_settle(db, NOON + (m + 35) * MIN);
			if (count(sums) > 0)
				assert_same_answers();
		}
		keep_settle(db, NOON + 12 * HOUR);
		assert_int_equal(count("select count(*) from time_window"), 0);
		assert_int_equal(count(sums), 0);
		assert_int_equal(count("select count(*) from level_stat"), 0);
		db_close(db, 0);
	}
}

/* Step by step, as time goes on; each turn leaves what can be asked. */
TEST(test_as_time_goes)
{
	struct kp_db *db = keep_open("10s:10m,1m:1h,10m:1d");
	bool more = true;

	seed = 4;
	for (int i = 0; i < 12; i++) {
		put_hours(db, NOON + i * HOUR, 1, 30 * S);
		keep_settle(db, NOON + (i + 1) * HOUR);
	}
	/* no window is there twice */
	assert_int_equal(count("select count(*) from level_sum s"
	    " where 1 = (select count(*) from time_window w"
	    " where w.node_id = s.node_id and w.start_ns >= s.start_ns"
	    " and w.start_ns < s.start_ns + s.level * 1000000000)"), 0);
	put_hours(db, NOON + 12 * HOUR, 1, 10 * S);
	for (int i = 0; i < 50 && more; i++)
		assert_int_equal(upkeep_turn(&keep, db, NOON + 14 * HOUR,
		    &more), SQLITE_OK);
	assert_same_answers();
	db_close(db, 0);
}

/* It was a year ahead for an hour, and goes right again; then a year passes. */
TEST(test_clock_ahead)
{
	struct kp_db *db = keep_open(NULL);

	seed = 6;
	put_hours(db, NOON + 365 * DAY, 1, 30 * S);
	keep_settle(db, NOON + 365 * DAY + 50 * MIN);
	for (int i = 0; i < 2; i++) {
		put_hours(db, NOON + i * HOUR, 1, 30 * S);
		keep_settle(db, NOON + (i + 1) * HOUR + MIN);
	}
	assert_in_range(count(ALL_SUMS " and level = 60"
	    " and start_ns < 1700100000000000000"), 100, 120);
	assert_same_answers();
	keep_settle(db, NOON + 365 * DAY + 2 * HOUR);
	db_close(db, 0);
}

/* After days without kprofd nothing is deleted for a day; sums are written. */
TEST(test_clock_held)
{
	struct kp_db *db = keep_open("10s:10m,1m:1d");

	seed = 7;
	put_hours(db, NOON, 1, 30 * S);
	keep_settle(db, NOON - 3 * DAY);
	assert_int_equal(count("select count(*) from time_window"
	    " where level > 0"), 0);
	assert_in_range(count(ALL_SUMS " and level = 60"), 50, 60);
	assert_same_answers();
	db_close(db, 0);
}

static size_t
pieces_of(struct kp_db *db, const struct range_wanted *w)
{
	struct range_plan p = { 0 };
	size_t n;

	assert_int_equal(range_plan_find(db->conn, w, &p), SQLITE_OK);
	n = p.n;
	range_plan_free(&p);
	return n;
}

/* 8,640 windows: a day of three nodes. */
TEST(test_few_pieces)
{
	struct range_levels levels = { .n = 0 };
	int64_t all_nodes[3];
	struct range_wanted w = { .since = NOON, .until = NOON + DAY,
		.node = all_nodes, .nnodes = 3, .all = true,
		.levels = &levels };
	struct kp_window *win;
	struct kp_db *db = keep_open(NULL);

	db_begin(db);
	for (int i = 0; i < 2880 * 3; i++) {
		win = new_window(nodes[i % 3], NOON + i / 3 * 30 * S, 1);
		fill_cell(&win->cells[0], "_total", "_total");
		db_window(db, win, NULL);
		kp_window_free(win);
	}
	assert_int_equal(db_commit(db), SQLITE_OK);
	for (int n = 0; n < 3; n++)
		all_nodes[n] = count("select min(id) from node"
		    " where name <> ''") + n;
	keep_settle(db, NOON + 2 * DAY);
	assert_int_equal(range_levels_read(db->conn, &levels), SQLITE_OK);
	assert_int_equal(levels.n, 6);
	w.all_levels = w.node_levels = 6;
	/* no day is whole, but four times six hours are */
	assert_int_equal(pieces_of(db, &w), 4);
	/* at each end hours, tens of minutes, minutes, three nodes' windows */
	w.since += 30 * S;
	w.until -= 30 * S;
	assert_int_equal(pieces_of(db, &w), 2 + 2 * (5 + 5 + 9 + 3));
	w.all = false;
	w.nnodes = 1;
	assert_int_equal(pieces_of(db, &w), 2 + 2 * (5 + 5 + 9 + 1));
	w.step = 2 * MIN;
	assert_int_equal(pieces_of(db, &w), 1438 + 2);
	w.all_levels = w.node_levels = 0;
	assert_int_equal(pieces_of(db, &w), 2878);
	db_close(db, 0);
}

/* Levels are divided by: what a damaged file has in their place is none. */
TEST(test_damaged_levels)
{
	struct range_levels levels;
	struct kp_db *db = keep_open(NULL);
	struct kp_buf b;

	db_begin(db);
	put(db, "a@h", NOON);
	assert_int_equal(db_commit(db), SQLITE_OK);
	keep_settle(db, NOON + DAY);
	sql_exec("delete from level_next where level > 600;"
	    "insert into level_next (level, start_ns, node_id) values (0, 0, 0),"
	    " (-60, 0, 0), (601, 0, 0), (9223372036854775807, 0, 0)");
	assert_int_equal(range_levels_read(db->conn, &levels), SQLITE_OK);
	assert_fields(levels, IS(n, 2) IS(v[0], 60) IS(v[1], 600));
	ask_all(&b, 1);
	kp_buf_free(&b);
	db_close(db, 0);
}

/*
 * A sum was written in the transaction of the window that had just closed: when
 * the sum failed, that window was lost with it.
 */
TEST(test_sum_fails)
{
	struct kp_store *s = open_store();

	sql_exec("create trigger no before insert on level_stat"
	    " begin select raise(abort, 'no'); end");
	for (int i = 0; i < 30; i++)
		kp_store_window(s, known_window("a@h", NOON + i * 10 * S));
	assert_true(sync_store(s));
	assert_int_equal(dropped(s), 0);
	kp_store_close(s);
	assert_int_equal(count("select count(*) from time_window"), 30);
	assert_int_equal(count(sums), 0);
	sql_exec("drop trigger no");
	s = open_store();
	for (int i = 0; i < 60000 && count(sums) < 4; i++)
		usleep(1000);
	kp_store_close(s);
	assert_true(count(sums) >= 4);
	assert_same_answers();
}

#define WIDE 16000		/* cells of a window */

static void
put_wide(struct kp_db *db, kp_wall_ns start)
{
	static char names[WIDE][8];
	struct kp_window *w = new_window("a@h", start, WIDE);

	for (size_t i = 0; i < WIDE; i++) {
		snprintf(names[i], sizeof(names[i]), "r%zu", i);
		fill_cell(&w->cells[i], "_total", names[i]);
	}
	keep_put(db, w);
	kp_window_free(w);
}

/*
 * Windows with more cells than one turn may add up, and more windows than it
 * may: each turn changes a bounded number of rows, and no figure.
 */
TEST(test_show_bounded)
{
	static const char wanted[] = "select sum(entry_calls), (select"
	    " sum(w_total_ns) from stat), (select sum(n) from loss)"
	    " from time_window";
	struct kp_db *db = keep_open("10s:10m,1m:1d");
	char before[128];
	int turns = 0, changes;
	bool more = true;

	for (int i = 0; i < 4; i++)
		put_wide(db, NOON + i * 10 * S);
	db_begin(db);
	for (int i = 0; i < 2500; i++) {
		struct kp_window *w = new_window("b@h", NOON + 9 * MIN + i, 0);

		db_window(db, w, NULL);
		kp_window_free(w);
	}
	assert_int_equal(db_commit(db), SQLITE_OK);
	snprintf(before, sizeof(before), "%s", sql_text(wanted));
	while (count("select count(*) from time_window") > 2) {
		changes = sqlite3_total_changes(db->conn);
		assert_int_equal(upkeep_turn(&keep, db, NOON + 2 * HOUR, &more),
		    SQLITE_OK);
		assert_true(more);
		/* what is deleted, and what takes its place */
		assert_in_range(sqlite3_total_changes(db->conn) - changes, 1,
		    DELETE_ROWS + 2 * WIDE);
		assert_sql(wanted, before);
		turns++;
	}
	/* three for four windows, three for 2,500 */
	assert_int_equal(turns, 3 + 3);
	db_close(db, 0);
}

TESTS(setup, teardown)
