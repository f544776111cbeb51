/*
 * messages.h - messages of one target: the names of its receivers, as far as
 * they are known, and whether messages are timed there.
 */
#ifndef KPROFD_DAEMON_TARGET_MESSAGES_H
#define KPROFD_DAEMON_TARGET_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "target/agent.h"

#define MAIL_ASK_MAX 2000	/* processes that wait to be asked for */

struct mail_watch {
	uint64_t proc[MAIL_ASK_MAX];	/* the first `asked` are under way */
	uint32_t n, asked;
	bool timed;
	char why[400];		/* not timed; "": not told yet */
};

struct assembly_part;

/* The connection is another one. */
void mail_restart(struct mail_watch *m);
/*
 * Called by kp_requests for a process that receives messages, so that its name
 * can be requested; without room it stays without a name.
 */
void messages_on_receiver(void *ctx, uint32_t node, uint64_t proc);
/* Asks for what there is, unless an answer is waited for. */
void mail_ask(struct mail_watch *m, struct agent *a);
/* The answer: a list as of agent_ops' on_names. */
void mail_named(struct mail_watch *m, struct assembly_part *p,
    const struct kp_term *list);
/* True: this is news. */
bool mail_told(struct mail_watch *m, bool timed, const char *why);

#endif
