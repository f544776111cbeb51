/*
 * target_guard.h - what profiling costs a target, how many of its requests are
 * sampled, and when tracing pauses because of overload.
 */
#ifndef KPROFD_DAEMON_NODES_TARGET_GUARD_H
#define KPROFD_DAEMON_NODES_TARGET_GUARD_H

#include "kprofd/cost.h"
#include "kprofd/guard.h"
#include "agent/agent.h"

struct target;
struct kp_sampling;
struct overload_cause;

struct overhead {
	struct kp_cost last;	/* between the last two statuses, */
	kp_dur_ns over;		/* which this time lies between; 0: unknown */
	kp_dur_ns held;		/* the agent had no processor for so much of it */
	uint64_t requests;	/* between these statuses, sampled or not */
	uint64_t sampled;	/* requests, in all, at the last status */
	struct kp_cost window;	/* of the running window */
};

/*
 * native: the probe, whose events are cheaper.  sampled: requests so far.  before:
 * the status before this one, all zero if there was none.
 */
void overhead_status(struct overhead *s, bool native, uint64_t sampled,
    const struct agent_status *before, const struct agent_status *st);
/* Returns the cost of the window that closes, and starts from zero. */
struct kp_cost overhead_take(struct overhead *s);
/* A part of `last`, in percent of one scheduler. */
double overhead_percent(const struct overhead *s, kp_dur_ns part);
/* A count of `last`, per second. */
uint64_t overhead_rate(const struct overhead *s, uint64_t n);

/* Why requests are sampled as they are; "": all are, or as tiers.conf says. */
const char *target_rate_why(const struct target *t);
/* Pauses tracing if kprofd is over a limit.  sent: the time of the last message. */
void target_check_overload(struct target *t, kp_target_ns sent);
/* A limit was passed: logs why; returns for how long tracing is to pause. */
kp_dur_ns target_trip(struct target *t, const struct overload_cause *c);
/* The pause is over: returns for how much longer to wait; 0: resume. */
kp_dur_ns target_pause_over(struct target *t);
/* Called for each status while armed: raises a rate that an overload lowered. */
void target_recover(struct target *t, const struct agent_status *st);
/* Adapt the sampling rate to the entries of a batch, or to a status. */
void target_sample_batch(struct target *t, kp_target_ns sent);
void target_sample_status(struct target *t, const struct agent_status *st);
/*
 * Has tiers give tokens to processes without one, or stop it.  They do while all
 * requests are measured: whoever takes a message from a process without a token, as
 * a request from before has none, would be lost to its request.  They do not where
 * their calls outside of requests are many, since each of these makes an event then.
 */
void target_give_tokens(struct target *t);
/*
 * Reports functions of the plan that are too hot to trace, if there are more
 * than before; reported: that was done already.
 */
void target_hot(struct target *t, bool reported);
/* Another rule of sampling; the rate stays where the rule is the same. */
void target_sampling(struct target *t, const struct kp_sampling *now);

#endif
