/*
 * profile_db.h - profiles of counters in an SQLite database of their own, one
 * after the other.
 *
 * Its tables: profile, one row each; counted, the figures of a profile by
 * function, or by function and process; process, the processes that have a
 * name.  Its views, in ms: profiles and function.
 */
#ifndef KPROFD_PROFILE_REPORT_PROFILE_DB_H
#define KPROFD_PROFILE_REPORT_PROFILE_DB_H

#include "profile.h"
#include "profile_diff.h"

/* Which, but for its number, from 1. */
#define PROFILE_DB_LAST 0
#define PROFILE_DB_BEFORE (-1)	/* the last, but of its target, type, limit */

/*
 * Adds one, read at `now`, to the file, which is made where there is none.  On
 * error `why` is one line, and the file is as it was.
 */
enum kp_err profile_db_add(const char *file, const struct kp_profile *p,
    const struct profile_view *v, kp_wall_ns now, char *why, size_t n);

/* Do these bytes begin a database? */
bool profile_db_begins(const void *p, size_t n);
/*
 * Reads one, as profile_kept_read() does.  KP_ENOENT: that one is not there,
 * which `why` says too.
 */
enum kp_err profile_db_read(const char *file, int64_t which,
    struct profile_kept *k, char *why, size_t n);

#endif
