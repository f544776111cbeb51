/* list.c - the lists of requests in flight: see struct kp_requests. */
#include "request/internal.h"

/*
 * Events are nearly in order, and one that is further off stands where it is
 * found to be so: it is seen to later than it is due, not at all costs.
 */
#define WALK_MAX 1000

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
