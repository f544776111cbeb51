/*
 * call_sum.h - adds up a full trace: calls, accumulated and own time of every
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
 *   - a function that is called in a tail position counts as called by the
 *     one that it replaces; a cycle of such calls that has come round twice
 *     counts once.
 *
 * In a trace by request only time within the traced functions counts.  A process
 * that has returned from the first of them does nothing for the request, as far
 * as can be known, until its next call; nor does a process that waits when the
 * call that began the request has returned.
 *
 * An event that cannot follow the ones before it is counted in `odd`: events of
 * its process are missing.  The stack is repaired as far as possible.
 */
#ifndef KPROFD_CALLS_CALL_SUM_H
#define KPROFD_CALLS_CALL_SUM_H

#include "calls/call_trace.h"

#define KP_CALLS_CLOCKS_MAX (1u << 22)	/* rows: process, caller, function */
#define KP_CALLS_PATHS_MAX (1u << 22)	/* nodes of all call trees */
#define KP_CALLS_FRAMES_MAX (1u << 22)	/* of all stacks together */
/* Deeper calls are added to the node at this depth. */
#define KP_CALLS_DEPTH_MAX 512u

#define KP_PATH_NONE UINT32_MAX

struct kp_calls_opts {
	/* Stop a process's clock while it is scheduled out. */
	bool cpu;
	/* Make call trees. */
	bool paths;
	/*
	 * With paths: called for each stretch of time that a process spent in one
	 * place, in order for each process; or NULL.
	 */
	void (*slice)(void *ctx, uint32_t proc, uint32_t path,
	    kp_target_ns from, kp_target_ns to);
	/*
	 * Count only while such a function is on the process's stack, its own
	 * call included; NULL: always.  Call trees have everything.
	 */
	bool (*inside)(void *ctx, uint32_t fn);
	void *ctx;
};

/*
 * What a function took when one caller called it in one process: a row of fprof's
 * analysis.  Not the clock of a node (trace_file.h).
 */
struct kp_calls_clock {
	uint32_t proc, caller, fn;
	uint64_t calls;
	kp_dur_ns acc, own;
};

/*
 * A node of a call tree.  Its parent comes before it; the root of a process has
 * neither parent nor time.  A function that calls itself stays in its node.
 */
struct kp_calls_path {
	uint32_t parent, proc, fn, depth;
	uint64_t calls;
	kp_dur_ns own;		/* of suspend and garbage_collect too */
	/* With arguments: those of all its calls, unless these vary. */
	struct kp_span args;
	bool args_vary;
};

#define KP_CALLS_FIRST 2	/* calls that show what a process is for */

struct kp_calls_proc {
	bool seen;		/* any event of it */
	bool spawned;		/* the trace has its spawn: */
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
	uint64_t overflow;	/* entries over a limit */
	struct kp_calls_state *state;	/* private; NULL after the end */
};

/* NULL when out of memory. */
struct kp_calls_sum *kp_calls_sum_new(const struct kp_calls_opts *o);
void kp_calls_sum_free(struct kp_calls_sum *s);
/* KP_OK or KP_ENOMEM, which sticks.  An event's arguments must stay valid. */
enum kp_err kp_calls_sum_add(struct kp_calls_sum *s,
    const struct kp_call_event *ev);
/* The request that a process works for now; 0: none, or not by request. */
uint32_t kp_calls_sum_request(const struct kp_calls_sum *s, uint32_t proc);
/* Ends all stacks at the last event, as if the processes exited. */
enum kp_err kp_calls_sum_end(struct kp_calls_sum *s);

#endif
