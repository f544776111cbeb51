/*
 * hold.h - returns the time by which windows age: the clock's, unless that was
 * set far ahead.  Pure; private to src/store.
 *
 * If a clock is ten years ahead, by mistake or for a minute, retention would
 * immediately delete what was written an hour ago.  So deletion waits: until
 * the clock has been ahead for HOLD_TIME, by the monotonic clock, ages count
 * from the time that it would have.  A clock that is set back deletes less, and
 * needs no wait; nor does one that returns to the old time.
 */
#ifndef KPROFD_STORE_WRITE_HOLD_H
#define KPROFD_STORE_WRITE_HOLD_H

#include <stdbool.h>

#include "kprofd/clock.h"

#define HOLD_AHEAD (86400 * KP_NS_PER_S)	/* smaller steps are trusted */
#define HOLD_TIME (86400 * KP_NS_PER_S)

struct hold {
	kp_wall_ns known;	/* the latest trusted time */
	kp_mono_ns at;		/* its monotonic time */
	kp_mono_ns since;	/* time at which the clock was set ahead */
	kp_dur_ns ahead;	/* by this much; 0: it is not ahead */
};

/* newest: the time of the last window of earlier runs; 0: there is none. */
void hold_begin(struct hold *h, kp_wall_ns newest, kp_wall_ns wall,
    kp_mono_ns mono);
/* Returns the time that ages count from. */
kp_wall_ns hold_now(struct hold *h, kp_wall_ns wall, kp_mono_ns mono);

#endif
