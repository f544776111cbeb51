/* rate_limit.c - a token bucket that counts what it turns away. */
#include "daemon/nodes/rate_limit.h"

bool
rate_limit_may(struct rate_limit *h, kp_mono_ns now)
{
	int64_t more = (now - h->at) / (KP_NS_PER_S / RATE_LIMIT_A_SECOND);

	if (more >= h->spent) {
		h->spent = 0;
		h->at = now;
	} else if (more > 0) {
		h->spent -= (uint32_t)more;
		h->at += more * (KP_NS_PER_S / RATE_LIMIT_A_SECOND);
	}
	if (h->spent == RATE_LIMIT_BURST) {
		h->skipped++;
		return false;
	}
	h->spent++;
	return true;
}

uint64_t
rate_limit_take(struct rate_limit *h)
{
	uint64_t n = h->skipped;

	h->skipped = 0;
	return n;
}
