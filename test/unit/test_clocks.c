/*
 * test_clocks.c - random programs on nodes whose clocks nobody knows exactly:
 * offsets are off by as much as they say they may be, and clocks drift.
 *
 * What must be true whatever the offsets are:
 *
 *	- what was measured on one clock: durations and outcomes, to the ns;
 *	- nothing begins before its request, or before whoever made it;
 *	- no self time is negative;
 *	- what one process tells of its calls: how far apart they began.
 *
 * Where the offsets are off by less than messages take, the tree is the true
 * one, and of a request of which nothing runs at the same time the self times
 * add up to the total, to the ns.  Messages between nodes take 20 us at least
 * here, and processes wait for the next tick of 65 us.  Where they are off by
 * more, several trees may be possible, and how many requests still add up is
 * counted: see least.  KP_SEED=n repeats a round.
 */
#include <inttypes.h>

#include "cases.h"
#include "kprofd/stats.h"
#include "request_check.h"
#include "vmfeed.h"

#define DRIFT_PPM 100

static const char conf[] =
    "{tiers, [{web, [{e,e,1}, {e2,e2,1}]},\n"
    "         {db, [{a,a,1}, {b,b,1}, {c,c,1}, {x,x,1}]},\n"
    "         {work, [{d,d,1}, {f,f,1}, {y,y,1}, {loop,loop,1}]}]}.\n"
    "{entry, [{e,e,1}, {e2,e2,1}]}.\n"
    "{sampling, all}.\n";

static struct {
	struct feed f;
	struct vmfed fed;
	uint64_t seed;
	bool drifts, exact;
	kp_dur_ns error;	/* of one offset, at most */
	/* counted */
	uint64_t requests, crossed, alone, summed, calls, parents, moved;
} got;

#define CHECK(cond)                                                      \
	do {                                                             \
		if (!(cond))                                             \
			fail_msg("%s: #%" PRIu64 " (KP_SEED=%" PRIu64    \
			    ")", #cond, rq->label, got.seed);            \
	} while (0)

/* Did it last as long, by the clock of its node? */
static bool
lasted(const struct kp_call *c, const struct sim_call *t)
{
	return c->outcome == KP_UNFINISHED ? t->end_event < 0 :
	    t->end_event >= 0 && c->end - c->start ==
	    sim_clock(c->node, t->end) - sim_clock(c->node, t->start);
}

/*
 * The truth about the calls that were handed on: of those of one process,
 * request and function that lasted as long, in the order in which they began.
 */
static void
find_truth(const struct kp_request *rq, int *truth)
{
	const struct kp_call *c;
	char *used = calloc((size_t)sim.n + 1, 1);
	const char *text;
	int t;

	assert_non_null(used);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		text = kp_requests_fn(got.f.rs, c->fn)->text;
		for (t = 0; t < sim.n; t++)
			if (!used[t] && sim.v[t].label == rq->label &&
			    sim.v[t].proc == (uint32_t)c->proc &&
			    strncmp(sim.v[t].fn, text, strcspn(text, ":")) ==
			    0 && (sim.v[t].loose || lasted(c, &sim.v[t])))
				break;
		CHECK(t < sim.n);
		used[t] = 1;
		truth[i] = t;
	}
	free(used);
}

/* To the ns what its node's clock said. */
static void
check_call(const struct kp_request *rq, uint32_t i, const struct sim_call *t)
{
	const struct kp_call *c = &rq->calls[i];

	CHECK(c->node == sim_node(t->proc));
	if (t->loose)
		return;
	CHECK(c->outcome == (t->end_event >= 0 ? t->outcome : KP_UNFINISHED));
}

static void
check_order(const struct kp_request *rq, const int *truth)
{
	const struct kp_call *c, *p;

	for (uint32_t i = 1; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		CHECK(c->start >= rq->start);
		got.calls++;
		if (c->parent == KP_NONE)
			continue;
		p = &rq->calls[c->parent];
		CHECK(c->start >= p->start);
		got.moved += c->node != p->node;
		if (p->proc == c->proc && got.exact)
			CHECK(c->start - p->start == sim_clock(c->node,
			    sim.v[truth[i]].start) - sim_clock(c->node,
			    sim.v[truth[c->parent]].start));
	}
}

/* The innermost that its sender, or itself, had open: the true parent. */
static int
true_parent(const struct kp_request *rq, const int *truth, uint32_t i)
{
	const struct sim_call *t = &sim.v[truth[i]], *o;
	int best = -1;

	for (uint32_t j = 0; j < rq->ncalls; j++) {
		o = &sim.v[truth[j]];
		if (t->parent == truth[j])
			return (int)j;
		if (j != i && o->proc == t->from && o->start < t->start &&
		    o->end > t->start &&
		    (best < 0 || o->start > sim.v[truth[best]].start))
			best = (int)j;
	}
	return best;
}

static void
check_parents(const struct kp_request *rq, const int *truth)
{
	int want;

	for (uint32_t i = 1; i < rq->ncalls; i++) {
		want = true_parent(rq, truth, i);
		got.parents += want >= 0;
		if (want >= 0)
			CHECK((uint32_t)want == rq->calls[i].parent);
	}
}

static void
check_selfs(const struct kp_request *rq, bool alone)
{
	kp_dur_ns *self = calloc(rq->ncalls, sizeof(*self)), sum = 0;
	kp_dur_ns total = rq->end - rq->start, off;

	assert_non_null(self);
	assert_int_equal(kp_request_self(rq, self), KP_OK);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		CHECK(self[i] >= -1);
		if (!rq->calls[i].async && self[i] >= 0)
			sum += self[i];
	}
	free(self);
	if (!alone)
		return;
	off = sum > total ? sum - total : total - sum;
	got.alone++;
	got.summed += off <= (got.drifts ? total / 1000000 * DRIFT_PPM * 4 +
	    1000 : 0);
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	const struct sim_label *l = &sim.labels[rq->label];
	int *truth = calloc(rq->ncalls, sizeof(*truth));
	bool sure = kp_outcome_timed(rq->outcome);

	(void)ctx;
	assert_non_null(truth);
	request_wellformed(rq);
	find_truth(rq, truth);
	got.requests++;
	got.crossed += (rq->nodes & (rq->nodes - 1)) != 0;
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		check_call(rq, i, &sim.v[truth[i]]);
		sure &= !sim.v[truth[i]].loose;
	}
	check_order(rq, truth);
	if (sure && !l->parallel && got.exact)
		check_parents(rq, truth);
	check_selfs(rq, sure && !l->parallel);
	free(truth);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	(void)ctx;
	assert_true(c->outcome == KP_UNFINISHED || c->end >= c->start);
}

static void
nodes_init(const struct sim_traits *t)
{
	kp_dur_ns wrong;

	for (uint32_t i = 0; i < t->nodes; i++) {
		sim.clock[i].skew = (kp_dur_ns)rnd(2000000 * KP_NS_PER_S) -
		    1000000 * KP_NS_PER_S;
		if (got.drifts)
			sim.clock[i].ppm = (int64_t)rnd(2 * DRIFT_PPM) -
			    DRIFT_PPM;
		wrong = got.error > 0 ? (kp_dur_ns)rnd(2 * got.error) -
		    got.error : 0;
		kp_requests_offset(got.f.rs, i, wrong - sim.clock[i].skew,
		    got.error + (got.drifts ? 20 * KP_NS_PER_MS : 0));
	}
}

static void
one_round(const struct sim_traits *t)
{
	struct vmfeed_opts o = { .skew = 50 * KP_NS_PER_MS };

	rnd_seed(got.seed);
	sim_make(t, 48);
	feed_init(&got.f, conf, NULL);
	feed_hand_on(&got.f, t->nodes, on_request, on_late);
	nodes_init(t);
	vmfeed(&got.f, &o, &got.fed);
	vmfeed_expire_all(&got.f, &got.fed);
	requests_empty(got.f.rs);
	feed_free(&got.f);
}

static void
rounds(struct sim_traits t, kp_dur_ns error, bool drifts, unsigned least)
{
	const char *s = getenv("KP_SEED");

	got.error = error;
	got.drifts = drifts;
	got.exact = !drifts && error <= 5 * KP_NS_PER_US;
	got.requests = got.crossed = got.summed = got.calls = got.parents = 0;
	got.moved = got.alone = 0;
	got.seed = s != NULL ? strtoull(s, NULL, 10) : 1;
	for (int i = 0; i < (s != NULL ? 1 : 25); i++, got.seed++) {
		t.nodes = 2 + (unsigned)i % 3;
		one_round(&t);
	}
	print_message("%" PRIu64 " requests, %" PRIu64 " of several nodes; %"
	    PRIu64 " calls, %" PRIu64 " made from another node, %" PRIu64
	    " parents; the selfs of %" PRIu64 " of %" PRIu64 " add up\n",
	    got.requests, got.crossed, got.calls, got.moved, got.parents,
	    got.summed, got.alone);
	assert_true(got.crossed > 0 && got.moved > 0 && got.alone > 0);
	assert_true(got.summed * 100 >= got.alone * least ||
	    getenv("KP_SEED") != NULL);
	sim_free();
}

/* The offsets are off by less than any message takes. */
TEST(nearly_known)
{
	rounds((struct sim_traits){ .recursive = true }, 5 * KP_NS_PER_US,
	    false, 100);
	rounds((struct sim_traits){ .tail = 20 }, 5 * KP_NS_PER_US, false,
	    100);
	assert_true(got.parents > 0);
}

/* By far more than that. */
TEST(vague)
{
	rounds((struct sim_traits){ .recursive = true }, KP_NS_PER_MS, false,
	    90);
	rounds((struct sim_traits){ .tail = 20 }, 20 * KP_NS_PER_MS, false,
	    90);
	rounds((struct sim_traits){ .tail = 20, .spawn = 10 },
	    5 * KP_NS_PER_MS, false, 90);
}

TEST(drifting)
{
	rounds((struct sim_traits){ .recursive = true }, KP_NS_PER_MS, true,
	    90);
	rounds((struct sim_traits){ .spawn = 10, .defer = 20 }, KP_NS_PER_MS,
	    true, 90);
}

TESTS(NULL, NULL)
