/*
 * once.h - one question to a node, asked without a daemon: connect, ask,
 * read the answer, leave.  Blocking; for the client.
 */
#ifndef KP_TARGET_ONCE_H
#define KP_TARGET_ONCE_H

#include <stddef.h>

#include "kprofd/err.h"

/*
 * Runs seq_trace:reset_trace() in the target, which takes every sequential
 * trace token away, anybody's, and stops the node for that.  name and
 * cookie_file may be NULL (handshake.h).
 * On error `why` is one line for the user.
 */
enum kp_err target_clear_tokens(const char *target, const char *name,
    const char *cookie_file, char *why, size_t n);

#endif
