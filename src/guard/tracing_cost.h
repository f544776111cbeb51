/*
 * tracing_cost.h - measures what tracing adds to the times of traced calls,
 * from events of calls that do nothing.  Pure.
 *
 * The agent (erlang/agent/kprof_agent_cost.erl) has a process of its own call one
 * function of its own inside another, armed as those of tiers are:
 *
 *	around called   inside called   inside returns   around returns
 *	    at[0]           at[1]           at[2]            at[3]
 *
 * The time of inside, at[2] - at[1], is what tracing adds to the time of any
 * traced call.  A caller's time also holds what tracing its callee costs
 * outside of the callee's two times: at[3] - at[0] less twice the time of
 * inside, once for inside and once for what tracing adds to around itself.
 *
 * The median of a series is taken, since the process may be scheduled out.
 */
#ifndef KPROFD_GUARD_TRACING_COST_H
#define KPROFD_GUARD_TRACING_COST_H

#include "kprofd/trace.h"

#define TRACING_COST_SERIES 32	/* as ?TRACED_CALLS of the agent */
#define TRACING_COST_LEAST 8		/* of them, where events were lost */

struct tracing_cost {
	struct kp_pid pid;		/* its node is not kept */
	unsigned have;			/* times of the pair that is under way */
	kp_target_ns at[4];
	bool exact;			/* ends are events of return_from */
	unsigned n;			/* pairs of this series */
	kp_dur_ns call_ns[TRACING_COST_SERIES], caller_ns[TRACING_COST_SERIES];
	kp_dur_ns call, caller;		/* of the last series; 0: none yet */
};

/*
 * Is this event one of the measurement's?  Then it is nothing else.  To be
 * shown every event of the target, in order for each process.
 */
bool tracing_cost_event(struct tracing_cost *t, const struct kp_event *ev);

#endif
