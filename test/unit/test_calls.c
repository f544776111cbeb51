/*
 * Full traces, made by hand so that their truth is known: what each function
 * is charged, called by whom, in which process; and the call trees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "calls_feed.h"

static struct calls_feed feed;
static struct kp_calls_sum *sum;

static int
setup(void **state)
{
	(void)state;
	feed.names = kp_call_names_new();
	feed.n = 0;
	sum = NULL;
	return feed.names == NULL;
}

static int
teardown(void **state)
{
	(void)state;
	kp_calls_sum_free(sum);
	kp_call_names_free(feed.names);
	return 0;
}

static void
add_up(bool cpu)
{
	struct kp_calls_opts o = { .cpu = cpu, .paths = true };

	sum = feed_sum(&feed, &o);
	assert_non_null(sum);
	assert_int_equal(sum->overflow, 0);
}

static const struct kp_calls_clock *
clock_find(uint32_t proc, char caller, char fn)
{
	uint32_t c = feed_fn(&feed, caller), f = feed_fn(&feed, fn);

	for (uint32_t i = 0; i < sum->nclocks; i++)
		if (sum->clocks[i].proc == proc &&
		    sum->clocks[i].caller == c && sum->clocks[i].fn == f)
			return &sum->clocks[i];
	return NULL;
}

/* us */
static void
clock_is(uint32_t proc, char caller, char fn, uint64_t calls, int64_t acc,
    int64_t own)
{
	const struct kp_calls_clock *c = clock_find(proc, caller, fn);

	if (c == NULL)
		fail_msg("%c is not called by %c", fn, caller);
	if (c->calls != calls || c->acc != acc * KP_NS_PER_US ||
	    c->own != own * KP_NS_PER_US)
		fail_msg("%c by %c: %llu calls, acc %lld, own %lld", fn,
		    caller, (unsigned long long)c->calls,
		    (long long)c->acc / KP_NS_PER_US,
		    (long long)c->own / KP_NS_PER_US);
}

/* The node that the letters lead to. */
static const struct kp_calls_path *
path_find(uint32_t proc, const char *way)
{
	const struct kp_calls_path *p;
	size_t n = strlen(way), depth;

	for (uint32_t i = 0; i < sum->npaths; i++) {
		p = &sum->paths[i];
		depth = n;
		while (depth > 0 && p->depth == depth &&
		    p->fn == feed_fn(&feed, way[depth - 1])) {
			p = &sum->paths[p->parent];
			depth--;
		}
		if (depth == 0 && p->depth == 0 && p->proc == proc)
			return &sum->paths[i];
	}
	return NULL;
}

static void
path_is(uint32_t proc, const char *way, uint64_t calls, int64_t own)
{
	const struct kp_calls_path *p = path_find(proc, way);

	if (p == NULL)
		fail_msg("no path %s", way);
	if (p->calls != calls || p->own != own * KP_NS_PER_US)
		fail_msg("%s: %llu calls, own %lld", way,
		    (unsigned long long)p->calls,
		    (long long)p->own / KP_NS_PER_US);
}

#define CALL(us, fn, caller) feed_call(&feed, 0, us, fn, caller)
#define BACK(us, fn) feed_at(&feed, KP_CALL_RETURN_TO, 0, us, fn)
#define AT(kind, us, fn) feed_at(&feed, KP_CALL_##kind, 0, us, fn)

static void
test_calls(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(10, 'b', 'a');
	CALL(12, 'c', 'b');
	BACK(17, 'b');
	BACK(18, 'a');
	CALL(20, 'b', 'a');
	BACK(26, 'a');
	BACK(30, '?');
	add_up(false);
	clock_is(0, '?', 'a', 1, 30, 16);
	clock_is(0, 'a', 'b', 2, 14, 9);
	clock_is(0, 'b', 'c', 1, 5, 5);
	assert_int_equal(sum->nclocks, 3);
	assert_int_equal(sum->odd, 0);
	path_is(0, "a", 1, 16);
	path_is(0, "ab", 2, 9);
	path_is(0, "abc", 1, 5);
}

/* Of all processes and callers. */
static uint64_t
calls_of(char fn)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < sum->nclocks; i++)
		if (sum->clocks[i].fn == feed_fn(&feed, fn))
			n += sum->clocks[i].calls;
	return n;
}

/* u and v are not traced: that they call is seen, that they are called is not. */
static void
test_untraced_callers(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(10, 'b', 'a');
	for (int i = 20; i < 60; i += 10) {
		CALL(i, 'c', 'u');
		CALL(i + 2, 'd', 'v');
		BACK(i + 4, 'v');
		BACK(i + 6, 'u');
	}
	BACK(70, 'a');
	BACK(80, '?');
	add_up(false);
	assert_int_equal(calls_of('a'), 1);
	assert_int_equal(calls_of('b'), 1);
	assert_int_equal(calls_of('c'), 4);
	assert_int_equal(calls_of('d'), 4);
	assert_int_equal(calls_of('u'), 0);
	assert_int_equal(calls_of('v'), 0);
}

/*
 * a() -> b().  b() -> c(), d().  c() -> ok.  d() -> e(), c().  e() -> f().
 * f() -> ok.  Everything at an end is a tail call.
 */
static void
test_tail_calls(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(1, 'b', '?');
	CALL(3, 'c', 'b');
	BACK(6, 'b');
	CALL(10, 'd', '?');
	CALL(15, 'e', 'd');
	CALL(21, 'f', 'd');
	BACK(28, 'd');
	CALL(36, 'c', '?');
	BACK(45, '?');
	add_up(false);
	clock_is(0, '?', 'a', 1, 45, 1);
	clock_is(0, 'a', 'b', 1, 44, 6);
	clock_is(0, 'b', 'c', 1, 3, 3);
	clock_is(0, 'b', 'd', 1, 35, 13);
	clock_is(0, 'd', 'e', 1, 13, 6);
	clock_is(0, 'e', 'f', 1, 7, 7);
	clock_is(0, 'd', 'c', 1, 9, 9);
	assert_int_equal(sum->odd, 0);
}

/*
 * f(0) -> 0; f(N) -> 1 + f(N - 1): charged once, counted each time.  Which of
 * its own calls the own time is charged to is as with fprof, which takes the
 * third f for a tail call.
 */
static void
test_recursion(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(1, 'f', 'a');
	CALL(2, 'f', 'f');
	CALL(4, 'f', 'f');
	BACK(7, 'f');
	BACK(8, 'f');
	BACK(10, 'a');
	BACK(11, '?');
	add_up(false);
	clock_is(0, '?', 'a', 1, 11, 2);
	clock_is(0, 'a', 'f', 1, 9, 2);
	assert_int_equal(clock_find(0, 'f', 'f')->calls, 2);
	assert_int_equal(clock_find(0, 'f', 'f')->acc, 0);
	assert_int_equal(clock_find(0, 'f', 'f')->own, 7 * KP_NS_PER_US);
	path_is(0, "af", 3, 9);
}

/* Through another function: what is charged adds up to the time that passed. */
static void
test_mutual_recursion(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(1, 'f', 'a');
	CALL(2, 'g', 'f');
	CALL(4, 'f', 'g');
	CALL(7, 'g', 'f');
	BACK(11, 'f');
	BACK(12, 'g');
	BACK(13, 'f');
	BACK(14, 'a');
	BACK(15, '?');
	add_up(false);
	clock_is(0, 'a', 'f', 1, 13, 2);
	clock_is(0, 'f', 'g', 2, 11, 7);
	clock_is(0, 'g', 'f', 1, 0, 4);
	path_is(0, "afgf", 1, 4);
}

/* loop() -> loop(): the stack does not grow. */
static void
test_tail_loop(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	for (int i = 1; i <= 1000; i++)
		CALL(i, 'l', 'a');
	BACK(1001, 'a');
	BACK(1005, '?');
	add_up(false);
	clock_is(0, '?', 'a', 1, 1005, 5);
	clock_is(0, 'a', 'l', 1, 1000, 1);
	clock_is(0, 'l', 'l', 999, 0, 999);
	path_is(0, "al", 1000, 1000);
}

/* p() -> q(), q() -> r(), r() -> p(). */
static void
test_tail_cycle(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	for (int i = 0; i < 300; i++)
		CALL(1 + i, "pqr"[i % 3], 'a');
	BACK(301, 'a');
	BACK(302, '?');
	add_up(false);
	clock_is(0, 'a', 'p', 1, 300, 1);
	clock_is(0, 'p', 'q', 100, 299, 100);
	clock_is(0, 'q', 'r', 100, 298, 100);
	clock_is(0, 'r', 'p', 99, 0, 99);
}

/* Never the same way twice: the level is cut, the counts are right. */
static void
test_tail_states(void **state)
{
	uint32_t x = 1, calls = 0, seen = 0;

	(void)state;
	CALL(0, 'a', '?');
	for (int i = 1; i <= 4000; i++) {
		x = x * 1103515245 + 12345;
		CALL(i, (char)('p' + (x >> 16) % 7), 'a');
	}
	BACK(4001, 'a');
	add_up(false);
	for (uint32_t i = 0; i < sum->nclocks; i++) {
		if (sum->clocks[i].fn == feed_fn(&feed, 'a'))
			continue;
		calls += (uint32_t)sum->clocks[i].calls;
		seen += sum->clocks[i].acc > 0;
	}
	assert_int_equal(calls, 4000);
	assert_int_equal(seen, 7);
}

static void
test_suspend_and_gc(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(2, 'b', 'a');
	AT(OUT, 5, 'b');
	AT(IN, 25, 'b');
	AT(GC_START, 26, '?');
	AT(GC_END, 30, '?');
	BACK(32, 'a');
	AT(OUT, 33, 'a');
	AT(GC_START, 40, '?');
	AT(GC_END, 41, '?');
	AT(IN, 53, 'a');
	BACK(54, '?');
	add_up(false);
	clock_is(0, '?', 'a', 1, 54, 4);
	clock_is(0, 'a', 'b', 1, 30, 6);
	clock_is(0, 'b', 'S', 1, 20, 0);
	clock_is(0, 'b', 'G', 1, 4, 4);
	/* What is collected while it waits is called by who waits. */
	clock_is(0, 'a', 'G', 1, 1, 1);
	/* And what passes before that, nobody's own. */
	assert_int_equal(clock_find(0, 'a', 'S')->calls, 1);
	assert_int_equal(clock_find(0, 'a', 'S')->own, 0);
	path_is(0, "abS", 1, 20);
	path_is(0, "abG", 1, 4);
	path_is(0, "aS", 1, 19);
	path_is(0, "aSG", 1, 1);
	assert_int_equal(sum->odd, 0);
}

/* The same, by a clock that stands still meanwhile. */
static void
test_cpu(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(2, 'b', 'a');
	AT(OUT, 5, 'b');
	AT(IN, 25, 'b');
	AT(GC_START, 26, '?');
	AT(GC_END, 30, '?');
	BACK(32, 'a');
	BACK(34, '?');
	add_up(true);
	clock_is(0, '?', 'a', 1, 14, 4);
	clock_is(0, 'a', 'b', 1, 10, 6);
	clock_is(0, 'b', 'S', 1, 0, 0);
	clock_is(0, 'b', 'G', 1, 4, 4);
	path_is(0, "abS", 1, 0);
}

/* Out twice and in twice is waiting once. */
static void
test_suspended_twice(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	AT(OUT, 5, 'a');
	AT(OUT, 6, 'a');
	AT(IN, 9, 'a');
	AT(IN, 11, 'a');
	BACK(12, '?');
	add_up(false);
	clock_is(0, 'a', 'S', 1, 6, 0);
	clock_is(0, '?', 'a', 1, 12, 6);
	assert_int_equal(sum->odd, 0);
}

static void
test_spawn(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	feed_spawn(&feed, 0, 4, 1, 'c');
	feed_at(&feed, KP_CALL_IN, 1, 7, 'c');
	feed_call(&feed, 1, 9, 'c', '?');
	feed_call(&feed, 1, 10, 'd', '?');
	feed_at(&feed, KP_CALL_EXIT, 1, 15, '?');
	BACK(20, '?');
	add_up(false);
	assert_true(sum->procs[1].spawned);
	assert_int_equal(sum->procs[1].parent, 0);
	assert_int_equal(sum->procs[1].spawned_as, feed_fn(&feed, 'c'));
	assert_int_equal(sum->procs[1].nfirst, 2);
	assert_int_equal(sum->procs[1].first[0], feed_fn(&feed, 'c'));
	assert_int_equal(sum->procs[1].first[1], feed_fn(&feed, 'd'));
	assert_false(sum->procs[0].spawned);
	clock_is(1, 'c', 'S', 1, 3, 0);
	/* from the time it was scheduled in */
	clock_is(1, '?', 'c', 1, 11, 3);
	clock_is(1, 'c', 'd', 1, 5, 5);
	assert_int_equal(sum->odd, 0);
}

/* One that was already running: its caller is all that is known. */
static void
test_attached(void **state)
{
	(void)state;
	AT(IN, 0, 'x');
	CALL(2, 'b', 'x');
	BACK(5, 'x');
	CALL(6, 'c', 'w');
	BACK(8, 'w');
	BACK(9, 'v');
	add_up(false);
	clock_is(0, 'x', 'b', 1, 3, 3);
	/* A tail call of x's, which w had called. */
	clock_is(0, 'x', 'c', 1, 2, 2);
	assert_int_equal(sum->odd, 0);
	/* Calls that were not seen are not counted. */
	assert_int_equal(clock_find(0, 'w', 'x')->calls, 0);
}

/* Ends without a beginning, and what cannot be. */
static void
test_odd(void **state)
{
	(void)state;
	AT(GC_END, 0, '?');
	CALL(1, 'a', '?');
	AT(GC_END, 2, '?');
	AT(IN, 3, 'a');
	AT(OUT, 4, 'a');
	CALL(6, 'b', 'a');
	AT(GC_START, 7, '?');
	BACK(9, 'a');
	feed_spawn(&feed, 0, 10, 0, 'a');
	AT(EXIT, 11, '?');
	AT(EXIT, 12, '?');
	add_up(false);
	assert_int_equal(sum->odd, 5);
	clock_is(0, 'a', 'b', 1, 3, 1);
	clock_is(0, 'b', 'G', 1, 2, 2);
	clock_is(0, '?', 'a', 1, 10, 5);
}

/* What is still open ends with the last event of all. */
static void
test_open_at_the_end(void **state)
{
	(void)state;
	CALL(0, 'a', '?');
	CALL(5, 'b', 'a');
	feed_call(&feed, 1, 9, 'c', '?');
	add_up(false);
	clock_is(0, '?', 'a', 1, 9, 5);
	clock_is(0, 'a', 'b', 1, 4, 4);
	clock_is(1, '?', 'c', 1, 0, 0);
	assert_int_equal(sum->first, 0);
	assert_int_equal(sum->last, 9 * KP_NS_PER_US);
}

/* A stack far deeper than a call tree: the rest is its deepest node's. */
static void
test_deep(void **state)
{
	uint64_t calls = 0;

	(void)state;
	CALL(0, 'a', '?');
	for (int i = 1; i < 2000; i++)
		CALL(i, i % 2 ? 'f' : 'g', i % 2 ? (i == 1 ? 'a' : 'g') : 'f');
	add_up(false);
	for (uint32_t i = 0; i < sum->npaths; i++) {
		calls += sum->paths[i].calls;
		assert_true(sum->paths[i].depth <= KP_CALLS_DEPTH_MAX);
	}
	assert_int_equal(calls, 2000);
	assert_int_equal(clock_find(0, 'f', 'g')->calls, 999);
}

/* Slices are where the process was, without gaps. */
struct slices {
	char way[64];
	size_t n;
	kp_target_ns at;
};

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct slices *l = ctx;

	assert_int_equal(proc, 0);
	assert_int_equal(from, l->at);
	assert_true(to > from);
	assert_true(path != 0);
	l->at = to;
	l->n++;
}

static void
test_slices(void **state)
{
	struct slices l = { .n = 0 };
	struct kp_calls_opts o = { .paths = true, .slice = on_slice,
		.ctx = &l };

	(void)state;
	CALL(0, 'a', '?');
	CALL(1, 'b', 'a');
	AT(OUT, 3, 'b');
	AT(IN, 7, 'b');
	BACK(8, 'a');
	BACK(9, '?');
	sum = feed_sum(&feed, &o);
	assert_non_null(sum);
	assert_int_equal(l.n, 5);
	assert_int_equal(l.at, 9 * KP_NS_PER_US);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* A server that works for two requests, and for others meanwhile. */
static void
test_by_request(void **state)
{
	static struct calls_feed f;
	struct kp_calls_opts o = { .paths = true };
	const struct kp_calls_clock *c;
	struct kp_calls_sum *s;
	kp_dur_ns out = 0;

	(void)state;
	f.names = kp_call_names_new();
	feed_put(&f, KP_CALL_REQUEST, 0, 0, 0, 1);
	feed_call(&f, 0, 0, 'e', '?');
	feed_at(&f, KP_CALL_OUT, 0, 10, 'e');
	feed_put(&f, KP_CALL_REQUEST, 1, 20, 0, 1);
	feed_call(&f, 1, 20, 'h', 'l');
	/* One that waits for more when the request ends. */
	feed_put(&f, KP_CALL_REQUEST, 2, 85, 0, 1);
	feed_call(&f, 2, 85, 'w', '?');
	feed_call(&f, 1, 30, 'q', 'h');
	feed_at(&f, KP_CALL_OUT, 1, 40, 'q');
	feed_at(&f, KP_CALL_IN, 1, 70, 'q');
	feed_at(&f, KP_CALL_RETURN_TO, 1, 80, 'h');
	feed_at(&f, KP_CALL_RETURN_TO, 1, 90, 'l');
	/* It goes on, for somebody else. */
	feed_at(&f, KP_CALL_OUT, 1, 95, 'l');
	feed_at(&f, KP_CALL_OUT, 2, 95, 'w');
	feed_at(&f, KP_CALL_IN, 0, 100, 'e');
	feed_at(&f, KP_CALL_RETURN_TO, 0, 110, '?');
	feed_at(&f, KP_CALL_IN, 1, 1000, 'l');
	feed_at(&f, KP_CALL_GC_START, 1, 1100, '?');
	feed_at(&f, KP_CALL_GC_END, 1, 1200, '?');
	feed_put(&f, KP_CALL_REQUEST, 1, 2000, 0, 2);
	feed_call(&f, 1, 2000, 'h', 'l');
	/* What it has not ended is over when it works for another one. */
	feed_put(&f, KP_CALL_REQUEST, 1, 2005, 0, 3);
	feed_call(&f, 1, 2010, 'q', 'l');
	feed_at(&f, KP_CALL_RETURN_TO, 1, 2012, 'l');
	s = feed_sum(&f, &o);
	assert_non_null(s);
	assert_int_equal(s->odd, 0);
	for (uint32_t i = 0; i < s->npaths; i++)
		out += s->paths[i].own;
	/* In e and h of the first, h of the second, q of the third; 25 in w. */
	assert_int_equal(out, (110 + 70 + 5 + 2 + 25) * KP_NS_PER_US);
	for (c = s->clocks; c->fn != feed_fn(&f, 'h'); c++)
		;
	assert_int_equal(c->calls, 2);
	kp_calls_sum_free(s);
	kp_call_names_free(f.names);
}

/*
 * e calls the recursive c, which calls g each time, and then h: what c returns to
 * itself had ended the request, so that h was called by e's caller.
 */
static void
test_recursion_by_request(void **state)
{
	static const struct { enum kp_call_kind kind; char fn, caller; } v[] = {
		{ KP_CALL_CALL, 'e', 'l' }, { KP_CALL_CALL, 'c', 'e' },
		{ KP_CALL_CALL, 'g', 'c' }, { KP_CALL_RETURN_TO, 'c', 0 },
		{ KP_CALL_CALL, 'c', 'c' }, { KP_CALL_CALL, 'g', 'c' },
		{ KP_CALL_RETURN_TO, 'c', 0 }, { KP_CALL_CALL, 'c', 'c' },
		{ KP_CALL_RETURN_TO, 'c', 0 }, { KP_CALL_RETURN_TO, 'c', 0 },
		{ KP_CALL_RETURN_TO, 'e', 0 }, { KP_CALL_CALL, 'h', 'e' },
		{ KP_CALL_RETURN_TO, 'e', 0 }, { KP_CALL_RETURN_TO, 'l', 0 },
	};
	static struct calls_feed f;
	struct kp_calls_opts o = { .paths = true };
	const struct kp_calls_clock *c;
	struct kp_calls_sum *s;
	uint32_t e = 0;

	(void)state;
	f.names = kp_call_names_new();
	feed_put(&f, KP_CALL_REQUEST, 1, 0, 0, 1);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (v[i].kind == KP_CALL_CALL)
			feed_call(&f, 1, 10 * (int)i, v[i].fn, v[i].caller);
		else
			feed_at(&f, v[i].kind, 1, 10 * (int)i, v[i].fn);
	s = feed_sum(&f, &o);
	assert_non_null(s);
	for (c = s->clocks; c < s->clocks + s->nclocks; c++) {
		if (c->fn == feed_fn(&f, 'h'))
			assert_int_equal(c->caller, feed_fn(&f, 'e'));
		if (c->fn == feed_fn(&f, 'e')) {
			assert_int_equal(c->calls, 1);
			assert_int_equal(c->acc, 130 * KP_NS_PER_US);
			e++;
		}
	}
	assert_int_equal(e, 1);
	kp_calls_sum_free(s);
	kp_call_names_free(f.names);
}

static bool
is_t(void *ctx, uint32_t fn)
{
	(void)ctx;
	return fn == feed_fn(&feed, 't');
}

/*
 * c is called by a, by t, and by what t was left for in a tail call; and in a
 * process of which t is not seen to be called.
 */
static void
test_inside(void **state)
{
	struct kp_calls_opts o = { .inside = is_t };

	(void)state;
	CALL(0, 'a', '?');
	CALL(10, 'c', 'a');
	BACK(12, 'a');
	CALL(20, 't', 'a');
	CALL(25, 'c', 't');
	CALL(27, 't', 'c');
	BACK(28, 'c');
	BACK(30, 't');
	CALL(31, 'd', 'a');
	CALL(32, 'c', 'd');
	BACK(36, 'd');
	BACK(40, 'a');
	CALL(41, 'c', 'a');
	BACK(42, 'a');
	BACK(50, '?');
	feed_call(&feed, 1, 5, 'c', 'a');
	feed_at(&feed, KP_CALL_RETURN_TO, 1, 9, 'a');
	sum = feed_sum(&feed, &o);
	assert_non_null(sum);
	clock_is(0, 'a', 't', 1, 20, 6);
	clock_is(0, 't', 'c', 1, 5, 4);
	clock_is(0, 'c', 't', 1, 0, 1);
	/* t has been left, but has not returned. */
	clock_is(0, 't', 'd', 1, 9, 5);
	clock_is(0, 'd', 'c', 1, 4, 4);
	assert_int_equal(sum->nclocks, 5);
	assert_int_equal(sum->odd, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_calls),
		TEST(test_untraced_callers),
		TEST(test_tail_calls),
		TEST(test_recursion),
		TEST(test_mutual_recursion),
		TEST(test_tail_loop),
		TEST(test_tail_cycle),
		TEST(test_tail_states),
		TEST(test_suspend_and_gc),
		TEST(test_cpu),
		TEST(test_suspended_twice),
		TEST(test_spawn),
		TEST(test_attached),
		TEST(test_odd),
		TEST(test_open_at_the_end),
		TEST(test_deep),
		TEST(test_slices),
		TEST(test_by_request),
		TEST(test_recursion_by_request),
		TEST(test_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
