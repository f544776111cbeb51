/*
 * sync.h - a conversation with one node, without an event loop: for the
 * client, which asks, waits for the answer and leaves.  Blocking, with a
 * deadline for every wait.
 */
#ifndef KPROFD_DIST_SYNC_H
#define KPROFD_DIST_SYNC_H

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/term.h"
#include "dist/rex.h"

struct dist_sync_opts {
	const char *target;
	const char *name, *cookie_file;	/* may be NULL (dist/handshake.h) */
	int wake;	/* when this can be read a wait ends; -1: none */
};

struct dist_sync;

/* Connects.  On error `why` is one line for the user. */
enum kp_err dist_sync_open(struct dist_sync **t, const struct dist_sync_opts *o, char *why,
    size_t n);
/* The node is told by the connection's end.  NULL is let pass. */
void dist_sync_close(struct dist_sync *t);

/* Readable when something has come that dist_sync_next() did not take yet. */
int dist_sync_fd(const struct dist_sync *t);
/* Our node's name. */
const char *dist_sync_name(const struct dist_sync *t);
/* self is ours; agent the process that dist_sync_send() speaks to. */
struct dist_ids *dist_sync_ids(struct dist_sync *t);

/* A message to rex, or to the agent: KP_EIO when it does not go. */
enum kp_err dist_sync_rex(struct dist_sync *t, const struct kp_buf *msg);
enum kp_err dist_sync_send(struct dist_sync *t, const struct kp_buf *msg);

/*
 * The next message for us; r is good until the next call.  KP_ETIMEOUT at
 * the deadline, KP_END when woken, KP_EIO when the connection is over,
 * KP_ELIMIT when the node sends what is too large.
 */
enum kp_err dist_sync_next(struct dist_sync *t, kp_mono_ns deadline,
    struct kp_term *r);

#endif
