/*
 * Objectives: what met them by known figures, over nodes and the last hours of a range.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "report/slo.h"
#include "store_fixture.h"

#define MS KP_NS_PER_MS

static char name[] = "create", text[] = "create within 250 ms";

/* A cell of requests that took so many ms each. */
static struct kp_cell
cell(const unsigned *ms, size_t n, uint64_t raised)
{
	struct kp_cell c = { .min = -1, .tier = "_total", .identity = name,
		.requests = n, .w_requests = n, .calls = n, .w_calls = n, .timed = n,
		.w_timed = n, .raised = raised, .w_raised = raised };

	for (size_t i = 0; i < n; i++) {
		kp_dur_ns d = ms[i] * MS;

		c.min = c.min < 0 || d < c.min ? d : c.min;
		c.max = d > c.max ? d : c.max;
		assert_int_equal(kp_hist_add(&c.hist, d, 1), KP_OK);
	}
	return c;
}

/* What the failed ones took is not stored, so those that were slow, too, count twice. */
TEST(test_take)
{
	static const unsigned ms[] = { 10, 20, 252, 300, 400 };
	static const struct {
		kp_dur_ns limit;
		uint64_t raised;
		bool exact;
		double low, missed, high;
	} v[] = {
		{ 250 * MS, 0, true, 3, 3, 3 }, { 400 * MS, 0, true, 0, 0, 0 },
		{ 9 * MS, 0, true, 5, 5, 5 },
		{ 400 * MS, 2, true, 2, 2, 2 },		/* they were in time, and failed */
		{ 250 * MS, 1, true, 3, 4, 4 }, { 250 * MS, 4, true, 4, 5, 5 },
		{ 253 * MS, 0, false, 2, 2.5, 3 }, { 253 * MS, 1, false, 2, 3.5, 4 },
	};
	struct kp_objective o = { .name = name, .text = text, .percent = 90 };

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct kp_cell c = cell(ms, 5, v[i].raised);
		struct slo_row row = { .of = &o };

		o.limit = v[i].limit;
		slo_take(&row, &c);
		assert_fields(row, IS(requests, 5) IS(failed, v[i].raised)
		    IS(failed_seen, KP_SEEN) IS(exact, v[i].exact) IS(endless, 0));
		assert_true(row.low == v[i].low && row.high == v[i].high);
		assert_true(fabs(row.missed - v[i].missed) < (v[i].exact ? 1e-9 : 0.5));
		assert_true(fabs(slo_burned(&row) - row.missed / 5 / 0.1) < 1e-9);
		kp_cell_free(&c);
	}
}

/* What has no time met nothing and missed nothing; what raised unseen is not 0. */
TEST(test_not_seen)
{
	static const unsigned ms[] = { 10, 300 };
	struct kp_objective o = { .name = name, .text = text, .limit = 250 * MS,
		.percent = 90 };
	struct kp_cell c = cell(ms, 2, 0);
	struct slo_row row = { .of = &o };

	assert_true(slo_burned(&row) < 0);
	slo_take(&row, NULL);
	assert_int_equal(row.requests, 0);
	c.w_calls = 5;
	c.w_unfinished = 3;
	c.w_unknown_outcomes = 2;
	slo_take(&row, &c);
	assert_fields(row, IS(requests, 2) IS(endless, 3) IS(failed_seen, KP_NOT_SEEN));
	assert_true(row.missed == 1);
	c.w_raised = c.raised = 1;
	slo_take(&row, &c);
	assert_int_equal(row.failed_seen, KP_SEEN_PART);
	kp_cell_free(&c);
}

/* ---- in a database ---- */

#define CONF "{tiers, [{web, {m, f, 1}}, {db, {m, q, 1}}]}. " \
	"{identity, fun ({m, f, [X]}) when is_atom(X) -> X end}. "

static void
set_conf(const char *slo)
{
	char sql[1000];

	snprintf(sql, sizeof(sql), "update run set tiers_conf = '" CONF "%s'", slo);
	sql_exec(sql);
}

/* A window with a request of each of these times. */
static void
put(struct kp_db *db, const char *node, kp_wall_ns start, const unsigned *ms, size_t n)
{
	struct kp_window *w = new_window(node, start, 3);

	w->entry_calls = w->sampled = n;
	for (size_t i = 0; i < 3; i++) {
		w->cells[i] = cell(ms, n, 0);
		w->cells[i].tier = i == 2 ? "db" : "_total";
		w->cells[i].identity = i == 0 ? "_total" : i == 1 ? name : "_total";
	}
	keep_put(db, w);
	kp_window_free(w);
}

static struct slo
read_slo(const struct kp_query_range *r)
{
	struct kp_query *q = open_query();
	struct slo s;

	assert_int_equal(slo_from_db(q, r, &s), KP_OK);
	/* its nodes' names are of q */
	for (size_t i = 0; i < s.nrows; i++)
		assert_true(s.rows[i].node == NULL || s.rows[i].node[0] != '\0');
	kp_query_close(q);
	return s;
}

/* An hour in which one in three is slow on a, none on b; in its last 5 min all are. */
TEST(test_ranges)
{
	static const unsigned some[] = { 10, 20, 300 }, none[] = { 10, 20 },
	    all_slow[] = { 300, 300 };
	struct kp_query_range r = { .since = NOON, .until = NOON + HOUR };
	struct kp_db *db = keep_open(NULL);
	struct kp_buf b;
	struct slo s;

	for (int i = 0; i < 360; i++) {
		put(db, "a@h", NOON + i * 10 * S, i < 330 ? some : all_slow, i < 330 ? 3 : 2);
		put(db, "b@h", NOON + i * 10 * S, i < 330 ? none : all_slow, 2);
	}
	set_conf("{slo, [{create, 250, 90}, {db, 250, 50}, {other, 1, 99}]}.");
	s = read_slo(&r);
	assert_int_equal(s.nrows, 3);
	assert_fields(s.rows[0], IS(requests, 330 * 5 + 30 * 4) IS(sampled, 330 * 5 + 120));
	assert_true(s.rows[0].missed == 330 + 120);
	assert_true(s.rows[1].missed == 330 + 120 && s.rows[2].requests == 0);
	assert_true(s.rows[0].interval.low == s.rows[0].interval.high);
	/* all missed, at ten times and at twice the rate that the budget allows */
	assert_true(fabs(s.rows[0].burn[0] - 10) < 1e-9);
	assert_true(fabs(s.rows[1].burn[0] - 2) < 1e-9);
	assert_true(fabs(s.rows[0].burn[1] - slo_burned(&s.rows[0])) < 1e-9);
	assert_true(s.rows[0].burn[2] < 0 && s.rows[0].burn[3] < 0);
	r.by_node = true;
	slo_free(&s);
	s = read_slo(&r);
	assert_int_equal(s.nrows, 9);
	/* of the hour b missed only the last 5 min */
	assert_true(fabs(s.rows[2].burn[0] - 10) < 1e-9);
	assert_true(fabs(s.rows[2].burn[1] - 10. * 60 / 720) < 1e-9);
	assert_true(fabs(s.rows[1].burn[1] - 10. * (330 + 60) / (330 * 3 + 60)) < 1e-9);
	r.by_node = false;
	slo_free(&s);
	/* two of the same figures do not count them twice */
	set_conf("{slo, [{create, 250, 90}, {create, 100, 90}]}.");
	s = read_slo(&r);
	assert_int_equal(s.rows[0].requests, 330 * 5 + 30 * 4);
	assert_int_equal(s.rows[1].requests, 330 * 5 + 30 * 4);
	slo_free(&s);
	set_conf("{slo, [{create, 250, 90}, {db, 250, 50}, {other, 1, 99}]}.");
	s = read_slo(&r);
	kp_buf_init(&b, 1 << 16);
	slo_text(&b, &s, 0);
	assert_has(kp_buf_cstr(&b), "90 % of create within 250 ms      1 770   450       0");
	assert_has(kp_buf_cstr(&b), "450    74.5 %");
	assert_has(kp_buf_cstr(&b), "254 %       10      2.5");
	assert_lacks(kp_buf_cstr(&b), "burn 6h");
	assert_lacks(kp_buf_cstr(&b), "between");
	assert_lacks(kp_buf_cstr(&b), "~");
	kp_buf_free(&b);
	slo_free(&s);
	/* nodes add up */
	r.by_node = true;
	s = read_slo(&r);
	assert_int_equal(s.nrows, 9);
	assert_int_equal(s.rows[1].requests + s.rows[2].requests, s.rows[0].requests);
	assert_true(s.rows[1].missed == 330 + 60 && s.rows[2].missed == 60);
	slo_free(&s);
	/* a range that is shorter than an hour does not tell of one */
	r = (struct kp_query_range){ .since = NOON + 30 * MIN, .until = NOON + 55 * MIN };
	s = read_slo(&r);
	assert_true(s.rows[0].burn[0] < 10 && s.rows[0].burn[0] > 0);
	assert_true(s.rows[0].burn[1] < 0);
	slo_free(&s);
	db_close(db, 0);
}

/* Windows of an hour do not tell of 5 minutes. */
TEST(test_old_windows)
{
	static const unsigned ms[] = { 300 };
	struct kp_db *db = keep_open("10s:1h,1h:30d");
	struct slo s;

	for (int i = 0; i < 3 * 360; i++)
		put(db, "a@h", NOON + i * 10 * S, ms, 1);
	keep_settle(db, NOON + 2 * DAY);
	set_conf("{slo, [{create, 250, 90}]}.");
	s = read_slo(&all);
	assert_int_equal(s.rows[0].requests, 3 * 360);
	assert_true(s.rows[0].burn[0] < 0);
	assert_true(fabs(s.rows[0].burn[1] - 10) < 1e-9);
	slo_free(&s);
	db_close(db, 0);
}

/* Without objectives, and where the file is of another version. */
TEST(test_none)
{
	struct kp_db *db = keep_open(NULL);
	struct kp_buf b;
	struct slo s;

	kp_buf_init(&b, 1 << 16);
	for (int i = 0; i < 2; i++) {
		set_conf(i == 0 ? "" : "{slo, unheard_of}.");
		s = read_slo(&all);
		assert_int_equal(s.nrows, 0);
		slo_text(&b, &s, 80);
		assert_has(kp_buf_cstr(&b), "no objectives: {slo,");
		kp_buf_reset(&b);
		slo_json(&b, &s);
		assert_has(kp_buf_cstr(&b), "{\"objectives\":[],");
		slo_free(&s);
	}
	kp_buf_free(&b);
	db_close(db, 0);
}

TESTS(setup, teardown)
