/* rex.c - writes the message that has a node's rex call a function. */
#include "dist/rex.h"
#include "kprofd/etf.h"

void
rex_begin(struct kp_buf *b, const struct dist_ids *ids, const char *mod,
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
rex_end(struct kp_buf *b)
{
	kp_etf_atom(b, "user");
}
