/*
 * test_request_mark.c - requests that begin with kprof:set_token/0 and end
 * with kprof:clear_token/0: functions that return at once.
 *
 * Events by hand, as the VM makes them for the program that each test tells
 * of; see feed.h for how results read.  x, y and z are not traced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"

static void
set(uint32_t pid, const char *caller, uint64_t label, uint64_t old, double ms)
{
	entry_in(&f, pid, "set_token", caller, label, old, ms);
	back_to(&f, pid, caller, ms);
}

static void
clear(uint32_t pid, const char *caller, uint64_t label, double ms)
{
	clears(&f, pid, "clear_token", caller, label, ms);
	back_to(&f, pid, caller, ms);
}

/* Sampling passes set_token over, and the process has a token. */
static void
set_unsampled(uint32_t pid, const char *caller, uint64_t label, double ms)
{
	clears(&f, pid, "set_token", caller, label, ms);
	back_to(&f, pid, caller, ms);
}

/* x sets, calls a, which calls b, and c; clears, and sets again. */
static void
set_and_clear(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "a", "x", 1, 1);
	call(&f, 1, "b", "a", 1, 2);
	back_to(&f, 1, "a", 3);
	back_to(&f, 1, "x", 4);
	call(&f, 1, "c", "x", 1, 5);
	back_to(&f, 1, "x", 6);
	clear(1, "x", 1, 7);
	set(1, "x", 2, 0, 8);
	clear(1, "x", 2, 9);
	expire(&f, 1000);
	CLOSED("#1 returned 0-7: kprof 0-7 returned | a 1-4 <0 | b 2-3 <1 | c 5-6 <0\n"
	    "#2 returned 8-9: kprof 8-9 returned\n");
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	assert_int_equal(kp_requests_entries(f.rs, 0), 2);
}

/* Set in one function, cleared in another: both are long over. */
static void
set_in_a_callee(void **state)
{
	(void)state;
	set(1, "y", 1, 0, 0);	/* x calls y, which sets */
	call(&f, 1, "a", "x", 1, 1);
	call(&f, 1, "b", "z", 1, 2);
	back_to(&f, 1, "z", 3);
	clear(1, "z", 1, 4);	/* a calls z, which clears */
	back_to(&f, 1, "x", 6);
	expire(&f, 1000);
	CLOSED("#1 returned 0-4: kprof 0-4 returned | a 1-6 <0 | b 2-3 <1\n");
}

/* The next set_token will do where nobody clears. */
static void
set_again(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "a", "x", 1, 1);
	back_to(&f, 1, "x", 2);
	set(1, "x", 2, 1, 5);
	set_unsampled(1, "x", 2, 8);
	set(1, "x", 3, 0, 20);
	clear(1, "x", 3, 21);
	expire(&f, 1000);
	CLOSED("#1 returned 0-5: kprof 0-5 returned | a 1-2 <0\n"
	    "#2 returned 5-8: kprof 5-8 returned\n"
	    "#3 returned 20-21: kprof 20-21 returned\n");
	assert_int_equal(kp_requests_entries(f.rs, 0), 3);
}

/*
 * a, called for the first request, calls y, which sets the second: that one
 * began inside nothing that goes on, though a does.
 */
static void
set_again_inside_a_call(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "a", "x", 1, 1);
	set(1, "y", 2, 1, 2);
	call(&f, 1, "b", "y", 2, 3);
	back_to(&f, 1, "y", 4);
	back_to(&f, 1, "x", 5);
	call(&f, 1, "c", "x", 2, 6);
	back_to(&f, 1, "x", 7);
	clear(1, "x", 2, 8);
	expire(&f, 1000);
	CLOSED("#1 returned 0-2: kprof 0-2 returned | a 1-5 <0\n"
	    "#2 returned 2-8: kprof 2-8 returned | b 3-4 <0 | c 6-7 <0\n");
}

/* Work that goes on after the end is async, and nobody's child. */
static void
goes_on(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call_from(&f, 2, 1, "a", "y", 1, 1);
	clear(1, "x", 1, 2);
	back_to(&f, 2, "y", 4);
	call_from(&f, 2, 1, "b", "y", 1, 5);
	back_to(&f, 2, "y", 6);
	expire(&f, 300);
	call_from(&f, 3, 1, "c", "z", 1, 400);
	back_to(&f, 3, "z", 401);
	CLOSED("#1 returned 0-2: kprof 0-2 returned | a 1-4 <0 | b 5-6 async\n"
	    "late c 400-401 unknown\n");
}

/*
 * The process met a message without a token, and lost its own: no call says
 * when the request ended, and it expires.
 */
static void
token_lost(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	set(1, "x", 2, 0, 10);
	clear(1, "x", 2, 12);
	expire(&f, 1000);
	CLOSED("#2 returned 10-12: kprof 10-12 returned\n");
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 1);
	expire(&f, 60001);
	assert_int_equal(f.expired, 1);
	assert_int_equal(lost(&f, KP_LOSS_EXPIRED), 1);
}

/* Its process died; a tombstone knows what comes later. */
static void
process_died(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "a", "x", 1, 1);
	expire(&f, 60000);
	CLOSED("#1 expired unfinished 0-60000: kprof 0- unfinished | "
	    "a 1- unfinished <0\n");
	call(&f, 2, "b", "y", 1, 60001);
	back_to(&f, 2, "y", 60002);
	CLOSED("late b 60001-60002 unknown\n");
}

/* Another process has the token by a message, and ends the request. */
static void
cleared_elsewhere(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call_from(&f, 2, 1, "a", "y", 1, 2);
	back_to(&f, 2, "y", 4);
	set_unsampled(3, "z", 1, 5);	/* only its own token is cut */
	clear(2, "y", 1, 6);
	call(&f, 1, "b", "x", 1, 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#1 returned 0-6: kprof 0-6 returned | a 2-4 <0 | b 8-9 async\n");
}

/* Between processes events are not in order: the end comes first. */
static void
cleared_early(void **state)
{
	(void)state;
	clear(2, "y", 1, 6);
	set(1, "x", 1, 0, 0);
	call_from(&f, 3, 1, "a", "z", 2, 10);
	clear(2, "y", 2, 12);
	set(1, "x", 2, 0, 9);
	back_to(&f, 3, "z", 11);
	clear(4, "y", 9, 20);	/* of a request that never comes */
	expire(&f, 1000);
	CLOSED("#1 returned 0-6: kprof 0-6 returned\n"
	    "#2 returned 9-12: kprof 9-12 returned | a 10-11 <0\n");
	assert_int_equal(lost(&f, KP_LOSS_STALE), 0);
}

/*
 * A connection with two streams: each request's token is put aside when its
 * own worker runs, and taken up again to end it.
 */
static void
two_in_one_process(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	set(1, "x", 2, 0, 1);
	call_from(&f, 2, 1, "a", "y", 1, 2);
	call_from(&f, 3, 1, "b", "y", 2, 3);
	back_to(&f, 3, "y", 4);
	clear(1, "x", 2, 5);
	back_to(&f, 2, "y", 6);
	clear(1, "x", 1, 7);
	expire(&f, 1000);
	CLOSED("#2 returned 1-5: kprof 1-5 returned | b 3-4 <0\n"
	    "#1 returned 0-7: kprof 0-7 returned | a 2-6 <0\n");
}

/* e calls y, which sets and clears; what e calls is not known afterwards. */
static void
inside_an_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	set(1, "y", 2, 1, 2);
	call(&f, 1, "b", "y", 2, 3);
	back_to(&f, 1, "y", 4);
	clear(1, "y", 2, 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#2 returned in #1 2-5: kprof 2-5 returned | b 3-4 <0\n"
	    "#1 unknown 0-7: e 0-7 | a 1-6 <0\n");
}

/*
 * x sets and calls e, an entry too, whose token stays behind: what x calls
 * next is still work for its own request, and it is that one that is cleared.
 */
static void
around_an_entry(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "a", "x", 1, 1);
	entry_in(&f, 1, "e", "a", 2, 1, 2);
	call(&f, 1, "b", "e", 2, 3);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "a", 5);
	back_to(&f, 1, "x", 6);
	entry_in(&f, 1, "e", "x", 3, 2, 7);
	back_to(&f, 1, "x", 8);
	call(&f, 1, "c", "x", 3, 9);
	back_to(&f, 1, "x", 10);
	clear(1, "x", 3, 11);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 2-5: e 2-5 | b 3-4 <0\n"
	    "#3 unknown in #1 7-8: e 7-8\n"
	    "#1 returned 0-11: kprof 0-11 returned | a 1-6 <0 | c 9-10 <0\n");
}

/* set_token, or clear_token, as the last act of a traced function. */
static void
tail_called(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry_in(&f, 1, "set_token", "e", 2, 1, 2);
	back_to(&f, 1, "e", 2);
	call(&f, 1, "b", "e", 2, 3);
	clears(&f, 1, "clear_token", "e", 2, 4);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#2 returned in #1 2-4: kprof 2-4 returned | b 3-4 <0\n"
	    "#1 unknown 0-7: e 0-7 | a 1-2 <0\n");
}

/* An exception in a that x catches leaves the request as it was. */
static void
exception_inside(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "a", "z", 1, 1);
	back_to(&f, 1, "x", 2);
	call(&f, 1, "b", "x", 1, 3);
	back_to(&f, 1, "x", 4);
	clear(1, "x", 1, 5);
	expire(&f, 1000);
	CLOSED("#1 returned 0-5: kprof 0-5 returned | a 1-2 raised <0 | b 3-4 <0\n");
}

/* Cleared twice, or where nothing was set: e ends by its return. */
static void
clear_of_others(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	clear(1, "e", 1, 2);
	back_to(&f, 1, "x", 4);
	set(2, "x", 2, 0, 5);
	clear(2, "x", 2, 6);
	clear(3, "x", 2, 7);
	clear(3, "x", 0, 8);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-4: e 0-4\n#2 returned 5-6: kprof 5-6 returned\n");
}

/* Two with one label: both are dropped. */
static void
collision(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	set(2, "x", 1, 0, 1);
	clear(1, "x", 1, 2);
	clear(2, "x", 1, 3);
	expire(&f, 1000);
	CLOSED("");
	assert_int_equal(lost(&f, KP_LOSS_COLLIDED), 2);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
}

static const char conf_marks_finish[] =
    "{tiers, [{db, [{a,a,1}, {b,b,1}]}]}.\n"
    "{entry, {kprof,set_token,0}}.\n"
    "{finish, {b,b,1}}.\n";

static int
setup_marks_finish(void **state)
{
	(void)state;
	feed_init(&f, conf_marks_finish, NULL);
	return 0;
}

/* What comes first ends it: here b's return, and then clear_token. */
static void
finish(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "b", "x", 1, 1);
	back_to(&f, 1, "x", 2);
	clear(1, "x", 1, 3);
	set(1, "x", 2, 0, 4);
	clear(1, "x", 2, 5);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-2: kprof 0-2 | b 1-2 <0\n"
	    "#2 returned 4-5: kprof 4-5 returned\n");
}

/* The connection goes while one is set: lost, and nothing stays. */
static void
abandoned(void **state)
{
	(void)state;
	set(1, "x", 1, 0, 0);
	call(&f, 1, "a", "x", 1, 1);
	kp_requests_abandon(f.rs, 0, KP_LOSS_DISCONNECTED);
	CLOSED("");
	assert_int_equal(lost(&f, KP_LOSS_DISCONNECTED), 1);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	clear(1, "x", 1, 2);
	expire(&f, 1000);
	CLOSED("");
}

#define ON(test, setup) \
	cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON(set_and_clear, setup_27), ON(set_and_clear, setup_25),
		ON(set_in_a_callee, setup_27), ON(set_in_a_callee, setup_25),
		ON(set_again, setup_27), ON(token_lost, setup_27),
		ON(set_again_inside_a_call, setup_27), ON(goes_on, setup_27),
		ON(process_died, setup_27), ON(cleared_elsewhere, setup_27),
		ON(cleared_early, setup_27), ON(two_in_one_process, setup_27),
		ON(inside_an_entry, setup_27), ON(inside_an_entry, setup_25),
		ON(around_an_entry, setup_27), ON(around_an_entry, setup_25),
		ON(tail_called, setup_27), ON(exception_inside, setup_27),
		ON(clear_of_others, setup_27), ON(collision, setup_27),
		ON(finish, setup_marks_finish), ON(abandoned, setup_27),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
