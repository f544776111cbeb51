/*
 * counters.h - has a node count calls of functions, and reads the counters.  It
 * loads kprof_counters.erl there, which obeys commands, and leaves the node
 * with this connection.  Blocking, for the client.
 */
#ifndef KPROFD_PROFILE_NODE_COUNTERS_H
#define KPROFD_PROFILE_NODE_COUNTERS_H

#include "profile/node/injected.h"
#include "calls/counts.h"

struct counters_opts {
	struct injected_opts g;
	enum kp_counts_type type;
	bool by_process;
	bool list;		/* only name the functions: their rows are 0 */
	uint64_t max_rows;
};

struct counters;

/*
 * Connects, checks, and starts counting.  On error `why` is one line for the
 * user; KP_END: woken.  A call (-apply) is made by counters_go().
 */
enum kp_err counters_start(struct counters **c, const struct counters_opts *o,
    struct injected_hello *h, char *why, size_t n);
enum kp_err counters_go(struct counters *c);
/*
 * Waits, and renews the lease.  KP_ETIMEOUT at the deadline, KP_END when woken;
 * KP_OK when counting has ended by itself, with what there is to say about it
 * in text; after any other error text says why nothing can be read.
 */
enum kp_err counters_wait(struct counters *c, kp_mono_ns deadline,
    enum kp_calls_end *end, char *text, size_t n);
/*
 * Reads the counters into p, which is to be empty; pause: and stops counting.
 * KP_END when woken: the rest of this answer is skipped by the next reading.
 */
enum kp_err counters_read(struct counters *c, bool pause,
    struct kp_counts *p, char *why, size_t n);
/*
 * Counts from zero again, in a new stretch, for `span` (0: until a command).
 * Once counting has ended by itself this does nothing: the next reading is of
 * the same stretch as the last one.
 */
enum kp_err counters_continue(struct counters *c, kp_dur_ns span);
/* As injected_stop().  c may be NULL. */
bool counters_stop(struct counters *c, kp_dur_ns wait);

#endif
