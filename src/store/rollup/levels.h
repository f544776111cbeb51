/*
 * levels.h - the windows of coarser levels: sums of whole minutes, tens of
 * minutes, hours, six hours, days and weeks (in UTC), or of what -retain has
 * instead, of each node and of all nodes.  Private to src/store.
 *
 * A turn of upkeep writes a sum once its slot of time is over, from the sums of
 * the next finer level, in a transaction of its own: a sum that fails takes no
 * window with it.  It is kept in level_sum and level_stat while the windows that it is
 * the sum of are there; when these are too old it becomes a window in their
 * place (levels_show).  So every window is in time_window once, and answers are
 * the same without sums.  level_next notes which levels there are, and how far each
 * has come.  A slot that has one window only is not written: that is its sum.
 */
#ifndef KPROFD_STORE_ROLLUP_LEVELS_H
#define KPROFD_STORE_ROLLUP_LEVELS_H

#include "store/db.h"
#include "retain.h"

/* These run in the caller's transaction. */

/* Sets the levels; if they differ from those before, all sums are rebuilt. */
void levels_set(struct kp_db *db, const struct kp_retain *r,
    kp_dur_ns interval);
/* The next level above `level` that divides `of`. */
int64_t levels_above(struct kp_db *db, int64_t level, int64_t of);
/*
 * To be called before a window is written: deletes the sums of the slots that
 * it starts in, so that they are made again.
 */
void levels_window(struct kp_db *db, int64_t node, kp_wall_ns start);
/* Writes one sum that is due.  False: none is due. */
bool levels_make(struct kp_db *db, kp_wall_ns now, kp_dur_ns interval);
/*
 * The windows of one run in this slot become one window.  If they are too many
 * for one turn, it adds up the first of them, or only deletes finer sums.
 */
void levels_show(struct kp_db *db, const struct slot *s);

/*
 * Writes all sums that are due, in a database that no other process has open.
 * Returns SQLite's result code.
 */
int levels_make_all(sqlite3 *conn);

#endif
