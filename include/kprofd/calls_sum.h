/*
 * calls_sum.h - adds up a full trace: calls, accumulated and own time of every
 * function, by process and by caller; and the same as a call tree of
 * each process.  Pure.
 *
 * The stack of each process is simulated by fprof's rules, so that the
 * figures are those that fprof gives for the same events:
 *   - own time is what passes while a function is on top; accumulated time,
 *     what passes from its call to its return.  A function that is on the
 *     stack several times is charged accumulated time once, for its outermost
 *     call.
 *   - `suspend` is called by the function scheduled out, `garbage_collect` by
 *     the one it interrupts; suspend has no own time.  `undefined` stands for
 *     an unknown function, such as the caller of a process's first function.
 *   - a function that is called in a tail position is taken for called by
 *     the one whose place it takes; a cycle of such calls that has come round
 *     twice is the same as if it had come round once.
 *
 * Of a trace by request only what happens within the functions traced has
 * time: a process that is back in what called the first of them does nothing
 * for the request, as far as can be known, until the next call; nor does one
 * that waits when the call that the request began with has returned.
 *
 * An event that cannot follow those before, of a process whose events were
 * not all seen, is counted in `odd`; the stack is put right as far as can be.
 */
#ifndef KPROFD_CALLS_SUM_H
#define KPROFD_CALLS_SUM_H

#include "kprofd/calls.h"

#define KP_CALLS_CLOCKS_MAX (1u << 22)	/* rows: process, caller, function */
#define KP_CALLS_PATHS_MAX (1u << 22)	/* nodes of all call trees */
#define KP_CALLS_FRAMES_MAX (1u << 22)	/* of all stacks together */
/* Deeper calls are those of the node at this depth. */
#define KP_CALLS_DEPTH_MAX 512u

#define KP_PATH_NONE UINT32_MAX

struct kp_calls_opts {
	/* A process's clock stands still while it is scheduled out. */
	bool cpu;
	/* Call trees are kept. */
	bool paths;
	/*
	 * With paths: called with the time that each process was in each place,
	 * in order for each process; NULL: not.
	 */
	void (*slice)(void *ctx, uint32_t proc, uint32_t path,
	    kp_target_ns from, kp_target_ns to);
	/*
	 * Clocks count only while such a function is on the process's stack,
	 * its own call included; NULL: always.  Call trees have all.
	 */
	bool (*inside)(void *ctx, uint32_t fn);
	void *ctx;
};

struct kp_calls_clock {
	uint32_t proc, caller, fn;
	uint64_t calls;
	kp_dur_ns acc, own;
};

/*
 * A node of a call tree: its parent is before it; a process's root has none,
 * and no time.  A function that calls itself stays in its node.
 */
struct kp_calls_path {
	uint32_t parent, proc, fn, depth;
	uint64_t calls;
	kp_dur_ns own;		/* of suspend and garbage_collect too */
	/* Of a trace with arguments: those of all its calls, if the same. */
	struct kp_span args;
	bool args_vary;
};

#define KP_CALLS_FIRST 2	/* calls by which a process is known */

struct kp_calls_proc {
	bool seen;		/* any event of it */
	bool spawned;		/* its beginning was seen: */
	uint32_t parent, spawned_as;
	uint32_t first[KP_CALLS_FIRST], nfirst;
};

/* To be read; changed by the functions below only. */
struct kp_calls_sum {
	struct kp_calls_opts opts;
	struct kp_calls_clock *clocks;
	struct kp_calls_path *paths;
	struct kp_calls_proc *procs;
	uint32_t nclocks, npaths, nprocs;
	kp_target_ns first, last;	/* of all events */
	uint64_t events;
	uint64_t odd;
	uint64_t overflow;	/* what did not fit into a limit */
	struct kp_calls_state *state;	/* private; NULL after the end */
};

/* NULL when out of memory. */
struct kp_calls_sum *kp_calls_sum_new(const struct kp_calls_opts *o);
void kp_calls_sum_free(struct kp_calls_sum *s);
/* KP_OK or KP_ENOMEM, which sticks.  Arguments, if any, are to stay. */
enum kp_err kp_calls_sum_add(struct kp_calls_sum *s,
    const struct kp_call_event *ev);
/* That a process works for now; 0: none, or all that it does is looked at. */
uint32_t kp_calls_sum_request(const struct kp_calls_sum *s, uint32_t proc);
/* All stacks end with the last event, as if the processes did. */
enum kp_err kp_calls_sum_end(struct kp_calls_sum *s);

#endif
