/*
 * call_tree.h - one call tree of all processes of a node, with where they waited: of a
 * short trace of calls, or of sampled stacks.  Pure.
 *
 * Trees begin at "tops": the outermost calls in a process that are neither loops
 * nor callbacks of servers.  What is around a top is left out, and so is the time
 * that a process spends there, since it waits for work.
 *
 * Of a trace by request only work counts that the request caused before its entry
 * returned.  Its caller gets the token with the answer, and works on with it.
 *
 * A sampled stack has the innermost frames only.  One that is cut is continued by who
 * calls its outermost function in other samples, most of the time.
 */
#ifndef KPROFD_SUGGEST_CALL_TREE_H
#define KPROFD_SUGGEST_CALL_TREE_H

#include "calls/call_sum.h"

/* Distinct paths of calls; more are added to their parents, and counted. */
#define SUGGEST_TREE_MAX (1u << 16)

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
	bool known;		/* an example has its module, or is inside it */
	const char *app;	/* borrowed; "" if unknown */
	bool users;		/* no other application depends on that */
};

/* A place in the call tree.  Its parent comes before it; 0 is around all tops. */
struct suggest_frame {
	uint32_t parent, fn;
	uint64_t calls;
	kp_dur_ns own, wait[SUGGEST_WAITS];	/* without callees */
	kp_dur_ns total;	/* with them; of a waiting caller, too */
	kp_dur_ns whole;	/* of samples: of this, what is around is known */
	uint64_t samples;	/* in which it is the top */
	kp_dur_ns pooled;	/* of the top's total, in workers of pools */
};

/* A callback of a server, with all that it calls. */
struct suggest_callback {
	uint32_t fn;
	uint64_t calls;
	kp_dur_ns total;
};

struct suggest_tree {
	const struct kp_call_names *names;	/* borrowed */
	struct suggest_frame *frames;		/* after suggest_tree_end() */
	uint32_t nframes;
	struct suggest_callback *callbacks;	/* one a function */
	uint32_t ncallbacks;
	uint64_t overflow;	/* paths over the limit */
	kp_dur_ns span;		/* from the first event to the last */
	uint64_t events;
	uint64_t begun, ended;	/* calls of the entry, and their returns seen */
	uint64_t nested;	/* calls of the entry inside itself */
	bool *loops;		/* by function: found inside itself */
	bool *recursive;	/* by function: called by itself, even if once */
	struct suggest_tree_state *state;	/* private */
};

/* NULL: out of memory. */
struct suggest_tree *suggest_tree_new(const struct kp_call_names *names);
/* To be called before the first event of a trace by request. */
void suggest_tree_entry(struct suggest_tree *c, const char *mod,
    const char *fun, uint32_t arity);
void suggest_tree_free(struct suggest_tree *c);
enum kp_err suggest_tree_event(struct suggest_tree *c,
    const struct kp_call_event *ev);
/*
 * Makes the tree.  fns: by number, names->nfns of them.  KP_ENOMEM.
 */
enum kp_err suggest_tree_end(struct suggest_tree *c,
    const struct suggest_fn *fns);
/* A fun, or a list comprehension: tiers.conf cannot name these. */
bool suggest_anonymous(const struct kp_call_names *t, uint32_t fn);
bool suggest_same_module(const struct kp_call_names *t, uint32_t a, uint32_t b);


/* ---- of samples ---- */

/* Distinct stacks by what the process did; more are counted. */
#define SUGGEST_STACKS_MAX 20000u
#define SUGGEST_FRAMES_MAX 64u
/* A function that takes longer than this on average is a loop. */
#define SUGGEST_LOOP (5 * KP_NS_PER_S)

enum suggest_doing { SUGGEST_WORKS = SUGGEST_WAITS };	/* behind suggest_wait */

struct suggest_stack;

struct suggest_stacks {
	const struct kp_call_names *names;	/* borrowed */
	struct suggest_stack *v;
	uint32_t n;
	uint64_t samples, overflow;
	uint64_t working;	/* of the samples: at work, or in a call */
	struct map by_key;	/* private */
};

/* s: zeroed, and names set. */
void suggest_stacks_free(struct suggest_stacks *s);
/*
 * Adds a sample.  id: of the caller's for these frames, which are outermost first;
 * cut: there are more around them; doing: enum suggest_wait, or SUGGEST_WORKS.
 */
enum kp_err suggest_stacks_add(struct suggest_stacks *s, uint32_t id,
    const uint32_t *fns, uint32_t n, bool cut, unsigned doing, kp_dur_ns time);
/* The sample that was added last, with this id, was of a pool's worker. */
void suggest_stacks_pooled(struct suggest_stacks *s, uint32_t id, kp_dur_ns time);
/* Functions that are on stacks, in the order of their time at work; at most max. */
uint32_t suggest_stacks_fns(const struct suggest_stacks *s, uint32_t *fns,
    uint32_t max);
/*
 * Makes the tree in c, a new one; span: the time that was sampled.  rates: calls a
 * second by function, < 0 if unknown.  Marks loops in fns.  KP_ENOMEM.
 */
enum kp_err suggest_stacks_tree(const struct suggest_stacks *s,
    const double *rates, kp_dur_ns span, struct suggest_fn *fns,
    struct suggest_tree *c);

#endif
