/*
 * overhead.h - what profiling costs a target in the last second and in the
 * running window, from its agent's counters.
 */
#ifndef KPROFD_DAEMON_TARGET_OVERHEAD_H
#define KPROFD_DAEMON_TARGET_OVERHEAD_H

#include "kprofd/cost.h"
#include "kprofd/request.h"
#include "target/agent.h"

struct overhead {
	bool native;		/* the probe, which makes events cheaper */
	struct kp_cost last;	/* between the last two statuses, */
	kp_dur_ns over;		/* the time between; 0: not known */
	struct kp_cost window;
};

/* before: the status before this one, all zero if there was none. */
void overhead_status(struct overhead *s, const struct agent_status *before,
    const struct agent_status *st);
/* Hands over what belongs to the window that closes. */
struct kp_cost overhead_take(struct overhead *s);
/* A part of the last second's, in percent of one scheduler. */
double overhead_percent(const struct overhead *s, kp_dur_ns part);
/* So many in the last second. */
uint64_t overhead_rate(const struct overhead *s, uint64_t n);

#endif
