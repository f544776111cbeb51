/*
 * web.c - starts the server's threads, checks each request, and dispatches it to
 * a file, a query or the daemon.
 *
 * One thread has the event loop, and does all but queries of the database: these
 * wait in a queue, from which a second thread takes one at a time.  So what needs
 * no query, /healthz above all, is answered while one runs.  Commands to the daemon
 * are asynchronous (daemon_routes.c).
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
#include "stacks/stored/stored_stacks.h"
#include "web.h"

#define HEADERS_MAX 8192	/* bytes */
#define BODY_MAX 1024
#define NICER 10
#define API "/api/v1/"
#define QUERIES_MAX 48
#define PROFILES_MAX 4		/* being taken at once */
#define UNSENT_MAX (64u << 20)	/* bytes of answers not yet received */

/* A query of the database. */
struct query {
	struct query *next;
	struct evhttp_request *req;
	const struct operation *op;
	struct web_params p;
};

/* A profile for pprof, of the time between two dumps of the running windows. */
struct profile {
	struct profile *next;
	struct web *w;
	struct query *q;		/* that it becomes */
	struct event *timer;		/* NULL: before the first dump */
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
	struct query *first, **last;	/* that wait, in order */
	unsigned nqueries;
	struct profile *profiles;
	unsigned nprofiles;
	struct query *running;		/* is with the other thread; NULL: none */
	struct event *answered;
	atomic_bool stopping;		/* interrupts it */
	struct event *stop;
	pthread_t thread, asker;
	/* For the other thread: asked and ending are behind the lock. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	const struct query *asked;	/* to be answered; NULL: all are */
	bool ending, asks;		/* asks: it was started */
	struct api_answer answer;	/* of running, once asked is NULL */
	struct web_tokens tokens;
	const struct web_tokens *needed;	/* those; NULL: there are none */
	char url[sizeof("https:///") + WEB_ADDR_MAX];
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

/* On the thread of queries. */
static void *
asker_main(void *ctx)
{
	struct web *w = ctx;

	setpriority(PRIO_PROCESS, 0, NICER);
	pthread_mutex_lock(&w->lock);
	while (!w->ending) {
		if (w->asked == NULL) {
			pthread_cond_wait(&w->wake, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		api_ask(&w->answer, &w->o.dbs, w->asked->op, &w->asked->p,
		    &w->stopping);
		pthread_mutex_lock(&w->lock);
		w->asked = NULL;
		event_active(w->answered, EV_TIMEOUT, 0);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void
asker_end(struct web *w)
{
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->asker, NULL);
}

/* Starts the first query that is worth it, unless one is running. */
static void
query_next(struct web *w)
{
	const char *skip;
	struct query *q;

	while (w->running == NULL && w->first != NULL) {
		q = query_take(w);
		skip = reason_to_skip(w, q);
		if (skip != NULL) {
			conns_asked(w->conns, q->req);
			reply_error(q->req, PROBLEM_BUSY, skip);
			free(q);
			continue;
		}
		w->running = q;
		pthread_mutex_lock(&w->lock);
		w->asked = q;
		pthread_cond_signal(&w->wake);
		pthread_mutex_unlock(&w->lock);
	}
}

static void
on_answered(evutil_socket_t fd, short what, void *ctx)
{
	struct web *w = ctx;
	struct query *q = w->running;
	struct api_answer *a = &w->answer;

	(void)fd, (void)what;
	conns_asked(w->conns, q->req);
	if (a->type != NULL)
		reply_as(q->req, a->status, a->type, a->b.p, a->b.len);
	else if (a->status == 200 && !a->now)
		reply_tagged(q->req, a->b.p, a->b.len);
	else
		reply(q->req, a->status, a->b.p, a->b.len);
	kp_buf_free(&a->b);
	free(q);
	w->running = NULL;
	query_next(w);
}

/* Takes a query from malloc(), and answers its request. */
static void
query_add(struct web *w, struct query *q)
{
	if (w->nqueries == QUERIES_MAX) {
		conns_asked(w->conns, q->req);
		reply_error(q->req, PROBLEM_BUSY, "too many questions at once: ask "
		    "again later");
		free(q);
		return;
	}
	conns_hold(w->conns, q->req);
	*w->last = q;
	w->last = &q->next;
	w->nqueries++;
	query_next(w);
}

/* ---- profiles ---- */

/* Returns its query. */
static struct query *
profile_free(struct profile *pr)
{
	struct profile **at = &pr->w->profiles;
	struct query *q = pr->q;

	while (*at != pr)
		at = &(*at)->next;
	*at = pr->next;
	pr->w->nprofiles--;
	if (pr->timer != NULL)
		event_free(pr->timer);
	free(pr);
	return q;
}

static void on_profiled(evutil_socket_t fd, short what, void *ctx);

static void
profile_fail(struct profile *pr, enum web_problem problem, const char *why)
{
	struct web *w = pr->w;
	struct query *q = profile_free(pr);

	conns_asked(w->conns, q->req);
	reply_error(q->req, problem, why);
	free(q);
}

/* The windows are closed: the profile begins, or is over. */
static void
on_dumped(void *ctx, enum web_problem problem, const char *text, size_t n)
{
	struct profile *pr = ctx;
	struct web *w = pr->w;
	const struct timeval length = { (time_t)pr->q->p.seconds, 0 };
	struct query *q = pr->q;
	char why[400];

	if (problem == PROBLEMS && pr->timer == NULL) {
		q->p.range.since = kp_wall_now();
		pr->timer = evtimer_new(w->base, on_profiled, pr);
		if (pr->timer != NULL && event_add(pr->timer, &length) == 0)
			return;
		problem = PROBLEM_BUSY;
		text = "out of memory";
		n = strlen(text);
	}
	if (problem == PROBLEMS) {
		/* what is measured while it waits for its turn is not of the profile */
		q->p.range.until = kp_wall_now();
		query_add(w, profile_free(pr));
		return;
	}
	snprintf(why, sizeof(why), "%.*s", (int)(n > 0 && text[n - 1] == '\n' ?
	    n - 1 : n), text);
	profile_fail(pr, problem, why);
}

static void
on_profiled(evutil_socket_t fd, short what, void *ctx)
{
	struct profile *pr = ctx;

	(void)fd, (void)what;
	if (conns_gone(pr->q->req)) {
		profile_fail(pr, PROBLEM_BUSY, "the client has gone");
		return;
	}
	ctl_dump_stacks(pr->w->ctl, on_dumped, pr);
}

/* Gives up profiles whose clients have gone, as pprof does when it is interrupted. */
static void
profiles_sweep(struct web *w)
{
	for (struct profile *pr = w->profiles, *next; pr != NULL; pr = next) {
		next = pr->next;
		/* where the timer does not run, a dump refers to it */
		if (pr->timer != NULL && evtimer_pending(pr->timer, NULL) &&
		    conns_gone(pr->q->req))
			profile_fail(pr, PROBLEM_BUSY, "the client has gone");
	}
}

/*
 * GET /debug/pprof/profile?seconds=N, as of a program in Go.  It closes windows, so
 * it is only for whom may do more than read.
 */
static void
on_profile(struct web *w, struct evhttp_request *req, enum web_verdict v)
{
	struct profile *pr = calloc(1, sizeof(*pr));
	struct query *q = calloc(1, sizeof(*q));
	const char *allow;
	char why[256] = "out of memory";
	enum web_problem problem = PROBLEM_BUSY;

	profiles_sweep(w);
	if (v != WEB_MAY || (w->needed == NULL && !conns_peer_is_ours(req))) {
		problem = v != WEB_MAY ? PROBLEM_READ_ONLY : PROBLEM_OTHER_USER;
		snprintf(why, sizeof(why), "a profile closes the running windows, "
		    "which you may not: " API "stacks?form=pprof has what is "
		    "stored");
	} else if (w->nprofiles == PROFILES_MAX) {
		snprintf(why, sizeof(why), "too many profiles at once");
	} else if (pr != NULL && q != NULL) {
		problem = web_params_parse(&q->p, evhttp_uri_get_query(
		    evhttp_request_get_evhttp_uri(req)), PARAM_SECONDS |
		    PARAM_NODE | PARAM_IDENTITY | PARAM_TIER, kp_wall_now(), why,
		    sizeof(why)) ? PROBLEMS : PROBLEM_BAD_PARAMETER;
	}
	if (problem != PROBLEMS) {
		reply_error(req, problem, why);
		free(pr);
		free(q);
		return;
	}
	q->req = req;
	q->op = operation_find("stacks", false, true, &allow);
	q->p.id = "";
	q->p.form = STACKS_PPROF;
	*pr = (struct profile){ .next = w->profiles, .w = w, .q = q };
	w->profiles = pr;
	w->nprofiles++;
	conns_hold(w->conns, req);
	ctl_dump_stacks(w->ctl, on_dumped, pr);
}

/* ---- requests ---- */

static void
reply_method(struct evhttp_request *req, const char *allow)
{
	char why[80];

	evhttp_add_header(evhttp_request_get_output_headers(req), "Allow",
	    allow);
	snprintf(why, sizeof(why), "the method is not allowed here: use %s", allow);
	reply_error(req, PROBLEM_METHOD, why);
}

static bool
is_reading(enum evhttp_cmd_type method)
{
	return method == EVHTTP_REQ_GET || method == EVHTTP_REQ_HEAD;
}

/* Asks the database, or the daemon. */
static void
on_api(struct web *w, struct evhttp_request *req, const char *name,
    bool read_only)
{
	enum evhttp_cmd_type method = evhttp_request_get_command(req);
	const char *query = evhttp_uri_get_query(
	    evhttp_request_get_evhttp_uri(req)), *allow;
	const struct operation *op = operation_find(name,
	    method == EVHTTP_REQ_POST, is_reading(method), &allow);
	struct query *q;
	char why[256];

	if (allow == NULL) {
		reply_error(req, PROBLEM_NO_PATH, "there is no such thing here (see "
		    "/openapi.json)");
		return;
	}
	if (op == NULL) {
		reply_method(req, allow);
		return;
	}
	q = calloc(1, sizeof(*q));
	if (q == NULL) {
		reply_error(req, PROBLEM_BUSY, "out of memory");
		return;
	}
	*q = (struct query){ .req = req, .op = op };
	if (!web_params_parse(&q->p, query, op->params, kp_wall_now(), why,
	    sizeof(why))) {
		reply_error(req, PROBLEM_BAD_PARAMETER, why);
		free(q);
		return;
	}
	q->p.id = name + strlen(op->name);
	q->p.read_only = read_only;
	if (op->fn != NULL) {
		query_add(w, q);
		return;
	}
	daemon_route_run(op, w->ctl, req, &q->p);
	free(q);
}

/* Answers a request that is refused. */
static enum web_verdict
judge(const struct web *w, struct evhttp_request *req, bool api)
{
	bool post = !is_reading(evhttp_request_get_command(req));
	struct evkeyvalq *h = evhttp_request_get_input_headers(req);
	const struct web_asked asked = { .post = post, .api = api,
		.own = post && w->needed == NULL && conns_peer_is_ours(req),
		.tls = w->o.tls_cert != NULL,
		.host = evhttp_find_header(h, "Host"),
		.origin = evhttp_find_header(h, "Origin"),
		.fetch_site = evhttp_find_header(h, "Sec-Fetch-Site"),
		.ours = evhttp_find_header(h, "X-Kprofd"),
		.authorization = evhttp_find_header(h, "Authorization") };
	enum web_verdict v = web_auth(&asked, w->needed);
	enum web_problem problem;
	const char *why;

	if (v != WEB_MAY && v != WEB_MAY_READ) {
		problem = web_auth_problem(v, &why);
		reply_error(req, problem, why);
	}
	return v;
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
	const struct framing f = read_framing(req);
	struct web *w = ctx;
	enum web_verdict v;
	bool api, metrics, profile;

	conns_asked(w->conns, req);
	if (f.body || f.lengths > 1)
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "Connection", "close");
	if (f.lengths > 1) {
		reply_error(req, PROBLEM_BAD_REQUEST, "there is more than one Content-Length");
		return;
	}
	if (path == NULL) {
		reply_error(req, PROBLEM_BAD_REQUEST, "the path is not understood");
		return;
	}
	api = strncmp(path, API, strlen(API)) == 0;
	metrics = strcmp(path, "/metrics") == 0;
	profile = strcmp(path, "/debug/pprof/profile") == 0;
	v = judge(w, req, api || metrics || profile);
	if (v != WEB_MAY && v != WEB_MAY_READ)
		return;
	if (api)
		on_api(w, req, path + strlen(API), v == WEB_MAY_READ);
	else if (!is_reading(evhttp_request_get_command(req)))
		reply_method(req, "GET, HEAD");
	else if (profile && evhttp_request_get_command(req) == EVHTTP_REQ_HEAD)
		reply_as(req, 200, "application/octet-stream", "", 0);
	else if (profile)
		on_profile(w, req, v);
	else if (metrics)
		metrics_run(w->o.totals, w->ctl, req);
	else if (strcmp(path, "/healthz") == 0)
		reply(req, 200, healthy, strlen(healthy));
	else if (!reply_asset(req, path))
		reply_error(req, PROBLEM_NO_PATH, "there is no such page: the "
		    "dashboard is at /");
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

	if (w->asks)
		asker_end(w);
	/* answers what waits for the daemon: profiles, too */
	ctl_async_free(w->ctl);
	while (w->profiles != NULL) {
		q = profile_free(w->profiles);
		reply_error(q->req, PROBLEM_BUSY, "kprofd ends");
		free(q);
	}
	while (w->running != NULL || w->first != NULL) {
		q = w->running != NULL ? w->running : query_take(w);
		w->running = NULL;
		reply_error(q->req, PROBLEM_BUSY, "kprofd ends");
		free(q);
	}
	kp_buf_free(&w->answer.b);
	if (w->answered != NULL)
		event_free(w->answered);
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
	explicit_bzero(&w->tokens, sizeof(w->tokens));
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
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
	/* those that no path takes get an answer with Allow */
	evhttp_set_allowed_methods(w->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD |
	    EVHTTP_REQ_POST | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
	    EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH | EVHTTP_REQ_TRACE |
	    EVHTTP_REQ_CONNECT);
	evhttp_set_timeout(w->http, CONN_SILENCE);
	evhttp_set_gencb(w->http, on_request, w);
	w->conns = conns_new(w->base, w->http, w->listener);
	w->ctl = ctl_async_new(w->base, w->o.control);
	w->stop = event_new(w->base, -1, 0, on_stop, w);
	w->answered = event_new(w->base, -1, 0, on_answered, w);
	return w->conns != NULL && w->ctl != NULL && w->stop != NULL &&
	    w->answered != NULL;
}

const char *
web_opts_wrong(const struct web_opts *o)
{
	if (o->addr == NULL && (o->token_file != NULL ||
	    o->read_token_file != NULL || o->tls_cert != NULL ||
	    o->tls_key != NULL))
		return "-http-token-file, -http-read-token-file, -http-tls-cert "
		    "and -http-tls-key go with -http ADDR:PORT";
	if ((o->tls_cert == NULL) != (o->tls_key == NULL))
		return "-http-tls-cert and -http-tls-key go together";
	return NULL;
}

enum kp_err
web_reload(struct web *w, char *why, size_t n)
{
	return w->o.tls_cert == NULL ? KP_OK :
	    conns_encrypt(w->conns, w->o.tls_cert, w->o.tls_key, why, n);
}

enum kp_err
web_start(struct web **out, const struct web_opts *o, char *why, size_t n)
{
	struct web *w = calloc(1, sizeof(*w));
	char addr[WEB_ADDR_MAX];
	enum kp_err err;

	snprintf(why, n, "out of memory");
	if (w == NULL)
		return KP_ENOMEM;
	w->o = *o;
	w->fd = -1;
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	if (o->token_file != NULL || o->read_token_file != NULL)
		w->needed = &w->tokens;
	err = web_tokens_read(&w->tokens, o->token_file, o->read_token_file,
	    why, n);
	if (err == KP_OK)
		err = web_listen(&w->fd, o->addr, w->needed != NULL, addr, why,
		    n);
	if (err == KP_OK && (evthread_use_pthreads() != 0 ||
	    (w->base = event_base_new()) == NULL || !make_server(w)))
		err = KP_ENOMEM;
	if (err == KP_OK)
		err = web_reload(w, why, n);
	w->asks = err == KP_OK &&
	    kp_thread_start(&w->asker, asker_main, w) == 0;
	if (err == KP_OK && (!w->asks ||
	    kp_thread_start(&w->thread, web_main, w) != 0))
		err = KP_ENOMEM;
	if (err != KP_OK) {
		web_free(w);
		return err;
	}
	snprintf(w->url, sizeof(w->url), "http%s://%s/",
	    o->tls_cert != NULL ? "s" : "", addr);
	*out = w;
	return KP_OK;
}

const char *
web_url(const struct web *w)
{
	return w->url;
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
