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

/*
 * Connects, checks, and starts counting, as injected_start(); injected_stop() ends it.
 * A call (-apply) is made by the command "go".
 */
enum kp_err counters_start(struct injected **c, const struct counters_opts *o,
    struct injected_hello *h, char *why, size_t n);
/*
 * Waits, and renews the lease.  KP_ETIMEOUT at the deadline, KP_END when woken;
 * KP_OK when counting has ended by itself, of which c has the end and the text;
 * after any other error `why` says why nothing can be read.
 */
enum kp_err counters_wait(struct injected *c, kp_mono_ns deadline, char *why,
    size_t n);
/*
 * Reads the counters into p, which is to be empty; pause: and stops counting.
 * KP_END when woken: the rest of this answer is skipped by the next reading.
 */
enum kp_err counters_read(struct injected *c, bool pause,
    struct kp_counts *p, char *why, size_t n);
/*
 * Counts from zero again, in a new stretch, for `span` (0: until a command).
 * Once counting has ended by itself this does nothing: the next reading is of
 * the same stretch as the last one.
 */
enum kp_err counters_continue(struct injected *c, kp_dur_ns span);

#endif
