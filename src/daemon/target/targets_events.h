/*
 * targets_events.h - what the agent of one target reports that the whole set
 * has to know, before anybody else, or to decide.  Names are as of agent_ops.
 */
#ifndef KPROFD_DAEMON_TARGET_TARGETS_EVENTS_H
#define KPROFD_DAEMON_TARGET_TARGETS_EVENTS_H

#include "target/agent.h"

struct target;

void targets_on_state(struct target *t, enum agent_state s);
void targets_on_failed(struct target *t, enum agent_failure f,
    const char *why);
void targets_on_stopped(struct target *t);
bool targets_on_unreached(struct target *t);
enum agent_verdict targets_on_missing(struct target *t,
    const struct kp_diags *diags);
void targets_on_nodes(struct target *t, const struct kp_term *list);

#endif
