/*
 * conn.h - a connection to a node after the handshake: reads and writes frames in
 * the event loop, without blocking, and answers ticks.  Buffers are bounded.
 */
#ifndef KPROFD_CONN_CONN_H
#define KPROFD_CONN_CONN_H

#include <event2/event.h>

#include "conn/channel.h"
#include "kprofd/frame.h"

#define DIST_CONN_OUT_MAX (12u << 20)	/* bytes waiting to be sent: of one message 8 MiB */

struct dist_conn;

struct dist_conn_ops {
	/* One frame that is not a tick; the spans are good during the call. */
	void (*on_frame)(void *ctx, const struct kp_frame *f);
	/* A frame could not be read and was skipped.  May be NULL. */
	void (*on_bad_frame)(void *ctx);
	/*
	 * The connection is lost, for this reason.  Called once, never from
	 * inside dist_conn_send(); the owner then calls dist_conn_free().
	 */
	void (*on_down)(void *ctx, const char *why);
};

/* Takes the channel.  NULL when out of memory (it is then freed). */
struct dist_conn *dist_conn_new(struct event_base *base,
    struct channel *channel, const struct dist_conn_ops *ops, void *ctx);
/* Closes and frees; may be called from a callback. */
void dist_conn_free(struct dist_conn *c);
/* A whole frame, made by kp_frame_send() or kp_frame_reg_send(). */
void dist_conn_send(struct dist_conn *c, const struct kp_buf *frame);

#endif
