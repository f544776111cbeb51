/*
 * test_stack_join.c - samples of stacks and the requests that they belong to.
 * Requests come from events (feed.h); web is the tier of the entry e, db that of
 * a, b and c.
 */
#include "cases.h"
#include "feed_fixture.h"
#include "stack_feed.h"
#include "stacks/cells.h"
#include "stacks/join.h"
#include "stacks/pending.h"

#define ONE(name) TEST_WITH(name, setup_one, end)
#define TWO(name) TEST_WITH(name, setup_two, end)

#define MS KP_NS_PER_MS
#define IN_WORK "work:do/1:7"
#define IN_CALL "gen:do_call/4:1 gen_server:call/3:2 work:ask/1"
#define ON_PORT "prim_inet:recv0/3 work:read/1"
#define IN_LOOP "gen_server:loop/7 proc_lib:init_p_do_apply/3"

static struct stack_join *joins[FEED_NODES];
static struct kp_stack_counts counts;	/* of the next message */

static struct stack_scope
scope(uint32_t node)
{
	return (struct stack_scope){ f.conf, f.rs, node };
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct stack_scope s;

	(void)ctx;
	for (uint32_t i = 0; i < FEED_NODES; i++) {
		if (joins[i] == NULL)
			continue;
		s = scope(i);
		stack_join_request(joins[i], &s, rq);
	}
}

static int
setup_nodes(uint32_t nodes)
{
	feed_init(&f, conf_two, NULL);
	feed_hand_on(&f, 1, on_request, feed_on_late);
	counts = (struct kp_stack_counts){ 0 };
	for (uint32_t i = 0; i < FEED_NODES; i++)
		joins[i] = i < nodes ? stack_join_new() : NULL;
	return 0;
}

FIXTURE(setup_one)
{
	return setup_nodes(1);
}

FIXTURE(setup_two)
{
	return setup_nodes(2);
}

FIXTURE(end)
{
	for (uint32_t i = 0; i < FEED_NODES; i++)
		stack_join_free(joins[i]);
	return teardown(state);
}

/* frames NULL: not seen.  took: until the stack was read, in ms. */
static void
sample_late(uint32_t pid, uint64_t label, double ms, double took,
    const char *status, const char *frames)
{
	uint32_t node = pid >> 24;
	struct fed_sample v = { .id = pid & 0xFFFFFF, .label = (int64_t)label,
		.at = feed_time(ms) + f.clock[node], .time = 5 * MS,
		.took = (int64_t)(took * 1e6),
		.status = status, .frames = frames };
	struct stack_scope s = scope(node);
	struct kp_usage *usage = NULL;
	struct kp_buf b;

	kp_buf_init(&b, 1 << 20);
	feed_samples(&b, v.at, &counts, &v, 1);
	assert_int_equal(stack_join_message(joins[node], &s, b.p, b.len,
	    &usage), KP_OK);
	assert_null(usage);
	kp_buf_free(&b);
}

static void
sample(uint32_t pid, uint64_t label, double ms, const char *status,
    const char *frames)
{
	sample_late(pid, label, ms, 0, status, frames);
}

static struct kp_window *
window_of(uint32_t node)
{
	struct kp_window *w = calloc(1, sizeof(*w));
	struct stack_scope s = scope(node);

	assert_true(stack_join_rotate(joins[node], &s, w));
	return w;
}

static int
by_text(const void *pa, const void *pb)
{
	const struct kp_stack_cell *a = pa, *b = pb;
	int c = strcmp(a->path, b->path);

	c = c != 0 ? c : strcmp(a->frames, b->frames);
	return c != 0 ? c : a->state - b->state;
}

/* The octaves of the durations that the cells have, in their order: "27 0". */
static const char *
octaves(uint32_t node)
{
	static char text[256];
	struct kp_window *w = window_of(node);
	size_t n = 0;

	text[0] = '\0';
	if (w->nstacks > 0)
		qsort(w->stacks, w->nstacks, sizeof(*w->stacks), by_text);
	for (size_t i = 0; i < w->nstacks; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s:%d",
		    i > 0 ? " " : "", w->stacks[i].path, w->stacks[i].octave);
	kp_window_free(w);
	return text;
}

/* Checks the cells of the window, sorted, a line each. */
static void
cells(uint32_t node, const char *want)
{
	struct kp_window *w = window_of(node);
	const struct kp_stack_cell *c;
	struct kp_buf b;

	kp_buf_init(&b, 1 << 20);
	if (w->nstacks > 0)
		qsort(w->stacks, w->nstacks, sizeof(*w->stacks), by_text);
	for (size_t i = 0; i < w->nstacks; i++) {
		c = &w->stacks[i];
		kp_buf_printf(&b, "%s [%s] %s '%s' %d %g %g\n", c->identity,
		    c->path, kp_stack_state_name(c->state), c->frames,
		    (int)c->samples, (double)c->time / 1e6,
		    (double)c->w_time / 1e6);
	}
	assert_string_equal(kp_buf_cstr(&b), want);
	kp_buf_free(&b);
	kp_window_free(w);
}

static uint64_t
lost_samples(uint32_t node, enum kp_loss cause)
{
	struct kp_window *w = window_of(node);
	uint64_t n = w->losses.n[cause];

	kp_window_free(w);
	return n;
}

static void
expires(uint32_t node, double ms)
{
	struct stack_scope s = scope(node);

	stack_join_expire(joins[node], &s, feed_time(ms) + f.clock[node]);
}

static const struct stack_totals *
totals(uint32_t node)
{
	static struct stack_totals t;

	t = stack_join_totals(joins[node]);
	return &t;
}

/* Request 1 of process 1 from 0 to 100, which is in a from 20 to 60. */
static void
one_request(void)
{
	entry(&f, 1, "e", NULL, 1, 0);
	call(&f, 1, "a", "e", 1, 20);
	back_to(&f, 1, "e", 60);
	back_to(&f, 1, NULL, 100);
}

ONE(a_sample_has_the_path_of_its_call)
{
	f.weight = 3;
	f.identity = "get";
	one_request();
	sample(1, 1, 10, "running", IN_WORK);
	sample(1, 1, 30, "running", IN_WORK);
	sample(1, 1, 40, "running", IN_WORK);
	sample(1, 1, 70, "running", IN_WORK);
	cells(0, "");
	assert_int_equal(totals(0)->waiting, 4);
	expire(&f, 400);
	cells(0, "get [web] running 'work:do/1:7' 2 10 30\n"
	    "get [web;db] running 'work:do/1:7' 2 10 30\n");
	assert_fields(*totals(0), IS(waiting, 0) IS(joined, 4));
	cells(0, "");
}

/*
 * Requests of 100 ms, over 62.5 up to 125, and of 40 ms; the first one's work goes on
 * after it has closed.  A third has no end.
 */
ONE(a_sample_has_the_duration_of_its_request)
{
	one_request();
	sample(1, 1, 10, "running", IN_WORK);
	entry(&f, 4, "e", NULL, 2, 100);
	back_to(&f, 4, NULL, 140);
	sample(4, 2, 120, "running", "work:short/0:1");
	expire(&f, 500);
	sample(2, 1, 600, "running", IN_WORK);
	expires(0, 620);
	assert_string_equal(octaves(0), "_after:27 web:27 web:26");
	entry(&f, 5, "e", NULL, 3, 700);
	sample(5, 3, 710, "running", IN_WORK);
	expire(&f, 700 + 70e3);
	assert_string_equal(octaves(0), "web:0");
}

ONE(samples_come_before_events)
{
	sample(1, 1, 30, "running", IN_WORK);
	expires(0, 40);
	one_request();
	expire(&f, 400);
	cells(0, "undefined [web;db] running 'work:do/1:7' 1 5 5\n");
}

ONE(every_state_is_a_cell)
{
	one_request();
	sample(1, 1, 30, "running", IN_WORK);
	sample(1, 1, 31, "runnable", IN_WORK);
	sample(1, 1, 32, "garbage_collecting", IN_WORK);
	sample(1, 1, 33, "waiting", IN_CALL);
	sample(1, 1, 34, "waiting", ON_PORT);
	sample(1, 1, 35, "waiting", "work:receive_it/0");
	sample(1, 1, 36, "running", NULL);
	expire(&f, 400);
	cells(0,
	    "undefined [web;db] not seen '' 1 5 5\n"
	    "undefined [web;db] in a call "
	    "'work:ask/1;gen_server:call/3:2;gen:do_call/4:1' 1 5 5\n"
	    "undefined [web;db] running 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db] runnable 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db] collecting 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db] on a port 'work:read/1;prim_inet:recv0/3' "
	    "1 5 5\n"
	    "undefined [web;db] waiting 'work:receive_it/0' 1 5 5\n");
}

/*
 * A process that ran had gone on when it showed its stack: that is of the call
 * only if the call is open still, or on it.
 */
ONE(a_late_stack_is_not_of_its_call)
{
	one_request();
	sample_late(1, 1, 30, 20, "running", IN_WORK " e:e/1");
	sample_late(1, 1, 57, 4, "running", IN_WORK " e:e/1");
	sample_late(1, 1, 58, 4, "running", IN_WORK " a:a/1 e:e/1");
	sample_late(1, 1, 99, 4, "running", IN_LOOP);
	sample(1, 1, 103, "waiting", IN_CALL);
	sample(1, 1, 104, "running", IN_WORK);
	expire(&f, 400);
	cells(0, "undefined [_after] running 'work:do/1:7' 1 5 5\n"
	    "undefined [web] running '_late' 1 5 5\n"
	    "undefined [web;db] running '_late' 1 5 5\n"
	    "undefined [web;db] running 'e:e/1;a:a/1;work:do/1:7' 1 5 5\n"
	    "undefined [web;db] running 'e:e/1;work:do/1:7' 1 5 5\n");
	assert_int_equal(totals(0)->idle, 1);
}

/* a ends with a call of another function, so that it has left the stack. */
ONE(a_call_need_not_be_on_the_stack)
{
	one_request();
	sample(1, 1, 30, "running", IN_WORK " e:e/1");
	expire(&f, 400);
	cells(0, "undefined [web;db] running 'e:e/1;work:do/1:7' 1 5 5\n");
}

/* Process 2 works for a, with no call of its own, then waits for messages. */
ONE(a_process_without_calls_works_for_the_innermost)
{
	one_request();
	sample(2, 1, 30, "running", IN_WORK);
	sample(2, 1, 31, "waiting", ON_PORT);
	sample(2, 1, 50, "waiting", IN_LOOP);
	sample(2, 1, 90, "runnable", IN_WORK);
	expire(&f, 400);
	cells(0, "undefined [web] runnable 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db] running 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db] on a port 'work:read/1;prim_inet:recv0/3' "
	    "1 5 5\n");
	assert_fields(*totals(0), IS(idle, 1) IS(lost, 0));
}

/* A call in another process has the path of the call that asked. */
ONE(a_path_goes_through_processes)
{
	entry(&f, 1, "e", NULL, 1, 0);
	call(&f, 1, "a", "e", 1, 10);
	call_from(&f, 2, 1, "e2", NULL, 1, 20);
	call_from(&f, 2, 1, "b", "e2", 1, 30);
	call_from(&f, 2, 1, "c", "b", 1, 35);
	back_to(&f, 2, "b", 45);
	back_to(&f, 2, "e2", 50);
	back_to(&f, 2, NULL, 60);
	back_to(&f, 1, "e", 70);
	back_to(&f, 1, NULL, 80);
	sample(2, 1, 25, "running", IN_WORK);
	sample(2, 1, 40, "running", IN_WORK);
	expire(&f, 400);
	/* c in b in a row of the same tier is one step */
	cells(0, "undefined [web;db;web] running 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db;web;db] running 'work:do/1:7' 1 5 5\n");
}

ONE(after_the_request)
{
	one_request();
	call_from(&f, 2, 1, "b", NULL, 1, 120);
	back_to(&f, 2, NULL, 150);
	sample(1, 1, 110, "waiting", ON_PORT);	/* for the next request */
	sample(1, 1, 111, "waiting", IN_LOOP);
	sample(3, 1, 112, "running", IN_WORK);
	sample(2, 1, 130, "waiting", ON_PORT);
	expire(&f, 400);
	cells(0, "undefined [_after] running 'work:do/1:7' 1 5 5\n"
	    "undefined [_after;db] on a port 'work:read/1;prim_inet:recv0/3' "
	    "1 5 5\n");
	assert_int_equal(totals(0)->idle, 2);
}

/* It still works when the request has closed, and then some time later. */
ONE(long_after_the_request)
{
	f.weight = 2;
	f.identity = "get";
	one_request();
	expire(&f, 400);
	sample(2, 1, 500, "running", IN_WORK);
	sample(2, 1, 510, "waiting", IN_LOOP);
	expires(0, 520);
	cells(0, "get [_after] running 'work:do/1:7' 1 5 10\n");
	sample(2, 1, 50, "running", IN_WORK);	/* it was late */
	expires(0, 530);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 1);
	cells(0, "");
	assert_fields(*totals(0), IS(idle, 1) IS(waiting, 0));
}

/*
 * A process that waited for an answer inside the request was not idle, though one
 * that waits so after its end is.  It counted as idle in both cases.
 */
ONE(a_late_sample_of_a_wait_inside_is_lost)
{
	one_request();
	expire(&f, 400);
	sample(1, 1, 50, "waiting", IN_CALL);
	sample(1, 1, 51, "waiting", ON_PORT);
	sample(1, 1, 52, "waiting", IN_LOOP);
	sample(1, 1, 150, "waiting", IN_CALL);
	expires(0, 530);
	assert_int_equal(totals(0)->idle, 2);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 2);
}

/*
 * At an overload the requests in flight are given up.  A process that waited for an
 * answer in one of them counted as idle, as if it had an old token; so does a server
 * that waits for its next message, and who waits so a while later.
 */
ONE(samples_of_an_abandoned_request_are_lost)
{
	entry(&f, 1, "e", NULL, 1, 0);
	call(&f, 1, "a", "e", 1, 20);
	kp_requests_close_due(f.rs, 0, feed_time(40));
	sample(1, 1, 30, "running", IN_WORK);
	sample(1, 1, 31, "waiting", IN_CALL);
	sample(2, 1, 32, "waiting", IN_LOOP);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	sample(1, 1, 41, "waiting", ON_PORT);
	sample_late(1, 1, 35, 1, "running", IN_WORK);
	sample(1, 1, 2000, "waiting", ON_PORT);
	sample(1, 2, 42, "waiting", IN_CALL);
	expires(0, 3900);
	assert_fields(*totals(0), IS(waiting, 0) IS(idle, 3));
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 4);
}

ONE(a_sample_without_request_is_lost_in_time)
{
	sample(1, 77, 0, "running", IN_WORK);
	sample(2, 78, 0, "waiting", IN_LOOP);
	sample(3, 79, 0, "running", NULL);
	expires(0, 2900);
	assert_int_equal(totals(0)->waiting, 3);
	expires(0, 3100);
	assert_fields(*totals(0), IS(waiting, 0) IS(idle, 2));
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 1);
}

/* The clock of another VM: the sample is as far ahead as it may be old. */
ONE(a_sample_of_another_time_is_lost_too)
{
	sample(1, 77, 10000, "running", IN_WORK);
	expires(0, 9000);
	assert_int_equal(totals(0)->waiting, 1);
	expires(0, 100);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 1);
}

ONE(a_sample_waits_as_long_as_its_request)
{
	entry(&f, 1, "e", NULL, 1, 0);
	sample(1, 1, 10, "running", IN_WORK);
	for (double ms = 1000; ms < 59000; ms += 1000) {
		expire(&f, ms);
		expires(0, ms);
	}
	assert_int_equal(totals(0)->waiting, 1);
	expire(&f, 61000);
	cells(0, "undefined [web] running 'work:do/1:7' 1 5 5\n");
}

ONE(a_process_not_seen_is_found_by_its_call)
{
	entry(&f, 1, "e", NULL, 1, 0);
	call(&f, 1, "a", "e", 1, 20);
	sample(1, 0, 30, "running", NULL);
	sample(1, 55, 31, "running", NULL);	/* it had that token before */
	sample(9, 0, 30, "running", NULL);
	sample(9, 0, 30, "running", IN_WORK);
	back_to(&f, 1, "e", 60);
	back_to(&f, 1, NULL, 100);
	expire(&f, 400);
	cells(0, "undefined [web;db] not seen '' 2 10 10\n");
	assert_int_equal(totals(0)->idle, 1);
	expires(0, 4000);
	assert_int_equal(totals(0)->idle, 2);
}

/*
 * Node 1's clock is an hour ahead, and its offset wrong by 2 ms: its calls are
 * moved to where they fit, and samples with them.
 */
TWO(samples_of_two_nodes)
{
	join(&f, 1, 3600000);
	kp_requests_offset(f.rs, 1, -f.clock[1] + 2 * MS, 3 * MS);
	entry(&f, 1, "e", NULL, 1, 0);
	call(&f, 1, "a", "e", 1, 20);
	call_from(&f, AT(1, 5), 1, "b", NULL, 1, 21);
	back_to(&f, AT(1, 5), NULL, 59);
	back_to(&f, 1, "e", 60);
	back_to(&f, 1, NULL, 100);
	sample(1, 1, 10, "running", IN_WORK);
	sample(1, 1, 30, "waiting", IN_CALL);
	sample(AT(1, 5), 1, 21.2, "running", IN_WORK);
	sample(AT(1, 5), 1, 58.8, "running", IN_WORK);
	sample(AT(1, 6), 1, 40, "running", "other:one/0");
	expire(&f, 3000);
	cells(0, "undefined [web] running 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db] in a call "
	    "'work:ask/1;gen_server:call/3:2;gen:do_call/4:1' 1 5 5\n");
	cells(1, "undefined [web;db] running 'other:one/0' 1 5 5\n"
	    "undefined [web;db] running 'work:do/1:7' 2 10 10\n");
}

/* Process 6 has no call at all, and no call is on its node. */
TWO(a_node_without_calls)
{
	join(&f, 1, -5000);
	one_request();
	sample(AT(1, 6), 1, 40, "running", IN_WORK);
	sample(AT(1, 6), 1, 140, "running", IN_WORK);
	expire(&f, 3000);
	cells(1, "undefined [_after] running 'work:do/1:7' 1 5 5\n"
	    "undefined [web;db] running 'work:do/1:7' 1 5 5\n");
}

ONE(waiting_samples_are_capped)
{
	for (uint32_t i = 0; i < PENDING_SAMPLES_MAX + 5; i++)
		sample(1, 1 + i % 1000, 10, "running", IN_WORK);
	assert_int_equal(totals(0)->waiting, PENDING_SAMPLES_MAX);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_CAP), 5);
	/* room comes back */
	expires(0, 4000);
	assert_int_equal(totals(0)->waiting, 0);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE),
	    PENDING_SAMPLES_MAX);
	one_request();
	sample(1, 1, 30, "running", IN_WORK);
	expire(&f, 400);
	cells(0, "undefined [web;db] running 'work:do/1:7' 1 5 5\n");
}

ONE(dropped_samples_are_lost)
{
	one_request();
	sample(1, 1, 30, "running", IN_WORK);
	stack_join_drop(joins[0]);
	assert_int_equal(totals(0)->waiting, 0);
	expire(&f, 400);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 1);
	cells(0, "");
}

/* The names of types belong to the old configuration: no cell may keep one. */
ONE(another_configuration_starts_from_nothing)
{
	one_request();
	sample(1, 1, 30, "running", IN_WORK);
	expire(&f, 400);
	sample(1, 2, 500, "running", IN_WORK);
	stack_join_reset(joins[0]);
	feed_hand_on(&f, 1, on_request, feed_on_late);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 1);
	cells(0, "");
	entry(&f, 1, "e", NULL, 3, 1000);
	back_to(&f, 1, NULL, 1100);
	sample(1, 3, 1050, "running", IN_WORK);
	expire(&f, 1400);
	cells(0, "undefined [web] running 'work:do/1:7' 1 5 5\n");
}

ONE(unsent_samples_are_losses)
{
	counts = (struct kp_stack_counts){ .taken = 9, .unsent = 4 };
	sample(1, 1, 1, "running", IN_WORK);
	counts.unsent = 6;
	sample(1, 1, 2, "running", IN_WORK);
	assert_int_equal(totals(0)->sampler.taken, 9);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_UNSENT), 6);
	/* another sampler, which has dropped as many */
	stack_join_restart(joins[0]);
	sample(1, 1, 3, "running", IN_WORK);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_UNSENT), 6);
	counts.unsent = 1;
	sample(1, 1, 4, "running", IN_WORK);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_UNSENT), 1);
}

/* What the sampler has no room for, and time that it slept through, was not counted. */
ONE(crowds_and_late_turns_are_losses)
{
	counts = (struct kp_stack_counts){ .crowded = 40, .late = 1 };
	sample(1, 1, 1, "running", IN_WORK);
	counts.crowded = 50;
	sample(1, 1, 2, "running", IN_WORK);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_CROWD), 50);
	counts.late = 3;
	sample(1, 1, 3, "running", IN_WORK);
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_LATE), 2);
	/* They are no samples. */
	assert_int_equal(totals(0)->lost, 0);
}

/* More stacks than a table has: those that wait move to another table. */
ONE(a_full_table_is_renewed)
{
	char frame[40];
	uint64_t other = 0;

	entry(&f, 1, "e", NULL, 1, 0);
	sample(1, 1, 5, "running", "work:first/0:1");
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < KP_STACK_STACKS_MAX / 2 + 100; i++) {
			snprintf(frame, sizeof(frame), "work:do/1:%d",
			    1 + i + turn * 100000);
			sample(2, 999, 10, "running", frame);
		}
		expires(0, 4000);
		other += lost_samples(0, KP_LOSS_STACK_OTHER);
	}
	sample(1, 1, 6, "running", "work:second/0:1");
	back_to(&f, 1, NULL, 100);
	expire(&f, 400);
	assert_int_equal(other, 0);
	cells(0, "undefined [web] running 'work:first/0:1' 1 5 5\n"
	    "undefined [web] running 'work:second/0:1' 1 5 5\n");
}

static struct stack_cell_key
nth_key(uint32_t identity, uint32_t i)
{
	return (struct stack_cell_key){ identity, 1, 2 + i,
		KP_STACK_RUNNING, 20 };
}

/* The rest of a path is one cell of it, and the rest of those is one. */
TEST(cells_are_capped)
{
	struct stack_cells c = { .n = 0 };
	uint64_t samples = 0;

	assert_int_equal(stack_cells_path(&c, "web"), 1);
	for (uint32_t i = 0; i < STACK_CELLS_MAX; i++)
		assert_true(stack_cells_add(&c, nth_key(3, i), 1, 1));
	assert_int_equal(c.other, 0);
	for (uint32_t i = 0; i < 10; i++)
		assert_true(stack_cells_add(&c, nth_key(3, 50000 + i), 1, 1));
	assert_fields(c, IS(n, STACK_CELLS_MAX + 1)
	    IS(v[STACK_CELLS_MAX].key.stack, KP_STACK_OTHER)
	    IS(v[STACK_CELLS_MAX].key.path, 1) IS(other, 10));
	for (uint32_t i = 0; i < 2 * STACK_CELLS_OTHER; i++)
		assert_true(stack_cells_add(&c, nth_key(4 + i, 9), 1, 1));
	assert_int_equal(c.n, STACK_CELLS_MAX + STACK_CELLS_OTHER + 1);
	for (uint32_t i = 0; i < c.n; i++)
		samples += c.v[i].samples;
	assert_int_equal(samples, STACK_CELLS_MAX + 10 +
	    2 * STACK_CELLS_OTHER);
	stack_cells_free(&c);
}

TEST(paths_are_capped)
{
	struct stack_cells c = { .n = 0 };
	char path[32];

	for (uint32_t i = 0; i < STACK_PATHS_MAX; i++) {
		snprintf(path, sizeof(path), "p%u", i);
		assert_int_equal(stack_cells_path(&c, path), i + 1);
	}
	assert_int_equal(stack_cells_path(&c, "one more"), STACK_PATH_OTHER);
	assert_int_equal(stack_cells_path(&c, "p7"), 8);
	stack_cells_free(&c);
}

/* Recursion between tiers: of a deep path the entry and the last are kept. */
ONE(a_deep_path_is_cut)
{
	static const char *const fns[] = { "a", "e2" };
	struct kp_window *w;
	const char *caller = "e";
	uint32_t parts = 1;

	entry(&f, 1, "e", NULL, 1, 0);
	for (int i = 0; i < 100; i++) {
		call(&f, 1, fns[i % 2], caller, 1, 1 + i);
		caller = fns[i % 2];
	}
	sample(1, 1, 150, "running", IN_WORK);
	back_to(&f, 1, NULL, 200);
	expire(&f, 500);
	w = window_of(0);
	assert_int_equal(w->nstacks, 1);
	for (const char *p = w->stacks[0].path; *p != '\0'; p++)
		parts += *p == ';';
	assert_int_equal(parts, STACK_PATH_DEPTH);
	assert_memory_equal(w->stacks[0].path, "web;", 4);
	kp_window_free(w);
}

/* The running window can be looked at, and goes on. */
/*
 * Process 2 was answered by what 1 had sent, with its token, and asks 9, which has
 * a call open for it; nothing tells what 7 works for with such a token.
 */
ONE(a_token_of_another_request_tells_nothing)
{
	f.identity = "one";
	entry(&f, 1, "e", NULL, 1, 0);
	f.identity = "two";
	entry(&f, 2, "e", NULL, 2, 1);
	sample(9, 1, 35, "running", IN_WORK);
	f.serial = 22;
	f.last = 20;
	call_from(&f, 9, 2, "a", NULL, 1, 30);
	back_to(&f, 9, NULL, 60);
	sample(9, 1, 40, "running", IN_WORK);
	sample(2, 1, 42, "waiting", IN_CALL);
	sample(7, 1, 50, "running", IN_WORK);
	sample(8, 1, 50, "waiting", IN_LOOP);
	back_to(&f, 1, NULL, 70);
	expire(&f, 300);
	expires(0, 300);
	back_to(&f, 2, NULL, 310);
	expire(&f, 700);
	cells(0, "two [web] in a call 'work:ask/1;gen_server:call/3:2;"
	    "gen:do_call/4:1' 1 5 5\n"
	    "two [web;db] running 'work:do/1:7' 2 10 10\n");
	expires(0, 60000);
	assert_fields(*totals(0), IS(waiting, 0) IS(idle, 1));
	assert_int_equal(lost_samples(0, KP_LOSS_SAMPLE_GONE), 1);
}

ONE(a_copy_leaves_the_window)
{
	struct stack_scope s = scope(0);
	struct kp_window *w = calloc(1, sizeof(*w));

	one_request();
	sample(1, 1, 30, "running", IN_WORK);
	expire(&f, 400);
	assert_true(stack_join_copy(joins[0], &s, w));
	assert_fields(*w, IS(nstacks, 1) IS(stacks[0].frames, "work:do/1:7"));
	kp_window_free(w);
	cells(0, "undefined [web;db] running 'work:do/1:7' 1 5 5\n");
}

ONE(a_bad_message_is_refused)
{
	struct stack_scope s = scope(0);
	struct kp_usage *usage = NULL;

	assert_int_equal(stack_join_message(joins[0], &s, "\x83h\x04", 3,
	    &usage), KP_ESHORT);
	assert_fields(*totals(0), IS(lost, 0) IS(waiting, 0));
}

TESTS(NULL, NULL)
