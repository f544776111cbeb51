/*
 * identity.h - a clause of the identity fun from the types of an entry's
 * arguments, as kprofd -check -explain prints them.  Pure.
 */
#ifndef KPROFD_SUGGEST_IDENTITY_H
#define KPROFD_SUGGEST_IDENTITY_H

#include <stdbool.h>

#include "kprofd/config.h"

#define SUGGEST_ARGS_MAX 16	/* of a function; those behind are not looked at */
#define SUGGEST_CLAUSE_MAX 8192u	/* bytes */

/*
 * example: "mod:fun(atom, #{method := binary, ... 4 keys})", all of the line
 * behind "example: ".  Appends a clause, and why it is that, as a comment of one
 * line, to `why`; returns whether types of requests are texts, which vary.  If
 * nothing tells requests apart, the clause gives the function's name to all.
 */
bool suggest_identity(const struct kp_mfa *f, const char *example,
    struct kp_buf *clause, struct kp_buf *why);

#endif
