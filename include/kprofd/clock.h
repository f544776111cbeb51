/*
 * clock.h - defines a type for the nanoseconds of each clock, and waits that get longer.
 *
 * kprofd uses three clocks, which must never be mixed:
 *   kp_mono_ns    this machine's CLOCK_MONOTONIC: timers, leases, expiry
 *   kp_target_ns  a target's erlang:monotonic_time(nanosecond): usually
 *                 negative; comes with every trace event
 *   kp_wall_ns    ns since 1970-01-01 UTC: stored and shown
 * A target's time becomes wall time by adding its time_offset (ns).
 * kp_dur_ns is a difference within one clock.
 *
 * Pure stages take the time as an argument; only the daemon's edges call
 * kp_mono_now() and kp_wall_now().
 */
#ifndef KPROFD_CLOCK_H
#define KPROFD_CLOCK_H

#include <stdint.h>

typedef int64_t kp_mono_ns;
typedef int64_t kp_target_ns;
typedef int64_t kp_wall_ns;
typedef int64_t kp_dur_ns;

#define KP_NS_PER_US INT64_C(1000)
#define KP_NS_PER_MS INT64_C(1000000)
#define KP_NS_PER_S INT64_C(1000000000)

/*
 * Returns the end of a span of wall time that began at `start` and `lasted` by
 * the monotonic clock: now, or start + lasted if the wall clock was set
 * meanwhile.  So no span ends before it starts, or lasts ten years instead of
 * ten seconds.  A clock that is slewed is off by at most 1 ms in a second.
 */
#define KP_CLOCK_SET KP_NS_PER_S
kp_wall_ns kp_wall_end(kp_wall_ns start, kp_dur_ns lasted, kp_wall_ns now);

kp_mono_ns kp_mono_now(void);
kp_wall_ns kp_wall_now(void);
/* How long a processor has worked for this thread. */
kp_dur_ns kp_thread_worked(void);

/* One moment by two clocks. */
struct kp_moment {
	kp_wall_ns wall;
	kp_mono_ns mono;
};
struct kp_moment kp_moment_now(void);

/*
 * The wait before another attempt: 0.5 s after the first failure, twice as long after each
 * further one, 30 s at most.  A success that lasts as long as the last wait resets it to
 * 0.5 s; a shorter one does not.  All zero: nothing has failed yet.
 *
 * It needs no jitter: one kprofd connects to a node, so no two wait in step.
 */
struct kp_backoff {
	kp_dur_ns last;
	kp_mono_ns since;	/* start of the success; 0: failed */
};

/* Reports a success.  Further calls while it lasts change nothing. */
void kp_backoff_works(struct kp_backoff *b, kp_mono_ns now);
/* Reports a failure, and returns the time to wait. */
kp_dur_ns kp_backoff_next(struct kp_backoff *b, kp_mono_ns now);

#endif
