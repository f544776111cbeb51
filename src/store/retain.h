/*
 * retain.h - parses how long windows, slow requests and events are kept, and at
 * which resolution; and says by which time they age.  Pure.
 *
 * A step keeps windows of its length up to its age; older ones are summed into
 * windows of the next step's length, and deleted after the last step.  Measured
 * windows are at the first step; if they are shorter than its length they are
 * summed as soon as possible.
 */
#ifndef KPROFD_STORE_RETAIN_H
#define KPROFD_STORE_RETAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define KP_RETAIN_STEPS 8

struct kp_retain_step {
	kp_dur_ns length;	/* whole seconds */
	kp_dur_ns age;
};

struct kp_retain {
	struct kp_retain_step step[KP_RETAIN_STEPS];
	size_t n;		/* 0: windows stay for ever, as measured */
	kp_dur_ns slow;		/* slow requests; 0: for ever */
	kp_dur_ns events;	/* the same */
};

/* The default of -retain. */
#define KP_RETAIN_DEFAULT "10s:2h,1m:1d,10m:14d,1h:400d"
#define KP_RETAIN_SLOW_MAX (14 * 86400 * KP_NS_PER_S)

/*
 * Reads "LENGTH:AGE,...[,slow:AGE][,events:AGE]".  Each length is a multiple of
 * the one before, each age greater.  Without their own age, events are kept as
 * long as windows, and slow requests too but at most KP_RETAIN_SLOW_MAX.
 * False: anything else; *out is unchanged.
 */
bool kp_retain_parse(const char *s, struct kp_retain *out);
/* Parses a size such as 512M or 2G, powers of 1024; 0, or 1M and more. */
bool kp_retain_bytes(const char *s, uint64_t *out);

/* Returns the age after which nothing is kept; 0: something stays for ever. */
kp_dur_ns kp_retain_longest(const struct kp_retain *r);

/*
 * The time by which windows age is the clock's, unless that was set far ahead.
 * If a clock is ten years ahead, by mistake or for a minute, retention would
 * immediately delete what was written an hour ago.  So deletion waits: until
 * the clock has been ahead for HOLD_TIME, by the monotonic clock, ages count
 * from the time that it would have.  A clock that is set back deletes less, and
 * needs no wait; nor does one that returns to the old time.
 */
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
