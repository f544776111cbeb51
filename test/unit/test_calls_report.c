/*
 * A full trace in all its forms: one small trace, made by hand, and what each
 * form says of it.
 */
#include "cases.h"
#include "calls_feed.h"
#include "pprof_text.h"
#include "profile/report/trace_report.h"

static struct calls_feed feed;
static struct kp_calls_sum *sum;
static struct kp_calls_info info = { .target = "app@host" };
static struct trace_slice slices[1024];
static size_t nslices;
static struct kp_buf out;

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	(void)ctx;
	slices[nslices++] = (struct trace_slice){ proc, path, from, to };
}

/* a calls b, which waits, and spawns; c runs in another process. */
FIXTURE(setup)
{
	struct kp_calls_opts o = { .paths = true, .slice = on_slice };

	feed.names = kp_call_names_new();
	feed.n = 0;
	nslices = 0;
	feed_call(&feed, 0, 0, 'a', '?');
	feed_call(&feed, 0, 1000, 'b', 'a');
	feed_at(&feed, KP_CALL_OUT, 0, 2000, 'b');
	feed_at(&feed, KP_CALL_IN, 0, 5000, 'b');
	feed_spawn(&feed, 0, 6000, 1, 'c');
	feed_at(&feed, KP_CALL_IN, 1, 7000, 'c');
	feed_call(&feed, 1, 7000, 'c', '?');
	feed_at(&feed, KP_CALL_RETURN_TO, 0, 8000, 'a');
	feed_at(&feed, KP_CALL_EXIT, 1, 9000, '?');
	feed_at(&feed, KP_CALL_RETURN_TO, 0, 10000, '?');
	kp_call_proc_name(feed.names, 0, feed_span("main"));
	sum = feed_sum(&feed, &o);
	kp_buf_init(&out, 1 << 20);
	return sum == NULL;
}

FIXTURE(teardown)
{
	kp_calls_sum_free(sum);
	kp_call_names_free(feed.names);
	kp_buf_free(&out);
	return 0;
}

static struct trace_view
view(void)
{
	return (struct trace_view){ .names = feed.names, .sum = sum,
		.info = &info, .totals = true };
}

/* Column by column that of fprof. */
TEST(test_analysis)
{
	struct trace_view v = view();

	v.no_details = true;
	trace_fprof(&out, &v);
	assert_string_equal(kp_buf_cstr(&out),
	    "%% Analysis results:\n"
	    "{  analysis_options,\n"
	    " [{callers, true},\n"
	    "  {sort, acc},\n"
	    "  {totals, true},\n"
	    "  {details, false}]}.\n"
	    "\n"
	    "%                                               CNT       ACC       OWN        \n"
	    "[{ totals,                                        5,   10.000,    9.000}].  %%%\n"
	    "\n"
	    "{[{undefined,                                     1,   10.000,    3.000}],     \n"
	    " { {t,a,0},                                       1,   10.000,    3.000},     %\n"
	    " [{{t,b,0},                                       1,    7.000,    4.000}]}.    \n"
	    "\n"
	    "{[{{t,a,0},                                       1,    7.000,    4.000}],     \n"
	    " { {t,b,0},                                       1,    7.000,    4.000},     %\n"
	    " [{suspend,                                       1,    3.000,    0.000}]}.    \n"
	    "\n"
	    "{[{{t,b,0},                                       1,    3.000,    0.000},      \n"
	    "  {{t,c,0},                                       1,    1.000,    0.000}],     \n"
	    " { suspend,                                       2,    4.000,    0.000},     %\n"
	    " [ ]}.\n"
	    "\n"
	    "{[{undefined,                                     1,    3.000,    2.000}],     \n"
	    " { {t,c,0},                                       1,    3.000,    2.000},     %\n"
	    " [{suspend,                                       1,    1.000,    0.000}]}.    \n"
	    "\n"
	    "{[ ],\n"
	    " { undefined,                                     0,    0.000,    0.000},     %\n"
	    " [{{t,a,0},                                       1,   10.000,    3.000},      \n"
	    "  {{t,c,0},                                       1,    3.000,    2.000}]}.    \n"
	    "\n"
	    "\n");
}

static void
has(const char *text)
{
	if (strstr(kp_buf_cstr(&out), text) == NULL)
		fail_msg("no '%s' in:\n%s", text, kp_buf_cstr(&out));
}

TEST(test_analysis_details)
{
	struct trace_view v = view();

	v.no_callers = true;
	v.totals = false;
	v.by_own = true;
	trace_fprof(&out, &v);
	has(" [{callers, false},\n  {sort, own},\n  {totals, false},\n");
	has("[{ \"<0.100.0>\",                                   "
	    "3,undefined,    7.000}].   %%\n");
	has("[{ \"<0.101.0>\",                                   "
	    "2,undefined,    2.000},    %%\n"
	    " { spawned_by, \"<0.100.0>\"},\n"
	    " { spawned_as, {t,c,0}},\n"
	    " { initial_calls, [{t,c,0}]}].\n");
	has("\n{  {t,b,0},                                       "
	    "1,    7.000,    4.000}.      \n");
}

/*
 * Three callers of 0.4 us each were three rows of 0.000 above a marked row of 0.001:
 * fprof's own check, that callers add up to it, failed.  Rows of one column, ns:
 */
TEST(test_analysis_adds_up)
{
	static const struct {
		kp_dur_ns own[3];
		const char *shown[3], *sum;
	} t[] = {
		{ { 400, 400, 400 }, { "0.000", "0.000", "0.000" }, "0.000" },
		{ { 600, 600, 600 }, { "0.001", "0.001", "0.001" }, "0.003" },
		{ { 500, 1499, 0 }, { "0.001", "0.001", "0.000" }, "0.002" },
		{ { 1500, 2500, 499 }, { "0.003", "0.002", "0.000" }, "0.005" },
	};
	struct kp_calls_clock rows[3];
	struct kp_calls_sum small;
	struct trace_view v = view();
	char line[200];

	v.by_own = true;
	v.sum = &small;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		small = *sum;
		small.clocks = rows;
		small.nclocks = 3;
		for (uint32_t k = 0; k < 3; k++)
			rows[k] = (struct kp_calls_clock){ .proc = 0,
				.caller = sum->clocks[0].fn + k,
				.fn = sum->clocks[0].fn, .calls = 1,
				.acc = t[i].own[k], .own = t[i].own[k] };
		kp_buf_reset(&out);
		trace_fprof(&out, &v);
		for (int k = 0; k < 3; k++) {
			snprintf(line, sizeof(line), " 1,    %s,    %s}",
			    t[i].shown[k], t[i].shown[k]);
			has(line);
		}
		snprintf(line, sizeof(line), " 3,    %s,    %s},     %%\n",
		    t[i].sum, t[i].sum);
		has(line);
		/* of the process */
		snprintf(line, sizeof(line), " 3,undefined,    %s}", t[i].sum);
		has(line);
	}
}

TEST(test_tree)
{
	struct trace_view v = view();

	trace_tree(&out, &v);
	assert_string_equal(kp_buf_cstr(&out),
	    "     calls      total ms        own ms\n"
	    "                  10.000                main <0.100.0>\n"
	    "         1        10.000         3.000    t:a/0\n"
	    "         1         7.000         4.000      t:b/0\n"
	    "         1         3.000         3.000        suspend\n"
	    "                   3.000                <0.101.0>, spawned by "
	    "main <0.100.0>\n"
	    "         1         3.000         2.000    t:c/0\n"
	    "         1         1.000         1.000      suspend\n");
	kp_buf_reset(&out);
	v.least = 0.3;
	trace_tree(&out, &v);
	has("t:b/0");
	has("2 more with less than 30 % of the time (-least)\n");
}

TEST(test_folded)
{
	struct trace_view v = view();

	trace_folded(&out, &v);
	has("main <0.100.0>;t:a/0 3000\n");
	has("main <0.100.0>;t:a/0;t:b/0;suspend 3000\n");
	has("<0.101.0>;t:c/0 2000\n");
}

TEST(test_callgrind)
{
	struct trace_view v = view();

	trace_callgrind(&out, &v);
	has("# callgrind format\nversion: 1\ncreator: kprof\ncmd: app@host\n");
	has("events: ns\nsummary: 13000000\n");
	has("ob=main <0.100.0>\n");
	has("fl=t\nfn=t:b/0\n0 4000000\ncfi=pseudo\ncfn=suspend\n"
	    "calls=1 0\n0 3000000\n");
	has("fl=pseudo\nfn=suspend\n0 3000000\n");
}

TEST(test_speedscope)
{
	struct trace_view v = view();

	trace_viewer(&out, &v, slices, nslices, FLAME_SPEEDSCOPE);
	has("\"name\":\"t:a/0\",\"file\":\"t\"");
	/* suspend, a and b are the first three functions but undefined */
	has("\"name\":\"main <0.100.0>\",\"unit\":\"nanoseconds\","
	    "\"startValue\":0,\"endValue\":10000000,\"events\":["
	    "{\"type\":\"O\",\"frame\":3,\"at\":0},"
	    "{\"type\":\"O\",\"frame\":4,\"at\":1000000},"
	    "{\"type\":\"O\",\"frame\":1,\"at\":2000000},"
	    "{\"type\":\"C\",\"frame\":1,\"at\":5000000},"
	    "{\"type\":\"C\",\"frame\":4,\"at\":8000000},"
	    "{\"type\":\"C\",\"frame\":3,\"at\":10000000}]}");
}

TEST(test_chrome)
{
	struct trace_view v = view();

	trace_viewer(&out, &v, slices, nslices, FLAME_CHROME);
	has("{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,"
	    "\"tid\":1,\"args\":{\"name\":\"main <0.100.0>\"}},"
	    "{\"ph\":\"B\",\"name\":\"t:a/0\",\"pid\":1,\"tid\":1,\"ts\":0},"
	    "{\"ph\":\"B\",\"name\":\"t:b/0\",\"pid\":1,\"tid\":1,\"ts\":1000},");
	has("{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":10000},"
	    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,");
}

TEST(test_pprof)
{
	struct trace_view v = view();
	struct kp_buf text;

	kp_buf_init(&text, 1u << 16);
	info.offset = KP_NS_PER_S;
	trace_pprof(&out, &v);
	info.offset = 0;
	assert_int_equal(out.err, KP_OK);
	pprof_text(&text, out.p, out.len);
	assert_string_equal(kp_buf_cstr(&text),
	    "type calls count\ntype own nanoseconds\nshows own\n"
	    "t:a/0@t:0, 1 3000000, node=app@host process=main <0.100.0>\n"
	    "t:b/0@t:0 < t:a/0@t:0, 1 4000000, node=app@host process=main <0.100.0>\n"
	    "suspend@:0 < t:b/0@t:0 < t:a/0@t:0, 1 3000000, node=app@host "
	    "process=main <0.100.0>\n"
	    "t:c/0@t:0, 1 2000000, node=app@host process=<0.101.0>\n"
	    "suspend@:0 < t:c/0@t:0, 1 1000000, node=app@host process=<0.101.0>\n"
	    "time 1000000000\nduration 10000000\n");
	kp_buf_free(&text);
}

TEST(test_dump)
{
	for (size_t i = 0; i < feed.n; i++)
		trace_put_event(&out, feed.names, &feed.v[i]);
	has("0 <0.100.0> call t:a/0 by undefined\n");
	has("2000000 <0.100.0> out t:b/0\n");
	has("6000000 <0.100.0> spawn <0.101.0> t:c/0\n");
	has("9000000 <0.101.0> exit\n");
}

TEST(test_remarks)
{
	struct trace_view v = view();

	info.end = KP_CALLS_DONE;
	trace_remarks(&out, &v);
	assert_int_equal(out.len, 0);
	info.end = KP_CALLS_QUEUE;
	info.lost = 1200;
	trace_remarks(&out, &v);
	has("ended early: the node made more events");
	has("1 200 events were lost\n");
}

/* b is called twice with the same, a with something else each time. */
TEST(test_args)
{
	struct kp_calls_opts o = { .paths = true };
	struct trace_view v = view();

	feed.n = 0;
	for (int64_t us = 0; us < 2000; us += 1000) {
		feed_call(&feed, 0, us, 'a', '?');
		feed.v[feed.n - 1].args = feed_span(us > 0 ? "1" : "2");
		feed_call(&feed, 0, us + 100, 'b', 'a');
		feed.v[feed.n - 1].args = feed_span("x, \x1b[31m");
		feed_at(&feed, KP_CALL_RETURN_TO, 0, us + 200, 'a');
		feed_at(&feed, KP_CALL_RETURN_TO, 0, us + 300, '?');
	}
	kp_calls_sum_free(sum);
	sum = feed_sum(&feed, &o);
	assert_non_null(sum);
	v.sum = sum;
	trace_tree(&out, &v);
	has("  t:a/0\n");
	has("  t:b/0 (x, \\x1b[31m)\n");
	kp_buf_reset(&out);
	trace_put_event(&out, feed.names, &feed.v[0]);
	has(" call t:a/0 (2) by undefined\n");
}

/* Processes are named with their node, and which ended first is said. */
TEST(test_nodes)
{
	struct trace_view v = view();
	struct kp_call_node *other;
	uint32_t node;
	bool added;

	kp_call_node_put(feed.names, feed_span("app@host"), &node, &added);
	kp_call_node_put(feed.names, feed_span("db@host"), &node, &added);
	assert_int_equal(node, 1);
	feed.names->nodes[0].end = KP_CALLS_DONE;
	other = &feed.names->nodes[1];
	other->otp = 29;
	other->error = 70 * KP_NS_PER_US;
	other->end = info.end = KP_CALLS_QUEUE;
	v.moved = 3;
	v.moved_most = 2 * KP_NS_PER_MS;
	trace_remarks(&out, &v);
	has("'db@host' ended early: the node made more events");
	has("the clock of 'db@host' is known to that of 'app@host' to within "
	    "0.070 ms\n");
	has("3 events seemed to come before their cause, and were moved by up "
	    "to 2.000 ms");
	kp_buf_reset(&out);
	trace_folded(&out, &v);
	has("app@host main <0.100.0>;t:a/0");
	trace_callgrind(&out, &v);
	has("cmd: app@host, db@host\n");
	trace_put_event(&out, feed.names, &feed.v[0]);
	has(" app@host <0.100.0> call t:a/0 ");
	kp_buf_reset(&out);
	trace_viewer(&out, &v, slices, nslices, FLAME_SPEEDSCOPE);
	has("\"app@host, db@host\"");
}

/* Of a module of Elixir, as reports have it everywhere. */
TEST(test_registered)
{
	struct trace_view v = view();

	kp_call_proc_name(feed.names, 0, feed_span("Elixir.Shop.Cart"));
	trace_tree(&out, &v);
	has(" Shop.Cart <0.100.0>\n");
}

/* Forty of t:c/0, ten that are registered by two names, and main. */
static void
feed_crowd(void)
{
	for (uint32_t i = 2; i < 52; i++) {
		feed_spawn(&feed, 0, 10000 + i, i, i < 42 ? 'c' : 'd');
		feed_at(&feed, KP_CALL_IN, i, 10100 + i, i < 42 ? 'c' : 'd');
		feed_call(&feed, i, 10100 + i, i < 42 ? 'c' : 'd', '?');
		feed_call(&feed, i, 10110 + i, 'e', i < 42 ? 'c' : 'd');
		feed_at(&feed, KP_CALL_RETURN_TO, i, 10120 + 2 * i,
		    i < 42 ? 'c' : 'd');
		feed_at(&feed, KP_CALL_EXIT, i, 10500 + 3 * i, '?');
		if (i >= 42)
			kp_call_proc_name(feed.names, i,
			    feed_span(i % 2 == 0 ? "even" : "odd"));
	}
}

struct total {
	uint64_t calls;
	kp_dur_ns own, acc;
};

/* The time, in us, of folded stacks that end in a text; "": of all. */
static uint64_t
in_folded(const struct trace_view *v, const char *end)
{
	const char *line, *number;
	size_t n = strlen(end);
	uint64_t us = 0;

	kp_buf_reset(&out);
	trace_folded(&out, v);
	for (line = kp_buf_cstr(&out); *line != '\0'; line = number + 1) {
		number = strchr(line, '\n');
		while (number[-1] != ' ')
			number--;
		if (memcmp(number - 1 - n, end, n) == 0)
			us += strtoull(number, NULL, 10);
		number = strchr(number, '\n');
	}
	return us;
}

/* Of a function in all rows; fn UINT32_MAX: of all. */
static struct total
in_clocks(const struct kp_calls_sum *s, uint32_t fn)
{
	struct total t = { 0 };

	for (uint32_t i = 0; i < s->nclocks; i++) {
		if (s->clocks[i].fn != fn && fn != UINT32_MAX)
			continue;
		t.calls += s->clocks[i].calls;
		t.own += s->clocks[i].own;
		t.acc += s->clocks[i].acc;
	}
	return t;
}

static void
assert_same(struct total a, struct total b)
{
	assert_fields(a, IS(calls, b.calls) IS(own, b.own) IS(acc, b.acc));
}

/* What is one root has the sums of its parts, whatever the form. */
TEST(test_roots)
{
	struct kp_calls_opts o = { .paths = true, .slice = on_slice };
	struct trace_view v, each;
	struct trace_roots r;
	char name[8];
	uint32_t fn;

	feed_crowd();
	kp_calls_sum_free(sum);
	nslices = 0;
	sum = feed_sum(&feed, &o);
	assert_non_null(sum);
	v = each = view();
	assert_int_equal(trace_roots_make(&r, &v), KP_OK);
	assert_ptr_equal(v.sum, &r.sum);
	for (const char *c = "abcdeS"; *c != '\0'; c++) {
		fn = feed_fn(&feed, *c);
		assert_same(in_clocks(&r.sum, fn), in_clocks(sum, fn));
		snprintf(name, sizeof(name), ";t:%c/0", *c);
		assert_int_equal(in_folded(&v, name), in_folded(&each, name));
	}
	assert_int_equal(in_folded(&v, ""), in_folded(&each, ""));
	assert_true(in_folded(&v, ";t:e/0") > 0);
	kp_buf_reset(&out);
	trace_tree(&out, &v);
	has("  t:c/0 (41 processes)\n");
	has("  even (5 processes)\n");
	has("  odd (5 processes)\n");
	has("  main <0.100.0>\n");
	trace_roots_free(&r);
}

/* So many rows, and as wide as the terminal. */
TEST(test_tree_fits)
{
	struct trace_view v = view();
	size_t lines = 0, len;

	v.rows = 3;
	v.width = 50;
	trace_tree(&out, &v);
	has("3 rows shown (-n)\n");
	for (const char *s = kp_buf_cstr(&out); *s != '\0'; s += len + 1) {
		len = strcspn(s, "\n");
		assert_true(len <= 50);
		lines++;
	}
	assert_int_equal(lines, 5);
}

/* Nothing is said of an option that is not there, or at its end. */
TEST(test_queue_remark)
{
	struct trace_view v = view();
	struct kp_calls_info ended = { .target = "app@host",
		.end = KP_CALLS_QUEUE };

	v.info = &ended;
	trace_remarks(&out, &v);
	has("than it could send (fewer functions or processes would do, or a "
	    "greater -max-queue)\n");
	kp_buf_reset(&out);
	v.queue_most = true;
	trace_remarks(&out, &v);
	has("than it could send (fewer functions or processes would do)\n");
}

TESTS(setup, teardown)
