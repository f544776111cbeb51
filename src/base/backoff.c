/* backoff.c - see the header. */
#include "kprofd/backoff.h"

#define FIRST (500 * KP_NS_PER_MS)
#define LONGEST (30 * KP_NS_PER_S)

kp_dur_ns
kp_backoff_next(struct kp_backoff *b)
{
	b->last = b->last == 0 ? FIRST : 2 * b->last;
	if (b->last > LONGEST)
		b->last = LONGEST;
	return b->last;
}

void
kp_backoff_reset(struct kp_backoff *b)
{
	b->last = 0;
}
