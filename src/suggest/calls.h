/*
 * calls.h - a short trace of a node's calls, as kprof suggest looks at it: one
 * call tree of all processes, with where they waited.  Pure.
 *
 * Trees begin at "tops": the outermost calls in a process that are neither loops
 * nor callbacks of servers.  What is around a top is left out, and so is the time
 * that a process spends there, since it waits for work.
 *
 * Of a trace by request only work counts that the request caused before its entry
 * returned.  Its caller gets the token with the answer, and works on with it.
 */
#ifndef KPROFD_SUGGEST_CALLS_H
#define KPROFD_SUGGEST_CALLS_H

#include "calls/call_sum.h"

/* Distinct paths of calls; more are added to their parents, and counted. */
#define SUGGEST_SPOTS_MAX (1u << 16)

enum suggest_wait {
	SUGGEST_WAIT_CALL,	/* for an answer of another process */
	SUGGEST_WAIT_PORT,	/* for a port, a socket or a file */
	SUGGEST_WAIT_INPUT,	/* for what a client sends, or a database */
	SUGGEST_WAIT_OTHER	/* a message, a timer; or it was preempted */
};
#define SUGGEST_WAITS (SUGGEST_WAIT_OTHER + 1)

/* What is known of a function, by its number in the names of a trace. */
struct suggest_fn {
	bool platform;		/* OTP's, Elixir's, or of a module that runs servers */
	bool exported;
	bool callback;		/* a server calls it, and it returns its state */
	bool loop;		/* it was found to be one before */
	bool recursive;		/* and this */
	bool unnamed;		/* its module was made at run time */
	bool pool;		/* others reach a pool of processes by its module */
	bool waits;		/* others wait in it for a worker of a pool */
	bool chosen;		/* it is in a tier of an earlier draft */
	const char *app;	/* borrowed; "" if unknown */
	bool users;		/* no other application depends on that */
};

/* A place in the call tree.  Its parent comes before it; 0 is around all tops. */
struct suggest_spot {
	uint32_t parent, fn, depth;
	uint64_t calls;
	kp_dur_ns own, wait[SUGGEST_WAITS];	/* without callees */
	kp_dur_ns total;	/* with them; of a waiting caller, too */
	kp_dur_ns whole;	/* of samples: of this, what is around is known */
	uint64_t samples;	/* in which it is the top */
	kp_dur_ns pooled;	/* of the top's total, in workers of pools */
};

/* A callback of a server, with all that it calls. */
struct suggest_around {
	uint32_t fn;
	uint64_t calls;
	kp_dur_ns total;
};

struct suggest_calls {
	const struct kp_call_names *names;	/* borrowed */
	struct suggest_spot *spots;		/* after suggest_calls_end() */
	uint32_t nspots;
	struct suggest_around *around;	/* one a function */
	uint32_t naround;
	uint64_t overflow;	/* paths over the limit */
	kp_dur_ns span;		/* from the first event to the last */
	uint64_t events;
	uint64_t begun, ended;	/* calls of the entry, and their returns seen */
	uint64_t nested;	/* calls of the entry inside itself */
	bool *loops;		/* by function: found inside itself */
	bool *recursive;	/* by function: called by itself, even if once */
	struct suggest_calls_state *state;	/* private */
};

/* entry: KP_FN_UNDEFINED, or of a trace by request.  NULL: out of memory. */
struct suggest_calls *suggest_calls_new(const struct kp_call_names *names);
/* To be called before the first event of a trace by request. */
void suggest_calls_entry(struct suggest_calls *c, const char *mod,
    const char *fun, uint32_t arity);
void suggest_calls_free(struct suggest_calls *c);
enum kp_err suggest_calls_event(struct suggest_calls *c,
    const struct kp_call_event *ev);
/*
 * Makes the tree.  fns: by number, names->nfns of them.  KP_ENOMEM.
 */
enum kp_err suggest_calls_end(struct suggest_calls *c,
    const struct suggest_fn *fns);
/* A fun, or a list comprehension: it cannot be named in tiers.conf. */
bool suggest_anonymous(const struct kp_call_names *t, uint32_t fn);
bool suggest_same_module(const struct kp_call_names *t, uint32_t a, uint32_t b);

#endif
