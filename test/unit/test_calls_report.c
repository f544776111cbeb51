/*
 * A full trace in all its forms: one small trace, made by hand, and what each
 * form says of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "calls_feed.h"
#include "profile/report/calls.h"

static struct calls_feed feed;
static struct kp_calls_sum *sum;
static struct kp_calls_info info = { .target = "app@host" };
static struct calls_slice slices[64];
static size_t nslices;
static struct kp_buf out;

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	(void)ctx;
	slices[nslices++] = (struct calls_slice){ proc, path, from, to };
}

/* a calls b, which waits, and spawns; c runs in another process. */
static int
setup(void **state)
{
	struct kp_calls_opts o = { .paths = true, .slice = on_slice };

	(void)state;
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

static int
teardown(void **state)
{
	(void)state;
	kp_calls_sum_free(sum);
	kp_call_names_free(feed.names);
	kp_buf_free(&out);
	return 0;
}

static struct calls_view
view(void)
{
	return (struct calls_view){ .names = feed.names, .sum = sum,
		.info = &info, .totals = true };
}

/* Column by column that of fprof. */
static void
test_analysis(void **state)
{
	struct calls_view v = view();

	(void)state;
	v.no_details = true;
	calls_analysis(&out, &v);
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

static void
test_analysis_details(void **state)
{
	struct calls_view v = view();

	(void)state;
	v.no_callers = true;
	v.totals = false;
	v.by_own = true;
	calls_analysis(&out, &v);
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

static void
test_tree(void **state)
{
	struct calls_view v = view();

	(void)state;
	calls_tree(&out, &v);
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
	calls_tree(&out, &v);
	has("t:b/0");
	has("2 more with less than 30 % of the time (-least)\n");
}

static void
test_folded(void **state)
{
	struct calls_view v = view();

	(void)state;
	calls_folded(&out, &v);
	has("main <0.100.0>;t:a/0 3000\n");
	has("main <0.100.0>;t:a/0;t:b/0;suspend 3000\n");
	has("<0.101.0>;t:c/0 2000\n");
}

static void
test_callgrind(void **state)
{
	struct calls_view v = view();

	(void)state;
	calls_callgrind(&out, &v);
	has("# callgrind format\nversion: 1\ncreator: kprof\ncmd: app@host\n");
	has("events: ns\nsummary: 13000000\n");
	has("ob=main <0.100.0>\n");
	has("fl=t\nfn=t:b/0\n0 4000000\ncfi=pseudo\ncfn=suspend\n"
	    "calls=1 0\n0 3000000\n");
	has("fl=pseudo\nfn=suspend\n0 3000000\n");
}

static void
test_speedscope(void **state)
{
	struct calls_view v = view();

	(void)state;
	calls_speedscope(&out, &v, slices, nslices);
	has("\"name\":\"t:a/0\",\"file\":\"t\"");
	has("\"name\":\"main <0.100.0>\",\"unit\":\"nanoseconds\","
	    "\"startValue\":0,\"endValue\":10000000");
}

static void
test_dump(void **state)
{
	(void)state;
	for (size_t i = 0; i < feed.n; i++)
		calls_dump(&out, feed.names, &feed.v[i]);
	has("0 <0.100.0> call t:a/0 by undefined\n");
	has("2000000 <0.100.0> out t:b/0\n");
	has("6000000 <0.100.0> spawn <0.101.0> t:c/0\n");
	has("9000000 <0.101.0> exit\n");
}

static void
test_remarks(void **state)
{
	struct calls_view v = view();

	(void)state;
	info.end = KP_CALLS_DONE;
	calls_remarks(&out, &v);
	assert_int_equal(out.len, 0);
	info.end = KP_CALLS_QUEUE;
	info.lost = 1200;
	calls_remarks(&out, &v);
	has("ended early: the node made more events");
	has("1 200 events were lost\n");
}

/* b is called twice with the same, a with something else each time. */
static void
test_args(void **state)
{
	struct kp_calls_opts o = { .paths = true };
	struct calls_view v = view();

	(void)state;
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
	calls_tree(&out, &v);
	has("  t:a/0\n");
	has("  t:b/0 (x, \\x1b[31m)\n");
	kp_buf_reset(&out);
	calls_dump(&out, feed.names, &feed.v[0]);
	has(" call t:a/0 (2) by undefined\n");
}

/* Processes are named with their node, and which ended first is said. */
static void
test_nodes(void **state)
{
	struct calls_view v = view();
	struct kp_call_node *other;
	uint32_t node;
	bool added;

	(void)state;
	kp_call_node_put(feed.names, feed_span("app@host"), &node, &added);
	kp_call_node_put(feed.names, feed_span("db@host"), &node, &added);
	assert_int_equal(node, 1);
	kp_call_node_edit(feed.names, 0)->end = KP_CALLS_DONE;
	other = kp_call_node_edit(feed.names, 1);
	other->otp = 29;
	other->error = 70 * KP_NS_PER_US;
	other->end = info.end = KP_CALLS_QUEUE;
	v.moved = 3;
	v.moved_most = 2 * KP_NS_PER_MS;
	calls_remarks(&out, &v);
	has("'db@host' ended early: the node made more events");
	has("the clock of 'db@host' is known to that of 'app@host' to within "
	    "0.070 ms\n");
	has("3 events seemed to come before their cause, and were moved by up "
	    "to 2.000 ms");
	kp_buf_reset(&out);
	calls_folded(&out, &v);
	has("app@host main <0.100.0>;t:a/0");
	calls_callgrind(&out, &v);
	has("cmd: app@host, db@host\n");
	calls_dump(&out, feed.names, &feed.v[0]);
	has(" app@host <0.100.0> call t:a/0 ");
	kp_buf_reset(&out);
	calls_speedscope(&out, &v, slices, nslices);
	has("\"app@host, db@host\"");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_analysis),
		TEST(test_analysis_details),
		TEST(test_tree),
		TEST(test_folded),
		TEST(test_callgrind),
		TEST(test_speedscope),
		TEST(test_dump),
		TEST(test_remarks),
		TEST(test_args),
		TEST(test_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
