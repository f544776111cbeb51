/*
 * cell_row.h - a row of the table stat as a cell: the one place that knows
 * the order of its columns for reading.  Private to src/store.
 */
#ifndef KPROFD_STORE_CELL_ROW_H
#define KPROFD_STORE_CELL_ROW_H

#include <sqlite3.h>

#include "kprofd/stats.h"

/* Of `stat s`. */
#define CELL_COLUMNS CELL_FIGURES ", s.share_requests, s.w_share_requests," \
	" s.share_busy_ns, s.w_share_busy_ns"
/* The same of a database that has no shares yet (schema 3 and before). */
#define CELL_COLUMNS_3 CELL_FIGURES ", null, null, null, null"
#define CELL_FIGURES "s.tier_id, s.identity_id, s.requests, s.w_requests," \
	" s.calls, s.w_calls, s.raised, s.w_raised, s.unfinished," \
	" s.w_unfinished, s.ambiguous, s.w_ambiguous, s.async_calls," \
	" s.w_async_calls, s.timed, s.w_timed, s.total_ns, s.w_total_ns," \
	" s.self_ns, s.w_self_ns, s.busy_ns, s.w_busy_ns, s.async_ns," \
	" s.w_async_ns, s.min_ns, s.max_ns, s.hist"
#define CELL_TIER 0	/* columns of the row ids */
#define CELL_IDENTITY 1

/*
 * Fills in all of *c but its names; its histogram is *hist, whose former
 * contents are freed, and stays the caller's.  A histogram that is damaged is
 * left out: the sums are still true.  Shares that are not kept are what the
 * figures themselves are.
 */
void cell_row_read(sqlite3_stmt *st, struct kp_cell *c, struct kp_hist *hist);

#endif
