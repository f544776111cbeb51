/*
 * rpc.h - messages to a node: {OurPid, {call, M, F, Args, user}} to the process
 * that is registered as rex, which answers {rex, Result}; or any message to a
 * process that we talk to.
 */
#ifndef KPROFD_CONN_RPC_H
#define KPROFD_CONN_RPC_H

#include "kprofd/buf.h"
#include "kprofd/frame.h"

/* Bytes of a frame besides its message. */
#define DIST_FRAME_HEAD_MAX 4096

/* The pids of our process and of the one that we talk to, as raw terms. */
struct dist_ids {
	struct kp_buf self, peer;
};

/*
 * Opens {Self, {call, M, F, Args, user}} up to Args, which the caller
 * writes; then rpc_end() closes it.
 */
void rpc_begin(struct kp_buf *b, const struct dist_ids *ids, const char *mod,
    const char *fun);
void rpc_end(struct kp_buf *b);

/*
 * Makes the frame that takes a message to rex, or to the peer.  The caller frees
 * it, also when frame->err is set, as by message->err.
 */
void dist_frame(struct kp_buf *frame, const struct dist_ids *ids,
    const struct kp_buf *message, bool to_rex);

#endif
