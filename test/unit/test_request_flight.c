/*
 * test_request_flight.c - which requests are in flight, for how long, and
 * where they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"

#define AHEAD 5e8	/* ms, of node 1's clock: six days */

static int
setup_nodes(void **state)
{
	setup_27(state);
	feed_requests(&f, 1);
	join(&f, 1, AHEAD);
	return 0;
}

/* "1 10ms a@1 8ms, ...": label, age, where, for how long. */
static const char *
oldest(double now_ms, size_t max)
{
	static char text[1024];
	struct kp_flight v[16];
	size_t n = kp_requests_oldest(f.rs, 0, feed_time(now_ms), v, max);
	char *p = text;

	*p = '\0';
	for (size_t i = 0; i < n; i++) {
		p += sprintf(p, "%s%d %gms ", i > 0 ? ", " : "",
		    (int)v[i].label, (double)v[i].age / 1e6);
		if (v[i].fn == KP_NONE)
			p += sprintf(p, "nowhere");
		else
			p += sprintf(p, "%.1s@%d %gms",
			    kp_requests_fn(f.rs, v[i].fn)->text, v[i].node,
			    (double)v[i].in_call / 1e6);
	}
	return text;
}

/* There and back again. */
static void
test_where(void **state)
{
	(void)state;
	assert_string_equal(oldest(0, 9), "");
	entry(&f, 1, "e", "u0", 1, 0);
	assert_string_equal(oldest(1, 9), "1 1ms e@0 1ms");
	call(&f, 1, "b", "e", 1, 1);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	assert_string_equal(oldest(10, 9), "1 10ms a@1 8ms");
	back_to(&f, AT(1, 1), "u0", 12);
	assert_string_equal(oldest(15, 9), "1 15ms b@0 14ms");
	back_to(&f, 1, "e", 16);
	assert_string_equal(oldest(16, 9), "1 16ms e@0 16ms");
	assert_int_equal(kp_requests_running(f.rs, 0), 1);
	back_to(&f, 1, "u0", 17);
	/* it is over, though it will be told of later */
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 1);
	assert_int_equal(kp_requests_running(f.rs, 0), 0);
	assert_string_equal(oldest(18, 9), "");
	expire(&f, 400);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
}

/*
 * A stack that was read a little later is shown only if the process was in the
 * call that the list named, all the while: it may be in the next request by then.
 */
static void
test_in_call(void **state)
{
	struct kp_flight v;

	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	call(&f, 1, "b", "e", 1, 10);
	assert_int_equal(kp_requests_oldest(f.rs, 0, feed_time(11), &v, 1), 1);
	assert_true(kp_requests_in_call(f.rs, &v, feed_time(12), feed_time(13)));
	assert_false(kp_requests_in_call(f.rs, &v, feed_time(9), feed_time(12)));
	back_to(&f, 1, "e", 20);
	assert_true(kp_requests_in_call(f.rs, &v, feed_time(12), feed_time(13)));
	assert_false(kp_requests_in_call(f.rs, &v, feed_time(19), feed_time(21)));
	/* the same function again, in the same request */
	call(&f, 1, "b", "e", 1, 22);
	assert_false(kp_requests_in_call(f.rs, &v, feed_time(23), feed_time(23)));
	assert_int_equal(kp_requests_oldest(f.rs, 0, feed_time(24), &v, 1), 1);
	assert_true(kp_requests_in_call(f.rs, &v, feed_time(23), feed_time(23)));
	back_to(&f, 1, "e", 25);
	back_to(&f, 1, "u0", 26);
	expire(&f, 400);
	assert_false(kp_requests_in_call(f.rs, &v, feed_time(23), feed_time(23)));
}

/*
 * Answered by a tail call's end, it was listed for the second in which its
 * process could still show that it runs.
 */
static void
test_tail_call(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	call(&f, 1, "b", "u0", 1, 1);
	assert_string_equal(oldest(2, 9), "1 2ms b@0 1ms");
	back_to(&f, 1, "u0", 3);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 1);
	assert_int_equal(kp_requests_running(f.rs, 0), 0);
	assert_string_equal(oldest(500, 9), "");
	/* it does run */
	call(&f, 1, "a", "e", 1, 501);
	assert_int_equal(kp_requests_running(f.rs, 0), 1);
	assert_string_equal(oldest(510, 9), "1 510ms a@0 9ms");
	back_to(&f, 1, "e", 511);
	back_to(&f, 1, "u0", 512);
	assert_int_equal(kp_requests_running(f.rs, 0), 0);
}

/* The node has told a later time than is asked for. */
static void
test_when(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 5);
	expire(&f, 30);
	assert_string_equal(oldest(0, 9), "1 25ms e@0 25ms");
	assert_string_equal(oldest(40, 9), "1 35ms e@0 35ms");
	/* a clock that is known badly */
	kp_requests_offset(f.rs, 1, -(kp_dur_ns)(AHEAD * 1e6) -
	    100 * KP_NS_PER_MS, 0);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 38);
	assert_string_equal(oldest(40, 9), "1 35ms a@1 35ms");
}

static void
test_oldest(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 10; i++)
		entry(&f, 1 + i, "e", "u0", 1 + i, i % 5 * 10 + i);
	/* they began at 0, 11, 22, 33, 44, 5, 16, 27, 38, 49 */
	assert_string_equal(oldest(50, 0), "");
	assert_string_equal(oldest(50, 1), "1 50ms e@0 50ms");
	assert_string_equal(oldest(50, 4), "1 50ms e@0 50ms, 6 45ms e@0 45ms, "
	    "2 39ms e@0 39ms, 7 34ms e@0 34ms");
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	assert_string_equal(oldest(50, 9), "");
}

static void
test_identity(void **state)
{
	struct kp_flight v;

	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	assert_int_equal(kp_requests_oldest(f.rs, 0, feed_time(1), &v, 1), 1);
	assert_int_equal(v.identity, KP_IDENT_NONE);
	f.identity = "create";
	call(&f, 1, "b", "e", 1, 1);
	assert_int_equal(kp_requests_oldest(f.rs, 0, feed_time(1), &v, 1), 1);
	assert_string_equal(kp_requests_identity(f.rs, v.identity), "create");
	assert_int_equal(v.ncalls, 2);
	assert_int_equal(v.weight, 1);
}

/* "e b a": the functions of the calls that are open, the innermost last. */
static const char *
path(double now_ms)
{
	static char text[256];
	struct kp_flight v;
	char *p = text;

	*p = '\0';
	assert_int_equal(kp_requests_oldest(f.rs, 0, feed_time(now_ms), &v, 1), 1);
	for (unsigned i = 0; i < v.npath; i++)
		p += sprintf(p, "%s%.1s", i > 0 ? " " : "",
		    kp_requests_fn(f.rs, v.path[i])->text);
	return text;
}

static void
test_path(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	assert_string_equal(path(1), "e");
	call(&f, 1, "b", "e", 1, 1);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	assert_string_equal(path(3), "e b a");
	back_to(&f, AT(1, 1), "u0", 4);
	assert_string_equal(path(5), "e b");
	for (int i = 0; i < KP_FLIGHT_PATH_MAX; i++)
		call(&f, 1, "a", "b", 1, 6 + i);
	assert_string_equal(path(50), "a a a a a a a a a a a a a a a a");
}

#define WITH(t) cmocka_unit_test_setup_teardown(t, setup_nodes, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(test_where), WITH(test_in_call),
		WITH(test_tail_call), WITH(test_when),
		WITH(test_oldest),
		WITH(test_identity), WITH(test_path),
	};

	return cmocka_run_group_tests_name("request_flight", tests, NULL,
	    NULL);
}
