/*
 * sched_gc.c - charges each pause to the call whose self time holds it.
 *
 * A pause was recorded for the innermost call that seemed open in its process.
 * If that call has no duration, or had in fact ended, the pause is charged to
 * the next call around it in the same process that has one.  The time that a
 * call waits for others is not self time, though its process is scheduled out
 * meanwhile: only the rest of a pause counts.  A pause that was merged from
 * several is assumed to be spread evenly over its span.
 */
#include <stdlib.h>

#include "sched_gc.h"
#include "base/sat.h"
#include "self.h"

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
	struct call_pauses *v;
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

const struct call_pauses *
pause_sums(struct pause_sums *s, const struct kp_request *rq,
    const kp_dur_ns *self, kp_target_ns *reach)
{
	struct call_pauses *p;
	struct charge *c;

	if (!room(s, rq))
		return NULL;
	s->ncharges = 0;
	for (uint32_t i = 0; i < rq->ncalls; i++)
		s->v[i] = (struct call_pauses){ 0, 0 };
	for (uint32_t i = 0; i < rq->npauses; i++)
		charge(s, rq, self, &rq->pauses[i]);
	if (s->ncharges == 0)
		return s->v;
	index_charges(s, rq->ncalls);
	request_waits(rq, self, reach, waited, s);
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
