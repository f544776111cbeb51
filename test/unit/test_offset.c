/*
 * test_offset.c - the estimate of a clock's offset over a simulated network
 * whose true offset is known: ways that take different times, load on one of
 * them, clocks that drift, and one that is stepped.
 */
#include "cases.h"
#include "kprofd/offset.h"

#define MS KP_NS_PER_MS
#define US KP_NS_PER_US
#define START (1000 * KP_NS_PER_S)	/* of the daemon's clock */

static uint64_t rnd_state;

static kp_dur_ns
rnd(kp_dur_ns below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (kp_dur_ns)((rnd_state >> 11) % (uint64_t)below);
}

/* A node and the way to it. */
struct net {
	struct kp_offset o;
	kp_mono_ns now;
	kp_target_ns zero;	/* its clock at START */
	int64_t ppm;		/* by which it is too fast */
	kp_dur_ns there, back;	/* at least */
	kp_dur_ns jitter_there, jitter_back;
	unsigned load;		/* percent of trips that have them */
};

static kp_target_ns
clock_at(const struct net *n, kp_mono_ns t)
{
	kp_dur_ns d = t - START;

	return n->zero + d + d / 1000000 * n->ppm;
}

static kp_dur_ns
true_offset(const struct net *n)
{
	return n->now - clock_at(n, n->now);
}

static void
net_init(struct net *n, uint64_t seed)
{
	rnd_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	*n = (struct net){ .now = START, .there = 100 * US, .back = 100 * US,
		.zero = INT64_C(-576460751000000000) + rnd(1000000 * MS) };
}

/* A second passes, with one trip in it. */
static void
trip(struct net *n)
{
	bool loaded = rnd(100) < n->load;
	kp_mono_ns sent = n->now, at, received;

	at = sent + n->there + (loaded && n->jitter_there > 0 ?
	    rnd(n->jitter_there) : 0);
	received = at + n->back + (loaded && n->jitter_back > 0 ?
	    rnd(n->jitter_back) : 0);
	kp_offset_trip(&n->o, sent, clock_at(n, at), received);
	n->now = sent + KP_NS_PER_S;
	if (n->now < received)
		n->now = received;
}

static kp_dur_ns
wrong_by(const struct net *n, kp_dur_ns *error)
{
	kp_dur_ns offset, by;

	assert_true(kp_offset_get(&n->o, n->now, &offset, error));
	by = offset - true_offset(n);
	return by < 0 ? -by : by;
}

/* Never off by more than it says, and the most that it was off by. */
static kp_dur_ns
run(struct net *n, int trips)
{
	kp_dur_ns error, by, most = 0;

	for (int i = 0; i < trips; i++) {
		trip(n);
		by = wrong_by(n, &error);
		assert_true(by <= error);
		if (by > most && i >= KP_OFFSET_TRIPS)
			most = by;
	}
	return most;
}

TEST(nothing_known)
{
	struct kp_offset o = { 0 };
	kp_dur_ns offset = 7, error = 7;

	assert_false(kp_offset_get(&o, START, &offset, &error));
	assert_int_equal(offset, 7);
	/* These tell nothing. */
	kp_offset_trip(&o, START, 0, START - 1);
	kp_offset_trip(&o, START, 0, START + KP_OFFSET_TRIP_MAX + 1);
	kp_offset_trip(&o, START, INT64_MIN, START + 1);
	kp_offset_trip(&o, -5, 0, 5);
	assert_false(kp_offset_get(&o, START, &offset, &error));
}

TEST(one_trip)
{
	struct kp_offset o = { 0 };
	kp_dur_ns offset, error;

	kp_offset_trip(&o, START, -1000 * MS, START + 2 * MS);
	assert_true(kp_offset_get(&o, START + 1 * MS, &offset, &error));
	assert_int_equal(offset, START + 1 * MS + 1000 * MS);
	assert_int_equal(error, 1 * MS);
	/* A thousand seconds on, it may be off by 0.1 s more. */
	assert_true(kp_offset_get(&o, START + 1 * MS + 1000 * KP_NS_PER_S,
	    &offset, &error));
	assert_int_equal(error, 1 * MS + 100 * MS);
}

/* Two that are as far apart as numbers can be: another clock. */
TEST(as_far_as_can_be)
{
	struct kp_offset o = { 0 };
	kp_dur_ns offset, error;

	kp_offset_trip(&o, START, START - (INT64_C(1) << 62), START);
	kp_offset_trip(&o, START, START + (INT64_C(1) << 62), START);
	assert_int_equal(o.stepped, 1);
	assert_true(kp_offset_get(&o, START, &offset, &error));
	assert_true(offset == -(INT64_C(1) << 62));
}

/* With equal ways the shortest trip is right, whatever the others were. */
TEST(jitter)
{
	struct net n;
	kp_dur_ns most;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		net_init(&n, seed);
		n.load = 50;
		n.jitter_there = n.jitter_back = 50 * MS;
		most = run(&n, 200);
		/* Of sixteen one met next to no load: not the mean's 12 ms. */
		assert_true(most < 2 * MS);
		assert_int_equal(n.o.stepped, 0);
	}
}

/* One way is loaded, the other is not: half of the extra would be error. */
TEST(asymmetric_load)
{
	struct net n;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		net_init(&n, seed);
		n.load = 70;
		n.jitter_there = 200 * MS;
		assert_true(run(&n, 200) < 20 * MS);
		/* A way that is always longer cannot be told, but is allowed for. */
		net_init(&n, seed);
		n.there = 3 * MS;
		run(&n, 100);
	}
}

TEST(drift)
{
	static const int64_t ppm[] = { -100, -40, 15, 90 };
	struct net n;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		net_init(&n, seed);
		n.ppm = ppm[seed % 4];
		n.load = 50;
		n.jitter_there = 20 * MS;
		/* Sixteen seconds at 100 ppm are 1.6 ms, and as much again */
		assert_true(run(&n, 1000) < 4 * MS);
		assert_int_equal(n.o.stepped, 0);
	}
}

/* The VM was restarted, or its clock set: by far more than any trip lasts. */
TEST(stepped)
{
	kp_dur_ns error;
	struct net n;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		net_init(&n, seed);
		n.load = 50;
		n.jitter_there = n.jitter_back = 10 * MS;
		run(&n, 100);
		n.zero += seed % 2 == 0 ? 3600 * KP_NS_PER_S : -50 * MS;
		trip(&n);
		assert_int_equal(n.o.stepped, 1);
		assert_true(wrong_by(&n, &error) <= error);
		run(&n, 100);
		assert_int_equal(n.o.stepped, 1);
	}
}

/* The lease is not answered for a minute: what is known gets vague, no more. */
TEST(silence)
{
	kp_dur_ns before, after, by;
	struct net n;

	net_init(&n, 1);
	n.ppm = 80;
	run(&n, 50);
	wrong_by(&n, &before);
	n.now += 60 * KP_NS_PER_S;
	by = wrong_by(&n, &after);
	assert_true(by <= after);
	assert_true(after > before + 5 * MS && after < before + 7 * MS);
}

TESTS(NULL, NULL)
