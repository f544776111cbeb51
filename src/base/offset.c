/*
 * offset.c - keeps the last round trips, and estimates from the one with the
 * smallest error.
 */
#include <stddef.h>

#include "kprofd/offset.h"

/* Returns the largest error of the trip's offset at this time. */
static kp_dur_ns
distance(const struct kp_offset_trip *t, kp_mono_ns now)
{
	kp_dur_ns age = now > t->at ? now - t->at : t->at - now;

	return (t->delay + 1) / 2 + age / 1000000 * KP_OFFSET_DRIFT_PPM;
}

static const struct kp_offset_trip *
best(const struct kp_offset *o, kp_mono_ns now)
{
	const struct kp_offset_trip *b = o->n > 0 ? &o->v[0] : NULL;

	for (uint32_t i = 1; i < o->n; i++)
		if (distance(&o->v[i], now) < distance(b, now))
			b = &o->v[i];
	return b;
}

/* Returns whether no offset fits both. */
static bool
contradicts(const struct kp_offset_trip *t, const struct kp_offset_trip *was)
{
	kp_dur_ns by, may;

	if (__builtin_sub_overflow(t->offset, was->offset, &by))
		return true;
	may = distance(t, t->at) + distance(was, t->at);
	return by > may || by < -may;
}

void
kp_offset_trip(struct kp_offset *o, kp_mono_ns sent, kp_target_ns there,
    kp_mono_ns received)
{
	struct kp_offset_trip t;
	const struct kp_offset_trip *was;

	if (sent < 0 || received < sent || received - sent > KP_OFFSET_TRIP_MAX)
		return;
	t.delay = received - sent;
	t.at = sent + t.delay / 2;
	if (__builtin_sub_overflow(t.at, there, &t.offset) ||
	    t.offset == INT64_MIN)
		return;
	was = best(o, t.at);
	if (was != NULL && contradicts(&t, was)) {
		o->n = o->next = 0;
		o->stepped++;
	}
	o->v[o->next] = t;
	o->next = (o->next + 1) % KP_OFFSET_TRIPS;
	if (o->n < KP_OFFSET_TRIPS)
		o->n++;
}

bool
kp_offset_get(const struct kp_offset *o, kp_mono_ns now, kp_dur_ns *offset,
    kp_dur_ns *error)
{
	const struct kp_offset_trip *b = best(o, now);

	if (b == NULL)
		return false;
	*offset = b->offset;
	*error = distance(b, now);
	return true;
}
