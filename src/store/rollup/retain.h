/*
 * retain.h - parses how long windows, slow requests and events are kept, and at
 * which resolution.  Pure.
 *
 * A step keeps windows of its length up to its age; older ones are summed into
 * windows of the next step's length, and deleted after the last step.  Measured
 * windows are at the first step; if they are shorter than its length they are
 * summed as soon as possible.
 */
#ifndef KPROFD_STORE_ROLLUP_RETAIN_H
#define KPROFD_STORE_ROLLUP_RETAIN_H

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

#endif
