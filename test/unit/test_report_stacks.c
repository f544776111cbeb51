/*
 * The report of sampled stacks: how texts of stacks are taken apart, what the
 * forms show of known rows, and why there is nothing to show.
 */
#include "cases.h"
#include "stacks/stored/frames.h"
#include "stacks/stored/stored_stacks.h"
#include "store_fixture.h"

#define MS KP_NS_PER_MS

static void
assert_app(const char *frames, const char *fn)
{
	size_t n = 0;
	const char *at = frames_app(frames, &n);

	assert_non_null(at);
	n = frame_fn(at, n);
	assert_int_equal(n, strlen(fn));
	assert_memory_equal(at, fn, n);
}

TEST(test_frames)
{
	size_t n;

	assert_app("web:handle/2:12;gen:do_call/4:259", "web:handle/2");
	assert_app("web:handle/2;users:get/1;lists:map/2:3", "users:get/1");
	assert_app("lists:map/2:3", "lists:map/2");
	assert_app("MyApp.Repo.all/2:7;Enum.map/2:1", "MyApp.Repo.all/2");
	assert_app("MyApp.Enum.map/2;Enum.\"a.b\"/2:1", "MyApp.Enum.map/2");
	assert_app("anonymous fn/1 in MyApp.all/2:7;Enum.map/2:1;"
	    "anonymous fn/2 (fun-1) in Enum.reduce/3:4",
	    "anonymous fn/1 in MyApp.all/2");
	assert_app("'my;mod':'f/1:2'/3", "mod':'f/1:2'/3");
	assert_app("a:b/12", "a:b/12");
	assert_app("_other", "_other");
	assert_null(frames_app("", &n));
	assert_int_equal(frames_count(""), 0);
	assert_int_equal(frames_count("a:b/1;c:d/2"), 2);
}

static struct kp_query_stack rows[] = {
	{ "a@h", "GET;/", "web;db", "web:handle/2:1;db:q/2:2;gen:call/4",
	    KP_STACK_CALL, 60, 60 * MS, 600 * MS },
	{ "b@h", "GET;/", "web;db", "web:handle/2:1;db:q/2:2;gen:call/4",
	    KP_STACK_CALL, 10, 10 * MS, 100 * MS },
	{ "a@h", "GET;/", "web", "web:handle/2:5", KP_STACK_RUNNING, 20,
	    20 * MS, 200 * MS },
	{ "a@h", "GET;/", "web", "", KP_STACK_NOT_SEEN, 10, 10 * MS, 100 * MS },
};

static struct stacks_requests requests[] = { { "_total", 100 },
	{ "GET;/", 100 } };

static struct stacks
known(void)
{
	return (struct stacks){ .start = T0, .end = T0 + MIN, .windows = 6,
		.sampled = 100, .stacks = { .v = rows, .n = 4, .samples = 100,
		.not_seen = 10 }, .requests = requests, .nrequests = 2 };
}

TEST(test_table)
{
	const struct stacks_opts o = { .rows = 1 };
	struct stacks s = known();
	struct kp_buf b;

	kp_buf_init(&b, 1u << 16);
	assert_int_equal(stacks_table(&b, &s, &o), KP_OK);
	/* 1000 ms of 100 requests; of 100 samples, 70 are 60 to 78 % */
	assert_has(kp_buf_cstr(&b), "\nGET;/ ");
	assert_has(kp_buf_cstr(&b), "  ~10 ms   100 %                100  in a call "
	    "70 %,"
	    " running 20 %, not seen 10 %\n");
	assert_has(kp_buf_cstr(&b), "\n  web  ");
	assert_has(kp_buf_cstr(&b), "\n    web:handle/2  ");
	assert_has(kp_buf_cstr(&b), "\n    (1 more)  ");
	assert_has(kp_buf_cstr(&b), "\n    db  ");
	assert_has(kp_buf_cstr(&b), "  ~7.0 ms   ~70 %   60-78 %       70  in a call\n");
	assert_has(kp_buf_cstr(&b), "\n        gen:call/4 < db:q/2:2 < web:handle/2:1  ");
	assert_has(kp_buf_cstr(&b), "100 samples, 10 % of them not seen");
	kp_buf_free(&b);
}

TEST(test_folded)
{
	struct stacks s = known();
	struct kp_buf b;

	kp_buf_init(&b, 1u << 16);
	assert_int_equal(stacks_folded(&b, &s), KP_OK);
	assert_string_equal(kp_buf_cstr(&b),
	    "GET:/;web;db;web:handle/2:1;db:q/2:2;gen:call/4 700000\n"
	    "GET:/;web;web:handle/2:5 200000\n"
	    "GET:/;web;(not seen) 100000\n");
	kp_buf_free(&b);
}

static void
assert_why(const char *text)
{
	struct kp_query *q = open_query();
	struct stacks *s = NULL;

	assert_int_equal(stacks_from_db(q, &all, 100, &s), KP_OK);
	assert_non_null(s->why);
	if (strstr(s->why, text) == NULL)
		fail_msg("'%s' is not in '%s'", text, s->why);
	stacks_free(s);
	kp_query_close(q);
}

static void
put_not_seen(struct kp_db *db)
{
	struct kp_window *w = known_window("a@h", T0 + MIN);

	w->stack_texts = strdup("web");
	w->stacks = calloc(1, sizeof(*w->stacks));
	w->nstacks = 1;
	w->stacks[0] = (struct kp_stack_cell){ .identity = "create",
		.path = w->stack_texts, .frames = "", .samples = 1,
		.state = KP_STACK_NOT_SEEN, .time = MS, .w_time = MS };
	keep_put(db, w);
	kp_window_free(w);
}

TEST_WITH(test_why, setup, teardown)
{
	struct kp_db *db = keep_open(NULL);

	/* a comment is not the setting */
	sql_exec("update run set tiers_conf = '{tiers, [{db, [{db, query, 2}]}]}."
	    " % {stacks, {per_second, 5}}.'");
	assert_why("add {stacks, {per_second, 20}} to tiers.conf");
	sql_exec("update run set tiers_conf = '{tiers, [{db, [{db, query, 2}]}]}."
	    " { stacks , {per_second, 5}}.'");
	assert_why("no window is stored");
	keep_put_known(db, "a@h", T0);
	assert_why("no process was met");
	sql_exec("update time_window set sampled = 0");
	assert_why("no request was measured");
	put_not_seen(db);
	assert_why("none of the sampled processes answered");
	db_close(db, 0);
}

TESTS(NULL, NULL)
