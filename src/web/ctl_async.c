/*
 * ctl_async.c - a bufferevent and a timer for each question: sends the line,
 * parses the answer (daemon/control/control.h), calls back once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "ctl_async.h"

struct relay {
	struct ctl_async *all;
	struct relay *next;
	struct bufferevent *bev;
	struct event *limit;
	ctl_fn *fn;
	void *ctx;
};

struct ctl_async {
	struct event_base *base;
	const char *path;
	struct relay *first;
	unsigned n;
};

static const char none[] = "no kprofd answers: it is not running, or this is "
    "another one's database (kprof status)";

static void
relay_free(struct relay *r)
{
	struct relay **p = &r->all->first;

	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	r->all->n--;
	bufferevent_free(r->bev);
	event_free(r->limit);
	free(r);
}

static void
answer(struct relay *r, int status, const char *text, size_t n)
{
	r->fn(r->ctx, status, text, n);
	relay_free(r);
}

/* The next whole message; false: it is not there yet, or makes no sense. */
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
	struct relay *r = ctx;
	bool bad = false;
	char kind[8];
	size_t n;

	while (next_message(in, kind, &n, &bad)) {
		if (strcmp(kind, "note") != 0) {
			answer(r, strcmp(kind, "ok") == 0 ? 200 : 409,
			    n > 0 ? (const char *)evbuffer_pullup(in,
			    (ev_ssize_t)n) : "", n);
			return;
		}
		evbuffer_drain(in, n);
	}
	if (bad)
		answer(r, RELAY_NONE, none, strlen(none));
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
	(void)bev;
	if ((what & BEV_EVENT_CONNECTED) == 0)
		answer(ctx, RELAY_NONE, none, strlen(none));
}

static void
on_limit(evutil_socket_t fd, short what, void *ctx)
{
	static const char slow[] = "kprofd does not answer in time";

	(void)fd, (void)what;
	answer(ctx, 503, slow, strlen(slow));
}

struct ctl_async *
ctl_async_new(struct event_base *base, const char *path)
{
	struct ctl_async *rs = calloc(1, sizeof(*rs));

	if (rs != NULL)
		*rs = (struct ctl_async){ .base = base, .path = path };
	return rs;
}

void
ctl_async_free(struct ctl_async *rs)
{
	while (rs != NULL && rs->first != NULL)
		answer(rs->first, RELAY_NONE, none, strlen(none));
	free(rs);
}

static struct relay *
relay_new(struct ctl_async *rs, ctl_fn *fn, void *ctx)
{
	struct relay *r = rs->n < CTL_ASKED_MAX ? calloc(1, sizeof(*r)) : NULL;

	if (r == NULL)
		return NULL;
	*r = (struct relay){ .all = rs, .fn = fn, .ctx = ctx };
	r->bev = bufferevent_socket_new(rs->base, -1, BEV_OPT_CLOSE_ON_FREE);
	r->limit = evtimer_new(rs->base, on_limit, r);
	if (r->bev != NULL && r->limit != NULL) {
		r->next = rs->first;
		rs->first = r;
		rs->n++;
		return r;
	}
	if (r->bev != NULL)
		bufferevent_free(r->bev);
	if (r->limit != NULL)
		event_free(r->limit);
	free(r);
	return NULL;
}

void
ctl_ask(struct ctl_async *rs, const char *line, ctl_fn *fn, void *ctx)
{
	ctl_ask_within(rs, CTL_SECONDS, line, fn, ctx);
}

void
ctl_ask_within(struct ctl_async *rs, int seconds, const char *line,
    ctl_fn *fn, void *ctx)
{
	static const char many[] = "too many such requests at once";
	const struct timeval limit = { seconds, 0 };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct relay *r = relay_new(rs, fn, ctx);
	size_t n = strlen(rs->path);

	if (r == NULL) {
		fn(ctx, 503, many, strlen(many));
		return;
	}
	/* an empty one would be a name of the abstract kind */
	if (n == 0 || n >= sizeof(sun.sun_path)) {
		answer(r, RELAY_NONE, none, strlen(none));
		return;
	}
	memcpy(sun.sun_path, rs->path, n + 1);
	bufferevent_setcb(r->bev, on_read, NULL, on_event, r);
	bufferevent_enable(r->bev, EV_READ | EV_WRITE);
	evbuffer_add_printf(bufferevent_get_output(r->bev), "%s\n", line);
	event_add(r->limit, &limit);
	/* it may fail at once, and say so through on_event: r is gone then */
	if (bufferevent_socket_connect(r->bev, (struct sockaddr *)&sun,
	    sizeof(sun)) != 0 && rs->first == r)
		answer(r, RELAY_NONE, none, strlen(none));
}
