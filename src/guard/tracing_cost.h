/*
 * tracing_cost.h - measures what tracing adds to the times of traced calls,
 * from events of calls that do nothing.  Pure.
 *
 * A process of the agent (erlang/agent/kprof_agent_cost.erl) calls one of the
 * agent's functions inside another, both armed as those of tiers are:
 *
 *	around called   inside called   inside returns   around returns
 *	    at[0]           at[1]           at[2]            at[3]
 *
 * The time of inside, at[2] - at[1], is what tracing adds to the time of any
 * traced call.  A caller's time also holds the cost of tracing its callee
 * outside the callee's two times: at[3] - at[0] less twice the time of inside,
 * once for inside and once for what tracing adds to around itself.
 *
 * The median of a series is taken, since the process may be scheduled out.
 */
#ifndef KPROFD_GUARD_TRACING_COST_H
#define KPROFD_GUARD_TRACING_COST_H

#include "kprofd/trace.h"

#define TRACING_COST_SERIES 32	/* equals ?TRACED_CALLS of the agent */
#define TRACING_COST_LEAST 8		/* enough of them if events were lost */

struct tracing_cost {
	struct kp_pid pid;		/* without its node */
	unsigned have;			/* times in at[] of the current pair */
	kp_target_ns at[4];
	bool exact;			/* ends are return_from events */
	unsigned n;			/* pairs of this series */
	kp_dur_ns call_ns[TRACING_COST_SERIES], caller_ns[TRACING_COST_SERIES];
	kp_dur_ns call, caller;		/* of the last series; 0: none yet */
};

/*
 * Takes every event of the target, in order for each process.  True: the event
 * belongs to the measurement, so the caller ignores it.
 */
bool tracing_cost_event(struct tracing_cost *t, const struct kp_event *ev);

#endif
