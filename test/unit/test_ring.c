/* test_ring.c - the native probe's rings and slots, without a VM. */
#include <pthread.h>
#include <sched.h>

#include "cases.h"
#include "probe/names.h"
#include "probe/ring.h"

#define N 16

static struct kp_native_record room[N];

static bool
put(struct ring *r, int64_t ts)
{
	struct kp_native_record *rec = ring_next(r);

	if (rec == NULL)
		return false;
	*rec = (struct kp_native_record){ .kind = KP_NATIVE_CALL, .ts = ts };
	return true;
}

/* Up to `max` records of one ring, none younger than `until`. */
static struct ring_part
look(struct ring *r, uint64_t max, int64_t until)
{
	struct ring_part part = ring_part(r, 0);

	merge_oldest(&part, 1, max, until);
	return part;
}

static int64_t
last_of(const struct ring_part *part)
{
	return ring_at(part->r, part->to - 1)->ts;
}

TEST(what_is_published_is_read_once_and_in_order)
{
	struct ring_part part;
	struct ring r;

	ring_init(&r, room, N);
	for (int64_t lap = 0; lap < 10; lap++) {
		for (int i = 0; i < 7; i++)
			assert_true(put(&r, lap * 7 + i));
		assert_int_equal(ring_waiting(&r), 0);
		ring_publish(&r);
		assert_int_equal(ring_waiting(&r), 7);
		part = look(&r, 100, INT64_MAX);
		assert_int_equal(part.to - part.from, 7);
		assert_fields(part, IS(events, 7) IS(oldest, lap * 7));
		assert_int_equal(last_of(&part), lap * 7 + 6);
		assert_false(ring_follows(&part));
		for (int i = 0; i < 7; i++)
			assert_int_equal(ring_at(&r, part.from + i)->ts,
			    lap * 7 + i);
		ring_release(&part);
	}
}

TEST(a_full_ring_takes_nothing_until_it_is_read)
{
	struct ring_part part;
	struct ring r;

	ring_init(&r, room, N);
	for (int i = 0; i < N; i++)
		assert_true(put(&r, i));
	ring_publish(&r);
	assert_false(put(&r, N));
	/* some of it */
	part = look(&r, 4, INT64_MAX);
	assert_int_equal(part.events, 4);
	assert_true(ring_follows(&part));
	assert_false(put(&r, N));
	ring_release(&part);
	for (int i = 0; i < 4; i++)
		assert_true(put(&r, N + i));
	assert_false(put(&r, N));
	/* all that is not published is taken back */
	ring_undo(&r);
	assert_int_equal(ring_waiting(&r), N - 4);
	for (int i = 0; i < 4; i++)
		assert_true(put(&r, 100 + i));
	ring_publish(&r);
	part = look(&r, 100, INT64_MAX);
	assert_int_equal(part.events, N);
	assert_int_equal(last_of(&part), 103);
}

TEST(younger_events_are_left)
{
	struct ring_part part;
	struct ring r;

	ring_init(&r, room, N);
	for (int i = 0; i < 10; i++)
		put(&r, i);
	ring_publish(&r);
	part = look(&r, 100, 6);
	assert_int_equal(part.events, 7);
	assert_int_equal(last_of(&part), 6);
	part = look(&r, 100, -1);
	assert_fields(part, IS(events, 0) IS(to, part.from));
}

/* Round the end of the ring as anywhere, and never without its event. */
TEST(definitions_stay_whole)
{
	uint8_t term[100], got[N * sizeof(struct kp_native_record)];
	struct ring_part part;
	struct ring r;
	uint32_t n;

	ring_init(&r, room, N);
	for (unsigned i = 0; i < sizeof(term); i++)
		term[i] = (uint8_t)i;
	for (uint32_t len = 1; len <= sizeof(term); len++) {
		n = kp_native_records(len);
		assert_true(ring_define(&r, KP_NATIVE_FN, 3, term, len));
		ring_publish(&r);
		part = look(&r, 100, INT64_MAX);
		assert_int_equal(part.to, part.from);
		put(&r, len);
		ring_publish(&r);
		part = look(&r, 100, INT64_MAX);
		assert_int_equal(part.events, 1);
		assert_int_equal(part.to - part.from, n + 1);
		for (uint32_t i = 0; i < n; i++)
			memcpy(got + i * sizeof(struct kp_native_record),
			    ring_at(&r, part.from + i),
			    sizeof(struct kp_native_record));
		assert_int_equal(got[0], KP_NATIVE_FN);
		assert_memory_equal(got + KP_NATIVE_HEAD, term, len);
		ring_release(&part);
	}
	assert_false(ring_define(&r, KP_NATIVE_FN, 3, got, sizeof(got)));
	ring_undo(&r);
	assert_int_equal(ring_waiting(&r), 0);
}

#define EVENTS 300000

struct race {
	struct ring r;
	_Atomic bool done;
};

static void *
write_events(void *ctx)
{
	struct race *race = ctx;
	uint8_t term[60];

	for (int64_t i = 0; i < EVENTS; i++) {
		memset(term, (int)(i & 0xFF), sizeof(term));
		if ((i % 7 == 0 && !ring_define(&race->r, KP_NATIVE_FN, 1,
		    term, sizeof(term))) || !put(&race->r, i)) {
			ring_undo(&race->r);
			atomic_fetch_add(&race->r.dropped, 1);
			sched_yield();
			continue;
		}
		ring_publish(&race->r);
	}
	atomic_store(&race->done, true);
	return NULL;
}

/* Each event is read whole, in order, or was counted by the writer. */
TEST(two_threads_lose_nothing_uncounted)
{
	static struct kp_native_record mem[256];
	static struct race race;
	uint64_t seen = 0;
	int64_t last = -1;
	struct ring_part part;
	pthread_t t;
	bool done;

	ring_init(&race.r, mem, 256);
	assert_int_equal(pthread_create(&t, NULL, write_events, &race), 0);
	do {
		done = atomic_load(&race.done);
		part = look(&race.r, 50, INT64_MAX);
		for (uint64_t at = part.from; at < part.to; at++) {
			const struct kp_native_record *rec =
			    ring_at(&race.r, at);

			if (rec->kind == KP_NATIVE_FN) {
				assert_int_equal(rec->caller, 60);
				at += kp_native_records(rec->caller) - 1;
				continue;
			}
			assert_true(rec->ts > last);
			last = rec->ts;
			seen++;
		}
		ring_release(&part);
	} while (!done || part.events > 0);
	pthread_join(t, NULL);
	assert_true(seen > 0);
	assert_int_equal(seen + atomic_load(&race.r.dropped), EVENTS);
}

TEST(names_have_a_slot_each_while_there_is_room)
{
	static struct names n;
	struct name_key key = { 1, 2, 3 }, other = { 1, 2, 4 };
	uint16_t slot, again;
	bool fresh;

	slot = names_slot(&n, &key, 0, &fresh);
	assert_true(fresh);
	assert_in_range(slot, 1, KP_NATIVE_SLOTS);
	again = names_slot(&n, &other, 0, &fresh);
	assert_true(fresh);
	assert_int_not_equal(again, slot);
	assert_int_equal(names_slot(&n, &key, 0, &fresh), slot);
	assert_false(fresh);
	names_forget(&n, slot);
	names_slot(&n, &key, 0, &fresh);
	assert_true(fresh);
}

/* More names than slots: each is defined when it is met, and never wrong. */
TEST(names_give_way_to_others)
{
	static struct names n;
	static uint64_t holds[KP_NATIVE_SLOTS + 1];
	uint64_t defined = 0;
	uint16_t slot;
	bool fresh;

	for (int lap = 0; lap < 3; lap++)
		for (uint64_t i = 1; i <= 4 * KP_NATIVE_SLOTS; i++) {
			slot = names_slot(&n, &(struct name_key){ i, 0, 1 },
			    0, &fresh);
			if (fresh)
				holds[slot] = i;
			assert_int_equal(holds[slot], i);
			defined += fresh;
		}
	assert_true(defined > 4 * KP_NATIVE_SLOTS);
}

/*
 * Identities are taken for the same by their hash.  Flipping three bits once
 * gave the same one for every other seed: what a multiplication does to the
 * topmost bit of a word the next word can undo.
 */
TEST(nobody_can_make_two_identities_alike)
{
	static const uint8_t a[] = "GET /checkout/ab";
	uint8_t b[16];

	memcpy(b, a, sizeof(b));
	b[7] ^= 0x80;
	b[11] ^= 0x80;
	b[15] ^= 0x80;
	for (uint64_t seed = 0; seed < 1000; seed++) {
		assert_int_not_equal(names_hash(a, 16, seed),
		    names_hash(b, 16, seed));
		assert_int_not_equal(names_hash(a, 15, seed),
		    names_hash(a, 16, seed));
		assert_int_not_equal(names_hash(a, 3, seed),
		    names_hash(b + 1, 3, seed));
	}
	assert_int_not_equal(names_hash(a, 16, 1), names_hash(a, 16, 2));
}

/*
 * A record names the caller and then the function.  The function, met for the
 * first time, took the caller's slot when it was that one's turn: the record
 * then said that it had called itself.
 */
TEST(names_of_one_record_are_apart)
{
	static struct names n;
	uint16_t caller, fn;
	bool fresh;

	for (uint64_t i = 1; i <= 4 * KP_NATIVE_SLOTS; i++) {
		caller = names_slot(&n, &(struct name_key){ 1, 0, 1 }, 0,
		    &fresh);
		fn = names_slot(&n, &(struct name_key){ i, 0, 2 }, caller,
		    &fresh);
		assert_int_not_equal(fn, caller);
		names_slot(&n, &(struct name_key){ 1, 0, 1 }, 0, &fresh);
		assert_false(fresh);
	}
}

TESTS(NULL, NULL)
