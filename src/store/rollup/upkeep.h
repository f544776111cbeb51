/*
 * upkeep.h - does the writer's work while nothing waits to be written: deletes
 * old rows, level by level, writes missing sums, and releases free pages.
 * Private to src/store.
 *
 * It works in small turns, one transaction each, so that a window that is
 * closed meanwhile waits for one turn at most.  A crash between two turns loses
 * nothing: the database shows what is due.
 */
#ifndef KPROFD_STORE_ROLLUP_UPKEEP_H
#define KPROFD_STORE_ROLLUP_UPKEEP_H

#include "store/db.h"
#include "retain.h"

struct upkeep {
	struct kp_retain retain;
	kp_dur_ns interval;	/* of windows as they are measured */
	uint64_t max_bytes;	/* of the file; 0: no limit */
	unsigned cuts;		/* times that ages were shortened by a quarter,
				   because the file would be too large */
	unsigned cuts_reported;	/* their maximum in reported events */
	uint64_t bytes;		/* of the file, at the last turn */
};

/* Returns SQLite's result code; *more: there may be more to do now. */
int upkeep_turn(struct upkeep *u, struct kp_db *db, kp_wall_ns now,
    bool *more);
/* Returns the ages in force, in percent of the configured ones. */
unsigned upkeep_percent(const struct upkeep *u);

#endif
