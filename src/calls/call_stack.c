/*
 * call_stack.c - simulates the stack of one process by the rules in
 * call_sum.h.
 *
 * The place of a call follows from the function that it will return to, its
 * caller.  If that is on top, the call pushes a level; if it is on top of the
 * level below, this is a tail call, which replaces the top in the same level.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "sum_internal.h"

/* A level of this length without a cycle is cut at any repetition. */
#define LEVEL_MAX 1024u

/* ---- charging ---- */

static bool
is_pseudo(uint32_t fn)
{
	return fn == KP_FN_SUSPEND || fn == KP_FN_GC;
}

/* A garbage collection of a waiting process is not called by suspend. */
static uint32_t
caller_of(const struct stack *st, uint32_t i)
{
	const struct frame *v = st->v;

	if (i > 0 && v[i].fn == KP_FN_GC && v[i - 1].fn == KP_FN_SUSPEND)
		i--;
	return i > 0 ? v[i - 1].fn : KP_FN_UNDEFINED;
}

/* Scheduled out twice in a row: only the first counts. */
static bool
is_void(const struct stack *st, uint32_t i)
{
	return i > 0 && st->v[i].fn == KP_FN_SUSPEND &&
	    st->v[i - 1].fn == KP_FN_SUSPEND;
}

static struct kp_calls_clock *
clock_at(struct kp_calls_sum *s, const struct stack *st, uint32_t i)
{
	if (is_void(st, i) || !st->v[i].inside)
		return NULL;
	return clock_of(s, st->proc, caller_of(st, i), st->v[i].fn);
}

static void
charge_own(struct kp_calls_sum *s, const struct stack *st, kp_target_ns ts)
{
	struct kp_calls_clock *c;

	if (st->n == 0)
		return;
	c = clock_at(s, st, st->n - 1);
	if (c != NULL && c->fn != KP_FN_SUSPEND)
		c->own = sat_add(c->own,
		    sat_span(st->v[st->n - 1].ts, ts));
}

static void
charge_acc(struct kp_calls_sum *s, const struct stack *st, uint32_t i,
    kp_target_ns ts)
{
	struct kp_calls_clock *c;

	if (!st->v[i].outermost)
		return;
	c = clock_at(s, st, i);
	if (c != NULL)
		c->acc = sat_add(c->acc, sat_span(st->v[i].ts, ts));
}

static void
count_top(struct kp_calls_sum *s, struct stack *st)
{
	struct kp_calls_clock *c = clock_at(s, st, st->n - 1);

	if (c != NULL)
		c->calls++;
	if (c != NULL && s->opts.paths)
		s->paths[st->v[st->n - 1].path].calls++;
}

/* ---- frames ---- */

static bool
with_room(struct kp_calls_sum *s, struct stack *st)
{
	uint32_t want = st->room > 0 ? st->room * 2 : 16;
	struct frame *bigger;

	if (st->n < st->room)
		return true;
	if (s->state->frames + want - st->room > KP_CALLS_FRAMES_MAX) {
		s->overflow++;
		return false;
	}
	bigger = reallocarray(st->v, want, sizeof(*bigger));
	if (bigger == NULL) {
		s->state->err = KP_ENOMEM;
		return false;
	}
	s->state->frames += want - st->room;
	st->v = bigger;
	st->room = want;
	return true;
}

static bool
frame_add(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts, bool tail)
{
	uint32_t parent = st->n > 0 ? st->v[st->n - 1].path : st->root;
	bool inside = s->opts.inside == NULL ||
	    (st->n > 0 && st->v[st->n - 1].inside) ||
	    s->opts.inside(s->opts.ctx, fn);

	if (!with_room(s, st))
		return false;
	st->v[st->n++] = (struct frame){ .fn = fn, .ts = ts, .tail = tail,
		.path = s->opts.paths ? path_child(s, parent, fn) : 0,
		.outermost = held_add(s, st->proc, fn), .inside = inside };
	return true;
}

/* Adds a function whose call was not seen. */
static void
base_add(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts)
{
	if (frame_add(s, st, fn, ts, false))
		st->v[st->n - 1].base = true;
}

/* Ends all frames above the first n. */
static void
drop_to(struct kp_calls_sum *s, struct stack *st, uint32_t n, kp_target_ns ts)
{
	for (uint32_t i = n; i < st->n; i++)
		charge_acc(s, st, i, ts);
	for (; st->n > n; st->n--)
		held_remove(s, st->proc, st->v[st->n - 1].fn);
}

/* Puts the caller of the lowest frame, now known, below it. */
static void
put_below(struct kp_calls_sum *s, struct stack *st, uint32_t fn)
{
	uint32_t n = st->n;
	struct frame *old;

	if (!with_room(s, st))
		return;
	old = malloc(n * sizeof(*old));
	if (old == NULL) {
		s->state->err = KP_ENOMEM;
		return;
	}
	memcpy(old, st->v, n * sizeof(*old));
	for (; st->n > 0; st->n--)
		held_remove(s, st->proc, st->v[st->n - 1].fn);
	base_add(s, st, fn, old[n - 1].ts);
	for (uint32_t i = 0; i < n; i++)
		if (frame_add(s, st, old[i].fn, old[i].ts, old[i].tail))
			st->v[st->n - 1].base = old[i].base;
	free(old);
}

/* ---- levels ---- */

/* The first frame of the level that frame i is in. */
static uint32_t
level_start(const struct stack *st, uint32_t i)
{
	while (st->v[i].tail)
		i--;
	return i;
}

/* The top of the level below the one that i is in, or KP_PATH_NONE. */
static uint32_t
below(const struct stack *st, uint32_t i)
{
	return i != KP_PATH_NONE ? level_start(st, i) - 1 : KP_PATH_NONE;
}

static bool
is_fn(const struct stack *st, uint32_t i, uint32_t fn)
{
	return i != KP_PATH_NONE && st->v[i].fn == fn;
}

static void
push(struct kp_calls_sum *s, struct stack *st, uint32_t fn, kp_target_ns ts)
{
	charge_own(s, st, ts);
	if (frame_add(s, st, fn, ts, false))
		count_top(s, st);
}

/* True if the last n calls of the level repeat the n before. */
static bool
is_cycle(const struct stack *st, uint32_t n)
{
	for (uint32_t i = 0, top = st->n - 1; i <= n; i++)
		if (st->v[top - i].fn != st->v[top - n - i].fn)
			return false;
	return true;
}

/* Removes cycles of tail calls, which may go on for ever. */
static void
collapse(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	uint32_t top = st->n - 1, start = level_start(st, top);

	for (uint32_t n = 1; 2 * n <= top - start; n++) {
		if (is_cycle(st, n)) {
			drop_to(s, st, st->n - n, ts);
			return;
		}
	}
	for (uint32_t i = top; top - start >= LEVEL_MAX && i > start; i--) {
		if (st->v[i - 1].fn == st->v[top].fn) {
			drop_to(s, st, i, ts);
			return;
		}
	}
}

/* Replaces the top of the stack, in its level. */
static bool
replace(struct kp_calls_sum *s, struct stack *st, uint32_t fn, kp_target_ns ts)
{
	charge_own(s, st, ts);
	if (!frame_add(s, st, fn, ts, st->n > 0))
		return false;
	collapse(s, st, ts);
	st->v[st->n - 1].ts = ts;
	return true;
}

/* A tail call. */
static void
shove(struct kp_calls_sum *s, struct stack *st, uint32_t fn, kp_target_ns ts)
{
	if (replace(s, st, fn, ts))
		count_top(s, st);
}

/*
 * Returns to the top of a lower level; to undefined, out of all of them.  A
 * function that is not on the stack was called before the trace.
 */
static void
return_to(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts)
{
	uint32_t i = st->n > 0 ? below(st, st->n - 1) : KP_PATH_NONE;

	charge_own(s, st, ts);
	while (i != KP_PATH_NONE && st->v[i].fn != fn)
		i = below(st, i);
	if (i != KP_PATH_NONE) {
		charge_acc(s, st, i, ts);
		drop_to(s, st, i + 1, ts);
		st->v[i].ts = ts;
	} else if (fn == KP_FN_UNDEFINED) {
		drop_to(s, st, 0, ts);
	} else {
		base_add(s, st, fn, ts);
	}
}

/* ---- events ---- */

/* Returns from a pseudo function to the frame below it. */
static void
leave(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	return_to(s, st, st->n > 1 ? st->v[st->n - 2].fn : KP_FN_UNDEFINED,
	    ts);
}

/* A process that waits or collects garbage calls nothing: an end is missing. */
static void
leave_pseudo(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	while (st->n > 0 && is_pseudo(st->v[st->n - 1].fn)) {
		s->odd++;
		leave(s, st, ts);
	}
}

/* Notes the initial calls of a process whose spawn was seen. */
static void
log_first(struct kp_calls_sum *s, const struct stack *st, uint32_t fn)
{
	struct kp_calls_proc *p = &s->procs[st->proc];

	if (p->spawned && p->nfirst < KP_CALLS_FIRST)
		p->first[p->nfirst++] = fn;
}

/* The stack is unknown, or empty. */
static void
call_first(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    uint32_t caller, kp_target_ns ts)
{
	if (caller != KP_FN_UNDEFINED)
		base_add(s, st, caller, ts);
	push(s, st, fn, ts);
}

/*
 * The caller is not where it should be: a cycle of calls was removed, events are
 * missing, or it is not traced.  It gets a frame, but no call is counted.
 */
static void
call_lost(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    uint32_t caller, kp_target_ns ts)
{
	if (caller == KP_FN_UNDEFINED)
		return_to(s, st, caller, ts);
	else
		replace(s, st, caller, ts);
	push(s, st, fn, ts);
}

static void
call_placed(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    uint32_t caller, kp_target_ns ts)
{
	uint32_t top = st->n - 1, second = below(st, top);
	uint32_t third = below(st, second);

	if (is_fn(st, top, caller) && !is_fn(st, second, caller)) {
		push(s, st, fn, ts);
	} else if (is_fn(st, second, caller)) {
		/* With caller on top of both levels it may be a tail call. */
		shove(s, st, fn, ts);
	} else if (second != KP_PATH_NONE &&
	    is_fn(st, second, st->v[top].fn) && is_fn(st, third, caller)) {
		/* The call before was not a tail call after all. */
		return_to(s, st, st->v[top].fn, ts);
		shove(s, st, fn, ts);
	} else if (second == KP_PATH_NONE) {
		if (caller != KP_FN_UNDEFINED)
			put_below(s, st, caller);
		shove(s, st, fn, ts);
	} else {
		call_lost(s, st, fn, caller, ts);
	}
}

void
stack_call(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    uint32_t caller, kp_target_ns ts)
{
	const struct kp_calls_proc *p = &s->procs[st->proc];
	bool begins = p->spawned && p->nfirst == 0;

	leave_pseudo(s, st, ts);
	log_first(s, st, fn);
	if (begins && st->n == 1 && st->v[0].fn == fn) {
		/* It has run since it was scheduled in. */
		ts = st->v[0].ts;
		held_remove(s, st->proc, fn);
		st->n = 0;
	}
	if (st->n == 0)
		call_first(s, st, fn, caller, ts);
	else
		call_placed(s, st, fn, caller, ts);
}

void
stack_return_to(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts)
{
	uint32_t top;

	leave_pseudo(s, st, ts);
	return_to(s, st, fn, ts);
	if (st->request == 0 || st->n == 0 || !st->v[st->n - 1].base)
		return;
	/* One that calls itself, whose own call was taken for a tail call, goes on. */
	top = st->n - 1;
	if (top == 0 || st->v[top - 1].fn != fn)
		stack_exit(s, st, ts);
}

void
stack_spawned(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts)
{
	if (frame_add(s, st, fn, ts, false))
		push(s, st, KP_FN_SUSPEND, ts);
}

void
stack_out(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts)
{
	if (st->n > 0 && st->v[st->n - 1].fn == KP_FN_SUSPEND) {
		frame_add(s, st, KP_FN_SUSPEND, ts, false);
		return;
	}
	if (st->n == 0 && fn != KP_FN_UNDEFINED)
		frame_add(s, st, fn, ts, false);
	push(s, st, KP_FN_SUSPEND, ts);
}

void
stack_in(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    kp_target_ns ts)
{
	if (st->n == 0 && fn == KP_FN_UNDEFINED)
		return;
	if (st->n == 0)
		frame_add(s, st, fn, ts, false);
	else if (st->v[st->n - 1].fn != KP_FN_SUSPEND)
		s->odd++;
	else if (is_void(st, st->n - 1))
		drop_to(s, st, st->n - 1, ts);
	else
		leave(s, st, ts);
}

void
stack_gc_start(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	push(s, st, KP_FN_GC, ts);
}

void
stack_gc_end(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	if (st->n == 0)
		return;
	if (st->v[st->n - 1].fn != KP_FN_GC)
		s->odd++;
	else
		leave(s, st, ts);
}

void
stack_exit(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	return_to(s, st, KP_FN_UNDEFINED, ts);
	drop_to(s, st, 0, ts);
}
