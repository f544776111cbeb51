/*
 * pending_commands.h - `kprof pause`, `resume` and `clear-tokens`: answers the
 * client when the targets have done what it asked for, or when it is known why
 * they have not.
 */
#ifndef KPROFD_DAEMON_CONTROL_PENDING_COMMANDS_H
#define KPROFD_DAEMON_CONTROL_PENDING_COMMANDS_H

#include "daemon/control/control.h"
#include "daemon/options.h"
#include "daemon/target/target.h"

#define PENDING_MAX 16	/* as many as clients */

enum wait_for { WAIT_PAUSED, WAIT_RESUMED, WAIT_CLEARED };

struct pending_commands {
	struct wait {
		uint64_t client;
		enum wait_for want;
		bool busy;
		unsigned n, left;	/* targets, and those not there yet */
		unsigned good;		/* of those that are */
		char first[1024];	/* what one of these said */
		char bad[1024];		/* the first that could not, and why */
		struct {
			const struct target *t;	/* NULL: its answer is there */
			uint64_t number;	/* of agent_clear_tokens() */
		} v[TARGETS_MAX];
	} v[PENDING_MAX];
};

/*
 * The client asked these n targets, which were told.  numbers: for
 * WAIT_CLEARED, 0 where the target was not attached.  Answers at once where
 * nothing is to be waited for.
 */
void pending_add(struct pending_commands *w, struct control *control,
    struct control_client *c, enum wait_for want, struct target *const *v,
    const uint64_t *numbers, unsigned n);
/* The target has come to state s; text: as in on_state of agent.h. */
void pending_state(struct pending_commands *w, struct control *control,
    const struct target *t, enum agent_state s, const char *text);
/* Tokens were cleared: agent_clear_tokens() number so and so. */
void pending_cleared(struct pending_commands *w, struct control *control,
    const struct target *t, uint64_t number);

#endif
