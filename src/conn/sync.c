/*
 * sync.c - connects, sends frames, answers ticks, and waits for the next
 * message with poll().
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/frame.h"
#include "conn/reach.h"
#include "conn/handshake.h"
#include "conn/sync.h"

#define CONNECT_LIMIT (8 * KP_NS_PER_S)
#define SEND_LIMIT (10 * KP_NS_PER_S)
#define EARLY_MAX (1u << 20)	/* bytes */
#define TICK_EVERY (200 * KP_NS_PER_MS)	/* a node with a net_ticktime of 1 s
					   expects one in this time */

struct dist_sync {
	struct node_conn conn;
	struct dist_ids ids;
	struct kp_frames in;
	int wake;
	short wants;		/* what the next read waits for */
	struct kp_buf early;	/* read while a frame was sent */
	kp_mono_ns ticked;	/* a tick was answered last */
};

enum kp_err
dist_sync_open(struct dist_sync **out, const struct dist_sync_opts *o,
    char *why, size_t n)
{
	char cookie[NODE_COOKIE_MAX + 1];
	struct node_opts no = { .target = o->target, .reach = o->reach,
		.cookie = cookie, .limit = CONNECT_LIMIT };
	struct dist_sync *t = calloc(1, sizeof(*t));
	enum kp_err e;

	if (t == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	e = node_cookie(o->reach != NULL ? o->reach->cookie_file : NULL, cookie,
	    why, n);
	if (e == KP_OK)
		e = node_connect(&no, &t->conn, why, n);
	explicit_bzero(cookie, sizeof(cookie));
	if (e != KP_OK) {
		free(t);
		return e;
	}
	t->wake = o->wake;
	t->wants = POLLIN;
	kp_frames_init(&t->in, 0);
	kp_buf_init(&t->early, EARLY_MAX);
	kp_buf_init(&t->ids.self, 1024);
	kp_buf_init(&t->ids.peer, 1024);
	kp_etf_pid(&t->ids.self, t->conn.name, 1, 0, t->conn.creation);
	*out = t;
	return KP_OK;
}

void
dist_sync_close(struct dist_sync *t)
{
	if (t == NULL)
		return;
	channel_free(t->conn.channel);
	kp_frames_free(&t->in);
	kp_buf_free(&t->early);
	kp_buf_free(&t->ids.self);
	kp_buf_free(&t->ids.peer);
	free(t);
}

int
dist_sync_fd(const struct dist_sync *t)
{
	return t->conn.channel->fd;
}

const char *
dist_sync_doubt(const struct dist_sync *t)
{
	return t->conn.channel->doubt;
}

const char *
dist_sync_name(const struct dist_sync *t)
{
	return t->conn.name;
}

struct dist_ids *
dist_sync_ids(struct dist_sync *t)
{
	return &t->ids;
}

static int
left_ms(kp_mono_ns deadline)
{
	kp_dur_ns left = deadline - kp_mono_now();

	if (left <= 0)
		return 0;
	return left > 3600 * KP_NS_PER_S ? 3600000 :
	    (int)(left / KP_NS_PER_MS) + 1;
}

/*
 * A write that waits to read (`wants`) gets what it waits for only from a
 * read.  What comes is kept apart: the caller may still look at a frame in t->in.
 */
static enum kp_err
read_for_write(struct dist_sync *t)
{
	uint8_t some[4096];
	ssize_t got = channel_read(t->conn.channel, some, sizeof(some));

	if (got == CHANNEL_END || got == CHANNEL_FAILED)
		return KP_EIO;
	if (got > 0)
		kp_buf_put(&t->early, some, (size_t)got);
	return t->early.err;
}

/* Waits for what a write that gave CHANNEL_WAIT needs. */
static enum kp_err
wait_to_write(struct dist_sync *t, kp_mono_ns deadline)
{
	struct channel *c = t->conn.channel;
	struct pollfd p = { .fd = c->fd, .events = c->wants };
	bool more = (p.events & POLLIN) != 0 && c->more;

	if (!more && poll(&p, 1, left_ms(deadline)) == 0)
		return KP_EIO;
	return more || (p.events & p.revents & POLLIN) != 0 ?
	    read_for_write(t) : KP_OK;
}

/* Frees the frame. */
static enum kp_err
send_frame(struct dist_sync *t, struct kp_buf *frame)
{
	kp_mono_ns deadline = kp_mono_now() + SEND_LIMIT;
	enum kp_err e = frame->err;
	size_t sent = 0;
	ssize_t n;

	while (e == KP_OK && sent < frame->len) {
		n = channel_write(t->conn.channel, frame->p + sent,
		    frame->len - sent);
		if (n >= 0)
			sent += (size_t)n;
		else if (n == CHANNEL_FAILED)
			e = KP_EIO;
		else
			e = wait_to_write(t, deadline);
	}
	kp_buf_free(frame);
	return e;
}

enum kp_err
dist_sync_rpc(struct dist_sync *t, const struct kp_buf *msg)
{
	struct kp_buf frame;

	dist_frame(&frame, &t->ids, msg, true);
	return send_frame(t, &frame);
}

enum kp_err
dist_sync_send(struct dist_sync *t, const struct kp_buf *msg)
{
	struct kp_buf frame;

	dist_frame(&frame, &t->ids, msg, false);
	return send_frame(t, &frame);
}

/* Waits until there is something to read, and reads once. */
static enum kp_err
fill(struct dist_sync *t, kp_mono_ns deadline)
{
	struct channel *c = t->conn.channel;
	struct pollfd p[2] = { { .fd = c->fd, .events = t->wants },
		{ .fd = t->wake, .events = POLLIN } };
	int ready;
	enum kp_err e;
	uint8_t *to;
	size_t room;
	ssize_t got;

	if (t->early.len > 0) {
		e = kp_frames_feed(&t->in, t->early.p, t->early.len);
		kp_buf_reset(&t->early);
		return e;
	}
	ready = poll(p, 2, c->more ? 0 : left_ms(deadline));
	if (ready < 0 && errno == EINTR)
		return KP_OK;
	if (ready == 0 && !c->more)
		return KP_ETIMEOUT;
	if (p[1].revents != 0)
		return KP_END;
	e = kp_frames_space(&t->in, &to, &room);
	if (e != KP_OK)
		return e;
	got = channel_read(c, to, room);
	t->wants = got == CHANNEL_WAIT ? c->wants : POLLIN;
	if (got == CHANNEL_END || got == CHANNEL_FAILED)
		return KP_EIO;
	if (got > 0)
		kp_frames_filled(&t->in, (size_t)got);
	return KP_OK;
}

/* Not each one is answered: who sends nothing else would be what we work for. */
static enum kp_err
tick(struct dist_sync *t)
{
	kp_mono_ns now = kp_mono_now();
	struct kp_buf frame;

	if (t->ticked != 0 && now - t->ticked < TICK_EVERY)
		return KP_OK;
	t->ticked = now;
	kp_buf_init(&frame, 64);
	kp_frame_tick(&frame);
	return send_frame(t, &frame);
}

enum kp_err
dist_sync_next(struct dist_sync *t, kp_mono_ns deadline, struct kp_term *r)
{
	struct kp_frame f;
	bool late = false;
	enum kp_err e;

	for (;;) {
		e = kp_frames_next(&t->in, &f);
		if (e == KP_ELIMIT)
			return e;
		/* Take what has arrived, but do not go on for ever with a fast sender. */
		if (e == KP_END && late)
			return KP_ETIMEOUT;
		if (e == KP_END) {
			late = kp_mono_now() >= deadline;
			e = fill(t, deadline);
		} else if (e == KP_OK && f.kind == KP_FRAME_TICK)
			e = tick(t);
		else if (e == KP_OK && kp_frame_is_to(&f, &t->ids.self)) {
			kp_term_begin(r, f.payload.p, f.payload.n);
			return KP_OK;
		} else
			e = KP_OK;
		if (e != KP_OK)
			return e;
	}
}

enum kp_err
dist_sync_answer(struct dist_sync *t, kp_mono_ns deadline, struct kp_term *r)
{
	enum kp_err e;

	do {
		e = dist_sync_next(t, deadline, r);
		if (e != KP_OK)
			return e;
		kp_term_tuple_n(r, 2);
	} while (!kp_span_is(kp_term_atom(r), "rex") || r->err != KP_OK);
	return KP_OK;
}
