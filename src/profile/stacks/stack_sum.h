/*
 * stack_sum.h - adds up sampled stacks of one node: by stack, state and group of
 * processes, or process.  Pure.
 */
#ifndef KPROFD_PROFILE_STACKS_STACK_SUM_H
#define KPROFD_PROFILE_STACKS_STACK_SUM_H

#include <stdbool.h>

#include "base/map.h"
#include "kprofd/stacks.h"

/* What stands together in a cell, and is a root of the trees. */
enum stack_by { STACK_BY_GROUP, STACK_BY_APPLICATION, STACK_BY_PROCESS,
	STACK_BY_NONE };

/* The sampler names some 1000 groups; numbers past this are taken for 0. */
#define STACK_GROUPS_MAX 2048u
/*
 * 96 MiB; samples past it are counted, and added to a cell without a stack, of
 * which there is one for each state.
 */
#define STACK_CELLS_MAX (1u << 20)
/* Of processes that are told apart, to count them. */
#define STACK_PROCS_MAX (1u << 20)

/* Samples that stand for a time, and the sum of the squares of these times. */
struct stack_figure {
	uint64_t samples;
	kp_dur_ns time;
	/* ns squared overflows 64 bits past 4.3 s */
	double squares;
};
void stack_figure_add(struct stack_figure *to, const struct stack_figure *f);

struct stack_cell {
	uint32_t stack;		/* in the table */
	uint32_t group;
	uint64_t proc;		/* 0 unless by process */
	uint8_t state;		/* enum kp_stack_state */
	uint32_t next;		/* of the same hash, or STACK_CELL_NONE */
	struct stack_figure f;
};
#define STACK_CELL_NONE UINT32_MAX

struct stack_group {
	char *name, *application;	/* NULL: not named; application "": none */
	uint64_t procs;		/* different ones that were sampled */
	bool one;		/* kp_stack_group */
};

struct stack_sum {
	const struct kp_stack_table *table;	/* borrowed */
	enum stack_by by;
	struct stack_cell *cells;
	size_t ncells, room;
	struct map index;	/* hash to the first cell of it */
	struct stack_group *groups;	/* STACK_GROUPS_MAX; 0: not named */
	struct map procs;	/* those counted, with their group */
	bool procs_full;	/* there are more processes than counted */
	uint64_t overflow;	/* samples past STACK_CELLS_MAX */
	uint64_t samples, not_seen;
	struct kp_usage *usage;	/* as last seen; NULL: not yet */
	enum kp_err err;	/* sticks: out of memory */
};

/* KP_ENOMEM: s is to be freed all the same. */
enum kp_err stack_sum_init(struct stack_sum *s,
    const struct kp_stack_table *table, enum stack_by by);
void stack_sum_free(struct stack_sum *s);
/* Callbacks of kp_stack_ops; ctx is a stack_sum. */
void stack_sum_sample(void *ctx, const struct kp_stack_sample *sample);
void stack_sum_group(void *ctx, const struct kp_stack_group *group);
void stack_sum_usage(void *ctx, struct kp_usage *u);

/* The texts of a group, never NULL. */
const char *stack_group_name(const struct stack_sum *s, uint32_t group);
const char *stack_group_application(const struct stack_sum *s, uint32_t group);

/* What a cell stands below: the same number for cells of one root. */
struct stack_roots {
	uint64_t *of;		/* of each cell, an index of names */
	char **names;
	size_t n;
};

/* KP_ENOMEM: to be freed all the same. */
enum kp_err stack_roots_make(struct stack_roots *r, const struct stack_sum *s);
void stack_roots_free(struct stack_roots *r);

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
