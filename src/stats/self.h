/* self.h - computes self times, without allocating; self.c has the rules. */
#ifndef KPROFD_STATS_SELF_H
#define KPROFD_STATS_SELF_H

#include <stdbool.h>

#include "kprofd/request.h"

typedef void request_wait_fn(void *ctx, uint32_t call, kp_target_ns from,
    kp_target_ns to);

/*
 * Calls fn for each span in which a call waited for others of the request.  The
 * spans of one call do not overlap, and are in order of time.  self is that of
 * request_self(); reach is scratch.
 */
void request_waits(const struct kp_request *rq, const kp_dur_ns *self,
    kp_target_ns *reach, request_wait_fn *fn, void *ctx);
/* self and reach have room for rq->ncalls each; reach is scratch. */
void request_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach);

#endif
