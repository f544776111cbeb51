/*
 * test_request_nodes.c - requests of several nodes, event by event: what
 * belongs together, on which clock, and what is lost with a node.
 *
 * Node 1's clock is days ahead of node 0's.  Times are node 0's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed.h"
#include "kprofd/stats.h"
#include "request_check.h"

static const char conf[] =
    "{tiers, [{web, {e,e,1}}, {db, [{a,a,1}, {b,b,1}, {c,c,1}]}]}.\n"
    "{entry, {e,e,1}}.\n"
    "{sampling, all}.\n";
static const char conf_finish[] =
    "{tiers, [{web, {e,e,1}}, {db, [{a,a,1}, {b,b,1}]}]}.\n"
    "{entry, {e,e,1}}.\n"
    "{finish, {b,b,1}}.\n"
    "{sampling, all}.\n";

#define AHEAD 5e8	/* ms: six days */

static struct feed f;
static struct kp_dur_sum { kp_dur_ns selfs, total; } sums;
static struct kp_stats *stats[KP_NODES_MAX];

/* Also: no self time is negative, and what they add up to. */
static void
on_request(void *ctx, const struct kp_request *rq)
{
	kp_dur_ns self[64];

	request_wellformed(rq);
	assert_true(rq->ncalls <= 64);
	assert_int_equal(kp_request_self(rq, self), KP_OK);
	sums = (struct kp_dur_sum){ 0, rq->end - rq->start };
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (self[i] >= 0 && !rq->calls[i].async)
			sums.selfs += self[i];
	if (stats[rq->node] != NULL)
		kp_stats_request(stats[rq->node], rq);
	feed_on_request(ctx, rq);
}

static void
count_request(void *ctx, const struct kp_request *rq)
{
	(void)rq;
	((struct feed *)ctx)->closed++;
}

static void
begin(const char *text)
{
	feed_init(&f, text, NULL);
	f.opts.on_request = on_request;
	feed_requests(&f, 1);
	join(&f, 1, AHEAD);
}

static int
setup(void **state)
{
	(void)state;
	begin(conf);
	return 0;
}

static int
setup_finish(void **state)
{
	(void)state;
	begin(conf_finish);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	feed_free(&f);
	return 0;
}

static void
came(const char *text)
{
	assert_string_equal(kp_buf_cstr(&f.text), text);
}

/* The offset of node 1 is taken to be wrong by so many ms. */
static void
wrong_by(double ms, double error_ms)
{
	kp_requests_offset(f.rs, 1, (kp_dur_ns)(ms * 1e6) - f.clock[1],
	    (kp_dur_ns)(error_ms * 1e6));
}

/* e of node 0 asks a on node 1 through b, which waits for it. */
static void
ask(uint64_t label)
{
	entry(&f, 1, "e", "u0", label, 0);
	call(&f, 1, "b", "e", label, 1);
	call_from(&f, AT(1, 1), 1, "a", "u0", label, 2);
	back_to(&f, AT(1, 1), "u0", 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "u0", 10);
}

static void
one_request(void **state)
{
	(void)state;
	ask(1);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | b 1-6 <0 | a@1 2-5 <1\n");
	assert_int_equal(sums.selfs, sums.total);
	assert_int_equal(kp_requests_entries(f.rs, 0), 1);
	assert_int_equal(kp_requests_entries(f.rs, 1), 0);
	expire(&f, 40000);
	requests_empty(f.rs);
}

/* Process 1 of both nodes, and the entry's comes last. */
static void
processes_are_apart(void **state)
{
	(void)state;
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	call_from(&f, AT(1, 2), AT(1, 1), "b", "u0", 1, 3);
	entry(&f, 1, "e", "u0", 1, 0);
	back_to(&f, AT(1, 2), "u0", 4);
	back_to(&f, AT(1, 1), "u0", 5);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | a@1 2-5 <0 | b@1 3-4 <1\n");
	assert_int_equal(sums.selfs, sums.total);
}

/* By the estimate it began before all: it is moved to where it has room. */
static void
estimate_too_early(void **state)
{
	(void)state;
	wrong_by(-3, 5);
	ask(1);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | b 1-6 <0 | a@1 1-4 <1\n");
	assert_int_equal(sums.selfs, sums.total);
}

/* ... or ended after the answer to it came: back. */
static void
estimate_too_late(void **state)
{
	(void)state;
	wrong_by(2, 5);
	ask(1);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | b 1-6 <0 | a@1 3-6 <1\n");
	assert_int_equal(sums.selfs, sums.total);
}

/* No room within the error: it is only kept behind what asked for it. */
static void
nobody_waits(void **state)
{
	(void)state;
	wrong_by(-1, 1);
	entry(&f, 1, "e", "u0", 1, 0);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 0.5);
	back_to(&f, 1, "u0", 10);
	back_to(&f, AT(1, 1), "u0", 25);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | a@1 0-24.5 <0\n");
}

/* Durations are those of the node's own clock; what moves, moves together. */
static void
moves_together(void **state)
{
	(void)state;
	wrong_by(-3, 5);
	entry(&f, 1, "e", "u0", 1, 0);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	call(&f, AT(1, 1), "b", "a", 1, 3);
	call_from(&f, AT(1, 9), AT(1, 1), "c", "u0", 1, 4);
	back_to(&f, AT(1, 9), "u0", 5);
	back_to(&f, AT(1, 1), "a", 6);
	back_to(&f, AT(1, 1), "u0", 8);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | a@1 0-6 <0 | b@1 1-4 <1 | "
	    "c@1 2-3 <2\n");
	assert_int_equal(sums.selfs, sums.total);
}

/* Nothing is known of its clock: what calls what says enough. */
static void
offset_unknown(void **state)
{
	(void)state;
	assert_int_equal(kp_requests_node(f.rs, feed_names[2]), 2);
	f.clock[2] = 12345678;
	entry(&f, 1, "e", "u0", 1, 0);
	call(&f, 1, "b", "e", 1, 4);
	call_from(&f, AT(2, 1), 1, "a", "u0", 1, 5);
	back_to(&f, AT(2, 1), "u0", 8.5);
	back_to(&f, 1, "e", 9);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	/* Both 0 to 3.5 and 4 to 7.5 are possible. */
	came("#1 unknown 0-10: e 0-10 | a@2 0-3.5 <0 | b 4-9 <0\n");
	assert_int_equal(sums.selfs, sums.total);
}

/* The node of a call goes: its call is left, the request goes on. */
static void
node_of_a_call_goes(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	call(&f, AT(1, 1), "b", "a", 1, 3);
	back_to(&f, AT(1, 1), "a", 4);
	kp_requests_abandon(f.rs, 1, KP_LOSS_DISCONNECTED);
	/* It is back with another clock, and not a part of that. */
	f.clock[1] += 1000 * KP_NS_PER_S;
	kp_requests_offset(f.rs, 1, -f.clock[1], 0);
	back_to(&f, AT(1, 1), "u0", 5);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | a@1 2- unfinished <0 | b@1 3-4 <1\n");
	assert_int_equal(lost_at(&f, 0, KP_LOSS_DISCONNECTED), 0);
	assert_int_equal(f.rs->nodes[1].lost.n[KP_LOSS_DISCONNECTED], 0);
	assert_int_equal(lost_at(&f, 1, KP_LOSS_LEFT), 1);
	expire(&f, 40000);
	requests_empty(f.rs);
}

/* The node of the entry goes: the request is lost there, its call here. */
static void
node_of_the_entry_goes(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	entry(&f, AT(1, 5), "e", "u0", 2, 3);
	kp_requests_abandon(f.rs, 0, KP_LOSS_DISCONNECTED);
	back_to(&f, AT(1, 1), "u0", 5);
	back_to(&f, AT(1, 5), "u0", 6);
	expire(&f, 400);
	came("#2 unknown 5e+08-5e+08: e 5e+08-5e+08\n");
	assert_int_equal(lost_at(&f, 0, KP_LOSS_DISCONNECTED), 1);
	assert_int_equal(lost_at(&f, 1, KP_LOSS_WITH_REQUEST), 1);
	expire(&f, 40000);
	requests_empty(f.rs);
}

/* An index is not given anew while a request has calls of its last node. */
static void
another_takes_the_index(void **state)
{
	struct kp_losses l = { 0 };

	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	kp_requests_remove(f.rs, 1, KP_LOSS_DISCONNECTED);
	f.joined[1] = false;
	assert_int_equal(kp_requests_node(f.rs, "other@h"), 2);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | a@1 2- unfinished <0\n");
	kp_requests_losses_take(f.rs, 1, &l);
	assert_int_equal(l.n[KP_LOSS_LEFT], 1);
	assert_int_equal(kp_requests_node(f.rs, "third@h"), 1);
	assert_int_equal(kp_requests_entries(f.rs, 1), 0);
}

/* A server's loop, named in tiers.conf: so many of its calls never end. */
static void
loop(uint32_t node, uint32_t label, uint32_t times)
{
	for (uint32_t i = 0; i <= times; i++) {
		entry(&f, AT(node, 1), "e", "x", label + i, label + i);
		call_from(&f, AT(node, 2), AT(node, 1), "a", "u0", label + i,
		    label + i + 0.1);
		back_to(&f, AT(node, 1), "x", label + i + 0.2);
	}
}

/* Each node is told of by itself, also where another had its index before. */
static void
runaways(void **state)
{
	struct kp_requests_opts o = { .max_stack = 4 };

	(void)state;
	feed_free(&f);
	feed_init(&f, conf, &o);
	join(&f, 1, AHEAD);
	loop(0, 100, 4);
	assert_int_equal(f.runaways, 1);
	loop(1, 200, 3);
	assert_int_equal(f.runaways, 1);
	loop(1, 300, 5);
	assert_int_equal(f.runaways, 2);
	kp_requests_remove(f.rs, 1, KP_LOSS_DISCONNECTED);
	join(&f, 1, AHEAD);
	loop(1, 400, 5);
	assert_int_equal(f.runaways, 3);
}

/*
 * Two of different nodes that ask each other in turn, and clocks that do not
 * tell which asked first.  Each could have made all of the other's calls;
 * trying out what order explains them took longer than the world has been.
 */
static void
back_and_forth(void **state)
{
	uint32_t here = 2, there = AT(1, 1);

	(void)state;
	wrong_by(0, 1000);
	entry(&f, 1, "e", "u0", 1, 0);
	for (int i = 0; i < 30; i++) {
		call_from(&f, there, here, "a", "u0", 1, 1 + 4 * i);
		back_to(&f, there, "u0", 2 + 4 * i);
		call_from(&f, here, there, "b", "u0", 1, 3 + 4 * i);
		back_to(&f, here, "u0", 4 + 4 * i);
	}
	back_to(&f, 1, "u0", 200);
	expire(&f, 1000);
	assert_int_equal(f.closed, 1);
	assert_int_equal(sums.total, 200 * KP_NS_PER_MS);
	assert_int_equal(sums.selfs, sums.total);
}

#define TOMBS (1u << 17)	/* as in req.c */

/* So many requests of a node begin, end and close. */
static void
close_many(uint32_t node, uint32_t n)
{
	static uint64_t label;
	static double ms;

	for (uint32_t i = 0; i < n; i++) {
		entry(&f, AT(node, 1), "e", "u0", ++label, ms);
		back_to(&f, AT(node, 1), "u0", ms);
		if (i % 1000 == 0)
			expire(&f, ms += 80);
	}
	/* Twice: the first is how the others' times are known. */
	expire(&f, ms += 250);
	expire(&f, ms += 250);
}

/* Who comes late, when the others have all the tombstones, gets some too. */
static void
tombs_are_shared(void **state)
{
	(void)state;
	f.joined[1] = false;
	feed_hand_on(&f, 1, count_request, feed_on_late);
	close_many(0, TOMBS + 1000);
	assert_int_equal(f.rs->nodes[0].tombs.n, TOMBS);
	for (uint32_t i = 1; i < FEED_NODES; i++) {
		join(&f, i, i * 1000);
		close_many(i, TOMBS / (i + 1) + 1000);
		assert_int_equal(f.rs->nodes[i].tombs.n, TOMBS / (i + 1));
		assert_true(f.rs->ntombs <= TOMBS);
	}
}

static void
no_more_indices(void **state)
{
	(void)state;
	for (uint32_t i = 2; i < KP_NODES_MAX; i++)
		assert_int_equal(kp_requests_node(f.rs, "x@h"), i);
	assert_int_equal(kp_requests_node(f.rs, "x@h"), KP_NONE);
	kp_requests_remove(f.rs, 40, KP_LOSS_DISCONNECTED);
	assert_int_equal(kp_requests_node(f.rs, "x@h"), 40);
}

/* What comes after the request counts where it ran. */
static void
late_elsewhere(void **state)
{
	(void)state;
	ask(1);
	expire(&f, 400);
	kp_buf_reset(&f.text);
	call_from(&f, AT(1, 3), 1, "c", "u0", 1, 500);
	back_to(&f, AT(1, 3), "u0", 510);
	came("late c@1 500-510 unknown\n");
	expire(&f, 31000);
	call_from(&f, AT(1, 3), 1, "c", "u0", 1, 31001);
	back_to(&f, AT(1, 3), "u0", 31002);
	expire(&f, 32000);
	assert_int_equal(lost_at(&f, 1, KP_LOSS_STALE), 1);
}

/* Two with one label: each is lost where it began. */
static void
collision(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	entry(&f, AT(1, 1), "e", "u0", 1, 1);
	back_to(&f, 1, "u0", 2);
	back_to(&f, AT(1, 1), "u0", 2);
	expire(&f, 400);
	came("");
	assert_int_equal(lost_at(&f, 0, KP_LOSS_COLLIDED), 1);
	assert_int_equal(lost_at(&f, 1, KP_LOSS_COLLIDED), 1);
}

/* The finish is on another node: its end is the request's, on this clock. */
static void
finish_elsewhere(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	call_from(&f, AT(1, 1), 1, "b", "u0", 1, 2);
	back_to(&f, 1, "u0", 3);
	back_to(&f, AT(1, 1), "u0", 8);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 9);
	back_to(&f, AT(1, 1), "u0", 9.5);
	expire(&f, 400);
	came("#1 unknown 0-8: e 0-3 | b@1 2-8 <0 | a@1 9-9.5 async\n");
}

/* What another node says of the same time may be to come: it is waited for. */
static void
a_node_lags(void **state)
{
	(void)state;
	expire(&f, 0);
	entry(&f, 1, "e", "u0", 1, 0);
	back_to(&f, 1, "u0", 10);
	kp_requests_close_due(f.rs, 0, feed_time(400));
	came("");
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	back_to(&f, AT(1, 1), "u0", 5);
	kp_requests_close_due(f.rs, 1, feed_time(300) + f.clock[1]);
	kp_requests_close_due(f.rs, 0, feed_time(401));
	came("#1 unknown 0-10: e 0-10 | a@1 2-5 <0\n");
	/* But not for ever. */
	kp_buf_reset(&f.text);
	entry(&f, 1, "e", "u0", 2, 1000);
	back_to(&f, 1, "u0", 1010);
	kp_requests_close_due(f.rs, 0, feed_time(3200));
	came("");
	kp_requests_close_due(f.rs, 0, feed_time(3211));
	came("#2 unknown 1000-1010: e 1000-1010\n");
	/* Nor for one that is lost. */
	kp_buf_reset(&f.text);
	kp_requests_abandon(f.rs, 1, KP_LOSS_DISCONNECTED);
	entry(&f, 1, "e", "u0", 3, 4000);
	back_to(&f, 1, "u0", 4010);
	kp_requests_close_due(f.rs, 0, feed_time(4211));
	came("#3 unknown 4000-4010: e 4000-4010\n");
}

/* A token that came from a node which is not profiled, or a strange pid. */
static void
strangers(void **state)
{
	static const uint8_t name[] = "far@h";
	struct kp_event ev = { .kind = KP_EV_CALL, .pid = feed_pid(AT(1, 1)),
		.ts = feed_time(2), .label = 1, .has_from = true,
		.from = { { name, sizeof(name) - 1 }, 1, 0, 1 } };

	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	feed_event(&f, &ev, "a", "u0");
	ev.pid.serial = PID_SERIAL_END;
	feed_event(&f, &ev, "a", "u0");
	back_to(&f, AT(1, 1), "u0", 5);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	came("#1 unknown 0-10: e 0-10 | a@1 2-5 <0\n");
	assert_int_equal(lost_at(&f, 1, KP_LOSS_BAD_EVENT), 1);
}

static void
stats_make(uint32_t node)
{
	stats[node] = kp_stats_new(f.conf, feed_names[node]);
	assert_non_null(stats[node]);
	kp_stats_names(stats[node], f.rs);
	kp_stats_peers(stats[node], stats);
}

static struct kp_window *
window_of(uint32_t node)
{
	struct kp_window *w = kp_stats_rotate(stats[node], 0, 1);

	assert_non_null(w);
	kp_stats_free(stats[node]);
	stats[node] = NULL;
	return w;
}

/* The tier's cell of all identities, by its figures. */
static void
cell_is(const struct kp_window *w, const char *tier, uint64_t requests,
    uint64_t share, double busy_ms, double share_ms)
{
	for (size_t i = 0; i < w->ncells; i++) {
		if (strcmp(w->cells[i].tier, tier) != 0 ||
		    strcmp(w->cells[i].identity, "_total") != 0)
			continue;
		assert_int_equal(w->cells[i].requests, requests);
		assert_int_equal(w->cells[i].share_requests, share);
		assert_int_equal(w->cells[i].busy, busy_ms * 1e6);
		assert_int_equal(w->cells[i].share_busy, share_ms * 1e6);
		return;
	}
	fail_msg("no cell of %s", tier);
}

/* Both nodes had it, but it is one: b of node 0 waits while a runs. */
static void
shares(void **state)
{
	struct kp_window *w;

	(void)state;
	stats_make(0);
	stats_make(1);
	ask(1);
	expire(&f, 400);
	w = window_of(0);
	cell_is(w, "_total", 1, 1, 10, 10);
	cell_is(w, "db", 1, 1, 5, 5);
	kp_window_free(w);
	w = window_of(1);
	assert_int_equal(w->sampled, 0);
	assert_int_equal(w->ncells, 2);
	cell_is(w, "db", 1, 0, 3, 0);
	kp_window_free(w);
}

/* A node that nobody counts for any more: what ran there is lost, and said. */
static void
nobody_counts_there(void **state)
{
	struct kp_window *w;

	(void)state;
	stats_make(0);
	ask(1);
	expire(&f, 400);
	w = window_of(0);
	cell_is(w, "db", 1, 1, 5, 5);
	assert_int_equal(w->losses.n[KP_LOSS_LEFT], 1);
	kp_window_free(w);
}

#define NODES(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		NODES(one_request), NODES(processes_are_apart),
		NODES(estimate_too_early), NODES(estimate_too_late),
		NODES(nobody_waits), NODES(moves_together),
		NODES(offset_unknown), NODES(node_of_a_call_goes),
		NODES(node_of_the_entry_goes), NODES(another_takes_the_index),
		NODES(runaways), NODES(back_and_forth),
		NODES(tombs_are_shared),
		NODES(no_more_indices), NODES(late_elsewhere),
		NODES(shares), NODES(nobody_counts_there),
		NODES(collision), NODES(a_node_lags), NODES(strangers),
		cmocka_unit_test_setup_teardown(finish_elsewhere, setup_finish,
		    teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
