/*
 * The report of sampled stacks: how texts of stacks are taken apart, what the
 * forms show of known rows, and why there is nothing to show.
 */
#include "cases.h"
#include "pprof_text.h"
#include "report/report.h"
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
	assert_app("web:f/1:3;web:f/1 (fun 2):4", "web:f/1 (fun 2)");
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

static const char *
put(struct kp_buf *b, const struct stacks *s, const struct stacks *versus,
    enum stacks_form form)
{
	kp_buf_reset(b);
	assert_int_equal(stacks_put(b, s, versus, form), KP_OK);
	return kp_buf_cstr(b);
}

TEST(test_folded)
{
	struct stacks s = known();
	struct kp_buf b;

	kp_buf_init(&b, 1u << 16);
	assert_string_equal(put(&b, &s, NULL, STACKS_FOLDED),
	    "GET:/;web;db;web:handle/2:1;db:q/2:2;gen:call/4 700000\n"
	    "GET:/;web;web:handle/2:5 200000\n"
	    "GET:/;web;(not seen) 100000\n");
	kp_buf_free(&b);
}

/* A function that calls itself is one box; above what the VM has cut are its tiers. */
TEST(test_cut_and_recursion)
{
	static struct kp_query_stack deep[] = {
		{ "a@h", "x", "web", "m:f/1:3;m:f/1:4;m:f/1:4;m:g/1:1;m:g/1:1;"
		    "m:f/1:4;m:f/1:4;m:h/0:2", KP_STACK_RUNNING, 3, 3 * MS, 3 * MS },
		{ "a@h", "x", "web", "m:f/1:3;m:h/0:2", KP_STACK_RUNNING, 1, MS,
		    MS },
	};
	struct stacks s = known();
	const struct stacks_opts o = { .rows = 1 };
	struct kp_buf b;

	s.stacks = (struct kp_query_stacks){ .v = deep, .n = 2, .samples = 4 };
	s.depth = 8;
	s.cut = 3;
	kp_buf_init(&b, 1u << 16);
	assert_string_equal(put(&b, &s, NULL, STACKS_FOLDED),
	    "x;web;...;m:f/1:3;m:g/1:1;m:f/1:4;m:h/0:2 3000\n"
	    "x;web;m:f/1:3;m:h/0:2 1000\n");
	assert_has(put(&b, &s, NULL, STACKS_JSON), "\"depth\":8,\"cut\":3,");
	kp_buf_reset(&b);
	assert_int_equal(stacks_table(&b, &s, &o), KP_OK);
	assert_has(kp_buf_cstr(&b), "75 % of the samples have 8 frames");
	kp_buf_free(&b);
}

/* As if there had been as many requests before as now. */
TEST(test_difffolded)
{
	static struct kp_query_stack then_rows[] = {
		{ "a@h", "GET;/", "web", "web:handle/2:5", KP_STACK_RUNNING, 1, MS,
		    MS },
		{ "a@h", "GET;/", "web", "web:gone/2:5", KP_STACK_WAIT, 1, MS, MS },
	};
	struct stacks_requests half[] = { { "_total", 50 }, { "GET;/", 50 } };
	struct stacks now = known(), then = known();
	struct kp_buf b;

	then.stacks = (struct kp_query_stacks){ .v = then_rows, .n = 2 };
	then.requests = half;
	kp_buf_init(&b, 1u << 16);
	assert_string_equal(put(&b, &now, &then, STACKS_DIFFFOLDED),
	    "GET:/;web;db;web:handle/2:1;db:q/2:2;gen:call/4 0 700000\n"
	    "GET:/;web;web:handle/2:5 2000 200000\n"
	    "GET:/;web;(not seen) 0 100000\n"
	    "GET:/;web;web:gone/2:5 2000 0\n");
	kp_buf_free(&b);
}

TEST(test_pprof)
{
	struct stacks s = known();
	struct kp_buf b, text;

	kp_buf_init(&b, 1u << 16);
	kp_buf_init(&text, 1u << 16);
	assert_int_equal(stacks_put(&b, &s, NULL, STACKS_PPROF), KP_OK);
	pprof_text(&text, b.p, b.len);
	/* nodes and states are apart, lines are of places, tiers are labels */
	assert_has(kp_buf_cstr(&text), "\ngen:call/4@gen:0 < db:q/2@db:2 < "
	    "web:handle/2@web:1, 60 600000000 0, node=a@h request_type=GET;/ "
	    "tier=db tiers=web > db state=in a call\n"
	    "gen:call/4@gen:0 < db:q/2@db:2 < web:handle/2@web:1, 10 100000000 0, "
	    "node=b@h request_type=GET;/ tier=db tiers=web > db state=in a call\n"
	    "web:handle/2@web:5, 20 200000000 200000000, node=a@h "
	    "request_type=GET;/ tier=web tiers=web state=running\n"
	    "(not seen)@:0, 10 100000000 0, node=a@h request_type=GET;/ tier=web "
	    "tiers=web state=not seen\n");
	assert_has(kp_buf_cstr(&text), "\nduration 60000000000\n"
	    "period type wall nanoseconds\nperiod 10000000\n");
	kp_buf_free(&text);
	kp_buf_free(&b);
}

/* Of a damaged file: texts that are no names, and more frames than the VM shows. */
TEST(test_pprof_bounds)
{
	char *deep = calloc(1, 10000);
	struct kp_query_stack odd = { "", "", "", deep, KP_STACK_RUNNING, 1,
		INT64_MAX, INT64_MAX };
	struct kp_query_stack bad = { "\xff", "x", ";", ":1;;\xff\n:f/1:99999999999",
		KP_STACK_GC, UINT64_MAX, 1, INT64_MAX };
	struct kp_query_stack rows_of[2] = { odd, bad };
	struct stacks s = known();
	struct kp_buf b, text;

	for (int i = 0; i < 2000; i++)
		strcat(deep, "a:b;");
	s.stacks = (struct kp_query_stacks){ .v = rows_of, .n = 2 };
	for (int form = STACKS_FOLDED; form <= STACKS_PPROF; form++) {
		kp_buf_init(&b, 1u << 20);
		assert_int_equal(stacks_put(&b, &s, &s, (enum stacks_form)form),
		    KP_OK);
		if (form == STACKS_PPROF) {
			kp_buf_init(&text, 1u << 20);
			pprof_text(&text, b.p, b.len);
			assert_has(kp_buf_cstr(&text), "state=collecting\n");
			kp_buf_free(&text);
		}
		kp_buf_free(&b);
	}
	/* no room: said, not written in part */
	kp_buf_init(&b, 8);
	assert_int_equal(stacks_put(&b, &s, NULL, STACKS_PPROF), KP_ELIMIT);
	kp_buf_free(&b);
	free(deep);
}

/*
 * Poisson's limits, of 1 in 1000, are 70.3 to 137.4 for 100 samples, and 2.6 to 25.3 for
 * 10; all stand for 1 ms.
 */
TEST(test_versus)
{
	static struct kp_query_stack now_rows[] = {
		{ "a@h", "x", "web", "lists:map/2;web:f/1:2", KP_STACK_RUNNING, 70,
		    70 * MS, 70 * MS },
		{ "b@h", "y", "web", "web:f/1:7;lists:map/2", KP_STACK_GC, 30,
		    30 * MS, 30 * MS },
		{ "a@h", "x", "web", "web:same/0", KP_STACK_RUNNING, 9, 9 * MS,
		    9 * MS },
		{ "a@h", "x", "db", "gen:call/3", KP_STACK_CALL, 50, 50 * MS,
		    50 * MS },
	}, then_rows[] = {
		{ "a@h", "x", "web", "web:f/1:3", KP_STACK_RUNNABLE, 10, 10 * MS,
		    10 * MS },
		{ "a@h", "x", "web", "web:same/0", KP_STACK_RUNNING, 5, 5 * MS,
		    5 * MS },
		{ "a@h", "x", "web", "_other", KP_STACK_RUNNING, 2000, 2000 * MS,
		    2000 * MS },
	};
	struct stacks_opts o = { .rows = 5 };
	struct stacks now = known(), then = known();
	struct kp_buf b;

	now.stacks = (struct kp_query_stacks){ .v = now_rows, .n = 4 };
	then.stacks = (struct kp_query_stacks){ .v = then_rows, .n = 2 };
	kp_buf_init(&b, 1u << 16);
	assert_int_equal(stacks_versus_table(&b, &now, &then, STACKS_TIME, &o),
	    KP_OK);
	assert_has(kp_buf_cstr(&b), "\nall functions        ~1.1 ms  ~150 us");
	assert_has(kp_buf_cstr(&b), "\nweb:f/1        web   ~1.0 ms  ~100 us    "
	    "~+900 us  +566 us to +1.3 ms  100, 10\n");
	assert_null(strstr(kp_buf_cstr(&b), "web:same/0"));
	assert_null(strstr(kp_buf_cstr(&b), "gen:call/3"));
	assert_has(kp_buf_cstr(&b), "1 function not shown");
	kp_buf_reset(&b);
	o.rows = 0;
	o.waits = true;
	assert_int_equal(stacks_versus_table(&b, &now, &then, STACKS_NODES, &o),
	    KP_OK);
	assert_has(kp_buf_cstr(&b), "here  other nodes");
	assert_has(kp_buf_cstr(&b), "\nweb:same/0");
	assert_has(kp_buf_cstr(&b), "\ngen:call/3     db    ~500 us           ~0 ");
	/* f may be in what was not kept of its tier; a wait in another cannot */
	then.stacks.n = 3;
	o.rows = 5;
	kp_buf_reset(&b);
	assert_int_equal(stacks_versus_table(&b, &now, &then, STACKS_TYPES, &o),
	    KP_OK);
	assert_null(strstr(kp_buf_cstr(&b), "\nweb:f/1"));
	assert_has(kp_buf_cstr(&b), "\ngen:call/3");
	kp_buf_free(&b);
}

/* Both ends become those of octaves: 28 is up to 250 ms, 30 up to 1 s. */
TEST(test_took)
{
	static const struct {
		const char *text;
		int from, to;
		const char *shown;
	} cases[] = {
		{ "250ms", 29, KP_HIST_OCTAVES, "over 250 ms" },
		{ "249ms", 28, KP_HIST_OCTAVES, "over 125 ms" },
		{ "250ms,1s", 29, 30, "over 250 ms, up to 1 000 ms" },
		{ "300ms,301ms", 29, 29, "over 250 ms, up to 500 ms" },
		{ "0ms,1001ms", 1, 31, "over 0, up to 2 000 ms" },
		{ "", 0, 0, NULL }, { "1", 0, 0, NULL }, { "1s,", 0, 0, NULL },
		{ ",1s", 0, 0, NULL }, { "1s,1s", 0, 0, NULL }, { "2s,1s", 0, 0, NULL },
		{ "1s,2s,3s", 0, 0, NULL }, { "-1s", 0, 0, NULL },
		{ "99999999999999999999999999999999999s", 0, 0, NULL },
	};
	char shown[REPORT_TOOK_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kp_query_range r = { .until = 1 };
		const char *why = report_parse_took(cases[i].text, &r);

		assert_int_equal(why == NULL, cases[i].shown != NULL);
		assert_int_equal(r.took_from, cases[i].from);
		assert_int_equal(r.took_to, cases[i].to);
		if (why == NULL)
			assert_string_equal(report_took(shown, r.took_from, r.took_to),
			    cases[i].shown);
	}
}

/* Of three requests of 200, 400 and 800 ms, and one without an end. */
TEST_WITH(test_durations, setup, teardown)
{
	static const kp_dur_ns times[] = { 200 * MS, 400 * MS, 800 * MS };
	struct kp_window *w = known_window("a@h", T0);
	struct kp_query_range r = all;
	struct kp_db *db = keep_open(NULL);
	struct stacks *s = NULL, *other = NULL;
	struct stacks_against with = { .what = STACKS_DURATIONS };
	struct stacks_opts o = { .rows = 0 };
	struct kp_query *q;
	struct kp_buf b;

	for (size_t i = 0; i < w->ncells; i++) {
		if (strcmp(w->cells[i].tier, "_total") != 0)
			continue;
		kp_hist_free(&w->cells[i].hist);
		for (int k = 0; k < 3; k++)
			assert_int_equal(kp_hist_add(&w->cells[i].hist, times[k], 10),
			    KP_OK);
	}
	w->stack_texts = strdup("web");
	w->stacks = calloc(4, sizeof(*w->stacks));
	for (w->nstacks = 0; w->nstacks < 4; w->nstacks++)
		w->stacks[w->nstacks] = (struct kp_stack_cell){ .identity = "create",
			.path = w->stack_texts, .frames = w->nstacks == 2 ?
			"web:slow/0" : "web:f/0", .samples = 1 + w->nstacks,
			.octave = w->nstacks == 3 ? 0 :
			kp_hist_octave(times[w->nstacks]), .time = MS, .w_time = MS };
	keep_put(db, w);
	kp_window_free(w);
	q = open_query();
	r.identity_glob = "create";
	assert_null(report_parse_took("501ms,900ms", &r));
	assert_int_equal(stacks_from_db(q, &r, 9, &s), KP_OK);
	assert_int_equal(stacks_against_from_db(q, &r, s, &with, 9, &other), KP_OK);
	assert_int_equal(s->requests[0].requests, 10);
	assert_int_equal(other->requests[0].requests, 20);
	assert_fields(s->stacks, IS(n, 1) IS(samples, 3) IS(untimed, 4));
	assert_fields(other->stacks, IS(n, 1) IS(samples, 1 + 2) IS(untimed, 4));
	kp_buf_init(&b, 1u << 16);
	assert_int_equal(stacks_versus_table(&b, s, other, with.what, &o), KP_OK);
	assert_has(kp_buf_cstr(&b), "of these: ");
	assert_has(kp_buf_cstr(&b), "\nothers: ");
	assert_has(kp_buf_cstr(&b), "requests that took over 500 ms, up to 1 000 ms (limits "
	    "are powers of two of a second); left out: 4 samples of requests whose "
	    "duration is not known");
	kp_buf_free(&b);
	stacks_free(other);
	stacks_free(s);
	kp_query_close(q);
	db_close(db, 0);
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

/* Two of one window, one of them with a text of the other's. */
TEST_WITH(test_names, setup, teardown)
{
	static const char *const frames[] = {
		"web:html/1:3;web:'-html/1-lc$^0/1-0-'/1:4;web:f/1:12",
		"A.\"-b/1-lc$^0/1-0-\"/1:7", "web:html/1:3" };
	static const char *const read[] = {
		"web:html/1:3;web:html/1 (list comprehension):4;web:f/1:12",
		"A.b/1 (list comprehension):7", "web:html/1:3" };
	struct kp_window *w = known_window("a@h", T0);
	struct kp_db *db = keep_open(NULL);
	struct stacks *s = NULL;
	struct kp_query *q;

	w->stack_texts = strdup("");
	w->stacks = calloc(6, sizeof(*w->stacks));
	for (w->nstacks = 0; w->nstacks < 6; w->nstacks++)
		w->stacks[w->nstacks] = (struct kp_stack_cell){
			.identity = "create", .path = "web", .samples = 1,
			.frames = frames[w->nstacks / 2],
			.state = w->nstacks % 2, .w_time = 6 - (int)w->nstacks };
	keep_put(db, w);
	free(w->stack_texts);
	w->stack_texts = NULL;
	kp_window_free(w);
	q = open_query();
	assert_int_equal(stacks_from_db(q, &all, 100, &s), KP_OK);
	assert_int_equal(s->stacks.n, 6);
	for (size_t i = 0; i < 6; i++)
		assert_string_equal(s->stacks.v[i].frames, read[i / 2]);
	stacks_free(s);
	kp_query_close(q);
	db_close(db, 0);
}

TESTS(NULL, NULL)
