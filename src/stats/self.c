/*
 * self.c - a call's self time: its own time less the union of the calls it
 * waited for.
 *
 * Waited for are its children in the tree, clipped to it.  A call that began
 * after the end of its request was waited for by nobody inside the request,
 * but may well have been by a parent that began after the end too.
 *
 * Calls come sorted by start, so each parent's children do as well, and a
 * union is one pass: reach[p] is up to where p is covered already.  A child
 * may come before its parent where times tie; nothing here minds.
 */
#include <stdlib.h>

#include "sat.h"
#include "self.h"
#include "kprofd/stats.h"

void
request_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach)
{
	const struct kp_call *c, *p;
	kp_target_ns from, to;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		reach[i] = c->start;
		self[i] = outcome_timed(c->outcome) ?
		    sat_span(c->start, c->end) : -1;
	}
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		if (self[i] < 0 || c->parent >= rq->ncalls || c->parent == i)
			continue;
		p = &rq->calls[c->parent];
		if (self[c->parent] < 0 || (c->async && !p->async))
			continue;
		from = c->start > reach[c->parent] ? c->start :
		    reach[c->parent];
		to = c->end < p->end ? c->end : p->end;
		if (to <= from)
			continue;
		self[c->parent] -= sat_span(from, to);
		reach[c->parent] = to;
	}
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
