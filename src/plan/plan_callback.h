/*
 * plan_callback.h - which functions return the state of a process.  Pure.
 */
#ifndef KPROFD_PLAN_PLAN_CALLBACK_H
#define KPROFD_PLAN_PLAN_CALLBACK_H

#include "kprofd/term.h"

/*
 * The behaviour for which a function is a callback that returns its process's
 * state, or NULL.  behaviours: the raw list of those that its module names.
 */
const char *plan_state_callback(struct kp_span behaviours, struct kp_span fun,
    uint32_t arity, bool exported);

#endif
