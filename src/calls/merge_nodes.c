/*
 * merge_nodes.c - reads the file twice: once for constraints between the clocks of
 * the nodes, once to return the events in order.
 *
 * The first reading collects messages between nodes, and the first event of each
 * request.  In the second one each node has a reader of its own, which skips the
 * events of other nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "calls/merge_nodes.h"
#include "clock_constraints.h"

/* The reader of one node's events. */
struct cursor {
	struct kp_calls_reader r;
	uint64_t seq;		/* number of the next event in the file */
	struct kp_call_event ev;
	bool any;		/* ev is the node's next event */
	uint32_t tie, ties_end;	/* its constraints that are still to come */
	kp_target_ns floor;	/* no later event comes before this */
};

/* What a process works for, by the numbers of the file, without a `same`. */
struct owner {
	uint32_t label, got;	/* by its node, and by its last message */
	uint32_t from, to;	/* that label stands for this request; or 0, 0 */
	uint32_t told;		/* what the last REQUEST said to the caller */
};

struct kp_merge_state {
	struct kp_call_names *names;
	struct constraints ties;
	struct cursor *cursors;	/* by node */
	uint32_t ncursors;
	uint32_t *numbers;	/* request in the file -> in order, or 0 */
	uint32_t nnumbers;
	uint32_t *at;		/* by process, its request: see keeps() */
	struct owner *owners;	/* by process */
	uint32_t *began;	/* by request, the process that began it + 1 */
	struct map moved;	/* messages within a node -> their request */
	struct kp_call_event held;	/* follows a REQUEST that was added */
	bool holds;
};

/* ---- the first reading ---- */

static void
on_begun(void *ctx, uint32_t request, uint32_t node)
{
	struct kp_merge_state *t = ctx;

	constraints_begun(&t->ties, request, node);
}

static void
on_same(void *ctx, uint32_t request, uint32_t as)
{
	struct kp_merge_state *t = ctx;

	constraints_same(&t->ties, request, as);
}

static enum kp_err
read_once(struct kp_calls_merge *m, const void *p, size_t n,
    struct kp_call_names *names)
{
	struct kp_merge_state *t = m->state;
	struct kp_calls_request_ops ops = { on_begun, on_same, t };
	struct kp_calls_reader r;
	struct kp_call_event ev;
	enum kp_err e = kp_calls_read_begin(&r, p, n, names);
	uint64_t seq = 0;

	m->begun = e == KP_OK;
	r.ops = &ops;
	while (e == KP_OK) {
		e = kp_calls_read(&r, &ev);
		if (e == KP_OK)
			constraints_add(&t->ties, &ev, seq++);
	}
	m->info = r.info;
	return e == KP_END ? t->ties.err : e;
}

/* ---- the second ---- */

static bool
is_of(const struct kp_merge_state *t, const struct kp_call_event *ev,
    uint32_t node)
{
	return t->names->procs[ev->proc].node == node;
}

/*
 * Keeps events of requests that the user asked for, and of processes that have
 * not worked for any request.  0 in `at`: the process never did; 1: it works for
 * another request now; else it is the number of its request + 1.
 */
static bool
keeps(struct kp_merge_state *t, struct kp_call_event *ev)
{
	uint32_t *at = &t->at[ev->proc], n, was = *at;

	if (ev->kind == KP_CALL_SEND || ev->kind == KP_CALL_RECEIVE) {
		ev->request = ev->request < t->nnumbers ?
		    t->numbers[constraints_root(&t->ties, ev->request)] : 0;
		return ev->request > 0;
	}
	if (ev->kind != KP_CALL_REQUEST)
		return was != 1;
	n = ev->other < t->nnumbers ?
	    t->numbers[constraints_root(&t->ties, ev->other)] : 0;
	*at = n + 1;
	ev->other = n;
	return n > 0 || was > 1;
}

static void
cursor_next(struct kp_merge_state *t, struct cursor *c)
{
	uint32_t node = (uint32_t)(c - t->cursors);

	do
		c->any = kp_calls_read(&c->r, &c->ev) == KP_OK;
	while (c->any && (c->seq++, !is_of(t, &c->ev, node)));
	if (c->any)
		c->ev.ts = constraints_time(&t->ties, node, c->ev.ts);
}

/* The constraint of the next event, if it has one. */
static struct constraint *
cursor_tie(struct kp_merge_state *t, struct cursor *c)
{
	struct constraint *v = t->ties.v;

	while (c->tie < c->ties_end && v[c->tie].seq < c->seq - 1)
		c->tie++;
	return c->tie < c->ties_end && v[c->tie].seq == c->seq - 1 ?
	    &v[c->tie] : NULL;
}

/* The time of the next event; false: its cause is still to come. */
static bool
cursor_time(struct kp_merge_state *t, struct cursor *c, kp_target_ns *ts)
{
	const struct constraint *tie = cursor_tie(t, c);
	const struct constraint *cause = tie != NULL && tie->cause != TIE_NONE ?
	    &t->ties.v[tie->cause] : NULL;

	*ts = c->ev.ts > c->floor ? c->ev.ts : c->floor;
	if (cause != NULL && cause->done && *ts <= cause->at)
		*ts = cause->at + 1;
	return cause == NULL || cause->done;
}

/*
 * The node whose event is next.  In a damaged file every cause may be missing:
 * then the earliest event is next.
 */
static struct cursor *
earliest(struct kp_merge_state *t, kp_target_ns *ts)
{
	struct cursor *best = NULL, *c;
	bool best_free = false, free_now;
	kp_target_ns at;

	for (uint32_t i = 0; i < t->ncursors; i++) {
		c = &t->cursors[i];
		if (!c->any)
			continue;
		free_now = cursor_time(t, c, &at);
		if (best == NULL || (free_now && !best_free) ||
		    (free_now == best_free && at < *ts)) {
			best = c;
			best_free = free_now;
			*ts = at;
		}
	}
	return best;
}

static struct constraint *
take(struct kp_calls_merge *m, struct cursor *c, kp_target_ns ts,
    struct kp_call_event *ev)
{
	struct constraint *tie = cursor_tie(m->state, c);
	kp_dur_ns by = ts - c->ev.ts;

	if (by > 0) {
		c->floor = ts;
		m->moved++;
		if (by > m->moved_most)
			m->moved_most = by;
	}
	if (tie != NULL) {
		tie->at = ts;
		tie->done = true;
	}
	*ev = c->ev;
	ev->ts = ts;
	cursor_next(m->state, c);
	return tie;
}

/* ---- messages that were sent for another request than their label's ---- */

/* The request that this message was sent for. */
static uint32_t
sent_for(struct kp_merge_state *t, const struct kp_call_event *ev,
    const struct constraint *tie, uint32_t label)
{
	uint64_t key = constraints_message(ev->other, ev->serial);
	const uint64_t *moved;
	uint32_t request = label;

	if (label < t->nnumbers && t->began[label] == ev->proc + 1)
		return label;
	if (tie != NULL && tie->cause != TIE_NONE)
		return t->ties.v[tie->cause].request;
	if (tie != NULL && tie->unsent)
		return 0;
	moved = map_get(&t->moved, key);
	if (moved != NULL) {
		request = (uint32_t)*moved;
		map_remove(&t->moved, key);
	}
	return request;
}

static enum kp_err
own_message(struct kp_merge_state *t, struct kp_call_event *ev,
    struct constraint *tie)
{
	struct owner *o = &t->owners[ev->proc];
	uint32_t label = constraints_root(&t->ties, ev->request);
	bool send = ev->kind == KP_CALL_SEND;

	if (!send) {
		o->got = label;
		ev->request = sent_for(t, ev, tie, label);
		o->from = o->to = 0;
		if (ev->request != label) {
			o->from = label;
			o->to = ev->request;
		}
	} else if (label == o->from && o->to != o->from) {
		ev->request = o->to;
		if (!map_put(&t->moved, constraints_message(ev->proc,
		    ev->serial), o->to))
			return KP_ENOMEM;
	}
	if (send && tie != NULL)
		tie->request = constraints_root(&t->ties, ev->request);
	return KP_OK;
}

/* A process that works for a request without a message of it has begun it. */
static void
note_began(struct kp_merge_state *t, uint32_t request, uint32_t proc)
{
	if (request > 0 && request < t->nnumbers && t->began[request] == 0 &&
	    t->owners[proc].got != request)
		t->began[request] = proc + 1;
}

/* Says first what the process works for, if that has changed. */
static void
own_work(struct kp_merge_state *t, struct kp_call_event *ev)
{
	struct owner *o = &t->owners[ev->proc];
	uint32_t now;

	if (ev->kind == KP_CALL_REQUEST) {
		o->label = constraints_root(&t->ties, ev->other);
		note_began(t, o->label, ev->proc);
	}
	now = o->label > 0 && o->label == o->from ? o->to : o->label;
	if (ev->kind == KP_CALL_REQUEST) {
		ev->other = o->told = now;
	} else if (ev->kind == KP_CALL_CALL && now != o->told) {
		t->held = *ev;
		t->holds = true;
		o->told = now;
		*ev = (struct kp_call_event){ .kind = KP_CALL_REQUEST,
			.proc = ev->proc, .ts = ev->ts, .other = now };
	}
}

static bool
cursors_make(struct kp_merge_state *t, const void *p, size_t n)
{
	struct cursor *c;

	t->ncursors = t->names->nnodes;
	t->cursors = calloc(t->ncursors, sizeof(*t->cursors));
	t->at = calloc(t->names->nprocs + 1, sizeof(*t->at));
	t->numbers = constraints_numbers(&t->ties, &t->nnumbers);
	t->owners = calloc(t->names->nprocs + 1, sizeof(*t->owners));
	t->began = calloc((size_t)t->nnumbers + 1, sizeof(*t->began));
	if (t->cursors == NULL || t->at == NULL || t->numbers == NULL ||
	    t->owners == NULL || t->began == NULL)
		return false;
	for (uint32_t i = 0; i < t->ncursors; i++) {
		c = &t->cursors[i];
		c->floor = -KP_CALLS_TIME_MAX + 1;
		constraints_of(&t->ties, i, &c->tie, &c->ties_end);
		if (kp_calls_read_again(&c->r, p, n, t->names) == KP_OK)
			cursor_next(t, c);
	}
	return true;
}

enum kp_err
kp_calls_merge_begin(struct kp_calls_merge *m, const void *p, size_t n,
    struct kp_call_names *names)
{
	struct kp_merge_state *t = calloc(1, sizeof(*t));
	enum kp_err e;

	*m = (struct kp_calls_merge){ .state = t };
	if (t == NULL)
		return KP_ENOMEM;
	t->names = names;
	t->ties.names = names;
	e = read_once(m, p, n, names);
	if (e == KP_OK && kp_calls_several(names)) {
		constraints_settle(&t->ties);
		e = t->ties.err;
		if (e == KP_OK && !cursors_make(t, p, n))
			e = KP_ENOMEM;
	} else if (e == KP_OK) {
		kp_calls_merge_free(m);
		e = kp_calls_read_again(&m->plain, p, n, names);
	}
	return e;
}

enum kp_err
kp_calls_merge_next(struct kp_calls_merge *m, struct kp_call_event *ev)
{
	struct kp_merge_state *t = m->state;
	struct constraint *tie;
	struct cursor *c;
	kp_target_ns ts = 0;
	enum kp_err e;

	if (t == NULL) {
		e = kp_calls_read(&m->plain, ev);
		m->info = m->plain.info;
		return e;
	}
	do {
		if (t->holds) {
			*ev = t->held;
			t->holds = false;
			continue;
		}
		c = earliest(t, &ts);
		if (c == NULL) {
			*ev = (struct kp_call_event){ 0 };
			return KP_END;
		}
		tie = take(m, c, ts, ev);
		if (ev->kind != KP_CALL_SEND && ev->kind != KP_CALL_RECEIVE)
			own_work(t, ev);
		else if ((e = own_message(t, ev, tie)) != KP_OK)
			return e;
	} while (!keeps(t, ev));
	return KP_OK;
}

void
kp_calls_merge_free(struct kp_calls_merge *m)
{
	struct kp_merge_state *t = m->state;

	m->state = NULL;
	if (t == NULL)
		return;
	constraints_free(&t->ties);
	free(t->cursors);
	free(t->numbers);
	free(t->at);
	free(t->owners);
	free(t->began);
	map_free(&t->moved);
	free(t);
}
