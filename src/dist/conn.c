/*
 * conn.c - reads bytes and passes frames on; writes go out at once if possible,
 * else wait in a bounded buffer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dist/conn.h"

/* Reads in a row before other events of the loop are handled. */
#define READS_AT_ONCE 16

struct dist_conn {
	int fd;
	struct event *rd, *wr;
	struct kp_frames in;
	struct kp_buf out;
	size_t sent;		/* of out */
	const struct dist_conn_ops *ops;
	void *ctx;
	bool down;		/* on_down is due or done */
	bool in_read, free_me;
	char why[128];
};

static void
conn_destroy(struct dist_conn *c)
{
	if (c->rd != NULL)
		event_free(c->rd);
	if (c->wr != NULL)
		event_free(c->wr);
	close(c->fd);
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

static void
conn_flush(struct dist_conn *c)
{
	ssize_t n;

	while (c->sent < c->out.len) {
		n = send(c->fd, c->out.p + c->sent, c->out.len - c->sent,
		    MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			event_add(c->wr, NULL);
			return;
		}
		if (n < 0) {
			conn_fail(c, strerror(errno));
			return;
		}
		c->sent += (size_t)n;
	}
	kp_buf_reset(&c->out);
	c->sent = 0;
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
	/* While the socket is full only on_writable() sends. */
	if (!event_pending(c->wr, EV_WRITE, NULL))
		conn_flush(c);
}

static void
on_writable(evutil_socket_t fd, short what, void *ctx)
{
	struct dist_conn *c = ctx;

	(void)fd, (void)what;
	if (!c->down)
		conn_flush(c);
}

static void
conn_frames(struct dist_conn *c)
{
	struct kp_buf tick;
	struct kp_frame f;
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
		if (f.kind == KP_FRAME_TICK) {
			kp_buf_init(&tick, 16);
			kp_frame_tick(&tick);
			dist_conn_send(c, &tick);
			kp_buf_free(&tick);
			continue;
		}
		c->ops->on_frame(c->ctx, &f);
	}
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
	n = recv(c->fd, p, room, 0);
	if (n > 0) {
		kp_frames_filled(&c->in, (size_t)n);
		conn_frames(c);
		return (size_t)n == room;
	}
	if (n == 0)
		conn_fail(c, "it closed the connection");
	else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		conn_fail(c, strerror(errno));
	return false;
}

static void
on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct dist_conn *c = ctx;
	bool lost = false;

	(void)fd, (void)what;
	c->in_read = true;
	for (int i = 0; i < READS_AT_ONCE && !c->down; i++)
		if (!conn_read(c))
			break;
	if (c->down && !c->free_me) {
		event_del(c->rd);
		event_del(c->wr);
		lost = true;
	}
	c->in_read = false;
	if (c->free_me)
		conn_destroy(c);
	else if (lost)
		c->ops->on_down(c->ctx, c->why);
}

struct dist_conn *
dist_conn_new(struct event_base *base, int fd, const struct dist_conn_ops *ops,
    void *ctx)
{
	struct dist_conn *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		close(fd);
		return NULL;
	}
	c->fd = fd;
	c->ops = ops;
	c->ctx = ctx;
	kp_frames_init(&c->in, 0);
	kp_buf_init(&c->out, DIST_CONN_OUT_MAX);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	c->rd = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->wr = event_new(base, fd, EV_WRITE, on_writable, c);
	if (c->rd == NULL || c->wr == NULL || event_add(c->rd, NULL) != 0) {
		conn_destroy(c);
		return NULL;
	}
	return c;
}
