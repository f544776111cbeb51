/*
 * spans.h - what ranges of time amount to, summed once: so that a question
 * about a month reads hundreds of rows for each series, not tens of
 * thousands.  Private to src/store.
 *
 * A span is a minute, ten, an hour, six or a day (of UTC) of one node, or of
 * all.
 * It holds the sum of all windows that start in it, in the tables span and
 * span_stat; so it is never needed for an answer, and one that is made of a
 * single part is not made.  The writer makes them when nothing waits to be
 * written, each from those below it, in small turns.  A window that comes or
 * goes takes those away that it starts in: triggers see to it (schema.c), so
 * that it holds for whoever changes the database.  Rolling windows up changes
 * no sum but may move where they start: spans_moved().
 */
#ifndef KPROFD_STORE_ROLLUP_SPANS_H
#define KPROFD_STORE_ROLLUP_SPANS_H

#include "rollup.h"

/* In the caller's transaction.  False: there is nothing to do now. */
bool spans_make(struct kp_db *db, kp_wall_ns now, kp_dur_ns interval);
/*
 * All that are due, of a database that nothing else has open: SQLITE_OK, or
 * the error.
 */
int spans_make_all(sqlite3 *conn);
/* The windows of a span of time have become one; or it is one already. */
void spans_moved(struct kp_db *db, const struct span *s);

#endif
