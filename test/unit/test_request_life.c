/*
 * test_request_life.c - how long requests live and are remembered, what is
 * too much, and what is counted as lost.  See feed.h for how results read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <malloc.h>

#include "feed_fixture.h"

static const char conf[] =
    "{tiers, [{web, {e,e,1}}, {db, [{a,a,1}, {b,b,1}]}]}.\n"
    "{sampling, all}.\n";

static int
setup(void **state)
{
	(void)state;
	feed_init(&f, conf, NULL);
	return 0;
}

static int
setup_finish_25(void **state)
{
	struct kp_requests_opts o = { .chain_is_ambiguous = true };

	(void)state;
	feed_init(&f, conf_finish, &o);
	return 0;
}

static int
setup_small(void **state)
{
	struct kp_requests_opts o = { .max_requests = 2, .max_calls = 3,
		.max_stack = 4 };

	(void)state;
	feed_init(&f, conf, &o);
	return 0;
}

/* ---- late calls ---- */

static void
async_before_close(void **state)
{
	(void)state;
	f.identity = "create";
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	call_from(&f, 2, 1, "a", "x", 1, 20);
	back_to(&f, 2, "x", 30);
	expire(&f, 300);
	CLOSED("#1 unknown 'create' 0-10: e 0-10 | a 20-30 async\n");
}

static void
async_after_close(void **state)
{
	(void)state;
	f.identity = "create";
	f.weight = 7;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	CLOSED("#1 unknown 'create' x7 0-10: e 0-10\n");
	call(&f, 2, "a", "x", 1, 400);
	call(&f, 2, "b", "a", 1, 401);
	back_to(&f, 2, "a", 402);
	back_to(&f, 2, "x", 403);
	CLOSED("late b 401-402 unknown 'create' x7\n"
	    "late a 400-403 unknown 'create' x7\n");
	assert_int_equal(lost(&f, KP_LOSS_STALE), 0);
}

/* Begun before the close and ended after it: told of once, as late. */
static void
async_open_at_close(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	call_from(&f, 2, 1, "a", "x", 1, 20);
	expire(&f, 300);
	CLOSED("#1 unknown 0-10: e 0-10\n");
	back_to(&f, 2, "x", 500);
	CLOSED("late a 20-500 unknown\n");
}

/* Begun inside the request and still open at its close: its end is waited for. */
static void
open_at_close(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "x", 1, 5);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	CLOSED("#1 unknown 0-10: e 0-10 | a 5- unfinished <0\n");
	back_to(&f, 2, "x", 500);
	CLOSED("late a 5-500 unknown, 490 after\n");
}

/* The inner one is waited for, after the end as well. */
static void
open_at_close_nested(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "x", 1, 5);
	call(&f, 2, "b", "a", 1, 6);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	CLOSED("#1 unknown 0-10: e 0-10 | a 5- unfinished <0"
	    " | b 6- unfinished <1\n");
	back_to(&f, 2, "a", 500);
	CLOSED("late b 6-500 unknown, 490 after\n");
	back_to(&f, 2, "x", 700);
	CLOSED("late a 5-700 unknown, 690 after, 490 of it waited\n");
	expire(&f, 50000);
	assert_int_equal(lost(&f, KP_LOSS_OUTLASTED), 0);
}

/* No end within 30 s of its request's: counted as that. */
static void
open_for_too_long(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "x", 1, 5);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	CLOSED("#1 unknown 0-10: e 0-10 | a 5- unfinished <0\n");
	expire(&f, 29000);
	assert_int_equal(lost(&f, KP_LOSS_OUTLASTED), 0);
	expire(&f, 41000);
	CLOSED("late a 5- unfinished\n");
	assert_int_equal(lost(&f, KP_LOSS_OUTLASTED), 1);
	back_to(&f, 2, "x", 42000);
	CLOSED("");
}

/* Its process is at work for another request: it was over, unseen. */
static void
open_and_left(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call_from(&f, 2, 1, "a", "x", 1, 5);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	CLOSED("#1 unknown 0-10: e 0-10 | a 5- unfinished <0\n");
	entry(&f, 1, "e", "x", 2, 400);
	call_from(&f, 2, 1, "a", "x", 2, 401);
	CLOSED("late a 5- unfinished\n");
	back_to(&f, 2, "x", 402);
	back_to(&f, 1, "x", 403);
	expire(&f, 50000);
	CLOSED("#2 unknown 400-403: e 400-403 | a 401-402 <0\n");
	assert_int_equal(lost(&f, KP_LOSS_OUTLASTED), 0);
}

/* Tracing stops, or profiling ends, before its end. */
static void
open_and_cut(void **state)
{
	static const enum kp_loss why[][2] = {
		{ KP_LOSS_TRIPPED, KP_LOSS_OUTLASTED_CUT },
		{ KP_LOSS_RUNNING, KP_LOSS_RUNNING_CALLS } };

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		entry(&f, 1, "e", "x", 1 + i, 0);
		call_from(&f, 2, 1, "a", "x", 1 + i, 5);
		back_to(&f, 1, "x", 10);
		kp_requests_abandon(f.rs, 0, why[i][0]);
		assert_non_null(strstr(kp_buf_cstr(&f.text),
		    "late a 5- unfinished\n"));
		kp_buf_reset(&f.text);
		assert_int_equal(lost(&f, why[i][1]), 1);
	}
}

/* A late call that is open when tracing stops is lost as one that outlasts is. */
static void
late_and_cut(void **state)
{
	static const enum kp_loss why[][2] = {
		{ KP_LOSS_TRIPPED, KP_LOSS_OUTLASTED_CUT },
		{ KP_LOSS_RUNNING, KP_LOSS_RUNNING_CALLS } };

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		entry(&f, 1, "e", "x", 1 + i, 0);
		back_to(&f, 1, "x", 10);
		expire(&f, 300);
		call(&f, 2, "a", "x", 1 + i, 1000);
		kp_requests_abandon(f.rs, 0, why[i][0]);
		assert_non_null(strstr(kp_buf_cstr(&f.text), "late a 1000-"));
		kp_buf_reset(&f.text);
		assert_int_equal(lost(&f, why[i][1]), 1);
	}
}

static void
late_for_ever(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	kp_buf_reset(&f.text);
	call(&f, 2, "a", "x", 1, 1000);
	for (int s = 2; s < 60; s++)
		expire(&f, s * 1000);
	CLOSED("");
	for (int s = 60; s < 75; s++)
		expire(&f, s * 1000);
	CLOSED("late a 1000- unfinished\n");
	assert_int_equal(lost(&f, KP_LOSS_OUTLASTED), 1);
	back_to(&f, 2, "x", 80000);
	CLOSED("");
}

static void
late_abandoned(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	call(&f, 2, "a", "x", 1, 20);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	CLOSED("#1 unknown 0-10: e 0-10\nlate a 20- unfinished\n");
}

/* Late calls end in each other, too. */
static void
late_tail_chain(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	kp_buf_reset(&f.text);
	call(&f, 2, "a", "x", 1, 1000);
	call(&f, 2, "b", "x", 1, 1001);
	back_to(&f, 2, "x", 1002);
	CLOSED("late b 1001-1002 unknown\n");
	for (int s = 2; s < 15; s++)
		expire(&f, s * 1000);
	CLOSED("late a 1000-1002 unknown\n");
}

static void
tombstones_expire(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	kp_buf_reset(&f.text);
	expire(&f, 30010);
	call(&f, 2, "a", "x", 1, 30010);
	back_to(&f, 2, "x", 30010);
	CLOSED("late a 30010-30010 unknown\n");
	expire(&f, 30011);
	call(&f, 2, "a", "x", 1, 30011);
	back_to(&f, 2, "x", 30012);
	CLOSED("");
	/* until then its entry might still have come */
	expire(&f, 30211);
	assert_int_equal(lost(&f, KP_LOSS_STALE), 1);
}

/*
 * Between processes events come in any order: a server's call was seen to
 * reach the tracer before the entry that led to it, 7 to 40 us older.
 */
static void
early_calls(void **state)
{
	(void)state;
	f.identity = "late name";
	call_from(&f, 2, 1, "a", "x", 1, 5);
	call(&f, 3, "b", "x", 1, 6);
	back_to(&f, 3, "x", 7);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	f.identity = "create";
	entry(&f, 1, "e", "x", 1, 0);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 1);
	back_to(&f, 2, "x", 8);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	CLOSED("#1 unknown 'create' 0-10: e 0-10 | a 5-8 <0 | b 6-7 <1\n");
	assert_int_equal(lost(&f, KP_LOSS_STALE), 0);
	assert_int_equal(lost(&f, KP_LOSS_COLLIDED), 0);
}

/* No entry came within the horizon: old tokens, and their returns pair. */
static void
early_calls_in_vain(void **state)
{
	(void)state;
	entry(&f, 2, "e", "x", 2, 0);
	call(&f, 3, "a", "x", 1, 5);
	call(&f, 3, "b", "a", 1, 6);
	expire(&f, 205);
	assert_int_equal(lost(&f, KP_LOSS_STALE), 2);
	back_to(&f, 3, "a", 207);
	back_to(&f, 3, "x", 208);
	entry(&f, 1, "e", "x", 1, 210);
	call(&f, 3, "c", "x", 1, 300);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	assert_int_equal(lost(&f, KP_LOSS_STALE), 2);
	assert_int_equal(lost(&f, KP_LOSS_TRIPPED), 2);
	call(&f, 3, "c", "x", 9, 300);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	assert_int_equal(lost(&f, KP_LOSS_STALE), 3);
	CLOSED("");
}

/* Old tokens: their calls come to nothing, but their returns pair. */
static void
stale_returns(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 2, "a", "x", 99, 1);
	call_from(&f, 2, 1, "b", "x", 1, 2);
	call(&f, 2, "a", "x", 99, 3);
	back_to(&f, 2, "x", 4);
	back_to(&f, 2, "x", 5);
	back_to(&f, 1, "x", 10);
	expire(&f, 300);
	CLOSED("#1 unknown 0-10: e 0-10 | b 2- unfinished <0\n");
	assert_int_equal(lost(&f, KP_LOSS_STALE), 2);
}

/*
 * The sweep that forgets late calls compared with a time of 0, which for a
 * real target's clock is eighteen years away: nothing was ever swept.
 */
static void
stale_calls_are_forgotten(void **state)
{
	size_t before, after;

	(void)state;
	expire(&f, 0);
	before = mallinfo2().uordblks;
	for (uint32_t pid = 1; pid < 10000; pid++)
		call(&f, pid, "a", "x", 99, 1);
	for (int s = 1; s < 80; s++)
		expire(&f, s * 1000);
	after = mallinfo2().uordblks;
	/* The table of processes does not shrink. */
	assert_true(after - before < 16384 * 17);
}

/* The target was restarted: its clock began anew, old labels mean nothing. */
static void
clock_restarts(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 1e9);
	back_to(&f, 1, "x", 1e9 + 1);
	kp_requests_abandon(f.rs, 0, KP_LOSS_DISCONNECTED);
	expire(&f, 1e9 + 2);
	kp_buf_reset(&f.text);
	expire(&f, 0);
	call(&f, 2, "a", "x", 1, 1);
	expire(&f, 201);
	assert_int_equal(lost(&f, KP_LOSS_STALE), 1);
	for (int s = 2; s < 80; s++)
		expire(&f, s * 1000);
	entry(&f, 1, "e", "x", 2, 80000);
	back_to(&f, 1, "x", 80001);
	expire(&f, 81000);
	CLOSED("#2 unknown 80000-80001: e 80000-80001\n");
}

/* ---- the end ---- */

static void
expiry(void **state)
{
	(void)state;
	f.identity = "slow";
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	back_to(&f, 1, "e", 2);
	call(&f, 1, "b", "e", 1, 3);
	expire(&f, 59999);
	CLOSED("");
	expire(&f, 60000);
	CLOSED("#1 expired unfinished 'slow' 0-60000: e 0- unfinished | "
	    "a 1-2 <0 | b 3- unfinished <0\n");
	assert_int_equal(lost(&f, KP_LOSS_EXPIRED), 1);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	/* Its calls still come to something, and it ends for nobody. */
	back_to(&f, 1, "e", 60010);
	back_to(&f, 1, "x", 60011);
	call(&f, 2, "a", "x", 1, 60020);
	back_to(&f, 2, "x", 60021);
	CLOSED("late a 60020-60021 unknown 'slow'\n");
}

static void
finish_sync(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "fin", "e", 1, 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 300);
	CLOSED("#1 unknown 0-6: e 0-7 | fin 5-6 <0\n");
}

static void
finish_async(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 3);
	expire(&f, 2000);
	CLOSED("");
	call(&f, 2, "fin", "x", 1, 5000);
	back_to(&f, 2, "x", 5001);
	expire(&f, 6000);
	CLOSED("#1 unknown 0-5001: e 0-3 | fin 5000-5001\n");
}

/*
 * The process of an entry serves the next request while a finish is waited
 * for; the token that it keeps once made the second one a part of the first.
 */
static void
finish_overlapping(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 1);
	entry_in(&f, 1, "e", "x", 2, 1, 2);
	back_to(&f, 1, "x", 3);
	call_from(&f, 2, 1, "fin", "x", 2, 4);
	back_to(&f, 2, "x", 5);
	call_from(&f, 3, 1, "fin", "x", 1, 6);
	back_to(&f, 3, "x", 7);
	expire(&f, 1000);
	CLOSED("#2 unknown 2-5: e 2-3 | fin 4-5\n"
	    "#1 unknown 0-7: e 0-1 | fin 6-7\n");
}

/* The entry ends in a tail call, which says nothing of the request's end. */
static void
finish_after_tail_call(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "x", 1, 1);
	back_to(&f, 1, "x", 3);
	expire(&f, 2000);
	call(&f, 2, "fin", "x", 1, 5000);
	back_to(&f, 2, "x", 5001);
	expire(&f, 6000);
	CLOSED("#1 unknown 0-5001: e 0-3 | a 1-3 <0 | fin 5000-5001\n");
}

static void
finish_never(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 3);
	entry(&f, 2, "e", "x", 2, 0);
	expire(&f, 60000);
	CLOSED("#1 unknown 0-3: e 0-3\n"
	    "#2 expired unfinished 0-60000: e 0- unfinished\n");
	assert_int_equal(lost(&f, KP_LOSS_EXPIRED), 1);
}

/* Neither the entry's end (on OTP 25) nor the finish was seen: no end. */
static void
finish_never_nor_entry(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry(&f, 1, "e", "x", 2, 10);
	back_to(&f, 1, "x", 12);
	expire(&f, 60010);
	CLOSED("#1 expired unfinished 0-60010: e 0- unfinished\n"
	    "#2 unknown 10-12: e 10-12\n");
	assert_int_equal(lost(&f, KP_LOSS_EXPIRED), 1);
}

static void
abandon(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	entry(&f, 1, "e", "x", 2, 11);
	call(&f, 1, "a", "e", 2, 12);
	entry(&f, 2, "e", "x", 3, 13);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	CLOSED("#1 unknown 0-10: e 0-10\n");
	assert_int_equal(lost(&f, KP_LOSS_TRIPPED), 2);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	back_to(&f, 1, "x", 20);
	entry(&f, 1, "e", "x", 4, 30);
	back_to(&f, 1, "x", 31);
	expire(&f, 1000);
	CLOSED("#4 unknown 30-31: e 30-31\n");
}

/* ---- what cannot be ---- */

static void
collisions(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "e", 1, 1);
	entry(&f, 2, "e", "x", 1, 2);
	assert_int_equal(lost(&f, KP_LOSS_COLLIDED), 2);
	entry(&f, 3, "e", "x", 1, 3);
	assert_int_equal(lost(&f, KP_LOSS_COLLIDED), 3);
	call(&f, 2, "b", "e", 1, 4);
	back_to(&f, 2, "e", 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 3, "x", 7);
	back_to(&f, 2, "x", 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 70000);
	CLOSED("");
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	assert_int_equal(kp_requests_entries(f.rs, 0), 3);
	assert_int_equal(lost(&f, KP_LOSS_COLLIDED), 3);
	assert_int_equal(lost(&f, KP_LOSS_EXPIRED), 0);
	/* The label may come again. */
	entry(&f, 1, "e", "x", 1, 80000);
	back_to(&f, 1, "x", 80001);
	expire(&f, 81000);
	CLOSED("#1 unknown 80000-80001: e 80000-80001\n");
}

static void
collided_without_end(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry(&f, 2, "e", "x", 1, 2);
	expire(&f, 60000);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	assert_int_equal(lost(&f, KP_LOSS_EXPIRED), 0);
	entry(&f, 1, "e", "x", 2, 60001);
	entry(&f, 2, "e", "x", 2, 60002);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	assert_int_equal(lost(&f, KP_LOSS_TRIPPED), 0);
	assert_int_equal(lost(&f, KP_LOSS_COLLIDED), 4);
	CLOSED("");
}

/* An entry whose token is somebody else's; its return closes only itself. */
static void
label_zero(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 0, 0);
	back_to(&f, 1, "x", 1);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 1);
	entry(&f, 1, "e", "x", 1, 2);
	call(&f, 1, "a", "x", 1, 3);
	entry_in(&f, 1, "e", "y", 0, 1, 4);
	back_to(&f, 1, "y", 5);
	back_to(&f, 1, "x", 6);
	back_to(&f, 1, "x", 7);
	call(&f, 1, "a", "x", 0, 8);
	back_to(&f, 1, "x", 9);
	expire(&f, 1000);
	CLOSED("#1 unknown 2-7: e 2-7 | a 3-6 <0\n");
	assert_int_equal(kp_requests_entries(f.rs, 0), 3);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 2);
}

static void
bad_events(void **state)
{
	static const uint8_t junk[] = { 104, 3, 97, 1, 97, 1, 97, 1 };
	struct kp_event ev = { .kind = KP_EV_ENTRY, .pid = feed_pid(1),
		.mfa = { junk, sizeof(junk) }, .label = 1, .weight = 1 };

	(void)state;
	kp_requests_event(f.rs, 0, &ev);
	ev.kind = KP_EV_CALL;
	kp_requests_event(f.rs, 0, &ev);
	ev.mfa.n = 0;
	kp_requests_event(f.rs, 0, &ev);
	ev.kind = KP_EV_RETURN_TO;
	kp_requests_event(f.rs, 0, &ev);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 3);
	assert_int_equal(kp_requests_entries(f.rs, 0), 1);
	/* <0.0.0> was a key that the table of processes cannot hold. */
	call(&f, 0, "a", "x", 1, 1);
	back_to(&f, 0, "x", 2);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 4);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
}

/* Times that no clock can show must not be computed with. */
static void
impossible_times(void **state)
{
	static const kp_target_ns times[] = { INT64_MIN, INT64_MAX,
		-(INT64_C(1) << 62), INT64_C(1) << 62 };
	struct kp_event ev = { .weight = 1, .pid = feed_pid(1) };

	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	for (size_t i = 0; i < 4; i++) {
		for (int kind = KP_EV_ENTRY; kind <= KP_EV_CLEAR; kind++) {
			ev.kind = (enum kp_event_kind)kind;
			ev.ts = times[i];
			ev.label = 2 + i;
			feed_event(&f, &ev, "a", "x");
		}
		kp_requests_close_due(f.rs, 0, times[i]);
	}
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 24);
	back_to(&f, 1, "x", 2);
	expire(&f, 300);
	CLOSED("#1 unknown 0-2: e 0-2\n");
}

/* A process whose time runs back: what nests stays nested. */
static void
time_runs_back(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 10);
	call(&f, 1, "a", "e", 1, 8);
	call(&f, 1, "b", "a", 1, 11);
	back_to(&f, 1, "a", 4);
	back_to(&f, 1, "e", 12);
	back_to(&f, 1, "x", 2);
	expire(&f, 1000);
	CLOSED("#1 unknown 10-12: e 10-12 | a 10-12 <0 | b 11-11 <1\n");
}

/* ---- caps ---- */

static void
request_cap(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 4; i++)
		entry(&f, i, "e", "x", i, i);
	call(&f, 4, "a", "e", 4, 5);
	back_to(&f, 4, "e", 6);
	for (uint32_t i = 1; i <= 4; i++)
		back_to(&f, i, "x", 10 + i);
	expire(&f, 1000);
	CLOSED("#1 unknown 1-11: e 1-11\n#2 unknown 2-12: e 2-12\n");
	assert_int_equal(lost(&f, KP_LOSS_REQUEST_CAP), 2);
	assert_int_equal(kp_requests_entries(f.rs, 0), 4);
}

static void
call_cap(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	for (int i = 1; i < 5; i++) {
		call(&f, 1, "a", "e", 1, i);
		back_to(&f, 1, "e", i + 0.5);
	}
	back_to(&f, 1, "x", 10);
	expire(&f, 1000);
	CLOSED("#1 unknown 0-10: e 0-10 | a 1-1.5 <0 | a 2-2.5 <0\n");
	assert_int_equal(lost(&f, KP_LOSS_CALL_CAP), 2);
}

/* All requests together have a cap too, and give back what they took. */
static void
calls_in_flight_limited(void **state)
{
	struct kp_requests_opts o = { .max_calls_in_flight = 4 };

	(void)state;
	feed_free(&f);
	feed_init(&f, conf, &o);
	for (uint64_t label = 1; label <= 3; label++) {
		entry(&f, (uint32_t)label, "e", "x", label, 0);
		call(&f, (uint32_t)label, "a", "e", label, 1);
	}
	/* the third entry had no room, so its call had no request */
	assert_int_equal(lost(&f, KP_LOSS_REQUEST_CAP), 1);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 2);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	entry(&f, 9, "e", "x", 9, 1000);
	call(&f, 9, "a", "e", 9, 1001);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 1);
	assert_int_equal(lost(&f, KP_LOSS_REQUEST_CAP), 1);
}

/* a calls itself for ever. */
static void
stack_cap(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	for (int i = 1; i < 15; i++)
		call(&f, 1, "a", "y", 1, i);
	assert_int_equal(f.runaways, 1);
	expire(&f, 1000);
	assert_non_null(strstr(kp_buf_cstr(&f.text), "runaway a:a/1\n"
	    "#1 unfinished 0-4: e 0- unfinished | a 1- unfinished <0"));
	/* Those past the cap of calls are counted there. */
	assert_int_equal(lost(&f, KP_LOSS_STACK_CAP), 3);
	assert_int_equal(lost(&f, KP_LOSS_CALL_CAP), 12);
}

/*
 * A gen_server's loop was named in tiers.conf: each request calls it once
 * more, and no call of it ever ends.
 */
static void
server_loop(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 10; i++) {
		entry(&f, 1, "e", "x", i, i * 10);
		call_from(&f, 2, 1, "a", "loop", i, i * 10 + 1);
		call(&f, 2, "b", "a", i, i * 10 + 2);
		back_to(&f, 2, "a", i * 10 + 3);
		back_to(&f, 1, "x", i * 10 + 4);
	}
	assert_int_equal(f.runaways, 1);
	assert_string_equal(kp_buf_cstr(&f.text), "runaway a:a/1\n");
}

/* What comes while the agent rests is counted, and not looked at. */
static void
passed_over(void **state)
{
	static const enum kp_event_kind kinds[] = { KP_EV_ENTRY, KP_EV_CALL,
		KP_EV_CALL, KP_EV_RETURN_TO, KP_EV_CLEAR };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		kp_requests_pass(f.rs, 0,
		    &(struct kp_event){ .kind = kinds[i], .label = 1 });
	assert_int_equal(kp_requests_entries(f.rs, 0), 1);
	assert_int_equal(lost(&f, KP_LOSS_TRIPPED), 1);
	assert_int_equal(lost(&f, KP_LOSS_WITH_REQUEST), 2);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
}

static void
many_callers(uint32_t from, uint32_t to)
{
	char name[16];

	for (uint32_t i = from; i < to; i++) {
		snprintf(name, sizeof(name), "f%05u", i);
		call(&f, 1, "a", name, 99, 1);
		call(&f, 1, "b", "a", 99, 1);
		back_to(&f, 1, "a", 1);
		back_to(&f, 1, name, 1);
	}
}

/*
 * Templates and shells make modules and delete them again, and each had a place in the
 * table of functions for good: kprofd grew by 50 kB a minute, and when the table was
 * full nothing that had not been called before was measured, entries not either.
 */
static void
callers_that_come_and_go(void **state)
{
	size_t after;

	(void)state;
	/* Twice what the cache has room for, and twelve times. */
	many_callers(0, 16384);
	after = mallinfo2().uordblks;
	many_callers(16384, 98304);
	assert_true(mallinfo2().uordblks < after + 16384);
	call(&f, 1, "a", "f00000", 99, 1);
	back_to(&f, 1, "f00000", 1);
	expire(&f, 1000);
	assert_string_equal(kp_buf_cstr(&f.text), "");
	entry(&f, 2, "e", "x", 1, 2000);
	call(&f, 2, "never_seen", "f00000", 1, 2001);
	call(&f, 2, "b", "never_seen", 1, 2002);
	back_to(&f, 2, "never_seen", 2003);
	back_to(&f, 2, "f00000", 2004);
	back_to(&f, 2, "x", 2005);
	expire(&f, 4000);
	assert_string_equal(kp_buf_cstr(&f.text), "#1 unknown 2000-2005: e "
	    "2000-2005 | never_seen 2001-2004 <0 | b 2002-2003 <1\n");
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 0);
}

static void
fn_cap(void **state)
{
	char name[16];

	(void)state;
	for (int i = 0; i < 65536; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		call(&f, 1, name, "x", 99, 1);
		back_to(&f, 1, "x", 1);
	}
	call(&f, 1, "never_seen", "x", 99, 1);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 1);
	entry(&f, 1, "e", "x", 1, 0);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 2);
}

/* ---- memory ---- */

static void
some_traffic(uint32_t from, uint32_t n, double ms)
{
	for (uint32_t i = from; i < from + n; i++) {
		entry(&f, i, "e", "x", i, ms);
		call(&f, i, "a", "e", i, ms + 1);
		call_from(&f, 1000000 + i, i, "b", "x", i, ms + 2);
		if (i % 3 != 0) {
			back_to(&f, 1000000 + i, "x", ms + 3);
			back_to(&f, i, "e", ms + 4);
			back_to(&f, i, "x", ms + 5);
		}
	}
	for (int s = 0; s < 100; s++)
		expire(&f, ms + s * 1000);
	kp_buf_free(&f.text);
}

/* What grew for the first round serves all that follow, but for crumbs. */
static void
memory_returns(void **state)
{
	size_t after;

	(void)state;
	some_traffic(1, 3000, 0);
	after = mallinfo2().uordblks;
	for (uint32_t round = 1; round < 5; round++)
		some_traffic(1 + round * 3000, 3000, round * 200000);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	assert_true(mallinfo2().uordblks < after + 16384);
}

#define LIFE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
#define SMALL(t) cmocka_unit_test_setup_teardown(t, setup_small, teardown)
#define FINISH(t) cmocka_unit_test_setup_teardown(t, setup_finish, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		LIFE(async_before_close), LIFE(async_after_close),
		LIFE(async_open_at_close), LIFE(open_at_close),
		LIFE(open_at_close_nested), LIFE(open_for_too_long),
		LIFE(open_and_left), LIFE(open_and_cut),
		LIFE(late_for_ever), LIFE(late_and_cut),
		LIFE(late_abandoned),
		LIFE(late_tail_chain), LIFE(tombstones_expire),
		LIFE(early_calls), LIFE(early_calls_in_vain),
		LIFE(calls_in_flight_limited),
		LIFE(stale_returns), LIFE(stale_calls_are_forgotten),
		LIFE(clock_restarts), LIFE(expiry), FINISH(finish_sync),
		FINISH(finish_async), FINISH(finish_overlapping),
		FINISH(finish_after_tail_call),
		FINISH(finish_never),
		cmocka_unit_test_setup_teardown(finish_never_nor_entry,
		    setup_finish_25, teardown),
		LIFE(abandon), LIFE(collisions), LIFE(collided_without_end),
		LIFE(label_zero), LIFE(bad_events), LIFE(impossible_times),
		LIFE(time_runs_back), SMALL(request_cap), SMALL(call_cap),
		SMALL(stack_cap), SMALL(server_loop),
		LIFE(callers_that_come_and_go), LIFE(fn_cap),
		LIFE(passed_over),
		LIFE(memory_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
