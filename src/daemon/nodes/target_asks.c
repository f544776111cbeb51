/*
 * target_asks.c - asks a target for the names of processes that receive messages, in
 * batches, and passes them to kp_requests; asks it what requests wait for, and reports
 * the servers that answer later, once each.
 */
#include <stdio.h>
#include <string.h>

#include "agent/agent_msg.h"
#include "daemon/log.h"
#include "daemon/nodes/target.h"

#define LOOKS_MAX 20u	/* after attaching: 0.2 ms of the target's time each */
#define PROCESSES 40	/* that are asked at a look */
#define STRAYED_LEAST 10u	/* calls since the last look */

/* ---- messages ---- */

void
mailboxes_restart(struct mailboxes *m)
{
	m->n = m->requested = 0;
	m->timed = false;
	m->why[0] = '\0';
}

void
mailboxes_add(void *ctx, uint32_t node, uint64_t proc)
{
	struct mailboxes *m = &node_run_target(ctx, node)->mailboxes;

	if (m->n < MAILBOXES_MAX)
		m->proc[m->n++] = proc;
}

/*
 * A list in the same order: for each process its name (an atom), the function that it
 * began with ({M,F,A}), or [] if it has ended.
 */
static void
on_names(void *ctx, uint64_t number, struct kp_term *r)
{
	struct target *t = ctx;
	struct mailboxes *m = &t->mailboxes;
	uint32_t n = r != NULL ? kp_term_list(r) : 0;
	struct kp_span name;

	(void)number;
	for (uint32_t i = 0; i < m->requested && i < n; i++) {
		name = kp_term_raw(r);
		if (r->err != KP_OK)
			break;
		kp_requests_name_receiver(t->run.conf_run->rs, m->proc[i], name);
	}
	m->n -= m->requested;
	memmove(m->proc, m->proc + m->requested, m->n * sizeof(m->proc[0]));
	m->requested = 0;
	mailboxes_ask(t);
}

void
mailboxes_ask(struct target *t)
{
	struct mailboxes *m = &t->mailboxes;
	uint64_t pid[AGENT_NAMES_MAX];
	uint32_t n = m->n < AGENT_NAMES_MAX ? m->n : AGENT_NAMES_MAX;
	struct kp_buf b;

	if (n == 0 || m->requested > 0)
		return;
	for (uint32_t i = 0; i < n; i++)
		pid[i] = kp_proc_pid(m->proc[i]);
	agent_ask_begin(t->agent, &b);
	msg_procs(&b, "names", pid, n);
	if (agent_ask(t->agent, &b, on_names, t, AGENT_ANSWER_S) != 0)
		m->requested = n;
}

void
mailboxes_timed(struct target *t, bool timed, const char *why)
{
	struct mailboxes *m = &t->mailboxes;
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

/* ---- what requests wait for ---- */

static agent_answer_fn on_waits;

static void
ask(struct target *t, const uint64_t *pid, size_t n)
{
	struct servers *w = &t->servers;
	uint64_t servers[SERVERS_CROSSED_MAX];
	struct kp_buf b;

	for (unsigned i = 0; i < w->ncrossed; i++)
		servers[i] = kp_proc_pid(w->crossed[i].proc);
	agent_ask_begin(t->agent, &b);
	msg_waits(&b, pid, n, servers, w->ncrossed);
	w->asked = agent_ask(t->agent, &b, on_waits, t, AGENT_ANSWER_S) != 0;
	w->looked = kp_mono_now();
	if (w->asked)
		w->named = w->ncrossed;
}

static void
report_crossed(struct target *t, const struct server_crossed *c,
    const char *name)
{
	char pid[32];

	snprintf(t->servers.drains, sizeof(t->servers.drains), "process %s%s%s%s %s",
	    kp_proc_text(c->proc, pid, sizeof(pid)), name[0] != '\0' ? ", " :
	    "", name, name[0] != '\0' ? "," : "", c->text);
	target_report(t, "drains", t->servers.drains);
}

void
servers_end(struct target *t)
{
	struct servers *w = &t->servers;

	for (unsigned i = 0; i < w->ncrossed; i++)
		report_crossed(t, &w->crossed[i], "");
	w->ncrossed = w->named = 0;
	w->asked = false;
}

static void
report_server(struct target *t, const struct kp_waits *s)
{
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	kp_waits_put(s, t->run.conf_run->conf, t->sampler.one_in == 1 ||
	    kp_sampler_slices(&t->sampler), &b);
	target_report(t, "drains", kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* Keeps it, if it is new. */
static void
server_found(struct target *t, const struct kp_waits *s)
{
	struct servers *w = &t->servers;

	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->v[i].server, s->server) == 0)
			return;
	if (w->n == SERVERS_MAX)
		return;
	w->v[w->n++] = *s;
	if (t->check == NULL)
		report_server(t, s);
}

/*
 * {Found, Names}, as kprof_waits.erl has them; Names are those of the servers, in the
 * same order.  None comes where the process that looks there was ended.
 */
static void
on_waits(void *ctx, uint64_t number, struct kp_term *r)
{
	struct target *t = ctx;
	struct servers *w = &t->servers;
	struct kp_waits found[KP_WAITS_MAX];
	char name[KP_SERVER_NAME_MAX];
	uint32_t names;
	size_t n = 0;

	(void)number;
	if (!w->asked)
		return;
	w->asked = false;
	if (r == NULL) {
		servers_end(t);
		return;
	}
	kp_term_tuple_n(r, 2);
	kp_waits_read(r, found, KP_WAITS_MAX, &n);
	names = kp_term_list(r);
	for (uint32_t i = 0; i < w->named; i++) {
		name[0] = '\0';
		if (i < names && r->err == KP_OK)
			kp_server_read(r, name);
		report_crossed(t, &w->crossed[i], name);
	}
	if (r->err != KP_OK)
		agent_malformed(t->agent, "what requests wait for");
	for (size_t i = 0; i < n; i++)
		server_found(t, &found[i]);
	w->ncrossed -= w->named;
	memmove(w->crossed, w->crossed + w->named,
	    w->ncrossed * sizeof(w->crossed[0]));
	w->named = 0;
	if (w->ncrossed > 0)
		ask(t, NULL, 0);
}

/* The processes in which the requests are that run longest. */
static size_t
waiting(const struct target *t, uint64_t pid[PROCESSES])
{
	struct kp_flight v[PROCESSES];
	size_t n = kp_requests_oldest(t->run.conf_run->rs, t->run.slot, t->last_sent,
	    v, PROCESSES), out = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].fn != KP_NONE && v[i].node == t->run.slot)
			pid[out++] = kp_proc_pid(v[i].proc);
	return out;
}

void
servers_restart(struct target *t)
{
	servers_end(t);
	t->servers = (struct servers){ .n = 0 };
}

void
servers_ask(struct target *t, kp_dur_ns every)
{
	struct servers *w = &t->servers;
	uint64_t strayed = kp_requests_strayed(t->run.conf_run->rs, t->run.slot);
	kp_mono_ns now = kp_mono_now();
	uint64_t pid[PROCESSES];
	size_t n;

	if (strayed < w->strayed)
		w->strayed = 0;		/* another configuration */
	if (w->asked || w->looks == LOOKS_MAX || now - w->looked < every ||
	    (t->check == NULL && strayed - w->strayed < STRAYED_LEAST))
		return;
	n = waiting(t, pid);
	if (n == 0)
		return;
	ask(t, pid, n);
	w->looks++;
	w->strayed = strayed;
}

void
servers_add_crossed(void *ctx, uint32_t node, uint64_t proc, const struct kp_fn *fn)
{
	struct target *t = node_run_target(ctx, node);
	struct servers *w = &t->servers;
	struct server_crossed c = { .proc = proc };

	snprintf(c.text, sizeof(c.text), "handles requests while it carries the "
	    "tokens of others (it takes messages ahead, or answers later): request "
	    "types of tier %.60s are estimated there, not known, and calls are lost "
	    "as crossed (%.150s)", node_run_tier(t->run.conf_run->conf, fn), fn->text);
	if (w->ncrossed < SERVERS_CROSSED_MAX) {
		w->crossed[w->ncrossed++] = c;
		if (!w->asked)
			ask(t, NULL, 0);
		if (w->asked)
			return;
		w->ncrossed--;
	}
	report_crossed(t, &c, "");
}
