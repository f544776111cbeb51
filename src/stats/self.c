/*
 * self.c - computes a call's self time: its own time less the union of the
 * calls it waited for.
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
#include <stdlib.h>

#include "base/sat.h"
#include "self.h"
#include "kprofd/stats.h"

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
 * Does what request_waits() does.  self: -1 where a call has no duration.
 * reach: the starts of all calls.
 */
static inline __attribute__((always_inline)) void
each_wait(const struct kp_request *rq, const kp_dur_ns *self,
    kp_target_ns *reach, request_wait_fn *fn, void *ctx)
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

void
request_waits(const struct kp_request *rq, const kp_dur_ns *self,
    kp_target_ns *reach, request_wait_fn *fn, void *ctx)
{
	for (uint32_t i = 0; i < rq->ncalls; i++)
		reach[i] = rq->calls[i].start;
	each_wait(rq, self, reach, fn, ctx);
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
