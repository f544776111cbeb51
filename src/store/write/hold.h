/*
 * hold.h - the time by which windows age: that of the clock, unless the clock
 * was set far ahead.  Pure; private to src/store.
 *
 * If a clock is ten years ahead, by mistake or for a minute, retention would at
 * once delete what was written an hour ago.  So deletion waits: until the clock
 * has been ahead for HOLD_TIME, by the monotonic clock, ages are counted from
 * where it would be.  A clock that is set back deletes less, and needs no wait;
 * nor does one that comes back to where it was.
 */
#ifndef KPROFD_STORE_WRITE_HOLD_H
#define KPROFD_STORE_WRITE_HOLD_H

#include <stdbool.h>

#include "kprofd/clock.h"

#define HOLD_AHEAD (86400 * KP_NS_PER_S)	/* less is trusted: a night */
#define HOLD_TIME (86400 * KP_NS_PER_S)

struct hold {
	kp_wall_ns known;	/* the latest time that was trusted */
	kp_mono_ns at;		/* when that was */
	kp_mono_ns since;	/* when the clock was set ahead */
	kp_dur_ns ahead;	/* by this much; 0: it is not ahead */
};

/* newest: the time of the last window of earlier runs; 0: there is none. */
void hold_begin(struct hold *h, kp_wall_ns newest, kp_wall_ns wall,
    kp_mono_ns mono);
/* The time that ages are counted from. */
kp_wall_ns hold_now(struct hold *h, kp_wall_ns wall, kp_mono_ns mono);

#endif
