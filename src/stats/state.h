/* state.h - defines the state that stats.c, waits.c and window.c share. */
#ifndef KPROFD_STATS_STATE_H
#define KPROFD_STATS_STATE_H

#include "cells.h"
#include "inside.h"
#include "made.h"
#include "sched_gc.h"
#include "kprofd/stats.h"
#include "waits.h"

#define TIER_TOTAL 0			/* conf->tiers[t] is tier t + 1 */
#define TIERS (KP_TIER_MAX + 1)

struct kp_stats {
	const struct kp_conf *conf;
	const char *node;
	const struct kp_requests *rs;
	struct kp_stats *const *peers;	/* by node, or NULL */
	struct cells cells;
	struct waits waits;
	struct insides insides;
	uint64_t sampled;
	uint64_t counted[TIERS];	/* by the VM, since the last window */
	struct kp_losses losses;

	/* scratch, kept from request to request; each has cap elements */
	kp_dur_ns *self;
	kp_target_ns *reach;
	struct call_made *made;
	uint32_t *up;
	size_t cap;
	struct pause_sums pauses;
	bool has_gc;		/* measured on this node */
	struct sum *sums;	/* one for each node and one for all, or NULL */
};

#endif
