/* made.c - adds up calls from the innermost outwards, in one pass. */
#include "made.h"
#include "self.h"

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
	/* a parent has the lower index, so this visits children first */
	for (uint32_t i = rq->ncalls; i-- > 0;) {
		c = &rq->calls[i];
		if (c->parent >= i || !is_waited_for(c, &rq->calls[c->parent]))
			continue;
		v[c->parent].made++;
		v[c->parent].all += v[i].all + 1;
	}
}
