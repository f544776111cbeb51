/*
 * call_sum.c - adds up the events of a trace: rows by process, caller and
 * function, and call trees.  The rules are in call_sum.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sat.h"
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

struct kp_calls_sum *
kp_calls_sum_new(const struct kp_calls_opts *o)
{
	struct kp_calls_sum *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->opts = *o;
	s->state = calloc(1, sizeof(*s->state));
	if (s->state == NULL) {
		free(s);
		return NULL;
	}
	return s;
}

static void
state_free(struct kp_calls_state *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->nstacks; i++)
		free(t->stacks[i].v);
	free(t->stacks);
	map_free(&t->clocks);
	map_free(&t->children);
	map_free(&t->held);
	map_free(&t->requests);
	free(t->workers);
	free(t);
}

void
kp_calls_sum_free(struct kp_calls_sum *s)
{
	if (s == NULL)
		return;
	state_free(s->state);
	free(s->clocks);
	free(s->paths);
	free(s->procs);
	free(s);
}

/* ---- rows, each found by its key ---- */

/* Numbers have 20 bits (call_trace.h); that of a path, before them, 22. */
static uint64_t
key2(uint64_t a, uint32_t b)
{
	return (a << 20 | b) + 1;
}

/*
 * Makes room for one more of n rows.  False: there are max of them, which is
 * counted, or no memory (state->err).
 */
#define rows_room(s, v, n, max) rows_has_room(s, vec_room_by_len(v, n, max))

static bool
rows_has_room(struct kp_calls_sum *s, enum kp_err room)
{
	if (room == KP_ELIMIT)
		s->overflow++;
	else if (room != KP_OK)
		s->state->err = room;
	return room == KP_OK;
}

/* Notes where the row of this key is.  False: no memory (state->err). */
static bool
rows_remember(struct kp_calls_sum *s, struct map *m, uint64_t key,
    uint64_t val)
{
	if (map_put(m, key, val))
		return true;
	s->state->err = KP_ENOMEM;
	return false;
}

/* NULL: a limit was reached, or no memory (state->err). */
static struct kp_calls_clock *
clock_of(struct kp_calls_sum *s, uint32_t proc, uint32_t caller, uint32_t fn)
{
	uint64_t key = key2((uint64_t)proc << 20 | caller, fn);
	uint64_t *known = map_get(&s->state->clocks, key);

	if (known != NULL)
		return &s->clocks[*known];
	if (!rows_room(s, &s->clocks, s->nclocks, KP_CALLS_CLOCKS_MAX))
		return NULL;
	if (!rows_remember(s, &s->state->clocks, key, s->nclocks))
		return NULL;
	s->clocks[s->nclocks] = (struct kp_calls_clock){ .proc = proc,
		.caller = caller, .fn = fn };
	return &s->clocks[s->nclocks++];
}

/* Returns the number of the new path, or its parent's where there is no room. */
static uint32_t
path_add(struct kp_calls_sum *s, const struct kp_calls_path *p)
{
	if (!rows_room(s, &s->paths, s->npaths, KP_CALLS_PATHS_MAX))
		return p->parent;
	s->paths[s->npaths] = *p;
	return s->npaths++;
}

/* The node for fn below a path; the path itself if there can be none. */
static uint32_t
path_child(struct kp_calls_sum *s, uint32_t path, uint32_t fn)
{
	struct kp_calls_path p = { .parent = path, .fn = fn };
	uint64_t key = key2(path, fn), *known;
	uint32_t child;

	if (path == KP_PATH_NONE || (s->paths[path].fn == fn &&
	    s->paths[path].parent != KP_PATH_NONE))
		return path;
	if (s->paths[path].depth == KP_CALLS_DEPTH_MAX)
		return path;
	known = map_get(&s->state->children, key);
	if (known != NULL)
		return (uint32_t)*known;
	p.proc = s->paths[path].proc;
	p.depth = s->paths[path].depth + 1;
	child = path_add(s, &p);
	if (child != path)
		rows_remember(s, &s->state->children, key, child);
	return child;
}

/* Counts a frame; true if it is the only one of fn in this process. */
static bool
held_add(struct kp_calls_sum *s, uint32_t proc, uint32_t fn)
{
	uint64_t key = key2(proc, fn);
	uint64_t *n = map_get(&s->state->held, key);

	if (n != NULL)
		return (*n)++ == 0;
	return rows_remember(s, &s->state->held, key, 1);
}

static void
held_remove(struct kp_calls_sum *s, uint32_t proc, uint32_t fn)
{
	uint64_t *n = map_get(&s->state->held, key2(proc, fn));

	if (n != NULL && *n > 0)
		(*n)--;
}

/* ---- the simulated stack of one process ---- */

/*
 * Times are by the process's own clock.
 *
 * The place of a call follows from the function that it will return to, its
 * caller.  If that is on top, the call pushes a level; if it is on top of the
 * level below, this is a tail call, which replaces the top in the same level.
 */

/* A level of this length without a cycle is cut at any repetition. */
#define LEVEL_MAX 1024u

/* ---- charging ---- */

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
	while (st->n > 0 && (st->v[st->n - 1].fn == KP_FN_SUSPEND ||
	    st->v[st->n - 1].fn == KP_FN_GC)) {
		s->odd++;
		leave(s, st, ts);
	}
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
		/*
		 * The caller is not where it should be: a cycle of calls was
		 * removed, events are missing, or it is not traced.  It gets a
		 * frame, but no call is counted.
		 */
		if (caller == KP_FN_UNDEFINED)
			return_to(s, st, caller, ts);
		else
			replace(s, st, caller, ts);
		push(s, st, fn, ts);
	}
}

static void
stack_call(struct kp_calls_sum *s, struct stack *st, uint32_t fn,
    uint32_t caller, kp_target_ns ts)
{
	struct kp_calls_proc *p = &s->procs[st->proc];
	bool begins = p->spawned && p->nfirst == 0;

	leave_pseudo(s, st, ts);
	/* The initial calls of a process whose spawn was seen. */
	if (p->spawned && p->nfirst < KP_CALLS_FIRST)
		p->first[p->nfirst++] = fn;
	if (begins && st->n == 1 && st->v[0].fn == fn) {
		/* It has run since it was scheduled in. */
		ts = st->v[0].ts;
		held_remove(s, st->proc, fn);
		st->n = 0;
	}
	if (st->n > 0) {
		call_placed(s, st, fn, caller, ts);
		return;
	}
	if (caller != KP_FN_UNDEFINED)
		base_add(s, st, caller, ts);
	push(s, st, fn, ts);
}

static void
stack_exit(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	return_to(s, st, KP_FN_UNDEFINED, ts);
	drop_to(s, st, 0, ts);
}

static void
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

static void
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

static void
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

static void
stack_gc_end(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	if (st->n == 0)
		return;
	if (st->v[st->n - 1].fn != KP_FN_GC)
		s->odd++;
	else
		leave(s, st, ts);
}

/* ---- processes ---- */

/* Makes rows and stacks for processes up to this one. */
static bool
procs_up_to(struct kp_calls_sum *s, uint32_t proc)
{
	struct kp_calls_state *t = s->state;
	struct kp_calls_path root = { .parent = KP_PATH_NONE };

	for (; s->nprocs <= proc; s->nprocs++) {
		if (!rows_room(s, &s->procs, s->nprocs, KP_CALLS_PROCS_MAX) ||
		    !rows_room(s, &t->stacks, s->nprocs, KP_CALLS_PROCS_MAX))
			return false;
		s->procs[s->nprocs] = (struct kp_calls_proc){ 0 };
		root.proc = s->nprocs;
		t->stacks[s->nprocs] = (struct stack){ .proc = s->nprocs,
			.root = s->opts.paths ? path_add(s, &root) : 0 };
		t->nstacks = s->nprocs + 1;
	}
	return true;
}

/* The process's own clock, which may stop while it is scheduled out. */
static kp_target_ns
own_clock(const struct kp_calls_sum *s, struct stack *st,
    enum kp_call_kind kind, kp_target_ns ts)
{
	if (!s->opts.cpu)
		return ts;
	if (st->out && kind == KP_CALL_IN) {
		st->off = sat_add(st->off, sat_span(st->out_at, ts));
		st->out = false;
	}
	if (!st->out && kind == KP_CALL_OUT) {
		st->out = true;
		st->out_at = ts;
	}
	return sat_add(st->out ? st->out_at : ts, -st->off);
}

/* Adds the time since the last event to the path where the process was. */
static void
slice_end(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	uint32_t path;

	if (st->n > 0 && ts > st->at && s->opts.paths) {
		path = st->v[st->n - 1].path;
		if (path != KP_PATH_NONE)
			s->paths[path].own = sat_add(s->paths[path].own,
			    sat_span(st->at, ts));
		if (path != KP_PATH_NONE && s->opts.slice != NULL)
			s->opts.slice(s->opts.ctx, st->proc, path, st->at, ts);
	}
	st->at = ts;
}

static void
add_spawn(struct kp_calls_sum *s, const struct kp_call_event *ev)
{
	struct kp_calls_proc *p = &s->procs[ev->other];
	struct stack *st = &s->state->stacks[ev->other];

	if (p->spawned || ev->other == ev->proc) {
		s->odd++;
		return;
	}
	p->spawned = true;
	p->parent = ev->proc;
	p->spawned_as = ev->fn;
	if (p->seen) {
		/* Its own events came first: order is known per process only. */
		p->nfirst = KP_CALLS_FIRST;
		p->first[0] = p->first[1] = KP_FN_UNDEFINED;
		return;
	}
	p->seen = true;
	st->at = ev->ts;
	/* It does not run yet. */
	st->out = s->opts.cpu;
	st->out_at = ev->ts;
	if (frame_add(s, st, ev->fn, ev->ts, false))
		push(s, st, KP_FN_SUSPEND, ev->ts);
}

/* Ends the stack, as if the process exited. */
static void
cut(struct kp_calls_sum *s, struct stack *st, kp_target_ns ts)
{
	kp_target_ns own = own_clock(s, st, KP_CALL_EXIT, ts);

	slice_end(s, st, own);
	stack_exit(s, st, own);
}

/*
 * The call that began the request has returned: processes that wait now do not
 * wait for the request.
 */
static void
request_end(struct kp_calls_sum *s, struct stack *first, kp_target_ns ts)
{
	const struct kp_calls_state *t = s->state;
	uint64_t *last = map_get(&t->requests, first->request);
	uint32_t i = last != NULL ? (uint32_t)*last : KP_PATH_NONE;
	struct stack *st;

	first->entered = false;
	for (; i != KP_PATH_NONE; i = t->workers[i].before) {
		st = &t->stacks[t->workers[i].proc];
		if (st->request == first->request && st->n > 0 &&
		    st->v[st->n - 1].fn == KP_FN_SUSPEND)
			cut(s, st, ts);
	}
}

/* True if it is the first worker of the request. */
static bool
worker_add(struct kp_calls_sum *s, uint32_t request, uint32_t proc)
{
	struct kp_calls_state *t = s->state;
	uint64_t *last = map_get(&t->requests, request);

	if (!rows_room(s, &t->workers, t->nworkers, WORKERS_MAX))
		return false;
	t->workers[t->nworkers] = (struct worker){ proc,
		last != NULL ? (uint32_t)*last : KP_PATH_NONE };
	if (last != NULL)
		*last = t->nworkers++;
	else if (rows_remember(s, &t->requests, request, t->nworkers))
		t->nworkers++;
	return last == NULL;
}

/* The first process seen in a request has begun it. */
static void
add_request(struct kp_calls_sum *s, const struct kp_call_event *ev,
    kp_target_ns ts)
{
	struct stack *st = &s->state->stacks[ev->proc];

	if (st->request == ev->other)
		return;
	/* Calls for the previous request are over. */
	if (st->n > 0)
		stack_exit(s, st, ts);
	if (st->entered)
		request_end(s, st, ev->ts);
	st->request = ev->other;
	if (ev->other > 0)
		st->entered = worker_add(s, ev->other, ev->proc);
}

/* The call is on top now, if there was room for it. */
static void
note_args(struct kp_calls_sum *s, const struct stack *st,
    const struct kp_call_event *ev)
{
	struct kp_calls_path *p;

	if (!s->opts.paths || ev->args.n == 0 || st->n == 0 ||
	    st->v[st->n - 1].fn != ev->fn)
		return;
	p = &s->paths[st->v[st->n - 1].path];
	if (p->calls <= 1)
		p->args = ev->args;
	else if (p->args.n != ev->args.n ||
	    memcmp(p->args.p, ev->args.p, p->args.n) != 0)
		p->args_vary = true;
}

static void
add_placed(struct kp_calls_sum *s, const struct kp_call_event *ev)
{
	struct stack *st = &s->state->stacks[ev->proc];
	kp_target_ns ts = own_clock(s, st, ev->kind, ev->ts);

	slice_end(s, st, ts);
	if (st->request > 0 && st->n == 0 && ev->kind >= KP_CALL_IN &&
	    ev->kind <= KP_CALL_GC_END)
		return;		/* outside of the traced calls */
	switch (ev->kind) {
	case KP_CALL_CALL:
		stack_call(s, st, ev->fn, ev->other, ts);
		note_args(s, st, ev);
		break;
	case KP_CALL_RETURN_TO:
		stack_return_to(s, st, ev->fn, ts);
		break;
	case KP_CALL_IN:
		stack_in(s, st, ev->fn, ts);
		break;
	case KP_CALL_OUT:
		stack_out(s, st, ev->fn, ts);
		break;
	case KP_CALL_GC_START:
		push(s, st, KP_FN_GC, ts);
		break;
	case KP_CALL_GC_END:
		stack_gc_end(s, st, ts);
		break;
	case KP_CALL_SPAWN:
		add_spawn(s, ev);
		break;
	case KP_CALL_EXIT:
		stack_exit(s, st, ts);
		break;
	case KP_CALL_REQUEST:
		add_request(s, ev, ts);
		break;
	case KP_CALL_SEND:
	case KP_CALL_RECEIVE:
		break;
	}
	if (st->entered && st->n == 0 && ev->kind < KP_CALL_REQUEST)
		request_end(s, st, ev->ts);
}

enum kp_err
kp_calls_sum_add(struct kp_calls_sum *s, const struct kp_call_event *ev)
{
	uint32_t proc = ev->proc;

	/* No row for the sender of a message: it may have called nothing. */
	if (ev->kind == KP_CALL_SPAWN && ev->other > proc)
		proc = ev->other;
	if (s->state->err != KP_OK || !procs_up_to(s, proc))
		return s->state->err;
	if (s->events == 0 || ev->ts < s->first)
		s->first = ev->ts;
	if (s->events == 0 || ev->ts > s->last)
		s->last = ev->ts;
	s->events++;
	s->procs[ev->proc].seen = true;
	add_placed(s, ev);
	return s->state->err;
}

uint32_t
kp_calls_sum_request(const struct kp_calls_sum *s, uint32_t proc)
{
	return s->state != NULL && proc < s->state->nstacks ?
	    s->state->stacks[proc].request : 0;
}

enum kp_err
kp_calls_sum_end(struct kp_calls_sum *s)
{
	struct kp_calls_state *t = s->state;
	enum kp_err e;

	for (uint32_t i = 0; i < t->nstacks; i++)
		cut(s, &t->stacks[i], s->last);
	e = t->err;
	state_free(t);
	s->state = NULL;
	return e;
}
