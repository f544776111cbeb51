/*
 * merge_nodes.c - reads the file twice: once for what ties the nodes to each
 * other, once to give the events in order.
 *
 * The first reading collects ties: messages from node to node, and who worked
 * for a request first.  In the second one each node has a reader of its own,
 * which passes over what others did.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/calls_merge.h"
#include "clock_constraints.h"

/* Where a node's events are read. */
struct cursor {
	struct kp_calls_reader r;
	uint64_t seq;		/* in the file: of the event that is next */
	struct kp_call_event ev;
	bool any;		/* there is one */
	uint32_t tie, ties_end;	/* of its ties */
	kp_target_ns floor;	/* nothing comes before that any more */
};

struct kp_merge_state {
	struct kp_call_names *names;
	struct constraints ties;
	struct cursor *cursors;	/* by node */
	uint32_t ncursors;
	uint32_t *numbers;	/* request in the file -> in order, or 0 */
	uint32_t nnumbers;
	uint32_t *at;		/* process -> what it works for: see keeps() */
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
	struct kp_calls_said said = { on_begun, on_same, t };
	struct kp_calls_reader r;
	struct kp_call_event ev;
	enum kp_err e = kp_calls_read_begin(&r, p, n, names);
	uint64_t seq = 0;

	m->begun = e == KP_OK;
	r.said = &said;
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
	return kp_call_proc(t->names, ev->proc)->node == node;
}

/*
 * Of requests that were asked for, and, where there are none, of whatever a
 * process does: then it has worked for nothing yet.  0 in `at`: it never did;
 * 1: for none of them; else the number + 1.
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

/* Its tie, if this event has one: what went before has been passed. */
static struct constraint *
cursor_tie(struct kp_merge_state *t, struct cursor *c)
{
	struct constraint *v = t->ties.v;

	while (c->tie < c->ties_end && v[c->tie].seq < c->seq - 1)
		c->tie++;
	return c->tie < c->ties_end && v[c->tie].seq == c->seq - 1 ?
	    &v[c->tie] : NULL;
}

/* When its event is; false: its cause is still to come. */
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

/* The earliest; of a file that no nodes made, one whose cause never comes. */
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

static void
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
}

static bool
cursors_make(struct kp_merge_state *t, const void *p, size_t n)
{
	struct cursor *c;

	t->ncursors = kp_call_nodes(t->names);
	t->cursors = calloc(t->ncursors, sizeof(*t->cursors));
	t->at = calloc(kp_call_procs(t->names) + 1, sizeof(*t->at));
	t->numbers = constraints_numbers(&t->ties, &t->nnumbers);
	if (t->cursors == NULL || t->at == NULL || t->numbers == NULL)
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
	struct cursor *c;
	kp_target_ns ts = 0;
	enum kp_err e;

	if (m->state == NULL) {
		e = kp_calls_read(&m->plain, ev);
		m->info = m->plain.info;
		return e;
	}
	do {
		c = earliest(m->state, &ts);
		if (c == NULL)
			break;
		take(m, c, ts, ev);
	} while (!keeps(m->state, ev));
	if (c != NULL)
		return KP_OK;
	*ev = (struct kp_call_event){ 0 };
	return KP_END;
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
	free(t);
}
