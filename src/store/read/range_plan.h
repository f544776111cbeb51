/*
 * range_plan.h - plans the reads for a range of time: sums of the coarsest
 * level that lie in it (levels.h), finer ones at its edges, and windows
 * elsewhere.  Each window that starts in the range is in exactly one of them.
 * Private to src/store.
 */
#ifndef KPROFD_STORE_READ_RANGE_PLAN_H
#define KPROFD_STORE_READ_RANGE_PLAN_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define RANGE_LEVELS_MAX 16
/* It exceeds a century, but a time plus a level does not overflow. */
#define RANGE_LEVEL_MAX (INT64_MAX / KP_NS_PER_S / 2)

struct range_levels {
	int64_t v[RANGE_LEVELS_MAX];	/* in s; each divides the next */
	size_t n;
};

/* Reads the levels of a database.  Returns SQLite's result code. */
int range_levels_read(sqlite3 *conn, struct range_levels *out);

struct range_piece {
	int64_t id;		/* of level_sum, or of time_window */
	kp_wall_ns start;
	int64_t run, level;
	bool sum;
};

struct range_plan {
	struct range_piece *v;	/* owned; in no order */
	size_t n;
};

struct range_wanted {
	kp_wall_ns since, until;
	const int64_t *node;	/* only windows of these */
	size_t nnodes;
	bool all;		/* these are all nodes: sums of all may be used */
	const struct range_levels *levels;
	/* The number of levels to use, for all nodes and for one. */
	int all_levels, node_levels;
	kp_dur_ns step;		/* only sums within one such step; 0: any */
};

/* Adds to *out.  Returns SQLite's result code; free *out in any case. */
int range_plan_find(sqlite3 *conn, const struct range_wanted *w,
    struct range_plan *out);
void range_plan_free(struct range_plan *p);

#endif
