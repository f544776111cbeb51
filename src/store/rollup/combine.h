/*
 * combine.h - adds cells of windows and sums of the database.  Private to
 * src/store.
 */
#ifndef KPROFD_STORE_ROLLUP_COMBINE_H
#define KPROFD_STORE_ROLLUP_COMBINE_H

#include "store/db.h"
#include "store/read/range_plan.h"

/* Returns the number of cells of the pieces; stops counting past the limit. */
int64_t combine_count(struct kp_db *db, const struct range_piece *v, size_t n,
    int64_t limit);
/*
 * Writes their sums with db_cell(into, id), in the caller's transaction.  Only
 * one cell at a time is in memory, for any number of series.
 */
void combine_pieces(struct kp_db *db, const struct range_piece *v, size_t n,
    enum stmt into, int64_t id);

#endif
