/*
 * web.c - see the header.
 *
 * One loop on one thread.  The database's answers are made in it, one in each
 * turn, so that what was answered gets out, and others in, before the next;
 * what the daemon has to say comes through the relay meanwhile.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/thread.h>

#include "access.h"
#include "api.h"
#include "assets.h"
#include "conns.h"
#include "kprofd/nodes.h"
#include "kprofd/thread.h"
#include "listen.h"
#include "peer.h"
#include "relay.h"
#include "report/json.h"
#include "web.h"

#define HEADERS_MAX 8192	/* bytes */
#define BODY_MAX 1024
#define JOBS_MAX 48		/* that wait for the database */
#define UNSENT_MAX (64u << 20)	/* bytes of answers that nobody takes */
#define NICER 10
#define API "/api/v1/"

/* A question to the database that waits for its turn. */
struct job {
	struct job *next;
	struct evhttp_request *req;
	const struct api_route *route;	/* NULL: a tree */
	struct web_params p;
};

struct web {
	struct web_opts o;
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener;
	struct conns *conns;
	struct relays *relays;
	struct event *stop, *turn;
	struct job *first, **last;	/* what waits, in order */
	unsigned njobs;
	pthread_t thread;
	char token[WEB_TOKEN_MAX + 1];	/* "": none */
	char addr[WEB_ADDR_MAX];
};

/* ---- answers ---- */

static void
put_headers(struct evhttp_request *req, const char *type, bool asset)
{
	struct evkeyvalq *h = evhttp_request_get_output_headers(req);
	const char *const fixed[][2] = {
		{ "Content-Type", type },
		{ "Cache-Control", asset ? "no-cache" : "no-store" },
		{ "Content-Security-Policy", "default-src 'none'; script-src "
		    "'self'; style-src 'self'; img-src 'self' data:; "
		    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
		    "frame-ancestors 'none'" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "X-Frame-Options", "DENY" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Cross-Origin-Opener-Policy", "same-origin" },
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		evhttp_add_header(h, fixed[i][0], fixed[i][1]);
}

/* evhttp would send a body behind the headers that HEAD asks for. */
static void
finish(struct evhttp_request *req, int status, struct evbuffer *out)
{
	char length[24];

	if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD && out != NULL) {
		snprintf(length, sizeof(length), "%zu",
		    evbuffer_get_length(out));
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "Content-Length", length);
		evbuffer_drain(out, evbuffer_get_length(out));
	}
	evhttp_send_reply(req, status, NULL, out);
	if (out != NULL)
		evbuffer_free(out);
}

static void
reply(struct evhttp_request *req, int status, const void *p, size_t n)
{
	struct evbuffer *out = evbuffer_new();

	put_headers(req, "application/json", false);
	if (status == 401)
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "WWW-Authenticate", "Bearer");
	if (out != NULL)
		evbuffer_add(out, p, n);
	finish(req, status, out);
}

static void
reply_error(struct evhttp_request *req, int status, const char *text)
{
	struct api_answer a;

	kp_buf_init(&a.b, 1u << 16);
	api_error(&a, status, text);
	reply(req, status, a.b.p, a.b.len);
	kp_buf_free(&a.b);
}

static void
reply_asset(struct evhttp_request *req, const struct asset *a)
{
	struct evbuffer *out = evbuffer_new();

	put_headers(req, a->type, true);
	if (out != NULL)
		evbuffer_add_reference(out, a->p, a->n, NULL, NULL);
	finish(req, 200, out);
}

/* ---- what the daemon is asked ---- */

/* JSON as it came; words of another kind as a text in an object. */
static void
on_relayed(void *ctx, int status, const char *text, size_t n)
{
	struct evhttp_request *req = ctx;
	struct json j;
	struct kp_buf b;

	if (status == RELAY_NONE)
		status = 503;
	if (status == 200 && n > 0 && text[0] == '{') {
		reply(req, status, text, n);
		return;
	}
	kp_buf_init(&b, 16 * RELAY_BYTES_MAX);
	json_begin(&j, &b);
	json_object(&j, NULL);
	json_string_n(&j, status == 200 ? "done" : "error", text,
	    n > 0 && text[n - 1] == '\n' ? n - 1 : n);
	json_end(&j);
	kp_buf_u8(&b, '\n');
	reply(req, status, b.p, b.len);
	kp_buf_free(&b);
}

/* That none runs is what there is to say of it, and no failure. */
static void
on_status(void *ctx, int status, const char *text, size_t n)
{
	static const char none[] = "{\"running\":false}\n";

	if (status == RELAY_NONE)
		reply(ctx, 200, none, strlen(none));
	else
		on_relayed(ctx, status, text, n);
}

/* A POST's name is the daemon's word for it. */
static const struct {
	const char *name, *line;
	relay_fn *done;
	bool post;
	unsigned params;
} relayed[] = {
	{ "status", "status json", on_status, false, PARAM_NODE },
	{ "pause", "pause", on_relayed, true, PARAM_NODE },
	{ "resume", "resume", on_relayed, true, PARAM_NODE },
	{ "dump", "dump", on_relayed, true, 0 },
};
#define NRELAYED ((int)(sizeof(relayed) / sizeof(relayed[0])))

static int
relayed_find(const char *name)
{
	int i = 0;

	while (i < NRELAYED && strcmp(relayed[i].name, name) != 0)
		i++;
	return i < NRELAYED ? i : -1;
}

static void
ask_daemon(struct web *w, struct evhttp_request *req, int i,
    const struct web_params *p)
{
	char line[KP_NODE_NAME_MAX + 64];
	const char *node = p->range.node;

	if (node != NULL && (strlen(node) > KP_NODE_NAME_MAX ||
	    strpbrk(node, " \t\r\n") != NULL)) {
		reply_error(req, 400, "'node' is one name or glob here");
		return;
	}
	snprintf(line, sizeof(line), "%s%s%s", relayed[i].line,
	    node != NULL ? " node=" : "", node != NULL ? node : "");
	relay_ask(w->relays, line, relayed[i].done, req);
}

/* ---- questions ---- */

static void
method_wrong(struct evhttp_request *req, const char *allow)
{
	evhttp_add_header(evhttp_request_get_output_headers(req), "Allow",
	    allow);
	reply_error(req, 405, "the method is not allowed here");
}

static const char tree_name[] = "requests/";

/* Why it is not worth asking; NULL: it is. */
static const char *
job_vain(const struct web *w, const struct job *job)
{
	if (conns_gone(job->req))
		return "who asked has gone";
	if (conns_unsent(w->conns) > UNSENT_MAX)
		return "too many answers wait to be read: ask again later";
	return NULL;
}

static void
run_job(struct web *w, const struct job *job)
{
	const char *vain = job_vain(w, job);
	const char *name = evhttp_uri_get_path(
	    evhttp_request_get_evhttp_uri(job->req)) + strlen(API);
	struct api_answer a;

	if (vain != NULL) {
		conns_asked(w->conns, job->req);
		reply_error(job->req, 503, vain);
		return;
	}
	if (job->route != NULL)
		api_ask(&a, &w->o.dbs, job->route, &job->p);
	else
		api_tree(&a, &w->o.dbs, name + strlen(tree_name));
	conns_asked(w->conns, job->req);
	reply(job->req, a.status, a.b.p, a.b.len);
	kp_buf_free(&a.b);
}

static struct job *
take_job(struct web *w)
{
	struct job *job = w->first;

	w->first = job->next;
	if (w->first == NULL)
		w->last = &w->first;
	w->njobs--;
	return job;
}

/* By a timer: events that are active would all go before what can be read. */
static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
	const struct timeval now = { 0, 0 };
	struct web *w = ctx;
	struct job *job;

	(void)fd, (void)what;
	if (w->first == NULL)
		return;
	job = take_job(w);
	run_job(w, job);
	free(job);
	if (w->first != NULL)
		event_add(w->turn, &now);
}

/* Takes the job. */
static void
add_job(struct web *w, struct job *job)
{
	const struct timeval now = { 0, 0 };

	if (w->njobs == JOBS_MAX) {
		reply_error(job->req, 503, "too many questions at once: ask "
		    "again later");
		free(job);
		return;
	}
	conns_hold(w->conns, job->req);
	*w->last = job;
	w->last = &job->next;
	if (w->njobs++ == 0)
		event_add(w->turn, &now);
}

static void
on_question(struct web *w, struct evhttp_request *req,
    const struct api_route *route, int i, unsigned allowed)
{
	const char *query = evhttp_uri_get_query(
	    evhttp_request_get_evhttp_uri(req));
	struct job *job = calloc(1, sizeof(*job));
	char why[256];

	if (job == NULL) {
		reply_error(req, 503, "out of memory");
		return;
	}
	job->req = req;
	job->route = route;
	if (!web_params_parse(&job->p, query, allowed, kp_wall_now(), why,
	    sizeof(why))) {
		reply_error(req, 400, why);
	} else if (i >= 0) {
		ask_daemon(w, req, i, &job->p);
	} else {
		add_job(w, job);
		return;
	}
	free(job);
}

static void
on_api(struct web *w, struct evhttp_request *req, const char *name, bool post)
{
	const struct api_route *route = api_find(name);
	int i = route == NULL ? relayed_find(name) : -1;
	bool tree = strncmp(name, tree_name, strlen(tree_name)) == 0;
	unsigned allowed = 0;

	if (route == NULL && i < 0 && !tree) {
		reply_error(req, 404, "there is no such thing here (see "
		    "/openapi.json)");
		return;
	}
	if (post != (i >= 0 && relayed[i].post)) {
		method_wrong(req, post ? "GET, HEAD" : "POST");
		return;
	}
	if (!tree)
		allowed = route != NULL ? route->params : relayed[i].params;
	on_question(w, req, route, i, allowed);
}

static bool
refused(const struct web *w, struct evhttp_request *req, bool post, bool api)
{
	struct evkeyvalq *h = evhttp_request_get_input_headers(req);
	const char *token = w->token[0] != '\0' ? w->token : NULL;
	const struct web_asked asked = { .post = post, .api = api,
		.own = post && token == NULL && peer_is_ours(conns_fd(req)),
		.host = evhttp_find_header(h, "Host"),
		.origin = evhttp_find_header(h, "Origin"),
		.fetch_site = evhttp_find_header(h, "Sec-Fetch-Site"),
		.ours = evhttp_find_header(h, "X-Kprofd"),
		.authorization = evhttp_find_header(h, "Authorization") };
	enum web_verdict v = web_access(&asked, token);

	if (v != WEB_MAY)
		reply_error(req, v == WEB_NO_TOKEN ? 401 : 403,
		    web_access_why(v));
	return v != WEB_MAY;
}

/*
 * No question here has a body, and evhttp takes what lies behind a HEAD, or is
 * of an encoding that it does not know, for the next request.  A proxy before
 * it would not, and give that one's answer to somebody else: so where a body
 * is announced nothing more is read.
 */
static bool
has_body(struct evhttp_request *req)
{
	const struct evkeyvalq *h = evhttp_request_get_input_headers(req);
	static const char length[] = "Content-Length";
	static const char coding[] = "Transfer-Encoding";
	const struct evkeyval *kv;

	/* all of that name, and what is only nearly one: "Content-Length :" */
	for (kv = h->tqh_first; kv != NULL; kv = kv->next.tqe_next)
		if (strncasecmp(kv->key, coding, strlen(coding)) == 0 ||
		    (strncasecmp(kv->key, length, strlen(length)) == 0 &&
		    strcmp(kv->value, "0") != 0))
			return true;
	return false;
}

static void
on_request(struct evhttp_request *req, void *ctx)
{
	static const char healthy[] = "{\"ok\":true}\n";
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = uri != NULL ? evhttp_uri_get_path(uri) : NULL;
	bool post = evhttp_request_get_command(req) == EVHTTP_REQ_POST;
	struct web *w = ctx;
	struct asset a;
	bool api;

	conns_asked(w->conns, req);
	if (has_body(req))
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "Connection", "close");
	if (path == NULL) {
		reply_error(req, 400, "the path is not understood");
		return;
	}
	api = strncmp(path, API, strlen(API)) == 0;
	if (refused(w, req, post, api))
		return;
	if (api)
		on_api(w, req, path + strlen(API), post);
	else if (post)
		method_wrong(req, "GET, HEAD");
	else if (strcmp(path, "/healthz") == 0)
		reply(req, 200, healthy, strlen(healthy));
	else if (asset_find(path, &a))
		reply_asset(req, &a);
	else
		reply_error(req, 404, "there is no such page: the dashboard "
		    "is at /");
}

/* ---- beginning and ending ---- */

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

	/* of this thread alone, on Linux: events go first */
	setpriority(PRIO_PROCESS, 0, NICER);
	event_base_dispatch(w->base);
	return NULL;
}

static void
web_free(struct web *w)
{
	struct job *job;

	while (w->first != NULL) {
		job = take_job(w);
		reply_error(job->req, 503, "kprofd ends");
		free(job);
	}
	relays_free(w->relays);
	if (w->http != NULL)
		evhttp_free(w->http);
	conns_free(w->conns);
	if (w->stop != NULL)
		event_free(w->stop);
	if (w->turn != NULL)
		event_free(w->turn);
	if (w->base != NULL)
		event_base_free(w->base);
	explicit_bzero(w->token, sizeof(w->token));
	free(w);
}

static bool
make_server(struct web *w, evutil_socket_t fd)
{
	w->http = evhttp_new(w->base);
	w->listener = w->http == NULL ? NULL : evconnlistener_new(w->base,
	    NULL, NULL, LEV_OPT_CLOSE_ON_FREE, 0, fd);
	if (w->listener == NULL ||
	    evhttp_bind_listener(w->http, w->listener) == NULL)
		return false;
	evhttp_set_max_headers_size(w->http, HEADERS_MAX);
	evhttp_set_max_body_size(w->http, BODY_MAX);
	evhttp_set_allowed_methods(w->http,
	    EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST);
	evhttp_set_timeout(w->http, CONN_SILENCE);
	evhttp_set_gencb(w->http, on_request, w);
	w->conns = conns_new(w->base, w->http, w->listener);
	w->relays = relays_new(w->base, w->o.control);
	w->stop = event_new(w->base, -1, 0, on_stop, w);
	w->turn = evtimer_new(w->base, on_turn, w);
	return w->conns != NULL && w->relays != NULL && w->stop != NULL &&
	    w->turn != NULL;
}

enum kp_err
web_start(struct web **out, const struct web_opts *o, char *why, size_t n)
{
	struct web *w = calloc(1, sizeof(*w));
	enum kp_err err = KP_OK;
	evutil_socket_t fd;

	snprintf(why, n, "out of memory");
	if (w == NULL)
		return KP_ENOMEM;
	w->o = *o;
	w->last = &w->first;
	if (o->token_file != NULL)
		err = web_token_read(o->token_file, w->token, why, n);
	if (err == KP_OK)
		err = web_listen(&fd, o->addr, w->token[0] != '\0', w->addr,
		    why, n);
	if (err == KP_OK && (evthread_use_pthreads() != 0 ||
	    (w->base = event_base_new()) == NULL || !make_server(w, fd) ||
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
	event_active(w->stop, EV_TIMEOUT, 0);
	pthread_join(w->thread, NULL);
	web_free(w);
}
