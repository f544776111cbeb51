/*
 * web.h - the HTTP server of the page and the API, on a thread of its own.
 *
 * It reads the database on connections of its own and asks the daemon through
 * the control socket.  It shares no memory and no lock with the daemon's event
 * loop, and has a lower priority.  So a slow query delays other queries, for five
 * seconds at most, and nothing else.
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

struct web_opts {
	const char *addr;	/* 127.0.0.1:4711, [::1]:4711; port 0: any */
	const char *token_file;	/* NULL: no token, the loopback only */
	/* the rest is borrowed, and outlives the server */
	struct kp_query_files dbs;
	const char *control;	/* the control socket; "": no daemon */
	struct totals *totals;	/* for /metrics; NULL: there is no such path */
};

struct web;

/*
 * Listens, and starts the thread.  On error `why` is one line for the user.
 * KP_EFORMAT: addr is not an address.
 */
enum kp_err web_start(struct web **out, const struct web_opts *o, char *why,
    size_t n);
/* The address it listens at, with its port: "127.0.0.1:4711". */
const char *web_addr(const struct web *w);
/* Ends the thread, interrupting a query. */
void web_stop(struct web *w);

#endif
