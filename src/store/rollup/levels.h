/*
 * levels.h - makes the windows of coarser levels: sums of whole minutes, tens
 * of minutes, hours, six hours, days and weeks (in UTC), or of the lengths of
 * -retain, of each node and of all nodes.  Private to src/store.
 *
 * A turn of upkeep writes a sum once its slot of time is over, from the sums of
 * the next finer level, in its own transaction: a sum that fails loses no
 * window.  It is in level_sum and level_stat as long as its windows exist; when
 * these are too old it replaces them as a window (levels_show).  So every
 * window is in time_window once, and queries return the same without sums.
 * level_next has the levels and the progress of each.  A slot with only one
 * window is not written: that window is its sum.
 */
#ifndef KPROFD_STORE_ROLLUP_LEVELS_H
#define KPROFD_STORE_ROLLUP_LEVELS_H

#include "store/db.h"
#include "retain.h"

/* These run in the caller's transaction. */

/* Sets the levels; if they differ from those before, all sums are rebuilt. */
void levels_set(struct kp_db *db, const struct kp_retain *r,
    kp_dur_ns interval);
/* Returns the next level above `level` that divides `of`. */
int64_t levels_above(struct kp_db *db, int64_t level, int64_t of);
/*
 * Call it before a window is written: deletes the sums of the slots that it
 * starts in, so that they are made again.
 */
void levels_window(struct kp_db *db, int64_t node, kp_wall_ns start);
/* Writes one sum that is due.  False: none is due. */
bool levels_make(struct kp_db *db, kp_wall_ns now, kp_dur_ns interval);
/*
 * Replaces the windows of one run in this slot by one window.  If they are too
 * many for one turn, it adds the first of them, or only deletes finer sums.
 */
void levels_show(struct kp_db *db, const struct slot *s);

/*
 * Writes all sums that are due, in a database that no other process has open.
 * Returns SQLite's result code.
 */
int levels_make_all(sqlite3 *conn);

#endif
