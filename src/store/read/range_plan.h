/*
 * range_plan.h - plans what to read for a range of time: the longest spans that
 * lie in it (spans.h), shorter ones at its edges, and windows where there is
 * none.  Each window that starts in the range is in exactly one of them.
 * Private to src/store.
 */
#ifndef KPROFD_STORE_READ_RANGE_PLAN_H
#define KPROFD_STORE_READ_RANGE_PLAN_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define SPAN_LEVELS 6
extern const int64_t span_levels[SPAN_LEVELS];	/* in s, each a part of the
						   next */

struct range_piece {
	int64_t id;		/* of the span or window */
	kp_wall_ns start;
	bool span;
};

struct range_plan {
	struct range_piece *v;	/* owned; in no order */
	size_t n;
};

struct range_wanted {
	kp_wall_ns since, until;
	const int64_t *node;	/* their windows only */
	size_t nnodes;
	bool all;		/* they are all there are: their sums do */
	/* How many levels of spans may be used, of all nodes and of one. */
	int all_levels, node_levels;
	kp_dur_ns step;		/* spans that lie in one such step only; 0: any */
};

/* Adds to *out.  SQLITE_OK, or the error; *out is to be freed in any case. */
int range_plan_find(sqlite3 *conn, const struct range_wanted *w,
    struct range_plan *out);
void range_plan_free(struct range_plan *p);

#endif
