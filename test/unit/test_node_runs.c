/*
 * test_node_runs.c - what is shared of several targets' requests, and what each of
 * them has: who counts what, who goes and comes, and another configuration.
 *
 * Events go in through feed.h, whose nodes are runs in the same order.
 */
#include "cases.h"
#include "feed.h"
#include "daemon/daemon.h"
#include "daemon/nodes/target.h"
#include "stack_feed.h"

static const char text[] =
    "{tiers, [{web, {b,b,1}}, {db, {a,a,1}}]}.\n"
    "{entry, {e,e,1}}.\n"
    "{sampling, all}.\n";

/* A node as functions of request.h name it. */
#define IN(i) runs[i].conf_run->rs, runs[i].slot

#define RUNS (KP_NODES_MAX + 1)

static struct feed f;
static struct node_runs *a;
static struct node_run runs[RUNS];
static struct { uint64_t requests; } told[RUNS];
static struct target targets[RUNS];

/* In place of the daemon's. */
void __wrap_daemon_on_request(struct target *t, const struct kp_request *rq);

void
__wrap_daemon_on_request(struct target *t, const struct kp_request *rq)
{
	(void)rq;
	told[t - targets].requests++;
}

static struct kp_conf *
parse(void)
{
	struct kp_conf *c;
	struct kp_diags d;

	assert_int_equal(kp_conf_parse(&c, text, strlen(text), &d), KP_OK);
	kp_diags_free(&d);
	return c;
}

static void
begin(unsigned i, const char *node)
{
	assert_int_equal(node_run_begin(&runs[i], a, node,
	    &targets[i]), KP_OK);
}

/* Whose requests the feed's events are of. */
static void
feed_to(const struct node_run *p)
{
	f.rs = p->conf_run->rs;
}

FIXTURE(setup)
{
	memset(told, 0, sizeof(told));
	feed_init(&f, text, NULL);
	kp_requests_free(f.rs);
	a = node_runs_new(NULL, f.conf);
	assert_non_null(a);
	begin(0, feed_names[0]);
	begin(1, feed_names[1]);
	feed_to(&runs[0]);
	f.joined[1] = true;
	return 0;
}

FIXTURE(teardown)
{
	node_run_end(&runs[0]);
	node_run_end(&runs[1]);
	node_runs_free(a);
	f.rs = NULL;
	feed_free(&f);
	return 0;
}

/* e of node 0 asks node 1 through b. */
static void
ask(uint64_t label, double ms)
{
	entry(&f, 1, "e", "u0", label, ms);
	call(&f, 1, "b", "e", label, ms + 1);
	call_from(&f, AT(1, 1), 1, "a", "u0", label, ms + 2);
}

static void
answer(double ms)
{
	back_to(&f, AT(1, 1), "u0", ms + 5);
	back_to(&f, 1, "e", ms + 6);
	back_to(&f, 1, "u0", ms + 10);
}

/* Of a window: the calls of a tier, all identities. */
static uint64_t
calls_in(const struct kp_window *w, const char *tier)
{
	for (size_t i = 0; i < w->ncells; i++)
		if (strcmp(w->cells[i].tier, tier) == 0 &&
		    strcmp(w->cells[i].identity, "_total") == 0)
			return w->cells[i].calls;
	return 0;
}

TEST(each_has_its_own)
{
	struct kp_window *w[2];

	ask(1, 0);
	answer(0);
	expire(&f, 400);
	w[0] = node_run_rotate(&runs[0], kp_moment_now());
	w[1] = node_run_rotate(&runs[1], kp_moment_now());
	assert_string_equal(w[0]->node, feed_names[0]);
	assert_string_equal(w[1]->node, feed_names[1]);
	assert_int_equal(w[0]->sampled, 1);
	assert_int_equal(w[1]->sampled, 0);
	assert_int_equal(calls_in(w[0], "web"), 1);
	assert_int_equal(calls_in(w[0], "db"), 0);
	assert_int_equal(calls_in(w[1], "web"), 0);
	assert_int_equal(calls_in(w[1], "db"), 1);
	assert_int_equal(told[0].requests, 1);
	assert_int_equal(told[1].requests, 0);
	assert_int_equal(kp_requests_entries(IN(0)), 1);
	assert_int_equal(kp_requests_entries(IN(1)), 0);
	kp_window_free(w[0]);
	kp_window_free(w[1]);
}

/* Of process 1 of that node. */
static void
sample(unsigned i, uint64_t label, double ms, const char *frames)
{
	const struct kp_stack_counts counts = { .taken = 1 };
	struct kp_usage *usage;
	struct kp_buf b;

	kp_buf_init(&b, 1 << 12);
	feed_samples(&b, feed_time(ms), &counts, &(struct fed_sample){
	    .id = 1, .label = (int64_t)label, .at = feed_time(ms),
	    .time = KP_NS_PER_MS, .status = "running", .frames = frames }, 1);
	assert_int_equal(node_run_stacks(&runs[i], (struct kp_span){ b.p,
	    (uint32_t)b.len }, &usage), KP_OK);
	kp_buf_free(&b);
}

/* The cell of a window that is to have one; "": none. */
static void
has_stack(unsigned i, const char *path, const char *frames)
{
	struct kp_window *w = node_run_rotate(&runs[i], kp_moment_now());

	assert_int_equal(w->nstacks, frames[0] != '\0');
	if (w->nstacks > 0) {
		assert_string_equal(w->stacks[0].path, path);
		assert_string_equal(w->stacks[0].frames, frames);
		assert_string_equal(w->stacks[0].identity, "undefined");
	}
	kp_window_free(w);
}

/* Samples of each node are in its own window, though the request is node 0's. */
TEST(stacks_are_of_their_node)
{
	struct kp_window *w;

	ask(1, 0);
	sample(0, 1, 1.5, "m:asks/0:1");
	sample(1, 1, 3, "m:works/0:2");
	answer(0);
	expire(&f, 400);
	w = node_run_copy(&runs[1], kp_moment_now());
	assert_int_equal(w->nstacks, 1);
	kp_window_free(w);
	has_stack(0, "web", "m:asks/0:1");
	has_stack(1, "web;db", "m:works/0:2");
	has_stack(1, "", "");
	assert_int_equal(node_run_stacks_totals(&runs[0]).joined, 1);
	assert_int_equal(node_run_stacks_totals(&runs[1]).sampler.taken, 1);
}

/* Node 1 goes away while a sample of it waits: the request has none of it. */
TEST(stacks_of_a_lost_node)
{
	struct kp_window *w;

	ask(1, 0);
	sample(0, 1, 1.5, "m:asks/0:1");
	sample(1, 1, 3, "m:works/0:2");
	node_run_stacks_drop(&runs[1]);
	answer(0);
	expire(&f, 400);
	w = node_run_rotate(&runs[1], kp_moment_now());
	assert_fields(*w, IS(nstacks, 0) IS(losses.n[KP_LOSS_SAMPLE_GONE], 1));
	kp_window_free(w);
	has_stack(0, "web", "m:asks/0:1");
}

/*
 * During a reload one part has switched: requests of either configuration have
 * the samples of their own, and nothing keeps a name of the old one.
 */
TEST(stacks_and_a_reload)
{
	struct kp_conf *next = parse();
	struct kp_window *w;

	entry(&f, 1, "e", "u0", 1, 0);
	sample(0, 1, 1, "m:before/0:1");
	sample(1, 1, 1, "m:other/0:1");
	assert_int_equal(node_runs_prepare(a, next), KP_OK);
	back_to(&f, 1, "u0", 10);
	expire(&f, 400);
	sample(0, 2, 500, "m:never/0:1");
	has_stack(0, "", "m:before/0:1");
	node_run_switch(&runs[0]);
	feed_to(&runs[0]);
	entry(&f, 1, "e", "u0", 3, 1000);
	sample(0, 3, 1001, "m:later/0:1");
	back_to(&f, 1, "u0", 1010);
	kp_requests_close_due(IN(0), feed_time(1400));
	w = node_run_rotate(&runs[0], kp_moment_now());
	assert_fields(*w, IS(losses.n[KP_LOSS_SAMPLE_GONE], 1) IS(nstacks, 1)
	    IS(stacks[0].frames, "m:later/0:1"));
	kp_window_free(w);
	node_run_switch(&runs[1]);
	kp_requests_free(node_runs_switch(a));
	kp_conf_free(f.conf);
	f.conf = next;
}

/* The other one's request goes on; who comes next is not taken for it. */
TEST(one_leaves)
{
	const char *name = runs[1].node;
	struct kp_window *w;
	uint32_t place = runs[1].slot;
	uint64_t left;

	ask(1, 0);
	node_run_leave(&runs[1], KP_LOSS_DISCONNECTED);
	f.joined[1] = false;
	w = node_run_rotate(&runs[1], kp_moment_now());
	left = w->losses.n[KP_LOSS_LEFT];
	kp_window_free(w);
	node_run_end(&runs[1]);
	begin(1, "another@h");
	assert_int_not_equal(runs[1].slot, place);
	assert_int_not_equal(runs[1].slot, KP_NONE);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "u0", 10);
	expire(&f, 2400);
	assert_int_equal(told[0].requests, 1);
	assert_ptr_equal(runs[0].conf_run->names[place], name);
	w = node_run_rotate(&runs[0], kp_moment_now());
	assert_int_equal(left + w->losses.n[KP_LOSS_LEFT], 2);
	kp_window_free(w);
	w = node_run_rotate(&runs[1], kp_moment_now());
	assert_int_equal(calls_in(w, "db"), 0);
	kp_window_free(w);
}

/* As many as there are places, and calls on one that has gone. */
TEST(no_place)
{
	char name[32];
	unsigned last = KP_NODES_MAX;

	for (unsigned i = 2; i < last; i++) {
		snprintf(name, sizeof(name), "x%u@h", i);
		begin(i, name);
		assert_int_not_equal(runs[i].slot, KP_NONE);
	}
	ask(1, 0);
	node_run_leave(&runs[1], KP_LOSS_DISCONNECTED);
	f.joined[1] = false;
	begin(last, "late@h");
	assert_int_equal(runs[last].slot, KP_NONE);
	assert_false(node_run_join(&runs[last]));
	kp_requests_events(IN(last), &(struct kp_event){ .kind = KP_EV_ENTRY },
	    1);
	assert_int_equal(kp_requests_entries(IN(last)), 0);
	back_to(&f, 1, "u0", 10);
	expire(&f, 2400);
	assert_int_equal(told[0].requests, 1);
	assert_true(node_run_join(&runs[last]));
	for (unsigned i = 2; i <= last; i++)
		node_run_end(&runs[i]);
}

/* One after the other: in between they have nothing to do with each other. */
TEST(another_configuration)
{
	struct kp_requests *old;
	struct kp_conf *next = parse();

	node_run_probe(&runs[0], 27, false, false, false);
	node_run_offset(&runs[0], 5, 1);
	assert_int_equal(node_runs_prepare(a, next), KP_OK);
	node_runs_discard(a);
	assert_ptr_equal(runs[0].conf_run->conf, f.conf);
	assert_int_equal(node_runs_prepare(a, next), KP_OK);
	ask(1, 0);
	kp_requests_abandon(IN(0), KP_LOSS_RELOADED);
	node_run_switch(&runs[0]);
	assert_ptr_equal(runs[0].conf_run->conf, next);
	assert_ptr_equal(runs[1].conf_run->conf, f.conf);
	answer(0);
	expire(&f, 400);
	assert_int_equal(told[0].requests, 0);
	node_run_switch(&runs[1]);
	old = node_runs_switch(a);
	feed_to(&runs[0]);
	assert_ptr_not_equal(old, f.rs);
	kp_requests_free(old);
	ask(2, 500);
	answer(500);
	expire(&f, 900);
	assert_int_equal(told[0].requests, 1);
	teardown(NULL);
	kp_conf_free(next);
	setup(NULL);
}

TESTS(setup, teardown)
