/*
 * upkeep.h - what the writer does when nothing waits to be written: it deletes
 * what is too old, level by level, writes sums that are still to be written,
 * and gives freed pages back.  Private to src/store.
 *
 * All in small turns, one transaction each, so that a window that is closed
 * meanwhile waits for one turn at most.  A crash between two turns loses
 * nothing: what is due is found in the database.
 */
#ifndef KPROFD_STORE_ROLLUP_UPKEEP_H
#define KPROFD_STORE_ROLLUP_UPKEEP_H

#include "store/db.h"
#include "retain.h"

struct upkeep {
	struct kp_retain retain;
	kp_dur_ns interval;	/* of windows as they are measured */
	uint64_t max_bytes;	/* of the file; 0: no limit */
	unsigned cuts;		/* ages are shortened by a quarter this often,
				   because the file would be too large */
	unsigned cuts_reported;	/* the most of them that an event reported */
	uint64_t bytes;		/* of the file, at the last turn */
};

/* Returns SQLite's result code; *more: there may be more to do now. */
int upkeep_turn(struct upkeep *u, struct kp_db *db, kp_wall_ns now,
    bool *more);
/* How long rows are kept, in percent of their ages. */
unsigned upkeep_percent(const struct upkeep *u);

#endif
