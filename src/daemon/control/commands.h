/*
 * commands.h - the commands that clients of the control socket may send.
 *
 * A line is a command and words behind it: "json" for status, and "node=GLOB"
 * for those that are about some of the targets only.
 */
#ifndef KPROFD_DAEMON_CONTROL_COMMANDS_H
#define KPROFD_DAEMON_CONTROL_COMMANDS_H

#include "daemon/control/control.h"
#include "daemon/control/reload.h"
#include "daemon/target/targets.h"

/* All borrowed; they are there when the first line comes. */
struct commands_parts {
	const struct options *o;
	struct control *control;
	struct targets *targets;
	struct kp_store *store;
	struct reload *reload;
	struct otlp *otlp;		/* NULL: there is no collector */
	kp_mono_ns started;
};

struct commands;

/* NULL when out of memory. */
struct commands *commands_new(struct event_base *base,
    const struct commands_parts *parts);
void commands_free(struct commands *cs);
void commands_take(struct commands *cs, struct control_client *c,
    const char *line);

/*
 * As on_state and on_cleared of struct agent_ops: answer the clients that wait
 * for that.
 */
void commands_state(struct commands *cs, const struct target *t,
    enum agent_state s, const char *text);
void commands_cleared(struct target *t, uint64_t number);

#endif
