/*
 * sync.h - a connection to one node without an event loop, for the client, which
 * asks, waits for the answer and ends.  It blocks, with a deadline for every wait.
 */
#ifndef KPROFD_CONN_SYNC_H
#define KPROFD_CONN_SYNC_H

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/term.h"
#include "conn/reach.h"
#include "conn/rpc.h"

struct dist_sync_opts {
	const char *target;
	const struct reach *reach;	/* NULL: all its defaults */
	int wake;	/* a wait ends when this can be read; -1: none */
};

struct dist_sync;

/* Connects.  On error `why` is one line for the user. */
enum kp_err dist_sync_open(struct dist_sync **t, const struct dist_sync_opts *o,
    char *why, size_t n);
/* Closes the connection.  t may be NULL. */
void dist_sync_close(struct dist_sync *t);

/*
 * To poll with others, once dist_sync_next() had nothing more: what it holds itself
 * by then, the descriptor does not announce.
 */
int dist_sync_fd(const struct dist_sync *t);
/* The doubt of its channel: say it, the node may be another. */
const char *dist_sync_doubt(const struct dist_sync *t);
/* Our node's name. */
const char *dist_sync_name(const struct dist_sync *t);
/* Our pid; peer: the process that dist_sync_send() sends to, set by the caller. */
struct dist_ids *dist_sync_ids(struct dist_sync *t);

/* Sends a message to rex, or to the peer.  KP_EIO if that fails. */
enum kp_err dist_sync_rpc(struct dist_sync *t, const struct kp_buf *msg);
enum kp_err dist_sync_send(struct dist_sync *t, const struct kp_buf *msg);

/*
 * The next message for us; r is good until the next call.  KP_ETIMEOUT at
 * the deadline, KP_END when woken, KP_EIO when the connection is over,
 * KP_ELIMIT when the node sends what is too large.
 */
enum kp_err dist_sync_next(struct dist_sync *t, kp_mono_ns deadline,
    struct kp_term *r);
/* The next {rex, Answer}; r is at the answer.  Passes over other messages. */
enum kp_err dist_sync_answer(struct dist_sync *t, kp_mono_ns deadline,
    struct kp_term *r);

#endif
