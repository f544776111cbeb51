/*
 * cell_row.h - a row of the table stat as a cell: the one place that knows
 * the order of its columns for reading.  Private to src/store.
 */
#ifndef KPROFD_STORE_CELL_ROW_H
#define KPROFD_STORE_CELL_ROW_H

#include <sqlite3.h>

#include "kprofd/stats.h"

/* Of `stat s`. */
#define CELL_COLUMNS CELL_FIGURES CELL_SHARES CELL_PAUSES CELL_AFTER
/* The same of a database that does not count these (schema 6 and before) ... */
#define CELL_COLUMNS_6 CELL_FIGURES CELL_SHARES CELL_PAUSES CELL_NO_AFTER
/* ... has no pauses yet (schema 5 and before) ... */
#define CELL_COLUMNS_5 CELL_FIGURES CELL_SHARES CELL_NULLS CELL_NO_AFTER
/* ... and no shares either (schema 3 and before). */
#define CELL_COLUMNS_3 CELL_FIGURES CELL_NULLS CELL_NULLS CELL_NO_AFTER
/* Of a database of this schema; from: what follows the columns. */
#define CELL_SELECT(version, from) ((version) < 4 ? \
	"select " CELL_COLUMNS_3 from : (version) < 6 ? \
	"select " CELL_COLUMNS_5 from : (version) < 7 ? \
	"select " CELL_COLUMNS_6 from : "select " CELL_COLUMNS from)
#define CELL_NULLS ", null, null, null, null"
#define CELL_NO_AFTER CELL_NULLS CELL_NULLS CELL_NULLS
#define CELL_AFTER ", s.outlasting, s.w_outlasting, s.unknown_outcomes," \
	" s.w_unknown_outcomes, s.w_inside, s.w_made, s.async_raised," \
	" s.w_async_raised, s.async_unknown, s.w_async_unknown," \
	" s.async_unfinished, s.w_async_unfinished"
#define CELL_PAUSES ", s.gc_ns, s.w_gc_ns, s.out_ns, s.w_out_ns"
#define CELL_SHARES ", s.share_requests, s.w_share_requests," \
	" s.share_busy_ns, s.w_share_busy_ns"
#define CELL_FIGURES "s.tier_id, s.identity_id, s.requests, s.w_requests," \
	" s.calls, s.w_calls, s.raised, s.w_raised, s.unfinished," \
	" s.w_unfinished, s.ambiguous, s.w_ambiguous, s.async_calls," \
	" s.w_async_calls, s.timed, s.w_timed, s.total_ns, s.w_total_ns," \
	" s.self_ns, s.w_self_ns, s.busy_ns, s.w_busy_ns, s.async_ns," \
	" s.w_async_ns, s.min_ns, s.max_ns, s.hist"
#define CELL_TIER 0	/* columns of the row ids */
#define CELL_IDENTITY 1
#define CELL_BEHIND 47	/* the first column behind them */

/*
 * Fills in all of *c but its names; its histogram is *hist, whose former
 * contents are freed, and stays the caller's.  A histogram that is damaged is
 * left out: the sums are still true.  Shares that are not kept are what the
 * figures themselves are.
 */
void cell_row_read(sqlite3_stmt *st, struct kp_cell *c, struct kp_hist *hist);

#endif
