/*
 * connections.h - where the web server listens, and the limits of its
 * connections: how many there are, and how long one may take to ask, or to take
 * its answer.
 */
#ifndef KPROFD_WEB_CONNECTIONS_H
#define KPROFD_WEB_CONNECTIONS_H

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/err.h"

#define WEB_ADDR_MAX 64

/*
 * A listening socket for "127.0.0.1:4711" or "[::1]:4711" (no names: those
 * may be anybody's).  Other than the loopback's only where `open`.  at: what
 * it became, of WEB_ADDR_MAX bytes.
 */
enum kp_err web_listen(evutil_socket_t *fd, const char *addr, bool open,
    char *at, char *why, size_t n);

#define CONNS_MAX 64		/* others wait in the kernel's queue, */
#define CROWD_SECONDS 5		/* until one has been idle for this time */
#define CONN_SECONDS 30		/* from one request to the next */
#define CONN_SILENCE 20		/* seconds in which it sends or takes nothing */

struct conns;

/* Of a server that has accepted nothing yet.  NULL when out of memory. */
struct conns *conns_new(struct event_base *base, struct evhttp *http,
    struct evconnlistener *listener);
/* After evhttp_free(). */
void conns_free(struct conns *cs);
/* A request has come whole: its connection has its time anew. */
void conns_asked(struct conns *cs, struct evhttp_request *req);
/* It waits for us, until conns_asked() again: that is not of its time. */
void conns_hold(struct conns *cs, struct evhttp_request *req);
/* The socket that it came by; -1: it has gone. */
int conns_fd(struct evhttp_request *req);
/* Who asked has gone, or sends nothing more. */
bool conns_gone(struct evhttp_request *req);
/* Bytes of answers that were not taken yet. */
size_t conns_unsent(const struct conns *cs);

#endif
