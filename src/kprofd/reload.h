/*
 * reload.h - another tiers.conf while kprofd runs: for `kprof reload` and
 * SIGHUP.
 *
 * One round reads the file, has the target check it, and puts it in force; who
 * asks during a round has the next one, which reads the file anew.  A file
 * that is refused changes nothing.  What was in force is kept until the store
 * has written the windows that borrow its texts.
 */
#ifndef KP_KPROFD_RELOAD_H
#define KP_KPROFD_RELOAD_H

#include "kprofd/conf_file.h"
#include "kprofd/control.h"
#include "kprofd/tables.h"
#include "kprofd/target.h"

/* All borrowed; conf is replaced. */
struct reload_parts {
	struct conf_file *conf;
	struct control *control;
	struct target *target;
	struct kp_store *store;
	struct tables *tables;		/* or NULL */
};

struct reload;

/* NULL when out of memory. */
struct reload *reload_new(struct event_base *base,
    const struct reload_parts *parts);
/* After the store was closed. */
void reload_free(struct reload *r);
/* c: who has the answer; NULL: the log has. */
void reload_ask(struct reload *r, struct control_client *c);
/* From target_ops. */
void reload_done(struct reload *r, const struct agent_reloaded *how);
/* Now and then: what the store could not write may be written now. */
void reload_tick(struct reload *r);

#endif
