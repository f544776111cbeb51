/*
 * boundary.h - determines when windows end: on multiples of the interval of
 * the wall clock, so that all targets, all kprofds and roll-ups share the ends.
 *
 * A timer may fire some ms early.  A window that ended then would be followed
 * by one of a few ms, and the next would begin in the wrong slot of a chart.
 * Therefore a boundary is reached only when the wall clock reaches it.
 *
 * Pure: time is an argument.
 */
#ifndef KPROFD_STATS_BOUNDARY_H
#define KPROFD_STATS_BOUNDARY_H

#include <stdbool.h>

#include "kprofd/clock.h"

struct boundary {
	kp_dur_ns interval;
	struct kp_moment last;	/* the last end of windows, or their begin */
	kp_wall_ns next;
};

void boundary_begin(struct boundary *b, kp_dur_ns interval,
    struct kp_moment now);
/* Returns the time until it may be reached: more than 0. */
kp_dur_ns boundary_left(const struct boundary *b, struct kp_moment now);
/*
 * Returns whether windows end now.  *end is the boundary, or now if the clock
 * was set since the last one; *set is by how much it was set, else 0.  A call
 * that is late by whole intervals ends windows at the last boundary passed.
 */
bool boundary_reached(struct boundary *b, struct kp_moment now,
    struct kp_moment *end, kp_dur_ns *set);

#endif
