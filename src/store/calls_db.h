/*
 * calls_db.h - a full trace that was added up, as a database of its own.
 *
 * trace: what is known of it, one row; process; call: by process, caller and
 * function; path: the call trees; and the views function and callee, in ms.
 */
#ifndef KP_STORE_CALLS_DB_H
#define KP_STORE_CALLS_DB_H

#include "kprofd/calls_file.h"
#include "kprofd/calls_sum.h"

/*
 * Makes the file, which is not to exist (KP_EBUSY).  On error `why` is one
 * line, and there is no file.
 */
enum kp_err calls_db_write(const char *file, const struct kp_call_names *t,
    const struct kp_calls_sum *s, const struct kp_calls_info *info, char *why,
    size_t n);

#endif
