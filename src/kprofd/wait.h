/*
 * wait.h - `kprof pause`, `resume` and `clear-tokens`: clients who have their
 * answer when the target has done what they asked for, or it is known why not.
 */
#ifndef KP_KPROFD_WAIT_H
#define KP_KPROFD_WAIT_H

#include "kprofd/control.h"
#include "target/agent.h"

#define WAITS_MAX 16	/* as many as clients */

enum wait_for { WAIT_PAUSED, WAIT_RESUMED, WAIT_CLEARED };

struct waits {
	struct wait {
		uint64_t client;
		enum wait_for want;
		uint64_t number;	/* of agent_clear_tokens() */
		bool busy;
	} v[WAITS_MAX];
};

/*
 * The target is in state s after it was asked.  Answers at once where nothing
 * is to be waited for.  number: for WAIT_CLEARED.
 */
void waits_add(struct waits *w, struct control *control,
    struct control_client *c, enum wait_for want, uint64_t number,
    enum agent_state s);
/* The target has come to state s; text: as in on_state of agent.h. */
void waits_state(struct waits *w, struct control *control,
    enum agent_state s, const char *text);
/* Tokens were cleared: agent_clear_tokens() number so and so. */
void waits_cleared(struct waits *w, struct control *control, uint64_t number);

#endif
