/*
 * combine.h - adds up the cells of windows and sums of the database.  Private
 * to src/store.
 */
#ifndef KPROFD_STORE_ROLLUP_COMBINE_H
#define KPROFD_STORE_ROLLUP_COMBINE_H

#include "store/db.h"
#include "store/read/range_plan.h"

/* How many cells the pieces have; stops counting past the limit. */
int64_t combine_count(struct kp_db *db, const struct range_piece *v, size_t n,
    int64_t limit);
/*
 * In the caller's transaction: writes their sums with db_cell(into, id).  One
 * cell at a time is in memory, however many series there are.
 */
void combine_pieces(struct kp_db *db, const struct range_piece *v, size_t n,
    enum stmt into, int64_t id);

#endif
