/* flight.c - which requests are in flight now, and where they are. */
#include "request/internal.h"

#define PENDING_MAX 10000	/* looked at: a glance takes a ms at most */

/* The last call that began and has no end, as far as is known. */
static const struct rcall *
innermost(const struct req *rq)
{
	for (uint32_t i = rq->ncalls; i-- > 0;)
		if (rq->calls[i].c.outcome == KP_OPEN)
			return &rq->calls[i];
	return NULL;
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
	f.fn = c->c.fn;
	f.proc = c->c.proc;
	f.node = c->c.node;
	f.in_call = age(now, c->c.placed ? c->c.start :
	    req_time(rs, rq, c->c.node, c->c.start));
	/* clocks of nodes are known to some error only */
	if (f.in_call > f.age)
		f.in_call = f.age;
	return f;
}

/* Among n of them, the oldest first, at most max. */
static size_t
insert(struct kp_flight *v, size_t n, size_t max, const struct kp_flight *f)
{
	size_t i;

	if (n == max && (n == 0 || v[n - 1].age >= f->age))
		return n;
	i = n < max ? n++ : n - 1;
	for (; i > 0 && v[i - 1].age < f->age; i--)
		v[i] = v[i - 1];
	v[i] = *f;
	return n;
}

size_t
kp_requests_oldest(const struct kp_requests *rs, uint32_t node,
    kp_target_ns now, struct kp_flight *v, size_t max)
{
	const struct rnode *nd = &rs->nodes[node];
	const struct req *rq;
	struct kp_flight f;
	size_t n = 0, seen = 0;

	if (nd->heard && now < nd->now)
		now = nd->now;
	/* these are by start: the first are the oldest */
	for (rq = nd->live.head; rq != NULL && seen < max; rq = rq->next, seen++) {
		f = flight_of(rs, rq, now);
		n = insert(v, n, max, &f);
	}
	seen = 0;
	for (rq = nd->pending.head; rq != NULL && seen < PENDING_MAX;
	    rq = rq->next, seen++) {
		f = flight_of(rs, rq, now);
		n = insert(v, n, max, &f);
	}
	return n;
}
