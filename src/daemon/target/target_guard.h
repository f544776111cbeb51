/*
 * target_guard.h - how many of a target's requests are traced (sampling), and
 * when tracing pauses because it was too much for the target or for kprofd.
 */
#ifndef KPROFD_DAEMON_TARGET_TARGET_GUARD_H
#define KPROFD_DAEMON_TARGET_TARGET_GUARD_H

#include <stdbool.h>

#include "kprofd/clock.h"
#include "kprofd/guard.h"

struct target;
struct agent_status;
struct kp_sampling;

/* Is kprofd itself over a limit, with what was sent then? */
void target_look_out(struct target *t, kp_target_ns sent);
/* A limit was passed: logs why; returns for how long tracing is to pause. */
kp_dur_ns target_trip(struct target *t, enum kp_trip cause, const char *why);
/* The pause is over: returns for how much longer to wait; 0: resume. */
kp_dur_ns target_rested(struct target *t);
/* A status came while armed: time for what was cut to grow. */
void target_recover(struct target *t, const struct agent_status *st);
/* What a batch of then, or a status, says of the entries' rate and of costs. */
void target_quick(struct target *t, kp_target_ns sent);
void target_sample(struct target *t, const struct agent_status *st);
/*
 * What is in the plan and too hot to be armed is reported, where it is more than
 * before; told: it was already.
 */
void target_hot(struct target *t, bool told);
/* The rate that was found to be right stays, where the rule is the same. */
void target_sampling(struct target *t, const struct kp_sampling *now);

#endif
