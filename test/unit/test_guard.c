/*
 * test_guard.c - what keeps the figures honest while load and sampling change:
 * the sampler, and the ledger that explains every entry call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>

#include "kprofd/ledger.h"
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

static void
fixed_rates_stay(void **state)
{
	struct kp_sampler s = sampler(KP_SAMPLE_ALL, 0);

	(void)state;
	assert_int_equal(s.one_in, 1);
	assert_false(kp_sampler_rate(&s, 1000000, KP_NS_PER_S));
	s = sampler(KP_SAMPLE_ONE_IN, 10);
	assert_int_equal(s.one_in, 10);
	assert_false(kp_sampler_rate(&s, 1000000, KP_NS_PER_S));
	assert_int_equal(s.one_in, 10);
}

static void
per_second(void **state)
{
	struct kp_sampler s = sampler(KP_SAMPLE_PER_SECOND, 1000);

	(void)state;
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
	assert_true(kp_sampler_rate(&s, 0, KP_NS_PER_S));
	assert_int_equal(s.one_in, 1);
	assert_false(kp_sampler_rate(&s, 100000, 0));
	assert_false(kp_sampler_rate(&s, 100000, -1));
	assert_true(kp_sampler_rate(&s, UINT64_MAX, 1));
	assert_int_equal(s.one_in, KP_ONE_IN_MAX);
}

/* Never more than what was asked for, and never much less. */
static void
sampled_rate_is_bounded(void **state)
{
	struct kp_sampler s;
	uint64_t rate;
	uint32_t n, was;
	bool changed;

	(void)state;
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
			assert_true(s.one_in <= 2 ||
			    rate * 10 >= (uint64_t)(s.one_in - 2) * n * 6);
		}
	}
}

/* ---- the ledger ---- */

/* An agent and its VM as they are, and what came of them so far. */
struct world {
	struct ledger l;
	struct agent_status st;	/* counters as they are now */
	uint64_t queued;	/* entry events in the agent's mailbox */
	uint64_t read;		/* entry calls when the agent read them last */
	uint64_t entries;	/* taken by the daemon, ever */
	uint32_t one_in;
	/* over all windows */
	uint64_t entry_calls;
	struct kp_losses lost;
};

static void
take(struct world *w)
{
	uint64_t calls;

	ledger_take(&w->l, 1, &calls, &w->lost);
	w->entry_calls += calls;
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
	take(w);
	assert_int_equal(w->entry_calls, w->entries +
	    w->lost.n[KP_LOSS_DROPPED_ENTRIES] + w->lost.n[KP_LOSS_UNSEEN] +
	    w->lost.n[KP_LOSS_SAMPLED_OUT]);
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

static void
ledger_balances(void **state)
{
	struct world w;

	(void)state;
	for (uint64_t i = 1; i <= 2000; i++) {
		rnd_state = i * UINT64_C(0x9E3779B97F4A7C15);
		w = (struct world){ 0 };
		for (uint64_t lives = 1 + rnd(5); lives > 0; lives--)
			life(&w, rnd(2) == 0 ? 1 : 1 + (uint32_t)rnd(20),
			    rnd(3) != 0);
	}
}

/* Without sampling and trips nothing is lost, however late events come. */
static void
nothing_is_lost(void **state)
{
	struct world w = { .one_in = 1 };

	(void)state;
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

/* Sampled out is said while it goes on, not only at the end. */
static void
sampled_out_is_said_soon(void **state)
{
	struct world w = { .one_in = 10 };

	(void)state;
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
static void
lost_after_last_status(void **state)
{
	struct world w = { .one_in = 1 };

	(void)state;
	w.st.entry_calls = 10;
	w.entries = 10;
	status(&w, false);
	w.entries = 15;
	agent_ends(&w, false);
	check_balance(&w);
	assert_int_equal(w.entry_calls, 15);
}

/*
 * An entry's module is loaded anew 0.7 s after the last status: 70 of its
 * requests have come, and the VM knows of none of them any more.
 */
static void
counters_are_lost(void **state)
{
	struct world w = { .one_in = 1 };

	(void)state;
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
	assert_int_equal(w.entry_calls, 205);
	assert_int_equal(w.lost.n[KP_LOSS_UNSEEN], 0);
}

static void
missing_batches(void **state)
{
	struct world w = { .one_in = 1 };

	(void)state;
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
static void
unarmed_time(void **state)
{
	struct ledger l = { 0 };
	struct kp_losses lost = { 0 };
	uint64_t calls;

	(void)state;
	ledger_armed(&l, 5 * KP_NS_PER_S);
	ledger_take(&l, 10 * KP_NS_PER_S, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 0);
	/* Through two windows, and lost again while it rests. */
	ledger_unarmed(&l, 12 * KP_NS_PER_S + 300);
	ledger_unarmed(&l, 15 * KP_NS_PER_S);
	ledger_take(&l, 20 * KP_NS_PER_S, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 7999);
	ledger_take(&l, 22 * KP_NS_PER_S, &calls, &lost);
	ledger_armed(&l, 27 * KP_NS_PER_S + 300);
	ledger_take(&l, 30 * KP_NS_PER_S, &calls, &lost);
	assert_int_equal(lost.n[KP_LOSS_UNARMED], 15000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_rates_stay),
		cmocka_unit_test(per_second),
		cmocka_unit_test(sampled_rate_is_bounded),
		cmocka_unit_test(ledger_balances),
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(unarmed_time),
		cmocka_unit_test(sampled_out_is_said_soon),
		cmocka_unit_test(lost_after_last_status),
		cmocka_unit_test(counters_are_lost),
		cmocka_unit_test(missing_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
