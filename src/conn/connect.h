/*
 * connect.h - runs node_connect() without blocking the event loop.
 */
#ifndef KPROFD_CONN_CONNECT_H
#define KPROFD_CONN_CONNECT_H

#include <event2/event.h>

#include "conn/handshake.h"

struct connect;

/*
 * Runs node_connect() on a thread of its own and calls done() in the event
 * loop: conn is set on KP_OK (its channel is the callee's), why otherwise.
 * Opts are copied, but for the strings of their reach.  NULL when no thread can
 * be started.
 */
struct connect *connect_start(struct event_base *base,
    const struct node_opts *opts,
    void (*done)(void *ctx, enum kp_err e, const struct node_conn *conn,
	const char *why), void *ctx);
/* done() is not called after this.  It may be called inside done(). */
void connect_free(struct connect *c);

#endif
