/*
 * rollup.h - adds up the windows of one node and run that start in one span
 * of time.  Private to src/store.
 */
#ifndef KPROFD_STORE_ROLLUP_ROLLUP_H
#define KPROFD_STORE_ROLLUP_ROLLUP_H

#include "store/db.h"

struct span {
	int64_t run, node;	/* row ids */
	kp_wall_ns start;
	kp_dur_ns length;	/* whole seconds: the level to come */
};

/*
 * In the caller's transaction.  All windows there of this level or below
 * become one, whose start and end are theirs; where they are too many for one
 * turn, some of them, and the rest is left for the next.  So every state that
 * is committed is whole: each window counts once.
 */
void rollup_span(struct kp_db *db, const struct span *s);

#endif
