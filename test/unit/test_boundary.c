/*
 * test_boundary.c - when windows end, by clocks of the test's own.
 *
 * A timer that fired 4 ms early ended the window there and then, and the next
 * one 4 ms later: of 396 windows 14 were shorter than 100 ms, and the one after
 * each of them fell into the slot before, so that charts had holes.
 */
#include "cases.h"
#include "stats/boundary.h"

#define S KP_NS_PER_S
#define MS KP_NS_PER_MS
#define I (10 * S)
#define T0 (1700000000 * S)	/* a multiple of I */

static struct boundary b;
static struct kp_moment now, end;
static kp_dur_ns set;

static void
begin(kp_dur_ns past)
{
	now = (struct kp_moment){ T0 + past, 77 * S };
	boundary_begin(&b, I, now);
}

static void
passes(kp_dur_ns by)
{
	now.wall += by;
	now.mono += by;
}

static void
ends_at(kp_wall_ns wall)
{
	assert_true(boundary_reached(&b, now, &end, &set));
	assert_int_equal(set, 0);
	assert_int_equal(end.wall, wall);
	assert_int_equal(now.wall - end.wall, now.mono - end.mono);
}

static void
goes_on(void)
{
	assert_false(boundary_reached(&b, now, &end, &set));
}

/* Whatever a timer does, the ends are the multiples, each once. */
TEST(timers_that_fire_early_or_late)
{
	kp_wall_ns next = T0 + I;

	begin(3 * S);
	srand(4711);
	while (next < T0 + 5000 * I) {
		kp_dur_ns left = boundary_left(&b, now);
		kp_dur_ns off = (rand() % 12 - 6) * MS;

		assert_int_equal(left, next - now.wall);
		passes(left + off > 0 ? left + off : 1);
		if (now.wall < next) {
			goes_on();
			continue;
		}
		ends_at(next);
		next += I;
	}
}

TEST(one_that_is_late_by_intervals)
{
	begin(0);
	assert_int_equal(boundary_left(&b, now), I);
	passes(3 * I + 7 * S);
	ends_at(T0 + 3 * I);
	assert_int_equal(boundary_left(&b, now), 3 * S);
	passes(3 * S);
	ends_at(T0 + 4 * I);
}

/* Of less than a second: slewed, or set by NTP.  The boundary is the clock's. */
TEST(clock_that_is_corrected)
{
	begin(0);
	passes(I);
	now.wall -= 400 * MS;
	goes_on();
	assert_int_equal(boundary_left(&b, now), 400 * MS);
	passes(400 * MS);
	ends_at(T0 + I);
	now.wall += 700 * MS;
	passes(I - 700 * MS);
	ends_at(T0 + 2 * I);
}

/* What had begun ends now, and the next ends at a boundary of the new clock. */
TEST(clock_that_is_set)
{
	static const kp_dur_ns by[] = { -3600 * S, 3652 * 86400 * S, -I, I,
		-5 * S, 5 * S };

	for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		begin(S);
		passes(4 * S);
		now.wall += by[i];
		passes(5 * S);
		assert_true(boundary_reached(&b, now, &end, &set));
		assert_int_equal(set, by[i]);
		assert_fields(end, IS(wall, now.wall) IS(mono, now.mono));
		assert_in_range(boundary_left(&b, now), 1, I);
		passes(boundary_left(&b, now));
		ends_at(now.wall);
		assert_int_equal(now.wall % I, 0);
	}
}

/* One that was set back is noticed within an interval, not when it is there. */
TEST(waits_no_longer_than_an_interval)
{
	begin(S);
	now.wall -= 3600 * S;
	assert_int_equal(boundary_left(&b, now), I);
}

TESTS(NULL, NULL)
