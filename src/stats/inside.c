/*
 * inside.c - computes self times of calls that outlast their request, up to its
 * end.
 *
 * Such a call waited inside for the calls made in it, at any depth as long as
 * the calls between have no duration either: for each that ended, and, from its
 * start on, for a call of its own process that outlasts the request too.  After
 * that it is done: of the open calls nested in a process only the innermost is
 * still considered.
 */
#include <stdlib.h>

#include "inside.h"
#include "base/sat.h"

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
