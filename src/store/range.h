/*
 * range.h - serves the queries that sum the windows of a range.  Private to
 * src/store.
 *
 * A plan of what to read for a range of time has sums of the coarsest level that
 * lie in it (db.h), finer ones at its edges, and windows elsewhere.  Each window
 * that starts in the range is in exactly one of them.
 */
#ifndef KPROFD_STORE_RANGE_H
#define KPROFD_STORE_RANGE_H

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

/* Clips the range to its windows, and finds the longest one. */
enum kp_err range_clip(struct kp_query *q, struct kp_query_range *r,
    kp_dur_ns *longest);
/*
 * The length of the steps of a time axis: a readable one, at least `least`, or if that
 * is 0 for about 150 of them, and at least the longest window.
 */
kp_dur_ns range_step(const struct kp_query_range *r, kp_dur_ns least,
    kp_dur_ns longest);

struct range_use {
	kp_dur_ns step;		/* see struct range_wanted */
	bool by_node;		/* without sums of all nodes */
	const char *of[2];	/* values ?2 and ?3 of both statements */
};

/* The rows of a range in one file, piece by piece.  Errors stick. */
struct range_rows {
	struct range_use use;
	struct range_plan pieces;
	size_t at;
	const struct range_piece *piece;	/* of the row */
	struct read windows, sums, *rd;
	enum kp_err err;
};

/*
 * Prepares two statements: for the rows of one window, and of one sum, whose id
 * is ?1.
 */
void range_rows_start(struct range_rows *rr, struct kp_query *q, size_t file,
    const struct kp_query_range *r, struct range_use use,
    const char *windows, const char *sums);
/* Returns the reader of the next row; NULL: there is none, or an error. */
struct read *range_rows_next(struct range_rows *rr);
enum kp_err range_rows_end(struct range_rows *rr);

/*
 * A cell of a sum while it is made: place is that of its tier, 0 of _total, the
 * request itself.
 */
struct range_cell {
	size_t place;
	struct kp_cell cell;	/* owned */
};

/* Requests, and how many they would be had all agents been there: kp_series_step.counted. */
struct range_pace {
	double n, filled;
};

/* Adds windows of one node, with n requests. */
void range_pace_add(struct range_pace *p, uint64_t n, kp_dur_ns length, kp_dur_ns counted);
kp_dur_ns range_counted(const struct range_pace *p, kp_dur_ns covered);

void range_cells_free(struct range_cell *v, size_t n);
size_t range_place(const struct kp_query_tiers *tiers, const char *tier);
/* Replaces figures that cannot be summed over nodes by their shares. */
void range_shares(struct kp_cell *c);
/*
 * Orders the cells by place, tier, and identity, with _total before all others,
 * merges those of the same names, and moves them to s, which on error still has
 * some.  Takes v and its cells in any case.
 */
enum kp_err range_unite(struct range_cell *v, size_t n,
    struct kp_query_sum *s);

#endif
