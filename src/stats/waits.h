/*
 * waits.h - the running window's waits of messages, by receiver and identity.
 */
#ifndef KPROFD_STATS_WAITS_H
#define KPROFD_STATS_WAITS_H

#include "kprofd/stats.h"
#include "base/map.h"

struct waits {
	struct kp_wait_cell *v;	/* owned, in the order they were met */
	size_t n, room;
	struct map at;		/* receiver and identity -> index into v */
};

void waits_free(struct waits *ws);
/* Sorts them, hands over v (freed by the caller, as are its histograms). */
struct kp_wait_cell *waits_take(struct waits *ws);

#endif
