/*
 * backoff.h - computes the wait before another attempt: 0.5 s after the first
 * failure, twice as long after each further one, 30 s at most.  A success that
 * lasts as long as the last wait resets it to 0.5 s; a shorter one does not.
 *
 * There is no jitter: a node has one kprofd, so no two of them wait in step.
 */
#ifndef KPROFD_BACKOFF_H
#define KPROFD_BACKOFF_H

#include "kprofd/clock.h"

/* All zero: nothing has failed yet. */
struct kp_backoff {
	kp_dur_ns last;
	kp_mono_ns since;	/* start of the success; 0: failed */
};

/* Reports a success.  Further calls while it lasts change nothing. */
void kp_backoff_works(struct kp_backoff *b, kp_mono_ns now);
/* Reports a failure, and returns the time to wait. */
kp_dur_ns kp_backoff_next(struct kp_backoff *b, kp_mono_ns now);

#endif
