/*
 * messages.c - collects the pids of receivers, asks the agent for their names
 * in batches, and passes the names on.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/target/target.h"

void
mail_restart(struct mail_watch *m)
{
	m->n = m->asked = 0;
	m->timed = false;
	m->why[0] = '\0';
}

void
messages_on_receiver(void *ctx, uint32_t node, uint64_t proc)
{
	struct mail_watch *m = &assembly_target(ctx, node)->mail;

	if (m->n < MAIL_ASK_MAX)
		m->proc[m->n++] = proc;
}

void
mail_ask(struct mail_watch *m, struct agent *a)
{
	uint64_t pid[AGENT_NAMES_MAX];
	uint32_t n = m->n < AGENT_NAMES_MAX ? m->n : AGENT_NAMES_MAX;

	if (n == 0 || m->asked > 0)
		return;
	for (uint32_t i = 0; i < n; i++)
		pid[i] = kp_proc_pid(m->proc[i]);
	if (agent_ask_names(a, pid, n) == KP_OK)
		m->asked = n;
}

void
mail_named(struct mail_watch *m, struct assembly_part *p,
    const struct kp_term *list)
{
	struct kp_term r = *list;
	uint32_t n = kp_term_list(&r), asked = m->asked;
	struct kp_span name;

	for (uint32_t i = 0; i < asked && i < n; i++) {
		name = kp_term_raw(&r);
		if (r.err != KP_OK)
			break;
		kp_requests_name_receiver(p->in->rs, m->proc[i], name);
	}
	m->n -= asked;
	m->asked = 0;
	memmove(m->proc, m->proc + asked, m->n * sizeof(m->proc[0]));
}

bool
mail_told(struct mail_watch *m, bool timed, const char *why)
{
	bool news = m->timed != timed || strcmp(m->why, why) != 0;

	m->timed = timed;
	snprintf(m->why, sizeof(m->why), "%s", why);
	return news;
}
