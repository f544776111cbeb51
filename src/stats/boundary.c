/*
 * boundary.c - computes the next boundary, and detects a wall clock that was
 * set.
 */
#include "stats/boundary.h"

static void
next_from(struct boundary *b, struct kp_moment at)
{
	b->last = at;
	b->next = at.wall - at.wall % b->interval + b->interval;
}

void
boundary_begin(struct boundary *b, kp_dur_ns interval, struct kp_moment now)
{
	b->interval = interval;
	next_from(b, now);
}

kp_dur_ns
boundary_left(const struct boundary *b, struct kp_moment now)
{
	kp_dur_ns left = b->next - now.wall;

	/* the bound detects a clock that was set back within one interval */
	return left > b->interval ? b->interval : left > 0 ? left : 1;
}

bool
boundary_reached(struct boundary *b, struct kp_moment now,
    struct kp_moment *end, kp_dur_ns *set)
{
	kp_dur_ns lasted = now.mono - b->last.mono, late;

	*set = 0;
	*end = now;
	if (kp_wall_end(b->last.wall, lasted, now.wall) != now.wall) {
		*set = now.wall - (b->last.wall + lasted);
	} else if (now.wall < b->next) {
		return false;
	} else {
		late = now.wall % b->interval;
		end->wall -= late;
		end->mono -= late;
	}
	next_from(b, *end);
	return true;
}
