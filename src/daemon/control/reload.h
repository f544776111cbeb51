/*
 * reload.h - loads tiers.conf and the file of targets again while kprofd runs,
 * for `kprof reload` and SIGHUP.
 *
 * One round reads the files, has every attached target check tiers.conf, and
 * puts it in force on all of them or on none: if one refuses it, nothing
 * changes anywhere.  A client that asks during a round gets the next one, which
 * reads the files again.  The old configuration is kept until the store has
 * written the windows that borrow its texts.
 */
#ifndef KPROFD_DAEMON_CONTROL_RELOAD_H
#define KPROFD_DAEMON_CONTROL_RELOAD_H

#include "daemon/conf_file.h"
#include "daemon/control/control.h"
#include "daemon/deferred_free.h"
#include "daemon/target/targets.h"

/* All borrowed; conf is replaced. */
struct reload_parts {
	struct conf_file *conf;
	struct control *control;
	struct targets *targets;
	struct kp_store *store;
	struct deferred *past;
	bool relay;	/* that is the probe of all */
};

struct reload;

/* NULL when out of memory. */
struct reload *reload_new(const struct reload_parts *parts);
/* After the targets and the store. */
void reload_free(struct reload *r);
/* c: who has the answer; NULL: the log has. */
void reload_ask(struct reload *r, struct control_client *c);
/* As on_checked and on_reloaded of struct agent_ops. */
void reload_checked(struct target *t, const struct agent_checked *c);
void reload_done(struct target *t, const struct agent_reloaded *how);

#endif
