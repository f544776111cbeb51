/*
 * test_request_found.c - bugs that the random programs of test_assembly.c and
 * test_conservation.c, and real nodes, found, each as the few events that show it.  See feed.h for
 * how results read; x, y and z are functions that are not traced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"

static int
setup_small(void **state)
{
	struct kp_requests_opts o = { .max_calls_in_flight = 3,
		.max_identities = 4 };

	(void)state;
	feed_init(&f, conf_two, &o);
	return 0;
}

/* ---- exact functions ---- */

/*
 * a ends in b (exact), which raises; e catches.  The return_to that follows
 * names b's caller and was taken for no news; a stayed open until e returned,
 * which then read as raised.
 */
static void
exact_raised_in_chain(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "y", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	raised(&f, 1, "b", 3);
	back_to(&f, 1, "y", 4);
	call(&f, 1, "c", "y", 1, 5);
	back_to(&f, 1, "y", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-4 raised <0 | b 2-3 raised <1 | "
	    "c 5-6 <0\n");
}

/*
 * a (exact) ends in b; b calls y, y calls c, which raises; z, called by b,
 * catches.  When a returns, the exception has passed neither a nor b.
 */
static void
exact_returned_after_all(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "e", 1, 2);
	call(&f, 1, "c", "y", 1, 3);
	back_to(&f, 1, "z", 4);
	returned(&f, 1, "a", 6);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-6 returned <0 | "
	    "b 2-6 returned <1 | c 3-4 raised <2\n");
}

/*
 * A worker's message of before ended in a tail call, and is in doubt; in the
 * next one b (exact) raises and the worker's loop catches.  That return_to
 * was taken for the end of the earlier message.
 */
static void
exact_raised_above_doubt(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "x", 1, 1);
	call(&f, 2, "c", "x", 1, 2);
	back_to(&f, 2, "x", 3);
	call_from(&f, 2, 1, "b", "y", 1, 5);
	raised(&f, 2, "b", 6);
	back_to(&f, 2, "x", 6);
	back_to(&f, 1, "x", 8);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-8: e 0-8 | a 1-3 <0 | c 2-3 <1 | "
	    "b 5-6 raised <0\n");
}

/* ---- finish ---- */

/* It ends in a tail call, of which nothing tells: the request took 60 s. */
static void
finish_in_tail_call(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 3);
	call_from(&f, 2, 1, "fin", "x", 1, 5);
	call(&f, 2, "a", "x", 1, 6);
	back_to(&f, 2, "x", 7);
	expire(&f, 1006);
	CLOSED("");
	expire(&f, 1300);
	CLOSED("#1 unknown 0-7: e 0-3 | fin 5-7 | a 6-7 <1\n");
}

/* It had come and gone before the entry's event was there: the same. */
static void
finish_before_entry(void **state)
{
	(void)state;
	call_from(&f, 2, 1, "fin", "x", 1, 5);
	back_to(&f, 2, "x", 6);
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 3);
	call_from(&f, 4, 3, "fin", "x", 2, 5);
	call(&f, 4, "a", "x", 2, 6);
	back_to(&f, 4, "x", 7);
	entry(&f, 3, "e", "x", 2, 0);
	back_to(&f, 3, "x", 3);
	expire(&f, 1100);
	CLOSED("#1 unknown 0-6: e 0-3 | fin 5-6\n"
	    "#2 unknown 0-7: e 0-3 | fin 5-7 | a 6-7 <1\n");
}

/* ---- requests inside requests ---- */

/* e2 calls a, a calls e2: that is no second request of an idle process. */
static void
mutual_entries(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry_in(&f, 1, "e2", "a", 2, 1, 2);
	call(&f, 1, "a", "e2", 2, 3);
	entry_in(&f, 1, "e2", "a", 3, 2, 4);
	back_to(&f, 1, "a", 5);
	back_to(&f, 1, "e2", 6);
	back_to(&f, 1, "a", 7);
	back_to(&f, 1, "e", 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#3 unknown in #2 4-5: e2 4-5\n"
	    "#2 unknown in #1 2-7: e2 2-7 | a 3-6 <0\n"
	    "#1 unknown 0-9: e 0-9 | a 1-8 <0\n");
}

/* e lost its token to a message; what it has open goes on all the same. */
static void
entry_without_token(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry_in(&f, 1, "e2", "a", 2, 0, 2);
	back_to(&f, 1, "a", 3);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 5);
	expire(&f, 1000);
}

static void
entry_without_token_27(void **state)
{
	entry_without_token(state);
	CLOSED("#2 unknown in #1 2-3: e2 2-3\n"
	    "#1 unknown 0-5: e 0-5 | a 1-4 <0\n");
}

/* There it may have been left long ago. */
static void
entry_without_token_25(void **state)
{
	entry_without_token(state);
	CLOSED("#1 unfinished 0-2: e 0- unfinished | a 1- unfinished <0\n"
	    "#2 unknown 2-3: e2 2-3\n");
}

/* ---- parents ---- */

/* Process 2 died in a: it is nobody's parent but by its own messages. */
static void
dead_parent(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "x", 1, 1);
	call(&f, 3, "b", "x", 1, 3);
	back_to(&f, 3, "x", 4);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-9: e 0-9 | a 1- unfinished <0 | b 3-4 <0\n");
}

/* ---- losses ---- */

/* The calls of a request that is lost vanished uncounted. */
static void
calls_of_lost_requests(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry(&f, 2, "e", "x", 1, 2);
	call(&f, 2, "b", "e", 1, 3);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 5);
	expire(&f, 1000);
	assert_int_equal(lost(&f, KP_LOSS_COLLIDED), 2);
	assert_int_equal(lost(&f, KP_LOSS_WITH_REQUEST), 2);
	entry(&f, 3, "e", "x", 3, 1000);
	call(&f, 3, "a", "e", 3, 1001);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	assert_int_equal(lost(&f, KP_LOSS_WITH_REQUEST), 3);
	assert_int_equal(lost(&f, KP_LOSS_TRIPPED), 1);
	CLOSED("");
}

/* One loss each: neither an entry nor a stale call is past the cap of calls. */
static void
counted_once(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 3; i++)
		entry(&f, i, "e", "x", i, i);
	entry(&f, 4, "e", "x", 4, 4);
	assert_int_equal(lost(&f, KP_LOSS_REQUEST_CAP), 1);
	call(&f, 5, "a", "x", 5, 5);
	assert_int_equal(lost(&f, KP_LOSS_STALE), 1);
	assert_int_equal(lost(&f, KP_LOSS_CALL_CAP), 0);
	call(&f, 1, "a", "e", 1, 6);
	assert_int_equal(lost(&f, KP_LOSS_CALL_CAP), 1);
}

/* One past the cap of names counts when it is handed on, and only then. */
static void
names_past_the_cap(void **state)
{
	(void)state;
	f.identity = "one";
	entry(&f, 1, "e", "x", 1, 0);
	f.identity = "two";
	entry(&f, 2, "e", "x", 2, 1);
	back_to(&f, 1, "x", 2);
	back_to(&f, 2, "x", 3);
	assert_int_equal(lost(&f, KP_LOSS_IDENTITY_CAP), 0);
	expire(&f, 1000);
	assert_int_equal(lost(&f, KP_LOSS_IDENTITY_CAP), 1);
	f.identity = "three";
	entry(&f, 3, "e", "x", 3, 1001);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	assert_int_equal(lost(&f, KP_LOSS_IDENTITY_CAP), 1);
	CLOSED("#1 unknown 'one' 0-2: e 0-2\n"
	    "#2 unknown '_other' 1-3: e 1-3\n");
}

/*
 * After a trip on a real node 6 of 36 requests were `cut`, in an application
 * whose requests never are inside others: tokens of before the trip still had
 * calls, and a new request that took such a token seemed to be inside theirs.
 */
static void
inside_one_given_up(void **state)
{
	(void)state;
	f.weight = 4;
	entry(&f, 1, "e", "x", 1, 0);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	call(&f, 2, "a", "x", 1, 1);
	back_to(&f, 2, "x", 2);
	entry_in(&f, 3, "e", "x", 2, 1, 3);
	back_to(&f, 3, "x", 4);
	expire(&f, 1000);
	CLOSED("#2 unknown x4 3-4: e 3-4\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 0);
}

/* The same where a trip takes the end of the client's last one. */
static void
inside_one_without_end(void **state)
{
	(void)state;
	f.weight = 4;
	entry(&f, 1, "e", "x", 1, 0);
	entry_in(&f, 2, "e", "x", 2, 1, 20);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	entry(&f, 3, "e", "x", 3, 30);
	entry_in(&f, 4, "e", "x", 4, 3, 40);
	back_to(&f, 4, "x", 41);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	CLOSED("#4 unknown in #3 x4 40-41: e 40-41\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 0);
}

/* A client's next request, in another process, was there before the end of its
   last one: between processes events are not in order. */
static void
inside_one_that_had_ended(void **state)
{
	(void)state;
	f.weight = 4;
	entry(&f, 1, "e", "x", 1, 0);
	entry_in(&f, 2, "e", "x", 2, 1, 20);
	back_to(&f, 1, "x", 11);
	back_to(&f, 2, "x", 21);
	expire(&f, 1000);
	CLOSED("#1 unknown x4 0-11: e 0-11\n#2 unknown x4 20-21: e 20-21\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 0);
}

/* The outer one's entry comes last, and yet it is the outer one. */
static void
inside_one_that_comes_late(void **state)
{
	(void)state;
	f.weight = 4;
	call(&f, 2, "a", "x", 1, 2);
	entry_in(&f, 2, "e2", "a", 2, 1, 3);
	back_to(&f, 2, "a", 4);
	back_to(&f, 2, "x", 5);
	entry(&f, 1, "e", "y", 1, 0);
	back_to(&f, 1, "y", 11);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 x4 3-4: e2 3-4\n"
	    "#1 unknown x4 0-11: e 0-11 | a 2-5 <0\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 3);
}

/*
 * On three real nodes 14 of 60 requests were inside none: nothing at all had
 * been heard of the outer one when the entry of the inner one came.
 */
static void
inside_one_that_is_news(void **state)
{
	(void)state;
	f.weight = 4;
	entry_in(&f, 2, "e2", "x", 2, 1, 3);
	back_to(&f, 2, "x", 5);
	entry(&f, 1, "e", "y", 1, 0);
	back_to(&f, 1, "y", 11);
	expire(&f, 1000);
	CLOSED("#2 unknown in #1 x4 3-5: e2 3-5\n"
	    "#1 unknown x4 0-11: e 0-11\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 3);
}

/* It had ended, or was one of long ago: then it is nobody's parent. */
static void
inside_one_that_is_no_news(void **state)
{
	(void)state;
	f.weight = 4;
	entry_in(&f, 2, "e2", "x", 2, 1, 20);
	back_to(&f, 2, "x", 25);
	entry_in(&f, 3, "e2", "x", 3, 9, 20);
	back_to(&f, 3, "x", 25);
	entry(&f, 1, "e", "y", 1, 0);
	back_to(&f, 1, "y", 11);
	expire(&f, 1000);
	CLOSED("#2 unknown x4 20-25: e2 20-25\n"
	    "#3 unknown x4 20-25: e2 20-25\n"
	    "#1 unknown x4 0-11: e 0-11\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 0);
}

#define ON_27(t) cmocka_unit_test_setup_teardown(t, setup_27, teardown)
#define ON_25(t) cmocka_unit_test_setup_teardown(t, setup_25, teardown)
#define FINISH(t) cmocka_unit_test_setup_teardown(t, setup_finish, teardown)
#define SMALL(t) cmocka_unit_test_setup_teardown(t, setup_small, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_27(exact_raised_in_chain), ON_27(exact_returned_after_all),
		ON_27(exact_raised_above_doubt), FINISH(finish_in_tail_call),
		FINISH(finish_before_entry), ON_27(mutual_entries),
		ON_25(mutual_entries), ON_27(entry_without_token_27),
		ON_25(entry_without_token_25), ON_27(dead_parent),
		ON_27(calls_of_lost_requests), SMALL(counted_once),
		SMALL(names_past_the_cap), ON_27(inside_one_given_up),
		ON_27(inside_one_without_end), ON_27(inside_one_that_had_ended),
		ON_27(inside_one_that_comes_late),
		ON_27(inside_one_that_is_news),
		ON_27(inside_one_that_is_no_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
