/*
 * test_reconcile.c - whose a call is where requests meet (reconcile.c).
 *
 * Calls of a pool's worker once counted for the request that had given the worker
 * back: of 3,548 queries 0.06 a request where there were 3.00, and nothing was
 * lost.  Servers that answer with another request's token are reported: processes
 * that do so now and then do not fill the table for good, and a server is reported
 * again when its node comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"
#include "kprofd/label.h"
#include "request/life.h"

enum { SERVER = 9 };

/* Processes that answer later, so many times each, and are never seen again. */
static void
come_and_go(struct crossed *d, unsigned times)
{
	for (uint64_t proc = 1000; proc < 2000; proc++)
		for (unsigned i = 0; i < times; i++)
			crossed_answer(d, proc);
}

static unsigned
answers_and_calls(struct crossed *d, unsigned n)
{
	unsigned reported = 0;

	for (unsigned i = 0; i < n; i++) {
		crossed_answer(d, SERVER);
		reported += crossed_call(d, SERVER);
	}
	return reported;
}

static void
after_others(void **state)
{
	static struct crossed d;

	(void)state;
	come_and_go(&d, 1);
	come_and_go(&d, 50);
	assert_int_equal(answers_and_calls(&d, 1000), 1);
}

static void
among_others(void **state)
{
	static struct crossed d;
	unsigned reported = 0;

	(void)state;
	for (uint64_t proc = 1000; proc < 2000; proc++) {
		for (unsigned i = 0; i < CROSSED_MAX - 1; i++)
			crossed_answer(&d, proc * CROSSED_MAX + i);
		reported += answers_and_calls(&d, 2);
	}
	assert_int_equal(reported, 1);
}

static unsigned reported;

static void
on_crossed(void *ctx, uint32_t node, uint64_t proc, const struct kp_fn *fn)
{
	(void)ctx;
	reported++;
	assert_int_equal(node, 0);
	assert_int_equal(kp_proc_pid(proc), SERVER);
	assert_string_equal(fn->text, "b:b/1");
}

static int
setup(void **state)
{
	struct kp_requests_opts o = { .on_crossed = on_crossed };

	(void)state;
	reported = 0;
	feed_init(&f, conf_two, &o);
	return 0;
}

/* Two requests ask it, and it answers with each other's tokens. */
static void
answer(double ms)
{
	entry(&f, 1, "e", "x", 1, ms);
	entry(&f, 2, "e", "x", 2, ms + 1);
	for (unsigned i = 0; i < 20; i++) {
		ms += 2;
		call(&f, SERVER, "b", "y", 2, ms);
		back_to(&f, SERVER, "y", ms + 0.1);
		call_from(&f, 1, SERVER, "a", "e", 2, ms + 0.2);
		back_to(&f, 1, "e", ms + 0.3);
	}
}

static void
reported_again(void **state)
{
	(void)state;
	answer(0);
	assert_int_equal(reported, 1);
	answer(100);
	assert_int_equal(reported, 1);
	kp_requests_abandon(f.rs, 0, KP_LOSS_DISCONNECTED);
	answer(200);
	assert_int_equal(reported, 2);
	kp_buf_reset(&f.text);
}

/* ---- pools ---- */

enum { POOL = 8, WORKER, STORE, STRANGER };

/* A call with a token that this process sent, as the messages were numbered. */
static void
sent(uint32_t pid, uint32_t from, const char *fn, uint64_t label,
    uint32_t serial, uint32_t last, double ms)
{
	f.serial = serial;
	f.last = last;
	call_from(&f, pid, from, fn, "x", label, ms);
}

/* The call of this process, which x made, returns. */
static void
done(uint32_t pid, double ms)
{
	back_to(&f, pid, "x", ms);
}

/*
 * 1 gives its worker back and ends; 2, which has waited, is answered with its
 * token (message 20).  The worker (22) asks a store (24).
 */
static void
meet(void)
{
	entry(&f, 1, "e", "x", 1, 0);
	entry(&f, 2, "e", "x", 2, 1);
	done(1, 4);
	sent(WORKER, 2, "b", 1, 22, 20, 5);
	sent(STORE, WORKER, "c", 1, 24, 22, 6);
	done(STORE, 7);
	done(WORKER, 8);
}

/* The worker's answer (28) is the client's; what that sends now is its own. */
static void
of_a_pool(void **state)
{
	(void)state;
	meet();
	sent(2, WORKER, "a", 1, 28, 22, 9);
	done(2, 9.5);
	done(2, 10);
	/* It had sent this before its end, for nobody to wait for. */
	sent(STORE, 2, "c", 1, 31, 28, 11);
	done(STORE, 12);
	expire(&f, 300);
	CLOSED("#1 unknown 0-4: e 0-4\n"
	    "#2 unknown 1-10: e 1-10 | b 5-8 <0 | c 6-7 <1 | a 9-9.5 <0 | "
	    "c 11-12 async\n");
	assert_int_equal(lost(&f, KP_LOSS_CROSSED), 0);
	assert_int_equal(kp_requests_strayed(f.rs, 0), 4);
	assert_int_equal(kp_requests_strayed(f.rs, KP_NONE), 0);
}

/* The worker's event comes after that of the store that it asked. */
static void
out_of_order(void **state)
{
	(void)state;
	meet();
	sent(STORE, WORKER, "c", 1, 34, 32, 10);
	done(STORE, 11);
	sent(WORKER, 2, "b", 1, 32, 30, 9);
	done(WORKER, 12);
	done(2, 13);
	expire(&f, 300);
	CLOSED("#1 unknown 0-4: e 0-4\n"
	    "#2 unknown 1-13: e 1-13 | b 5-8 <0 | c 6-7 <1 | b 9-12 <0 | "
	    "c 10-11 <3\n");
	assert_int_equal(lost(&f, KP_LOSS_CROSSED), 0);
}

/*
 * What a sender on another node works for shows later: a call that waits for that
 * stays open while its process makes another, and begins a request.
 */
static void
nested_in_orphan(void **state)
{
	const uint32_t worker = AT(1, WORKER);

	(void)state;
	join(&f, 1, 5e8);
	entry(&f, 1, "e", "x", 1, 0);
	expire(&f, 1);
	sent(worker, 7, "a", 1, 22, 20, 2);
	f.serial = 22;
	f.last = 20;
	call_from(&f, worker, 7, "b", "a", 1, 3);
	back_to(&f, worker, "a", 4);
	f.serial = 30;
	f.last = 22;
	entry_in(&f, worker, "e", "a", 9, 1, 5);
	back_to(&f, worker, "a", 6);
	done(worker, 7);
	done(1, 10);
	expire(&f, 140);
	expire(&f, 500);
	expire(&f, 501);
	CLOSED("#9 unknown 5e+08-5e+08: e 5e+08-5e+08\n"
	    "#1 unknown 0-10: e 0-10 | a@1 2-7 <0 | b@1 3-4 <1\n");
	assert_int_equal(lost(&f, KP_LOSS_CROSSED), 0);
}

static uint32_t pauses;

static void
count_pauses(void *ctx, const struct kp_request *rq)
{
	pauses += rq->npauses;
	feed_on_request(ctx, rq);
}

/* The same, of the call that ends its request, in which the process is out. */
static void
finish_out_of_order(void **state)
{
	struct kp_event ev = { .kind = KP_EV_OUT, .pid = feed_pid(STORE) };

	(void)state;
	pauses = 0;
	feed_hand_on(&f, 1, count_pauses, feed_on_late);
	meet();
	sent(STORE, WORKER, "fin", 1, 34, 32, 10);
	ev.ts = feed_time(10.2);
	feed_event(&f, &ev, NULL, NULL);
	ev = (struct kp_event){ .kind = KP_EV_IN, .pid = feed_pid(STORE),
		.ts = feed_time(10.6) };
	feed_event(&f, &ev, NULL, NULL);
	done(STORE, 11);
	sent(WORKER, 2, "b", 1, 32, 30, 9);
	done(WORKER, 12);
	expire(&f, 150);
	done(2, 151);
	expire(&f, 400);
	CLOSED("#2 unknown 1-11: e 1-151 | b 5-8 <0 | c 6-7 <1 | "
	    "b 9-12 <0 | fin 10-11 <3\n");
	assert_int_equal(pauses, 1);
}

/* The worker does not call what is traced: who works with the label is unknown. */
static void
unknown(void **state)
{
	(void)state;
	meet();
	sent(STORE, STRANGER, "c", 1, 44, 40, 9);
	done(STORE, 9.5);
	done(2, 10);
	expire(&f, 300);
	CLOSED("#1 unknown 0-4: e 0-4\n"
	    "#2 unknown 1-10: e 1-10 | b 5-8 <0 | c 6-7 <1\n");
	assert_int_equal(lost(&f, KP_LOSS_CROSSED), 1);
	assert_int_equal(kp_requests_strayed(f.rs, 0), 3);
}

/*
 * 1 begins its next request, and what it had sent before is worked on late (5).
 * Then its own old token comes back to it from the pool (46): what it sends with
 * that (48) is of the new request.
 */
static void
own_label_comes_back(void **state)
{
	(void)state;
	meet();
	f.serial = 30;
	f.last = 12;
	entry_in(&f, 1, "e", "x", 3, 1, 12);
	sent(STORE, 1, "c", 1, 25, 12, 13);
	done(STORE, 14);
	sent(WORKER, 1, "b", 1, 48, 46, 15);
	done(WORKER, 16);
	done(1, 17);
	done(2, 18);
	expire(&f, 300);
	CLOSED("#1 unknown 0-4: e 0-4 | c 13-14 async\n"
	    "#3 unknown 12-17: e 12-17 | b 15-16 <0\n"
	    "#2 unknown 1-18: e 1-18 | b 5-8 <0 | c 6-7 <1\n");
}

/*
 * A state machine has postponed what 2 asked for, and does it when it takes what 1
 * sends (33): that it was for 2 shows by the answer, and it is not counted for 1.
 */
static void
postponed(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry(&f, 2, "e", "x", 2, 1);
	sent(WORKER, 1, "b", 1, 21, 20, 2);
	done(WORKER, 3);
	sent(WORKER, 1, "b", 1, 33, 30, 4);
	done(WORKER, 5);
	sent(2, WORKER, "a", 1, 37, 33, 6);
	done(2, 7);
	done(1, 8);
	done(2, 9);
	expire(&f, 300);
	CLOSED("#1 unknown 0-8: e 0-8 | b 2-3 <0\n"
	    "#2 unknown 1-9: e 1-9 | a 6-7 <0\n");
	assert_int_equal(lost(&f, KP_LOSS_CROSSED), 1);
}

/*
 * A connection's process took the token of another request along into its next
 * one: nothing is nested there, and nothing was cut.
 */
static void
not_inside(void **state)
{
	(void)state;
	meet();
	f.weight = 4;
	f.serial = 60;
	f.last = 55;
	entry_in(&f, STRANGER, "e", "x", 5, 1, 3);
	done(STRANGER, 9);
	done(2, 10);
	expire(&f, 300);
	CLOSED("#1 unknown 0-4: e 0-4\n"
	    "#5 unknown x4 3-9: e 3-9\n"
	    "#2 unknown 1-10: e 1-10 | b 5-8 <0 | c 6-7 <1\n");
	assert_int_equal(lost(&f, KP_LOSS_CUT), 0);
}

/*
 * Two requests that 1 began inside its own have closed: it still works for that one,
 * and so does who is sent something with 2's token (50).
 */
static void
outlives_inner_ones(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	entry(&f, 2, "e", "x", 2, 1);
	entry_in(&f, 1, "e", "a", 3, 1, 10);
	back_to(&f, 1, "a", 11);
	entry_in(&f, 1, "e", "a", 4, 1, 12);
	back_to(&f, 1, "a", 13);
	expire(&f, 230);
	sent(WORKER, 1, "b", 2, 50, 48, 240);
	done(WORKER, 241);
	done(1, 250);
	done(2, 251);
	expire(&f, 600);
	CLOSED("#3 unknown in #1 10-11: e 10-11\n"
	    "#4 unknown in #1 12-13: e 12-13\n"
	    "#1 unknown 0-250: e 0-250 | b 240-241 <0\n"
	    "#2 unknown 1-251: e 1-251\n");
}

/*
 * Where sampling passes requests over these take tokens along like all others.  5 is
 * sampled, and 3, which is not, goes on with its token: that shows once measured
 * requests have met.  What 5's own process asks for is its own.
 */
static void
of_one_passed_over(void **state)
{
	(void)state;
	f.weight = 4;
	f.serial = 60;
	entry(&f, STRANGER, "e", "x", 5, 0);
	sent(STORE, 3, "c", 5, 70, 66, 0.5);
	done(STORE, 0.6);
	meet();
	sent(STORE, 3, "c", 5, 71, 67, 9);
	done(STORE, 9.5);
	sent(STORE, STRANGER, "c", 5, 72, 60, 9.6);
	done(STORE, 9.7);
	done(STRANGER, 10);
	done(2, 11);
	expire(&f, 300);
	CLOSED("#1 unknown x4 0-4: e 0-4\n"
	    "#5 unknown x4 0-10: e 0-10 | c 0.5-0.6 <0 | c 9.6-9.7 <0\n"
	    "#2 unknown x4 1-11: e 1-11 | b 5-8 <0 | c 6-7 <1\n");
	assert_int_equal(lost(&f, KP_LOSS_CROSSED), 1);
}

/* Its clock begins anew: what its last life showed says nothing of this one. */
static void
after_a_restart(void **state)
{
	(void)state;
	expire(&f, 0);
	meet();
	done(2, 11);
	expire(&f, 30000);
	kp_buf_reset(&f.text);
	expire(&f, 10);
	f.weight = 4;
	f.serial = 60;
	entry(&f, STRANGER, "e", "x", 5, 20);
	sent(STORE, 3, "c", 5, 70, 66, 21);
	done(STORE, 21.5);
	done(STRANGER, 22);
	expire(&f, 300);
	CLOSED("#5 unknown x4 20-22: e 20-22 | c 21-21.5 <0\n");
	assert_int_equal(lost(&f, KP_LOSS_CROSSED), 0);
}

#define UNOWNED (KP_LABEL_KPROFD << KP_LABEL_KIND_SHIFT | \
	(uint64_t)KP_LABEL_UNOWNED << KP_LABEL_CONST_SHIFT | 7)

/*
 * 2 had a token of no request, and a message without one took it.  What it had sent
 * before its entry is not of that, as far as is known: it had that token then.
 */
static void
given_before(void **state)
{
	(void)state;
	f.serial = 0;
	entry(&f, 2, "e", "x", 9, 1);
	sent(WORKER, 2, "b", UNOWNED, 4, 3, 2);
	done(WORKER, 3);
	sent(WORKER, 2, "b", UNOWNED + 4, 5, 3, 4);
	done(WORKER, 5);
	done(2, 6);
	expire(&f, 300);
	CLOSED("#9 unknown 1-6: e 1-6 | b 4-5 <0\n");
	for (unsigned i = 0; i < KP_LOSS_COUNT; i++)
		assert_int_equal(lost(&f, i), 0);
}

/*
 * 2 was answered by a process without a token, and asked the worker so; that got one
 * of no request.  Whose its call is nobody knows, and from then on all is known.
 */
static void
given_a_token(void **state)
{
	(void)state;
	entry(&f, 2, "e", "x", 2, 1);
	sent(WORKER, WORKER, "b", UNOWNED, 20, 20, 5);
	sent(WORKER, 2, "c", 2, 21, 0, 5.1);
	done(WORKER, 5.2);
	done(WORKER, 5.5);
	sent(2, WORKER, "a", UNOWNED, 22, 20, 6);
	done(2, 6.5);
	sent(WORKER, 2, "b", UNOWNED, 24, 22, 7);
	sent(STORE, WORKER, "c", UNOWNED, 26, 24, 8);
	done(STORE, 8.5);
	done(WORKER, 9);
	sent(STORE, STRANGER, "c", UNOWNED, 50, 40, 9.5);
	done(STORE, 9.6);
	done(2, 10);
	expire(&f, 300);
	assert_int_equal(kp_requests_outside(f.rs, 0), 2);
	CLOSED("#2 unknown 1-10: e 1-10 | c 5.1-5.2 <0 | a 6-6.5 <0 | b 7-9 <0 | c 8-8.5 <3\n");
	for (unsigned i = 0; i < KP_LOSS_COUNT; i++)
		assert_int_equal(lost(&f, i), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_others),
		cmocka_unit_test(among_others),
		cmocka_unit_test_setup_teardown(reported_again, setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(out_of_order, setup, teardown),
		cmocka_unit_test_setup_teardown(nested_in_orphan, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(finish_out_of_order,
		    setup_finish, teardown),
		cmocka_unit_test_setup_teardown(unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(own_label_comes_back, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(postponed, setup, teardown),
		cmocka_unit_test_setup_teardown(not_inside, setup, teardown),
		cmocka_unit_test_setup_teardown(outlives_inner_ones, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(of_one_passed_over, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(after_a_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(given_a_token, setup, teardown),
		cmocka_unit_test_setup_teardown(given_before, setup, teardown),
	};

	return cmocka_run_group_tests_name("reconcile", tests, NULL, NULL);
}
