/*
 * pending_commands.h - `kprof pause`, `resume` and `clear-tokens`: answers the
 * client when the targets have done it, or when it is known why they have not.
 */
#ifndef KPROFD_DAEMON_CONTROL_PENDING_COMMANDS_H
#define KPROFD_DAEMON_CONTROL_PENDING_COMMANDS_H

#include "daemon/control/control.h"
#include "daemon/daemon.h"
#include "daemon/nodes/target.h"

enum wait_for { WAIT_PAUSED, WAIT_RESUMED, WAIT_CLEARED };

struct pending;

/* NULL when out of memory. */
struct pending *pending_new(const struct parts *p);
void pending_free(struct pending *w);
/*
 * The client's command was given to these n targets.  numbers: for WAIT_CLEARED,
 * of agent_clear_tokens(); 0: that target was not attached.  Answers at once
 * where there is nothing to wait for.
 */
void pending_add(struct pending *w, struct control_client *c,
    enum wait_for want, struct target *const *v, const uint64_t *numbers,
    unsigned n);
/* As on_state and on_cleared of struct agent_ops. */
void pending_state(struct pending *w, const struct target *t,
    enum agent_state s, const char *text);
void pending_cleared(struct target *t, uint64_t number);

#endif
