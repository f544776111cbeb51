/*
 * channel.c - what every channel does, and plain ones: a socket's bytes as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn/channel.h"

ssize_t
channel_failed(struct channel *c, int err)
{
	c->err = err;
	snprintf(c->why, sizeof(c->why), "%s", strerror(err));
	return CHANNEL_FAILED;
}

/* After a system call without success. */
static ssize_t
plain_verdict(struct channel *c, short wants)
{
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		return channel_failed(c, errno);
	c->wants = wants;
	return CHANNEL_WAIT;
}

static ssize_t
plain_read(struct channel *c, void *to, size_t n)
{
	ssize_t got;

	do
		got = recv(c->fd, to, n, 0);
	while (got < 0 && errno == EINTR);
	return got >= 0 ? got : plain_verdict(c, POLLIN);
}

static ssize_t
plain_write(struct channel *c, const void *from, size_t n)
{
	ssize_t sent;

	do
		sent = send(c->fd, from, n, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent >= 0 ? sent : plain_verdict(c, POLLOUT);
}

static void
plain_free(struct channel *c)
{
	free(c);
}

static const struct channel_kind plain = { plain_read, plain_write,
	plain_free };

struct channel *
channel_plain(int fd)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		close(fd);
		return NULL;
	}
	c->kind = &plain;
	c->fd = fd;
	snprintf(c->how, sizeof(c->how), "not encrypted");
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return c;
}

void
channel_free(struct channel *c)
{
	int fd;

	if (c == NULL)
		return;
	fd = c->fd;
	c->kind->free(c);
	close(fd);
}

ssize_t
channel_read(struct channel *c, void *to, size_t n)
{
	return c->kind->read(c, to, n);
}

ssize_t
channel_write(struct channel *c, const void *from, size_t n)
{
	return c->kind->write(c, from, n);
}

int
wait_ready(int fd, short events, kp_mono_ns deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	kp_dur_ns left;
	int r = -1;

	errno = EINTR;
	while (r < 0 && errno == EINTR) {
		left = deadline - kp_mono_now();
		if (left <= 0)
			return ETIMEDOUT;
		r = poll(&p, 1, (int)(left / KP_NS_PER_MS) + 1);
	}
	return r < 0 ? errno : r == 0 ? ETIMEDOUT : 0;
}
