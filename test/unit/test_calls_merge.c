/*
 * Events of several nodes in one order, by one clock: files made by hand, whose
 * nodes have clocks that are told wrong by as much as may be, or more.
 */
#include "cases.h"
#include "calls/merge_nodes.h"

#define US KP_NS_PER_US
#define AHEAD (5000000 * US)	/* so far is the clock of node 1 behind */

static struct kp_call_names *names;	/* of the writer */
static struct kp_call_names *read;	/* of the reader */
static struct kp_buf file;
static struct kp_calls_writer w;
static struct kp_calls_info info;
static struct kp_call_event got[64];
static struct kp_calls_merge merge;
static size_t ngot;
static uint32_t a, b, f;	/* a process of each node, a function */

static struct kp_span
span(const char *s)
{
	return (struct kp_span){ (const uint8_t *)s, (uint32_t)strlen(s) };
}

FIXTURE(setup)
{
	uint32_t node;
	bool added;

	names = kp_call_names_new();
	read = kp_call_names_new();
	kp_buf_init(&file, 1 << 20);
	info = (struct kp_calls_info){ .target = "a@h", .otp = 25,
		.end = KP_CALLS_DONE, .requests = 2, .begun = 2, .ended = 2 };
	kp_call_node_put(names, span("a@h"), &node, &added);
	kp_call_node_put(names, span("b@h"), &node, &added);
	names->nodes[0].otp = 25;
	names->nodes[1].otp = 29;
	kp_call_proc_put(names, 0, 80, 0, &a, &added);
	/* The same number, on the other node. */
	kp_call_proc_put(names, 1, 80, 0, &b, &added);
	kp_call_fn_put(names, span("t"), span("f"), 0, &f, &added);
	kp_calls_write_begin(&w, &file, &info);
	return names == NULL || read == NULL || a == b;
}

FIXTURE(teardown)
{
	kp_calls_merge_free(&merge);
	kp_call_names_free(names);
	kp_call_names_free(read);
	kp_buf_free(&file);
	return 0;
}

/* What is said of the clock of node 1. */
static void
clock_is(int64_t offset_us, int64_t error_us)
{
	names->nodes[1].offset = offset_us * US;
	names->nodes[1].error = error_us * US;
	kp_calls_write_clock(&w, names, 1);
}

/* At this time by the clock of node 0. */
static void
put(enum kp_call_kind kind, uint32_t proc, int64_t us, uint32_t request,
    uint32_t serial, uint32_t from)
{
	struct kp_call_event ev = { .kind = kind, .proc = proc,
		.ts = us * US - (proc == b ? AHEAD : 0) };

	if (kind == KP_CALL_REQUEST)
		ev.other = request;
	if (kind == KP_CALL_CALL)
		ev.fn = f;
	if (kind == KP_CALL_SEND || kind == KP_CALL_RECEIVE) {
		ev.request = request;
		ev.serial = serial;
	}
	if (kind == KP_CALL_RECEIVE)
		ev.other = from;
	kp_calls_write(&w, names, &ev);
}

static void
merged(void)
{
	struct kp_call_event ev;

	kp_calls_write_end(&w, names, &info);
	assert_int_equal(file.err, KP_OK);
	assert_int_equal(kp_calls_merge_begin(&merge, file.p, file.len, read),
	    KP_OK);
	for (ngot = 0; kp_calls_merge_next(&merge, &ev) == KP_OK; ngot++) {
		assert_true(ngot < sizeof(got) / sizeof(got[0]));
		got[ngot] = ev;
	}
	assert_int_equal(merge.info.end, KP_CALLS_DONE);
}

static void
got_is(size_t i, enum kp_call_kind kind, uint32_t proc, int64_t ns)
{
	assert_true(i < ngot);
	assert_fields(got[i], IS(kind, kind) IS(proc, proc) IS(ts, ns));
}

/* Node 0 asks node 1, which answers; the other's events are first. */
static void
ask(void)
{
	put(KP_CALL_RECEIVE, b, 120, 7, 1, a);
	put(KP_CALL_REQUEST, b, 121, 7, 0, 0);
	put(KP_CALL_CALL, b, 150, 0, 0, 0);
	put(KP_CALL_SEND, b, 180, 7, 2, 0);
	kp_calls_write_begun(&w, names, 7, 0);
	put(KP_CALL_REQUEST, a, 100, 7, 0, 0);
	put(KP_CALL_SEND, a, 110, 7, 1, 0);
	put(KP_CALL_RECEIVE, a, 190, 7, 2, b);
}

TEST(test_by_one_clock)
{
	clock_is(1, 1);
	clock_is(AHEAD / US, 50);	/* the last counts */
	ask();
	merged();
	assert_int_equal(ngot, 7);
	assert_int_equal(merge.moved, 0);
	got_is(0, KP_CALL_REQUEST, a, 100 * US);
	got_is(1, KP_CALL_SEND, a, 110 * US);
	got_is(2, KP_CALL_RECEIVE, b, 120 * US);
	got_is(3, KP_CALL_REQUEST, b, 121 * US);
	got_is(4, KP_CALL_CALL, b, 150 * US);
	got_is(5, KP_CALL_SEND, b, 180 * US);
	got_is(6, KP_CALL_RECEIVE, a, 190 * US);
	assert_int_equal(got[0].other, 1);
	assert_fields(got[2], IS(request, 1) IS(other, a));
	assert_fields(*read, IS(nodes[1].name, "b@h") IS(nodes[1].otp, 29)
	    IS(nodes[1].error, 50 * US) IS(procs[b].node, 1));
}

/*
 * By what is said of its clock node 1 took the message before it was sent: it
 * is moved as a whole, so that what passed there stays as it was.
 */
TEST(test_moved_together)
{
	clock_is(AHEAD / US - 30, 50);
	ask();
	merged();
	assert_int_equal(ngot, 7);
	assert_int_equal(merge.moved, 0);
	got_is(1, KP_CALL_SEND, a, 110 * US);
	got_is(2, KP_CALL_RECEIVE, b, 110 * US + 1);
	got_is(3, KP_CALL_REQUEST, b, 111 * US + 1);
	got_is(4, KP_CALL_CALL, b, 140 * US + 1);
	got_is(5, KP_CALL_SEND, b, 170 * US + 1);
}

/* The other way: its answer was there before. */
TEST(test_moved_back)
{
	clock_is(AHEAD / US + 30, 50);
	ask();
	merged();
	assert_int_equal(merge.moved, 0);
	got_is(5, KP_CALL_SEND, b, 190 * US - 1);
	got_is(6, KP_CALL_RECEIVE, a, 190 * US);
}

/* An error that was told too small: what comes too early is moved alone. */
TEST(test_drift)
{
	clock_is(AHEAD / US - 30, 5);
	ask();
	merged();
	assert_int_equal(ngot, 7);
	got_is(1, KP_CALL_SEND, a, 110 * US);
	got_is(2, KP_CALL_RECEIVE, b, 110 * US + 1);
	got_is(3, KP_CALL_REQUEST, b, 110 * US + 1);
	got_is(4, KP_CALL_CALL, b, 125 * US);
	assert_fields(merge, IS(moved, 2) IS(moved_most, 15 * US + 1));
}

/* 8 began on node 1, but was not asked for; 9 is 7 by another label. */
TEST(test_requests)
{
	clock_is(AHEAD / US, 10);
	put(KP_CALL_REQUEST, b, 10, 8, 0, 0);
	put(KP_CALL_CALL, b, 20, 0, 0, 0);
	put(KP_CALL_SEND, b, 30, 8, 1, 0);
	put(KP_CALL_REQUEST, b, 120, 9, 0, 0);
	put(KP_CALL_CALL, b, 130, 0, 0, 0);
	put(KP_CALL_REQUEST, b, 140, 8, 0, 0);
	put(KP_CALL_CALL, b, 150, 0, 0, 0);
	kp_calls_write_begun(&w, names, 7, 0);
	kp_calls_write_same(&w, 9, 7);
	put(KP_CALL_REQUEST, a, 100, 7, 0, 0);
	kp_calls_write_begun(&w, names, 3, 0);
	put(KP_CALL_REQUEST, a, 90, 3, 0, 0);
	merged();
	assert_int_equal(ngot, 5);
	/* Those of one node stay in their order. */
	got_is(0, KP_CALL_REQUEST, a, 100 * US);
	assert_int_equal(got[0].other, 2);
	assert_int_equal(got[1].other, 1);
	got_is(2, KP_CALL_REQUEST, b, 120 * US);
	assert_int_equal(got[2].other, 2);
	got_is(3, KP_CALL_CALL, b, 130 * US);
	got_is(4, KP_CALL_REQUEST, b, 140 * US);
	assert_int_equal(got[4].other, 0);
}

/* Calls of both nodes keep theirs, whichever is read first. */
TEST(test_arguments)
{
	struct kp_call_event ev = { .kind = KP_CALL_CALL, .proc = b, .fn = f,
		.ts = 130 * US - AHEAD, .args = span("b, 1") };

	clock_is(AHEAD / US, 10);
	kp_calls_write_begun(&w, names, 7, 0);
	put(KP_CALL_REQUEST, b, 120, 7, 0, 0);
	kp_calls_write(&w, names, &ev);
	put(KP_CALL_CALL, b, 150, 0, 0, 0);
	put(KP_CALL_REQUEST, a, 100, 7, 0, 0);
	ev.proc = a;
	ev.ts = 140 * US;
	ev.args = span("a");
	kp_calls_write(&w, names, &ev);
	merged();
	assert_int_equal(ngot, 5);
	got_is(2, KP_CALL_CALL, b, 130 * US);
	assert_true(kp_span_is(got[2].args, "b, 1"));
	got_is(3, KP_CALL_CALL, a, 140 * US);
	assert_true(kp_span_is(got[3].args, "a"));
	got_is(4, KP_CALL_CALL, b, 150 * US);
	assert_int_equal(got[4].args.n, 0);
}

/* The requests, by their numbers, for which this process has calls, in turn. */
static void
works_for(uint32_t proc, const uint32_t *want, size_t n)
{
	uint32_t now = 0;
	size_t calls = 0;

	for (size_t i = 0; i < ngot; i++) {
		if (got[i].proc == proc && got[i].kind == KP_CALL_REQUEST)
			now = got[i].other;
		if (got[i].proc != proc || got[i].kind != KP_CALL_CALL ||
		    now == 0)
			continue;
		assert_true(calls < n);
		assert_int_equal(now, want[calls++]);
	}
	assert_int_equal(calls, n);
}

static uint32_t
another(uint32_t node, uint32_t id)
{
	uint32_t proc = 0;
	bool added;

	kp_call_proc_put(names, node, id, 0, &proc, &added);
	return proc;
}

/* As put(), at a time of node 1. */
static void
put_there(enum kp_call_kind kind, uint32_t proc, int64_t us, uint32_t request,
    uint32_t serial, uint32_t from)
{
	put(kind, proc, us - (proc == b ? 0 : AHEAD / US), request, serial,
	    from);
}

/*
 * The process of 7 waited for a pool, and has the token of 8: what it sends says
 * 8 there, and is 7's, from hop to hop on the other node, too.  Of 9, which was
 * not asked for, its node sends nothing.
 */
TEST(test_answered_by_another)
{
	uint32_t c = another(0, 81), d = another(1, 82);

	clock_is(AHEAD / US, 10);
	kp_calls_write_begun(&w, names, 7, 0);
	kp_calls_write_begun(&w, names, 8, 0);
	put(KP_CALL_REQUEST, a, 10, 7, 0, 0);
	put(KP_CALL_REQUEST, c, 20, 8, 0, 0);
	put(KP_CALL_SEND, a, 100, 7, 5, 0);
	put(KP_CALL_SEND, c, 200, 8, 6, 0);
	put_there(KP_CALL_RECEIVE, b, 110, 8, 5, a);
	put_there(KP_CALL_REQUEST, b, 111, 8, 0, 0);
	put_there(KP_CALL_CALL, b, 120, 0, 0, 0);
	put_there(KP_CALL_SEND, b, 130, 8, 7, 0);
	put_there(KP_CALL_RECEIVE, d, 140, 8, 7, b);
	put_there(KP_CALL_REQUEST, d, 141, 8, 0, 0);
	put_there(KP_CALL_CALL, d, 150, 0, 0, 0);
	/* Its own, and then one that a request which is not traced sent. */
	put_there(KP_CALL_RECEIVE, b, 210, 8, 6, c);
	put_there(KP_CALL_CALL, b, 220, 0, 0, 0);
	put_there(KP_CALL_RECEIVE, b, 310, 8, 8, a);
	put_there(KP_CALL_CALL, b, 320, 0, 0, 0);
	merged();
	works_for(b, (const uint32_t[]){ 1, 2 }, 2);
	works_for(d, (const uint32_t[]){ 1 }, 1);
}

/* Whoever began a request works for it, whichever message it takes. */
TEST(test_answered_there)
{
	uint32_t c = another(0, 81);

	clock_is(AHEAD / US, 10);
	kp_calls_write_begun(&w, names, 7, 1);
	kp_calls_write_begun(&w, names, 8, 0);
	put(KP_CALL_REQUEST, c, 10, 8, 0, 0);
	put(KP_CALL_SEND, c, 100, 8, 5, 0);
	put(KP_CALL_REQUEST, b, 20, 7, 0, 0);
	put(KP_CALL_RECEIVE, b, 110, 7, 5, c);
	put(KP_CALL_CALL, b, 120, 0, 0, 0);
	merged();
	works_for(b, (const uint32_t[]){ 2 }, 1);
}

/* Causes that go round have no order: all is there all the same. */
TEST(test_ring)
{
	clock_is(AHEAD / US, 0);
	put(KP_CALL_RECEIVE, a, 10, 7, 1, b);
	put(KP_CALL_SEND, a, 20, 7, 2, 0);
	put(KP_CALL_RECEIVE, b, 10, 7, 2, a);
	put(KP_CALL_SEND, b, 20, 7, 1, 0);
	put(KP_CALL_REQUEST, a, 30, 7, 0, 0);
	kp_calls_write_begun(&w, names, 7, 0);
	kp_calls_write_same(&w, 7, 5);
	kp_calls_write_same(&w, 5, 7);
	merged();
	assert_int_equal(ngot, 5);
}

/* A node that was not traced only has a name. */
TEST(test_one_traced)
{
	names->nodes[1].otp = 0;
	put(KP_CALL_REQUEST, a, 100, 1, 0, 0);
	put(KP_CALL_RECEIVE, a, 110, 1, 4, b);
	merged();
	assert_int_equal(ngot, 2);
	assert_int_equal(got[1].other, b);
	assert_int_equal(read->procs[b].node, 1);
	assert_false(kp_calls_several(read));
}

/* Files of version 1 have one node, and none of these records. */
TEST(test_version_1)
{
	struct kp_call_event ev;

	put(KP_CALL_REQUEST, a, 100, 1, 0, 0);
	put(KP_CALL_CALL, a, 101, 0, 0, 0);
	file.p[7] = 1;
	merged();
	assert_int_equal(ngot, 2);
	got_is(1, KP_CALL_CALL, a, 101 * US);
	kp_calls_merge_free(&merge);
	kp_call_names_free(read);
	read = kp_call_names_new();
	kp_buf_reset(&file);
	kp_calls_write_begin(&w, &file, &info);
	kp_calls_write_begun(&w, names, 1, 0);
	file.p[7] = 1;
	assert_int_equal(kp_calls_merge_begin(&merge, file.p, file.len, read),
	    KP_EFORMAT);
	assert_true(merge.begun);
	assert_int_equal(kp_calls_merge_next(&merge, &ev), KP_END);
}

/* After a good beginning: records that cannot be. */
TEST(test_bad_records)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {
		{ "M\3a@h\x19", 6 },	/* twice the same */
		{ "M\3c@h\xe8\7", 7 },	/* release 1000 */
		{ "p\2\1\0", 4 },	/* a node that is not */
		{ "p\1\1\0p\1\1\0", 8 },
		{ "O\0\0\0", 4 },	/* the clock that all go by */
		{ "O\2\0\0", 4 },
		{ "B\0\0", 3 },		/* no request */
		{ "B\1\2", 3 },
		{ "S\1\0", 3 },
		{ "W\2\1", 3 },
		{ "W\1\x63", 3 },	/* no such end */
	};
	struct kp_calls_merge m;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		kp_buf_reset(&file);
		kp_calls_write_begin(&w, &file, &info);
		clock_is(0, 0);
		kp_buf_put(&file, bad[i].bytes, bad[i].n);
		kp_call_names_free(read);
		read = kp_call_names_new();
		if (kp_calls_merge_begin(&m, file.p, file.len, read) == KP_OK)
			fail_msg("bad record %zu is read", i);
		kp_calls_merge_free(&m);
	}
}

TESTS(setup, teardown)
