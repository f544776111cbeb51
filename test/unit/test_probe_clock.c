/* test_probe_clock.c - the VM's time of what has the kernel's. */
#include "cases.h"
#include "probe/clock.h"

TEST(moments_are_as_they_were_seen)
{
	struct clock c = { .n = 0 };

	for (int64_t i = 0; i < 10; i++)
		clock_moment(&c, 1000 * i, -500000 + 1100 * i);
	for (int64_t i = 0; i < 10; i++)
		assert_int_equal(clock_vm(&c, 1000 * i), -500000 + 1100 * i);
	assert_int_equal(clock_vm(&c, 4500), -500000 + 4950);
	/* before the first and after the last, with their offsets */
	assert_int_equal(clock_vm(&c, -700), -500700);
	assert_int_equal(clock_vm(&c, 9700), -500000 + 9900 + 700);
}

/* Faster, slower, and standing still, as a VM that corrects its time. */
TEST(what_was_later_is_never_earlier)
{
	static const int64_t passed[] = { 1000, 999, 1001, 1010, 0, 1, 2500 };
	struct clock c = { .n = 0 };
	int64_t vm = -576460752303423488, last = INT64_MIN, now;

	for (int64_t i = 0; i < 2 * CLOCK_MOMENTS; i++) {
		clock_moment(&c, 1000 * i, vm);
		vm += passed[i % 7];
	}
	for (int64_t t = -10; t < 1000 * 2 * CLOCK_MOMENTS + 10; t++) {
		now = clock_vm(&c, t);
		assert_true(now >= last);
		last = now;
	}
}

TEST(a_moment_that_runs_back_is_none)
{
	struct clock c = { .n = 0 };

	clock_moment(&c, 1000, 50);
	clock_moment(&c, 1000, 60);
	clock_moment(&c, 900, 70);
	clock_moment(&c, 1100, 40);
	assert_int_equal(c.n, 1);
	clock_moment(&c, 1100, 150);
	assert_int_equal(clock_vm(&c, 1050), 100);
}

TESTS(NULL, NULL)
