/*
 * rex.h - remote calls: {OurPid, {call, M, F, Args, user}} to the process that
 * is registered as rex, {rex, Result} from it.
 */
#ifndef KPROFD_DIST_REX_H
#define KPROFD_DIST_REX_H

#include "kprofd/buf.h"

/* Our process, and the one in the node that we talk to, as raw terms. */
struct dist_ids {
	struct kp_buf self, peer;
};

/*
 * Opens {Self, {call, M, F, Args, user}} up to Args, which the caller
 * writes; then rex_end() closes it.
 */
void rex_begin(struct kp_buf *b, const struct dist_ids *ids, const char *mod,
    const char *fun);
void rex_end(struct kp_buf *b);

#endif
