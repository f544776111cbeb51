/*
 * hold.c - compares the wall clock with the monotonic clock, and ignores a lead
 * of the wall clock until it has lasted.
 */
#include "hold.h"

void
hold_begin(struct hold *h, kp_wall_ns newest, kp_wall_ns wall, kp_mono_ns mono)
{
	*h = (struct hold){ .known = newest > 0 ? newest : wall, .at = mono };
}

/* Returns whether the clock was set again since the last call. */
static bool
is_set(const struct hold *h, kp_dur_ns ahead)
{
	return h->ahead == 0 || ahead - h->ahead > HOLD_AHEAD ||
	    h->ahead - ahead > HOLD_AHEAD;
}

kp_wall_ns
hold_now(struct hold *h, kp_wall_ns wall, kp_mono_ns mono)
{
	kp_wall_ns would = h->known + (mono - h->at);
	kp_dur_ns ahead = wall - would;

	if (ahead > HOLD_AHEAD) {
		if (is_set(h, ahead)) {
			h->since = mono;
			h->ahead = ahead;
		}
		if (mono - h->since < HOLD_TIME)
			return would;
	}
	h->ahead = 0;
	if (ahead > 0) {
		h->known = wall;
		h->at = mono;
	}
	return wall;
}
