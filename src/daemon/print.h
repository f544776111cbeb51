/*
 * print.h - what kprofd prints on stdout: calls as they come, and plans.
 */
#ifndef KPROFD_DAEMON_PRINT_H
#define KPROFD_DAEMON_PRINT_H

#include "kprofd/clock.h"
#include "kprofd/plan.h"
#include "kprofd/request.h"

#define PRINT_CALLS_A_SECOND 100

/* Keeps -print-calls from printing more than anybody can read. */
struct print_limit {
	kp_mono_ns second;	/* start of the one that is counted */
	unsigned printed;
	uint64_t left_out;
};

/*
 * One line a call; offset: target time + offset = wall time.  nodes: their
 * names, shown behind, where there could be another one; else NULL.
 */
void print_request(struct print_limit *l, const struct kp_requests *rs,
    const struct kp_request *rq, kp_dur_ns offset, const char *const *nodes,
    kp_mono_ns now);
/* What would be armed, and how often it is called; node first, or NULL. */
void print_plan(const struct kp_conf *c, const struct kp_plan *plan,
    const char *node);

#endif
