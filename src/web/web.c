/*
 * web.c - starts the server's thread, checks each request, and dispatches it to
 * a file, a query or the daemon.
 *
 * The thread has one event loop.  A turn of the loop runs one query of the
 * database, so that between two of them answers are sent and requests are read;
 * commands to the daemon are asynchronous (daemon_routes.c).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/thread.h>

#include "server.h"
#include "kprofd/thread.h"
#include "web.h"

#define HEADERS_MAX 8192	/* bytes */
#define BODY_MAX 1024
#define NICER 10
#define API "/api/v1/"
#define QUERIES_MAX 48
#define UNSENT_MAX (64u << 20)	/* bytes of answers not yet received */

/* A query of the database. */
struct query {
	struct query *next;
	struct evhttp_request *req;
	const struct api_route *route;
	struct web_params p;
};

struct web {
	struct web_opts o;
	evutil_socket_t fd;		/* -1: the listener owns it */
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener;	/* closed by http, once bound */
	bool bound;
	struct conns *conns;
	struct ctl_async *ctl;
	struct event *turn;		/* runs the first of them: */
	struct query *first, **last;	/* that wait, in order */
	unsigned nqueries;
	atomic_bool stopping;		/* interrupts the query that runs */
	struct event *stop;
	pthread_t thread;
	char token[WEB_TOKEN_MAX + 1];	/* "": none */
	char addr[WEB_ADDR_MAX];
};

/* ---- queries ---- */

/* Why the query need not run; NULL: run it. */
static const char *
reason_to_skip(const struct web *w, const struct query *q)
{
	if (conns_gone(q->req))
		return "the client has gone";
	if (conns_unsent(w->conns) > UNSENT_MAX)
		return "too many answers wait to be read: ask again later";
	return NULL;
}

static void
query_run(struct web *w, const struct query *q)
{
	const char *skip = reason_to_skip(w, q);
	struct api_answer a;

	if (skip != NULL) {
		conns_asked(w->conns, q->req);
		reply_error(q->req, 503, skip);
		return;
	}
	api_ask(&a, &w->o.dbs, q->route, &q->p, &w->stopping);
	conns_asked(w->conns, q->req);
	reply(q->req, a.status, a.b.p, a.b.len);
	kp_buf_free(&a.b);
}

static struct query *
query_take(struct web *w)
{
	struct query *q = w->first;

	w->first = q->next;
	if (w->first == NULL)
		w->last = &w->first;
	w->nqueries--;
	return q;
}

/* A timer starts each turn: libevent would run active events before it polls. */
static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
	const struct timeval now = { 0, 0 };
	struct web *w = ctx;
	struct query *q;

	(void)fd, (void)what;
	if (w->first == NULL)
		return;
	q = query_take(w);
	query_run(w, q);
	free(q);
	if (w->first != NULL)
		event_add(w->turn, &now);
}

/* Takes a query from malloc(), and answers its request. */
static void
query_add(struct web *w, struct query *q)
{
	const struct timeval now = { 0, 0 };

	if (w->nqueries == QUERIES_MAX) {
		reply_error(q->req, 503, "too many questions at once: ask "
		    "again later");
		free(q);
		return;
	}
	conns_hold(w->conns, q->req);
	*w->last = q;
	w->last = &q->next;
	if (w->nqueries++ == 0)
		event_add(w->turn, &now);
}

/* ---- requests ---- */

static void
reply_method(struct evhttp_request *req, const char *allow)
{
	evhttp_add_header(evhttp_request_get_output_headers(req), "Allow",
	    allow);
	reply_error(req, 405, "the method is not allowed here");
}

/* To the database's route, or the daemon's. */
static void
on_api(struct web *w, struct evhttp_request *req, const char *name, bool post)
{
	const struct api_route *route = api_find(name);
	const struct daemon_route *daemon = route == NULL ?
	    daemon_route_find(name) : NULL;
	const char *query = evhttp_uri_get_query(
	    evhttp_request_get_evhttp_uri(req));
	struct query *q;
	char why[256];

	if (route == NULL && daemon == NULL) {
		reply_error(req, 404, "there is no such thing here (see "
		    "/openapi.json)");
		return;
	}
	if (post != (daemon != NULL && daemon->post)) {
		reply_method(req, post ? "GET, HEAD" : "POST");
		return;
	}
	q = calloc(1, sizeof(*q));
	if (q == NULL) {
		reply_error(req, 503, "out of memory");
		return;
	}
	if (!web_params_parse(&q->p, query, route != NULL ? route->params :
	    daemon->params, kp_wall_now(), why, sizeof(why))) {
		reply_error(req, 400, why);
	} else if (daemon != NULL) {
		daemon_route_run(daemon, w->ctl, req, &q->p);
	} else {
		q->req = req;
		q->route = route;
		q->p.id = name + strlen(route->name);
		query_add(w, q);
		return;
	}
	free(q);
}

static bool
refused(const struct web *w, struct evhttp_request *req, bool post, bool api)
{
	struct evkeyvalq *h = evhttp_request_get_input_headers(req);
	const char *token = w->token[0] != '\0' ? w->token : NULL;
	const struct web_asked asked = { .post = post, .api = api,
		.own = post && token == NULL && conns_peer_is_ours(req),
		.host = evhttp_find_header(h, "Host"),
		.origin = evhttp_find_header(h, "Origin"),
		.fetch_site = evhttp_find_header(h, "Sec-Fetch-Site"),
		.ours = evhttp_find_header(h, "X-Kprofd"),
		.authorization = evhttp_find_header(h, "Authorization") };
	enum web_verdict v = web_auth(&asked, token);

	if (v != WEB_MAY)
		reply_error(req, v == WEB_NO_TOKEN ? 401 : 403,
		    web_auth_why(v));
	return v != WEB_MAY;
}

/* What a request's headers say of its body. */
struct framing {
	bool body;
	unsigned lengths;	/* Content-Length: so often */
};

/*
 * No request here has a body.  evhttp takes the body of a HEAD, or one in an
 * encoding that it does not know, for the next request; a proxy in front would
 * not, and would pass the answer to another client.  So a connection on which a
 * body is announced is closed after the answer.
 *
 * Two lengths, even of one value, are two ways to read what follows: whoever stands
 * in front may have taken the other one (RFC 9112, 6.3).
 */
static struct framing
read_framing(struct evhttp_request *req)
{
	static const char length[] = "Content-Length";
	static const char coding[] = "Transfer-Encoding";
	const struct evkeyval *kv =
	    evhttp_request_get_input_headers(req)->tqh_first;
	struct framing f = { false, 0 };
	bool is_length;

	/* every header of that name, and "Content-Length :", which is malformed */
	for (; kv != NULL; kv = kv->next.tqe_next) {
		is_length = strncasecmp(kv->key, length, strlen(length)) == 0;
		f.lengths += is_length;
		f.body |= (is_length && strcmp(kv->value, "0") != 0) ||
		    strncasecmp(kv->key, coding, strlen(coding)) == 0;
	}
	return f;
}

static void
on_request(struct evhttp_request *req, void *ctx)
{
	static const char healthy[] = "{\"ok\":true}\n";
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = uri != NULL ? evhttp_uri_get_path(uri) : NULL;
	bool post = evhttp_request_get_command(req) == EVHTTP_REQ_POST;
	const struct framing f = read_framing(req);
	struct web *w = ctx;
	bool api, metrics;

	conns_asked(w->conns, req);
	if (f.body || f.lengths > 1)
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "Connection", "close");
	if (f.lengths > 1) {
		reply_error(req, 400, "there is more than one Content-Length");
		return;
	}
	if (path == NULL) {
		reply_error(req, 400, "the path is not understood");
		return;
	}
	api = strncmp(path, API, strlen(API)) == 0;
	metrics = strcmp(path, "/metrics") == 0;
	if (refused(w, req, post, api || metrics))
		return;
	if (api)
		on_api(w, req, path + strlen(API), post);
	else if (post)
		reply_method(req, "GET, HEAD");
	else if (metrics)
		metrics_run(w->o.totals, w->ctl, req);
	else if (strcmp(path, "/healthz") == 0)
		reply(req, 200, healthy, strlen(healthy));
	else if (!reply_asset(req, path))
		reply_error(req, 404, "there is no such page: the dashboard "
		    "is at /");
}

/* ---- starting and stopping ---- */

static void
on_stop(evutil_socket_t fd, short what, void *ctx)
{
	struct web *w = ctx;

	(void)fd, (void)what;
	event_base_loopbreak(w->base);
}

static void *
web_main(void *ctx)
{
	struct web *w = ctx;

	/* on Linux this is the thread's own: the daemon's loop goes first */
	setpriority(PRIO_PROCESS, 0, NICER);
	event_base_dispatch(w->base);
	return NULL;
}

static void
web_free(struct web *w)
{
	struct query *q;

	while (w->first != NULL) {
		q = query_take(w);
		reply_error(q->req, 503, "kprofd ends");
		free(q);
	}
	if (w->turn != NULL)
		event_free(w->turn);
	ctl_async_free(w->ctl);
	if (w->listener != NULL && !w->bound)
		evconnlistener_free(w->listener);
	if (w->http != NULL)
		evhttp_free(w->http);
	conns_free(w->conns);
	if (w->stop != NULL)
		event_free(w->stop);
	if (w->base != NULL)
		event_base_free(w->base);
	if (w->fd >= 0)
		close(w->fd);
	explicit_bzero(w->token, sizeof(w->token));
	free(w);
}

static bool
make_server(struct web *w)
{
	w->http = evhttp_new(w->base);
	w->listener = w->http == NULL ? NULL : evconnlistener_new(w->base,
	    NULL, NULL, LEV_OPT_CLOSE_ON_FREE, 0, w->fd);
	if (w->listener == NULL)
		return false;
	w->fd = -1;
	w->bound = evhttp_bind_listener(w->http, w->listener) != NULL;
	if (!w->bound)
		return false;
	evhttp_set_max_headers_size(w->http, HEADERS_MAX);
	evhttp_set_max_body_size(w->http, BODY_MAX);
	evhttp_set_allowed_methods(w->http,
	    EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST);
	evhttp_set_timeout(w->http, CONN_SILENCE);
	evhttp_set_gencb(w->http, on_request, w);
	w->conns = conns_new(w->base, w->http, w->listener);
	w->ctl = ctl_async_new(w->base, w->o.control);
	w->stop = event_new(w->base, -1, 0, on_stop, w);
	w->turn = evtimer_new(w->base, on_turn, w);
	return w->conns != NULL && w->ctl != NULL && w->stop != NULL &&
	    w->turn != NULL;
}

enum kp_err
web_start(struct web **out, const struct web_opts *o, char *why, size_t n)
{
	struct web *w = calloc(1, sizeof(*w));
	enum kp_err err = KP_OK;

	snprintf(why, n, "out of memory");
	if (w == NULL)
		return KP_ENOMEM;
	w->o = *o;
	w->fd = -1;
	w->last = &w->first;
	if (o->token_file != NULL)
		err = web_token_read(o->token_file, w->token, why, n);
	if (err == KP_OK)
		err = web_listen(&w->fd, o->addr, w->token[0] != '\0', w->addr,
		    why, n);
	if (err == KP_OK && (evthread_use_pthreads() != 0 ||
	    (w->base = event_base_new()) == NULL || !make_server(w) ||
	    kp_thread_start(&w->thread, web_main, w) != 0))
		err = KP_ENOMEM;
	if (err == KP_OK)
		*out = w;
	else
		web_free(w);
	return err;
}

const char *
web_addr(const struct web *w)
{
	return w->addr;
}

void
web_stop(struct web *w)
{
	if (w == NULL)
		return;
	atomic_store(&w->stopping, true);
	event_active(w->stop, EV_TIMEOUT, 0);
	pthread_join(w->thread, NULL);
	web_free(w);
}
