/* test_merge_rings.c - which events a drain takes from several rings. */
#include "cases.h"
#include "probe/ring.h"

#define RINGS 300
#define N 64

static struct kp_native_record room[RINGS][N];
static struct ring ring[RINGS];

static void
begin(void)
{
	for (unsigned i = 0; i < RINGS; i++)
		ring_init(&ring[i], room[i], N);
}

static void
put(unsigned i, int64_t ts)
{
	struct kp_native_record *rec = ring_next(&ring[i]);

	assert_non_null(rec);
	*rec = (struct kp_native_record){ .kind = KP_NATIVE_CALL, .ts = ts };
	ring_publish(&ring[i]);
}

/* What one drain gives of each ring; how many events in all, and whether more. */
static uint64_t
drain(uint64_t max, int64_t until, uint64_t given[RINGS], bool *more)
{
	struct ring_part part[RINGS];
	uint64_t events = 0;

	for (unsigned i = 0; i < RINGS; i++)
		part[i] = ring_part(&ring[i], i);
	*more = merge_oldest(part, RINGS, max, until);
	for (unsigned i = 0; i < RINGS; i++) {
		given[part[i].number] = part[i].events;
		events += part[i].events;
		if (part[i].events > 0)
			ring_release(&part[i]);
	}
	return events;
}

TEST(the_oldest_of_all_are_taken)
{
	uint64_t given[RINGS], taken = 0;
	bool more = true;

	begin();
	for (int64_t ts = 0; ts < RINGS * 10; ts++)
		put((unsigned)(ts * 7 % RINGS), ts);
	for (int64_t from = 0; more; from += 37) {
		taken += drain(37, INT64_MAX, given, &more);
		assert_int_equal(taken, more ? from + 37 : RINGS * 10);
		/* these are nearly as many rings, one event each */
		for (int64_t ts = from; more && ts < from + 37; ts++)
			assert_int_equal(given[ts * 7 % RINGS], 1);
	}
	assert_int_equal(taken, RINGS * 10);
}

/* However many rings there are; and all of it if only one has anything. */
TEST(no_more_is_taken_than_there_may_be)
{
	uint64_t given[RINGS];
	bool more;

	begin();
	for (unsigned i = 0; i < RINGS; i++)
		for (int64_t n = 0; n < N; n++)
			put(i, (int64_t)i * N + n);
	assert_int_equal(drain(100, INT64_MAX, given, &more), 100);
	assert_true(more);
	assert_int_equal(given[0], N);
	assert_int_equal(given[1], 100 - N);
	begin();
	for (int64_t n = 0; n < N; n++)
		put(211, n);
	assert_int_equal(drain(100, INT64_MAX, given, &more), N);
	assert_int_equal(given[211], N);
	assert_false(more);
}

TEST(younger_events_are_left_in_all_rings)
{
	uint64_t given[RINGS];
	bool more;

	begin();
	for (int64_t ts = 0; ts < 100; ts++)
		put((unsigned)ts % 3, ts);
	assert_int_equal(drain(1000, 49, given, &more), 50);
	assert_false(more);
	assert_int_equal(drain(1000, 49, given, &more), 0);
	assert_int_equal(drain(1000, 99, given, &more), 50);
}

/* A process that moved may have one in each. */
TEST(events_of_the_same_time_go_together)
{
	uint64_t given[RINGS];
	bool more;

	begin();
	put(0, 1);
	put(1, 2);
	put(2, 2);
	put(3, 3);
	assert_int_equal(drain(2, INT64_MAX, given, &more), 3);
	assert_true(more);
	assert_int_equal(given[3], 0);
}

/* However little may be given: an event goes with what it needs, and it goes. */
TEST(one_event_at_least_is_given)
{
	uint8_t term[100] = { 0 };
	uint64_t given[RINGS];
	bool more;

	begin();
	assert_true(ring_define(&ring[5], KP_NATIVE_FN, 3, term,
	    sizeof(term)));
	put(5, 1);
	put(5, 2);
	put(6, 3);
	assert_int_equal(drain(1, INT64_MAX, given, &more), 1);
	assert_true(more);
	assert_int_equal(ring_waiting(&ring[5]), 1);
	assert_int_equal(drain(0, INT64_MAX, given, &more), 1);
	assert_int_equal(drain(0, INT64_MAX, given, &more), 1);
	assert_int_equal(given[6], 1);
	assert_false(more);
}

TESTS(NULL, NULL)
