/*
 * connections.h - the web server's listening socket, and the limits of its
 * connections: their number, and how long one may take to send a request or to
 * receive its answer.
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

#endif
