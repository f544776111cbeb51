/* stack_internal.h - what the reports of sampled stacks share. */
#ifndef KPROFD_PROFILE_STACKS_STACK_INTERNAL_H
#define KPROFD_PROFILE_STACKS_STACK_INTERNAL_H

#include "stack_report.h"

#define STACK_LINE_MAX 4096u

/* What a cell stands below: the same number for cells of one root. */
struct stack_roots {
	uint64_t *of;		/* of each cell, an index of names */
	char **names;
	size_t n;
};

/* KP_ENOMEM: to be freed all the same. */
enum kp_err stack_roots_make(struct stack_roots *r, const struct stack_sum *s);
void stack_roots_free(struct stack_roots *r);

/* For people, where there is nothing to show. */
void stack_nothing(struct kp_buf *b, const struct stack_view *v);

static inline bool
stack_is_shown(const struct stack_view *v, const struct stack_cell *c)
{
	return (v->states >> c->state & 1) != 0;
}

/* The texts of a group, never NULL. */
const char *stack_group_name(const struct stack_sum *s, uint32_t group);
const char *stack_group_application(const struct stack_sum *s, uint32_t group);

/* True if frames are missing at the outer end. */
static inline bool
stack_is_cut(const struct stack_view *v, uint32_t frames)
{
	return v->depth > 0 && frames >= v->depth;
}

/*
 * The interval that holds a part of a whole in 95 of 100 cases: `part` is its
 * samples, all those of the whole, which the part is of.
 */
struct stack_share {
	double part, low, high;
};
struct stack_share stack_share(const struct stack_figure *part,
    const struct stack_figure *all);

#endif
