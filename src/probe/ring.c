/*
 * ring.c - writes definitions that are longer than a record, finds the end of the next
 * whole event for the reader, and takes the oldest events of several rings.
 */
#include <string.h>

#include "probe/ring.h"

void
ring_init(struct ring *r, struct kp_native_record *v, uint64_t n)
{
	memset(r, 0, sizeof(*r));
	r->v = v;
	r->mask = n - 1;
}

bool
ring_define(struct ring *r, enum kp_native_kind kind, uint16_t slot,
    const uint8_t *term, uint32_t n)
{
	struct kp_native_record *rec = ring_next(r);
	uint32_t room = sizeof(*rec) - KP_NATIVE_HEAD, at;

	if (rec == NULL)
		return false;
	*rec = (struct kp_native_record){ .kind = (uint8_t)kind, .fn = slot,
		.caller = (uint16_t)n };
	memcpy((uint8_t *)rec + KP_NATIVE_HEAD, term, n < room ? n : room);
	for (at = room; at < n; at += sizeof(*rec)) {
		rec = ring_next(r);
		if (rec == NULL)
			return false;
		room = n - at < sizeof(*rec) ? n - at : sizeof(*rec);
		memset(rec, 0, sizeof(*rec));
		memcpy(rec, term + at, room);
	}
	return true;
}

struct ring_part
ring_part(struct ring *r, unsigned number)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
	uint64_t at = atomic_load_explicit(&r->tail, memory_order_relaxed);

	return (struct ring_part){ .r = r, .number = number, .from = at,
		.to = at, .head = head };
}

/* An event goes together with the definitions before it, which it uses. */
bool
ring_follows(struct ring_part *part)
{
	const struct kp_native_record *rec;
	uint64_t at = part->to;

	while (at != part->head) {
		rec = ring_at(part->r, at);
		if (kp_native_is_definition(rec->kind)) {
			at += kp_native_records(rec->caller);
		} else if (kp_native_is_setting(rec->kind)) {
			at++;
		} else {
			part->ts = rec->ts;
			part->is_short = (rec->flags & KP_NATIVE_SHORT) != 0;
			part->next = at + 1;
			return true;
		}
	}
	return false;
}

void
ring_release(const struct ring_part *part)
{
	atomic_store_explicit(&part->r->tail, part->to, memory_order_release);
}

uint64_t
ring_waiting(const struct ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_acquire) -
	    atomic_load_explicit(&r->tail, memory_order_relaxed);
}

/*
 * ---- the oldest events of all rings, one after the other, with a heap ----
 *
 * The heap holds the parts with a next event, ordered by its time; the other
 * parts stand behind it.  Events of a busy ring mostly follow each other, so
 * the heap is put in order only when a ring's next event is younger than that
 * of another ring.
 */

static void
swap(struct ring_part *a, struct ring_part *b)
{
	struct ring_part c = *a;

	*a = *b;
	*b = c;
}

static void
sift(struct ring_part *v, unsigned n, unsigned i)
{
	unsigned below;

	while ((below = 2 * i + 1) < n) {
		if (below + 1 < n && v[below + 1].ts < v[below].ts)
			below++;
		if (v[i].ts <= v[below].ts)
			break;
		swap(&v[i], &v[below]);
		i = below;
	}
}

static bool
has_next(struct ring_part *part, int64_t until)
{
	return ring_follows(part) && part->ts <= until;
}

/* Moves parts with a next event to the front, as a heap; returns how many. */
static unsigned
gather(struct ring_part *part, unsigned n, int64_t until)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++)
		if (has_next(&part[i], until))
			swap(&part[i], &part[left++]);
	for (unsigned i = left / 2; i-- > 0; )
		sift(part, left, i);
	return left;
}

/* The time of the oldest next event of the other rings. */
static int64_t
next_of_others(const struct ring_part *part, unsigned left)
{
	int64_t ts = left > 1 ? part[1].ts : INT64_MAX;

	return left > 2 && part[2].ts < ts ? part[2].ts : ts;
}

bool
merge_oldest(struct ring_part *part, unsigned n, uint64_t max, int64_t until)
{
	unsigned left = gather(part, n, until);
	int64_t others = next_of_others(part, left), last = INT64_MIN;
	uint64_t taken = 0;

	while (left > 0 && (taken == 0 || part->ts == last ||
	    taken + (part->next - part->to) <= max)) {
		taken += part->next - part->to;
		last = part->ts;
		ring_take(part);
		if (!has_next(part, until))
			swap(part, &part[--left]);
		else if (part->ts <= others)
			continue;
		sift(part, left, 0);
		others = next_of_others(part, left);
	}
	return left > 0;
}
