/*
 * steps.h - sums the windows of a range for each step, for charts.
 *
 * Steps begin at multiples of their length since 1970; a window counts in the
 * step that it starts in.  The rules of query.h hold.
 */
#ifndef KPROFD_STORE_READ_STEPS_H
#define KPROFD_STORE_READ_STEPS_H

#include "query.h"

#define KP_SERIES_STEPS_MAX 2000

struct kp_series_step {
	uint64_t windows;
	uint64_t unseen;		/* those of them without an agent */
	kp_dur_ns covered;		/* time in some window, of any node */
	uint64_t entry_calls, sampled;
	struct kp_losses losses;
	/* the cost of profiling; zero if it was not stored */
	uint64_t events;
	kp_dur_ns agent, cost;
	struct kp_cell *cells;		/* [0]: _total; [t + 1]: tiers.v[t];
					   NULL: not requested */
};

struct kp_series {
	kp_wall_ns start;		/* of the first step */
	kp_dur_ns step;
	struct kp_query_tiers tiers;
	struct kp_series_step *v;
	size_t n;
};

struct kp_series_want {
	kp_dur_ns step;		/* 0: for about 150 of them; never less than
				   the range's longest window */
	bool cells;
	const char *tier;	/* only cells of this one; NULL: of all */
};

/*
 * Sums cells of the range's one request type; NULL is _total.  A range without
 * ends is clipped to the windows.  KP_ELIMIT: more than KP_SERIES_STEPS_MAX
 * steps.
 */
enum kp_err kp_query_series(struct kp_query *q,
    const struct kp_query_range *r, const struct kp_series_want *want,
    struct kp_series *out);
void kp_series_free(struct kp_series *s);

#endif
