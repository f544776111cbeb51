/*
 * ring.c - writes definitions that are longer than a record, and finds the end
 * of the next whole event for the reader.
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
