/*
 * test_conserve.c - nothing vanishes: where events are lost, come twice or
 * much too late, where programs do what cannot be told apart, where every cap
 * is small and the agent trips in the middle, figures may be wrong, but each
 * event that began a request or a call is accounted for, and nothing is kept.
 *
 * The law, over every such event that was fed:
 *
 *	requests: entries = handed on + collided + tripped + disconnected
 *	          + request_cap
 *	calls:    calls = handed on in requests + handed on late + call_cap
 *	          + stale + with_request
 *
 * Losses that are of what is handed on: expired, identity_cap, stack_cap.
 *
 * The programs are those of vmsim.h.  KP_SEED=n repeats a round, KP_SOAK=s
 * goes on for s seconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <time.h>

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
	struct kp_stats *st;
	struct vmfed fed;
	uint64_t requests, calls, late, expired, others;
	uint64_t fed_in_all;
	struct kp_losses in_all;
} got;

static void
on_request(void *ctx, const struct kp_request *rq)
{
	const struct kp_requests_opts *o = &got.f.rs->o;

	(void)ctx;
	request_wellformed(rq);
	assert_true(rq->ncalls <= o->max_calls);
	assert_true(kp_requests_in_flight(got.f.rs, 0) <= o->max_requests);
	assert_true(got.f.rs->calls <= o->max_calls_in_flight);
	got.requests++;
	got.calls += rq->ncalls - 1;
	got.expired += rq->expired;
	got.others += rq->identity == KP_IDENT_OTHER;
	figures_handed(got.f.rs, rq);
	kp_stats_request(got.st, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	(void)ctx;
	assert_true(c->outcome != KP_OPEN);
	assert_true(c->outcome == KP_UNFINISHED || c->end >= c->start);
	got.late++;
	figures_handed_late(got.f.rs, c);
	kp_stats_late(got.st, c);
}

static uint32_t
small(uint32_t most)
{
	return chance(30) ? 3 + (uint32_t)rnd(most) : 0;
}

static void
got_init(const struct sim_traits *t)
{
	struct kp_requests_opts o = { .chain_is_ambiguous = t->otp25,
		.max_requests = small(10), .max_calls = small(20),
		.max_calls_in_flight = small(60), .max_stack = small(8),
		.max_identities = small(4) };

	feed_init(&got.f, t->finish ? conf_finish : conf_plain, &o);
	kp_requests_free(got.f.rs);
	got.f.opts.on_request = on_request;
	got.f.opts.on_late = on_late;
	got.f.opts.on_runaway = NULL;
	got.f.rs = kp_requests_new(&got.f.opts);
	feed_register(&got.f);
	got.st = kp_stats_new(got.f.conf, FEED_NODE);
	assert_non_null(got.f.rs);
	assert_non_null(got.st);
	kp_stats_names(got.st, got.f.rs);
	figures_reset(got.f.conf);
	got.requests = got.calls = got.late = got.expired = 0;
	got.others = 0;
}

static void
equal(const char *law, uint64_t fed, uint64_t accounted)
{
	if (fed != accounted)
		fail_msg("%s: %" PRIu64 " fed, %" PRIu64 " accounted for "
		    "(KP_SEED=%" PRIu64 ")", law, fed, accounted, seed);
}

static void
check_law(void)
{
	struct kp_losses l = { 0 };

	kp_requests_losses(got.f.rs, 0, &l);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		got.in_all.n[i] += l.n[i];
	got.fed_in_all += got.fed.entries + got.fed.calls;
	equal("requests", got.fed.entries, got.requests +
	    l.n[KP_LOSS_COLLIDED] + l.n[KP_LOSS_TRIPPED] +
	    l.n[KP_LOSS_DISCONNECTED] + l.n[KP_LOSS_REQUEST_CAP]);
	equal("calls", got.fed.calls, got.calls + got.late +
	    l.n[KP_LOSS_CALL_CAP] + l.n[KP_LOSS_STALE] +
	    l.n[KP_LOSS_WITH_REQUEST]);
	equal("expired", got.expired, l.n[KP_LOSS_EXPIRED]);
	equal("identities", got.others, l.n[KP_LOSS_IDENTITY_CAP]);
	equal("bad events", 0, l.n[KP_LOSS_BAD_EVENT]);
	assert_int_equal(kp_requests_entries(got.f.rs, 0), got.fed.entries);
	assert_true(got.f.opts.max_stack > 0 || l.n[KP_LOSS_STACK_CAP] == 0);
	assert_true(got.fed.abandoned > 0 ||
	    l.n[KP_LOSS_TRIPPED] + l.n[KP_LOSS_DISCONNECTED] == 0);
}

static struct sim_traits
pick_traits(void)
{
	return (struct sim_traits){ .otp25 = chance(50),
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
	struct kp_window *w;

	rnd_seed(seed);
	t = pick_traits();
	o.skew = chance(50) ? 100 * KP_NS_PER_MS : KP_NS_PER_S;
	o.entries_first = chance(50);
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
	check_law();
	requests_empty(got.f.rs);
	w = kp_stats_rotate(got.st, 0, KP_NS_PER_S);
	assert_non_null(w);
	figures_compare(w, seed);
	kp_window_free(w);
	kp_stats_free(got.st);
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
		KP_LOSS_DISCONNECTED, KP_LOSS_WITH_REQUEST };

	print_message("%" PRIu64 " calls and requests;", got.fed_in_all);
	for (size_t i = 0; i < (lossy ? 10 : 6); i++) {
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
static void
complete(void **state)
{
	(void)state;
	rounds(false);
}

static void
lossy(void **state)
{
	(void)state;
	rounds(true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(complete), cmocka_unit_test(lossy),
	};
	const char *s = getenv("KP_SEED");

	seed = s != NULL ? strtoull(s, NULL, 10) : 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
