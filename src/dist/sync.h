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
#include "target/agent_msg.h"

struct talk_opts {
	const char *target;
	const char *name, *cookie_file;	/* may be NULL (handshake.h) */
	int wake;	/* when this can be read a wait ends; -1: none */
};

struct talk;

/* Connects.  On error `why` is one line for the user. */
enum kp_err talk_open(struct talk **t, const struct talk_opts *o, char *why,
    size_t n);
/* The node is told by the connection's end.  NULL is let pass. */
void talk_close(struct talk *t);

/* Readable when something has come that talk_next() did not take yet. */
int talk_fd(const struct talk *t);
/* Our node's name. */
const char *talk_name(const struct talk *t);
/* self is ours; agent the process that talk_send() speaks to. */
struct agent_ids *talk_ids(struct talk *t);

/* A message to rex, or to the agent: KP_EIO when it does not go. */
enum kp_err talk_rex(struct talk *t, const struct kp_buf *msg);
enum kp_err talk_send(struct talk *t, const struct kp_buf *msg);

/*
 * The next message for us; r is good until the next call.  KP_ETIMEOUT at
 * the deadline, KP_END when woken, KP_EIO when the connection is over,
 * KP_ELIMIT when the node sends what is too large.
 */
enum kp_err talk_next(struct talk *t, kp_mono_ns deadline,
    struct kp_term *r);

#endif
