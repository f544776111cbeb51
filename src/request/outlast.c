/*
 * outlast.c - keeps calls that began inside their request and are still open
 * when it is handed on: they outlast it.
 *
 * The request has them as far as they ran inside, up to its end.  They stay on
 * the stack of their process, and when they end they are handed to on_late.  One
 * that does not end within KP_TOMBSTONE_AGE is given up, and counted as lost.
 */
#include "request/life.h"

#define OUTLAST_MAX 100000u	/* at one time: 6 MB, and their processes */

/* An open call does not use its `end` yet: the request's end is kept there. */
void
call_set_limit(struct kp_requests *rs, struct req *rq, uint32_t i,
    struct kp_call *out)
{
	struct kp_call *c = &rq->calls[i].c;

	if (++rs->numbers == 0)
		rs->numbers = 1;
	c->outlasts = out->outlasts = rs->numbers;
	out->end = rq->r.end;
	c->end = c->start + (rq->r.end > out->start ? rq->r.end - out->start :
	    0);
	rq->r.outlasts = true;
}

static void
late(struct kp_requests *rs, const struct proc *p, const struct open *o,
    const struct outlast *x, enum kp_outcome how, kp_target_ns at)
{
	rs->o.on_late(rs->o.ctx, &(struct kp_late_call){
	    .identity = x->identity, .weight = x->weight, .fn = o->fn,
	    .outcome = (uint8_t)how, .node = (uint8_t)p->node->index,
	    .start = o->start, .end = at, .outlasts = x->number,
	    .limit = x->limit, .waited = x->waited });
}

bool
outlast_begin(struct kp_requests *rs, const struct proc *p, struct open *o)
{
	const struct req *rq = o->rq;
	struct outlast x = { .identity = rq->r.identity,
		.weight = rq->r.weight,
		.number = rq->calls[o->idx].c.outlasts,
		.limit = rq->calls[o->idx].c.end };
	size_t bytes = sizeof(x);
	struct outlast *v = NULL;

	if (rs->noutlast < OUTLAST_MAX)
		v = pool_get(&rs->pool, &bytes);
	if (v == NULL) {
		p->node->lost.n[KP_LOSS_OUTLASTED_CUT]++;
		late(rs, p, o, &x, KP_UNFINISHED, x.limit);
		return false;
	}
	rs->noutlast++;
	*v = x;
	o->kind = OPEN_OUTLAST;
	o->idx = 0;
	o->out = v;
	return true;
}

void
outlast_end(struct kp_requests *rs, const struct proc *p,
    const struct open *o, enum kp_outcome how, kp_target_ns at)
{
	late(rs, p, o, o->out, how, at);
	pool_put(&rs->pool, o->out, sizeof(*o->out));
	rs->noutlast--;
}

void
outlast_wait(struct proc *p, const struct open *o, kp_target_ns at)
{
	struct open *around;

	for (uint32_t i = p->n; i > 0; i--) {
		around = &p->v[i - 1];
		if (around->kind != OPEN_OUTLAST || around->label != o->label)
			continue;
		if (at > around->out->limit)
			around->out->waited += at - around->out->limit;
		return;
	}
}

bool
outlast_is_old(const struct open *o, kp_target_ns now)
{
	return now - o->out->limit >= KP_TOMBSTONE_AGE;
}
