/*
 * conn.c - reads move bytes and hand frames on; writes go out at once when they
 * can, and wait in a bounded buffer when not.
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

/* Reads in one go before other events of the loop get their turn. */
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
link_destroy(struct dist_conn *l)
{
	if (l->rd != NULL)
		event_free(l->rd);
	if (l->wr != NULL)
		event_free(l->wr);
	close(l->fd);
	kp_frames_free(&l->in);
	kp_buf_free(&l->out);
	free(l);
}

void
dist_conn_free(struct dist_conn *l)
{
	if (l == NULL)
		return;
	l->down = true;
	if (l->in_read)
		l->free_me = true;
	else
		link_destroy(l);
}

/* Remembers why; the loop tells the owner when no caller is in the way. */
static void
link_fail(struct dist_conn *l, const char *why)
{
	if (l->down)
		return;
	l->down = true;
	snprintf(l->why, sizeof(l->why), "%s", why);
	event_active(l->rd, EV_READ, 0);
}

static void
link_flush(struct dist_conn *l)
{
	ssize_t n;

	while (l->sent < l->out.len) {
		n = send(l->fd, l->out.p + l->sent, l->out.len - l->sent,
		    MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			event_add(l->wr, NULL);
			return;
		}
		if (n < 0) {
			link_fail(l, strerror(errno));
			return;
		}
		l->sent += (size_t)n;
	}
	kp_buf_reset(&l->out);
	l->sent = 0;
}

void
dist_conn_send(struct dist_conn *l, const struct kp_buf *frame)
{
	if (l->down)
		return;
	kp_buf_put(&l->out, frame->p, frame->len);
	if (l->out.err != KP_OK || frame->err != KP_OK) {
		link_fail(l, "the target does not read what we send");
		return;
	}
	/* A peer that asks without end and does not read costs no calls. */
	if (!event_pending(l->wr, EV_WRITE, NULL))
		link_flush(l);
}

static void
on_writable(evutil_socket_t fd, short what, void *ctx)
{
	struct dist_conn *l = ctx;

	(void)fd, (void)what;
	if (!l->down)
		link_flush(l);
}

static void
link_frames(struct dist_conn *l)
{
	struct kp_buf tick;
	struct kp_frame f;
	enum kp_err e;

	while (!l->down && (e = kp_frames_next(&l->in, &f)) != KP_END) {
		if (e == KP_EFORMAT) {
			/* counted by the gap it leaves */
			if (l->ops->on_bad_frame != NULL)
				l->ops->on_bad_frame(l->ctx);
			continue;
		}
		if (e != KP_OK) {
			link_fail(l, "it sent a frame that is too large");
			return;
		}
		if (f.kind == KP_FRAME_TICK) {
			kp_buf_init(&tick, 16);
			kp_frame_tick(&tick);
			dist_conn_send(l, &tick);
			kp_buf_free(&tick);
			continue;
		}
		l->ops->on_frame(l->ctx, &f);
	}
}

/* False when there is nothing more to read for now. */
static bool
link_read(struct dist_conn *l)
{
	uint8_t *p;
	size_t room;
	ssize_t n;

	if (kp_frames_space(&l->in, &p, &room) != KP_OK) {
		link_fail(l, "out of memory");
		return false;
	}
	n = recv(l->fd, p, room, 0);
	if (n > 0) {
		kp_frames_filled(&l->in, (size_t)n);
		link_frames(l);
		return (size_t)n == room;
	}
	if (n == 0)
		link_fail(l, "it closed the connection");
	else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		link_fail(l, strerror(errno));
	return false;
}

static void
on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct dist_conn *l = ctx;
	bool told = false;

	(void)fd, (void)what;
	l->in_read = true;
	for (int i = 0; i < READS_AT_ONCE && !l->down; i++)
		if (!link_read(l))
			break;
	if (l->down && !l->free_me) {
		event_del(l->rd);
		event_del(l->wr);
		told = true;
	}
	l->in_read = false;
	if (l->free_me)
		link_destroy(l);
	else if (told)
		l->ops->on_down(l->ctx, l->why);
}

struct dist_conn *
dist_conn_new(struct event_base *base, int fd, const struct dist_conn_ops *ops,
    void *ctx)
{
	struct dist_conn *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		close(fd);
		return NULL;
	}
	l->fd = fd;
	l->ops = ops;
	l->ctx = ctx;
	kp_frames_init(&l->in, 0);
	kp_buf_init(&l->out, DIST_CONN_OUT_MAX);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	l->rd = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, l);
	l->wr = event_new(base, fd, EV_WRITE, on_writable, l);
	if (l->rd == NULL || l->wr == NULL || event_add(l->rd, NULL) != 0) {
		link_destroy(l);
		return NULL;
	}
	return l;
}
