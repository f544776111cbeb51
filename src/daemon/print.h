/* print.h - prints calls as they come, and plans, on stdout. */
#ifndef KPROFD_DAEMON_PRINT_H
#define KPROFD_DAEMON_PRINT_H

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/plan.h"
#include "kprofd/request.h"

#define PRINT_CALLS_A_SECOND 100

/* Limits -print-calls to what a person can read. */
struct print_limit {
	kp_mono_ns second;	/* its start */
	unsigned printed;	/* in it */
	uint64_t left_out;
};

/*
 * Prints a line for each call; offset: target time + offset = wall time.  nodes:
 * their names, to be shown; NULL: there is only one.
 */
void print_request(struct print_limit *l, const struct kp_requests *rs,
    const struct kp_request *rq, kp_dur_ns offset, const char *const *nodes,
    kp_mono_ns now);
/* Appends what would be traced, and how often it is called; node may be NULL. */
void put_plan(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan *plan, const char *node);
/* Prints what would be traced, and how often it is called; node may be NULL. */
void print_plan(const struct kp_conf *c, const struct kp_plan *plan,
    const char *node);

#endif
