/*
 * The reports of kprof stacks: what samples add up to, by function, group and
 * process, and what of it is shown in which form.
 */
#include <math.h>

#include "cases.h"
#include "pprof_text.h"
#include "kprofd/etf.h"
#include "kprofd/trace.h"
#include "profile/stacks/stack_report.h"

#define MS KP_NS_PER_MS
#define S KP_NS_PER_S

static struct kp_stack_table *table;
static struct stack_sum sum;
static struct kp_buf out;

FIXTURE(setup)
{
	table = kp_stack_table_new();
	assert_int_equal(stack_sum_init(&sum, table, STACK_BY_GROUP), KP_OK);
	kp_buf_init(&out, 1 << 22);
	return 0;
}

FIXTURE(teardown)
{
	stack_sum_free(&sum);
	kp_stack_table_free(table);
	kp_buf_free(&out);
	return 0;
}

static void
put_frame(struct kp_buf *b, const char *mod, const char *fun, int64_t line)
{
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, mod);
	kp_etf_atom(b, fun);
	kp_etf_int(b, 1);
	kp_etf_int(b, line);
}

/* Frames are m:f/1 for letters f, innermost first, at line 7; NULL: not seen. */
static void
feed(const char *status, const char *frames, uint32_t proc, uint32_t group,
    kp_dur_ns time)
{
	const struct kp_stack_ops ops = { .on_sample = stack_sum_sample,
		.on_group = stack_sum_group };
	struct kp_stack_message m = { 0 };
	char fun[2] = "";
	struct kp_buf b;

	kp_buf_init(&b, 1 << 16);
	kp_etf_version(&b);
	kp_etf_tuple(&b, 4);
	kp_etf_atom(&b, "kprof_stacks");
	kp_etf_int(&b, 1);
	kp_etf_tuple(&b, 6);
	for (int i = 0; i < 6; i++)
		kp_etf_int(&b, 0);
	kp_etf_list(&b, 1);
	kp_etf_tuple(&b, 8);
	kp_etf_pid(&b, "app@host", proc, 0, 1);
	kp_etf_int(&b, 0);
	kp_etf_int(&b, 1);
	kp_etf_int(&b, 0);
	kp_etf_int(&b, time);
	kp_etf_atom(&b, status);
	if (frames == NULL) {
		kp_etf_atom(&b, "not_seen");
	} else {
		if (*frames != '\0')
			kp_etf_list(&b, (uint32_t)strlen(frames));
		for (; *frames != '\0'; frames++) {
			fun[0] = *frames;
			put_frame(&b, "m", fun, 7);
		}
		kp_etf_nil(&b);
	}
	kp_etf_int(&b, group);
	kp_etf_nil(&b);
	assert_int_equal(b.err, KP_OK);
	assert_int_equal(kp_stacks_decode(b.p, b.len, table, &m, &ops, &sum),
	    KP_OK);
	kp_buf_free(&b);
}

static void
name(uint32_t number, const char *group, const char *app)
{
	const struct kp_stack_group g = { number, group, app, false };

	stack_sum_group(&sum, &g);
}

static struct stack_view
view(void)
{
	return (struct stack_view){ .sum = &sum, .states = KP_STACK_WORKING,
		.target = "app@host", .otp = 27, .depth = 8, .schedulers = 2,
		.share = 0.005, .elapsed = 10 * S, .time = 100 * S,
		.counts = { .looked = 1234, .busy = 31 * MS } };
}

static const char *
written(void (*put)(struct kp_buf *b, const struct stack_view *v),
    const struct stack_view *v)
{
	kp_buf_reset(&out);
	put(&out, v);
	assert_int_equal(out.err, KP_OK);
	return kp_buf_cstr(&out);
}

static void
feed_some(void)
{
	name(2, "my_server", "my_app");
	name(3, "conn:init/1", "");
	feed("running", "ba", 10, 2, 3 * S);
	feed("runnable", "ba", 10, 2, 1 * S);
	feed("running", "ca", 11, 3, 1 * S);
	feed("waiting", "ca", 11, 3, 5 * S);
	feed("waiting", "da", 12, 3, 2500 * MS);
	feed("running", NULL, 13, 0, 500 * MS);
}

TEST(test_tables)
{
	struct stack_view v = view();
	const char *text;

	feed_some();
	text = written(stack_tables, &v);
	/* 4 of 5 s; on average 0.3 run and 0.1 are runnable. */
	assert_has(text, "\nm:b/1     80 %   33 % to 97 %     0.30      0.10        2\n");
	assert_has(text, "\nm:c/1     20 %");
	assert_lacks(text, "m:d/1");
	assert_has(text, "my_server    my_app          1     0.30      0.10");
	assert_has(text, "conn:init/1                  2     0.10");
	assert_has(text, "0.75");
	assert_has(text, "(not named)                  1");
	assert_has(text, "10.0 s on 'app@host' (OTP 27, 2 schedulers): 6 "
	    "samples of 1 234 looks at processes; sampling took 0.3 % of one "
	    "scheduler\n");
	assert_has(text, "not seen: 1 sample; the process did not answer within "
	    "5 ms");
	assert_has(text, "the VM shows the 8 innermost frames (backtrace_depth, "
	    "which is the application's to set)");
	assert_lacks(text, "not looked at");
	assert_lacks(text, "lost");
}

/*
 * A process that waits is asked seldom, and the sample stands for others that were
 * not: one process was shown as "waiting 4.18".  There are 10 processes here.
 */
TEST(test_bounded)
{
	struct stack_view v = view();
	const struct kp_stack_group one = { 2, "code_server", "kernel", true };
	const char *text;

	stack_sum_group(&sum, &one);
	name(3, "conn:init/1", "");
	name(4, "idle:init/1", "");
	feed("waiting", "a", 10, 2, 41800 * MS);
	feed("running", "b", 10, 2, 2 * S);
	feed("waiting", "a", 11, 3, 45 * S);
	feed("waiting", "a", 12, 3, 45 * S);
	feed("running", "b", 13, 4, 1 * S);
	text = written(stack_tables, &v);
	/* a registered name is that of one process, most of which ran */
	assert_has(text, "code_server  kernel          1     0.20     0.80");
	assert_has(text, " to 1.00\n");
	/* two were seen, and the eight that were not may be of the group */
	assert_has(text, "conn:init/1                  2              8.00");
	assert_has(text, "idle:init/1                  1     0.10");
	v.time = 30 * S;	/* three processes, all of them seen */
	v.elapsed = 10 * S;
	assert_has(written(stack_tables, &v),
	    "conn:init/1                  2              2.00");
}

TEST(test_states)
{
	struct stack_view v = view();
	const char *text;

	feed_some();
	v.states = STACK_ALL;
	text = written(stack_tables, &v);
	assert_has(text, "m:d/1");
	assert_has(text, "(not seen)");
	v.states = STACK_STATE(KP_STACK_PORT);
	assert_has(written(stack_tables, &v), "no process was seen in these "
	    "states: on a port (see -states)\n");
}

/* What is cut stays so: the tables of what processes use began again. */
TEST(test_cut_with_usage)
{
	struct stack_view v = view();
	char group[3000] = "";

	memset(group, 'g', sizeof(group) - 1);
	feed_some();
	name(9, group, "");
	feed("running", "ba", 20, 9, 1 * S);
	stack_sum_usage(&sum, calloc(1, sizeof(struct kp_usage)));
	written(stack_tables, &v);
	for (size_t n = out.len; n-- > 0;) {
		kp_buf_free(&out);
		kp_buf_init(&out, n);
		stack_tables(&out, &v);
		assert_int_equal(out.err, KP_ELIMIT);
	}
}

TEST(test_notes)
{
	struct stack_view v = view();
	const char *text;

	feed_some();
	v.young = 3 * S;
	v.counts.unsent = 7;
	v.counts.busy = 80 * MS;
	text = written(stack_notes, &v);
	assert_has(text, "not looked at: about 3.0 % of the time");
	assert_has(text, "lost: 7 samples; the connection was busy");
	assert_has(text, "0.8 % of one scheduler, more than the 0.5 % of "
	    "-share");
}

TEST(test_rows)
{
	struct stack_view v = view();
	const char *text;

	feed_some();
	v.rows = 1;
	text = written(stack_tables, &v);
	assert_has(text, "m:b/1");
	assert_lacks(text, "m:c/1");
	assert_has(text, "1 function more (see -n)\n");
	assert_has(text, "2 more (see -n)\n");
	v.least = 0.5;
	v.rows = 0;
	text = written(stack_tree, &v);
	assert_has(text, "1 more with less than 50 % of the time (-least)\n");
}

/* Stacks as long as the VM shows them have lost what called their outermost. */
TEST(test_cut)
{
	struct stack_view v = view();
	const char *text;

	name(2, "my_server", "");
	v.depth = 3;
	feed("running", "cba", 10, 2, 3 * S);
	feed("running", "ba", 10, 2, 1 * S);
	text = written(stack_folded, &v);
	assert_string_equal(text, "my_server;m:a/1;m:b/1 1000000\n"
	    "my_server;...;m:a/1;m:b/1;m:c/1 3000000\n");
	text = written(stack_tree, &v);
	assert_has(text, "  my_server\n");
	assert_has(text, "    ...\n");
	assert_has(text, "          m:c/1\n");
	assert_has(text, "     m:a/1\n");
	assert_has(written(stack_notes, &v), "(backtrace_depth, which is the "
	    "application's to set): 1 sample of 2 has that many, and may lack "
	    "outer ones");
}

TEST(test_folded)
{
	struct stack_view v = view();

	feed_some();
	assert_string_equal(written(stack_folded, &v),
	    "my_server;m:a/1;m:b/1 4000000\n"
	    "conn:init/1;m:a/1;m:c/1 1000000\n");
	v.states = STACK_ALL;
	assert_has(written(stack_folded, &v),
	    "conn:init/1;m:a/1;m:c/1 6000000\n");
	assert_has(written(stack_folded, &v), "(not named);(not seen) 500000\n");
}

TEST(test_speedscope)
{
	struct stack_view v = view();
	const char *text;

	feed_some();
	text = written(stack_speedscope, &v);
	assert_has(text, "{\"type\":\"evented\",\"name\":\"my_server\",\"unit\":"
	    "\"nanoseconds\",\"startValue\":0,\"endValue\":4000000000,"
	    "\"events\":[{\"type\":\"O\",");
}

TEST(test_pprof)
{
	struct stack_view v = view();
	struct kp_buf text;

	v.from = 1700000000 * S;
	v.states = STACK_ALL;
	v.depth = 3;
	name(2, "my_server", "my_app");
	feed("running", "aba", 10, 2, 3 * S);
	feed("waiting", "ba", 10, 2, 5 * S);
	feed("running", NULL, 13, 0, 2 * S);
	kp_buf_init(&text, 1u << 16);
	stack_pprof(&out, &v);
	assert_int_equal(out.err, KP_OK);
	pprof_text(&text, out.p, out.len);
	/* a call of itself is there, and what the VM has cut */
	assert_string_equal(kp_buf_cstr(&text),
	    "type samples count\ntype wall nanoseconds\ntype running nanoseconds\n"
	    "shows running\n"
	    "m:a/1@m:7 < m:b/1@m:7 < m:a/1@m:7 < ...@:0, 1 3000000000 3000000000, "
	    "node=app@host group=my_server application=my_app state=running\n"
	    "m:b/1@m:7 < m:a/1@m:7, 1 5000000000 0, "
	    "node=app@host group=my_server application=my_app state=waiting\n"
	    "(not seen)@:0, 1 2000000000 0, "
	    "node=app@host group=(not named) state=not seen\n"
	    "time 1700000000000000000\nduration 10000000000\n"
	    "period type wall nanoseconds\nperiod 3333333333\n");
	kp_buf_free(&text);
}

/* A function that calls itself is one box, however deep. */
TEST(test_recursion)
{
	struct stack_view v = view();

	name(2, "my_server", "");
	feed("running", "bccca", 10, 2, 1 * S);
	feed("running", "bca", 10, 2, 2 * S);
	feed("running", "bcaca", 10, 2, 4 * S);
	assert_string_equal(written(stack_folded, &v),
	    "my_server;m:a/1;m:c/1;m:a/1;m:c/1;m:b/1 4000000\n"
	    "my_server;m:a/1;m:c/1;m:b/1 3000000\n");
}

/* A node may send any time below 2^62 ns: the sum of a profile overflowed. */
TEST(test_long_times)
{
	struct stack_view v = view();

	for (const char *fn = "abc"; *fn != '\0'; fn++)
		feed("running", (char[]){ *fn, '\0' }, 10, 0,
		    KP_TARGET_TIME_MAX);
	assert_has(written(stack_speedscope, &v),
	    "\"endValue\":9223372036854775807,");
}

#define NOTHING "no process was seen in these states: running, runnable, " \
	"collecting (see -states)\n"

TEST(test_nothing_seen)
{
	struct stack_view v = view();

	feed("waiting", "a", 10, 0, S);
	assert_string_equal(written(stack_tree, &v), NOTHING);
	assert_has(written(stack_tables, &v), NOTHING);
}

/*
 * Past the cap there was no room for the cell of the others, either: their time was
 * missing, though a note said that they were only without a stack.
 */
TEST(test_too_many_cells)
{
	struct kp_stack_sample s = { .time = S, .stack = KP_STACK_NONE };
	struct stack_cell *last;

	sum.by = STACK_BY_PROCESS;
	for (uint32_t i = 0; i < STACK_CELLS_MAX + 3; i++) {
		s.proc = i + 1;
		stack_sum_sample(&sum, &s);
	}
	s.state = KP_STACK_WAIT;
	stack_sum_sample(&sum, &s);
	assert_fields(sum, IS(overflow, 4) IS(err, KP_OK)
	    IS(ncells, STACK_CELLS_MAX + 2));
	last = &sum.cells[sum.ncells - 2];
	assert_fields(last[0], IS(stack, KP_STACK_OTHER) IS(f.time, 3 * S));
	assert_fields(last[1], IS(state, KP_STACK_WAIT) IS(f.samples, 1));
}

TEST(test_json)
{
	struct stack_view v = view();
	const char *text;

	feed_some();
	text = written(stack_json, &v);
	assert_has(text, "\"samples\":6,\"not_seen\":1,\"dropped\":0,");
	assert_has(text, "\"depth\":8,\"cut\":0,\"stacks\":[{\"node\":\"app@host\","
	    "\"group\":\"conn:init/1\",\"application\":null,\"state\":"
	    "\"waiting\",\"frames\":[\"m:a/1:7\",\"m:c/1:7\"],\"samples\":1,"
	    "\"ms\":5000");
	assert_has(text, "\"group\":\"my_server\",\"application\":\"my_app\"");
}

/* The same samples below other roots. */
TEST(test_by)
{
	struct stack_view v = view();

	sum.by = STACK_BY_PROCESS;
	feed_some();
	assert_has(written(stack_folded, &v),
	    "<0.10.0> my_server;m:a/1;m:b/1 4000000\n");
	assert_has(written(stack_json, &v), "\"process\":\"<0.11.0>\"");
	sum.by = STACK_BY_APPLICATION;
	assert_has(written(stack_folded, &v), "my_app;m:a/1;m:b/1 4000000\n");
	assert_has(written(stack_folded, &v),
	    "(no application);m:a/1;m:c/1 1000000\n");
	sum.by = STACK_BY_NONE;
	assert_has(written(stack_folded, &v),
	    "all processes;m:a/1;m:b/1 4000000\n");
}

/* Wilson's interval for 20 of 100, and of samples that differ in weight. */
TEST(test_share)
{
	struct stack_figure part = { 20, 20, 20 }, all = { 100, 100, 100 };
	struct stack_share s = stack_share(&part, &all);

	assert_true(fabs(s.part - 0.2) < 1e-9);
	assert_true(fabs(s.low - 0.1334) < 0.0005);
	assert_true(fabs(s.high - 0.2888) < 0.0005);
	/* One sample that is half of the whole says next to nothing. */
	part = (struct stack_figure){ 1, 50, 2500 };
	all = (struct stack_figure){ 51, 100, 2550 };
	s = stack_share(&part, &all);
	assert_true(s.low < 0.2 && s.high > 0.8);
	all = (struct stack_figure){ 0 };
	s = stack_share(&all, &all);
	assert_true(s.part == 0 && s.low == 0 && s.high == 1);
	/* All of it, and none of it. */
	part = all = (struct stack_figure){ 10, 10, 10 };
	s = stack_share(&part, &all);
	assert_true(s.high == 1 && s.low > 0.6 && s.low < 0.8);
	part = (struct stack_figure){ 0 };
	s = stack_share(&part, &all);
	assert_true(s.low == 0 && s.high > 0.2 && s.high < 0.4);
}

/* A number that no group has is none, and a name is taken once. */
TEST(test_groups)
{
	struct stack_view v = view();
	const char *text;

	name(STACK_GROUPS_MAX, "too far", "");
	name(5, "first", "");
	name(5, "second", "");
	feed("running", "a", 1, STACK_GROUPS_MAX, S);
	feed("running", "a", 2, 5, S);
	feed("running", "a", 2, 5, S);
	feed("running", "a", 3, 4, S);
	text = written(stack_tables, &v);
	assert_lacks(text, "too far");
	assert_lacks(text, "second");
	assert_fields(sum, IS(groups[5].procs, 1) IS(groups[0].procs, 2));
	name(7, "web:'-init/1-fun-0-'/0", "");
	assert_string_equal(stack_group_name(&sum, 7), "web:init/1 (fun)");
}

TESTS(setup, teardown)
