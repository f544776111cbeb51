/*
 * test_conservation.c - nothing vanishes: where events are lost, come twice or
 * much too late, where programs do what cannot be told apart, where every cap
 * is small and the agent trips in the middle, figures may be wrong, but each
 * event that began a request or a call is accounted for, and nothing is kept.
 *
 * The law, over every such event that was fed, on each node by itself:
 *
 *	requests: entries = handed on + collided + tripped + disconnected
 *	          + request_cap
 *	calls:    calls = handed on in requests + handed on late + call_cap
 *	          + stale + crossed + with_request
 *
 * Losses that are of what is handed on: expired, identity_cap, stack_cap.
 *
 * Offsets between the nodes' clocks are wrong in every way, or not known.
 * The programs are those of vmsim.h.  KP_SEED=n repeats a round, KP_SOAK=s
 * goes on for s seconds.
 */
#include <inttypes.h>
#include <time.h>

#include "cases.h"
#include "figures.h"
#include "request_check.h"
#include "vmfeed.h"

static const char conf_plain[] =
    "{tiers, [{web, [{e,e,1}, {e2,e2,1}]},\n"
    "         {db, [{a,a,1}, {b,b,1}, {c,c,1}, {x,x,1}]},\n"
    "         {work, [{b,b,1}, {c,c,1}, {fin,fin,1}, {loop,loop,1}]}]}.\n"
    "{entry, [{e,e,1}, {e2,e2,1}]}.\n"
    "{sampling, all}.\n";
static const char conf_finish[] =
    "{tiers, [{web, [{e,e,1}, {e2,e2,1}]},\n"
    "         {db, [{a,a,1}, {b,b,1}, {c,c,1}, {x,x,1}]}]}.\n"
    "{entry, [{e,e,1}, {e2,e2,1}]}.\n"
    "{finish, {fin,fin,1}}.\n"
    "{sampling, all}.\n";

static uint64_t seed;

static struct {
	struct feed f;
	struct kp_stats *st[KP_NODES_MAX];
	uint32_t nodes;
	struct vmfed fed;
	struct {
		uint64_t requests, calls, late, crossed, expired, others;
	} on[SIM_NODES];
	uint64_t fed_in_all, crossed;
	struct kp_losses in_all;
} got;

static void
on_request(void *ctx, const struct kp_request *rq)
{
	const struct kp_requests_opts *o = &got.f.rs->o;

	(void)ctx;
	request_wellformed(rq);
	assert_true(rq->ncalls <= o->max_calls);
	assert_true(got.f.rs->in_flight <= o->max_requests);
	assert_true(got.f.rs->calls <= o->max_calls_in_flight);
	got.on[rq->node].requests++;
	for (uint32_t i = 1; i < rq->ncalls; i++)
		got.on[rq->calls[i].node].calls++;
	got.on[rq->node].expired += rq->expired;
	got.on[rq->node].others += rq->identity == KP_IDENT_OTHER;
	got.crossed += (rq->nodes & (rq->nodes - 1)) != 0;
	figures_handed(got.f.rs, rq);
	kp_stats_request(got.st[rq->node], rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	(void)ctx;
	figures_handed_late(got.f.rs, c);
	kp_stats_late(got.st[c->node], c);
	if (c->crossed) {
		got.on[c->node].crossed++;
		return;
	}
	assert_true(c->outcome != KP_OPEN);
	assert_true(c->outcome == KP_UNFINISHED || c->end >= c->start);
	got.on[c->node].late += !c->outlasts;	/* its request had it */
}

static uint32_t
small(uint32_t most)
{
	return chance(30) ? 3 + (uint32_t)rnd(most) : 0;
}

/* A clock, and an offset that may be about right, or anything, or unknown. */
static void
node_init(uint32_t i)
{
	kp_dur_ns wrong = (kp_dur_ns)rnd(10 * KP_NS_PER_MS) - 5 * KP_NS_PER_MS;

	got.st[i] = kp_stats_new(got.f.conf, feed_names[i]);
	assert_non_null(got.st[i]);
	kp_stats_names(got.st[i], got.f.rs);
	kp_stats_peers(got.st[i], got.st);
	if (got.nodes == 1)
		return;
	sim.clock[i].skew = (kp_dur_ns)rnd(2000 * KP_NS_PER_S) -
	    1000 * KP_NS_PER_S;
	sim.clock[i].ppm = (int64_t)rnd(200) - 100;
	if (chance(20))
		wrong *= 1000;
	if (chance(90))
		kp_requests_offset(got.f.rs, i, wrong - sim.clock[i].skew,
		    chance(50) ? 5 * KP_NS_PER_MS : 0);
}

static void
got_init(const struct sim_traits *t)
{
	struct kp_requests_opts o = { .chain_is_ambiguous = t->otp25,
		.max_requests = small(10), .max_calls = small(20),
		.max_calls_in_flight = small(60), .max_stack = small(8),
		.max_identities = small(4) };

	feed_init(&got.f, t->finish ? conf_finish : conf_plain, &o);
	got.nodes = t->nodes > 1 ? t->nodes : 1;
	feed_hand_on(&got.f, got.nodes, on_request, on_late);
	memset(got.st, 0, sizeof(got.st));
	memset(got.on, 0, sizeof(got.on));
	for (uint32_t i = 0; i < got.nodes; i++)
		node_init(i);
	figures_reset(got.f.conf);
}

static void
equal(const char *law, uint64_t fed, uint64_t accounted)
{
	if (fed != accounted)
		fail_msg("%s: %" PRIu64 " fed, %" PRIu64 " accounted for "
		    "(KP_SEED=%" PRIu64 ")", law, fed, accounted, seed);
}

static void
check_law(uint32_t n)
{
	struct kp_losses l = { 0 };

	kp_requests_losses_take(got.f.rs, n, &l);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		got.in_all.n[i] += l.n[i];
	got.fed_in_all += got.fed.entries[n] + got.fed.calls[n];
	equal("requests", got.fed.entries[n], got.on[n].requests +
	    l.n[KP_LOSS_COLLIDED] + l.n[KP_LOSS_TRIPPED] +
	    l.n[KP_LOSS_DISCONNECTED] + l.n[KP_LOSS_REQUEST_CAP]);
	equal("calls", got.fed.calls[n], got.on[n].calls + got.on[n].late +
	    l.n[KP_LOSS_CALL_CAP] + l.n[KP_LOSS_STALE] +
	    l.n[KP_LOSS_CROSSED] +
	    l.n[KP_LOSS_WITH_REQUEST]);
	equal("crossed", got.on[n].crossed, l.n[KP_LOSS_CROSSED]);
	equal("expired", got.on[n].expired, l.n[KP_LOSS_EXPIRED]);
	equal("identities", got.on[n].others, l.n[KP_LOSS_IDENTITY_CAP]);
	equal("bad events", 0, l.n[KP_LOSS_BAD_EVENT]);
	assert_int_equal(kp_requests_entries(got.f.rs, n), got.fed.entries[n]);
	assert_true(got.f.opts.max_stack > 0 || l.n[KP_LOSS_STACK_CAP] == 0);
	assert_true(got.fed.abandoned > 0 ||
	    l.n[KP_LOSS_TRIPPED] + l.n[KP_LOSS_DISCONNECTED] +
	    l.n[KP_LOSS_LEFT] == 0);
}

static void
check_window(uint32_t n)
{
	struct kp_window *w = kp_stats_rotate(got.st[n], 0, KP_NS_PER_S);

	assert_non_null(w);
	figures_compare(w, n, seed);
	kp_window_free(w);
	kp_stats_free(got.st[n]);
}

static struct sim_traits
pick_traits(void)
{
	return (struct sim_traits){ .otp25 = chance(50),
		.nodes = chance(60) ? 1 + (unsigned)rnd(4) : 1,
		.rpc = (unsigned)rnd(30),
		.nested = chance(50), .recursive = chance(50),
		.exact = chance(50), .finish = chance(20),
		.loops = chance(20), .pool = chance(30), .anything = true,
		.raise = (unsigned)rnd(12), .tail = (unsigned)rnd(40),
		.spawn = (unsigned)rnd(10), .cast = (unsigned)rnd(20),
		.defer = (unsigned)rnd(40), .die = (unsigned)rnd(4),
		.timer = (unsigned)rnd(30), .cut = (unsigned)rnd(4) };
}

static void
one_round(bool lossy)
{
	struct sim_traits t;
	struct vmfeed_opts o = { 0 };

	rnd_seed(seed);
	t = pick_traits();
	o.skew = chance(50) ? 100 * KP_NS_PER_MS : KP_NS_PER_S;
	o.entries_first = chance(50);
	for (unsigned i = 0; i < t.nodes && t.nodes > 1; i++)
		o.delay[i] = chance(50) ? 0 : (kp_dur_ns)rnd(3 * KP_NS_PER_S);
	o.marks = chance(30) ? (unsigned)rnd(20) : 0;
	if (lossy) {
		o.drop = (unsigned)rnd(30);
		o.twice = (unsigned)rnd(20);
		o.very_late = (unsigned)rnd(10);
		o.abandons = chance(50) ? (unsigned)rnd(100) : 0;
	}
	sim_make(&t, 48);
	got_init(&t);
	vmfeed(&got.f, &o, &got.fed);
	vmfeed_expire_all(&got.f, &got.fed);
	requests_empty(got.f.rs);
	for (uint32_t i = 0; i < got.nodes; i++) {
		check_law(i);
		check_window(i);
	}
	feed_free(&got.f);
}

/* That there was something to lose, for every reason there is here. */
static void
check_all_causes(bool lossy)
{
	static const enum kp_loss causes[] = { KP_LOSS_EXPIRED,
		KP_LOSS_REQUEST_CAP, KP_LOSS_CALL_CAP, KP_LOSS_STACK_CAP,
		KP_LOSS_IDENTITY_CAP, KP_LOSS_STALE,
		/* lossy: */ KP_LOSS_COLLIDED, KP_LOSS_TRIPPED,
		KP_LOSS_DISCONNECTED, KP_LOSS_WITH_REQUEST, KP_LOSS_LEFT };

	print_message("%" PRIu64 " calls and requests, %" PRIu64
	    " of several nodes;", got.fed_in_all, got.crossed);
	assert_true(got.crossed > 0);
	got.crossed = 0;
	for (size_t i = 0; i < (lossy ? 11 : 6); i++) {
		print_message(" %" PRIu64 " %s", got.in_all.n[causes[i]],
		    kp_loss_name(causes[i]));
		assert_true(got.in_all.n[causes[i]] > 0);
	}
	print_message("\n");
	got.fed_in_all = 0;
	got.in_all = (struct kp_losses){ 0 };
}

static void
rounds(bool lossy)
{
	const char *soak = getenv("KP_SOAK");
	time_t until = time(NULL) + (soak != NULL ? atoi(soak) : 0);
	uint64_t first = seed;

	for (int i = 0; i < 200 || time(NULL) < until; i++) {
		one_round(lossy);
		if (getenv("KP_SEED") != NULL && soak == NULL)
			break;
		seed++;
	}
	if (getenv("KP_SEED") == NULL)
		check_all_causes(lossy);
	seed = first;
	sim_free();
}

/* Every event comes once, but caps are small. */
TEST(complete)
{
	rounds(false);
}

TEST(lossy)
{
	rounds(true);
}

/* KP_SEED=n repeats a run. */
FIXTURE(pick_seed)
{
	const char *s = getenv("KP_SEED");

	seed = s != NULL ? strtoull(s, NULL, 10) : 1;
	return 0;
}

TESTS_ONCE(pick_seed, NULL)
