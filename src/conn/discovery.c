/*
 * discovery.c - a timer that connects, asks for the visible nodes, and
 * reconnects after a failure or silence.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/clock.h"
#include "kprofd/etf.h"
#include "conn/conn.h"
#include "conn/connect.h"
#include "conn/discovery.h"
#include "conn/rpc.h"

#define ASK_MS 2000
#define SILENT_MAX 3		/* questions in a row without an answer */
#define MESSAGE_MAX 4096

struct discovery {
	struct event_base *base;
	struct node_opts o;
	const struct discovery_ops *ops;
	void *ctx;
	struct connect *connect;
	struct dist_conn *link;
	struct dist_ids ids;
	struct event *timer;	/* the next question, or connection */
	unsigned silent;
	struct kp_backoff backoff;
};

static void
timer(struct discovery *s, unsigned ms)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	event_add(s->timer, &tv);
}

static void
drop(struct discovery *s)
{
	connect_free(s->connect);
	s->connect = NULL;
	dist_conn_free(s->link);
	s->link = NULL;
}

/* Tries again even when refused: the node may be restarted with another cookie. */
static void
lost(struct discovery *s, const char *of)
{
	char why[512];

	snprintf(why, sizeof(why), "%s", of);	/* may be the connection's */
	drop(s);
	timer(s, (unsigned)(kp_backoff_next(&s->backoff, kp_mono_now()) /
	    KP_NS_PER_MS));
	s->ops->on_lost(s->ctx, why);
}

static void
on_down(void *ctx, const char *why)
{
	lost(ctx, why);
}

/* {rex, Nodes}; {rex, {badrpc, _}} is not a list and counts as no answer. */
static void
on_frame(void *ctx, const struct kp_frame *f)
{
	struct discovery *s = ctx;
	struct kp_term r;

	if (f->kind != KP_FRAME_SEND)
		return;
	kp_term_begin(&r, f->payload.p, f->payload.n);
	kp_term_tuple_n(&r, 2);
	if (!kp_span_is(kp_term_atom(&r), "rex") || r.err != KP_OK)
		return;
	s->silent = 0;
	kp_backoff_works(&s->backoff, kp_mono_now());
	s->ops->on_nodes(s->ctx, &r);
}

static const struct dist_conn_ops link_ops = { .on_frame = on_frame,
	.on_down = on_down };

static void
ask(struct discovery *s)
{
	struct kp_buf msg, frame;

	kp_buf_init(&msg, MESSAGE_MAX);
	rpc_begin(&msg, &s->ids, "erlang", "nodes");
	kp_etf_list(&msg, 1);
	kp_etf_atom(&msg, "visible");
	kp_etf_nil(&msg);
	rpc_end(&msg);
	dist_frame(&frame, &s->ids, &msg, true);
	dist_conn_send(s->link, &frame);
	kp_buf_free(&frame);
	kp_buf_free(&msg);
	s->silent++;
	timer(s, ASK_MS);
}

static void
on_connected(void *ctx, enum kp_err e, const struct node_conn *conn,
    const char *why)
{
	struct discovery *s = ctx;
	char text[NODE_WHY_MAX];

	if (e != KP_OK) {
		snprintf(text, sizeof(text), "%s", why);
		lost(s, text);
		return;
	}
	kp_buf_reset(&s->ids.self);
	kp_etf_pid(&s->ids.self, conn->name, 1, 0, conn->creation);
	s->link = dist_conn_new(s->base, conn->channel, &link_ops, s);
	connect_free(s->connect);
	s->connect = NULL;
	s->silent = 0;
	if (s->link == NULL)
		lost(s, "out of memory");
	else
		ask(s);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct discovery *s = ctx;

	(void)fd, (void)what;
	if (s->link != NULL && s->silent >= SILENT_MAX) {
		lost(s, "it does not answer");
	} else if (s->link != NULL) {
		ask(s);
	} else {
		s->connect = connect_start(s->base, &s->o, on_connected, s);
		if (s->connect == NULL)
			lost(s, "cannot start a thread to connect");
	}
}

struct discovery *
discovery_new(struct event_base *base, const struct node_opts *o,
    const struct discovery_ops *ops, void *ctx)
{
	struct discovery *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->base = base;
	s->o = *o;
	s->ops = ops;
	s->ctx = ctx;
	kp_buf_init(&s->ids.self, 1024);
	s->timer = event_new(base, -1, 0, on_timer, s);
	if (s->timer == NULL) {
		free(s);
		return NULL;
	}
	timer(s, 0);
	return s;
}

void
discovery_free(struct discovery *s)
{
	if (s == NULL)
		return;
	drop(s);
	event_free(s->timer);
	kp_buf_free(&s->ids.self);
	free(s);
}
