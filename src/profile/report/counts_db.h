/*
 * counts_db.h - profiles of counters in an SQLite database of their own, one
 * after the other.
 *
 * Its tables: profile, one row each; counted, the figures of a profile by
 * function, or by function and process; process, the processes that have a
 * name.  Its views, in ms: profiles and function.
 */
#ifndef KPROFD_PROFILE_REPORT_COUNTS_DB_H
#define KPROFD_PROFILE_REPORT_COUNTS_DB_H

#include "counts_report.h"
#include "counts_diff.h"

/* Which, but for its number, from 1. */
#define COUNTS_DB_LAST 0
#define COUNTS_DB_BEFORE (-1)	/* the last, but of its target, type, limit */

/*
 * Adds one, read at `now`, to the file, which is made where there is none.  On
 * error `why` is one line, and the file is as it was.
 */
enum kp_err counts_db_add(const char *file, const struct kp_counts *p,
    const struct counts_view *v, kp_wall_ns now, char *why, size_t n);

/* Do these bytes begin a database? */
bool counts_db_begins(const void *p, size_t n);
/*
 * Reads one, as counts_kept_read() does.  KP_ENOENT: that one is not there,
 * which `why` says too.
 */
enum kp_err counts_db_read(const char *file, int64_t which,
    struct counts_kept *k, char *why, size_t n);

#endif
