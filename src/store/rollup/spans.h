/*
 * spans.h - sums over spans of time, made once, so that a question about a
 * month reads hundreds of rows for each series, not tens of thousands.  Private
 * to src/store.
 *
 * A span is a minute, ten, an hour, six, a day or a week (in UTC) of one node,
 * or of all nodes.  It holds the sum of all windows that start in it, in the
 * tables span and span_stat.  No answer depends on a span, since the windows
 * give the same sum; a span that would have a single part is not made.  The
 * writer makes spans when nothing waits to be written, each from those of the
 * level below, in small turns.  When a window is added or deleted, triggers
 * (schema.c) delete the spans that it starts in, so this holds for any program
 * that changes the database.  Rolling windows up changes no sum, but may move
 * where the windows start: spans_moved().
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
