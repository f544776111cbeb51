/*
 * counters.h - has a node count calls of functions, and reads the counters:
 * kprof_counters.erl is loaded there, obeys commands, and is gone when this is.
 * Blocking, for the client.
 */
#ifndef KPROFD_PROFILE_TARGET_COUNTERS_H
#define KPROFD_PROFILE_TARGET_COUNTERS_H

#include "kprofd/profile.h"
#include "profile/target/injected.h"

struct counters_opts {
	struct injected_opts g;
	enum kp_profile_type type;
	bool by_process;
	bool list;		/* counts nothing: rows say which would be */
	uint64_t max_rows;
};

/* Why counting has come to its end before it was read. */
enum counters_end {
	COUNTERS_NOT,
	COUNTERS_RETURNED,	/* the call did */
	COUNTERS_RAISED,	/* the call: what, in text */
	COUNTERS_OVERRAN,	/* the call was stopped */
	COUNTERS_EXITED,	/* the call's process did: why, in text */
	COUNTERS_MEMORY,	/* the VM grew too much */
	COUNTERS_DISARMED,	/* a kprofd has gone, whose flags served */
	COUNTERS_GONE		/* nothing to read: why, in text */
};

struct counters;

/*
 * Connects, checks, arms.  On error `why` is one line for the user; KP_END:
 * woken.  A call is made by counters_go() only.
 */
enum kp_err counters_start(struct counters **c, const struct counters_opts *o,
    struct injected_hello *h, char *why, size_t n);
enum kp_err counters_go(struct counters *c);
/*
 * Waits, renewing the lease: KP_ETIMEOUT at the deadline, KP_END when woken,
 * KP_OK when counting ended by itself, with *end and a text; else why.
 */
enum kp_err counters_wait(struct counters *c, kp_mono_ns deadline,
    enum counters_end *end, char *text, size_t n);
/* In words, what COUNTERS_GONE and its text say. */
void counters_gone_text(const char *target, const char *text, char *why,
    size_t n);
/*
 * Adds what was counted to p, which is to be empty.  pause: nothing is counted
 * any more.  KP_END: woken; what is still to come of this reading is passed
 * over by the next one.
 */
enum kp_err counters_read(struct counters *c, bool pause,
    struct kp_profile *p, char *why, size_t n);
/*
 * Counts from nothing again, in another stretch, for so long (0: until it is
 * told); unless it has ended by itself:
 * then the next reading is of the same stretch as the last one.
 */
enum kp_err counters_continue(struct counters *c, kp_dur_ns span);
/* Takes everything back.  NULL is let pass. */
void counters_stop(struct counters *c);

#endif
