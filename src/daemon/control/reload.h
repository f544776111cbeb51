/*
 * reload.h - reloads tiers.conf and the file of targets while kprofd runs, for
 * `kprof reload` and SIGHUP.
 *
 * One round reads the files, has every attached target check tiers.conf, and
 * puts it in force on all of them or on none: if one refuses it, nothing
 * changes anywhere.  A client that asks during a round gets the next one, which
 * reads the files again.  The old configuration is kept until the store has
 * written the windows that borrow its texts.
 */
#ifndef KPROFD_DAEMON_CONTROL_RELOAD_H
#define KPROFD_DAEMON_CONTROL_RELOAD_H

#include "daemon/control/control.h"
#include "daemon/daemon.h"
#include "daemon/nodes/targets.h"

struct reload;

/* NULL when out of memory.  Replaces p->conf. */
struct reload *reload_new(struct parts *p);
/* Call it after the targets and the store are closed. */
void reload_free(struct reload *r);
/* True: a round is under way. */
bool reload_busy(const struct reload *r);
/*
 * Answers c, if it is not NULL; the log has the result in any case.  During a
 * check (check/check.h) a client is refused; without one the check ends.
 */
void reload_ask(struct reload *r, struct control_client *c);
/* As AGENT_ON_RELOADED of agent/agent.h. */
void reload_done(struct target *t, const struct agent_reloaded *how);

#endif
