/*
 * test_request_raise.c - exceptions, and functions that are traced exactly.
 *
 * Events by hand, as the VM makes them for the program that each test tells
 * of; see feed.h for how results read.  x, y and z are functions that are
 * not traced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"

/* ---- exceptions ---- */

/* Told apart from a return by nothing. */
static void
caught_by_caller(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	back_to(&f, 1, "e", 2);
	back_to(&f, 1, "x", 3);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-3: e 0-3 | a 1-2 <0\n");
}

/* e calls a, a calls y, y calls b; b raises and x catches. */
static void
through_all(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	back_to(&f, 1, "x", 3);
	expire(&f, 1000);
}

static void
through_all_27(void **state)
{
	through_all(state);
	CLOSED("#1 raised 0-3: e 0-3 raised | a 1-3 raised <0 | "
	    "b 2-3 raised <1\n");
}

/* There a and b may have been left long before e returned. */
static void
through_all_25(void **state)
{
	through_all(state);
	CLOSED("#1 unknown 0-3: e 0-3 | a 1-3 ambiguous <0 | "
	    "b 2-3 ambiguous <1\n");
}

/* a calls y, y calls z, z calls b; b raises, y catches. */
static void
caught_between(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "z", 1, 2);
	back_to(&f, 1, "y", 3);
	call(&f, 1, "c", "y", 1, 4);
	back_to(&f, 1, "y", 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-6 <0 | b 2-3 raised <1 | "
	    "c 4-5 <1\n");
}

/* The same, but a itself catches what passed y and b, called by a call. */
static void
caught_by_open_call(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	call(&f, 1, "c", "z", 1, 3);
	back_to(&f, 1, "a", 4);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-6 <0 | b 2-4 raised <1 | "
	    "c 3-4 raised <2\n");
}

/* b is called by a itself: an event that names neither says both are left. */
static void
caught_past_caller(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "y", 1, 1);
	call(&f, 1, "b", "a", 1, 2);
	back_to(&f, 1, "z", 4);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-4 raised <0 | b 2-4 raised <1\n");
}

/*
 * e calls y, y calls b, which raises; z, the framework around e, catches.
 * The event names z, of which no open call knows: e falls silent.
 */
static void
passed_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "b", "y", 1, 2);
	back_to(&f, 1, "z", 3);
	expire(&f, 1002);
	CLOSED("");
	expire(&f, 1203);
	CLOSED("#1 raised 0-3: e 0-3 raised | b 2-3 raised <0\n");
}

/* The same, but z is called by e, which goes on: for 2 s without an event. */
static void
passed_not_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "b", "y", 1, 2);
	back_to(&f, 1, "z", 3);
	call(&f, 1, "c", "e", 1, 4);
	back_to(&f, 1, "e", 5);
	expire(&f, 2000);
	CLOSED("");
	back_to(&f, 1, "x", 2005);
	expire(&f, 3000);
	CLOSED("#1 unknown 0-2005: e 0-2005 | b 2-3 raised <0 | c 4-5 <0\n");
}

/* a ends in b, b raises; both or only b may have been left. */
static void
passed_chain(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "y", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	back_to(&f, 1, "z", 3);
	call(&f, 1, "c", "e", 1, 4);
	back_to(&f, 1, "e", 5);
	back_to(&f, 1, "x", 6);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-6: e 0-6 | a 1-3 raised <0 | b 2-3 raised <1 | "
	    "c 4-5 <0\n");
}

/*
 * A worker's loop: its call ends in a tail call that nothing settles.  The
 * next message must not be taken for a part of it.
 */
static void
doubt_under_the_next(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "y", 1, 1);
	call(&f, 2, "b", "y", 1, 2);
	back_to(&f, 2, "y", 3);
	call_from(&f, 2, 1, "c", "x", 1, 4);
	call(&f, 2, "a", "y", 1, 5);
	back_to(&f, 2, "y", 6);
	back_to(&f, 2, "x", 7);
	back_to(&f, 1, "x", 8);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-8: e 0-8 | a 1-3 <0 | b 2-3 <1 | c 4-7 <0 | "
	    "a 5-6 <3\n");
}

/* 25: y tries b three times, z catches; no event tells of the first two. */
static void
retries_25(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "b", "y", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	call(&f, 1, "b", "y", 1, 3);
	back_to(&f, 1, "y", 4);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | b 1-4 ambiguous <0 | "
	    "b 2-4 ambiguous <1 | b 3-4 <2\n");
}

/* ---- exact ---- */

static void
exact_return(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	returned(&f, 1, "a", 2);
	back_to(&f, 1, "e", 2);
	call(&f, 1, "b", "e", 1, 3);
	raised(&f, 1, "b", 4);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 5);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-5: e 0-5 | a 1-2 returned <0 | b 3-4 raised <0\n");
}

static void
exact_recursion(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "a", "a", 1, 2);
	returned(&f, 1, "a", 3);
	back_to(&f, 1, "a", 3);
	returned(&f, 1, "a", 4);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 5);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-5: e 0-5 | a 1-4 returned <0 | "
	    "a 2-3 returned <1\n");
}

/* a (exact) ends in b, or b in a (exact); either way both return. */
static void
exact_tail_chains(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "e", 1, 2);
	returned(&f, 1, "a", 3);
	back_to(&f, 1, "e", 3);
	call(&f, 1, "b", "e", 1, 4);
	call(&f, 1, "a", "e", 1, 5);
	returned(&f, 1, "a", 6);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-3 returned <0 | "
	    "b 2-3 returned <1 | b 4-6 returned <0 | a 5-6 returned <3\n");
}

/* Both exact: one return_to for two return_from. */
static void
exact_pair(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "e", 1, 2);
	returned(&f, 1, "b", 3);
	returned(&f, 1, "a", 3);
	back_to(&f, 1, "e", 3);
	call(&f, 1, "c", "e", 1, 4);
	back_to(&f, 1, "e", 5);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-3 returned <0 | "
	    "b 2-3 returned <1 | c 4-5 <0\n");
}

/* a (exact) ends in b, b calls c, which raises. */
static void
exact_tail_raised(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "e", 1, 2);
	call(&f, 1, "c", "b", 1, 3);
	raised(&f, 1, "a", 4);
	back_to(&f, 1, "e", 4);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-4 raised <0 | "
	    "b 2-4 raised <1 | c 3-4 raised <2\n");
}

/* a calls y, y calls b (exact), which raises; e catches it, from a. */
static void
exact_passes_other(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	raised(&f, 1, "b", 3);
	back_to(&f, 1, "e", 3);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-3 raised <0 | "
	    "b 2-3 raised <1\n");
}

/* z, between a and b (exact), catches: a goes on. */
static void
exact_caught_between(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	raised(&f, 1, "b", 3);
	back_to(&f, 1, "z", 3);
	call(&f, 1, "c", "a", 1, 4);
	back_to(&f, 1, "a", 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | a 1-6 <0 | b 2-3 raised <1 | "
	    "c 4-5 <1\n");
}

/*
 * 25: no return_to follows an exact exception that passed an untraced
 * function.  The next call's return was taken for it.
 */
static void
exact_without_return_to(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "b", "y", 1, 2);
	raised(&f, 1, "b", 3);
	call(&f, 1, "c", "y", 1, 4);
	back_to(&f, 1, "y", 5);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-7: e 0-7 | b 2-3 raised <0 | c 4-5 <0\n");
}

/* The entry is exact and dies of it, with its process. */
static void
exact_death(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "b", "y", 1, 2);
	raised(&f, 1, "e", 3);
	expire(&f, 1000);
	CLOSED("#1 raised 0-3: e 0-3 raised | b 2-3 raised <0\n");
}

/* ---- all exact, and no return_to: the native probe ---- */

/* a ends in b, which raises past y; e catches, calls c and returns. */
static void
native_chain_raised(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "y", 1, 1);
	call(&f, 1, "b", "y", 1, 2);
	raised(&f, 1, "b", 3);
	raised(&f, 1, "a", 3);
	call(&f, 1, "c", "e", 1, 4);
	returned(&f, 1, "c", 5);
	returned(&f, 1, "e", 6);
	expire(&f, 1000);
	CLOSED("#1 returned 0-6: e 0-6 returned | a 1-3 raised <0 | "
	    "b 2-3 raised <1 | c 4-5 returned <0\n");
}

/* The next request of a process has nothing to do with the last. */
static void
native_one_after_another(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 3; i++) {
		entry(&f, 1, "e", "x", i, 10 * i);
		call(&f, 1, "a", "e", i, 10 * i + 1);
		raised(&f, 1, "a", 10 * i + 2);
		raised(&f, 1, "e", 10 * i + 3);
	}
	expire(&f, 1000);
	CLOSED("#1 raised 10-13: e 10-13 raised | a 11-12 raised <0\n"
	    "#2 raised 20-23: e 20-23 raised | a 21-22 raised <0\n"
	    "#3 raised 30-33: e 30-33 raised | a 31-32 raised <0\n");
}

/*
 * After a reload that took the last server loop out, processes keep the flag
 * that it needed: a return to a helper of e seemed to be an exception that e
 * had not survived.
 */
static void
native_return_to_of_before(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "b", "h", 1, 1);
	returned(&f, 1, "b", 2);
	back_to(&f, 1, "h", 2);
	back_to(&f, 1, "e", 3);
	call(&f, 1, "c", "e", 1, 4);
	returned(&f, 1, "c", 5);
	back_to(&f, 1, "e", 5);
	returned(&f, 1, "e", 6);
	back_to(&f, 1, "x", 6);
	expire(&f, 1000);
	CLOSED("#1 returned 0-6: e 0-6 returned | b 1-2 returned <0 | "
	    "c 4-5 returned <0\n");
}

static int
setup_native(void **state)
{
	setup_25(state);
	kp_requests_native(f.rs, 0, true);
	return 0;
}

#define ON_27(t) cmocka_unit_test_setup_teardown(t, setup_27, teardown)
#define ON_25(t) cmocka_unit_test_setup_teardown(t, setup_25, teardown)
#define ON_NATIVE(t) \
	cmocka_unit_test_setup_teardown(t, setup_native, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_27(caught_by_caller), ON_25(caught_by_caller),
		ON_27(through_all_27), ON_25(through_all_25),
		ON_27(caught_between), ON_27(caught_by_open_call),
		ON_27(caught_past_caller), ON_25(retries_25),
		ON_27(passed_entry), ON_27(passed_not_entry),
		ON_27(passed_chain), ON_27(doubt_under_the_next),
		ON_NATIVE(native_chain_raised),
		ON_NATIVE(native_one_after_another),
		ON_NATIVE(native_return_to_of_before),
		ON_27(exact_return), ON_25(exact_return),
		ON_27(exact_recursion), ON_25(exact_recursion),
		ON_27(exact_tail_chains), ON_27(exact_pair),
		ON_27(exact_tail_raised), ON_27(exact_passes_other),
		ON_27(exact_caught_between), ON_25(exact_without_return_to),
		ON_27(exact_death),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
