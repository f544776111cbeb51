/*
 * backoff.h - how long to wait before trying again what has failed: 0.5 s, and
 * twice as long each time, to at most 30 s.  What worked for as long as was
 * last waited for begins anew; what works and fails at once does not.
 *
 * Without jitter: a node has one kprofd, so none wait in step for one thing.
 */
#ifndef KPROFD_BACKOFF_H
#define KPROFD_BACKOFF_H

#include "kprofd/clock.h"

/* All zero: nothing has failed yet. */
struct kp_backoff {
	kp_dur_ns last;
	kp_mono_ns since;	/* works since then; 0: it does not */
};

/* It works; said again, it works still. */
void kp_backoff_works(struct kp_backoff *b, kp_mono_ns now);
/* It has failed (again): returns for how long to wait. */
kp_dur_ns kp_backoff_next(struct kp_backoff *b, kp_mono_ns now);

#endif
