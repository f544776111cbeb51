/* rate_limit.c - see the header. */
#include "base/rate_limit.h"

bool
hush_may(struct hush *h, kp_mono_ns now)
{
	int64_t more = (now - h->at) / (KP_NS_PER_S / HUSH_A_SECOND);

	if (more >= h->spent) {
		h->spent = 0;
		h->at = now;
	} else if (more > 0) {
		h->spent -= (uint32_t)more;
		h->at += more * (KP_NS_PER_S / HUSH_A_SECOND);
	}
	if (h->spent == HUSH_BURST) {
		h->untold++;
		return false;
	}
	h->spent++;
	return true;
}

uint64_t
hush_take(struct hush *h)
{
	uint64_t n = h->untold;

	h->untold = 0;
	return n;
}
