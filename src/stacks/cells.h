/*
 * cells.h - sums samples of one node by request type and its duration, path, state and
 * stack.
 */
#ifndef KPROFD_STACKS_CELLS_H
#define KPROFD_STACKS_CELLS_H

#include <stdbool.h>

#include "base/map.h"
#include "kprofd/stacks.h"
#include "kprofd/stats.h"

/*
 * In one window: ten times what a default rate of samples can fill.  Past it
 * stacks become KP_STACK_OTHER.  Past STACK_CELLS_OTHER more cells, paths, types
 * and durations become STACK_PATH_OTHER, KP_IDENT_OTHER and not known: one cell for
 * each state.
 */
#define STACK_CELLS_MAX 20000
#define STACK_CELLS_OTHER 1000
/* Paths of tiers in one window; most applications have fewer than a hundred. */
#define STACK_PATHS_MAX 4096
#define STACK_PATH_OTHER 0	/* "_other": the rest */

struct stack_cell_key {
	uint32_t identity;
	uint32_t path;		/* stack_cells_path() */
	uint32_t stack;		/* in the table */
	uint16_t state;		/* enum kp_stack_state */
	uint16_t octave;	/* of the request's duration (hist.h) */
};

struct stack_cell {
	struct stack_cell_key key;
	uint64_t samples;
	kp_dur_ns time, w_time;
};

/* All zero is empty. */
struct stack_cells {
	struct intern at, by_path;
	struct stack_cell *v;
	size_t room, paths_room;
	const char **paths;	/* the keys in by_path, from 1 on */
	uint32_t n, npaths;
	uint64_t other;		/* samples that became KP_STACK_OTHER */
};

/* Empties it. */
void stack_cells_free(struct stack_cells *c);
/* The number of a path, as of struct kp_stack_cell. */
uint32_t stack_cells_path(struct stack_cells *c, const char *path);
/* Adds a sample of this weight; false: there is no memory. */
bool stack_cells_add(struct stack_cells *c, struct stack_cell_key key,
    kp_dur_ns time, uint32_t weight);
/*
 * Gives w a copy, with the texts of t and types of rs.  KP_ENOMEM: w is
 * unchanged.
 */
enum kp_err stack_cells_copy(const struct stack_cells *c,
    const struct kp_stack_table *t, const struct kp_requests *rs,
    struct kp_window *w);

#endif
