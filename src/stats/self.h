/* self.h - self times without allocating; see self.c. */
#ifndef KPROFD_STATS_SELF_H
#define KPROFD_STATS_SELF_H

#include <stdbool.h>

#include "kprofd/request.h"

/* Has this outcome a duration that may be counted? */
static inline bool
outcome_timed(uint8_t outcome)
{
	return outcome == KP_RETURNED || outcome == KP_RAISED;
}

/* self and reach have room for rq->ncalls each; reach is scratch. */
void request_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach);

#endif
