/*
 * test_request_bulk.c - request assembly where a case is not a few lines of
 * test/unit/cases/request/: memory, caps that are large, what is no event of
 * any process, and the stage's other functions.
 */
#include "cases.h"
#include "pick.h"

#include <malloc.h>

#include "feed_fixture.h"
#include "kprofd/stats.h"
#include "request/life.h"
#include "request_check.h"

#define AHEAD 5e8	/* ms, of node 1's clock: six days */

FIXTURE(setup_nodes)
{
	setup_27(state);
	join(&f, 1, AHEAD);
	return 0;
}

/* ---- memory, and what is remembered ---- */

/*
 * The sweep that forgets late calls compared with a time of 0, which for a
 * real target's clock is eighteen years away: nothing was ever swept.
 */
TEST(stale_calls_are_forgotten)
{
	size_t before, after;

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
TEST(callers_that_come_and_go)
{
	size_t after;

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

TEST(fn_cap)
{
	char name[16];

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
TEST(memory_returns)
{
	size_t after;

	some_traffic(1, 3000, 0);
	after = mallinfo2().uordblks;
	for (uint32_t round = 1; round < 5; round++)
		some_traffic(1 + round * 3000, 3000, round * 200000);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
	assert_true(mallinfo2().uordblks < after + 16384);
}

static void
count_request(void *ctx, const struct kp_request *rq)
{
	(void)rq;
	((struct feed *)ctx)->closed++;
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
TEST_WITH(tombs_are_shared, setup_nodes, teardown)
{
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

TEST_WITH(no_more_indices, setup_nodes, teardown)
{
	for (uint32_t i = 2; i < KP_NODES_MAX; i++)
		assert_int_equal(kp_requests_node(f.rs, "x@h"), i);
	assert_int_equal(kp_requests_node(f.rs, "x@h"), KP_NONE);
	kp_requests_remove(f.rs, 40, KP_LOSS_DISCONNECTED);
	assert_int_equal(kp_requests_node(f.rs, "x@h"), 40);
}

/* A label past the last is _other; one that is known stays so in each function. */
TEST(labels_past_the_last)
{
	char name[16];

	f.label = name;
	entry(&f, 1, "e", "x", 1, 0);
	for (uint32_t i = 0; i < KP_LABELS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "l;%u", i);
		call(&f, 1, "a", "e", 1, 1);
		back_to(&f, 1, "e", 1);
	}
	assert_int_equal(kp_requests_parts(f.rs), KP_LABELS_MAX + 1);
	assert_string_equal(kp_requests_part(f.rs, 0), "db: l,0");
	assert_string_equal(kp_requests_part(f.rs, KP_LABELS_MAX), "db: _other");
	snprintf(name, sizeof(name), "l;0");
	call(&f, 1, "b", "e", 1, 2);
	back_to(&f, 1, "x", 3);
	assert_int_equal(kp_requests_parts(f.rs), KP_LABELS_MAX + 1);
	f.label = NULL;
	expire(&f, 1000);
	assert_int_equal(f.unbounded, 0);
	assert_non_null(strstr(kp_buf_cstr(&f.text), "| a [l;0] 1-1"));
	assert_non_null(strstr(kp_buf_cstr(&f.text), "| a [_other] 1-1"));
	assert_non_null(strstr(kp_buf_cstr(&f.text), "| b [l;0] 2-"));
	kp_buf_reset(&f.text);
	assert_int_equal(f.rs->nodes[0].lost.n[KP_LOSS_LABEL_CAP], 10);
}

/* ---- what is no event ---- */

TEST(bad_events)
{
	static const uint8_t junk[] = { 104, 3, 97, 1, 97, 1, 97, 1 };
	struct kp_event ev = { .kind = KP_EV_ENTRY, .pid = feed_pid(1),
		.mfa = { junk, sizeof(junk) }, .label = 1, .weight = 1 };

	kp_requests_events(f.rs, 0, &ev, 1);
	ev.kind = KP_EV_CALL;
	kp_requests_events(f.rs, 0, &ev, 1);
	ev.mfa.n = 0;
	kp_requests_events(f.rs, 0, &ev, 1);
	ev.kind = KP_EV_RETURN_TO;
	kp_requests_events(f.rs, 0, &ev, 1);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 3);
	assert_int_equal(kp_requests_entries(f.rs, 0), 1);
	/* <0.0.0> was a key that the table of processes cannot hold. */
	call(&f, 0, "a", "x", 1, 1);
	back_to(&f, 0, "x", 2);
	assert_int_equal(lost(&f, KP_LOSS_BAD_EVENT), 4);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
}

/* Times that no clock can show must not be computed with. */
TEST(impossible_times)
{
	static const kp_target_ns times[] = { INT64_MIN, INT64_MAX,
		-(INT64_C(1) << 62), INT64_C(1) << 62 };
	struct kp_event ev = { .weight = 1, .pid = feed_pid(1) };

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

/* What comes while the agent rests is counted, and not looked at. */
TEST(passed_over)
{
	static const enum kp_event_kind kinds[] = { KP_EV_ENTRY, KP_EV_CALL,
		KP_EV_CALL, KP_EV_RETURN_TO, KP_EV_CLEAR };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		kp_requests_pass(f.rs, 0,
		    &(struct kp_event){ .kind = kinds[i], .label = 1 });
	assert_int_equal(kp_requests_entries(f.rs, 0), 1);
	assert_int_equal(lost(&f, KP_LOSS_TRIPPED), 1);
	assert_int_equal(lost(&f, KP_LOSS_WITH_REQUEST), 2);
	assert_int_equal(kp_requests_in_flight(f.rs, 0), 0);
}

/* A token that came from a node which is not profiled, or a strange pid. */
TEST_WITH(strangers, setup_nodes, teardown)
{
	static const uint8_t name[] = "far@h";
	struct kp_event ev = { .kind = KP_EV_CALL, .pid = feed_pid(AT(1, 1)),
		.ts = feed_time(2), .label = 1, .has_from = true,
		.from = { { name, sizeof(name) - 1 }, 1, 0, 1 } };

	entry(&f, 1, "e", "u0", 1, 0);
	feed_event(&f, &ev, "a", "u0");
	ev.pid.serial = PID_SERIAL_END;
	feed_event(&f, &ev, "a", "u0");
	back_to(&f, AT(1, 1), "u0", 5);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	CLOSED("#1 unknown 0-10: e 0-10 | a@1 2-5 <0\n");
	assert_int_equal(lost_at(&f, 1, KP_LOSS_BAD_EVENT), 1);
}

/* ---- in flight ---- */

/*
 * A stack that was read a little later is shown only if the process was in the
 * call that the list named, all the while: it may be in the next request by then.
 */
TEST_WITH(in_call, setup_nodes, teardown)
{
	struct kp_flight v;

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

/* ---- shares of nodes ---- */

static struct kp_stats *stats[KP_NODES_MAX];

static void
to_stats(void *ctx, const struct kp_request *rq)
{
	kp_stats_request(stats[rq->node], rq);
	feed_on_request(ctx, rq);
}

/* e of node 0 asks a on node 1 through b, which waits for it. */
static void
ask(void)
{
	entry(&f, 1, "e", "u0", 1, 0);
	call(&f, 1, "b", "e", 1, 1);
	call_from(&f, AT(1, 1), 1, "a", "u0", 1, 2);
	back_to(&f, AT(1, 1), "u0", 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "u0", 10);
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
TEST_WITH(shares, setup_nodes, teardown)
{
	struct kp_window *w;

	feed_hand_on(&f, 1, to_stats, feed_on_late);
	join(&f, 1, AHEAD);
	stats_make(0);
	stats_make(1);
	ask();
	expire(&f, 400);
	w = window_of(0);
	cell_is(w, "_total", 1, 1, 10, 10);
	cell_is(w, "db", 1, 1, 5, 5);
	kp_window_free(w);
	w = window_of(1);
	assert_fields(*w, IS(sampled, 0) IS(ncells, 2));
	cell_is(w, "db", 1, 0, 3, 0);
	kp_window_free(w);
}

/* A node that nobody counts for any more: what ran there is lost, and said. */
TEST_WITH(nobody_counts_there, setup_nodes, teardown)
{
	struct kp_window *w;

	feed_hand_on(&f, 1, to_stats, feed_on_late);
	join(&f, 1, AHEAD);
	stats_make(0);
	ask();
	expire(&f, 400);
	w = window_of(0);
	cell_is(w, "db", 1, 1, 5, 5);
	assert_int_equal(w->losses.n[KP_LOSS_LEFT], 1);
	kp_window_free(w);
}

/* ---- messages ---- */

static uint64_t waits_seen;
static uint32_t taken;		/* the message that the sender took last */

static void
count_waits(void *ctx, const struct kp_request *rq)
{
	uint32_t n;

	(void)rq;
	kp_requests_waits(((struct feed *)ctx)->rs, &n);
	waits_seen += n;
}

FIXTURE(setup_messages)
{
	feed_init(&f, "{tiers, [{web, {e,e,1}}]}.\n{sampling, all}.\n"
	    "{messages, true}.\n", NULL);
	f.opts.on_request = count_waits;
	feed_requests(&f, 1);
	waits_seen = taken = 0;
	return 0;
}

static void
message(enum kp_event_kind kind, uint32_t pid, uint32_t other, uint64_t label,
    uint32_t serial, double ms)
{
	f.serial = serial;
	f.last = taken;
	feed_event(&f, &(struct kp_event){ .kind = kind, .pid = feed_pid(pid),
	    .ts = feed_time(ms), .label = label, .has_from = other != 0,
	    .from = feed_pid(other) }, NULL, NULL);
}

static void
sends(uint32_t from, uint32_t to, uint64_t label, uint32_t serial, double ms)
{
	message(KP_EV_SEND, from, to, label, serial, ms);
}

static void
takes(uint32_t who, uint32_t from, uint64_t label, uint32_t serial, double ms)
{
	message(KP_EV_RECEIVE, who, from, label, serial, ms);
}

TEST_WITH(caps, setup_messages, teardown)
{
	uint32_t n = 3000;

	entry(&f, 1, "e", "u0", 7, 0);
	for (uint32_t i = 1; i <= n; i++)
		sends(1, 2, 7, i, 1);
	for (uint32_t i = 1; i <= n; i++)
		takes(2, 1, 7, i, 2);
	back_to(&f, 1, "u0", 3);
	expire(&f, 500);
	assert_true(waits_seen > 100 && waits_seen < n);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_CAP), n - waits_seen);
	/* a receive whose send was not kept is no other loss */
	assert_int_equal(lost(&f, KP_LOSS_UNPAIRED), 0);
	assert_int_equal(lost(&f, KP_LOSS_UNRECEIVED), 0);
	kp_buf_reset(&f.text);
}

/* Whatever comes in whatever order: every send is a wait, or lost once. */
TEST_WITH(conserved, setup_messages, teardown)
{
	static bool began[1000];
	uint64_t sent = 0;
	double ms = 0;

	join(&f, 1, AHEAD);
	for (int i = 0; i < 100000; i++) {
		uint64_t label = 1 + rnd(20) + (uint64_t)i / 1000 * 8;
		uint32_t a = (uint32_t)(1 + rnd(5)), b = (uint32_t)(1 + rnd(5));
		uint32_t serial = (uint32_t)rnd(3);

		taken = (uint32_t)rnd(3);

		ms += (double)rnd(3);
		a = rnd(2) == 0 ? a : AT(1, a);
		b = rnd(2) == 0 ? b : AT(1, b);
		switch (rnd(12)) {
		case 0:
			/* a label that comes twice is a collision */
			if (!began[label] || rnd(100) == 0)
				entry(&f, a, "e", "u0", label, ms);
			began[label] = true;
			break;
		case 1:
			back_to(&f, a, "u0", ms);
			break;
		case 2:
			expire(&f, ms);
			break;
		case 3:
			if (rnd(50) == 0)
				kp_requests_abandon(f.rs,
				    (uint32_t)rnd(2), KP_LOSS_TRIPPED);
			break;
		case 4: case 5: case 6: case 7:
			sent++;
			sends(a, b, label, serial, ms);
			break;
		default:
			takes(b, a, label, serial, ms);
		}
	}
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	kp_requests_abandon(f.rs, 1, KP_LOSS_TRIPPED);
	kp_requests_losses_take(f.rs, 1, &f.lost);
	assert_true(waits_seen > 1000);
	assert_int_equal(sent, waits_seen + lost(&f, KP_LOSS_UNRECEIVED) +
	    lost(&f, KP_LOSS_MAIL_LATE) + lost(&f, KP_LOSS_MAIL_CAP) +
	    lost(&f, KP_LOSS_MAIL_GONE) + lost(&f, KP_LOSS_MAIL_CROSSED));
	assert_true(lost(&f, KP_LOSS_MAIL_CROSSED) > 0);
	kp_buf_reset(&f.text);
}

/* ---- servers that answer with the tokens of others ---- */

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

TEST(after_others)
{
	static struct crossed d;

	come_and_go(&d, 1);
	come_and_go(&d, 50);
	assert_int_equal(answers_and_calls(&d, 1000), 1);
}

TEST(among_others)
{
	static struct crossed d;
	unsigned reported = 0;

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

FIXTURE(setup_crossed)
{
	struct kp_requests_opts o = { .on_crossed = on_crossed };

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

TEST_WITH(reported_again, setup_crossed, teardown)
{
	answer(0);
	assert_int_equal(reported, 1);
	answer(100);
	assert_int_equal(reported, 1);
	kp_requests_abandon(f.rs, 0, KP_LOSS_DISCONNECTED);
	answer(200);
	assert_int_equal(reported, 2);
	kp_buf_reset(&f.text);
}

TESTS(setup_27, teardown)
