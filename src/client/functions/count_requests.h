/*
 * count_requests.h - counts calls and their time during requests only: kprof
 * count and time with -entry, -tiers and -attached.
 *
 * A counter of the VM has no match spec.  A meta pattern that flags a process
 * for calls where it finds a token comes one call late, and leaves the clock of
 * call_time running while the flag is off.  So this traces calls and returns,
 * as kprof trace does, since events carry the token, and adds them up by the
 * same rules as they come.  Costs and limits are those of kprof trace.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_COUNT_REQUESTS_H
#define KPROFD_CLIENT_FUNCTIONS_COUNT_REQUESTS_H

#include "count_limits.h"

/*
 * Traces the requests that l selects, for `limit` at most (0: no limit), and
 * puts the sums into p.  quiet: print no progress.  Returns the exit status,
 * after printing what failed.  With EXIT_DONE and a text in `ended` there are
 * figures, but not all that the user asked for.
 */
int count_requests(struct tracer_opts *o, struct limits *l, kp_dur_ns limit,
    bool quiet, struct injected_hello *h, struct kp_counts *p, char *ended,
    size_t n);

#endif
