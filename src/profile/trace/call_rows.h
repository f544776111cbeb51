/*
 * call_rows.h - the rows of a sum of calls, and what finds them while the sum
 * is made.
 */
#ifndef KPROFD_PROFILE_TRACE_CALL_ROWS_H
#define KPROFD_PROFILE_TRACE_CALL_ROWS_H

#include "kprofd/calls_sum.h"
#include "base/map.h"
#include "base/vec.h"

struct stack;

/* A process that has worked for a request, as often as it came to do so. */
struct worker {
	uint32_t proc, before;	/* before: another one, or KP_PATH_NONE */
};
#define WORKERS_MAX (1u << 22)

struct kp_calls_state {
	struct stack *stacks;
	uint32_t nstacks;
	uint32_t frames;	/* room of all stacks */
	struct map clocks;	/* process, caller, function -> row */
	struct map children;	/* path, function -> path */
	struct map held;	/* process, function -> frames of it */
	struct map requests;	/* request -> the last of its workers */
	struct worker *workers;
	uint32_t nworkers;
	enum kp_err err;
};

/*
 * Makes room for one more of n rows.  False: there are max of them, which is
 * counted, or no memory (state->err).
 */
#define rows_room(s, v, n, max) rows_has_room(s, vec_room_by_len(v, n, max))
bool rows_has_room(struct kp_calls_sum *s, enum kp_err room);
/* False: no memory (state->err). */
bool rows_remember(struct kp_calls_sum *s, struct map *m, uint64_t key,
    uint64_t val);

/* NULL: a limit, or no memory (state->err). */
struct kp_calls_clock *clock_of(struct kp_calls_sum *s, uint32_t proc,
    uint32_t caller, uint32_t fn);
/* Its number; its parent's where there is no room. */
uint32_t path_add(struct kp_calls_sum *s, const struct kp_calls_path *p);
/* The node for fn below a path; the path itself where there is no more. */
uint32_t path_child(struct kp_calls_sum *s, uint32_t path, uint32_t fn);
/* A frame of fn comes; true: it is the only one of this process. */
bool held_add(struct kp_calls_sum *s, uint32_t proc, uint32_t fn);
void held_remove(struct kp_calls_sum *s, uint32_t proc, uint32_t fn);

#endif
