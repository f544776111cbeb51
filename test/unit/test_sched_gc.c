/*
 * test_sched_gc.c - garbage collection and scheduling, from events to cells:
 * which call's self time they are in, and what becomes of half a pause.
 * x, y and z are functions that are not traced; ms throughout.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "feed.h"
#include "kprofd/stats.h"

static const char conf[] = "{tiers, [{e, {e, e, 1}}, {a, {a, a, 1}},"
    " {b, {b, b, 1}}]}.\n{entry, {e, e, 1}}.\n{gc, true}.\n{scheduling, true}.\n";

static struct feed f;
static struct kp_stats *stats[FEED_NODES];

static void
on_request(void *ctx, const struct kp_request *rq)
{
	(void)ctx;
	kp_stats_request(stats[rq->node], rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	(void)ctx;
	kp_stats_late(stats[c->node], c);
}

static int
setup(void **state)
{
	(void)state;
	feed_init(&f, conf, NULL);
	feed_hand_on(&f, 1, on_request, on_late);
	for (int i = 0; i < FEED_NODES; i++) {
		stats[i] = kp_stats_new(f.conf, feed_names[i]);
		kp_stats_names(stats[i], f.rs);
		kp_stats_peers(stats[i], stats);
	}
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	for (int i = 0; i < FEED_NODES; i++)
		kp_stats_free(stats[i]);
	feed_free(&f);
	return 0;
}

static void
pause(uint32_t pid, enum kp_event_kind kind, double ms)
{
	feed_event(&f, &(struct kp_event){ .kind = kind, .pid = feed_pid(pid),
	    .ts = feed_time(ms) }, NULL, NULL);
}

static void
out(uint32_t pid, double from, double to)
{
	pause(pid, KP_EV_OUT, from);
	pause(pid, KP_EV_IN, to);
}

static void
gc(uint32_t pid, double from, double to)
{
	pause(pid, KP_EV_GC_START, from);
	pause(pid, KP_EV_GC_END, to);
}

/* "e 5 1 2|..": self, gc and out of each tier of a node's window. */
static void
assert_cells(int node, const char *want)
{
	struct kp_window *w = kp_stats_rotate(stats[node], 0, 1);
	struct kp_buf b;

	kp_buf_init(&b, 1 << 12);
	for (size_t i = 0; i < w->ncells; i++) {
		const struct kp_cell *c = &w->cells[i];

		if (strcmp(c->identity, "_total") != 0)
			continue;
		assert_true(c->has_gc && c->has_out);
		assert_true(strcmp(c->tier, "_total") == 0 ||
		    c->gc + c->out <= c->self);
		kp_buf_printf(&b, "%s%s %g %g %g", b.len > 0 ? "|" : "",
		    c->tier, (double)c->self / 1e6, (double)c->gc / 1e6,
		    (double)c->out / 1e6);
	}
	assert_string_equal(kp_buf_cstr(&b), want);
	kp_buf_free(&b);
	kp_window_free(w);
}

/* Each is in the innermost call then; what is in no call is in none. */
static void
innermost(void **state)
{
	(void)state;
	out(1, 0, 1);
	entry(&f, 1, "e", "x", 1, 10);
	gc(1, 11, 12);
	call(&f, 1, "a", "e", 1, 20);
	out(1, 21, 25);
	gc(1, 26, 28);
	back_to(&f, 1, "e", 30);
	out(1, 31, 32);
	back_to(&f, 1, "x", 40);
	out(1, 41, 50);
	expire(&f, 1000);
	assert_cells(0, "_total 0 3 5|e 20 1 1|a 10 2 4");
	assert_int_equal(lost(&f, KP_LOSS_PAUSE), 0);
}

/* Who waits for another process's call is out, but that is that call's time. */
static void
waited_for_another(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	pause(1, KP_EV_OUT, 10);
	call_from(&f, 2, 1, "a", "y", 1, 20);
	gc(2, 25, 30);
	back_to(&f, 2, "y", 50);
	pause(1, KP_EV_IN, 60);
	back_to(&f, 1, "x", 100);
	expire(&f, 1000);
	assert_cells(0, "_total 0 5 20|e 70 0 20|a 30 5 0");
}

/* It is scheduled out while it collects: that is no collecting. */
static void
out_of_gc(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	pause(1, KP_EV_GC_START, 10);
	out(1, 20, 50);
	pause(1, KP_EV_GC_END, 60);
	back_to(&f, 1, "x", 100);
	expire(&f, 1000);
	assert_cells(0, "_total 0 20 30|e 100 20 30");
	assert_int_equal(lost(&f, KP_LOSS_PAUSE), 0);
}

/* Of which the other end is lost: no time is made up, and each counts. */
static void
halves(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	pause(1, KP_EV_IN, 1);		/* 1 */
	pause(1, KP_EV_GC_END, 2);	/* 2 */
	pause(1, KP_EV_OUT, 3);		/* 3: a call came first */
	call(&f, 1, "a", "e", 1, 4);
	pause(1, KP_EV_IN, 5);		/* 4 */
	pause(1, KP_EV_OUT, 6);		/* 5 */
	out(1, 7, 9);
	pause(1, KP_EV_GC_START, 10);	/* 6 */
	gc(1, 11, 12);
	back_to(&f, 1, "e", 20);
	back_to(&f, 1, "x", 100);
	expire(&f, 1000);
	assert_cells(0, "_total 0 1 2|e 84 0 0|a 16 1 2");
	assert_int_equal(lost(&f, KP_LOSS_PAUSE), 6);
}

/* A call without a duration has no self time: who called it has. */
static void
of_unfinished(void **state)
{
	(void)state;
	kp_requests_set_otp(f.rs, 0, 25);
	entry(&f, 1, "e", "x", 1, 0);
	call(&f, 1, "a", "y", 1, 10);
	gc(1, 15, 20);
	back_to(&f, 1, "x", 100);
	expire(&f, 1000);
	assert_cells(0, "_total 0 5 0|e 100 5 0|a 0 0 0");
}

/* A request with very many keeps them, put together. */
static void
many(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	for (int i = 0; i < 20000; i++)
		out(1, 1 + i / 32.0, 1 + i / 32.0 + 1 / 64.0);
	back_to(&f, 1, "x", 1000);
	expire(&f, 3000);
	assert_cells(0, "_total 0 0 312.5|e 1000 0 312.5");
	assert_int_equal(lost(&f, KP_LOSS_PAUSE_CAP), 0);
}

/* One for each call: past the cap they are counted. */
static void
too_many(void **state)
{
	(void)state;
	entry(&f, 1, "e", "x", 1, 0);
	for (int i = 0; i < 9000; i++) {
		call(&f, 1, "a", "e", 1, 1 + i);
		out(1, 1.25 + i, 1.5 + i);
		gc(1, 1.5 + i, 1.75 + i);
		back_to(&f, 1, "e", 2 + i);
	}
	back_to(&f, 1, "x", 10000);
	expire(&f, 20000);
	assert_int_equal(lost(&f, KP_LOSS_PAUSE_CAP), 18000 - 10000);
	assert_cells(0, "_total 0 1250 1250|e 1000 0 0|a 9000 1250 1250");
}

/* On the clock of its own node, in the window of that. */
static void
on_another_node(void **state)
{
	(void)state;
	join(&f, 1, 5000);
	entry(&f, AT(0, 1), "e", "x", 1, 0);
	pause(AT(0, 1), KP_EV_OUT, 10);
	call_from(&f, AT(1, 1), AT(0, 1), "a", "y", 1, 20);
	out(AT(1, 1), 30, 45);
	back_to(&f, AT(1, 1), "y", 50);
	pause(AT(0, 1), KP_EV_IN, 60);
	back_to(&f, AT(0, 1), "x", 100);
	expire(&f, 1000);
	expire(&f, 3000);
	assert_cells(0, "_total 0 0 35|e 70 0 20");
	assert_cells(1, "a 30 0 15");
}

/* Its process went in the midst: nothing is left of it, nor of its request. */
static void
forgotten(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 1000; i++) {
		entry(&f, i, "e", "x", i, i);
		gc(i, i, i + 1);
		pause(i, KP_EV_OUT, i + 2);
	}
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	entry(&f, 1, "e", "x", 5000, 2000);
	pause(1, KP_EV_IN, 2001);
	back_to(&f, 1, "x", 2010);
	expire(&f, 4000);
	assert_cells(0, "_total 0 0 0|e 10 0 0");
	assert_int_equal(lost(&f, KP_LOSS_PAUSE), 1);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(innermost), TEST(waited_for_another), TEST(out_of_gc),
		TEST(halves), TEST(of_unfinished), TEST(many), TEST(too_many),
		TEST(on_another_node), TEST(forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
