/* mail_sum.h - how long messages waited for each process of one request. */
#ifndef KPROFD_DAEMON_TARGET_MAIL_SUM_H
#define KPROFD_DAEMON_TARGET_MAIL_SUM_H

#include "kprofd/request.h"
#include "store/store.h"

/* Those that were waited for longest, in that order. */
struct mail_sums {
	uint32_t n;
	struct {
		struct kp_wait of;	/* any one of them */
		uint64_t messages, away;
		kp_dur_ns wait, max;
	} v[KP_TREE_WAITS];
};

void mail_sum(const struct kp_wait *w, uint32_t n, struct mail_sums *out);

#endif
