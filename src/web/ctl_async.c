/*
 * ctl_async.c - a bufferevent and a timer for each command: sends the line,
 * parses the answer (daemon/control/control.h), calls back once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "ctl_async.h"

struct command {
	struct ctl_async *all;
	struct command *next;
	struct bufferevent *bev;
	struct event *limit;
	ctl_fn *fn;
	void *ctx;
};

struct ctl_async {
	struct event_base *base;
	const char *path;
	struct command *first;
	unsigned n;
};

static void
command_free(struct command *c)
{
	struct command **p = &c->all->first;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->all->n--;
	bufferevent_free(c->bev);
	event_free(c->limit);
	free(c);
}

static void
answer(struct command *c, int status, const char *text, size_t n)
{
	c->fn(c->ctx, status, text, n);
	command_free(c);
}

/* Only where nothing listens: a daemon that is busy, or ending, is there. */
static void
no_daemon(struct command *c)
{
	static const char text[] = "no kprofd answers: it is not running, or "
	    "this is another one's database (kprof status)";

	answer(c, CTL_NO_DAEMON, text, strlen(text));
}

static void
failed(struct command *c, const char *text)
{
	answer(c, 503, text, strlen(text));
}

/* Takes the head of the next message; false: it is incomplete, or *bad. */
static bool
next_message(struct evbuffer *in, char kind[8], size_t *n, bool *bad)
{
	struct evbuffer_ptr eol = evbuffer_search_eol(in, NULL, NULL,
	    EVBUFFER_EOL_LF);
	char head[64];
	size_t len;

	len = eol.pos >= 0 ? (size_t)eol.pos : evbuffer_get_length(in);
	if (len >= sizeof(head))
		*bad = true;
	if (eol.pos < 0 || *bad)
		return false;
	evbuffer_copyout(in, head, len);
	head[len] = '\0';
	if (sscanf(head, "%7[a-z] %8zu", kind, n) != 2 ||
	    *n > CTL_BYTES_MAX) {
		*bad = true;
		return false;
	}
	if (evbuffer_get_length(in) < len + 1 + *n)
		return false;
	evbuffer_drain(in, len + 1);
	return true;
}

static void
on_read(struct bufferevent *bev, void *ctx)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct command *c = ctx;
	bool bad = false;
	char kind[8];
	size_t n;

	while (next_message(in, kind, &n, &bad)) {
		if (strcmp(kind, "note") != 0) {
			answer(c, strcmp(kind, "ok") == 0 ? 200 : 409,
			    n > 0 ? (const char *)evbuffer_pullup(in,
			    (ev_ssize_t)n) : "", n);
			return;
		}
		evbuffer_drain(in, n);
	}
	if (bad)
		failed(c, "kprofd answers what is not understood");
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
	(void)bev;
	if ((what & BEV_EVENT_CONNECTED) == 0)
		failed(ctx, "kprofd closed the connection before it answered: "
		    "is it ending?");
}

static void
on_limit(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	failed(ctx, "kprofd does not answer in time");
}

/*
 * Connects at once, as a Unix socket does.  Returns 0, or the errno: ENOENT and
 * ECONNREFUSED prove that no process listens there, EAGAIN that one does.
 */
static int
command_connect(struct command *c, const struct sockaddr_un *sun)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0), err;

	if (fd < 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 &&
	    bufferevent_setfd(c->bev, fd) == 0)
		return 0;
	err = errno;
	close(fd);
	return err;
}

struct ctl_async *
ctl_async_new(struct event_base *base, const char *path)
{
	struct ctl_async *all = calloc(1, sizeof(*all));

	if (all != NULL)
		*all = (struct ctl_async){ .base = base, .path = path };
	return all;
}

void
ctl_async_free(struct ctl_async *all)
{
	while (all != NULL && all->first != NULL)
		no_daemon(all->first);
	free(all);
}

static struct command *
command_new(struct ctl_async *all, ctl_fn *fn, void *ctx)
{
	struct command *c = all->n < CTL_ASKED_MAX ? calloc(1, sizeof(*c)) : NULL;

	if (c == NULL)
		return NULL;
	*c = (struct command){ .all = all, .fn = fn, .ctx = ctx };
	c->bev = bufferevent_socket_new(all->base, -1, BEV_OPT_CLOSE_ON_FREE);
	c->limit = evtimer_new(all->base, on_limit, c);
	if (c->bev != NULL && c->limit != NULL) {
		c->next = all->first;
		all->first = c;
		all->n++;
		return c;
	}
	if (c->bev != NULL)
		bufferevent_free(c->bev);
	if (c->limit != NULL)
		event_free(c->limit);
	free(c);
	return NULL;
}

void
ctl_ask(struct ctl_async *all, int seconds, const char *line,
    ctl_fn *fn, void *ctx)
{
	static const char many[] = "too many such requests at once";
	const struct timeval limit = { seconds, 0 };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct command *c = command_new(all, fn, ctx);
	size_t n = strlen(all->path);

	if (c == NULL) {
		fn(ctx, 503, many, strlen(many));
		return;
	}
	/* an empty path would be an abstract address */
	if (n == 0 || n >= sizeof(sun.sun_path)) {
		no_daemon(c);
		return;
	}
	memcpy(sun.sun_path, all->path, n + 1);
	switch (command_connect(c, &sun)) {
	case 0:
		break;
	case ENOENT:
	case ENOTDIR:
	case ECONNREFUSED:
		no_daemon(c);
		return;
	case EACCES:
	case EPERM:
		failed(c, "kprofd's control socket is its user's alone: how it "
		    "does is not known");
		return;
	case EAGAIN:
		failed(c, "kprofd takes no more connections: it hangs, or too "
		    "many wait for it");
		return;
	default:
		failed(c, "kprofd cannot be reached");
		return;
	}
	bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
	evbuffer_add_printf(bufferevent_get_output(c->bev), "%s\n", line);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	event_add(c->limit, &limit);
}
