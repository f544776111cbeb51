/*
 * self.c - a call's self time: its own time less the union of the calls it
 * waited for.
 *
 * Waited for are its children in the tree, clipped to it.  A call that began
 * after the end of its request was waited for by nobody inside the request,
 * but may well have been by a parent that began after the end too.  Where
 * the parent has no duration (ambiguous, unfinished), its own parent waited
 * all the same: so self times add up whatever became of calls in between.
 *
 * Calls come sorted by start, so each parent's children do as well, and a
 * union is one pass: reach[p] is up to where p is covered already.  A child
 * may come before its parent where times tie; nothing here minds.
 */
#include <stdlib.h>

#include "sat.h"
#include "self.h"
#include "kprofd/stats.h"

/* The innermost call around call i that has a duration; KP_NONE: none. */
static uint32_t
timed_parent(const struct kp_request *rq, uint32_t i, const kp_dur_ns *self)
{
	uint32_t p = rq->calls[i].parent;

	/* Only ever to lower indices: it ends. */
	while (p < rq->ncalls && self[p] < 0 && rq->calls[p].parent < p)
		p = rq->calls[p].parent;
	return p < rq->ncalls && p != i && self[p] >= 0 ? p : KP_NONE;
}

void
request_self(const struct kp_request *rq, kp_dur_ns *self,
    kp_target_ns *reach)
{
	const struct kp_call *c, *p;
	kp_target_ns from, to;
	uint32_t parent;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		reach[i] = c->start;
		self[i] = outcome_timed(c->outcome) ?
		    sat_span(c->start, c->end) : -1;
	}
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		parent = self[i] >= 0 ? timed_parent(rq, i, self) : KP_NONE;
		if (parent == KP_NONE)
			continue;
		p = &rq->calls[parent];
		if (c->async && !p->async)
			continue;
		from = c->start > reach[parent] ? c->start : reach[parent];
		to = c->end < p->end ? c->end : p->end;
		if (to <= from)
			continue;
		self[parent] -= sat_span(from, to);
		reach[parent] = to;
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
