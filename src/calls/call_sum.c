/*
 * call_sum.c - adds up the events of a trace: rows by process, caller and
 * function, and call trees.  The rules are in call_sum.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "sum_internal.h"

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

/* ---- processes ---- */

static bool
proc_room(struct kp_calls_sum *s)
{
	return rows_room(s, &s->procs, s->nprocs, KP_CALLS_PROCS_MAX) &&
	    rows_room(s, &s->state->stacks, s->nprocs, KP_CALLS_PROCS_MAX);
}

/* Makes rows and stacks for processes up to this one. */
static bool
procs_up_to(struct kp_calls_sum *s, uint32_t proc)
{
	struct kp_calls_state *t = s->state;
	struct kp_calls_path root = { .parent = KP_PATH_NONE };

	for (; s->nprocs <= proc; s->nprocs++) {
		if (!proc_room(s))
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
	stack_spawned(s, st, ev->fn, ev->ts);
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
		stack_gc_start(s, st, ts);
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
