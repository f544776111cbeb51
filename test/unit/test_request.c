/*
 * test_request.c - how calls pair with returns, and who is whose child.
 *
 * Events by hand, as the VM makes them for the program that each test tells
 * of; see feed.h for how results read.  x, y and z are functions that are
 * not traced.  Exceptions are in test_request_raise.c; what the stage
 * remembers, and for how long, in test_request_life.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"

/* x calls e. */
static void
one_request(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 1);
	back_to(&f, 1, "x", 10);
	expire(&f, 209);
	CLOSED("");
	expire(&f, 210);
	CLOSED("#1 unknown 0-10: e 0-10\n");
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	assert_int_equal(kp_requests_entries(f.rs, 0), 1);
}

/* e calls a, a calls y, y calls b; then e calls c. */
static void
children(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 2);
	call(&f, 1, "b", "y", 1, 3);
	back_to(&f, 1, "y", 4);
	back_to(&f, 1, "e", 5);
	call(&f, 1, "c", "e", 1, 6);
	back_to(&f, 1, "e", 7);
	back_to(&f, 1, "x", 10);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-10: e 0-10 | a 2-5 <0 | b 3-4 <1 | c 6-7 <0\n");
}

/* A process that was never called by returns of what came before. */
static void
returns_of_nothing(void **state)
{
	(void)state;
	back_to(&f, 1, "x", 1);
	returned(&f, 1, "a", 1);
	raised(&f, 1, "a", 1);
	back_to(&f, 1, NULL, 1);
	expire(&f, 1000);
	CLOSED("");
}

/* A process of its own runs e: there is nobody to return to. */
static void
no_caller(void **state)
{
	(void)state;
	entry(&f, 1, "e", NULL, 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	back_to(&f, 1, "e", 2);
	back_to(&f, 1, NULL, 3);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-3: e 0-3 | a 1-2 <0\n");
}

static void
recursion(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "a", "a", 1, 2);
	call(&f, 1, "a", "a", 1, 3);
	back_to(&f, 1, "a", 4);
	back_to(&f, 1, "a", 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-6 <0 | a 2-5 <1 | a 3-4 <2\n");
}

/* a calls b, b calls a, a calls b; each with work after it. */
static void
mutual_recursion(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "a", 1, 2);
	call(&f, 1, "a", "b", 1, 3);
	call(&f, 1, "b", "a", 1, 4);
	back_to(&f, 1, "a", 5);
	back_to(&f, 1, "b", 6);
	back_to(&f, 1, "a", 7);
	back_to(&f, 1, "e", 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-9: e 0-9 | a 1-8 <0 | b 2-7 <1 | a 3-6 <2 | "
	    "b 4-5 <3\n");
}

/* An entry that calls itself: each is a request inside the last. */
static void
recursive_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry_in(&f, 1, "e", "e", 2, 1, 1);
	entry_in(&f, 1, "e", "e", 3, 2, 2);
	back_to(&f, 1, "e", 3);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 5);
	expire(&f, 1000);
	CLOSED("#3 unknown in #2 2-3: e 2-3\n#2 unknown in #1 1-4: e 1-4\n"
	    "#1 unknown 0-5: e 0-5\n");
}

/* ---- tail calls ---- */

/* e calls a, a ends in b, b in c: one event ends all three. */
static void
tail_chain(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "e", 1, 2);
	call(&f, 1, "c", "e", 1, 3);
	back_to(&f, 1, "e", 4);
	call(&f, 1, "c", "e", 1, 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-4 <0 | b 2-4 <1 | c 3-4 <2 | "
	    "c 5-6 <0\n");
}

/* The entry ends in a: nothing comes that would say so. */
static void
tail_entry_by_time(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "x", 1, 2);
	back_to(&f, 1, "x", 5);
	expire(&f, 1004);
	CLOSED("");
	expire(&f, 1005);
	CLOSED("#1 unknown 0-5: e 0-5 | a 2-5 <0\n");
}

static void
tail_entry_by_next(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "x", 1, 2);
	back_to(&f, 1, "x", 5);
	entry_in(&f, 1, "e", "x", 2, 1, 8);
	expire(&f, 210);
	CLOSED("#1 unknown 0-5: e 0-5 | a 2-5 <0\n");
	back_to(&f, 1, "x", 300);
	expire(&f, 1000);
	CLOSED("#2 unknown 8-300: e 8-300\n");
}

/* The next request of the process is another entry's. */
static void
tail_entry_by_other(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "x", 1, 2);
	back_to(&f, 1, "x", 5);
	entry_in(&f, 1, "e2", "x", 2, 1, 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 300);
	CLOSED("#1 unknown 0-5: e 0-5 | a 2-5 <0\n#2 unknown 8-9: e2 8-9\n");
}

static void
tail_entry_abandoned(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "x", 1, 2);
	back_to(&f, 1, "x", 5);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	CLOSED("#1 unknown 0-5: e 0-5 | a 2-5 <0\n");
	assert_int_equal(lost(&f, KP_LOSS_TRIPPED), 0);
}

/* What x calls after the entry's tail call was not waited for. */
static void
tail_entry_then_async(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "x", 1, 2);
	back_to(&f, 1, "x", 5);
	call(&f, 1, "b", "x", 1, 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1500);
	CLOSED("#1 unknown 0-5: e 0-5 | a 2-5 <0 | b 6-7 async\n");
}

/*
 * handle/1 ends in handle/2 and both are entries, as one pattern for every
 * arity makes them: one event ends both requests.
 */
static void
tail_entry_of_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry_in(&f, 1, "e2", "x", 2, 1, 1);
	back_to(&f, 1, "x", 5);
	entry_in(&f, 1, "e", "x", 3, 2, 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 300);
	CLOSED("#2 unknown in #1 1-5: e2 1-5\n#1 unknown 0-5: e 0-5\n"
	    "#3 unknown 6-7: e 6-7\n");
}

/* ---- wrappers ---- */

/* x is telemetry:span/3: it calls a, a calls x, x calls b. */
static void
wrapper(void **state)
{
	(void)state;
	entry(&f, 1, "e", "y", 1, 0);
	call(&f, 1, "a", "x", 1, 1);
	call(&f, 1, "b", "x", 1, 2);
	back_to(&f, 1, "x", 3);
	back_to(&f, 1, "x", 6);
	back_to(&f, 1, "y", 8);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-8: e 0-8 | a 1-6 <0 | b 2-3 <1\n");
}

static void
wrapper_with_siblings(void **state)
{
	(void)state;
	entry(&f, 1, "e", "y", 1, 0);
	call(&f, 1, "a", "x", 1, 1);
	call(&f, 1, "b", "x", 1, 2);
	back_to(&f, 1, "x", 3);
	call(&f, 1, "c", "x", 1, 4);
	back_to(&f, 1, "x", 5);
	back_to(&f, 1, "x", 6);
	back_to(&f, 1, "y", 8);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-8: e 0-8 | a 1-6 <0 | b 2-3 <1 | c 4-5 <1\n");
}

/* The entry itself is called through the wrapper, for 10 s. */
static void
wrapped_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	for (int i = 1; i < 20; i++) {
		call(&f, 1, "a", "x", 1, i * 500);
		back_to(&f, 1, "x", i * 500 + 1);
		expire(&f, i * 500 + 2);
		kp_buf_reset(&f.text);
	}
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 1);
	back_to(&f, 1, "x", 10000);
	expire(&f, 10300);
	assert_non_null(strstr(kp_buf_cstr(&f.text),
	    "#1 unknown 0-10000: e 0-10000 | a 500-501 <0 | "));
}

/*
 * It may work that way for ever; but no longer than any other request is it
 * kept in memory.
 */
static void
wrapped_entry_for_ever(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	for (int i = 1; i < 140; i++) {
		call(&f, 1, "a", "x", 1, i * 500);
		back_to(&f, 1, "x", i * 500 + 1);
		expire(&f, i * 500 + 2);
	}
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	assert_int_equal(f.closed, 1);
}

/* The same function through the wrapper again: the last one is over. */
static void
tail_chain_again(void **state)
{
	(void)state;
	entry(&f, 1, "e", "y", 1, 0);
	for (int i = 0; i < 3; i++) {
		call(&f, 1, "a", "x", 1, 10 * i + 1);
		call(&f, 1, "b", "x", 1, 10 * i + 2);
		back_to(&f, 1, "x", 10 * i + 3);
	}
	back_to(&f, 1, "y", 40);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-40: e 0-40 | a 1-3 <0 | b 2-3 <1 | "
	    "a 11-13 <0 | b 12-13 <3 | a 21-23 <0 | b 22-23 <5\n");
}

/* ---- other processes ---- */

/* Both parents are open: the token says which one sent the message. */
static void
parent_by_token(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "x", 1, 1);
	call_from(&f, 3, 1, "a", "x", 1, 2);
	call_from(&f, 4, 2, "b", "x", 1, 3);
	back_to(&f, 4, "x", 4);
	call_from(&f, 5, 99, "c", "x", 1, 5);
	back_to(&f, 5, "x", 6);
	back_to(&f, 3, "x", 7);
	back_to(&f, 2, "x", 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-9: e 0-9 | a 1-8 <0 | a 2-7 <0 | b 3-4 <1 | "
	    "c 5-6 <2\n");
}

/* The token came from another node, or says nothing. */
static void
parent_by_time(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 2, "a", "x", 1, 1);
	back_to(&f, 2, "x", 2);
	call(&f, 3, "b", "x", 1, 3);
	call(&f, 4, "c", "x", 1, 4);
	back_to(&f, 4, "x", 5);
	back_to(&f, 3, "x", 6);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-9: e 0-9 | a 1-2 <0 | b 3-6 <0 | c 4-5 <2\n");
}

/* Batches of several processes come one after the other. */
static void
out_of_order(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 9);
	call_from(&f, 2, 1, "b", "x", 1, 2);
	back_to(&f, 2, "x", 4);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-9: e 0-9 | b 2-4 <0 | a 5-6 <0\n");
}

/*
 * A walk through a tree, of which every second function is traced: an
 * untraced x calls c and a, a calls x.  Once the inner a was taken for a proof
 * that the outer one had ended in a tail call, and then the request was left
 * over for its return: it read as raised.
 */
static void
recursion_through_untraced(void **state)
{
	(void)state;
	entry(&f, 1, "e", "r", 1, 0);
	call(&f, 1, "a", "x", 1, 1);
	call(&f, 1, "c", "x", 1, 2);
	back_to(&f, 1, "x", 3);
	call(&f, 1, "a", "x", 1, 4);
	call(&f, 1, "c", "x", 1, 5);
	back_to(&f, 1, "x", 6);
	back_to(&f, 1, "x", 7);
	back_to(&f, 1, "x", 8);
	back_to(&f, 1, "r", 9);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-9: e 0-9 | a 1-8 <0 | c 2-3 <1 | a 4-7 <1 |"
	    " c 5-6 <3\n");
}

/*
 * Deeper than calls in doubt are kept: the first ones are taken for over, and
 * their returns for nothing else.  Once the first of these returns read as an
 * exception that had left the request.
 */
static void
deep_recursion_through_untraced(void **state)
{
	(void)state;
	entry(&f, 1, "e", "r", 1, 0);
	for (int i = 0; i < 100; i++) {
		call(&f, 1, "a", "x", 1, 1 + i);
		call(&f, 1, "c", "x", 1, 1.25 + i);
		back_to(&f, 1, "x", 1.5 + i);
	}
	for (int i = 0; i < 100; i++)
		back_to(&f, 1, "x", 101 + i);
	call(&f, 1, "b", "y", 1, 201);
	back_to(&f, 1, "x", 202);
	back_to(&f, 1, "r", 203);
	expire(&f, 2000);
	assert_non_null(strstr(kp_buf_cstr(&f.text),
	    "#1 unknown 0-203: e 0-203 | a 1-1.5 <0 | c 1.25-1.5 <1 |"));
	assert_non_null(strstr(kp_buf_cstr(&f.text), "| a 100-101 <"));
	assert_non_null(strstr(kp_buf_cstr(&f.text), "| b 201-202 raised <0\n"));
}

/* The same events but for the returns of a: it ended in calls of c. */
static void
tail_calls_in_a_loop(void **state)
{
	(void)state;
	entry(&f, 1, "e", "r", 1, 0);
	for (int i = 0; i < 300; i++) {
		call(&f, 1, "a", "x", 1, 1 + i);
		call(&f, 1, "c", "x", 1, 1.25 + i);
		back_to(&f, 1, "x", 1.5 + i);
	}
	back_to(&f, 1, "r", 500);
	expire(&f, 1000);
	assert_non_null(strstr(kp_buf_cstr(&f.text),
	    "#1 unknown 0-500: e 0-500 | a 1-1.5 <0 | c 1.25-1.5 <1 |"
	    " a 2-2.5 <0 | c 2.25-2.5 <3 |"));
	assert_non_null(strstr(kp_buf_cstr(&f.text),
	    "| a 300-300.5 <0 | c 300.25-300.5 <599\n"));
}

/* ---- requests inside requests, and one after the other ---- */

/* Children that were spawned to do the same: none of them called another. */
static void
parent_of_siblings(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "x", 1, 1);
	call(&f, 2, "b", "x", 1, 2);
	call(&f, 3, "b", "x", 1, 3);
	call(&f, 4, "c", "x", 1, 4);
	back_to(&f, 4, "x", 5);
	back_to(&f, 2, "x", 6);
	back_to(&f, 3, "x", 7);
	back_to(&f, 1, "x", 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-9: e 0-9 | a 1-8 <0 | b 2-6 <1 | b 3-7 <1 |"
	    " c 4-5 <3\n");
}

/* e left no end (an exception that OTP 25 is silent of): e again ends it. */
static void
entry_after_no_end(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry_in(&f, 1, "e", "x", 2, 1, 10);
	back_to(&f, 1, "x", 12);
	expire(&f, 1000);
	CLOSED("#1 unfinished 0-10: e 0- unfinished | a 1- unfinished <0\n"
	    "#2 unknown 10-12: e 10-12\n");
}

/*
 * Once taken for the above on OTP 27 too, which would have told of an
 * exception: an untraced x calls e, and e calls x.
 */
static void
entry_from_the_same_place(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry_in(&f, 1, "e", "x", 2, 1, 2);
	back_to(&f, 1, "x", 3);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 5);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 2-3: e 2-3\n"
	    "#1 unknown 0-5: e 0-5 | a 1-4 <0\n");
}

/*
 * Who waits for a worker of a pool is answered when another request gives one
 * back, with that one's token.  Once that was taken for the end of the
 * request that had waited, and what it called then went to the other one.
 */
static void
token_of_a_stranger(void **state)
{
	(void)state;
	entry(&f, 1, "e", "r", 1, 0);
	entry(&f, 2, "e", "r", 2, 1);
	call(&f, 2, "a", "x", 2, 2);
	back_to(&f, 2, "x", 3);
	call_from(&f, 2, 3, "b", "x", 1, 4);
	call_from(&f, 2, 3, "c", "b", 1, 5);
	back_to(&f, 2, "b", 6);
	back_to(&f, 2, "x", 7);
	back_to(&f, 1, "r", 8);
	entry_in(&f, 2, "e2", "x", 3, 1, 9);
	back_to(&f, 2, "x", 10);
	back_to(&f, 2, "r", 11);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-8: e 0-8\n"
	    "#3 unknown in #2 9-10: e2 9-10\n"
	    "#2 unknown 1-11: e 1-11 | a 2-3 <0 | b 4-7 <0 | c 5-6 <2\n");
}

/* A worker that left no end of 1 works for 2. */
static void
label_after_no_end(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry(&f, 2, "e", "x", 2, 1);
	call_from(&f, 3, 1, "a", "x", 1, 2);
	call_from(&f, 3, 2, "a", "x", 2, 3);
	back_to(&f, 3, "x", 4);
	back_to(&f, 1, "x", 5);
	back_to(&f, 2, "x", 6);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-5: e 0-5 | a 2- unfinished <0\n"
	    "#2 unknown 1-6: e 1-6 | a 3-4 <0\n");
}

/* e calls a, a calls e2; the token of e2's request stays behind. */
static void
nested_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry_in(&f, 1, "e2", "a", 2, 1, 2);
	call(&f, 1, "b", "e2", 2, 3);
	back_to(&f, 1, "e2", 4);
	back_to(&f, 1, "a", 5);
	call(&f, 1, "c", "a", 2, 6);
	back_to(&f, 1, "a", 7);
	back_to(&f, 1, "e", 8);
	call(&f, 1, "c", "e", 2, 9);
	back_to(&f, 1, "e", 10);
	back_to(&f, 1, "x", 11);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 2-5: e2 2-5 | b 3-4 <0\n"
	    "#1 unknown 0-11: e 0-11 | a 1-8 <0 | c 6-7 <1 | c 9-10 <0\n");
}

/* The next one inside e meets the token of the last. */
static void
nested_entry_twice(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry_in(&f, 1, "e2", "y", 2, 1, 2);
	back_to(&f, 1, "y", 3);
	entry_in(&f, 1, "e2", "z", 3, 2, 4);
	back_to(&f, 1, "z", 5);
	back_to(&f, 1, "x", 11);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 2-3: e2 2-3\n#3 unknown in #1 4-5: e2 4-5\n"
	    "#1 unknown 0-11: e 0-11\n");
}

/*
 * One request inside another, which stands for seven: six others were passed
 * over by sampling, and have cut the requests that they were inside.
 */
static void
nested_entry_weighted(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	f.weight = 7;
	entry_in(&f, 1, "e2", "y", 2, 1, 2);
	back_to(&f, 1, "y", 3);
	back_to(&f, 1, "x", 11);
	/* what meets an old token cuts nothing */
	entry_in(&f, 2, "e2", "y", 3, 1, 20);
	back_to(&f, 2, "y", 21);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 x7 2-3: e2 2-3\n#1 unknown 0-11: e 0-11\n"
	    "#3 unknown x7 20-21: e2 20-21\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 6);
}

/* a waits for a server with an entry, and has its token with the answer. */
static void
nested_entry_elsewhere(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry_in(&f, 2, "e2", "y", 2, 1, 2);
	back_to(&f, 2, "y", 3);
	call_from(&f, 1, 2, "b", "a", 2, 4);
	back_to(&f, 1, "a", 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 2-3: e2 2-3\n"
	    "#1 unknown 0-7: e 0-7 | a 1-6 <0 | b 4-5 <1\n");
}

/* A keep-alive connection: its process keeps the token of what is over. */
static void
stale_token_at_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 1);
	entry_in(&f, 1, "e", "x", 2, 1, 2);
	back_to(&f, 1, "x", 3);
	expire(&f, 1000);
	entry_in(&f, 1, "e", "x", 3, 2, 2000);
	back_to(&f, 1, "x", 2001);
	expire(&f, 3000);
	CLOSED("#1 unknown 0-1: e 0-1\n#2 unknown 2-3: e 2-3\n"
	    "#3 unknown 2000-2001: e 2000-2001\n");
}

#define ON_27(t) cmocka_unit_test_setup_teardown(t, setup_27, teardown)
#define ON_25(t) cmocka_unit_test_setup_teardown(t, setup_25, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_27(one_request), ON_27(children), ON_25(children),
		ON_27(returns_of_nothing), ON_27(no_caller), ON_27(recursion),
		ON_25(recursion), ON_27(mutual_recursion),
		ON_25(mutual_recursion), ON_27(recursive_entry),
		ON_27(tail_chain), ON_25(tail_chain),
		ON_27(tail_entry_by_time), ON_25(tail_entry_by_time),
		ON_27(tail_entry_by_next), ON_27(tail_entry_by_other),
		ON_27(tail_entry_abandoned), ON_27(tail_entry_then_async),
		ON_27(tail_entry_of_entry), ON_27(wrapper), ON_25(wrapper),
		ON_27(wrapper_with_siblings), ON_25(wrapper_with_siblings),
		ON_27(wrapped_entry), ON_25(wrapped_entry),
		ON_27(wrapped_entry_for_ever), ON_25(wrapped_entry_for_ever),
		ON_27(tail_chain_again), ON_27(recursion_through_untraced),
		ON_27(deep_recursion_through_untraced),
		ON_25(recursion_through_untraced),
		ON_27(tail_calls_in_a_loop), ON_27(parent_by_token),
		ON_27(parent_of_siblings),
		ON_27(parent_by_time), ON_27(out_of_order),
		ON_25(entry_after_no_end), ON_27(entry_from_the_same_place),
		ON_27(token_of_a_stranger), ON_25(token_of_a_stranger),
		ON_27(label_after_no_end), ON_25(label_after_no_end),
		ON_27(nested_entry), ON_25(nested_entry),
		ON_27(nested_entry_weighted), ON_25(nested_entry_weighted),
		ON_27(nested_entry_twice), ON_27(nested_entry_elsewhere),
		ON_27(stale_token_at_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
