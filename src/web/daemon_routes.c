/*
 * daemon_routes.c - sends an operation's command to the daemon's control socket from
 * the event loop, and turns the answer into a reply.
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
#define DETAIL_MAX 1000	/* bytes of a refusal */

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
answer(struct command *c, enum web_problem problem, const char *text, size_t n)
{
	c->fn(c->ctx, problem, text, n);
	command_free(c);
}

/* Only where nothing listens: a daemon that is busy, or ending, is there. */
static void
no_daemon(struct command *c)
{
	static const char text[] = "no kprofd answers: it is not running, or "
	    "this is another one's database (kprof status)";

	answer(c, PROBLEM_NO_DAEMON, text, strlen(text));
}

static void
failed(struct command *c, const char *text)
{
	answer(c, PROBLEM_BUSY, text, strlen(text));
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
			answer(c, strcmp(kind, "ok") == 0 ? PROBLEMS :
			    PROBLEM_REFUSED,
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
		fn(ctx, PROBLEM_BUSY, many, strlen(many));
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

void
ctl_dump_stacks(struct ctl_async *all, ctl_fn *fn, void *ctx)
{
	ctl_ask(all, COMMAND_SECONDS, "dump stacks", fn, ctx);
}

/* ---- operations of the API ---- */

struct asked {
	struct evhttp_request *req;
	enum daemon_answer as;
};

/* Passes JSON on as it is, and any other text as a string in an object. */
static void
on_answer(void *ctx, enum web_problem problem, const char *text, size_t n)
{
	static const char stopped[] = "{\"running\":false}\n";
	struct asked *a = ctx;
	char detail[DETAIL_MAX];
	struct json j;
	struct kp_buf b;

	if (problem == PROBLEM_NO_DAEMON && a->as == ANSWER_STATUS) {
		reply(a->req, 200, stopped, strlen(stopped));
	} else if (problem != PROBLEMS) {
		if (problem == PROBLEM_REFUSED && a->as == ANSWER_FOUND)
			problem = PROBLEM_NOT_KEPT;
		snprintf(detail, sizeof(detail), "%.*s", (int)(n > 0 &&
		    text[n - 1] == '\n' ? n - 1 : n), text);
		reply_error(a->req, problem, detail);
	} else if (n > 0 && text[0] == '{') {
		reply(a->req, a->as == ANSWER_ACCEPTED ? 202 : 200, text, n);
	} else {
		kp_buf_init(&b, 16 * ANSWER_MAX);
		json_open(&j, &b);
		json_string_n(&j, "done", text, n > 0 && text[n - 1] == '\n' ?
		    n - 1 : n);
		json_close(&j);
		reply(a->req, 200, b.p, b.len);
		kp_buf_free(&b);
	}
	free(a);
}

/* Appends the limits of a trace, or the number of one. */
static bool
line_trace(char line[CTL_LINE_MAX], const struct web_params *p)
{
	size_t n = strlen(line), room = CTL_LINE_MAX - n, len = 0;

	if (p->time > 0)
		len += (size_t)snprintf(line + n, room, " for=%lldms",
		    (long long)(p->time / KP_NS_PER_MS));
	if (p->events > 0 && len < room)
		len += (size_t)snprintf(line + n + len, room - len,
		    " events=%zu", p->events);
	if (p->id[0] != '\0' && len < room)
		len += (size_t)snprintf(line + n + len, room - len, " id=%s",
		    p->id);
	return len < room;
}

void
daemon_route_run(const struct operation *op, struct ctl_async *ctl,
    struct evhttp_request *req, const struct web_params *p)
{
	bool type = (op->params & PARAM_IDENTITY) != 0;
	bool mark = type || (op->params & PARAM_TEXT) != 0;
	const char *text = type ? p->range.identity : p->mark;
	const char *wrong = !mark ? NULL : text == NULL ? "is missing" :
	    ctl_mark_wrong(text);
	char line[CTL_LINE_MAX], why[60];
	struct asked *a;

	if (strspn(p->id, "0123456789") != strlen(p->id)) {
		reply_error(req, PROBLEM_NOT_KEPT, "there is no such trace");
		return;
	}
	if (wrong != NULL) {
		snprintf(why, sizeof(why), "'%s' %s", type ? "identity" : "text",
		    wrong);
		reply_error(req, PROBLEM_BAD_PARAMETER, why);
		return;
	}
	if (!ctl_line(line, op->line, p->range.node) ||
	    !line_trace(line, p) || (mark && !ctl_line_mark(line, text))) {
		reply_error(req, PROBLEM_BAD_PARAMETER, "'node' is given too often");
		return;
	}
	a = malloc(sizeof(*a));
	if (a == NULL) {
		reply_error(req, PROBLEM_BUSY, "out of memory");
		return;
	}
	*a = (struct asked){ req, op->as };
	ctl_ask(ctl, COMMAND_SECONDS, line, on_answer, a);
}

/* ---- /metrics ---- */

struct scrape {
	struct totals *totals;
	struct evhttp_request *req;
};

/* If the daemon does not answer kprof_daemon_up is 0, and the rest is written. */
static void
on_metrics(void *ctx, enum web_problem problem, const char *text, size_t n)
{
	struct scrape *s = ctx;
	const char *accept = evhttp_find_header(
	    evhttp_request_get_input_headers(s->req), "Accept"), *type;
	struct kp_buf b;

	kp_buf_init(&b, METRICS_OUTPUT_MAX);
	metrics_answer(s->totals, accept, problem == PROBLEMS ? text : NULL, n,
	    &b, &type);
	if (b.err == KP_OK)
		reply_as(s->req, 200, type, b.p, b.len);
	else
		reply_error(s->req, PROBLEM_BUSY, kp_err_str(b.err));
	kp_buf_free(&b);
	free(s);
}

void
metrics_run(struct totals *t, struct ctl_async *ctl, struct evhttp_request *req)
{
	struct scrape *s;

	if (t == NULL) {
		reply_error(req, PROBLEM_NO_PATH, "metrics are served by a kprofd that "
		    "runs: kprofd -http");
		return;
	}
	s = malloc(sizeof(*s));
	if (s == NULL) {
		reply_error(req, PROBLEM_BUSY, "out of memory");
		return;
	}
	*s = (struct scrape){ t, req };
	ctl_ask(ctl, METRICS_SECONDS, "metrics", on_metrics, s);
}
