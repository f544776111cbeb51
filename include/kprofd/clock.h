/*
 * clock.h - which clock a number of nanoseconds belongs to.
 *
 * Three clocks meet in kprofd and must never be mixed:
 *   kp_mono_ns    this machine's CLOCK_MONOTONIC: timers, leases, expiry
 *   kp_target_ns  a target's erlang:monotonic_time(nanosecond): usually
 *                 negative; comes with every trace event
 *   kp_wall_ns    ns since 1970-01-01 UTC: what is stored and shown
 * A target's time becomes wall time by adding its time_offset (ns).
 * kp_dur_ns is a difference within one clock.
 *
 * Pure stages get the time as an argument and never ask for it; only the
 * daemon's edges call kp_mono_now() and kp_wall_now().
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
 * When a span of wall time ends that began at `start`, now that `lasted` is
 * over by the monotonic clock: now, unless the clock was set meanwhile, of which
 * the span knows nothing: then as long after its start as it lasted.  So none
 * ends before it starts, nor has ten years for ten seconds.  A clock that is
 * slewed is off by 1 ms in a second at most.
 */
#define KP_CLOCK_SET KP_NS_PER_S
kp_wall_ns kp_wall_end(kp_wall_ns start, kp_dur_ns lasted, kp_wall_ns now);

kp_mono_ns kp_mono_now(void);
kp_wall_ns kp_wall_now(void);

/* One moment by two clocks. */
struct kp_moment {
	kp_wall_ns wall;
	kp_mono_ns mono;
};
struct kp_moment kp_moment_now(void);

#endif
