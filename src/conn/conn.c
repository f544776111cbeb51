/*
 * conn.c - reads bytes and passes frames on; writes go out at once if possible,
 * else wait in a bounded buffer.
 *
 * An encrypted channel may have to write before it can read, and read before it can
 * write (`wants`): each direction then waits for the other's event.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/conn.h"

/* Reads in a row before other events of the loop are handled. */
#define READS_AT_ONCE 16
#define CONN_WHY_MAX 512

struct dist_conn {
	struct channel *channel;
	struct event *rd, *wr;
	struct event *again;	/* bytes that the descriptor does not announce */
	struct kp_frames in;
	struct kp_buf out;
	size_t sent;		/* of out */
	const struct dist_conn_ops *ops;
	void *ctx;
	bool down;		/* on_down is due or done */
	bool in_read, free_me;
	bool read_blocked;	/* until the descriptor can be written */
	bool write_blocked;	/* until it can be read */
	char why[CONN_WHY_MAX];
};

static void
conn_destroy(struct dist_conn *c)
{
	if (c->rd != NULL)
		event_free(c->rd);
	if (c->wr != NULL)
		event_free(c->wr);
	if (c->again != NULL)
		event_free(c->again);
	channel_free(c->channel);
	kp_frames_free(&c->in);
	kp_buf_free(&c->out);
	free(c);
}

void
dist_conn_free(struct dist_conn *c)
{
	if (c == NULL)
		return;
	c->down = true;
	if (c->in_read)
		c->free_me = true;
	else
		conn_destroy(c);
}

/* Remembers why; on_readable() calls on_down, when no caller is in between. */
static void
conn_fail(struct dist_conn *c, const char *why)
{
	if (c->down)
		return;
	c->down = true;
	snprintf(c->why, sizeof(c->why), "%s", why);
	event_active(c->rd, EV_READ, 0);
}

/*
 * Reads again without an event, if need be, but only after other events of the loop:
 * event_active() would keep them waiting.
 */
static void
conn_read_soon(struct dist_conn *c)
{
	static const struct timeval soon = { 0, 0 };

	if (c->channel->more)
		event_add(c->again, &soon);
}

static void
conn_block_write(struct dist_conn *c, short wants)
{
	c->write_blocked = (wants & POLLIN) != 0;
	if ((wants & POLLOUT) != 0)
		event_add(c->wr, NULL);
	if (c->write_blocked)
		conn_read_soon(c);
}

static void
conn_flush(struct dist_conn *c)
{
	ssize_t n;

	while (c->sent < c->out.len) {
		n = channel_write(c->channel, c->out.p + c->sent,
		    c->out.len - c->sent);
		if (n == CHANNEL_WAIT) {
			conn_block_write(c, c->channel->wants);
			return;
		}
		if (n < 0) {
			conn_fail(c, c->channel->why);
			return;
		}
		c->sent += (size_t)n;
	}
	kp_buf_reset(&c->out);
	c->sent = 0;
	c->write_blocked = false;
	/* A write may have taken in what the descriptor will not announce. */
	conn_read_soon(c);
}

void
dist_conn_send(struct dist_conn *c, const struct kp_buf *frame)
{
	if (c->down)
		return;
	kp_buf_put(&c->out, frame->p, frame->len);
	if (c->out.err != KP_OK || frame->err != KP_OK) {
		conn_fail(c, "the target does not read what we send");
		return;
	}
	/* While a write waits, only the event that it waits for sends. */
	if (!c->write_blocked && !event_pending(c->wr, EV_WRITE, NULL))
		conn_flush(c);
}

static void
conn_frames(struct dist_conn *c)
{
	struct kp_buf tick;
	struct kp_frame f;
	bool ticked = false;
	enum kp_err e;

	while (!c->down && (e = kp_frames_next(&c->in, &f)) != KP_END) {
		if (e == KP_EFORMAT) {
			/* the ledger counts the gap that it leaves */
			if (c->ops->on_bad_frame != NULL)
				c->ops->on_bad_frame(c->ctx);
			continue;
		}
		if (e != KP_OK) {
			conn_fail(c, "it sent a frame that is too large");
			return;
		}
		if (f.kind == KP_FRAME_TICK)
			ticked = true;
		else
			c->ops->on_frame(c->ctx, &f);
	}
	/* One answers all that came together: each may be 4 bytes of a flood. */
	if (!ticked || c->down)
		return;
	kp_buf_init(&tick, 16);
	kp_frame_tick(&tick);
	dist_conn_send(c, &tick);
	kp_buf_free(&tick);
}

/* False when there is nothing more to read for now. */
static bool
conn_read(struct dist_conn *c)
{
	uint8_t *p;
	size_t room;
	ssize_t n;

	if (kp_frames_space(&c->in, &p, &room) != KP_OK) {
		conn_fail(c, "out of memory");
		return false;
	}
	n = channel_read(c->channel, p, room);
	if (n > 0) {
		kp_frames_filled(&c->in, (size_t)n);
		conn_frames(c);
		return (size_t)n == room || c->channel->more;
	}
	if (n == CHANNEL_END)
		conn_fail(c, "it closed the connection");
	else if (n == CHANNEL_FAILED)
		conn_fail(c, c->channel->why);
	else if ((c->channel->wants & POLLOUT) != 0) {
		c->read_blocked = true;
		event_add(c->wr, NULL);
	}
	return false;
}

static void
on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct dist_conn *c = ctx;
	bool lost = false;
	int i = 0;

	(void)fd, (void)what;
	c->in_read = true;
	while (i < READS_AT_ONCE && !c->down && conn_read(c))
		i++;
	if (!c->down)
		conn_read_soon(c);
	if (!c->down && c->write_blocked) {
		c->write_blocked = false;
		conn_flush(c);
	}
	if (c->down && !c->free_me) {
		event_del(c->rd);
		event_del(c->wr);
		event_del(c->again);
		lost = true;
	}
	c->in_read = false;
	if (c->free_me)
		conn_destroy(c);
	else if (lost)
		c->ops->on_down(c->ctx, c->why);
}

static void
on_writable(evutil_socket_t fd, short what, void *ctx)
{
	struct dist_conn *c = ctx;
	bool read = c->read_blocked;

	if (c->down)
		return;
	conn_flush(c);
	c->read_blocked = false;
	if (read && !c->down)
		on_readable(fd, what, c);
}

struct dist_conn *
dist_conn_new(struct event_base *base, struct channel *channel,
    const struct dist_conn_ops *ops, void *ctx)
{
	struct dist_conn *c = calloc(1, sizeof(*c));
	int fd = channel->fd;

	if (c == NULL) {
		channel_free(channel);
		return NULL;
	}
	c->channel = channel;
	c->ops = ops;
	c->ctx = ctx;
	kp_frames_init(&c->in, 0);
	kp_buf_init(&c->out, DIST_CONN_OUT_MAX);
	c->rd = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->wr = event_new(base, fd, EV_WRITE, on_writable, c);
	c->again = event_new(base, -1, 0, on_readable, c);
	if (c->rd == NULL || c->wr == NULL || c->again == NULL ||
	    event_add(c->rd, NULL) != 0) {
		conn_destroy(c);
		return NULL;
	}
	conn_read_soon(c);
	return c;
}
