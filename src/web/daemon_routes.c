/*
 * daemon_routes.c - a table of routes with the control command for each; sends the
 * command to the daemon's control socket from the event loop, and turns the answer
 * into a reply.
 *
 * A command has a bufferevent and a timer: it sends the line, parses the answer
 * (daemon/control/control.h), and calls back once.
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
#include <event2/event.h>

#include "client/ctl_socket.h"
#include "server.h"
#include "export/metrics.h"
#include "text/json.h"

#define COMMAND_SECONDS 15
#define METRICS_SECONDS 5	/* Prometheus gives up after 10 s */
#define COMMANDS_MAX 8		/* at once */
#define ANSWER_MAX (1u << 20)	/* bytes */
#define NO_DAEMON 0		/* as a status */

/* ---- commands ---- */

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

	answer(c, NO_DAEMON, text, strlen(text));
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
	    *n > ANSWER_MAX) {
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
		failed(c, "cannot read the answer of kprofd");
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
	struct command *c = all->n < COMMANDS_MAX ? calloc(1, sizeof(*c)) : NULL;

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

/* Calls fn(ctx, ...) exactly once, perhaps before it returns. */
static void
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

/* ---- routes of the API ---- */

/* Passes JSON on as it is, and any other text as a string in an object. */
static void
on_answer(void *ctx, int status, const char *text, size_t n)
{
	struct evhttp_request *req = ctx;
	struct json j;
	struct kp_buf b;

	if (status == NO_DAEMON)
		status = 503;
	if (status == 200 && n > 0 && text[0] == '{') {
		reply(req, status, text, n);
		return;
	}
	kp_buf_init(&b, 16 * ANSWER_MAX);
	json_open(&j, &b);
	json_string_n(&j, status == 200 ? "done" : "error", text,
	    n > 0 && text[n - 1] == '\n' ? n - 1 : n);
	json_close(&j);
	reply(req, status, b.p, b.len);
	kp_buf_free(&b);
}

/* For a status it is an answer, not an error, that no daemon runs. */
static void
on_status(void *ctx, int status, const char *text, size_t n)
{
	static const char stopped[] = "{\"running\":false}\n";

	if (status == NO_DAEMON)
		reply(ctx, 200, stopped, strlen(stopped));
	else
		on_answer(ctx, status, text, n);
}

static const struct daemon_route routes[] = {
	{ "status", "status json", on_status, false, PARAM_NODE },
	{ "flight", "flight json", on_status, false, PARAM_NODE },
	{ "pause", "pause", on_answer, true, PARAM_NODE },
	{ "resume", "resume", on_answer, true, PARAM_NODE },
	{ "dump", "dump", on_answer, true, 0 },
};
#define NROUTES (sizeof(routes) / sizeof(routes[0]))

const struct daemon_route *
daemon_route_find(const char *name)
{
	for (size_t i = 0; i < NROUTES; i++)
		if (strcmp(routes[i].name, name) == 0)
			return &routes[i];
	return NULL;
}

void
daemon_route_run(const struct daemon_route *route, struct ctl_async *ctl,
    struct evhttp_request *req, const struct web_params *p)
{
	char line[CTL_LINE_MAX];

	if (!ctl_line(line, route->line, p->range.node)) {
		reply_error(req, 400, "'node' is given too often");
		return;
	}
	ctl_ask(ctl, COMMAND_SECONDS, line, route->done, req);
}

/* ---- /metrics ---- */

struct scrape {
	struct totals *totals;
	struct evhttp_request *req;
};

/* If the daemon does not answer kprof_daemon_up is 0, and the rest is written. */
static void
on_metrics(void *ctx, int status, const char *text, size_t n)
{
	struct scrape *s = ctx;
	const char *accept = evhttp_find_header(
	    evhttp_request_get_input_headers(s->req), "Accept"), *type;
	struct kp_buf b;

	kp_buf_init(&b, METRICS_OUTPUT_MAX);
	metrics_answer(s->totals, accept, status == 200 ? text : NULL, n, &b,
	    &type);
	if (b.err == KP_OK)
		reply_as(s->req, 200, type, b.p, b.len);
	else
		reply_error(s->req, 503, kp_err_str(b.err));
	kp_buf_free(&b);
	free(s);
}

void
metrics_run(struct totals *t, struct ctl_async *ctl, struct evhttp_request *req)
{
	struct scrape *s;

	if (t == NULL) {
		reply_error(req, 404, "metrics are served by a kprofd that "
		    "runs: kprofd -http");
		return;
	}
	s = malloc(sizeof(*s));
	if (s == NULL) {
		reply_error(req, 503, "out of memory");
		return;
	}
	*s = (struct scrape){ t, req };
	ctl_ask(ctl, METRICS_SECONDS, "metrics", on_metrics, s);
}
