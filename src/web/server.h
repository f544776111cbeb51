/*
 * server.h - what the files of the web server give each other; web.h starts it.
 */
#ifndef KPROFD_WEB_SERVER_H
#define KPROFD_WEB_SERVER_H

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "export/totals.h"
#include "kprofd/buf.h"
#include "store/query.h"
#include "text/timefmt.h"

/*
 * ---- params.c: parses the query of a request's URL.  Pure.
 *
 * The query is untrusted: a parameter that is unknown, repeated, malformed or out
 * of range is refused with a reason, never guessed at.
 */

#define WEB_QUERY_MAX 4096	/* bytes behind the '?' */
#define WEB_LIMIT_MAX 1000	/* rows of a page */

enum web_param {
	PARAM_SINCE = 1, PARAM_UNTIL = 2, PARAM_NODE = 4, PARAM_IDENTITY = 8,
	PARAM_TIER = 16, PARAM_STEP = 32, PARAM_LIMIT = 64, PARAM_OFFSET = 128,
	PARAM_SORT = 256, PARAM_WHAT = 512, PARAM_VERSUS = 1024,
	PARAM_OUTCOME = 2048
};
#define PARAM_RANGE (PARAM_SINCE | PARAM_UNTIL | PARAM_NODE)

struct web_params {
	unsigned given;		/* of enum web_param */
	struct kp_query_range range;	/* points into text */
	struct timefmt_range versus;
	const char *tier, *sort;	/* NULL: not given */
	kp_dur_ns step;			/* 0: not given */
	size_t limit, offset;
	int what;			/* enum report_what */
	const char *id;			/* of the path; set by the caller */
	char text[2 * WEB_QUERY_MAX];	/* decoded */
	size_t len;
};

/*
 * query: what follows the '?', or NULL; allowed: of enum web_param.  False: `why`
 * says what is wrong.  limit is 100 if not given.
 */
bool web_params_parse(struct web_params *p, const char *query,
    unsigned allowed, kp_wall_ns now, char *why, size_t n);

/*
 * ---- api.c: the part of the HTTP API that is answered from a database, as JSON.
 *
 * The answers are written by the code that `kprof` prints with.  Each request opens
 * a kp_query of its own, so that nothing stays open between them.
 */

#define API_OUTPUT_MAX (64u << 20)	/* bytes of one answer */

struct api_answer {
	int status;		/* of HTTP; 200: b holds the answer */
	struct kp_buf b;	/* the caller frees it, also after an error */
};

typedef enum kp_err api_fn(struct kp_query *q, const struct web_params *p,
    struct kp_buf *b);

struct api_route {
	const char *name;	/* behind /api/v1/; after a / follows p->id */
	unsigned params;	/* that it allows */
	api_fn *fn;
};

/* NULL: there is none. */
const struct api_route *api_find(const char *name);

/*
 * Opens the databases, answers and closes them.  Setting *stop from another thread
 * interrupts it; NULL: only the time limit does.
 */
void api_ask(struct api_answer *a, const struct kp_query_files *dbs,
    const struct api_route *route, const struct web_params *p,
    const atomic_bool *stop);
/* Replaces the answer by {"error": TEXT}. */
void api_error(struct api_answer *a, int status, const char *text);

/*
 * ---- auth.c: decides which requests are allowed.  Pure.
 *
 * Without a token the server is on the loopback only, and these checks protect it
 * from a web page that the user's browser has open.  The Host header has to name
 * a loopback address, against DNS rebinding.  A request that changes anything has
 * to come from our own page, by the browser's Origin and Sec-Fetch-Site and by a
 * header that other sites cannot send without a CORS preflight.  Another site's
 * page cannot read an answer, but could keep the server busy: a request that the
 * browser marks as another site's is refused too.  Programs of other users of
 * the machine can send any header: they may read, but not change anything.
 */

#define WEB_TOKEN_MIN 16	/* bytes */
#define WEB_TOKEN_MAX 256

/* What is known of a request; NULL: it has no such header. */
struct web_asked {
	bool post, api;
	bool own;	/* conns_peer_is_ours() */
	const char *host, *origin, *fetch_site, *ours, *authorization;
};

enum web_verdict {
	WEB_MAY,
	WEB_WRONG_HOST,		/* 403 */
	WEB_NO_TOKEN,		/* 401 */
	WEB_FOREIGN,		/* 403 */
	WEB_OTHER_USER		/* 403 */
};

/* token: NULL where none is configured. */
enum web_verdict web_auth(const struct web_asked *a, const char *token);
const char *web_auth_why(enum web_verdict v);

/* localhost, 127.x.y.z, [::1], with or without a port. */
bool web_host_is_loopback(const char *host);

/*
 * Reads the first line of a file that only its owner may read.  On error `why`
 * says what is wrong, and what to do.
 */
enum kp_err web_token_read(const char *path, char token[WEB_TOKEN_MAX + 1],
    char *why, size_t n);

/*
 * ---- connections.c: the web server's listening socket, and the limits of its
 * connections: their number, and how long one may take to send a request or to
 * receive its answer.
 */

#define WEB_ADDR_MAX 64

/*
 * Opens a listening socket for "127.0.0.1:4711" or "[::1]:4711"; names are not
 * resolved.  Only with `open` may addr be other than the loopback's.  at: the
 * address with its port, in WEB_ADDR_MAX bytes.
 */
enum kp_err web_listen(evutil_socket_t *fd, const char *addr, bool open,
    char *at, char *why, size_t n);

#define CONNS_USUAL 64		/* of more, those are closed that are idle longest */
#define CONNS_MAX 256		/* further ones wait in the kernel's queue */
#define CONN_SECONDS 30		/* from one request to the next */
#define CONN_SILENCE 20		/* seconds without a byte either way */

struct conns;

/* Before the server accepts anything.  NULL when out of memory. */
struct conns *conns_new(struct event_base *base, struct evhttp *http,
    struct evconnlistener *listener);
/* After evhttp_free(). */
void conns_free(struct conns *cs);
/* Call this when a request is complete: restarts its connection's time limit. */
void conns_asked(struct conns *cs, struct evhttp_request *req);
/* Suspends the limits while the request waits, until conns_asked(). */
void conns_hold(struct conns *cs, struct evhttp_request *req);
/*
 * Is the client on this machine, and run by our user or by root?  Any local
 * process reaches the loopback and can send a browser's headers; but the control
 * socket is its owner's alone, so what the daemon does for a web client has to be
 * for its owner alone, too.  False also if it is not known.
 */
bool conns_peer_is_ours(struct evhttp_request *req);
/* Has the client closed the connection, or its sending side? */
bool conns_gone(struct evhttp_request *req);
/* Bytes of answers that clients have not received yet. */
size_t conns_unsent(const struct conns *cs);

/*
 * ---- reply.c: the web server's answers, all with the same security headers.
 */

/* Sends a copy of n bytes of JSON. */
void reply(struct evhttp_request *req, int status, const void *p, size_t n);
/* The same, of another content type. */
void reply_as(struct evhttp_request *req, int status, const char *type,
    const void *p, size_t n);
/* Sends {"error": TEXT}. */
void reply_error(struct evhttp_request *req, int status, const char *text);
/* Sends a file of the page, such as "/app.js"; false: there is no such file. */
bool reply_asset(struct evhttp_request *req, const char *path);

/*
 * ---- daemon_routes.c: the paths that the daemon answers: of the API, and /metrics.
 *
 * Besides the daemon's control socket and the database the web server shares nothing
 * with it: so it cannot slow the daemon down, and can serve a saved database.
 */

struct ctl_async;

/* status: 200, 409 refused by the daemon, 503 too slow or too many at once. */
typedef void ctl_fn(void *ctx, int status, const char *text, size_t n);

/* Borrows base, and path, the control socket.  NULL when out of memory. */
struct ctl_async *ctl_async_new(struct event_base *base, const char *path);
/* Answers the commands that wait. */
void ctl_async_free(struct ctl_async *all);

struct daemon_route {
	const char *name;	/* behind /api/v1/ */
	const char *line;	/* the control command */
	ctl_fn *done;		/* whose ctx is the request */
	bool post;
	unsigned params;
};

/* NULL: there is none. */
const struct daemon_route *daemon_route_find(const char *name);
/* Asks the daemon, and answers req. */
void daemon_route_run(const struct daemon_route *route, struct ctl_async *ctl,
    struct evhttp_request *req, const struct web_params *p);
/* Answers req with t and the daemon's metrics.  t: NULL in kprof web. */
void metrics_run(struct totals *t, struct ctl_async *ctl,
    struct evhttp_request *req);

#endif
