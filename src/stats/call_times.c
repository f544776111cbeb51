/*
 * call_times.c - computes how the time of a request is spread over its calls: self
 * times, the traced calls made, and the pauses of processes.  Calls are sorted by
 * start, and a parent has the lower index.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "state.h"

/* ------------------------------------------------------------ self times ---- */

/*
 * A call's self time is its own time less the union of the calls it waited for.
 *
 * A call waits for its children in the tree, clipped to it.  No call inside the
 * request waited for one that began after its end, but a parent that began
 * after the end too may have.
 *
 * A call without a duration has no self time, and does not show how long its
 * parent waited for it; but the calls made inside it do.  They count as made by
 * the nearest call around it that has a duration and still ran, so that the
 * self times of a sequential request add up to its total even if something
 * inside is unknown.
 *
 * Calls are sorted by start, so each parent's children are too, and a union is
 * one pass: p is covered up to reach[p].
 */

/* Returns the call that waited for call i: see above.  KP_NONE: none timed. */
static uint32_t
waiter(const struct kp_request *rq, const kp_dur_ns *self, uint32_t i)
{
	uint32_t at = i, up;

	do {
		up = rq->calls[at].parent;
		at = up < at ? up : KP_NONE;
	} while (at != KP_NONE && (self[at] < 0 ||
	    rq->calls[at].end <= rq->calls[i].start));
	return at;
}

/*
 * Calls fn for each span in which a call waited for others of the request.  The
 * spans of one call do not overlap, and are in order of time.  self: -1 where a
 * call has no duration; reach: the starts of all calls.
 */
static inline __attribute__((always_inline)) void
each_wait(const struct kp_request *rq, const kp_dur_ns *self,
    kp_target_ns *reach,
    void (*fn)(void *ctx, uint32_t call, kp_target_ns from, kp_target_ns to), void *ctx)
{
	const struct kp_call *c, *p;
	kp_target_ns from, to;
	uint32_t by;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		by = self[i] < 0 ? KP_NONE : waiter(rq, self, i);
		if (by == KP_NONE)
			continue;
		p = &rq->calls[by];
		if (c->async && !p->async)
			continue;
		from = c->start > reach[by] ? c->start : reach[by];
		to = c->end < p->end ? c->end : p->end;
		if (to <= from)
			continue;
		fn(ctx, by, from, to);
		reach[by] = to;
	}
}

static inline void
take_wait(void *ctx, uint32_t by, kp_target_ns from, kp_target_ns to)
{
	kp_dur_ns *self = ctx;

	self[by] -= sat_span(from, to);
}

void
request_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach)
{
	const struct kp_call *c;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		reach[i] = c->start;
		self[i] = kp_outcome_timed(c->outcome) ?
		    sat_span(c->start, c->end) : -1;
	}
	each_wait(rq, self, reach, take_wait, self);
}

enum kp_err
kp_request_self(const struct kp_request *rq, kp_dur_ns *self)
{
	kp_target_ns *reach;

	if (rq->ncalls == 0)
		return KP_OK;
	reach = calloc(rq->ncalls, sizeof(*reach));
	if (reach == NULL)
		return KP_ENOMEM;
	request_self(rq, self, reach);
	free(reach);
	return KP_OK;
}

/* ------------------------------- self times of calls that outlast their request ---- */

/*
 * Such a call waited inside the request for the calls made in it, at any depth as long as
 * the calls between have no duration either: for each that ended, and, from its
 * start on, for a call of its own process that outlasts the request too.  After
 * that it is done: of the open calls nested in a process only the innermost is
 * still considered.
 */

static uint32_t
parent(const struct kp_request *rq, uint32_t i)
{
	return rq->calls[i].parent < i ? rq->calls[i].parent : KP_NONE;
}

/*
 * Returns the nearest call, from i outwards, that outlasts the request and is
 * not done.  up[] leads there; up[i] == i marks such a call.
 */
static uint32_t
around(uint32_t *up, uint32_t i)
{
	while (i != KP_NONE && up[i] != i) {
		if (up[i] != KP_NONE)
			up[i] = up[up[i]];
		i = up[i];
	}
	return i;
}

static void
begin(const struct kp_request *rq, kp_dur_ns *self, kp_target_ns *reach,
    uint32_t *up)
{
	const struct kp_call *c;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		up[i] = kp_outcome_timed(c->outcome) ? KP_NONE : parent(rq, i);
		if (!c->outlasts)
			continue;
		self[i] = sat_span(c->start, rq->end);
		reach[i] = c->start;
		if (c->start < rq->end)
			up[i] = i;
	}
}

/* Subtracts from the self time of call x that it waited for c. */
static void
wait_for(const struct kp_request *rq, const struct kp_call *c, uint32_t x,
    kp_dur_ns *self, kp_target_ns *reach, uint32_t *up)
{
	kp_target_ns from = c->start > reach[x] ? c->start : reach[x];
	kp_target_ns to = c->end < rq->end ? c->end : rq->end;

	if (to <= from)
		return;
	self[x] -= sat_span(from, to);
	reach[x] = to;
	if (to == rq->end)
		up[x] = parent(rq, x);
}

static void
give_up(const struct kp_request *rq, kp_dur_ns *self)
{
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].outlasts)
			self[i] = -1;
}

bool
inside_self(const struct kp_request *rq, kp_dur_ns *self, kp_target_ns *reach,
    uint32_t *up)
{
	const struct kp_call *c;
	uint32_t steps = 0;
	bool ended;

	begin(rq, self, reach, up);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		ended = kp_outcome_timed(c->outcome);
		if (c->async || !(ended || c->outlasts))
			continue;
		for (uint32_t x = around(up, parent(rq, i)); x != KP_NONE;
		    x = around(up, parent(rq, x))) {
			if (++steps > INSIDE_STEPS_MAX) {
				give_up(rq, self);
				return false;
			}
			if (ended || c->proc == rq->calls[x].proc)
				wait_for(rq, c, x, self, reach, up);
		}
	}
	return true;
}

struct inside *
inside_keep(struct insides *in, uint32_t number, unsigned tiers)
{
	struct inside *x = calloc(1, sizeof(*x) + tiers * sizeof(x->v[0]));

	if (x == NULL || map_put(&in->by_number, number,
	    (uint64_t)(uintptr_t)x))
		return x;
	free(x);
	return NULL;
}

struct inside *
inside_take(struct insides *in, uint32_t number)
{
	uint64_t *at = map_get(&in->by_number, number);
	struct inside *x;

	if (at == NULL)
		return NULL;
	x = (struct inside *)(uintptr_t)*at;
	map_remove(&in->by_number, number);
	return x;
}

void
insides_free(struct insides *in)
{
	const struct map_slot *at;
	size_t i = 0;

	while ((at = map_next(&in->by_number, &i)) != NULL)
		free((void *)(uintptr_t)at->val);
	map_free(&in->by_number);
}

/* ---------------------------------------------------------- calls made ---- */

/* Returns whether the caller seems to have waited for its end. */
static bool
is_waited_for(const struct kp_call *c, const struct kp_call *by)
{
	if (c->async && !by->async)
		return false;
	return !kp_outcome_timed(c->outcome) || !kp_outcome_timed(by->outcome) ||
	    c->end <= by->end;
}

void
request_made(const struct kp_request *rq, struct call_made *v)
{
	const struct kp_call *c;

	for (uint32_t i = 0; i < rq->ncalls; i++)
		v[i] = (struct call_made){ 0 };
	/* children first */
	for (uint32_t i = rq->ncalls; i-- > 0;) {
		c = &rq->calls[i];
		if (c->parent >= i || !is_waited_for(c, &rq->calls[c->parent]))
			continue;
		v[c->parent].made++;
		v[c->parent].all += v[i].all + 1;
	}
}

/* -------------------------------------------------------------- pauses ---- */

/*
 * Each pause is charged to the call whose self time holds it.
 *
 * A pause was recorded for the innermost call that seemed open in its process.
 * If that call has no duration, or had in fact ended, the pause is charged to
 * the next call around it in the same process that has one.  The time that a
 * call waits for others is not self time, though its process is scheduled out
 * meanwhile: only the rest of a pause counts.  A pause that was merged from
 * several is assumed to be spread evenly over its span.
 */

/* A pause of the call whose self time holds it; from, to: as in calls. */
struct charge {
	uint32_t call;
	uint8_t kind;
	kp_target_ns from, to;
	kp_dur_ns ns, left;
};

void
pause_sums_free(struct pause_sums *s)
{
	free(s->v);
	free(s->first);
	free(s->charges);
	*s = (struct pause_sums){ 0 };
}

static bool
room(struct pause_sums *s, const struct kp_request *rq)
{
	struct kp_call_pauses *v;
	struct charge *charges;
	uint32_t *first;

	if (rq->ncalls > s->cap) {
		v = realloc(s->v, rq->ncalls * sizeof(*v));
		if (v == NULL)
			return false;
		s->v = v;
		first = realloc(s->first, (rq->ncalls + 1) * sizeof(*first));
		if (first == NULL)
			return false;
		s->first = first;
		s->cap = rq->ncalls;
	}
	if (rq->npauses > s->chargecap) {
		charges = realloc(s->charges, rq->npauses * sizeof(*charges));
		if (charges == NULL)
			return false;
		s->charges = charges;
		s->chargecap = rq->npauses;
	}
	return true;
}

/* Returns the call whose self time holds the pause; KP_NONE: no call's. */
static uint32_t
charged(const struct kp_request *rq, const kp_dur_ns *self, uint32_t call,
    kp_target_ns from)
{
	uint64_t proc = rq->calls[call].proc;
	uint32_t up;

	while (self[call] < 0 || rq->calls[call].end <= from) {
		up = rq->calls[call].parent;
		if (up >= call || rq->calls[up].proc != proc)
			return KP_NONE;
		call = up;
	}
	return call;
}

static void
charge(struct pause_sums *s, const struct kp_request *rq,
    const kp_dur_ns *self, const struct kp_pause *p)
{
	struct charge c = { .kind = p->kind, .ns = p->ns, .left = p->ns };
	const struct kp_call *call = &rq->calls[p->call];

	c.from = sat_add(call->start, p->from);
	c.to = sat_add(call->start, p->to);
	c.call = charged(rq, self, p->call, c.from);
	if (c.call == KP_NONE)
		return;
	call = &rq->calls[c.call];
	if (c.from < call->start)
		c.from = call->start;
	if (c.to > call->end)
		c.to = call->end;
	if (c.to <= c.from)
		return;
	if (c.left > c.to - c.from)
		c.ns = c.left = c.to - c.from;
	s->charges[s->ncharges++] = c;
}

static int
charge_cmp(const void *pa, const void *pb)
{
	const struct charge *a = pa, *b = pb;

	if (a->call != b->call)
		return a->call < b->call ? -1 : 1;
	return (a->from > b->from) - (a->from < b->from);
}

/* Sorts by call and time; first[i] becomes the first of call i. */
static void
index_charges(struct pause_sums *s, uint32_t ncalls)
{
	size_t at = 0;

	qsort(s->charges, s->ncharges, sizeof(*s->charges), charge_cmp);
	for (uint32_t i = 0; i < ncalls; i++) {
		s->first[i] = (uint32_t)at;
		while (at < s->ncharges && s->charges[at].call == i)
			at++;
	}
}

/* Subtracts a span in which the call waited; those of one come in order. */
static void
waited(void *ctx, uint32_t call, kp_target_ns from, kp_target_ns to)
{
	struct pause_sums *s = ctx;
	kp_target_ns begin, end;
	struct charge *c;

	for (size_t i = s->first[call]; i < s->ncharges; i++) {
		c = &s->charges[i];
		if (c->call != call || c->from >= to)
			return;
		if (c->to <= from) {
			s->first[call] += i == s->first[call];
			continue;
		}
		begin = c->from > from ? c->from : from;
		end = c->to < to ? c->to : to;
		c->left -= (kp_dur_ns)((double)c->ns *
		    ((double)(end - begin) / (double)(c->to - c->from)) + 0.5);
	}
}

const struct kp_call_pauses *
pause_sums(struct pause_sums *s, const struct kp_request *rq,
    const kp_dur_ns *self, kp_target_ns *reach)
{
	struct kp_call_pauses *p;
	struct charge *c;

	if (!room(s, rq))
		return NULL;
	s->ncharges = 0;
	for (uint32_t i = 0; i < rq->ncalls; i++)
		s->v[i] = (struct kp_call_pauses){ 0, 0 };
	for (uint32_t i = 0; i < rq->npauses; i++)
		charge(s, rq, self, &rq->pauses[i]);
	if (s->ncharges == 0)
		return s->v;
	index_charges(s, rq->ncalls);
	for (uint32_t i = 0; i < rq->ncalls; i++)
		reach[i] = rq->calls[i].start;
	each_wait(rq, self, reach, waited, s);
	for (size_t i = 0; i < s->ncharges; i++) {
		c = &s->charges[i];
		p = &s->v[c->call];
		/* Rounding may exceed the self time. */
		if (c->left > self[c->call] - p->out - p->gc)
			c->left = self[c->call] - p->out - p->gc;
		if (c->left > 0)
			*(c->kind == KP_PAUSE_GC ? &p->gc : &p->out) += c->left;
	}
	return s->v;
}

enum kp_err
kp_request_pauses(const struct kp_request *rq, const kp_dur_ns *self,
    struct kp_call_pauses *pauses)
{
	const struct kp_call_pauses *v = NULL;
	struct pause_sums s = { .cap = 0 };
	kp_target_ns *reach;

	for (uint32_t i = 0; i < rq->ncalls; i++)
		pauses[i] = (struct kp_call_pauses){ 0, 0 };
	if (rq->npauses == 0)
		return KP_OK;
	reach = calloc(rq->ncalls, sizeof(*reach));
	if (reach != NULL)
		v = pause_sums(&s, rq, self, reach);
	if (v != NULL)
		memcpy(pauses, v, rq->ncalls * sizeof(*v));
	pause_sums_free(&s);
	free(reach);
	return v != NULL ? KP_OK : KP_ENOMEM;
}
