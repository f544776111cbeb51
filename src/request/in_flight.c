/*
 * in_flight.c - reports which requests are in flight now, and where they are, or
 * that they have closed.
 */
#include <stdlib.h>

#include "request/life.h"

#define PENDING_MAX 10000	/* of a list are looked at: 1 ms at most */

/* The last call that began and has not ended. */
static const struct rcall *
innermost(const struct req *rq)
{
	for (uint32_t i = rq->ncalls; i-- > 0;)
		if (rq->calls[i].c.outcome == KP_OPEN)
			return &rq->calls[i];
	return NULL;
}

static void
put_path(struct kp_flight *f, const struct req *rq)
{
	uint32_t i, open = 0;

	for (i = rq->ncalls; i > 0 && open < KP_FLIGHT_PATH_MAX; i--)
		open += rq->calls[i - 1].c.outcome == KP_OPEN;
	for (; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN)
			f->path[f->npath++] = rq->calls[i].c.fn;
}

static kp_dur_ns
age(kp_target_ns now, kp_target_ns start)
{
	return now > start ? now - start : 0;
}

static struct kp_flight
flight_of(const struct kp_requests *rs, const struct req *rq,
    kp_target_ns now)
{
	const struct rcall *c = innermost(rq);
	struct kp_flight f = { .label = rq->r.label,
		.identity = rq->r.identity, .weight = rq->r.weight,
		.ncalls = rq->ncalls, .age = age(now, rq->r.start),
		.fn = KP_NONE, .node = rq->r.node };

	if (c == NULL)
		return f;
	put_path(&f, rq);
	f.fn = c->c.fn;
	f.proc = c->c.proc;
	f.node = c->c.node;
	f.began = c->c.start;
	f.in_call = age(now, c->c.placed ? c->c.start :
	    req_time(rs, rq, c->c.node, c->c.start));
	/* Offsets between clocks have errors. */
	if (f.in_call > f.age)
		f.in_call = f.age;
	return f;
}

/* The oldest found so far, and others: those are dropped when there are 2 * max. */
struct oldest {
	kp_target_ns now;
	struct aged {
		const struct req *rq;
		kp_dur_ns age;
	} v[2 * KP_FLIGHT_MAX];
	size_t n, max;
};

/*
 * The entry seems to have ended in a tail call, and its process is given time to
 * show otherwise.  Nearly all of these have been answered.
 */
static bool
seems_over(struct kp_requests *rs, const struct req *rq)
{
	return rq->state == REQ_PENDING && rs->o.conf->nfinishes == 0 && rq->ncalls > 0 &&
	    proc_doubts_entry(rs, rq, KP_TARGET_TIME_MAX);
}

size_t
kp_requests_running(struct kp_requests *rs, uint32_t node)
{
	const struct rnode *nd;
	const struct req *rq;
	size_t n;

	if (node == KP_NONE)
		return 0;
	nd = &rs->nodes[node];
	rq = TAILQ_FIRST(&nd->lists[REQ_PENDING]);
	n = nd->in_flight - nd->over;
	for (size_t many = PENDING_MAX; rq != NULL && many > 0;
	    rq = TAILQ_NEXT(rq, link), many--)
		n -= seems_over(rs, rq);
	return n;
}

static int
age_cmp(const void *pa, const void *pb)
{
	const struct aged *a = pa, *b = pb;

	return a->age < b->age ? 1 : a->age > b->age ? -1 : 0;
}

/* Keeps max of them at most, the oldest first. */
static void
keep_oldest(struct oldest *o)
{
	qsort(o->v, o->n, sizeof(o->v[0]), age_cmp);
	if (o->n > o->max)
		o->n = o->max;
}

/* Adds the oldest of the first `many` of a list. */
static void
look_at(struct kp_requests *rs, struct oldest *o, const struct req *rq,
    size_t many)
{
	for (; rq != NULL && many > 0; rq = TAILQ_NEXT(rq, link), many--) {
		if (seems_over(rs, rq))
			continue;
		o->v[o->n++] = (struct aged){ rq, age(o->now, rq->r.start) };
		if (o->n == 2 * o->max)
			keep_oldest(o);
	}
}

size_t
kp_requests_oldest(struct kp_requests *rs, uint32_t node,
    kp_target_ns now, struct kp_flight *v, size_t max)
{
	struct oldest o = { .now = now,
		.max = max < KP_FLIGHT_MAX ? max : KP_FLIGHT_MAX };
	const struct rnode *nd;

	if (node == KP_NONE || max == 0)
		return 0;
	nd = &rs->nodes[node];
	if (nd->has_now && now < nd->now)
		o.now = nd->now;
	/* The list of live ones is by start: the first are the oldest. */
	look_at(rs, &o, TAILQ_FIRST(&nd->lists[REQ_LIVE]), o.max);
	look_at(rs, &o, TAILQ_FIRST(&nd->lists[REQ_PENDING]), PENDING_MAX);
	keep_oldest(&o);
	for (size_t i = 0; i < o.n; i++)
		v[i] = flight_of(rs, o.v[i].rq, o.now);
	return o.n;
}

bool
kp_requests_in_call(const struct kp_requests *rs, const struct kp_flight *f,
    kp_target_ns from, kp_target_ns to)
{
	const struct req *rq = req_get(rs, f->label);
	const struct kp_call *c;

	for (uint32_t i = rq != NULL ? rq->ncalls : 0; i-- > 0;) {
		c = &rq->calls[i].c;
		if (c->proc == f->proc && c->fn == f->fn &&
		    c->start == f->began && !c->placed)
			return c->start <= from && (c->outcome == KP_OPEN ||
			    (kp_outcome_timed((enum kp_outcome)c->outcome) &&
			    c->end >= to));
	}
	return false;
}

static enum kp_request_is
find_abandoned(const struct kp_requests *rs, uint64_t label,
    struct kp_closed_request *c)
{
	const struct rnode *nd;

	for (nd = rs->nodes; nd < rs->nodes + KP_NODES_MAX; nd++)
		if (map_get(&nd->abandoned, label) != NULL) {
			*c = (struct kp_closed_request){ .identity =
				KP_IDENT_NONE, .weight = 1, .node = nd->index,
				.end = nd->abandoned_at };
			return KP_REQUEST_ABANDONED;
		}
	return KP_REQUEST_UNKNOWN;
}

enum kp_request_is
kp_requests_find(const struct kp_requests *rs, uint64_t label,
    struct kp_closed_request *c)
{
	const struct tombstone *t;

	if (req_get(rs, label) != NULL)
		return KP_REQUEST_IN_FLIGHT;
	t = tombs_get(rs, label);
	if (t == NULL)
		return find_abandoned(rs, label, c);
	*c = (struct kp_closed_request){ .identity = t->identity,
		.weight = t->weight, .node = tombs_node(rs, label),
		.end = t->at, .octave = t->octave };
	return KP_REQUEST_CLOSED;
}

uint64_t
kp_requests_label(const struct kp_requests *rs, uint64_t proc)
{
	const struct proc *p = proc_get(rs, proc);

	for (uint32_t i = p != NULL ? p->n : 0; i-- > 0;)
		if (p->v[i].kind == OPEN_REQUEST)
			return p->v[i].label;
	return 0;
}
