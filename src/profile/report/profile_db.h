/*
 * profile_db.h - SQLite databases of traces and of counters.
 *
 * Unsafe characters in names are replaced, as on a terminal (text_put()).
 */
#ifndef KPROFD_PROFILE_REPORT_PROFILE_DB_H
#define KPROFD_PROFILE_REPORT_PROFILE_DB_H

#include "calls/call_sum.h"
#include "calls/trace_file.h"
#include "counts_diff.h"
#include "counts_report.h"

/*
 * Writes a full trace, added up, to a database of its own.  Tables: trace, one row
 * about the whole; node; process; call, by process, caller and function; path, the
 * call trees.  Views, in ms: function and callee.  KP_EBUSY if the file exists.  On
 * any other error there is no file.  `why` is one line.
 */
enum kp_err trace_db_write(const char *file, const struct kp_call_names *t,
    const struct kp_calls_sum *s, const struct kp_calls_info *info, char *why,
    size_t n);

/*
 * Counters are kept in one database, one profile after the other.  Tables: profile,
 * a row for each; counted, the figures of a profile by function, or by function and
 * process; process, the processes that have a name.  Views, in ms: profiles and
 * function.
 */

/* In place of a profile's number, which is 1 or more. */
#define COUNTS_DB_LAST 0
#define COUNTS_DB_BEFORE (-1)	/* the one before it of its target, type, limit */

/*
 * Adds a profile, read at `now`; makes the file if there is none.  On error `why`
 * is one line, and the file is as it was.
 */
enum kp_err counts_db_add(const char *file, const struct kp_counts *p,
    const struct counts_view *v, kp_wall_ns now, char *why, size_t n);

/* True if these bytes begin a database. */
bool counts_db_begins(const void *p, size_t n);
/*
 * Reads one profile, as counts_kept_read() does.  KP_ENOENT: there is no such one,
 * as `why` says.
 */
enum kp_err counts_db_read(const char *file, int64_t which,
    struct counts_kept *k, char *why, size_t n);

#endif
