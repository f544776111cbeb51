/*
 * critical_path.c - collects the work of processes for each request, and finds
 * its critical path from the end.
 *
 * Events that show what a process did are kept, and sorted by process and time
 * at the end; a path is then found by going back through them.  The number of
 * steps back is bounded, since a file may contain anything.
 */
#include <stdlib.h>
#include <string.h>

#include "calls/critical_path.h"
#include "base/map.h"
#include "base/sat.h"
#include "base/vec.h"

#define LOOKS_MAX 10000000u	/* records looked at for one path */

struct rec {
	kp_target_ns ts;
	uint32_t proc, other, request, serial;
	uint32_t seq;		/* in the trace */
	enum kp_call_kind kind;
};

struct kp_critical_path_state {
	struct rec *recs;
	uint32_t nrecs;
	struct map requests;	/* number -> request */
	struct map open;	/* process -> request that it began */
	struct map works;	/* request, process -> work */
	struct map sends;	/* request, sender, serial -> rec */
	enum kp_err err;
};

static uint64_t
key2(uint64_t a, uint32_t b)
{
	return (a << 20 | b) + 1;
}

static uint64_t
message_key(uint32_t request, uint32_t from, uint32_t serial)
{
	/* The low bits of a serial suffice: serials count up. */
	return key2((uint64_t)request << 20 | from, serial & 0xfffff);
}

struct kp_critical_path *
kp_critical_path_new(void)
{
	struct kp_critical_path *w = calloc(1, sizeof(*w));

	if (w != NULL)
		w->state = calloc(1, sizeof(*w->state));
	if (w == NULL || w->state == NULL) {
		free(w);
		return NULL;
	}
	return w;
}

void
kp_critical_path_free(struct kp_critical_path *w)
{
	if (w == NULL)
		return;
	free(w->state->recs);
	map_free(&w->state->requests);
	map_free(&w->state->open);
	map_free(&w->state->works);
	map_free(&w->state->sends);
	free(w->state);
	free(w->requests);
	free(w->works);
	free(w);
}

/* False after noting why there is no room. */
static bool
has_room(struct kp_critical_path *w, enum kp_err room)
{
	if (room == KP_ELIMIT)
		w->overflow++;
	else if (room != KP_OK)
		w->state->err = room;
	return room == KP_OK;
}

static void
remember(struct kp_critical_path *w, struct map *m, uint64_t key, uint64_t val)
{
	if (!map_put(m, key, val))
		w->state->err = KP_ENOMEM;
}

/* ---- while the trace is read ---- */

static void
rec_add(struct kp_critical_path *w, const struct kp_call_event *ev)
{
	struct kp_critical_path_state *t = w->state;

	if (!has_room(w, vec_room_by_len(&t->recs, t->nrecs,
	    KP_CRITICAL_EVENTS_MAX)))
		return;
	t->recs[t->nrecs] = (struct rec){ .ts = ev->ts, .proc = ev->proc,
		.other = ev->other, .serial = ev->serial, .seq = t->nrecs,
		.kind = ev->kind, .request = ev->kind == KP_CALL_REQUEST ?
		    ev->other : ev->request };
	t->nrecs++;
}

/* The first process seen in a request has begun it. */
static void
request_add(struct kp_critical_path *w, const struct kp_call_event *ev)
{
	struct kp_critical_path_state *t = w->state;

	if (ev->other == 0 || map_get(&t->requests, ev->other) != NULL)
		return;
	if (!has_room(w, vec_room_by_len(&w->requests, w->nrequests,
	    KP_CRITICAL_EVENTS_MAX)))
		return;
	w->requests[w->nrequests] = (struct kp_critical_path_request){
		.number = ev->other, .proc = ev->proc, .begin = ev->ts, .end = ev->ts };
	remember(w, &t->requests, ev->other, w->nrequests);
	remember(w, &t->open, (uint64_t)ev->proc + 1, w->nrequests);
	w->nrequests++;
}

/* Notes whether the call that began a request has returned. */
static void
follow(struct kp_critical_path *w, const struct kp_call_event *ev)
{
	uint64_t *open = map_get(&w->state->open, (uint64_t)ev->proc + 1);
	struct kp_critical_path_request *r;

	if (open == NULL)
		return;
	r = &w->requests[*open];
	if (ev->ts > r->end)
		r->end = ev->ts;
	if (ev->kind == KP_CALL_CALL && !r->called) {
		r->called = true;
		r->fn = ev->fn;
		r->caller = ev->other;
		r->args = ev->args;
	}
	r->ended = ev->kind == KP_CALL_EXIT || (r->called &&
	    ev->kind == KP_CALL_RETURN_TO && ev->fn == r->caller);
	if (r->ended)
		map_remove(&w->state->open, (uint64_t)ev->proc + 1);
}

enum kp_err
kp_critical_path_add(struct kp_critical_path *w, const struct kp_call_event *ev)
{
	if (w->state->err != KP_OK)
		return w->state->err;
	if (ev->kind == KP_CALL_REQUEST)
		request_add(w, ev);
	follow(w, ev);
	switch (ev->kind) {
	case KP_CALL_IN:
	case KP_CALL_OUT:
	case KP_CALL_GC_START:
	case KP_CALL_GC_END:
	case KP_CALL_REQUEST:
	case KP_CALL_SEND:
	case KP_CALL_RECEIVE:
		rec_add(w, ev);
		break;
	default:
		break;
	}
	return w->state->err;
}

static struct kp_critical_path_work *
work_of(struct kp_critical_path *w, uint32_t request, uint32_t proc, kp_target_ns ts)
{
	struct kp_critical_path_state *t = w->state;
	uint64_t key = key2(request, proc);
	uint64_t *known = map_get(&t->works, key);
	struct kp_critical_path_work *v = w->works;

	if (known == NULL) {
		if (!has_room(w, vec_room_by_len(&w->works, w->nworks,
		    KP_CRITICAL_EVENTS_MAX)))
			return NULL;
		v = w->works;
		v[w->nworks] = (struct kp_critical_path_work){ .request = request,
			.proc = proc, .by = KP_PROC_NONE, .first = ts };
		remember(w, &t->works, key, w->nworks);
		return &v[w->nworks++];
	}
	if (ts < v[*known].first)
		v[*known].first = ts;
	return &v[*known];
}

void
kp_critical_path_spent(struct kp_critical_path *w, uint32_t request, uint32_t proc,
    enum kp_critical_path_part part, kp_target_ns from, kp_target_ns to)
{
	struct kp_critical_path_work *k = request > 0 ?
	    work_of(w, request, proc, from) : NULL;

	if (k != NULL)
		k->parts[part] = sat_add(k->parts[part], sat_span(from, to));
}

/* ---- at the end of the trace ---- */

static int
rec_order(const void *a, const void *b)
{
	const struct rec *x = a, *y = b;

	if (x->proc != y->proc)
		return (x->proc > y->proc) - (x->proc < y->proc);
	if (x->ts != y->ts)
		return (x->ts > y->ts) - (x->ts < y->ts);
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static int
work_order(const void *a, const void *b)
{
	const struct kp_critical_path_work *x = a, *y = b;

	if (x->request != y->request)
		return (x->request > y->request) - (x->request < y->request);
	if (x->first != y->first)
		return (x->first > y->first) - (x->first < y->first);
	return (x->proc > y->proc) - (x->proc < y->proc);
}

/* NULL: the sending was not seen, or is of another message with this number. */
static const struct rec *
sent(const struct kp_critical_path *w, const struct rec *r)
{
	const struct kp_critical_path_state *t = w->state;
	uint64_t *i = map_get(&t->sends, message_key(r->request, r->other,
	    r->serial));
	const struct rec *s = i != NULL ? &t->recs[*i] : NULL;

	return s != NULL && s->serial == r->serial && s->ts <= r->ts ? s :
	    NULL;
}

static void
received(struct kp_critical_path *w, const struct rec *r)
{
	const struct rec *s = sent(w, r);
	struct kp_critical_path_work *k = work_of(w, r->request, r->proc, r->ts);

	if (k == NULL)
		return;
	if (k->first == r->ts && k->messages == 0)
		k->by = r->other;
	k->messages++;
	if (s != NULL)
		k->parts[KP_PART_MAILBOX] = sat_add(k->parts[KP_PART_MAILBOX],
		    sat_span(s->ts, r->ts));
}

enum kp_err
kp_critical_path_end(struct kp_critical_path *w)
{
	struct kp_critical_path_state *t = w->state;
	const struct rec *r;

	if (t->nrecs > 0)
		qsort(t->recs, t->nrecs, sizeof(*t->recs), rec_order);
	for (uint32_t i = 0; i < t->nrecs; i++) {
		r = &t->recs[i];
		if (r->kind == KP_CALL_SEND)
			remember(w, &t->sends, message_key(r->request,
			    r->proc, r->serial), i);
	}
	for (uint32_t i = 0; i < t->nrecs; i++)
		if (t->recs[i].kind == KP_CALL_RECEIVE &&
		    t->recs[i].request > 0)
			received(w, &t->recs[i]);
	if (w->nworks > 0)
		qsort(w->works, w->nworks, sizeof(*w->works), work_order);
	return t->err;
}

/* ---- the critical path ---- */

struct walk {
	const struct kp_critical_path *w;
	const struct kp_critical_path_request *r;
	struct kp_critical_path_step *steps;	/* the last first */
	uint32_t n, looks;
};

/* The number of records up to those of proc at ts. */
static uint32_t
up_to(const struct kp_critical_path_state *t, uint32_t proc, kp_target_ns ts)
{
	uint32_t low = 0, high = t->nrecs, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (t->recs[mid].proc < proc || (t->recs[mid].proc == proc &&
		    t->recs[mid].ts <= ts))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* True if the process ran then, for the request. */
static bool
was_busy(struct walk *k, uint32_t proc, kp_target_ns ts)
{
	const struct kp_critical_path_state *t = k->w->state;
	bool runs = proc == k->r->proc;
	const struct rec *e;

	for (uint32_t i = up_to(t, proc, ts); i-- > 0; k->looks++) {
		e = &t->recs[i];
		if (e->proc != proc || e->kind == KP_CALL_OUT ||
		    k->looks > LOOKS_MAX)
			return false;
		if (e->kind == KP_CALL_IN)
			runs = true;
		if (e->request > 0 || e->kind == KP_CALL_REQUEST)
			return runs && e->request == k->r->number;
	}
	return false;
}

/* The message that proc had waited for before ts, or NULL. */
static const struct rec *
waited_for(struct walk *k, uint32_t proc, kp_target_ns ts)
{
	const struct kp_critical_path_state *t = k->w->state;
	const struct rec *e, *s;

	for (uint32_t i = up_to(t, proc, ts); i-- > 0; k->looks++) {
		e = &t->recs[i];
		if (e->proc != proc || e->ts < k->r->begin ||
		    k->looks > LOOKS_MAX)
			return NULL;
		if (e->kind != KP_CALL_RECEIVE ||
		    e->request != k->r->number)
			continue;
		s = sent(k->w, e);
		if (s != NULL && s->ts >= k->r->begin &&
		    !was_busy(k, proc, s->ts))
			return e;
	}
	return NULL;
}

static void
step_add(struct walk *k, const struct kp_critical_path_step *step)
{
	if (k->n < KP_CRITICAL_STEPS_MAX && step->to > step->from)
		k->steps[k->n++] = *step;
}

/* Adds a step of a process that ran when the step began. */
static void
step_within(struct walk *k, uint32_t proc, kp_target_ns from, kp_target_ns to)
{
	const struct kp_critical_path_state *t = k->w->state;
	struct kp_critical_path_step step = { .proc = proc, .from = from, .to = to };
	uint32_t end = up_to(t, proc, to);
	enum kp_critical_path_part part = KP_PART_OWN;
	kp_target_ns at = from;

	for (uint32_t i = up_to(t, proc, from); i < end; i++) {
		step.parts[part] += t->recs[i].ts - at;
		at = t->recs[i].ts;
		if (t->recs[i].kind == KP_CALL_OUT)
			part = KP_PART_OUT;
		else if (t->recs[i].kind == KP_CALL_GC_START)
			part = KP_PART_GC;
		else if (t->recs[i].kind == KP_CALL_IN ||
		    t->recs[i].kind == KP_CALL_GC_END)
			part = KP_PART_OWN;
	}
	step.parts[part] += to - at;
	step_add(k, &step);
}

static void
walk_back(struct walk *k)
{
	uint32_t proc = k->r->proc;
	kp_target_ns at = k->r->end;
	const struct rec *e, *s;
	struct kp_critical_path_step wait;

	while (k->n < KP_CRITICAL_STEPS_MAX && k->looks < LOOKS_MAX) {
		e = waited_for(k, proc, at);
		if (e == NULL)
			break;
		step_within(k, proc, e->ts, at);
		s = sent(k->w, e);
		wait = (struct kp_critical_path_step){ .proc = proc, .from = s->ts,
			.to = e->ts };
		wait.parts[KP_PART_MAILBOX] = e->ts - s->ts;
		step_add(k, &wait);
		if (s->ts == at && s->proc == proc)
			break;	/* a real node cannot send this */
		at = s->ts;
		proc = s->proc;
	}
	step_within(k, proc, k->r->begin, at);
}

enum kp_err
kp_critical_path_steps(const struct kp_critical_path *w,
    const struct kp_critical_path_request *r,
    struct kp_critical_path_step **steps, uint32_t *n)
{
	struct walk k = { .w = w, .r = r };
	struct kp_critical_path_step last;

	*n = 0;
	*steps = k.steps = calloc(KP_CRITICAL_STEPS_MAX, sizeof(*k.steps));
	if (k.steps == NULL)
		return KP_ENOMEM;
	if (!r->ended)
		return KP_OK;
	walk_back(&k);
	for (uint32_t i = 0; i < k.n / 2; i++) {
		last = k.steps[k.n - 1 - i];
		k.steps[k.n - 1 - i] = k.steps[i];
		k.steps[i] = last;
	}
	*n = k.n;
	return k.n == KP_CRITICAL_STEPS_MAX || k.looks >= LOOKS_MAX ? KP_ELIMIT :
	    KP_OK;
}
