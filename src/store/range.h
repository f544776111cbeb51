/*
 * range.h - serves the queries that sum the windows of a range.  Private to
 * src/store.
 *
 * A plan of what to read for a range of time has sums of the coarsest level that
 * lie in it (db.h), finer ones at its edges, and windows elsewhere.  Each window
 * that starts in the range is in exactly one of them.
 */
#ifndef KPROFD_STORE_READ_RANGE_H
#define KPROFD_STORE_READ_RANGE_H

#include "read.h"

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

/* Restricts `time_window w`; range_bind() binds its three values. */
#define IN_RANGE " where w.start_ns >= ?1 and w.start_ns < ?2" \
	" and (?3 is null or w.node_id in" \
	" (select id from node where one_of(name, ?3)))"

/*
 * Sets *out to the range from the first to the last of the windows that r has a
 * part of, which is exact.
 */
enum kp_err range_whole(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_range *out);
void range_bind(struct read *rd, const struct kp_query_range *r);

/* The pieces of a range in one file, and the statements that read cells. */
struct range_cells {
	struct range_plan pieces;
	size_t at;
	struct read windows, sums;	/* the two statements */
};

struct range_use {
	kp_dur_ns step;		/* see struct range_wanted */
	bool by_node;		/* without sums of all nodes */
};

/*
 * Prepares the two statements: for the cells of one window, and of one sum,
 * whose id is the first value.  Call range_cells_end() even after an error.
 */
enum kp_err range_cells_start(struct range_cells *rc, struct kp_query *q,
    size_t file, const struct kp_query_range *r, struct range_use use,
    const char *windows, const char *sums);
/*
 * Returns the next piece's statement, with its first value bound, and the start
 * of the piece.  NULL: there is none, or an error.
 */
struct read *range_cells_next(struct range_cells *rc, kp_wall_ns *start);
enum kp_err range_cells_end(struct range_cells *rc);

/* Replaces figures that cannot be summed over nodes by their shares. */
void range_shares(struct kp_cell *c);

/* The place of a tier in a sum: 0 is that of _total, the request itself. */
size_t range_place(const struct kp_query_tiers *tiers, const char *tier);
/* Orders cells by place, then by identity, with _total before all others. */
int range_cell_cmp(size_t place_a, const struct kp_cell *a, size_t place_b,
    const struct kp_cell *b);

#endif
