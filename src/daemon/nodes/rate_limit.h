/*
 * rate_limit.h - limits the notices about one target, in the log and among the
 * events, to RATE_LIMIT_BURST at once and RATE_LIMIT_A_SECOND over time.  Those
 * above the limit are only counted.
 */
#ifndef KPROFD_DAEMON_NODES_RATE_LIMIT_H
#define KPROFD_DAEMON_NODES_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define RATE_LIMIT_BURST 1000		/* modules of a reloaded release */
#define RATE_LIMIT_A_SECOND 2

/* All zeros to begin with. */
struct rate_limit {
	kp_mono_ns at;		/* counted up to here */
	uint32_t spent;		/* of RATE_LIMIT_BURST */
	uint64_t skipped;
};

/* May one more be written?  If not, it is counted. */
bool rate_limit_may(struct rate_limit *h, kp_mono_ns now);
/* How many were not, since the last call of this. */
uint64_t rate_limit_take(struct rate_limit *h);

#endif
