/*
 * call_stack.h - the simulated stack of one process, and what its events do to
 * it; the rules are in calls_sum.h.
 */
#ifndef KPROFD_PROFILE_TRACE_CALL_STACK_H
#define KPROFD_PROFILE_TRACE_CALL_STACK_H

#include "call_rows.h"

/*
 * A stack is flat, the top last.  Frames that took each other's place by tail
 * calls are one level: all but its first have `tail` set.
 */
struct frame {
	uint32_t fn, path;
	kp_target_ns ts;	/* on top, or called, since */
	bool tail;
	bool outermost;		/* nothing below is of the same function */
	bool base;		/* not called: it turned out to be there */
	bool inside;		/* this one or one below is what counts */
};

struct stack {
	struct frame *v;
	uint32_t n, room;
	uint32_t proc, root;	/* root: of its call tree */
	uint32_t request;	/* 0: all that it does is looked at */
	bool entered;		/* that begun here, and goes on */
	kp_target_ns at;	/* up to here paths have their time */
	kp_target_ns out_at;	/* scheduled out then, if `out` */
	kp_dur_ns off;		/* for how long in all, before */
	bool out;
};

/* ts is the process's own clock. */
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
