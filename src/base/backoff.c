/* backoff.c - doubles the wait, and starts over after a success that lasted. */
#include "kprofd/backoff.h"

#define FIRST (500 * KP_NS_PER_MS)
#define LONGEST (30 * KP_NS_PER_S)

void
kp_backoff_works(struct kp_backoff *b, kp_mono_ns now)
{
	if (b->since == 0)
		b->since = now;
}

kp_dur_ns
kp_backoff_next(struct kp_backoff *b, kp_mono_ns now)
{
	if (b->since != 0 && now - b->since >= b->last)
		b->last = 0;
	b->since = 0;
	b->last = b->last == 0 ? FIRST : 2 * b->last;
	if (b->last > LONGEST)
		b->last = LONGEST;
	return b->last;
}
