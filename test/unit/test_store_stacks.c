/*
 * Sampled stacks in the database: rows of windows and of coarser levels, what
 * limits their number, and texts that nothing refers to any more.
 */
#include "cases.h"
#include "pick.h"
#include "store/merge.h"
#include "store/db.h"
#include "store_fixture.h"

#define MS KP_NS_PER_MS
#define TEXTS (1u << 20)

/* Adds n samples of 10 ms each, of weight 10, to a window. */
static void
add(struct kp_window *w, const char *identity, const char *tiers,
    const char *frames, enum kp_stack_state state, uint64_t n)
{
	static size_t used;
	char *text;

	if (w->stack_texts == NULL) {
		w->stack_texts = malloc(TEXTS);
		w->stacks = calloc(8192, sizeof(*w->stacks));
		used = 0;
	}
	text = w->stack_texts + used;
	used += (size_t)snprintf(text, TEXTS - used, "%s%c%s", tiers, 0,
	    frames) + 1;
	assert_true(used < TEXTS && w->nstacks < 8192);
	w->stacks[w->nstacks++] = (struct kp_stack_cell){
		.identity = identity, .path = text,
		.frames = text + strlen(tiers) + 1, .state = (uint8_t)state,
		.samples = n, .time = (kp_dur_ns)n * 10 * MS,
		.w_time = (kp_dur_ns)n * 100 * MS };
}

/* What a range has, longest first; static. */
static const char *
answer(const struct kp_query_range *r, size_t limit)
{
	static char text[1 << 16];
	struct kp_query *q = open_query();
	struct kp_query_stacks s;
	size_t n;

	assert_int_equal(kp_query_stacks(q, r, limit, &s), KP_OK);
	n = (size_t)snprintf(text, sizeof(text), "%llu %llu left %llu %llu %lld"
	    "\n", (unsigned long long)s.samples,
	    (unsigned long long)s.not_seen, (unsigned long long)s.left,
	    (unsigned long long)s.left_samples, (long long)s.left_time / MS);
	for (size_t i = 0; i < s.n && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
		    "%s %s %s %s [%s] %llu %lld %lld\n", s.v[i].node,
		    s.v[i].identity, s.v[i].path, s.v[i].frames,
		    kp_stack_state_name(s.v[i].state),
		    (unsigned long long)s.v[i].samples,
		    (long long)s.v[i].time / MS, (long long)s.v[i].w_time / MS);
	assert_true(n < sizeof(text));
	kp_query_stacks_free(&s);
	kp_query_close(q);
	return text;
}

static struct kp_window *
two_types(const char *node, kp_wall_ns start)
{
	struct kp_window *w = known_window(node, start);

	add(w, "create", "web;db", "web:handle/2:12;db:query/2:31",
	    KP_STACK_CALL, 5);
	add(w, "create", "web", "web:handle/2:14;'a/b':c/1", KP_STACK_RUNNING,
	    3);
	add(w, "create", "web", "", KP_STACK_NOT_SEEN, 1);
	add(w, "read", "", "MyApp.Web.show/1:7", KP_STACK_WAIT, 2);
	return w;
}

TEST_WITH(test_rows, setup, teardown)
{
	struct kp_store *s = open_store();
	struct kp_query_range r = all;
	struct kp_window *w = two_types("a@h", T0);

	assert_int_equal(db_window_rows(w), KNOWN_ROWS + 4);
	kp_store_window(s, w);
	kp_store_close(s);
	assert_string_equal(answer(&all, 100), "11 1 left 0 0 0\n"
	    "a@h create web;db web:handle/2:12;db:query/2:31 [in a call]"
	    " 5 50 500\n"
	    "a@h create web web:handle/2:14;'a/b':c/1 [running] 3 30 300\n"
	    "a@h read  MyApp.Web.show/1:7 [waiting] 2 20 200\n"
	    "a@h create web  [not seen] 1 10 100\n");
	assert_string_equal(answer(&all, 1), "11 1 left 3 6 600\n"
	    "a@h create web;db web:handle/2:12;db:query/2:31 [in a call]"
	    " 5 50 500\n");
	r.identity_glob = "r*";
	assert_string_equal(answer(&r, 9), "2 0 left 0 0 0\n"
	    "a@h read  MyApp.Web.show/1:7 [waiting] 2 20 200\n");
	r = (struct kp_query_range){ .until = INT64_MAX, .node = "b@*" };
	assert_string_equal(answer(&r, 9), "0 0 left 0 0 0\n");
}

/*
 * By octave: 28 is up to 250 ms, 29 from there up to 500; 0 is not known.  Rows of one
 * stack are one row of an answer.
 */
TEST_WITH(test_durations, setup, teardown)
{
	struct kp_store *s = open_store();
	struct kp_query_range r = all;
	struct kp_window *w = known_window("a@h", T0);
	struct kp_query_stacks got;
	struct kp_query *q;

	for (int i = 0; i < 4; i++) {
		add(w, "create", "web", "web:slow/0", KP_STACK_RUNNING, 1 + i * i);
		w->stacks[i].octave = (uint8_t)(i == 0 ? 0 : 27 + i);
	}
	kp_store_window(s, w);
	kp_store_close(s);
	assert_sql("select samples, over_ms, to_ms from tier_stacks",
	    "10|500.0|1000.0\n5|250.0|500.0\n2|125.0|250.0\n1|null|null");
	assert_string_equal(answer(&all, 9), "18 0 left 0 0 0\n"
	    "a@h create web web:slow/0 [running] 18 180 1800\n");
	r.took_from = 29;
	r.took_to = 30;
	assert_string_equal(answer(&r, 9), "15 0 left 0 0 0\n"
	    "a@h create web web:slow/0 [running] 15 150 1500\n");
	r.took_other = true;
	assert_string_equal(answer(&r, 9), "2 0 left 0 0 0\n"
	    "a@h create web web:slow/0 [running] 2 20 200\n");
	q = open_query();
	assert_int_equal(kp_query_stacks(q, &r, 9, &got), KP_OK);
	assert_int_equal(got.untimed, 1);
	kp_query_stacks_free(&got);
	kp_query_close(q);
}

TEST_WITH(test_views, setup, teardown)
{
	struct kp_db *db = keep_open(NULL);
	struct kp_window *w = two_types("a@h", T0);

	keep_put(db, w);
	kp_window_free(w);
	db_close(db, 0);
	assert_sql("select * from tier_stacks limit 1",
	    "2023-11-14T22:13:20.123Z|2023-11-14T22:13:30.123Z|a@h|create|web|"
	    "running|web:handle/2:14;'a/b':c/1|3|300.0|null|null");
	assert_sql("select identity, tier, function, state, samples, ms from"
	    " stack_functions",
	    "create|db|db:query/2|in a call|5|500.0\n"
	    "create|web|'a/b':c/1|running|3|300.0\ncreate|web||not"
	    " seen|1|100.0\nread||MyApp.Web.show/1|waiting|2|200.0");
	for (int i = 0; i < KP_STACK_STATES; i++) {
		char sql[128];

		snprintf(sql, sizeof(sql), "update stack_stat set state = %d",
		    i);
		sql_exec("delete from stack_stat where samples <> 5");
		sql_exec(sql);
		assert_sql("select state from tier_stacks",
		    kp_stack_state_name(i));
	}
}

/* ---- limits ---- */

/* n stacks of each of some types, the first the longest. */
static struct kp_window *
many(const char *node, kp_wall_ns start, int types, int n)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	struct kp_window *w = known_window(node, start);
	char frames[64];

	for (int t = 0; t < types; t++)
		for (int i = 0; i < n; i++) {
			snprintf(frames, sizeof(frames), "m:f/1:%d", i);
			add(w, names[t], i % 2 == 0 ? "web" : "web;db",
			    frames, KP_STACK_RUNNING, (uint64_t)(n - i));
		}
	return w;
}

#define SUMS "select sum(samples), sum(time_ns), sum(w_time_ns),"          \
	" (select sum(samples) from stack_stat s join stack_path p on"     \
	"  p.id = s.path_id where path = 'web;db') from stack_stat"

TEST_WITH(test_window_limit, setup, teardown)
{
	struct kp_db *db = keep_open(NULL);
	struct kp_window *w = many("a@h", NOON, 4, 1000);
	char sums[256];

	keep_put(db, w);
	kp_window_free(w);
	/* 4 x 1000 x 1001 / 2; of odd ones 4 x 500 x 500 */
	snprintf(sums, sizeof(sums), "2002000|20020000000000|200200000000000|"
	    "1000000");
	assert_sql(SUMS, sums);
	assert_sql("select count(*) from stack_stat", "2008");
	assert_sql("select i.name, p.path, s.samples from stack_stat s join"
	    " identity i on i.id = s.identity_id join stack_path p on p.id ="
	    " s.path_id join stack t on t.id = s.stack_id where frames ="
	    " '_other' and i.name = 'd' order by path",
	    "d|web|62750\nd|web;db|62500");
	/* what is not kept has no text */
	assert_sql("select count(*) from stack", "501");
	db_close(db, 0);
}

/* Of too many types and paths only the sums of states are left. */
TEST(test_limit_of_others)
{
	const struct stack_limits l = { .of_identity = 2, .stacks = 3,
		.others = 2 };
	const struct stack_other other = { 90, 91, 92 };
	struct stack_totals s = { .n = 0 };
	uint64_t samples = 0;
	kp_dur_ns time = 0;

	for (int i = 0; i < 60; i++) {
		const struct stack_row r = { .identity = 1 + i / 10,
			.path = 1 + i % 2, .stack = 1 + i % 10, .state =
			(uint8_t)(i % 3), .octave = (uint8_t)(1 + i / 20), .samples = 1, .time = 1,
			.w_time = 100 - i };

		assert_int_equal(stack_totals_add(&s, &r), KP_OK);
	}
	assert_int_equal(stack_totals_limit(&s, &l, &other), KP_OK);
	assert_int_equal(s.n, 3 + 2 + 3);
	for (size_t i = 0; i < s.n; i++) {
		samples += s.v[i].samples;
		time += s.v[i].w_time;
		assert_true(i < 3 ? s.v[i].stack < 90 : s.v[i].stack == 90);
		assert_true((s.v[i].identity == 92) == (i >= 5));
		assert_true((s.v[i].path == 91) == (i >= 5));
		assert_true((s.v[i].octave == 0) == (i >= 5));
	}
	assert_int_equal(samples, 60);
	assert_int_equal(time, 60 * 100 - 59 * 60 / 2);
	assert_int_equal(s.v[0].w_time, 100);
	assert_int_equal(s.v[2].identity, 2);	/* two of the first type */
	stack_totals_free(&s);
}

/* Rolled up, an hour has the longest stacks, and the sums of all. */
TEST_WITH(test_rolled_up_limit, setup, teardown)
{
	struct kp_db *db = keep_open("10s:1h,1h:400d");
	struct kp_window *w;
	char sums[256];

	for (int i = 0; i < 12; i++) {
		w = many("a@h", NOON + i * 60 * S, 4, 600);
		keep_put(db, w);
		kp_window_free(w);
	}
	snprintf(sums, sizeof(sums), "%s", sql_text(SUMS));
	keep_settle(db, NOON + DAY);
	db_close(db, 0);
	assert_sql("select count(*), min(level) from time_window", "1|3600");
	assert_sql(SUMS, sums);
	assert_sql("select count(*), sum(frames = '_other') from stack_stat s"
	    " join stack t on t.id = s.stack_id", "808|8");
	assert_sql("select max(samples), (select frames from stack where id ="
	    " stack_id) from stack_stat where stack_id <> (select id from stack"
	    " where frames = '_other')", "7200|m:f/1:0");
}

/* ---- levels ---- */

static void
put_some(struct kp_db *db, const char *node, kp_wall_ns start)
{
	struct kp_window *w = known_window(node, start);
	char frames[64];

	for (unsigned i = 0; i < 12; i++) {
		snprintf(frames, sizeof(frames), "m:f/1:%u;n:g/0:%u", i / 4,
		    pick(5));
		if (pick(2) == 0)
			add(w, i % 3 == 0 ? "create" : "read",
			    i % 2 == 0 ? "web" : "web;db", frames,
			    (enum kp_stack_state)(i / 2), 1 + pick(9));
	}
	db_window(db, w, NULL);
	kp_window_free(w);
}

/* Answers to questions about one day, with a checksum of each. */
static void
ask(struct kp_buf *b)
{
	static const struct kp_query_range ranges[] = {
		{ .until = INT64_MAX },
		{ NOON + HOUR, NOON + 3 * HOUR, .node = NULL },
		{ NOON, NOON + DAY, .node = "b@h" },
		{ NOON, NOON + DAY, .identity = "create" },
		{ NOON + 30 * MIN, NOON + 150 * MIN, .identity_glob = "r*" },
	};

	kp_buf_init(b, 1u << 20);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		kp_buf_str(b, answer(&ranges[i], 1000));
	assert_int_equal(b->err, KP_OK);
}

/* Sums of levels, and windows that replace others, change no answer. */
TEST_WITH(test_levels, setup, teardown)
{
	struct kp_db *db = keep_open("10s:1d,30m:400d");
	struct kp_buf before, summed, aged;

	seed = 5;
	db_begin(db);
	for (int i = 0; i < 720; i++)
		put_some(db, i % 2 == 0 ? "a@h" : "b@h", NOON + i / 2 * 40 * S);
	assert_int_equal(db_commit(db), SQLITE_OK);
	ask(&before);
	keep_settle(db, NOON + 6 * HOUR);
	assert_sql("select count(*) > 100, min(l.node_id) > 0 from level_stack"
	    " s join level_sum l on l.id = s.sum_id", "1|1");
	assert_sql("select count(*) > 0 from level_sum where node_id = 0", "1");
	ask(&summed);
	assert_string_equal(kp_buf_cstr(&before), kp_buf_cstr(&summed));
	keep_settle(db, NOON + 3 * DAY);
	assert_sql("select min(level) from time_window", "1800");
	ask(&aged);
	assert_string_equal(kp_buf_cstr(&before), kp_buf_cstr(&aged));
	kp_buf_free(&before);
	kp_buf_free(&summed);
	kp_buf_free(&aged);
	db_close(db, 0);
}

/* ---- texts ---- */

static void
put_one(struct kp_db *db, kp_wall_ns start, const char *frames)
{
	struct kp_window *w = known_window("a@h", start);

	add(w, "create", "web", frames, KP_STACK_RUNNING, 1);
	keep_put(db, w);
	kp_window_free(w);
}

/* Texts go in the hour after the windows that had them, and no others. */
TEST_WITH(test_unused_texts, setup, teardown)
{
	struct kp_db *db = keep_open("10s:1h");

	put_one(db, NOON, "old:f/0");
	put_one(db, NOON + 10 * S, "both:f/0");
	put_one(db, NOON + 50 * MIN, "both:f/0");
	keep_settle(db, NOON + 51 * MIN);
	assert_sql("select count(*) from stack", "3");
	keep_settle(db, NOON + 100 * MIN);
	assert_sql("select count(*) from time_window", "1");
	assert_sql("select count(*) from stack", "3");
	keep_settle(db, NOON + 105 * MIN);
	keep_settle(db, NOON + 109 * MIN + 59 * S);
	assert_sql("select count(*) from stack", "3");
	keep_settle(db, NOON + 112 * MIN);
	db_close(db, 0);
	assert_sql("select frames from stack", "");
}

static bool
turn(struct kp_db *db, kp_wall_ns now)
{
	bool more;

	assert_int_equal(upkeep_turn(&keep, db, now, &more), SQLITE_OK);
	return more;
}

/* A text that is needed again while a pass is running stays. */
TEST_WITH(test_used_again, setup, teardown)
{
	struct kp_db *db = keep_open("10s:2h");

	put_one(db, NOON, "gone:f/0");
	put_one(db, NOON, "again:f/0");
	put_one(db, NOON + 119 * MIN, "here:f/0");
	keep_settle(db, NOON + 130 * MIN);
	assert_sql("select count(*) from time_window", "1");
	assert_sql("select count(*) from stack", "4");
	/* first it marks, then it deletes */
	while (db->stack_texts.used == NULL ||
	    db->stack_texts.step != STACK_TEXTS_DELETE)
		assert_true(turn(db, NOON + 3 * HOUR + 10 * MIN));
	put_one(db, NOON + 180 * MIN, "again:f/0");
	put_one(db, NOON + 181 * MIN, "new:f/0");
	while (turn(db, NOON + 3 * HOUR + 10 * MIN))
		;
	assert_null(db->stack_texts.used);
	assert_sql("select frames from stack order by 1",
	    "again:f/0\nhere:f/0\nnew:f/0");
	put_one(db, NOON + 182 * MIN, "gone:f/0");
	db_close(db, 0);
	assert_sql("select count(*) from stack_stat where stack_id not in"
	    " (select id from stack)", "0");
}

/* Where only texts are too much, no window goes. */
TEST_WITH(test_size, setup, teardown)
{
	struct kp_db *db = keep_open("10s:10h");
	struct kp_window *w = known_window("a@h", NOON);
	char frames[512];

	for (int i = 0; i < 1500; i++) {
		snprintf(frames, sizeof(frames), "m:f/1:%d;%0400d:f/1", i, 0);
		add(w, "create", "web", frames, KP_STACK_RUNNING, 1);
	}
	keep_put(db, w);
	kp_window_free(w);
	put_one(db, NOON + 10 * S, "m:f/1:1");
	db_begin(db);
	db_fail(db, sqlite3_exec(db->conn, "delete from time_window where"
	    " start_ns = (select min(start_ns) from time_window)", NULL, NULL,
	    NULL));
	assert_int_equal(db_commit(db), SQLITE_OK);
	keep.max_bytes = 1 << 20;
	keep_settle(db, NOON + HOUR);
	assert_int_equal(upkeep_percent(&keep), 100);
	assert_sql("select count(*), (select count(*) from stack) from"
	    " time_window", "1|1");
	db_close(db, 0);
}

/* ---- other files ---- */

TEST_WITH(test_merge, setup, teardown)
{
	static const volatile sig_atomic_t stop;
	char a[96], b[96], out[96], *why = NULL;
	struct kp_merge_count n;
	struct kp_window *w;
	struct kp_merge *m;

	snprintf(a, sizeof(a), "%s/a.db", dir);
	snprintf(b, sizeof(b), "%s/b.db", dir);
	snprintf(out, sizeof(out), "%s/out.db", dir);
	for (int i = 0; i < 2; i++) {
		struct kp_db *db;

		strcpy(path, i == 0 ? a : b);
		db = keep_open(NULL);
		if (i == 1)	/* so that ids differ */
			put_one(db, T0, "other:f/0");
		w = two_types(i == 0 ? "a@h" : "b@h", T0);
		keep_put(db, w);
		kp_window_free(w);
		db_close(db, 0);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kp_merge_open(&m, out, &stop, &why), KP_OK);
		assert_int_equal(kp_merge_add(m, a, &n, &why), KP_OK);
		assert_int_equal(kp_merge_add(m, b, &n, &why), KP_OK);
		assert_int_equal(kp_merge_finish(m, &why), KP_OK);
	}
	strcpy(path, out);
	assert_sql("select node, identity, path, frames, state, samples from"
	    " tier_stacks where samples > 2 or frames like 'other%'",
	    "a@h|create|web|web:handle/2:14;'a/b':c/1|running|3\n"
	    "a@h|create|web|other:f/0|running|1\n"
	    "a@h|create|web;db|web:handle/2:12;db:query/2:31|in a call|5\n"
	    "b@h|create|web|web:handle/2:14;'a/b':c/1|running|3\n"
	    "b@h|create|web;db|web:handle/2:12;db:query/2:31|in a call|5");
}

/* Two files are read as one: the same stack of one node is one row. */
TEST_WITH(test_several, setup, teardown)
{
	char a[96], b[96], *why = NULL;
	const char *const files[] = { a, b };
	struct kp_query_stacks s;
	struct kp_query *q;

	snprintf(a, sizeof(a), "%s/a.db", dir);
	snprintf(b, sizeof(b), "%s/b.db", dir);
	for (int i = 0; i < 2; i++) {
		struct kp_db *db;

		strcpy(path, files[i]);
		db = keep_open(NULL);
		put_one(db, T0 + i * HOUR, i == 0 ? "x:f/0" : "y:f/0");
		put_one(db, T0 + i * HOUR + 10 * S, "m:f/0");
		db_close(db, 0);
	}
	assert_int_equal(kp_query_open_all(&q, &(struct kp_query_files){
		files, 2 }, &why), KP_OK);
	assert_int_equal(kp_query_stacks(q, &all, 2, &s), KP_OK);
	assert_fields(s, IS(n, 2) IS(v[0].frames, "m:f/0") IS(v[0].samples, 2)
	    IS(v[1].frames, "x:f/0") IS(left, 1) IS(samples, 4));
	assert_true(s.since == T0 && s.until == T0 + HOUR + 10 * S + 1);
	kp_query_stacks_free(&s);
	kp_query_close(q);
}

TESTS(NULL, NULL)
