/* test_guard.c - sampling, and the balance of what was not seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kprofd/ledger.h"
#include "kprofd/sampling.h"

static struct kp_sampler
per_second(uint32_t n)
{
	struct kp_sampling conf = { .kind = KP_SAMPLE_PER_SECOND, .n = n };
	struct kp_sampler s;

	kp_sampler_init(&s, &conf);
	assert_int_equal(s.one_in, 1);
	return s;
}

static void
test_rises_at_once(void **state)
{
	struct kp_sampler s = per_second(1000);

	(void)state;
	assert_false(kp_sampler_rate(&s, 1000, KP_NS_PER_S));
	assert_true(kp_sampler_rate(&s, 1001, KP_NS_PER_S));
	assert_int_equal(s.one_in, 2);
	/* the same in half a second is twice the rate */
	assert_true(kp_sampler_rate(&s, 50000, KP_NS_PER_S / 2));
	assert_int_equal(s.one_in, 100);
	assert_true(kp_sampler_rate(&s, UINT64_MAX, 1));
	assert_int_equal(s.one_in, KP_ONE_IN_MAX);
}

static void
test_falls_with_room(void **state)
{
	struct kp_sampler s = per_second(100);

	(void)state;
	kp_sampler_rate(&s, 1000, KP_NS_PER_S);
	assert_int_equal(s.one_in, 10);
	assert_false(kp_sampler_rate(&s, 900, KP_NS_PER_S));
	assert_false(kp_sampler_rate(&s, 700, KP_NS_PER_S));
	assert_true(kp_sampler_rate(&s, 650, KP_NS_PER_S));
	assert_int_equal(s.one_in, 7);
	assert_true(kp_sampler_rate(&s, 0, KP_NS_PER_S));
	assert_int_equal(s.one_in, 1);
}

static void
test_no_time_no_rate(void **state)
{
	struct kp_sampler s = per_second(1);

	(void)state;
	assert_false(kp_sampler_rate(&s, 1000, 0));
	assert_false(kp_sampler_rate(&s, 1000, -KP_NS_PER_S));
}

static void
test_fixed(void **state)
{
	struct kp_sampling conf = { .kind = KP_SAMPLE_ONE_IN, .n = 7 };
	struct kp_sampler s;

	(void)state;
	kp_sampler_init(&s, &conf);
	assert_int_equal(s.one_in, 7);
	assert_false(kp_sampler_rate(&s, 1000000, KP_NS_PER_S));
}

/* ---- the ledger ---- */

static uint64_t calls;
static struct kp_losses lost;

static void
take(struct ledger *l)
{
	lost = (struct kp_losses){ 0 };
	ledger_take(l, &calls, &lost);
}

static uint64_t
lost_requests(void)
{
	return lost.n[KP_LOSS_UNSEEN] + lost.n[KP_LOSS_SAMPLED_OUT] +
	    lost.n[KP_LOSS_DROPPED_ENTRIES];
}

/* Events on their way are missing for a moment, and no loss. */
static void
test_late_events(void **state)
{
	struct ledger l = { 0 };
	struct agent_status st = { .entry_calls = 100 };

	(void)state;
	ledger_restart(&l, 0);
	ledger_status(&l, &st, 60, false);
	st.entry_calls = 200;
	ledger_status(&l, &st, 150, false);
	take(&l);
	assert_int_equal(calls, 200);
	assert_int_equal(lost_requests(), 0);
	ledger_status(&l, &st, 199, true);
	take(&l);
	assert_int_equal(lost.n[KP_LOSS_UNSEEN], 1);
	/* the end comes after the goodbye: nothing is counted twice */
	ledger_lost(&l, 199);
	take(&l);
	assert_int_equal(lost_requests(), 0);
	assert_int_equal(calls, 0);
}

/* While sampling, what is missing twice in a row is sampled out. */
static void
test_sampled_out(void **state)
{
	struct ledger l = { .sampling = true };
	struct agent_status st = { .entry_calls = 1000 };
	uint64_t sum = 0;

	(void)state;
	ledger_restart(&l, 0);
	for (uint64_t i = 1; i <= 10; i++) {
		st.entry_calls = 1000 * i;
		ledger_status(&l, &st, 100 * i, i == 10);
		take(&l);
		assert_int_equal(calls, 1000);
		assert_int_equal(lost.n[KP_LOSS_UNSEEN], 0);
		sum += lost.n[KP_LOSS_SAMPLED_OUT];
		assert_true(sum <= 900 * i);
	}
	assert_int_equal(sum, 9000);
}

static void
test_dropped_and_unarmed(void **state)
{
	struct ledger l = { 0 };
	struct agent_status st = { .entry_calls = 100, .unarmed_calls = 30,
		.dropped = 500, .dropped_entries = 20 };

	(void)state;
	ledger_restart(&l, 1000);
	ledger_status(&l, &st, 1050, true);
	take(&l);
	assert_int_equal(calls, 100);
	assert_int_equal(lost.n[KP_LOSS_DROPPED], 500);
	assert_int_equal(lost.n[KP_LOSS_DROPPED_ENTRIES], 20);
	assert_int_equal(lost.n[KP_LOSS_UNSEEN], 30);
}

/* Gone without a goodbye: what was seen since its last word was called. */
static void
test_no_goodbye(void **state)
{
	struct ledger l = { 0 };
	struct agent_status st = { .entry_calls = 100 };

	(void)state;
	ledger_restart(&l, 0);
	ledger_status(&l, &st, 95, false);
	ledger_lost(&l, 130);
	take(&l);
	assert_int_equal(calls, 130);
	assert_int_equal(lost_requests(), 0);
	/* the next agent counts from zero */
	ledger_restart(&l, 130);
	st.entry_calls = 10;
	ledger_status(&l, &st, 140, true);
	take(&l);
	assert_int_equal(calls, 10);
	assert_int_equal(lost_requests(), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rises_at_once),
		cmocka_unit_test(test_falls_with_room),
		cmocka_unit_test(test_no_time_no_rate),
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_late_events),
		cmocka_unit_test(test_sampled_out),
		cmocka_unit_test(test_dropped_and_unarmed),
		cmocka_unit_test(test_no_goodbye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
