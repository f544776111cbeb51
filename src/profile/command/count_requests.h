/*
 * count_requests.h - calls and time of functions during requests only: kprof
 * count and time with -entry, -tiers and -attached.
 *
 * A counter of the VM has no match spec.  A meta pattern that flags a process
 * for calls where it finds a token comes one call late, and leaves the clock of
 * call_time running while the flag is off.  So here calls and returns come as
 * events of kprof trace, which have the token, and are added up by its rules,
 * as they come; their costs and limits are those of kprof trace.
 */
#ifndef KPROFD_PROFILE_COMMAND_COUNT_REQUESTS_H
#define KPROFD_PROFILE_COMMAND_COUNT_REQUESTS_H

#include "count_limits.h"
#include "kprofd/profile.h"

/*
 * Traces those requests that l says, at most until the limit (0: none), and puts
 * what was counted into p.  Exit status, and what went wrong was said; EXIT_DONE
 * with a text in `ended`: there are figures, but not all that was asked for.
 * quiet: it is not said that it counts.
 */
int count_requests(struct tracer_opts *o, struct limits *l, kp_dur_ns limit,
    bool quiet, struct injected_hello *h, struct kp_profile *p, char *ended,
    size_t n);

#endif
