/*
 * agent_ask.c - keeps the state of a target, asks it and passes on its answers, and
 * ends a connection.
 *
 * Each question has a number and a limit, so a target that hangs is a lost connection
 * like any other.  After the first successful attach it makes a lost
 * connection again, with backoff; when the first attempt fails, the owner decides
 * whether to try again.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/nodes.h"
#include "agent/agent_internal.h"

#define LEASE_MS 1000
#define LEASES_QUICK 8		/* after attaching, to learn its clock */
#define SILENT_MAX 5		/* leases in a row without an answer */
#define STOP_MS 3000		/* the longest wait for the goodbye */

/* ---- states ---- */

const char *
agent_state_name(enum agent_state s)
{
	static const char *const names[] = { "connecting", "looking",
		"starting", "checking", "measuring call rates", "arming",
		"armed", "pausing", "paused", "tripped", "stopping", "away",
		"lost", "ended" };

	return names[s];
}

enum agent_state
agent_state(const struct agent *a)
{
	return a->state;
}

bool
agent_attached(const struct agent *a)
{
	return a->link != NULL && !a->stopping && a->state >= AGENT_CHECKING &&
	    a->state <= AGENT_TRIPPED;
}

void
agent_timer(struct agent *a, unsigned ms)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	event_add(a->timer, &tv);
}

static void
set_state(struct agent *a, enum agent_state s, enum agent_end end, const char *text)
{
	a->state = s;
	event_del(a->timer);
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_STATE, .state = s, .end = end,
	    .text = text });
}

void
agent_set_state(struct agent *a, enum agent_state s, const char *text)
{
	set_state(a, s, AGENT_STOPPED, text);
}

void
agent_report(struct agent *a, const char *word, const char *text)
{
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_REPORT, .word = word,
	    .text = text });
}

void
agent_malformed(struct agent *a, const char *what)
{
	char text[200];

	if (a->malformed)
		return;
	a->malformed = true;
	snprintf(text, sizeof(text), "%s that makes no sense (another version "
	    "of the agent, or a fault on the way?)", what);
	agent_report(a, "nonsense", text);
}

/* ---- questions ---- */

void
agent_send(struct agent *a, const struct kp_buf *message, bool to_rex)
{
	struct kp_buf frame;

	if (a->link == NULL)
		return;
	dist_frame(&frame, &a->ids, message, to_rex);
	dist_conn_send(a->link, &frame);
	kp_buf_free(&frame);
}

void
agent_ask_begin(struct agent *a, struct kp_buf *b)
{
	kp_buf_init(b, MESSAGE_MAX);
	msg_command(b, &a->ids, ++a->questions);
}

void
agent_tell(struct agent *a, struct kp_buf *b)
{
	agent_send(a, b, false);
	kp_buf_free(b);
}

uint64_t
agent_ask_own(struct agent *a, struct kp_buf *b, agent_answer_fn *on_answer,
    void *ctx, kp_dur_ns limit)
{
	if (a->nasked == ASKED_MAX + ASKED_OWN) {
		kp_buf_free(b);
		return 0;
	}
	a->asked[a->nasked++] = (struct question){ .number = a->questions,
		.on_answer = on_answer, .ctx = ctx,
		.left = (unsigned)(limit / KP_NS_PER_S) + 1 };
	agent_tell(a, b);
	return a->questions;
}

uint64_t
agent_ask(struct agent *a, struct kp_buf *b, agent_answer_fn *on_answer, void *ctx,
    unsigned seconds)
{
	if (agent_attached(a) && a->nasked < ASKED_MAX)
		return agent_ask_own(a, b, on_answer, ctx,
		    (kp_dur_ns)seconds * KP_NS_PER_S);
	kp_buf_free(b);
	return 0;
}

/* The i-th question is open no more: answers it. */
static void
answer(struct agent *a, unsigned i, struct kp_term *r)
{
	struct question q = a->asked[i];

	a->asked[i] = a->asked[--a->nasked];
	q.on_answer(q.ctx, q.number, r);
}

void
agent_forget(struct agent *a, uint64_t number)
{
	for (unsigned i = 0; i < a->nasked; i++)
		if (a->asked[i].number == number) {
			a->asked[i] = a->asked[--a->nasked];
			return;
		}
}

/* No question is open any more: all get their NULL. */
static void
asked_drop(struct agent *a)
{
	while (a->nasked > 0)
		answer(a, a->nasked - 1, NULL);
}

static void
asked_tick(struct agent *a)
{
	unsigned i;

	for (i = 0; i < a->nasked; i++)
		a->asked[i].left--;
	/* The callback may drop questions, or ask others. */
	for (i = 0; i < a->nasked; )
		if (a->asked[i].left == 0) {
			answer(a, i, NULL);
			i = 0;
		} else {
			i++;
		}
}

/* Nobody waits for an answer whose question was dropped. */
void
agent_on_reply(struct agent *a, struct kp_term *r)
{
	uint64_t number = (uint64_t)kp_term_int(r);

	for (unsigned i = 0; r->err == KP_OK && i < a->nasked; i++)
		if (a->asked[i].number == number) {
			answer(a, i, r);
			return;
		}
}

/* ---- the end of a connection ---- */

void
agent_drop_connection(struct agent *a)
{
	connect_free(a->connect);
	a->connect = NULL;
	dist_conn_free(a->link);
	a->link = NULL;
	a->channel = NULL;
	event_del(a->lease);
	agent_report_changes(a, true);
	a->reload.planned = false;
	asked_drop(a);
}

void
agent_gone(struct agent *a, const char *text)
{
	agent_drop_connection(a);
	if (a->away[0] == '\0') {
		set_state(a, AGENT_ENDED, AGENT_STOPPED, text);
		return;
	}
	a->stopping = false;
	agent_set_state(a, AGENT_AWAY, a->away);
}

void
agent_fail(struct agent *a, enum agent_end end, const char *why)
{
	if (a->stopping) {
		agent_gone(a, why);
		return;
	}
	agent_drop_connection(a);
	set_state(a, AGENT_ENDED, end, why);
}

void
agent_lost(struct agent *a, const char *why)
{
	char text[1024], node[KP_NODE_NAME_MAX + 1];

	/* `why` may be freed with the connection. */
	snprintf(text, sizeof(text), "%s", why);
	if (a->stopping) {
		agent_gone(a, text);
		return;
	}
	if (!a->attached_once &&
	    strstr(text, kp_node_bare(a->o.target, node)) == NULL)
		snprintf(text, sizeof(text), "cannot attach to '%s': %s",
		    a->o.target, why);
	if (!a->attached_once &&
	    (a->o.check_only || !agent_emit(a, (struct agent_event){
	    .kind = AGENT_ON_UNREACHED }))) {
		agent_fail(a, AGENT_FAILED, text);
		return;
	}
	agent_drop_connection(a);
	agent_set_state(a, AGENT_LOST, text);
	agent_timer(a, (unsigned)(kp_backoff_next(&a->backoff,
	    kp_mono_now()) / KP_NS_PER_MS));
}

void
agent_fail_or_retry(struct agent *a, const char *why)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s", why);
	if (a->attached_once)
		agent_lost(a, text);
	else
		agent_fail(a, AGENT_FAILED, text);
}

/* After it was set to be stopping: goes on until it is gone. */
void
agent_leave(struct agent *a)
{
	struct kp_buf b;

	/* The agent has to run before it can leave. */
	if (a->state == AGENT_STARTING) {
		agent_timer(a, STOP_MS);
		return;
	}
	/* Nothing was changed in the target yet. */
	if (a->link == NULL || a->state < AGENT_CHECKING) {
		agent_lost(a, "");
		return;
	}
	agent_set_state(a, AGENT_STOPPING, "");
	agent_timer(a, STOP_MS);
	/* The agent answers earlier questions before the goodbye. */
	agent_ask_begin(a, &b);
	kp_etf_atom(&b, "stop");
	agent_tell(a, &b);
}

/* ---- leases ---- */

/* Its number is its reference, so that the status that answers it names it. */
static void
send_lease(struct agent *a)
{
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	msg_command(&b, &a->ids, ++a->leases);
	kp_etf_atom(&b, "lease");
	a->lease_sent[a->leases % LEASES] = kp_mono_now();
	agent_tell(a, &b);
}

bool
agent_lease_answer(struct agent *a, const struct agent_status *st)
{
	uint64_t n = st->lease;
	kp_mono_ns sent = n > 0 && n <= a->leases && a->leases - n < LEASES ?
	    a->lease_sent[n % LEASES] : 0;

	if (sent == 0)
		return false;	/* never, or too long ago */
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_CLOCK, .sent = sent,
	    .there = st->now, .received = kp_mono_now() });
	if (a->quick == 0 || a->stopping)
		return false;
	a->quick--;
	send_lease(a);
	return true;
}

/*
 * Sends the first lease at once, so that the clock is known before the first
 * event, and some more as fast as they are answered: the quickest round trip is
 * the most exact.
 */
void
agent_lease_start(struct agent *a)
{
	struct timeval every = { LEASE_MS / 1000, (LEASE_MS % 1000) * 1000 };

	a->silent = 0;
	a->quick = LEASES_QUICK;
	memset(a->lease_sent, 0, sizeof(a->lease_sent));
	event_add(a->lease, &every);
	send_lease(a);
}

/*
 * The agent answers each.  One that was killed does not, and a C node cannot monitor
 * it.  Counted, not timed: kprofd may have been stopped itself.
 */
void
agent_lease_renew(struct agent *a)
{
	agent_report_changes(a, false);
	send_lease(a);
	if (++a->silent > SILENT_MAX)
		agent_lost(a, "the agent does not answer");
	else
		asked_tick(a);
}
