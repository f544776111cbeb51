/*
 * retain.h - how long windows, slow requests and events are kept, and how
 * finely.  Pure.
 *
 * A step says: windows of this length are kept up to this age; when older
 * they are added up to windows of the next step's length, and after the last
 * step deleted.  Windows as they were measured are at the first step; where
 * they are shorter than its length they are added up as soon as they can.
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
 * Reads "LENGTH:AGE,...[,slow:AGE][,events:AGE]".  Each length is a multiple
 * of the one before, each age greater.  Events are kept as long as windows
 * when not named, slow requests too but at most KP_RETAIN_SLOW_MAX.  False
 * (and *out untouched) for anything else.
 */
bool kp_retain_parse(const char *s, struct kp_retain *out);
/* A size such as 512M or 2G, powers of 1024; 0 and from 1M on. */
bool kp_retain_bytes(const char *s, uint64_t *out);

/* The age after which nothing is kept; 0: something is kept for ever. */
kp_dur_ns kp_retain_longest(const struct kp_retain *r);

#endif
