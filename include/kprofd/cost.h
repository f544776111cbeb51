/*
 * cost.h - estimates the cost of profiling in a target.  Pure.
 *
 * The agent has the account of its own work (erlang/agent/kprof_agent_events.erl).
 * The cost in traced processes cannot be measured while they work: the estimate is
 * a fixed time for each thing that is counted, taken from `make bench`
 * (test/bench/README.md, bench_target and bench_shop); other machines differ.
 */
#ifndef KPROFD_COST_H
#define KPROFD_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/label.h"
#include "kprofd/trace.h"

/*
 * Prices are those of a machine whose processors nobody else wants; where others do, all
 * of it takes up to twice as long, as the application itself does.
 *
 * To make an event and send it to the agent, in the traced process.
 */
#define KP_COST_EVENT INT64_C(1000)	/* ns */
/* To write one into a ring of the native probe. */
#define KP_COST_NATIVE INT64_C(250)	/* ns */
/* A call of an armed function without its events. */
#define KP_COST_CALL INT64_C(350)	/* ns */
/*
 * A process with trace flags is scheduled, or ends and another begins: the VM looks
 * at the flags each time, whatever the process does.  All processes have them.
 */
#define KP_COST_SWITCH INT64_C(130)	/* ns */
/* More, where it works for a sampled request: messages carry a token. */
#define KP_COST_TOKEN INT64_C(150)	/* ns */
/* Switches of a request, before any are counted: those of a web shop. */
#define KP_COST_SWITCHES 25

struct kp_cost {
	uint64_t events;
	uint64_t ring_events;	/* those of them written into a ring */
	uint64_t armed_calls;	/* of entries and tiers, counted by the VM */
	uint64_t switches;	/* of processes with flags */
	uint64_t marked;	/* those of them for sampled requests: an estimate */
	uint64_t sampled;	/* requests */
	kp_dur_ns agent;	/* by its own account */
	/*
	 * The last measured time that tracing adds to one traced call, and to
	 * the call that makes it; 0: not measured.
	 */
	kp_dur_ns traced_call, traced_caller;
};

void kp_cost_add(struct kp_cost *to, const struct kp_cost *c);
/*
 * Estimates a second in which armed functions are called `calls` times, and `requests`
 * begin, of which this share is sampled.
 */
struct kp_cost kp_cost_foresee(double calls, double requests, double share,
    bool native);
/* Returns the whole cost, as CPU time of one scheduler. */
kp_dur_ns kp_cost_total(const struct kp_cost *c);
/* Returns the part that does not depend on sampling. */
kp_dur_ns kp_cost_fixed(const struct kp_cost *c);
/*
 * Writes the parts of c in percent of a scheduler, over this time: "7.3 % of a
 * scheduler: 3.1 events, 2 armed calls, ...", n bytes at most; returns text.
 */
const char *kp_cost_text(const struct kp_cost *c, kp_dur_ns over, char *text,
    size_t n);
/* Convert armed calls a second to percent of one scheduler, and back. */
double kp_cost_percent(double calls);
uint64_t kp_cost_calls(double percent);

/*
 * ---- what tracing adds to the times of traced calls: measured with calls that do nothing ----
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
/* False, as for most events: it would be of no measurement, and change nothing. */
static inline bool
tracing_cost_wants(const struct tracing_cost *t, const struct kp_event *ev)
{
	return t->pid.id != 0 || kp_label_measures(ev->label);
}

#endif
