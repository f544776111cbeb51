/*
 * sum_internal.h - the parts of a sum of calls, from the lowest to call_sum.c: its
 * rows, and the simulated stack of each process.  The rules are in call_sum.h.
 */
#ifndef KPROFD_CALLS_SUM_INTERNAL_H
#define KPROFD_CALLS_SUM_INTERNAL_H

#include "base/map.h"
#include "base/vec.h"
#include "calls/call_sum.h"

/*
 * The top is the last frame.  Frames that replaced each other by tail calls are
 * one level: all but the first of them have `tail` set.
 */
struct frame {
	uint32_t fn, path;
	kp_target_ns ts;	/* on top, or called, since */
	bool tail;
	bool outermost;		/* the lowest frame of its function */
	bool base;		/* found on the stack: its call was not seen */
	bool inside;		/* it, or a frame below, is what the user asked for */
};

struct stack {
	struct frame *v;
	uint32_t n, room;
	uint32_t proc, root;	/* root: of its call tree */
	uint32_t request;	/* 0: not by request */
	bool entered;		/* the request began here, and goes on */
	kp_target_ns at;	/* paths have their time up to here */
	kp_target_ns out_at;	/* scheduled out then, if `out` */
	kp_dur_ns off;		/* scheduled out before, in all */
	bool out;
};

/* A process that works for a request; again for each time it begins to. */
struct worker {
	uint32_t proc, before;	/* before: the previous one, or KP_PATH_NONE */
};
#define WORKERS_MAX (1u << 22)

struct kp_calls_state {
	struct stack *stacks;
	uint32_t nstacks;
	uint32_t frames;	/* room of all stacks */
	struct map clocks;	/* process, caller, function -> row */
	struct map children;	/* path, function -> path */
	struct map held;	/* process, function -> its frames */
	struct map requests;	/* request -> its last worker */
	struct worker *workers;
	uint32_t nworkers;
	enum kp_err err;
};

/* ---- sum_rows.c ---- */

/*
 * Makes room for one more of n rows.  False: there are max of them, which is
 * counted, or no memory (state->err).
 */
#define rows_room(s, v, n, max) rows_has_room(s, vec_room_by_len(v, n, max))
bool rows_has_room(struct kp_calls_sum *s, enum kp_err room);
/* Notes where the row of this key is. */
bool rows_remember(struct kp_calls_sum *s, struct map *m, uint64_t key,
    uint64_t row);
/* NULL: a limit was reached, or no memory (state->err). */
struct kp_calls_clock *clock_of(struct kp_calls_sum *s, uint32_t proc,
    uint32_t caller, uint32_t fn);
uint32_t path_add(struct kp_calls_sum *s, const struct kp_calls_path *p);
/* The node for fn below a path; the path itself if there can be none. */
uint32_t path_child(struct kp_calls_sum *s, uint32_t path, uint32_t fn);
/* Counts a frame; true if it is the only one of fn in this process. */
bool held_add(struct kp_calls_sum *s, uint32_t proc, uint32_t fn);
void held_remove(struct kp_calls_sum *s, uint32_t proc, uint32_t fn);

/* ---- call_stack.c; ts is by the process's own clock ---- */

void stack_call(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    uint32_t caller, kp_target_ns ts);
void stack_return_to(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts);
void stack_spawned(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts);
void stack_out(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts);
void stack_in(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts);
void stack_gc_start(struct kp_calls_sum *s, struct stack *st,
    kp_target_ns ts);
void stack_gc_end(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts);
void stack_exit(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts);

#endif
