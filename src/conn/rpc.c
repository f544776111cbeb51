/* rpc.c - writes messages to a node's rex or to a process there. */
#include "conn/rpc.h"
#include "kprofd/etf.h"

void
rpc_begin(struct kp_buf *b, const struct dist_ids *ids, const char *mod,
    const char *fun)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 2);
	kp_buf_put(b, ids->self.p, ids->self.len);
	kp_etf_tuple(b, 5);
	kp_etf_atom(b, "call");
	kp_etf_atom(b, mod);
	kp_etf_atom(b, fun);
}

void
rpc_end(struct kp_buf *b)
{
	kp_etf_atom(b, "user");
}

static struct kp_span
span(const struct kp_buf *b)
{
	return (struct kp_span){ b->p, (uint32_t)b->len };
}

void
dist_frame(struct kp_buf *frame, const struct dist_ids *ids,
    const struct kp_buf *message, bool to_rex)
{
	kp_buf_init(frame, message->len + DIST_FRAME_HEAD_MAX);
	if (message->err != KP_OK)
		frame->err = message->err;
	else if (to_rex)
		kp_frame_reg_send(frame, span(&ids->self), "rex", message->p,
		    message->len);
	else
		kp_frame_send(frame, span(&ids->peer), message->p, message->len);
}
