/*
 * commands.h - the commands that clients of the control socket may send.
 *
 * A line is a command and words: "json" for JSON, "node=GLOB" for some of the
 * targets only, "stacks" for those of `flight`, "bytes=N" for the length of a text
 * behind the line, and "text=TEXT" for the rest of the line: of `mark`, and of `trace`,
 * whose request type it is, and which takes "for=TIME" and "events=N", too.  `traces`
 * takes "id=N".
 */
#ifndef KPROFD_DAEMON_CONTROL_COMMANDS_H
#define KPROFD_DAEMON_CONTROL_COMMANDS_H

#include "daemon/control/control.h"
#include "daemon/daemon.h"

struct commands;

/* NULL when out of memory.  The parts have to be there for the first line. */
struct commands *commands_new(const struct parts *p);
void commands_free(struct commands *cs);
/* ctx: the struct commands. */
control_fn commands_take;

/*
 * As AGENT_ON_STATE of agent/agent.h: clients of `kprof pause`,
 * `resume` and `clear-tokens` are answered when the targets have done it, or when
 * it is known why they have not.
 */
void commands_on_state(struct commands *cs, const struct target *t,
    enum agent_state s, const char *text);

/*
 * status.c: what kprofd is doing.  `kprof status`: targets, their cost and losses,
 * the database.  glob: of the targets to show, or several with blanks between them
 * (kp_globs()); NULL: all.
 */
void status_text(struct kp_buf *b, const struct parts *p, const char *glob,
    bool json);
/* For /metrics (export/metrics.h): figures of the daemon and of its targets. */
void self_metrics_text(struct kp_buf *b, const struct parts *p);

#endif
