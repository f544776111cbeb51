/*
 * sched_gc.c - pairs the starts and ends of pauses (scheduled out, or collecting
 * garbage) of each process, and keeps them until their request closes.
 *
 * A pause belongs to the innermost call that is open in its process, as self
 * time does.  A process causes no event between the two ends of a pause.  So if
 * one comes in between, or only one end comes, the other end was lost, and the
 * pause is not counted.  A process may be scheduled out during a collection:
 * that time is not part of the collection.
 *
 * A process that computes for long is scheduled out thousands of times.  Once a
 * request has PAUSES_APART pauses, further ones are merged with an earlier one
 * of the same call and kind: a pause is a sum of ns in the span from its start
 * to its end.
 */
#include <stdlib.h>

#include "request/state.h"

/* A process in a pause, with a call open. */
struct paused {
	kp_target_ns out, gc;	/* since when, if is_out, is_gc */
	kp_target_ns last;	/* its last other event: struct proc */
	bool is_out, is_gc;
};

/* The pauses of one request; `call` is an index into its calls in flight. */
struct pauses_of {
	uint32_t n, cap;
	struct kp_pause v[];
};

struct pauses {
	struct map procs;	/* process -> struct paused *, owned */
	struct map requests;	/* label -> struct pauses_of *, owned */
	size_t n;		/* of all requests */
	/* scratch */
	struct kp_pause *out;
	uint32_t outcap;
	uint32_t *where;
	uint32_t wherecap;
};

/* Room for one more of the request; NULL: there is none. */
static struct kp_pause *
pauses_room(struct pauses *ps, uint64_t label)
{
	struct pauses_of *of = map_find(&ps->requests, label), *more;
	uint32_t cap;

	if (ps->n >= PAUSES_MAX || (of != NULL && of->n >= PAUSES_OF_MAX))
		return NULL;
	if (of == NULL || of->n == of->cap) {
		cap = of != NULL ? 2 * of->cap : 4;
		more = realloc(of, sizeof(*of) + cap * sizeof(of->v[0]));
		if (more == NULL)
			return NULL;
		if (of == NULL)
			more->n = 0;
		more->cap = cap;
		of = more;
		if (!map_put(&ps->requests, label,
		    (uint64_t)(uintptr_t)of)) {
			/* only if it is new: others are in the table */
			free(of);
			return NULL;
		}
	}
	ps->n++;
	return &of->v[of->n++];
}

/* One of this call and kind to merge with, among the last 8; NULL: none. */
static struct kp_pause *
pauses_like(const struct pauses *ps, uint64_t label, uint32_t call,
    enum kp_pause_kind kind)
{
	struct pauses_of *of = map_find(&ps->requests, label);

	if (of == NULL || of->n < PAUSES_APART)
		return NULL;
	for (uint32_t i = of->n; i > of->n - 8; i--)
		if (of->v[i - 1].call == call && of->v[i - 1].kind == kind)
			return &of->v[i - 1];
	return NULL;
}

static void
pause_add(struct kp_requests *rs, const struct proc *p,
    enum kp_pause_kind kind, kp_target_ns from, kp_target_ns to)
{
	const struct open *top = &p->v[p->n - 1];
	struct pauses *ps = rs->pauses;
	struct kp_pause *at;

	/* Late and lost calls have no self time to divide. */
	if (top->kind != OPEN_REQUEST || top->rq->collided)
		return;
	from -= top->start;
	to -= top->start;
	if (from < 0)
		from = 0;
	if (to <= from)
		return;
	at = pauses_like(ps, top->rq->r.label, top->idx, kind);
	if (at != NULL) {
		at->to = to;
		at->ns += to - from;
		return;
	}
	at = pauses_room(ps, top->rq->r.label);
	if (at == NULL)
		p->node->lost.n[KP_LOSS_PAUSE_CAP]++;
	else
		*at = (struct kp_pause){ .call = top->idx,
			.kind = (uint8_t)kind, .from = from, .to = to,
			.ns = to - from };
}

static void
paused_drop(struct pauses *ps, uint64_t id)
{
	free(map_find(&ps->procs, id));
	map_remove(&ps->procs, id);
}

/* Drops processes that ended during a pause. */
static void
paused_sweep(struct kp_requests *rs)
{
	struct map *m = &rs->pauses->procs;

	if (m->len < 2 * rs->procs.len + 64)
		return;
	/* Removal shifts later entries back: look at a slot until it stays. */
	for (size_t i = 0; i < m->cap;)
		if (m->slots[i].key != 0 &&
		    proc_get(rs, m->slots[i].key) == NULL)
			paused_drop(rs->pauses, m->slots[i].key);
		else
			i++;
}

/* If another event of the process came meanwhile, an end was lost. */
static struct paused *
paused_make(struct kp_requests *rs, const struct proc *p)
{
	struct paused *s = map_find(&rs->pauses->procs, p->id);

	if (s == NULL) {
		paused_sweep(rs);
		s = calloc(1, sizeof(*s));
		if (s == NULL || !map_put(&rs->pauses->procs, p->id,
		    (uint64_t)(uintptr_t)s)) {
			free(s);
			return NULL;
		}
		s->last = p->last;
	}
	if (s->last != p->last) {
		p->node->lost.n[KP_LOSS_PAUSE] += s->is_out + s->is_gc;
		s->is_out = s->is_gc = false;
		s->last = p->last;
	}
	return s;
}

static void
on_out(struct kp_requests *rs, const struct proc *p, struct paused *s,
    kp_target_ns at)
{
	p->node->lost.n[KP_LOSS_PAUSE] += s->is_out;
	if (s->is_gc && !s->is_out)
		pause_add(rs, p, KP_PAUSE_GC, s->gc, at);
	s->is_out = true;
	s->out = at;
}

static void
on_in(struct kp_requests *rs, const struct proc *p, struct paused *s,
    kp_target_ns at)
{
	p->node->lost.n[KP_LOSS_PAUSE] += !s->is_out;
	if (s->is_out)
		pause_add(rs, p, KP_PAUSE_OUT, s->out, at);
	s->is_out = false;
	s->gc = at;
}

static void
on_gc_start(const struct proc *p, struct paused *s, kp_target_ns at)
{
	p->node->lost.n[KP_LOSS_PAUSE] += s->is_gc + s->is_out;
	s->is_out = false;
	s->is_gc = true;
	s->gc = at;
}

static void
on_gc_end(struct kp_requests *rs, const struct proc *p, struct paused *s,
    kp_target_ns at)
{
	p->node->lost.n[KP_LOSS_PAUSE] += !s->is_gc || s->is_out;
	if (s->is_gc && !s->is_out)
		pause_add(rs, p, KP_PAUSE_GC, s->gc, at);
	s->is_gc = s->is_out = false;
}

void
pauses_event(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev)
{
	uint64_t id = pid_key(nd->index, &ev->pid);
	const struct proc *p = proc_get(rs, id);
	struct paused *s;
	kp_target_ns at;

	if (p == NULL || p->n == 0) {
		/* It has the flags, but no call open yet, or any more. */
		if (rs->pauses != NULL)
			paused_drop(rs->pauses, id);
		return;
	}
	if (ev->ts >= KP_TARGET_TIME_MAX || ev->ts <= -KP_TARGET_TIME_MAX) {
		nd->lost.n[KP_LOSS_BAD_EVENT]++;
		return;
	}
	if (rs->pauses == NULL)
		rs->pauses = calloc(1, sizeof(*rs->pauses));
	s = rs->pauses != NULL ? paused_make(rs, p) : NULL;
	if (s == NULL) {
		nd->lost.n[KP_LOSS_PAUSE_CAP]++;
		return;
	}
	at = ev->ts > p->last ? ev->ts : p->last;
	if (ev->kind == KP_EV_OUT)
		on_out(rs, p, s, at);
	else if (ev->kind == KP_EV_IN)
		on_in(rs, p, s, at);
	else if (ev->kind == KP_EV_GC_START)
		on_gc_start(p, s, at);
	else
		on_gc_end(rs, p, s, at);
	if (!s->is_out && !s->is_gc)
		paused_drop(rs->pauses, id);
}

static bool
scratch_room(struct pauses *ps, uint32_t npauses, uint32_t ncalls)
{
	struct kp_pause *out;
	uint32_t *where;

	if (npauses > ps->outcap) {
		out = realloc(ps->out, npauses * sizeof(*out));
		if (out == NULL)
			return false;
		ps->out = out;
		ps->outcap = npauses;
	}
	if (ncalls > ps->wherecap) {
		where = realloc(ps->where, ncalls * sizeof(*where));
		if (where == NULL)
			return false;
		ps->where = where;
		ps->wherecap = ncalls;
	}
	return true;
}

void
pauses_hand_on(struct kp_requests *rs, struct req *rq, const uint32_t *source,
    size_t step)
{
	struct pauses *ps = rs->pauses;
	const struct pauses_of *of = map_find(&ps->requests, rq->r.label);
	struct kp_pause *to;

	rq->r.npauses = 0;
	if (of == NULL)
		return;
	if (!scratch_room(ps, of->n, rq->ncalls)) {
		rs->nodes[rq->r.node].lost.n[KP_LOSS_PAUSE_CAP] += of->n;
		return;
	}
	for (uint32_t i = 0; i < rq->ncalls; i++)
		ps->where[i] = KP_NONE;
	for (uint32_t i = 0; i < rq->r.ncalls; i++)
		ps->where[source[i * step]] = i;
	for (uint32_t i = 0; i < of->n; i++) {
		/* Calls that go on as late ones are not in r.calls. */
		if (ps->where[of->v[i].call] == KP_NONE)
			continue;
		to = &ps->out[rq->r.npauses++];
		*to = of->v[i];
		to->call = ps->where[of->v[i].call];
	}
	rq->r.pauses = ps->out;
}

void
pauses_forget(struct kp_requests *rs, uint64_t label)
{
	struct pauses_of *of = map_find(&rs->pauses->requests, label);

	if (of == NULL)
		return;
	rs->pauses->n -= of->n;
	free(of);
	map_remove(&rs->pauses->requests, label);
}

void
pauses_give(struct kp_requests *rs, struct rnode *nd, uint64_t from,
    uint64_t label, uint32_t by)
{
	const struct pauses_of *of = map_find(&rs->pauses->requests, from);
	struct kp_pause *at;

	for (uint32_t i = 0; of != NULL && i < of->n; i++) {
		at = pauses_room(rs->pauses, label);
		if (at == NULL) {
			nd->lost.n[KP_LOSS_PAUSE_CAP]++;
			continue;
		}
		*at = of->v[i];
		at->call += by;
	}
	pauses_forget(rs, from);
}

void
pauses_detach(struct kp_requests *rs, const struct rnode *nd)
{
	struct map *m = &rs->pauses->procs;

	/* Removal shifts later entries back: look at a slot until it stays. */
	for (size_t i = 0; i < m->cap;)
		if (m->slots[i].key != 0 &&
		    m->slots[i].key >> PID_NODE == nd->index)
			paused_drop(rs->pauses, m->slots[i].key);
		else
			i++;
}

static void
owned_free(struct map *m)
{
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].key != 0)
			free((void *)(uintptr_t)m->slots[i].val);
	map_free(m);
}

void
pauses_free(struct kp_requests *rs)
{
	if (rs->pauses == NULL)
		return;
	owned_free(&rs->pauses->procs);
	owned_free(&rs->pauses->requests);
	free(rs->pauses->out);
	free(rs->pauses->where);
	free(rs->pauses);
	rs->pauses = NULL;
}
