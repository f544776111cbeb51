/*
 * messages.c - collects the processes that receive messages, requests their names
 * from the agent in batches, and passes the names to kp_requests.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/nodes/target.h"
#include "daemon/nodes/target_events.h"

void
messages_restart(struct messages *m)
{
	m->n = m->requested = 0;
	m->timed = false;
	m->why[0] = '\0';
}

void
messages_on_receiver(void *ctx, uint32_t node, uint64_t proc)
{
	struct messages *m = &assembly_target(ctx, node)->messages;

	if (m->n < RECEIVERS_QUEUED_MAX)
		m->proc[m->n++] = proc;
}

void
messages_ask(struct target *t)
{
	struct messages *m = &t->messages;
	uint64_t pid[AGENT_NAMES_MAX];
	uint32_t n = m->n < AGENT_NAMES_MAX ? m->n : AGENT_NAMES_MAX;

	if (n == 0 || m->requested > 0)
		return;
	for (uint32_t i = 0; i < n; i++)
		pid[i] = kp_proc_pid(m->proc[i]);
	if (agent_ask_names(t->agent, pid, n) == KP_OK)
		m->requested = n;
}

void
messages_on_names(struct target *t, const struct kp_term *list)
{
	struct messages *m = &t->messages;
	struct kp_term r = *list;
	uint32_t n = kp_term_list(&r);
	struct kp_span name;

	for (uint32_t i = 0; i < m->requested && i < n; i++) {
		name = kp_term_raw(&r);
		if (r.err != KP_OK)
			break;
		kp_requests_name_receiver(t->part.in->rs, m->proc[i], name);
	}
	m->n -= m->requested;
	memmove(m->proc, m->proc + m->requested, m->n * sizeof(m->proc[0]));
	m->requested = 0;
	messages_ask(t);
}

void
messages_on_timed(struct target *t, bool timed, const char *why)
{
	struct messages *m = &t->messages;
	char text[500];

	if (m->timed == timed && strcmp(m->why, why) == 0)
		return;
	m->timed = timed;
	snprintf(m->why, sizeof(m->why), "%s", why);
	if (timed) {
		log_info("messages", t->node, "messages of '%s' are timed",
		    t->node);
	} else if (why[0] != '\0') {
		snprintf(text, sizeof(text), "messages are not timed: %s", why);
		target_report(t, "messages", text);
	}
}
