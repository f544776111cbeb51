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
#define WEB_LIMIT_MAX 5000	/* rows of a page */
#define WEB_CURSOR_MAX 6	/* numbers in a cursor: "12.-1.7" */
#define WEB_SECONDS 30		/* of a profile for pprof, as Go has it */
#define WEB_SECONDS_MAX 600

enum web_param {
	PARAM_SINCE = 1, PARAM_UNTIL = 2, PARAM_NODE = 4, PARAM_IDENTITY = 8,
	PARAM_TIER = 16, PARAM_STEP = 32, PARAM_LIMIT = 64, PARAM_OFFSET = 128,
	PARAM_SORT = 256, PARAM_WHAT = 512, PARAM_VERSUS = 1024,
	PARAM_OUTCOME = 2048, PARAM_TEXT = 4096, PARAM_BY = 8192,
	PARAM_AGAINST = 16384, PARAM_FORM = 32768, PARAM_FOR = 65536,
	PARAM_EVENTS = 131072, PARAM_CURSOR = 262144, PARAM_TOOK = 524288,
	PARAM_STACKS_FORM = 1048576, PARAM_SECONDS = 2097152, PARAM_TRACE = 4194304,
	PARAM_ALL = 2 * PARAM_TRACE - 1
};
#define PARAM_RANGE (PARAM_SINCE | PARAM_UNTIL | PARAM_NODE)

struct web_params {
	unsigned given;		/* of enum web_param */
	struct kp_query_range range;	/* points into text */
	struct timefmt_range versus;
	const char *tier, *sort, *mark;	/* NULL: not given */
	kp_dur_ns step, time;		/* 0: not given */
	size_t limit, offset, seconds, events;	/* events 0: not given */
	int what;			/* enum report_what */
	int against;			/* enum stacks_what */
	int form;			/* enum trace_form, or stacks_form */
	int64_t cursor[WEB_CURSOR_MAX];	/* what it holds, in lists' own order */
	size_t ncursor;
	const char *id;			/* of the path; set by the caller, */
	bool read_only;			/* as this: the client may only read */
	char text[2 * WEB_QUERY_MAX];	/* decoded */
	size_t len;
};

/*
 * query: what follows the '?', or NULL; allowed: of enum web_param.  False: `why`
 * says what is wrong.  limit is 100 and seconds is 30 if not given.
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

/* The kinds of errors: PROBLEM(name, HTTP's status, the code in the answer). */
#define WEB_PROBLEMS(PROBLEM)                                                 \
	PROBLEM(BAD_REQUEST, 400, "bad-request")                              \
	PROBLEM(BAD_PARAMETER, 400, "bad-parameter")                          \
	PROBLEM(TOO_LARGE, 400, "answer-too-large")                           \
	PROBLEM(NO_TOKEN, 401, "no-token")                                    \
	PROBLEM(WRONG_HOST, 403, "wrong-host")                                \
	PROBLEM(READ_ONLY, 403, "read-only-token")                            \
	PROBLEM(FOREIGN, 403, "foreign-page")                                 \
	PROBLEM(OTHER_USER, 403, "other-user")                                \
	PROBLEM(NO_PATH, 404, "no-such-path")                                 \
	PROBLEM(NO_NAME, 404, "no-such-name")                                 \
	PROBLEM(NOT_KEPT, 404, "not-kept")                                    \
	PROBLEM(METHOD, 405, "method-not-allowed")                            \
	PROBLEM(REFUSED, 409, "refused")                                      \
	PROBLEM(MOVED_ON, 410, "cursor-expired")                              \
	PROBLEM(BODY, 413, "body-too-large")                                  \
	PROBLEM(FAILED, 500, "database-error")                                \
	PROBLEM(UNKNOWN_METHOD, 501, "unknown-method")                        \
	PROBLEM(BUSY, 503, "busy")                                            \
	PROBLEM(TOO_SLOW, 503, "too-slow")                                    \
	PROBLEM(NO_DAEMON, 503, "no-kprofd")
enum web_problem {
#define PROBLEM_NAME(name, status, code) PROBLEM_##name,
	WEB_PROBLEMS(PROBLEM_NAME)
#undef PROBLEM_NAME
	PROBLEMS
};

struct api_answer {
	int status;		/* of HTTP; 200: b holds the answer */
	bool now;		/* it holds the time: no two are the same */
	const char *type;	/* NULL: JSON */
	struct kp_buf b;	/* the caller frees it, also after an error */
};

typedef enum kp_err api_fn(struct kp_query *q, const struct web_params *p,
    struct kp_buf *b);

/* What kprofd's answer to a command is for the client. */
enum daemon_answer {
	ANSWER_DONE,		/* JSON, or a text */
	ANSWER_STATUS,		/* likewise; that no kprofd runs is an answer, too */
	ANSWER_ACCEPTED,	/* what was asked for goes on, at another address */
	ANSWER_FOUND		/* kprofd refuses only what is not there */
};

/* An operation of the API: a method of a path.  A GET is also a HEAD. */
struct operation {
	const char *name;	/* behind /api/v1/; after a / follows p->id */
	bool post;
	unsigned params;	/* that it allows */
	api_fn *fn;		/* the database's answer; NULL: kprofd's, ... */
	const char *line;	/* ... to this control command */
	enum daemon_answer as;
};

/*
 * The one of this path and method; NULL: there is none.  *allow: the methods of the path,
 * as of the header Allow; NULL: there is no such path.
 */
const struct operation *operation_find(const char *name, bool post, bool read,
    const char **allow);

/*
 * Opens the databases, answers and closes them.  Setting *stop from another thread
 * interrupts it; NULL: only the time limit does.
 */
void api_ask(struct api_answer *a, const struct kp_query_files *dbs,
    const struct operation *op, const struct web_params *p,
    const atomic_bool *stop);
/* HTTP's own name of a status, which one of WEB_PROBLEMS has. */
const char *status_title(int status);
/* Replaces the answer by a problem (RFC 9457) with this detail. */
void api_error(struct api_answer *a, enum web_problem problem, const char *detail);

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
 *
 * There may be two tokens: with one of them a client may only read.
 */

#define WEB_TOKEN_MIN 16	/* bytes */
#define WEB_TOKEN_MAX 256

/* "": that one is not configured. */
struct web_tokens {
	char full[WEB_TOKEN_MAX + 1], read[WEB_TOKEN_MAX + 1];
};

/* What is known of a request; NULL: it has no such header. */
struct web_asked {
	bool post;	/* any method that is not for reading */
	bool api;
	bool own;	/* conns_peer_is_ours() */
	bool tls;
	const char *host, *origin, *fetch_site, *ours, *authorization;
};

enum web_verdict {
	WEB_MAY,
	WEB_MAY_READ,
	WEB_WRONG_HOST,		/* 403 */
	WEB_NO_TOKEN,		/* 401 */
	WEB_READ_ONLY,		/* 403 */
	WEB_FOREIGN,		/* 403 */
	WEB_OTHER_USER		/* 403 */
};

/* t: NULL where none is configured. */
enum web_verdict web_auth(const struct web_asked *a, const struct web_tokens *t);
/* Of one that is refused. */
enum web_problem web_auth_problem(enum web_verdict v, const char **why);

/* localhost, 127.x.y.z, [::1], with or without a port. */
bool web_host_is_loopback(const char *host);

/*
 * Each is the first line of a file that only its owner may read; path NULL: there is
 * none.  On error `why` says what is wrong, and what to do.
 */
enum kp_err web_tokens_read(struct web_tokens *t, const char *full,
    const char *read, char *why, size_t n);

/*
 * ---- connections.c: the web server's listening socket, encryption, and the limits
 * of its connections: their number, and how long one may take to send a request or
 * to receive its answer.
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
/*
 * Connections that come from now on are encrypted, with this certificate.  Any
 * thread may call it.  On error all stays as it was, and `why` is one line.
 */
enum kp_err conns_encrypt(struct conns *cs, const char *cert, const char *key,
    char *why, size_t n);
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
 * ---- reply.c: the web server's answers, all with the same security headers, and
 * compressed where the client takes gzip.
 */

/* Sends a copy of n bytes of JSON; from status 400 on it is a problem. */
void reply(struct evhttp_request *req, int status, const void *p, size_t n);
/* The same, of another content type. */
void reply_as(struct evhttp_request *req, int status, const char *type,
    const void *p, size_t n);
/*
 * Sends 200 with an ETag and n bytes of JSON; 304 without them, where If-None-Match
 * says that the client has these.
 */
void reply_tagged(struct evhttp_request *req, const void *p, size_t n);
/* Sends a problem with its status. */
void reply_error(struct evhttp_request *req, enum web_problem problem,
    const char *detail);
/*
 * evhttp answers by itself, with a page, what it does not understand.  Puts in its place
 * a problem of this status, and the header.
 */
void reply_instead(struct evbuffer *out, int status);
/* Sends a file of the page, such as "/app.js"; false: there is no such file. */
bool reply_asset(struct evhttp_request *req, const char *path);
/* Does this Accept-Encoding header name gzip?  NULL: no.  Pure. */
bool web_takes_gzip(const char *accept);

/*
 * ---- daemon_routes.c: the paths that the daemon answers: of the API, and /metrics.
 *
 * Besides the daemon's control socket and the database the web server shares nothing
 * with it: so it cannot slow the daemon down, and can serve a saved database.
 */

struct ctl_async;

/* problem: PROBLEMS: it is the answer; REFUSED by the daemon, BUSY or NO_DAEMON. */
typedef void ctl_fn(void *ctx, enum web_problem problem, const char *text, size_t n);

/* Borrows base, and path, the control socket.  NULL when out of memory. */
struct ctl_async *ctl_async_new(struct event_base *base, const char *path);
/* Closes the running windows, where stacks are sampled. */
void ctl_dump_stacks(struct ctl_async *all, ctl_fn *fn, void *ctx);
/* Answers the commands that wait. */
void ctl_async_free(struct ctl_async *all);

/* Asks the daemon, and answers req. */
void daemon_route_run(const struct operation *op, struct ctl_async *ctl,
    struct evhttp_request *req, const struct web_params *p);
/* Answers req with t and the daemon's metrics.  t: NULL in kprof web. */
void metrics_run(struct totals *t, struct ctl_async *ctl,
    struct evhttp_request *req);

#endif
