/*
 * levels.h - the windows of coarser levels: sums of whole minutes, tens of
 * minutes, hours, six hours, days and weeks (in UTC), or of what -retain has
 * instead, of each node and of all nodes.  Private to src/store.
 *
 * A turn of upkeep writes a sum once its slot of time is over, from the sums of
 * the next finer level, in a transaction of its own: a sum that fails takes no
 * window with it.  It is kept in level_sum and level_stat while the windows that it is
 * the sum of are there; when these are too old it becomes a window in their
 * place (levels_show).  So every window is in time_window once, and no answer
 * depends on a sum.  level_next notes which levels there are, and how far each
 * has come.  A slot that has one window only is not written: that is its sum.
 */
#ifndef KPROFD_STORE_ROLLUP_LEVELS_H
#define KPROFD_STORE_ROLLUP_LEVELS_H

#include "store/db.h"
#include "retain.h"

/* All of these in the caller's transaction. */

/* Which levels there are from now on; if others, all are written anew. */
void levels_set(struct kp_db *db, const struct kp_retain *r,
    kp_dur_ns interval);
/* The next one above `level` that is part of this one. */
int64_t levels_above(struct kp_db *db, int64_t level, int64_t of);
/*
 * A window has come.  The sums of slots that it starts in are none any more,
 * if they are there already, and are made again.
 */
void levels_window(struct kp_db *db, int64_t node, kp_wall_ns start);
/* Writes one sum that is due.  False: there is nothing to do now. */
bool levels_make(struct kp_db *db, kp_wall_ns now, kp_dur_ns interval);
/*
 * The windows of one run in this slot become one window.  If they are too many
 * for one turn, it adds up the first of them, or only deletes finer sums.
 */
void levels_show(struct kp_db *db, const struct slot *s);

/*
 * All that are due, of a database that nothing else has open: SQLITE_OK, or
 * the error.
 */
int levels_make_all(sqlite3 *conn);

#endif
