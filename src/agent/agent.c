/*
 * agent.c - makes the connection to one target, renews the lease, passes on what the
 * agent sends, and ends it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/etf.h"
#include "agent/agent_internal.h"

/* ---- messages ---- */

static void
on_status(struct agent *a, struct kp_term *r, bool bye)
{
	struct agent_status st;
	struct kp_span name;
	char reason[200], text[300];

	if (msg_read_status(r, &st, &name, reason, sizeof(reason)) != KP_OK) {
		agent_lost(a, "the agent's status makes no sense");
		return;
	}
	if (!bye && agent_lease_answer(a, &st))
		return;
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_STATUS, .status = &st, .last = bye });
	if (!bye)
		return;
	if (a->stopping) {
		agent_gone(a, "");
	} else if (strcmp(reason, "stopped_by_operator") == 0) {
		agent_fail(a, AGENT_KEPT_OUT, "the agent was stopped in the "
		    "target");
	} else {
		snprintf(text, sizeof(text), "the agent has gone: %s",
		    strcmp(reason, "session_destroyed") == 0 ? "its trace "
		    "session was destroyed by another tool" : reason);
		agent_lost(a, text);
	}
}

/* {kprof_moved, Pid}: another process continues the agent's work. */
static void
on_moved(struct agent *a, struct kp_term *r)
{
	struct kp_span pid = kp_term_raw(r);
	struct kp_term check;

	kp_term_begin_raw(&check, pid.p, pid.n);
	kp_term_pid(&check);
	if (r->err != KP_OK || kp_term_finish(&check) != KP_OK) {
		agent_malformed(a, "a process");
		return;
	}
	kp_buf_reset(&a->ids.peer);
	kp_buf_put(&a->ids.peer, pid.p, pid.n);
}

static void
on_frame(void *ctx, const struct kp_frame *f)
{
	struct agent *a = ctx;
	struct kp_term r;
	struct kp_span tag;

	if (!kp_frame_is_to(f, &a->ids.self))
		return;
	a->silent = 0;
	kp_term_begin(&r, f->payload.p, f->payload.n);
	kp_term_tuple(&r);
	tag = kp_term_atom(&r);
	if (r.err != KP_OK)
		agent_malformed(a, "a message");
	else if (kp_span_is(tag, "rex"))
		agent_on_rex(a, &r);
	else if (a->state < AGENT_CHECKING)
		return;		/* of an agent that we have not started */
	else if (kp_span_is(tag, "kprof_events"))
		agent_emit(a, (struct agent_event){ .kind = AGENT_ON_BATCH,
		    .message = f->payload });
	else if (kp_span_is(tag, "kprof_status"))
		on_status(a, &r, false);
	else if (kp_span_is(tag, "kprof_bye"))
		on_status(a, &r, true);
	else if (kp_span_is(tag, "kprof_reply"))
		agent_on_reply(a, &r);
	else if (kp_span_is(tag, "kprof_notice"))
		agent_on_notice(a, &r);
	else if (kp_span_is(tag, "kprof_moved"))
		on_moved(a, &r);
	else if (kp_span_is(tag, "kprof_stacks") ||
	    kp_span_is(tag, "kprof_groups"))
		agent_emit(a, (struct agent_event){ .kind = AGENT_ON_STACKS,
		    .message = f->payload });
	agent_plan_turn(a);
}

/* ---- connections come and go ---- */

static void
on_down(void *ctx, const char *why)
{
	agent_lost(ctx, why);
	agent_plan_turn(ctx);
}

static void
on_bad_frame(void *ctx)
{
	agent_malformed(ctx, "a frame");
}

static const struct dist_conn_ops link_ops = { on_frame, on_bad_frame, on_down };

static void
on_connected(void *ctx, enum kp_err e, const struct node_conn *conn,
    const char *why)
{
	struct agent *a = ctx;
	struct channel *channel = e == KP_OK ? conn->channel : NULL;

	/* The cookie was refused, or the node accepts no connections. */
	if (e == KP_ESTATE) {
		agent_fail_or_retry(a, why);
		return;
	}
	if (e != KP_OK) {
		agent_lost(a, why);
		return;
	}
	snprintf(a->node, sizeof(a->node), "%s", conn->name);
	kp_buf_reset(&a->ids.self);
	kp_etf_pid(&a->ids.self, conn->name, 1, 0, conn->creation);
	connect_free(a->connect);
	a->connect = NULL;
	a->link = dist_conn_new(a->base, channel, &link_ops, a);
	if (a->link == NULL) {
		agent_lost(a, "out of memory");
		return;
	}
	a->channel = channel;
	a->leftover_tries = 0;
	a->malformed = false;
	agent_look(a);
}

static void
step_connect(struct agent *a)
{
	struct node_opts o = { .target = a->o.target, .reach = a->o.reach,
		.cookie = a->o.cookie, .limit = a->o.connect_limit,
		.known = a->attached_once };

	agent_set_state(a, AGENT_CONNECTING, "");
	a->connect = connect_start(a->base, &o, on_connected, a);
	if (a->connect == NULL)
		agent_lost(a, "cannot start a thread to connect");
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct agent *a = ctx;

	(void)fd, (void)what;
	if (a->state == AGENT_LOST)
		step_connect(a);
	else if (a->state == AGENT_TRIPPED)
		agent_pause_over(a);
	else if (a->state == AGENT_LOOKING && a->leftover_tries > 0 &&
	    a->asked_whereis)
		agent_look(a);
	else
		agent_lost(a, "no answer from the target");
	agent_plan_turn(a);
}

static void
on_lease(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	agent_lease_renew(ctx);
	agent_plan_turn(ctx);
}

/* ---- the owner's ---- */

const struct channel *
agent_channel(const struct agent *a)
{
	return a->channel;
}

struct agent *
agent_new(struct event_base *base, const struct agent_opts *o,
    agent_event_fn *on_event, struct target *owner)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->base = base;
	a->o = *o;
	a->on_event = on_event;
	a->owner = owner;
	a->now.a = a->next.a = a->trial.a = a;
	a->now.conf = o->conf;
	a->params.one_in = o->conf->sampling.kind == KP_SAMPLE_ONE_IN ?
	    o->conf->sampling.n : 1;
	a->params.clauses = o->check_only;
	a->params.shape = o->shape;
	kp_buf_init(&a->ids.self, 1024);
	kp_buf_init(&a->ids.peer, 1024);
	a->lease = event_new(base, -1, EV_PERSIST, on_lease, a);
	a->timer = event_new(base, -1, 0, on_timer, a);
	if (a->lease == NULL || a->timer == NULL) {
		agent_free(a);
		return NULL;
	}
	return a;
}

void
agent_start(struct agent *a)
{
	step_connect(a);
}

void
agent_stop(struct agent *a)
{
	if (a->state == AGENT_ENDED)
		return;
	a->away[0] = '\0';
	a->stopping = true;
	agent_leave(a);
	agent_plan_turn(a);
}

void
agent_go_away(struct agent *a, const char *why)
{
	if (a->state == AGENT_ENDED || a->stopping)
		return;
	snprintf(a->away, sizeof(a->away), "%s", why);
	a->stopping = true;
	agent_leave(a);
	agent_plan_turn(a);
}

bool
agent_goes_away(const struct agent *a)
{
	return a->away[0] != '\0';
}

void
agent_come_back(struct agent *a)
{
	if (a->state != AGENT_AWAY)
		return;
	a->away[0] = '\0';
	step_connect(a);
}

/* The one who asked may have gone. */
void
agent_free(struct agent *a)
{
	struct plan_run *const runs[] = { &a->now, &a->next, &a->trial };

	if (a == NULL)
		return;
	a->nasked = 0;
	memset(a->changes, 0, sizeof(a->changes));
	if (a->lease != NULL && a->timer != NULL)
		agent_drop_connection(a);
	if (a->lease != NULL)
		event_free(a->lease);
	if (a->timer != NULL)
		event_free(a->timer);
	kp_buf_free(&a->ids.self);
	kp_buf_free(&a->ids.peer);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		kp_plan_free(&runs[i]->plan);
		kp_diags_free(&runs[i]->diags);
	}
	label_epochs_give(a->o.labels, a->label);
	free(a);
}
