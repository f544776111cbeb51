/*
 * control.c - accepts clients on the control socket, reads a line from each, and
 * the text of a command that takes one, and writes its notes and its answer.
 *
 * The socket's mode decides who may connect.  Clients are limited all the same:
 * CONTROL_CLIENTS_MAX at once, one line of CONTROL_LINE_MAX each, and
 * CLIENT_SECONDS until they have their answer, unless a command allows more.
 * One that comes when all places are taken gets that of the client that has asked
 * nothing for longest, or an error in words: whoever is cut off without one would
 * take the daemon for dead.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>

#include "daemon/control/control.h"
#include "text/file_why.h"

#define CLIENT_SECONDS 60
/* Connections that wait to be accepted: more are turned away by the kernel. */
#define QUEUE_MAX 128

struct control_client {
	struct control *control;
	struct control_client *next;
	struct bufferevent *bev;
	uint64_t id;
	bool asked, answered;
	size_t want;		/* bytes of the text; 0: none, or taken */
	control_text_fn *text_fn;
	void *text_ctx;
};

struct control {
	struct event_base *base;
	struct evconnlistener *listener;
	struct control_client *clients;
	unsigned nclients;
	uint64_t next_id;
	control_fn *fn;
	void *ctx;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t dev;		/* identify the socket's file */
	ino_t ino;
};

static void
client_free(struct control_client *c)
{
	struct control_client **p = &c->control->clients;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->control->nclients--;
	bufferevent_free(c->bev);
	free(c);
}

void
control_message(struct control_client *c, const char *kind, const char *text,
    size_t n)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	evbuffer_add_printf(out, "%s %zu\n", kind, n);
	evbuffer_add(out, text, n);
}

void
control_answer(struct control_client *c, bool ok, const char *text)
{
	c->answered = true;
	control_message(c, ok ? "ok" : "error", text, strlen(text));
}

void
control_refuse(struct control_client *c, const char *why)
{
	if (c != NULL)
		control_answer(c, false, why);
}

void
control_answer_buf(struct control_client *c, struct kp_buf *b)
{
	c->answered = true;
	control_message(c, b->err == KP_OK ? "ok" : "error", (const char *)b->p,
	    b->len);
	kp_buf_free(b);
}

void
control_take(struct control_client *c, size_t n, control_text_fn *fn, void *ctx)
{
	c->want = n;
	c->text_fn = fn;
	c->text_ctx = ctx;
	bufferevent_setwatermark(c->bev, EV_READ, 0, n);
}

void
control_allow(struct control_client *c, unsigned seconds)
{
	struct timeval limit = { CLIENT_SECONDS + seconds, 0 };

	bufferevent_set_timeouts(c->bev, &limit, &limit);
}

uint64_t
control_client_id(const struct control_client *c)
{
	return c->id;
}

struct control_client *
control_client_get(struct control *ctl, uint64_t id)
{
	struct control_client *c;

	for (c = ctl != NULL ? ctl->clients : NULL; c != NULL; c = c->next)
		if (c->id == id && !c->answered)
			return c;
	return NULL;
}

/* poll(2) distinguishes a closed connection from a half-closed one. */
bool
control_client_waits(const struct control_client *c)
{
	struct pollfd pfd = { .fd = bufferevent_getfd(c->bev) };

	return poll(&pfd, 1, 0) <= 0 || (pfd.revents & (POLLHUP | POLLERR)) == 0;
}

static void
read_line(struct control_client *c, struct evbuffer *in)
{
	char *line = evbuffer_readln(in, NULL, EVBUFFER_EOL_LF);

	if (line == NULL) {
		if (evbuffer_get_length(in) < CONTROL_LINE_MAX)
			return;
		c->asked = true;
		control_refuse(c, "the command is too long");
		return;
	}
	c->asked = true;
	c->control->fn(c->control->ctx, c, line);
	free(line);
}

static void
read_text(struct control_client *c, struct evbuffer *in)
{
	size_t n = c->want;
	const char *text;

	if (evbuffer_get_length(in) < n)
		return;
	c->want = 0;
	text = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
	if (text != NULL)
		c->text_fn(c->text_ctx, c, text, n);
	else
		control_refuse(c, "out of memory");
}

static void
on_read(struct bufferevent *bev, void *ctx)
{
	struct control_client *c = ctx;
	struct evbuffer *in = bufferevent_get_input(bev);

	if (!c->asked)
		read_line(c, in);
	if (c->want > 0)
		read_text(c, in);
	if (c->asked && c->want == 0)
		evbuffer_drain(in, evbuffer_get_length(in));
}

static void
on_written(struct bufferevent *bev, void *ctx)
{
	struct control_client *c = ctx;

	(void)bev;
	if (c->answered)
		client_free(c);
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
	struct control_client *c = ctx;

	(void)bev;
	/*
	 * A client may close its sending side and wait for the answer:
	 * on_written() frees it when that is written.
	 */
	if ((what & BEV_EVENT_EOF) != 0 && (what & BEV_EVENT_READING) != 0 &&
	    c->asked && c->want == 0)
		return;
	client_free(c);
}

/* It has asked nothing, or not in whole, also by what waits to be read of it. */
static bool
is_idle(const struct control_client *c)
{
	size_t read = evbuffer_get_length(bufferevent_get_input(c->bev));
	char bytes[CONTROL_LINE_MAX];
	ssize_t n;

	if (c->asked && c->want == 0)
		return false;
	n = recv(bufferevent_getfd(c->bev), bytes, sizeof(bytes),
	    MSG_PEEK | MSG_DONTWAIT);
	if (n <= 0)
		return true;
	return c->asked ? read + (size_t)n < c->want :
	    memchr(bytes, '\n', (size_t)n) == NULL;
}

/* Frees the place of the oldest of these; the list begins with the latest. */
static bool
make_room(struct control *ctl)
{
	struct control_client *idle = NULL;

	for (struct control_client *c = ctl->clients; c != NULL; c = c->next)
		if (is_idle(c))
			idle = c;
	if (idle == NULL)
		return false;
	client_free(idle);
	return true;
}

/* The socket is new, so that it takes these bytes at once. */
static void
refuse(int fd)
{
	static const char busy[] = "kprofd is busy: too many clients wait for "
	    "its answer; try again";
	char text[sizeof(busy) + 32];
	int n = snprintf(text, sizeof(text), "error %zu\n%s",
	    sizeof(busy) - 1, busy);

	send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa,
    int len, void *ctx)
{
	struct timeval limit = { CLIENT_SECONDS, 0 };
	struct control *ctl = ctx;
	struct control_client *c;

	(void)l, (void)sa, (void)len;
	c = ctl->nclients < CONTROL_CLIENTS_MAX || make_room(ctl) ?
	    calloc(1, sizeof(*c)) : NULL;
	if (c == NULL) {
		refuse(fd);
		return;
	}
	c->bev = bufferevent_socket_new(ctl->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (c->bev == NULL) {
		close(fd);
		free(c);
		return;
	}
	c->control = ctl;
	c->id = ++ctl->next_id;
	c->next = ctl->clients;
	ctl->clients = c;
	ctl->nclients++;
	bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, CONTROL_LINE_MAX);
	bufferevent_set_timeouts(c->bev, &limit, &limit);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

/*
 * Removes a socket that a dead kprofd left, and nothing else.  Only ECONNREFUSED
 * proves that no process listens there.  A socket is in use if connect() is not
 * permitted (another user's), or fails with EAGAIN: its queue is full.
 */
static enum kp_err
socket_clear(const struct sockaddr_un *sun, char *why, size_t n)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	struct stat st;
	int err = 0;

	if (fd < 0 ||
	    connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) != 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	if (err == ENOENT)
		return KP_OK;
	if (err == 0 || err == EAGAIN) {
		snprintf(why, n, "another kprofd answers at '%s' (see -control "
		    "and -db)", sun->sun_path);
		return KP_EBUSY;
	}
	if (err != ECONNREFUSED) {
		snprintf(why, n, "cannot tell whether another kprofd answers "
		    "at '%s': %s (remove it if none does, or see -control "
		    "and -db)", sun->sun_path, strerror(err));
		return KP_EBUSY;
	}
	/* of a file that is not a socket bind() reports the error */
	if (lstat(sun->sun_path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(sun->sun_path);
	return KP_OK;
}

static int
socket_bind(const struct sockaddr_un *sun)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	mode_t old;
	int r, err;

	if (fd < 0)
		return -1;
	old = umask(0177);	/* never has another mode than 0600 */
	r = bind(fd, (const struct sockaddr *)sun, sizeof(*sun));
	err = errno;
	umask(old);
	if (r == 0)
		return fd;
	close(fd);
	errno = err;
	return -1;
}

enum kp_err
control_open(struct control **out, struct event_base *base, const char *path,
    control_fn *fn, void *ctx, char *why, size_t n)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char text[FILE_WHY_MAX];
	struct control *c;
	struct stat st;
	enum kp_err err;
	int fd;

	if (strlen(path) >= sizeof(sun.sun_path)) {
		snprintf(why, n, "control socket '%s': the path is longer than "
		    "%zu bytes (see -db and -control)", path,
		    sizeof(sun.sun_path) - 1);
		return KP_ELIMIT;
	}
	memcpy(sun.sun_path, path, strlen(path) + 1);
	err = socket_clear(&sun, why, n);
	if (err != KP_OK)
		return err;
	fd = socket_bind(&sun);
	if (fd < 0) {
		snprintf(why, n, "cannot make the control socket '%s': %s (see "
		    "-db and -control)", path, file_why(text, path, errno));
		return KP_EIO;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL ||
	    (c->listener = evconnlistener_new(base, on_accept, c,
	    LEV_OPT_CLOSE_ON_FREE, QUEUE_MAX, fd)) == NULL) {
		snprintf(why, n, "cannot listen at '%s'", path);
		free(c);
		close(fd);
		unlink(path);
		return KP_EIO;
	}
	if (lstat(path, &st) == 0) {
		c->dev = st.st_dev;
		c->ino = st.st_ino;
	}
	c->base = base;
	c->fn = fn;
	c->ctx = ctx;
	memcpy(c->path, path, strlen(path) + 1);
	*out = c;
	return KP_OK;
}

/* One attempt to write is enough: answers fit the socket's buffer. */
void
control_close(struct control *c)
{
	struct evbuffer *out;
	struct stat st;

	if (c == NULL)
		return;
	while (c->clients != NULL) {
		out = bufferevent_get_output(c->clients->bev);
		if (evbuffer_get_length(out) > 0)
			evbuffer_write(out, bufferevent_getfd(c->clients->bev));
		client_free(c->clients);
	}
	evconnlistener_free(c->listener);
	/* another kprofd may have removed our socket and made its own */
	if (lstat(c->path, &st) == 0 && st.st_dev == c->dev &&
	    st.st_ino == c->ino)
		unlink(c->path);
	free(c);
}
