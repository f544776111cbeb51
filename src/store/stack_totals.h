/*
 * stack_totals.h - adds up rows of sampled stacks, and bounds their number.
 * Private to src/store.
 */
#ifndef KPROFD_STORE_STACK_TOTALS_H
#define KPROFD_STORE_STACK_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/err.h"

struct stack_row {
	int64_t node;		/* ids; 0 where all rows are of one node */
	int64_t identity, path, stack;
	uint8_t state;		/* enum kp_stack_state */
	uint64_t samples;
	kp_dur_ns time, w_time;
};

/* Zeroed is empty; no two rows have the same ids and state. */
struct stack_totals {
	struct stack_row *v;
	size_t n, room;
	uint32_t *slots;	/* 1 + index of v, by hash; 0: free */
	size_t nslots;		/* a power of two */
};

#define STACK_TOTALS_MAX 1000000u	/* rows: 88 MB */

void stack_totals_free(struct stack_totals *s);
/* Adds to the row of these ids.  KP_ENOMEM, KP_ELIMIT: s is unchanged. */
enum kp_err stack_totals_add(struct stack_totals *s, const struct stack_row *row);

/* The most rows of one window: what is beyond goes into others, as below. */
struct stack_limits {
	size_t of_identity;	/* stacks of one request type */
	size_t stacks;		/* of all types */
	size_t others;		/* rows of the stack "_other" */
};

/* The ids of "_other", as a stack, as a path and as a request type. */
struct stack_other {
	int64_t stack, path, identity;
};

/*
 * Keeps the rows with the longest w_time.  The others are added up as the stack
 * "_other" of their type, path and state; of these rows, those that are too many
 * as "_other" in every respect, one for each state.  So sums stay the same, and
 * n is at most stacks + others + KP_STACK_STATES.  After KP_ENOMEM only free s.
 */
enum kp_err stack_totals_limit(struct stack_totals *s, const struct stack_limits *l,
    const struct stack_other *other);

#endif
