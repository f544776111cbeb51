/*
 * trace_db.h - writes a full trace, added up, to a database of its own.
 *
 * Tables: trace, one row about the whole; node; process; call, by process, caller
 * and function; path, the call trees.  Views, in ms: function and callee.  Unsafe
 * characters in names are replaced, as on a terminal (text_put()).
 */
#ifndef KPROFD_PROFILE_REPORT_TRACE_DB_H
#define KPROFD_PROFILE_REPORT_TRACE_DB_H

#include "calls/trace_file.h"
#include "calls/call_sum.h"

/*
 * Makes the file.  KP_EBUSY if it exists.  On any other error there is no file.
 * `why` is one line.
 */
enum kp_err trace_db_write(const char *file, const struct kp_call_names *t,
    const struct kp_calls_sum *s, const struct kp_calls_info *info, char *why,
    size_t n);

#endif
