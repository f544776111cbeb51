/*
 * stack_report.h - writes sampled stacks: as tables, as a call tree, and for
 * other programs.  Errors stick in the buffer.
 */
#ifndef KPROFD_PROFILE_STACKS_STACK_REPORT_H
#define KPROFD_PROFILE_STACKS_STACK_REPORT_H

#include "stack_sum.h"

/* Bits of states. */
#define STACK_STATE(s) (1u << (s))
#define STACK_ALL ((1u << KP_STACK_STATES) - 1)

/* What to show, and how; all borrowed. */
struct stack_view {
	const struct stack_sum *sum;
	unsigned states;	/* bits; of functions and trees, not of groups */
	size_t rows;		/* of each table, or of the tree; 0: all */
	double least;		/* of trees: a part of all the time, 0 to 1 */
	unsigned width;		/* columns of the terminal; 0: no limit */
	/* below the tables: */
	const char *target;
	int otp;
	unsigned depth;		/* of stacks there; longer ones are cut */
	unsigned schedulers;	/* online */
	double share;		/* of one scheduler, that was allowed */
	kp_wall_ns from, to;
	kp_dur_ns elapsed;
	kp_dur_ns time, young;	/* of processes (sampler.h); time 0: not yet known */
	struct kp_stack_counts counts;
};

static inline bool
stack_is_shown(const struct stack_view *v, const struct stack_cell *c)
{
	return (v->states >> c->state & 1) != 0;
}

/* True if frames are missing at the outer end. */
static inline bool
stack_is_cut(const struct stack_view *v, uint32_t frames)
{
	return v->depth > 0 && frames >= v->depth;
}

/* For people, where there is nothing to show. */
void stack_nothing(struct kp_buf *b, const struct stack_view *v);
/* For people: functions, groups of processes, and notes. */
void stack_tables(struct kp_buf *b, const struct stack_view *v);
/* Call trees, from the outermost function seen. */
void stack_tree(struct kp_buf *b, const struct stack_view *v);
/* For flame graphs: a line "root;function;function us" for each stack. */
void stack_folded(struct kp_buf *b, const struct stack_view *v);
/* For speedscope, a profile for each root. */
void stack_speedscope(struct kp_buf *b, const struct stack_view *v);
/* For pprof: samples, time, and time of processes that work. */
void stack_pprof(struct kp_buf *b, const struct stack_view *v);
/* All states, with lines: as the stacks of kprof report -json. */
void stack_json(struct kp_buf *b, const struct stack_view *v);

/* The notes alone: what was sampled, what was not, and what that took. */
void stack_notes(struct kp_buf *b, const struct stack_view *v);

#endif
