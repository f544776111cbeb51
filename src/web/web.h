/*
 * web.h - the HTTP server of the page and the API, on two threads of its own.
 *
 * It reads the database on connections of its own and asks the daemon through
 * the control socket.  It shares no memory and no lock with the daemon's event
 * loop, and has a lower priority.  So a slow query delays other queries, for a
 * minute at most, and nothing else.
 *
 * Requests are bounded: 8 KiB of headers, 1 KiB of body, CONNS_MAX
 * connections, CONN_SECONDS for each.
 */
#ifndef KPROFD_WEB_WEB_H
#define KPROFD_WEB_WEB_H

#include "kprofd/err.h"
#include "store/query.h"

#include <stddef.h>

/* kprof web's default; 4711 may be a kprofd's */
#define WEB_ADDR_DEFAULT "127.0.0.1:4712"

struct totals;

/* Options of kprofd and of kprof web; o is a struct web_opts. */
#define WEB_OPTIONS(o) \
	{ "http-token-file", "FILE", "with -http: clients need this token; then " \
	    "ADDR may be any", opt_text, &(o).token_file, NULL }, \
	{ "http-read-token-file", "FILE", "with -http: this token is enough to " \
	    "read, not to pause, dump or mark", opt_text, \
	    &(o).read_token_file, NULL }, \
	{ "http-tls-cert", "FILE", "with -http: https, with this certificate, " \
	    "PEM", opt_text, &(o).tls_cert, NULL }, \
	{ "http-tls-key", "FILE", "the key of -http-tls-cert, PEM", opt_text, \
	    &(o).tls_key, NULL }

struct web_opts {
	const char *addr;	/* 127.0.0.1:4711, [::1]:4711; port 0: any */
	const char *token_file;	/* both NULL: no token, the loopback only */
	const char *read_token_file;	/* of one that may only read */
	const char *tls_cert, *tls_key;	/* PEM files; NULL: no encryption */
	/* the rest is borrowed, and outlives the server */
	struct kp_query_files dbs;
	const char *control;	/* the control socket; "": no daemon */
	struct totals *totals;	/* for /metrics; NULL: there is no such path */
};

struct web;

/* What is wrong with the options together; NULL: nothing. */
const char *web_opts_wrong(const struct web_opts *o);

/*
 * Listens, and starts the threads.  On error `why` is one line for the user.
 * KP_EFORMAT: addr is not an address.
 */
enum kp_err web_start(struct web **out, const struct web_opts *o, char *why,
    size_t n);
/* Where the page is: "https://127.0.0.1:4711/". */
const char *web_url(const struct web *w);
/*
 * Reads the certificate again, for connections that come from now on.  On error
 * the old one stays, and `why` is one line for the user.
 */
enum kp_err web_reload(struct web *w, char *why, size_t n);
/* Ends the threads, interrupting a query. */
void web_stop(struct web *w);

#endif
