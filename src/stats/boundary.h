/*
 * boundary.h - when windows end: on multiples of the interval of the wall
 * clock, so that those of all targets, of all kprofds and of roll-ups share
 * their ends.
 *
 * A timer may fire some ms early.  A window that ended then would be followed
 * by one of a few ms, and the next would begin in the wrong slot of a chart: so
 * a boundary is reached when the wall clock reaches it, and not before.
 *
 * Pure: time is an argument.
 */
#ifndef KPROFD_STATS_BOUNDARY_H
#define KPROFD_STATS_BOUNDARY_H

#include <stdbool.h>

#include "kprofd/clock.h"

struct boundary {
	kp_dur_ns interval;
	struct kp_moment last;	/* when windows last ended, or began */
	kp_wall_ns next;
};

void boundary_begin(struct boundary *b, kp_dur_ns interval,
    struct kp_moment now);
/* How long to wait till it may be reached: more than 0. */
kp_dur_ns boundary_left(const struct boundary *b, struct kp_moment now);
/*
 * Whether windows end now.  *end is when: at the boundary, or, where the clock
 * was set since the last one, now: *set is by how much then, else 0.  One that
 * comes late by whole intervals ends at the last boundary that has passed.
 */
bool boundary_reached(struct boundary *b, struct kp_moment now,
    struct kp_moment *end, kp_dur_ns *set);

#endif
