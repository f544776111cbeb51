/* ring.c - see the header. */
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
ring_look(const struct ring *r, uint64_t max, int64_t until)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
	uint64_t at = atomic_load_explicit(&r->tail, memory_order_relaxed);
	struct ring_part part = { .from = at, .to = at };
	const struct kp_native_record *rec;

	/* What stands before an event defines what it uses: they go together. */
	while (at != head) {
		rec = ring_at(r, at);
		if (rec->kind >= KP_NATIVE_FN) {
			at += kp_native_records(rec->caller);
			continue;
		}
		at++;
		if (rec->kind == KP_NATIVE_WEIGHT)
			continue;
		if (rec->ts > until)
			break;
		part.more = at - part.from > max;
		if (part.more)
			break;
		part.oldest = part.events++ == 0 ? rec->ts : part.oldest;
		part.last = rec->ts;
		part.to = at;
	}
	return part;
}

void
ring_release(struct ring *r, const struct ring_part *part)
{
	atomic_store_explicit(&r->tail, part->to, memory_order_release);
}

uint64_t
ring_waiting(const struct ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_acquire) -
	    atomic_load_explicit(&r->tail, memory_order_relaxed);
}
