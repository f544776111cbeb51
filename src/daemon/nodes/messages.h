/*
 * messages.h - the messages of one target: the names of the processes that
 * receive them, and whether the time in mailboxes is measured there.
 */
#ifndef KPROFD_DAEMON_NODES_MESSAGES_H
#define KPROFD_DAEMON_NODES_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"

#define RECEIVERS_QUEUED_MAX 2000

struct messages {
	uint64_t proc[RECEIVERS_QUEUED_MAX];	/* names of the first
						   `requested` are under way */
	uint32_t n, requested;
	bool timed;
	char why[400];		/* ... not; "": not known yet */
};

/* For a new connection. */
void messages_restart(struct messages *m);
/*
 * Called by kp_requests for a process that receives messages, so that its name
 * can be requested; when the queue is full it stays without a name.
 */
void messages_on_receiver(void *ctx, uint32_t node, uint64_t proc);
/* Requests names from the agent, unless an answer is under way. */
void messages_ask(struct target *t);
/* As on_names and on_messages of struct agent_ops. */
void messages_on_names(struct target *t, const struct kp_term *list);
void messages_on_timed(struct target *t, bool timed, const char *why);

#endif
