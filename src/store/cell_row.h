/*
 * cell_row.h - lists the columns of a cell's row in stat or level_stat, for
 * reading and writing.  Private to src/store.
 */
#ifndef KPROFD_STORE_CELL_ROW_H
#define KPROFD_STORE_CELL_ROW_H

#include <sqlite3.h>

#include "kprofd/stats.h"

/*
 * X(column, field of struct kp_cell, condition for null): CELL_NEVER; CELL_SHARE if
 * the shares equal the figures; CELL_GC, CELL_OUT if these are not measured.
 */
#define CELL_FIGURES(X) KP_CELL_FIGURES(CELL_COUNT, CELL_TIME, CELL_ONCE, X)
#define CELL_COUNT(X, field, null) \
	X(field, field, CELL_##null) X(w_##field, w_##field, CELL_##null)
#define CELL_TIME(X, field, null) \
	X(field##_ns, field, CELL_##null) X(w_##field##_ns, w_##field, CELL_##null)
#define CELL_ONCE(X, field, null) X(field, field, CELL_##null)

/* The few that are read for tenths (kp_query_take). */
#define CELL_OF_TENTHS(X) \
	X(w_requests, w_requests, CELL_NEVER) \
	X(w_calls, w_calls, CELL_NEVER) \
	X(w_raised, w_raised, CELL_NEVER) \
	X(w_async_calls, w_async_calls, CELL_NEVER) \
	X(w_timed, w_timed, CELL_NEVER) \
	X(w_total_ns, w_total, CELL_NEVER) \
	X(w_self_ns, w_self, CELL_NEVER) \
	X(w_busy_ns, w_busy, CELL_NEVER) \
	X(w_share_requests, w_share_requests, CELL_SHARE) \
	X(w_share_busy_ns, w_share_busy, CELL_SHARE) \
	X(w_async_raised, w_async_raised, CELL_NEVER)

/* The columns to read from `stat s`, in this order. */
#define CELL_COLUMNS CELL_FIRST(s.async_hist) CELL_FIGURES(CELL_READ)
#define CELL_COLUMNS_OF_TENTHS CELL_FIRST(null) CELL_OF_TENTHS(CELL_READ)
#define CELL_FIRST(async_hist) "s.tier_id, s.identity_id, s.min_ns, s.max_ns, s.hist," \
	" s.async_max_ns, " #async_hist
#define CELL_READ(column, field, null) ", s." #column
#define CELL_ONE(column, field, null) + 1
enum { CELL_TIER, CELL_IDENTITY, CELL_MIN, CELL_MAX, CELL_HIST,
	CELL_ASYNC_MAX, CELL_ASYNC_HIST, CELL_FIGURE,
	/* the first column after them */
	CELL_END = CELL_FIGURE CELL_FIGURES(CELL_ONE) };

/* The columns that db_cell() inserts. */
#define CELL_INSERT "tier_id, identity_id, min_ns, max_ns, hist, p50_ns," \
	" p90_ns, p95_ns, p99_ns, async_max_ns, async_hist, async_p50_ns," \
	" async_p90_ns, async_p95_ns, async_p99_ns" CELL_FIGURES(CELL_NAME)
#define CELL_NAME(column, field, null) ", " #column
#define CELL_VALUES "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?" \
	CELL_FIGURES(CELL_VALUE)
#define CELL_VALUE(column, field, null) ", ?"

/*
 * Replaces *c, which the caller owns (kp_cell_free()), but for its names by those
 * of the row; of CELL_COLUMNS_OF_TENTHS, all other figures by 0.  Leaves out a damaged
 * histogram: the sums are still true.
 */
void cell_row_read(sqlite3_stmt *st, struct kp_cell *c);
void cell_row_read_of_tenths(sqlite3_stmt *st, struct kp_cell *c);

#endif
