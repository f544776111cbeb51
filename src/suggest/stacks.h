/*
 * stacks.h - a call tree from sampled stacks, as calls.h has it from a trace.  Pure.
 *
 * A stack has the innermost frames only.  One that is cut is continued by who calls
 * its outermost function in other samples, most of the time.
 */
#ifndef KPROFD_SUGGEST_STACKS_H
#define KPROFD_SUGGEST_STACKS_H

#include "suggest/calls.h"

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
    struct suggest_calls *c);

#endif
