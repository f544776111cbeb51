/* list.c - requests in flight: their memory, and the lists of a node. */
#include <string.h>

#include "request/sched_gc.h"

/*
 * Events are nearly in order, and one that is further off stands where it is
 * found to be so: it is seen to later than it is due, not at all costs.
 */
#define WALK_MAX 1000

#define CALLS_FIRST 5	/* of a request: 256 bytes, which double */

void
req_free(struct kp_requests *rs, struct req *rq)
{
	for (uint64_t rest = rq->r.nodes; rest != 0; rest &= rest - 1)
		rs->nodes[__builtin_ctzll(rest)].touched--;
	if (rs->pauses != NULL)
		pauses_forget(rs, rq->r.label);
	if (rs->mails != NULL)
		mail_forget(rs, rq->r.label);
	rs->calls -= rq->ncalls;
	pool_put(&rs->pool, rq->calls, rq->bytes);
	pool_put(&rs->pool, rq, sizeof(*rq));
}

struct req *
req_new(struct kp_requests *rs)
{
	size_t bytes = sizeof(struct req);
	struct req *rq = pool_get(&rs->pool, &bytes);

	if (rq != NULL)
		memset(rq, 0, sizeof(*rq));
	return rq;
}

bool
req_grow(struct kp_requests *rs, struct req *rq)
{
	size_t bytes = rq->bytes > 0 ? 2 * (size_t)rq->bytes :
	    CALLS_FIRST * sizeof(struct rcall);
	struct rcall *v = pool_get(&rs->pool, &bytes);

	if (v == NULL)
		return false;
	if (rq->ncalls > 0)
		memcpy(v, rq->calls, rq->ncalls * sizeof(*v));
	pool_put(&rs->pool, rq->calls, rq->bytes);
	rq->calls = v;
	rq->bytes = (uint32_t)bytes;
	return true;
}

void
list_add(struct req_list *l, struct req *rq)
{
	rq->next = NULL;
	rq->prev = l->tail;
	if (l->tail != NULL)
		l->tail->next = rq;
	else
		l->head = rq;
	l->tail = rq;
}

void
list_add_by_start(struct req_list *l, struct req *rq)
{
	struct req *at = l->tail;

	for (int i = 0; i < WALK_MAX && at != NULL &&
	    at->r.start > rq->r.start; i++)
		at = at->prev;
	if (at == l->tail) {
		list_add(l, rq);
		return;
	}
	rq->prev = at;
	rq->next = at != NULL ? at->next : l->head;
	rq->next->prev = rq;
	if (at != NULL)
		at->next = rq;
	else
		l->head = rq;
}

void
list_remove(struct req_list *l, struct req *rq)
{
	if (rq->prev != NULL)
		rq->prev->next = rq->next;
	else
		l->head = rq->next;
	if (rq->next != NULL)
		rq->next->prev = rq->prev;
	else
		l->tail = rq->prev;
}
