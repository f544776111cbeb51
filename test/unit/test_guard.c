/*
 * test_guard.c - what keeps the target well, and the figures honest, while load
 * and sampling change: the sampler, the overload guard, and the ledger that
 * explains every entry call.
 */
#include <inttypes.h>

#include "cases.h"
#include "kprofd/cost.h"
#include "kprofd/guard.h"
#include "daemon/nodes/target.h"
#include "daemon/nodes/ledger.h"
#include "kprofd/sampling.h"

static uint64_t rnd_state;

static uint64_t
rnd(uint64_t below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 11) % below;
}

/* ---- sampling ---- */

static struct kp_sampler
sampler(enum kp_sampling_kind kind, uint32_t n)
{
	struct kp_sampling conf = { kind, n };
	struct kp_sampler s;

	kp_sampler_init(&s, &conf);
	return s;
}

TEST(fixed_rates_stay)
{
	struct kp_sampler s = sampler(KP_SAMPLE_ALL, 0);

	assert_int_equal(s.one_in, 1);
	assert_false(kp_sampler_rate(&s, 1000000, KP_NS_PER_S));
	s = sampler(KP_SAMPLE_ONE_IN, 10);
	assert_int_equal(s.one_in, 10);
	assert_false(kp_sampler_rate(&s, 1000000, KP_NS_PER_S));
	assert_int_equal(s.one_in, 10);
}

TEST(per_second)
{
	struct kp_sampler s = sampler(KP_SAMPLE_PER_SECOND, 1000);

	assert_int_equal(s.one_in, 1);
	assert_false(kp_sampler_rate(&s, 1000, KP_NS_PER_S));
	assert_true(kp_sampler_rate(&s, 1001, KP_NS_PER_S));
	assert_int_equal(s.one_in, 2);
	assert_true(kp_sampler_rate(&s, 10000, KP_NS_PER_S));
	assert_int_equal(s.one_in, 10);
	/* Some noise changes nothing; less than seven tenths does. */
	assert_false(kp_sampler_rate(&s, 7001, KP_NS_PER_S));
	assert_true(kp_sampler_rate(&s, 6999, KP_NS_PER_S));
	assert_int_equal(s.one_in, 7);
	/* a short second counts as what it is */
	assert_true(kp_sampler_rate(&s, 20000, KP_NS_PER_S / 2));
	assert_int_equal(s.one_in, 40);
	/* down by half at most */
	assert_true(kp_sampler_rate(&s, 0, KP_NS_PER_S));
	assert_int_equal(s.one_in, 20);
	assert_false(kp_sampler_rate(&s, 100000, 0));
	assert_false(kp_sampler_rate(&s, 100000, -1));
	assert_true(kp_sampler_rate(&s, UINT64_MAX, 1));
	assert_int_equal(s.one_in, KP_ONE_IN_MAX);
}

/* What all requests cost gives the weight of one in a slice, which falls by half a cycle. */
TEST(slices)
{
	struct kp_sampler s = sampler(KP_SAMPLE_SLICES, 1);

	assert_int_equal(s.one_in, 1);
	assert_false(kp_sampler_rate(&s, 1000000, KP_NS_PER_S));
	assert_false(kp_sampler_spent(&s, 1.5, 0.2, 2));
	assert_true(kp_sampler_spent(&s, 32, 0, 2));
	assert_int_equal(s.one_in, 20);
	/* as dear as it may be, with some room */
	assert_false(kp_sampler_spent(&s, 1.6, 0, 2));
	for (unsigned i = 0; i < 6; i++)
		kp_sampler_spent(&s, 0.1, 0.1, 2);
	assert_int_equal(s.one_in, 1);
	/* an overload, and a share that is asked for */
	assert_true(kp_sampler_cut(&s, 4));
	assert_int_equal(s.one_in, 4);
	s = sampler(KP_SAMPLE_SLICES, 8);
	assert_int_equal(s.one_in, 8);
	kp_sampler_spent(&s, 1e9, 0, 2);
	assert_int_equal(s.one_in, KP_SLICES_MAX);
}

/* Never more than what was asked for; and, where load lasts, not much less. */
TEST(sampled_rate_is_bounded)
{
	struct kp_sampler s;
	uint64_t rate;
	uint32_t n, was;
	bool changed;

	rnd_state = 1;
	for (int i = 0; i < 200; i++) {
		n = 1 + (uint32_t)rnd(5000);
		s = sampler(KP_SAMPLE_PER_SECOND, n);
		for (int t = 0; t < 100; t++) {
			rate = rnd(UINT64_C(1) << (1 + rnd(24)));
			was = s.one_in;
			changed = kp_sampler_rate(&s, rate, KP_NS_PER_S);
			assert_int_equal(changed, was != s.one_in);
			assert_in_range(s.one_in, 1, KP_ONE_IN_MAX);
			assert_true(s.one_in == KP_ONE_IN_MAX ||
			    rate <= (uint64_t)s.one_in * n);
			assert_true(s.one_in >= was / 2);
		}
		for (int t = 0; t < 17; t++)
			kp_sampler_rate(&s, rate, KP_NS_PER_S);
		assert_true(s.one_in <= 2 ||
		    rate * 10 >= (uint64_t)(s.one_in - 2) * n * 6);
		assert_false(kp_sampler_rate(&s, rate, KP_NS_PER_S));
	}
}

/* A tenth of a second of entries, as sampling lets them through. */
static bool
tenth(struct kp_sampler *s, kp_target_ns *now, uint64_t true_rate)
{
	uint64_t n = true_rate / 10 / s->one_in;

	while (n-- > 0)
		kp_sampler_seen(s, s->one_in);
	*now += KP_QUICK_LOOK;
	return kp_sampler_quick(s, *now);
}

/*
 * A load that sets in was traced in full until the next second, and where
 * tracing held it back, it rose again by as much as each second allowed.
 */
TEST(load_that_sets_in)
{
	struct kp_sampler s = sampler(KP_SAMPLE_PER_SECOND, 1000);
	kp_target_ns now = -KP_NS_PER_S * 1000;

	tenth(&s, &now, 100);		/* where it begins to look */
	for (int i = 0; i < 10; i++)
		assert_false(tenth(&s, &now, 900));
	assert_int_equal(s.one_in, 1);
	assert_true(tenth(&s, &now, 35000));
	assert_int_equal(s.one_in, 35);
	/* what lasts changes nothing, nor does some noise */
	for (uint64_t i = 0; i < 20; i++)
		assert_false(tenth(&s, &now, 30000 + i * 1000));
	/* it never falls this way: that takes a whole second */
	assert_false(tenth(&s, &now, 0));
	assert_int_equal(s.one_in, 35);
	/* no rate from a clock that ran back */
	for (int i = 0; i < 1000; i++)
		kp_sampler_seen(&s, 35);
	assert_false(kp_sampler_quick(&s, now - KP_NS_PER_S));
	/* few entries are no evidence, whatever they stand for */
	now = 0;
	kp_sampler_quick(&s, now);
	for (int i = 0; i < KP_QUICK_LEAST - 1; i++)
		kp_sampler_seen(&s, 1000000);
	assert_false(kp_sampler_quick(&s, KP_QUICK_LOOK));
}

/* Throttled by tracing: the rate that is seen rises with one_in. */
TEST(throttled_load_is_caught)
{
	struct kp_sampler s = sampler(KP_SAMPLE_PER_SECOND, 1000);
	kp_target_ns now = KP_NS_PER_S;
	uint64_t rate = 0;

	tenth(&s, &now, 0);
	for (int i = 0; i < 10; i++) {
		/* 7 events a request, at most 50000 events a second */
		rate = 7000 * (uint64_t)s.one_in;
		tenth(&s, &now, rate < 35000 ? rate : 35000);
	}
	assert_true(s.one_in >= 35);
	assert_true(s.one_in <= 50);
}

TEST(cut_and_budget_come_on_top)
{
	struct kp_sampler s = sampler(KP_SAMPLE_ALL, 1);

	assert_true(kp_sampler_cut(&s, 4));
	assert_int_equal(s.one_in, 4);
	assert_false(kp_sampler_rate(&s, 100000, KP_NS_PER_S));
	assert_true(kp_sampler_cut(&s, 1));
	assert_int_equal(s.one_in, 1);
	s = sampler(KP_SAMPLE_ONE_IN, 1000000);
	assert_true(kp_sampler_cut(&s, 4096));
	assert_int_equal(s.one_in, KP_ONE_IN_LIMIT);
	s = sampler(KP_SAMPLE_PER_SECOND, 1000);
	kp_sampler_rate(&s, 10000, KP_NS_PER_S);
	assert_true(kp_sampler_cut(&s, 4));
	assert_int_equal(s.one_in, 40);
	/* the rate is followed below it, */
	kp_sampler_rate(&s, 20000, KP_NS_PER_S);
	assert_int_equal(s.one_in, 80);
	/* and a budget that asks for less changes nothing */
	assert_false(kp_sampler_spent(&s, 1, 0, 5));
	assert_false(kp_sampler_spent(&s, 1000, 0, 0));
}

/* What depends on sampling is in proportion; the rest is as it is. */
TEST(budget_is_held)
{
	double fixed, full, spent, budget;
	struct kp_sampler s;
	uint32_t was;

	rnd_state = 3;
	for (int i = 0; i < 500; i++) {
		s = sampler(KP_SAMPLE_ALL, 1);
		budget = 0.1 + (double)rnd(100) / 10;
		fixed = budget * (double)rnd(50) / 100;
		full = (double)rnd(400);
		for (int t = 0; t < 20; t++) {
			/* the machine's noise: a tenth more or less */
			spent = fixed + full / s.one_in *
			    (0.9 + (double)rnd(20) / 100);
			if (t >= 2)
				assert_true(spent <= budget);
			was = s.one_in;
			kp_sampler_spent(&s, spent, fixed, budget);
			assert_true(s.one_in >= was || was <= 7);	/* but by rounding */
		}
		/* and takes what it may */
		assert_true(s.one_in <= 2 ||
		    fixed + full / (s.one_in - 1) >= budget * 0.4);
	}
}

/*
 * What calls cost, in percent of one scheduler: the agent is given limits in
 * calls a second that are the same.
 */
TEST(cost_of_calls)
{
	const struct kp_cost c = { .events = 1000, .ring_events = 400,
		.armed_calls = 50000, .switches = 7000, .marked = 300,
		.agent = 1000 };
	char text[300];

	assert_int_equal(kp_cost_calls(7), 200000);
	assert_true(kp_cost_percent(200000) > 6.999 &&
	    kp_cost_percent(200000) < 7.001);
	/* Sampling fewer requests changes neither of these. */
	assert_int_equal(kp_cost_fixed(&c), 50000 * KP_COST_CALL +
	    7000 * KP_COST_SWITCH);
	assert_int_equal(kp_cost_total(&c), 600 * KP_COST_EVENT +
	    400 * KP_COST_NATIVE + 50000 * KP_COST_CALL +
	    7000 * KP_COST_SWITCH + 300 * KP_COST_TOKEN + 1000);
	assert_has(kp_cost_text(&c, KP_NS_PER_S, text, sizeof(text)),
	    "% of a scheduler (agent 0.00, events of sampled requests ");
}

/*
 * What requests paid on a quiet machine, in us: rows of bench_shop, by the relay, and the
 * loop of bench_full, of which every request was measured by the native probe
 * (test/bench/README.md).
 */
TEST(cost_of_requests)
{
	static const struct {
		double switches, calls, sampled, events, rings, agent;
		double low, high;	/* of 95 in 100 */
	} v[] = {
		{ 25.2, 0, 0, 0, 0, 0, 2.5, 3.7 },
		{ 25.2, 9, 0, 0, 0, 0, 5.9, 7.1 },
		{ 25.3, 21, 0, 0, 0, 0, 9.3, 10.2 },
		{ 26.6, 21, 0.25, 10.5, 0, 1, 14.6, 24.8 },
		{ 15, 6, 1, 12, 12, 1.1, 9.6, 12.9 },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		const struct kp_cost c = {
			.switches = (uint64_t)(1000 * v[i].switches),
			.armed_calls = (uint64_t)(1000 * v[i].calls),
			.marked = (uint64_t)(1000 * v[i].switches * v[i].sampled),
			.events = (uint64_t)(1000 * v[i].events),
			.ring_events = (uint64_t)(1000 * v[i].rings),
			.agent = (kp_dur_ns)(1e6 * v[i].agent) };
		double us = (double)kp_cost_total(&c) / 1e6;

		assert_true(us > v[i].low * 0.85 && us < v[i].high * 1.15);
	}
}

/* A second of 100 requests of ten calls, half of them sampled. */
TEST(cost_foreseen)
{
	struct kp_cost c = kp_cost_foresee(1000, 100, 0.5, true);

	assert_int_equal(c.events, 1000);
	assert_int_equal(c.ring_events, 1000);
	assert_int_equal(c.armed_calls, 1000);
	assert_int_equal(c.switches, 100 * KP_COST_SWITCHES);
	assert_int_equal(c.marked, 50 * KP_COST_SWITCHES);
	assert_int_equal(kp_cost_foresee(1000, 100, 0.5, false).ring_events, 0);
}

/* Where the fixed part alone is too much, sampling goes on, sparsely. */
TEST(budget_below_fixed)
{
	struct kp_sampler s = sampler(KP_SAMPLE_ALL, 1);

	for (int t = 0; t < 20; t++)
		kp_sampler_spent(&s, 8 + 50.0 / s.one_in, 8, 5);
	assert_int_equal(s.one_in, 100);
	/* what was spent is forgotten slowly: a burst is no reason to swing */
	kp_sampler_spent(&s, 0, 0, 5);
	assert_int_equal(s.one_in, 100);
	for (int t = 0; t < 60; t++)
		kp_sampler_spent(&s, 0, 0, 5);
	assert_int_equal(s.one_in, 1);
}

/* ---- the guard ---- */

#define S KP_NS_PER_S
#define FINE (&(struct kp_load){ 0 })

static struct kp_guard
guard(void)
{
	struct kp_overload limits = { .pause = 10 * S, .max_lag = 2 * S,
		.max_kprofd = 1000, .max_backlog = 75 };
	struct kp_guard g;

	kp_guard_init(&g, &limits);
	return g;
}

TEST(limits_are_seen)
{
	struct kp_guard g = guard();
	struct kp_load at = { .lag = 2 * S, .memory = 1000, .backlog = 75 };

	for (kp_mono_ns now = 0; now < 10 * S; now += S / 10)
		assert_int_equal(kp_guard_look(&g, &at, now), KP_TRIP_NONE);
	at.memory++;
	assert_int_equal(kp_guard_look(&g, &at, S), KP_TRIP_MEMORY);
	at.memory--;
	at.backlog++;
	assert_int_equal(kp_guard_look(&g, &at, S), KP_TRIP_STORE);
	/* one who rests is left alone */
	kp_guard_trip(&g, KP_TRIP_STORE, S);
	assert_int_equal(kp_guard_look(&g, &at, S), KP_TRIP_NONE);
}

/* Each cause of overload in words, with what is usual behind it. */
TEST(test_words)
{
	static const struct {
		const char *limit;
		int64_t value;
		const char *text;
		int64_t waiting;
		const char *name;
	} agent[] = {
		{ "age_ms", 1203, "events came faster than the agent could pass "
		    "them on: the oldest had waited 1203 ms (max_age_ms, "
		    "1000)", 100000, "max_age_ms" },
		/* in which it could have passed on thousands: it did not run */
		{ "age_ms", 1203, "the agent got no processor: an event waited "
		    "for 1203 ms, with only 18 behind it (max_age_ms, 1000)",
		    18, "max_age_ms" },
		{ "queue", 20001, "events came faster than the agent could take "
		    "them: 20001 waited in its queue (max_queue, 20000)", 20001,
		    "max_queue" },
		{ "memory", 70 << 20, "events that waited took 70 MiB of the "
		    "agent's memory (max_memory_mb, 64)", 0, "max_memory_mb" },
		{ "rings_full", 12, "events came faster than the agent could "
		    "take them: 12 found no room in the native probe's rings", 0,
		    "rings" },
		{ "nosuspend", 0, "events came faster than the connection could "
		    "take them", 0, "connection" },
		{ "noconnect", 0, "the connection to kprofd was lost while "
		    "events came", 0, "connection" },
	};
	static const struct kp_load load = { 2300 * KP_NS_PER_MS, 600 << 20, 80 };
	static const char *const own[] = {
		[KP_TRIP_MEMORY] = "kprofd had 600 MiB of memory, more than "
		    "max_kprofd_mb, 512",
		[KP_TRIP_LATE] = "events came faster than kprofd could follow: "
		    "it was 2300 ms behind, more than max_lag_ms, 2000",
		[KP_TRIP_STORE] = "figures came faster than they were written: "
		    "they filled 80 % of the room for those that wait, more "
		    "than max_backlog_percent, 75",
	};
	const struct kp_overload l = { .max_age = S, .max_queue = 20000,
		.max_memory = 64 << 20, .max_lag = 2 * S,
		.max_kprofd = 512 << 20, .max_backlog = 75 };
	const struct kp_trip_limit other = { "taken", 1, 0 },
		full = { "queue", 20001, 20001 }, held = { "age_ms", 1100, 3 },
		busy = { "nosuspend", 0, 500 };
	struct kp_paused p = { .lasts = 10 * S, .one_in = 4 };
	char text[600], reason[300];

	for (size_t i = 0; i < sizeof(agent) / sizeof(agent[0]); i++) {
		const struct kp_trip_limit t = { agent[i].limit,
			agent[i].value, agent[i].waiting };

		assert_true(kp_trip_agent_text(&t, &l, reason,
		    sizeof(reason)));
		assert_string_equal(reason, agent[i].text);
		assert_string_equal(kp_trip_agent_name(agent[i].limit), agent[i].name);
		assert_has(reason, agent[i].name);
	}
	assert_string_equal(kp_trip_agent_name("taken"), "agent");
	assert_false(kp_trip_agent_text(&other, &l, reason, sizeof(reason)));
	for (enum kp_trip c = KP_TRIP_MEMORY; c <= KP_TRIP_STORE; c++) {
		kp_trip_text(c, &load, &l, reason, sizeof(reason));
		assert_string_equal(reason, own[c]);
		assert_has(reason, kp_trip_name(c));
		assert_true(strlen(kp_trip_usual(c)) > 20);
	}
	/* A function is hot where calls say so, and only there. */
	assert_string_equal(kp_trip_agent_usual(&full, 200000, 900), "a very "
	    "hot function in a tier: see kprofd -check");
	assert_string_equal(kp_trip_agent_usual(&full, 200000, 20000), "");
	assert_string_equal(kp_trip_agent_usual(&full, 500, 1), "");
	assert_has(kp_trip_agent_usual(&held, 200000, 900),
	    "processors are all busy");
	assert_true(kp_trip_agent_text(&busy, &l, reason, sizeof(reason)));
	p.reason = reason;
	p.usual = kp_trip_agent_usual(&busy, 200000, 900);
	kp_paused_text(&p, text, sizeof(text));
	assert_string_equal(text, "tracing is paused for 10 s: events came "
	    "faster than the connection could take them; then 1 request in 4 is "
	    "sampled. Usual cause: a very hot function in a tier: see kprofd "
	    "-check");
	p.over = true;
	kp_paused_text(&p, text, sizeof(text));
	assert_string_equal(text, "tracing was paused for 10 s: events came "
	    "faster than the connection could take them; now 1 request in 4 is "
	    "sampled. Usual cause: a very hot function in a tier: see kprofd "
	    "-check");
	/* the reason names the way out, and the disk is not helped by sampling */
	p.usual = "";
	p.one_in = 1;
	kp_paused_text(&p, text, sizeof(text));
	assert_string_equal(text, "tracing was paused for 10 s: events came "
	    "faster than the connection could take them; now every request is "
	    "measured");
}

/* Stopped for a moment, with all of it handled at once: no reason to trip. */
TEST(lag_has_to_last)
{
	struct kp_guard g = guard();
	struct kp_load late = { .lag = 2 * S + 1 };

	assert_int_equal(kp_guard_look(&g, &late, S), KP_TRIP_NONE);
	assert_int_equal(kp_guard_look(&g, &late, S + KP_LATE_GRACE - 1),
	    KP_TRIP_NONE);
	assert_int_equal(kp_guard_look(&g, FINE, S + KP_LATE_GRACE - 1),
	    KP_TRIP_NONE);
	assert_int_equal(kp_guard_look(&g, &late, S + KP_LATE_GRACE),
	    KP_TRIP_NONE);
	assert_int_equal(kp_guard_look(&g, &late, S + 2 * KP_LATE_GRACE),
	    KP_TRIP_LATE);
}

TEST(rest_doubles)
{
	static const int want[] = { 10, 20, 40, 80, 160, 300, 300 };
	struct kp_guard g = guard();
	kp_mono_ns now = 5 * S;
	kp_dur_ns rest;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		rest = kp_guard_trip(&g, KP_TRIP_AGENT, now);
		assert_int_equal(rest, want[i] * S);
		now += rest;
		assert_int_equal(kp_guard_rested(&g, FINE), 0);
		kp_guard_resumed(&g, now);
		now += KP_REST_QUIET - 1;
	}
	/* a quiet minute, and it is short again */
	assert_int_equal(kp_guard_trip(&g, KP_TRIP_AGENT, now + 1), 10 * S);
	assert_int_equal(g.trips, 8);
	/* {pause_s, 1000} is what the user wants */
	g = guard();
	g.limits.pause = 1000 * S;
	assert_int_equal(kp_guard_trip(&g, KP_TRIP_AGENT, 0), 1000 * S);
	assert_int_equal(kp_guard_trip(&g, KP_TRIP_AGENT, 0), 1000 * S);
}

/* While the disk is full nothing is armed only to be disarmed. */
TEST(rests_until_it_is_over)
{
	struct kp_guard g = guard();
	struct kp_load full = { .backlog = 100 };

	assert_int_equal(kp_guard_trip(&g, KP_TRIP_STORE, S), 10 * S);
	assert_int_equal(kp_guard_rested(&g, &full), 20 * S);
	assert_int_equal(kp_guard_rested(&g, &full), 40 * S);
	assert_true(g.resting);
	assert_int_equal(kp_guard_rested(&g, FINE), 0);
	kp_guard_resumed(&g, 71 * S);
	assert_false(g.resting);
	assert_int_equal(g.trips, 1);
	assert_int_equal(g.cut, 1);	/* fewer requests are no help there */
}

TEST(cut_works_its_way_up)
{
	struct kp_guard g = guard();
	kp_mono_ns now = S;
	int ticks = 0;

	kp_guard_trip(&g, KP_TRIP_AGENT, now);
	assert_int_equal(g.cut, 4);
	kp_guard_trip(&g, KP_TRIP_LATE, now);
	assert_int_equal(g.cut, 16);
	assert_false(kp_guard_tick(&g, now + 1000 * S));	/* rests */
	kp_guard_resumed(&g, now);
	for (; now < 200 * S; now += S)
		ticks += kp_guard_tick(&g, now);
	assert_int_equal(ticks, 4);
	assert_int_equal(g.cut, 1);
	for (int i = 0; i < 100; i++)
		kp_guard_trip(&g, KP_TRIP_AGENT, now);
	assert_int_equal(g.cut, KP_CUT_MAX);
}

/*
 * A target that cannot bear more than one request in 10: it trips ever more
 * rarely than it would with a rest of ten seconds, and is measured all the
 * same.
 */
TEST(overload_that_lasts)
{
	struct kp_guard g = guard();
	kp_dur_ns armed = 0, rest;
	kp_mono_ns now = 0;

	while (now < 3600 * S) {
		if (g.cut < 10) {
			rest = kp_guard_trip(&g, KP_TRIP_AGENT, now);
			now += rest;
			kp_guard_resumed(&g, now);
			continue;
		}
		now += S;
		armed += S;
		kp_guard_tick(&g, now);
	}
	assert_in_range(g.trips, 2, 60);
	assert_true(armed > 200 * S);
}

TEST(lag_between_two_clocks)
{
	const kp_target_ns off = -INT64_C(576460752303423488);
	struct kp_lag l = { 0 };
	kp_mono_ns now = 77 * S;

	assert_int_equal(kp_lag_see(&l, off + now, now + S / 2), 0);
	/* a quicker one shows that the first was late */
	assert_int_equal(kp_lag_see(&l, off + now + S, now + S + 1000), 0);
	assert_int_equal(kp_lag_see(&l, off + now + 2 * S,
	    now + 3 * S + 1000), S - 2 * S / 50);
	/* one that runs 1 % off is never late */
	l = (struct kp_lag){ 0 };
	for (int i = 0; i < 10000; i++)
		assert_true(kp_lag_see(&l, off + (kp_target_ns)i * S,
		    now + (kp_mono_ns)i * S + i * S / 100) <= 0);
	/* one that is stopped and goes on is, until a reset */
	assert_true(kp_lag_see(&l, off, now + 20000 * S) > 9000 * S);
	kp_lag_reset(&l);
	assert_int_equal(kp_lag_see(&l, off, now + 20000 * S), 0);
	/* nothing that a target says overflows */
	kp_lag_see(&l, INT64_MIN, now);
	kp_lag_see(&l, INT64_MAX, now);
	kp_lag_see(&l, -now, INT64_MAX);
	assert_true(kp_lag_see(&l, INT64_MAX, 0) >= 0);
}

/* ---- the ledger ---- */

/* An agent and its VM as they are, and what came of them so far. */
struct world {
	struct ledger l;
	struct agent_status st;	/* counters as they are now */
	uint64_t queued;	/* entry events in the agent's mailbox */
	uint64_t read;		/* entry calls when the agent read them last */
	uint64_t entries;	/* taken by the daemon, ever */
	uint64_t closed;	/* of these, ever: sampled */
	bool slow;		/* they take more than a window, some of them */
	uint32_t one_in;
	/* over all windows */
	uint64_t entry_calls;
	struct kp_losses lost;
};

static void
take(struct world *w)
{
	uint64_t calls, closing = w->entries - w->closed;

	closing = w->slow ? rnd(closing + 1) : closing;
	w->closed += closing;
	ledger_take(&w->l, 1, w->entries, w->entries - w->closed, &calls,
	    &w->lost);
	/* No window has more requests than there were calls. */
	assert_true(calls >= closing);
	w->entry_calls += calls;
}

static uint64_t
explained(const struct world *w)
{
	return w->closed + w->lost.n[KP_LOSS_DROPPED_ENTRIES] +
	    w->lost.n[KP_LOSS_UNSEEN] + w->lost.n[KP_LOSS_SAMPLED_OUT];
}

static void
calls(struct world *w, bool armed)
{
	uint64_t n = rnd(50);

	w->st.entry_calls += n;
	if (!armed) {
		w->st.unarmed_calls += n;
		return;
	}
	while (n-- > 0)
		w->queued += rnd(w->one_in) == 0;
}

static void
deliver(struct world *w)
{
	uint64_t n = rnd(w->queued + 1);

	w->entries += n;
	w->queued -= n;
}

static void
trip(struct world *w)
{
	w->st.dropped += w->queued * 5;
	w->st.dropped_entries += w->queued;
	w->queued = 0;
	w->read = w->st.entry_calls;
}

/* Loaded anew: what was counted since the last reading is gone. */
static void
reload(struct world *w)
{
	w->st.entry_calls = w->read;
}

static void
status(struct world *w, bool last)
{
	w->read = w->st.entry_calls;
	w->st.queue = w->queued;
	w->l.sampling |= w->one_in > 1;
	ledger_status(&w->l, &w->st, w->entries, last);
}

/* It ends well, having handed over everything; or the connection breaks. */
static void
agent_ends(struct world *w, bool well)
{
	if (well) {
		w->entries += w->queued;
		w->queued = 0;
		status(w, true);
	} else {
		ledger_lost(&w->l, w->entries);
	}
	w->queued = 0;
	w->read = 0;
	w->st = (struct agent_status){ 0 };
	ledger_restart(&w->l, w->entries);
}

static void
check_balance(struct world *w)
{
	do
		take(w);
	while (w->closed < w->entries);
	assert_int_equal(w->entry_calls, explained(w));
}

/* One agent's life after the other; each explained when it has ended. */
static void
life(struct world *w, uint32_t one_in, bool well)
{
	bool armed = true;

	w->one_in = one_in;
	for (uint64_t i = rnd(200); i > 0; i--) {
		switch (rnd(12)) {
		case 0:
			take(w);
			assert_true(w->entry_calls >= explained(w));
			break;
		case 1:
		case 2:
			status(w, false);
			break;
		case 3:
			if (armed)
				trip(w);
			w->read = w->st.entry_calls;
			armed = !armed;
			break;
		case 8:
			if (armed)
				reload(w);
			break;
		case 4:
			if (one_in > 1)
				w->one_in = 1 + (uint32_t)rnd(one_in * 2);
			break;
		case 5:
		case 6:
		case 7:
			deliver(w);
			break;
		default:
			calls(w, armed);
		}
	}
	agent_ends(w, well);
	check_balance(w);
}

TEST(ledger_balances)
{
	struct world w;

	for (uint64_t i = 1; i <= 2000; i++) {
		rnd_state = i * UINT64_C(0x9E3779B97F4A7C15);
		w = (struct world){ .slow = i % 2 };
		for (uint64_t lives = 1 + rnd(5); lives > 0; lives--)
			life(&w, rnd(2) == 0 ? 1 : 1 + (uint32_t)rnd(20),
			    rnd(3) != 0);
	}
}

/* Without sampling and trips nothing is lost, however late events come. */
TEST(nothing_is_lost)
{
	struct world w = { .one_in = 1 };

	rnd_state = 7;
	for (int i = 0; i < 1000; i++) {
		calls(&w, true);
		if (i % 3 == 0)
			deliver(&w);
		if (i % 5 == 0)
			status(&w, false);
	}
	agent_ends(&w, true);
	check_balance(&w);
	assert_int_equal(w.entry_calls, w.entries);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		assert_int_equal(w.lost.n[i], 0);
}

/* Between slices nothing is lost: the requests of slices stand for the others. */
TEST(between_slices)
{
	struct world w = { .one_in = 4, .l.slices = true };

	w.st.entry_calls = 1000;
	w.st.unarmed_calls = 750;
	w.st.dropped = 12;
	w.entries = 250;
	status(&w, false);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_SAMPLED_OUT], 750);
	assert_int_equal(w.lost.n[KP_LOSS_UNSEEN], 0);
	assert_int_equal(w.lost.n[KP_LOSS_DROPPED], 0);
	/* nothing stands for the requests of a pause */
	w.l.slices = false;
	w.st.entry_calls += 10;
	w.st.unarmed_calls += 10;
	status(&w, false);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_UNSEEN], 10);
}

/* Sampled out is said while it goes on, not only at the end. */
TEST(sampled_out_is_said_soon)
{
	struct world w = { .one_in = 10 };

	w.st.entry_calls = 1000;
	w.entries = 100;
	status(&w, false);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_SAMPLED_OUT], 0);
	status(&w, false);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_SAMPLED_OUT], 900);
}

/* What the last status did not count was called all the same. */
TEST(lost_after_last_status)
{
	struct world w = { .one_in = 1 };

	w.st.entry_calls = 10;
	w.entries = 10;
	status(&w, false);
	w.entries = 15;
	agent_ends(&w, false);
	check_balance(&w);
	assert_int_equal(w.entry_calls, 15);
}

/*
 * kprofd was killed between two statuses, and its windows had 498 requests of
 * 481 calls.
 */
TEST(seen_before_it_is_counted)
{
	struct world w = { .one_in = 1 };

	w.st.entry_calls = w.entries = 10;
	status(&w, false);
	w.st.entry_calls = w.entries = 15;
	take(&w);
	assert_int_equal(w.entry_calls, 15);
	w.st.entry_calls = w.entries = 18;
	take(&w);
	assert_int_equal(w.entry_calls, 18);
	status(&w, false);
	take(&w);
	assert_int_equal(w.entry_calls, 18);
	w.entries = 20;
	take(&w);
	agent_ends(&w, false);
	w.st.entry_calls = 7;
	w.entries += 7;
	take(&w);
	assert_int_equal(w.entry_calls, 27);
	agent_ends(&w, false);
	check_balance(&w);
}

/*
 * An entry's module is loaded anew 0.7 s after the last status: 70 of its
 * requests have come, and the VM knows of none of them any more.
 */
TEST(counters_are_lost)
{
	struct world w = { .one_in = 1 };

	w.st.entry_calls = w.entries = 100;
	status(&w, false);
	w.st.entry_calls += 70;
	w.entries += 70;
	reload(&w);
	w.st.entry_calls += 30;
	w.entries += 30;
	status(&w, false);
	w.st.entry_calls += 5;
	w.entries += 5;
	agent_ends(&w, true);
	check_balance(&w);
	assert_fields(w, IS(entry_calls, 205) IS(lost.n[KP_LOSS_UNSEEN], 0));
}

/*
 * The VM sends a call's event before it counts the call: a status may have
 * been taken in between.
 */
TEST(counted_after_it_was_seen)
{
	struct world w = { .one_in = 1 };

	w.st.entry_calls = w.entries = 100;
	status(&w, false);
	w.st.entry_calls = 149;
	w.entries = 150;
	status(&w, false);
	w.st.entry_calls = 200;
	w.entries = 200;
	status(&w, false);
	agent_ends(&w, true);
	check_balance(&w);
	assert_fields(w, IS(entry_calls, 200) IS(lost.n[KP_LOSS_UNSEEN], 0));
}

/*
 * Some calls were made while entries were being disarmed, with no event: that
 * is no sampling, though there is some once it is armed again.
 */
TEST(unseen_is_said_while_it_rests)
{
	struct world w = { .one_in = 1 };

	w.st.entry_calls = w.entries = 100;
	status(&w, false);
	w.st.entry_calls = 150;
	ledger_unarmed(&w.l, KP_NS_PER_S);
	status(&w, false);
	status(&w, false);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_UNSEEN], 50);
	w.st.entry_calls += 7;
	w.st.unarmed_calls += 5;
	status(&w, false);
	/* two were only just missed when it was armed */
	w.one_in = 4;
	ledger_sampling(&w.l);
	ledger_armed(&w.l, 2 * KP_NS_PER_S);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_UNSEEN], 57);
	w.st.entry_calls += 40;
	w.entries += 10;
	agent_ends(&w, true);
	check_balance(&w);
	assert_int_equal(w.lost.n[KP_LOSS_UNSEEN], 57);
	assert_int_equal(w.lost.n[KP_LOSS_SAMPLED_OUT], 30);
}

TEST(missing_batches)
{
	struct world w = { .one_in = 1 };

	ledger_restart(&w.l, 0);
	ledger_batch(&w.l, 1);
	ledger_batch(&w.l, 2);
	ledger_batch(&w.l, 5);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_GAP], 2);
	/* The agent says that it sent seven. */
	w.st.seq = 7;
	status(&w, false);
	ledger_batch(&w.l, 8);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_GAP], 4);
	/* Another agent begins anew. */
	ledger_restart(&w.l, 0);
	ledger_batch(&w.l, 1);
	take(&w);
	assert_int_equal(w.lost.n[KP_LOSS_GAP], 4);
}

/*
 * A target that is away for 15 of 23 seconds was told of as if it had been
 * measured for 23 without a loss.
 */
TEST(unarmed_time)
{
	struct ledger l = { 0 };
	struct kp_losses lost = { 0 };
	uint64_t calls;

	ledger_armed(&l, 5 * KP_NS_PER_S);
	ledger_take(&l, 10 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 0);
	/* Through two windows, and lost again while it rests. */
	ledger_unarmed(&l, 12 * KP_NS_PER_S + 300);
	ledger_unarmed(&l, 15 * KP_NS_PER_S);
	ledger_take(&l, 20 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 7999);
	ledger_take(&l, 22 * KP_NS_PER_S, 0, 0, &calls, &lost);
	ledger_armed(&l, 27 * KP_NS_PER_S + 300);
	ledger_take(&l, 30 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 15000);
	assert_int_equal(lost.n[KP_LOSS_TOO_HOT], 0);
}

/* Somebody took what was armed, and it was put back a second later at most. */
TEST(taken_time)
{
	struct ledger l = { 0 };
	struct kp_losses lost = { 0 };
	uint64_t calls;

	ledger_armed(&l, 5 * KP_NS_PER_S);
	ledger_gap(&l, 900 * KP_NS_PER_MS, 7 * KP_NS_PER_S);
	/* not what was before it was armed, nor what is counted already */
	ledger_gap(&l, 5 * KP_NS_PER_S, 8 * KP_NS_PER_S);
	ledger_take(&l, 10 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 1900);
	/* nor while nothing is armed */
	ledger_unarmed(&l, 11 * KP_NS_PER_S);
	ledger_gap(&l, KP_NS_PER_S, 12 * KP_NS_PER_S);
	ledger_armed(&l, 13 * KP_NS_PER_S);
	ledger_take(&l, 14 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 3900);
}

/* From when a function was too hot until another tiers.conf is without. */
TEST(too_hot_time)
{
	struct ledger l = { 0 };
	struct kp_losses lost = { 0 };
	uint64_t calls;

	ledger_hot(&l, false, KP_NS_PER_S);
	ledger_hot(&l, true, 2 * KP_NS_PER_S);
	ledger_hot(&l, true, 3 * KP_NS_PER_S);
	ledger_take(&l, 5 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_TOO_HOT], 3000);
	ledger_hot(&l, false, 6 * KP_NS_PER_S);
	ledger_take(&l, 9 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_TOO_HOT], 4000);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 0);
}

/*
 * kprofd was stopped for 15 s; the agent left after five, as its goodbye says,
 * which was read after that.  535 ms were lost, it was told: from the reading on.
 */
TEST(time_without_an_agent)
{
	struct ledger l = { 0 };
	struct kp_losses lost = { 0 };
	uint64_t calls;

	ledger_armed(&l, 5 * KP_NS_PER_S);
	ledger_take(&l, 10 * KP_NS_PER_S, 0, 0, &calls, &lost);
	/* stopped at 10; at 25 it is read that at 13 it tripped and at 15 left */
	ledger_unarmed(&l, 25 * KP_NS_PER_S);
	ledger_unarmed(&l, 13 * KP_NS_PER_S);
	ledger_left(&l, 15 * KP_NS_PER_S);
	ledger_take(&l, 26 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 13000);
	assert_int_equal(lost.n[KP_LOSS_UNCOUNTED], 11000);
	/* what it is told once more is counted already */
	ledger_left(&l, 15 * KP_NS_PER_S);
	ledger_armed(&l, 27 * KP_NS_PER_S);
	/* nor is it anything that was before it was armed */
	ledger_left(&l, 20 * KP_NS_PER_S);
	ledger_take(&l, 29 * KP_NS_PER_S, 0, 0, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 16000);
	assert_int_equal(lost.n[KP_LOSS_UNCOUNTED], 14000);
}

/* A target that sends notices without end filled the log and the disk. */
TEST(notices_are_hushed)
{
	struct rate_limit h = { 0 };
	kp_mono_ns now = 100 * KP_NS_PER_S;
	unsigned told = 0;

	for (int i = 0; i < 5000; i++)
		told += rate_limit_may(&h, now);
	assert_int_equal(told, RATE_LIMIT_BURST);
	assert_int_equal(rate_limit_take(&h), 5000 - RATE_LIMIT_BURST);
	assert_int_equal(rate_limit_take(&h), 0);
	for (int i = 0; i < 10000; i++)
		told += rate_limit_may(&h, now += KP_NS_PER_MS);
	assert_int_equal(told, RATE_LIMIT_BURST + 10 * RATE_LIMIT_A_SECOND);
	now += RATE_LIMIT_BURST / RATE_LIMIT_A_SECOND * KP_NS_PER_S;
	for (told = 0; rate_limit_may(&h, now); told++)
		;
	assert_int_equal(told, RATE_LIMIT_BURST);
}

TESTS(NULL, NULL)
