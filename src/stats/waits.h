/*
 * waits.h - keeps the running window's message waits, by receiver and type.
 */
#ifndef KPROFD_STATS_WAITS_H
#define KPROFD_STATS_WAITS_H

#include "kprofd/stats.h"
#include "base/map.h"

struct waits {
	struct kp_wait_cell *v;	/* owned, in the order of their addition */
	size_t n, room;
	struct map at;		/* receiver and type -> index into v */
};

void waits_free(struct waits *ws);
/* Sorts and hands over v; the caller frees it and its histograms. */
struct kp_wait_cell *waits_take(struct waits *ws);

#endif
