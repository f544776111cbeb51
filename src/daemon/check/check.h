/*
 * check.h - kprofd -check of one target: prints what would be traced, what is
 * wrong with it and what it would cost.
 */
#ifndef KPROFD_DAEMON_CHECK_CHECK_H
#define KPROFD_DAEMON_CHECK_CHECK_H

#include "daemon/daemon.h"

/* Calls were counted: prints the plan and its price, reports what is wrong. */
void check_counted(struct target *t, const struct kp_plan *plan);
/* Prints the last line of a check that found no errors. */
void check_passed(uint64_t warnings);

#endif
