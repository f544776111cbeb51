/*
 * stack_cleanup.c - ends or removes open calls that will see no event of their
 * own: their request closes, their process died, or their node goes.
 */
#include "request/life.h"

void
proc_ignore(struct kp_requests *rs, uint64_t id, const struct req *rq)
{
	struct proc *p = proc_get(rs, id);

	for (uint32_t i = 0; p != NULL && i < p->n; i++)
		if (p->v[i].kind == OPEN_REQUEST && p->v[i].rq == rq)
			p->v[i] = (struct open){ .kind = OPEN_IGNORED,
				.fn = p->v[i].fn, .caller = p->v[i].caller,
				.label = p->v[i].label,
				.start = p->v[i].start };
}

/* If *o, of a request that goes, stays open, changes what it belongs to. */
static bool
open_stays(struct kp_requests *rs, const struct proc *p, struct open *o)
{
	const struct req *rq = o->rq;

	if (rq->state != REQ_ENDED || rq->collided || rq->calls[o->idx].c.lost)
		return false;
	/* The entry is never an async call, even if a finish ended the request
	 * in the moment that it began. */
	if (o->idx == 0 ||
	    req_time(rs, rq, p->node->index, o->start) < rq->r.end)
		return rq->r.outlasts && call_outlasts(rs, rq, o->idx) &&
		    outlast_begin(rs, p, o);
	*o = (struct open){ .kind = OPEN_LATE, .fn = o->fn,
		.caller = o->caller, .label = o->label, .start = o->start,
		.identity = rq->r.identity, .weight = rq->r.weight };
	return true;
}

void
proc_forget(struct kp_requests *rs, uint64_t id, struct req *rq)
{
	struct proc *p = proc_get(rs, id);
	struct open *o;
	uint32_t keep = 0;

	if (p == NULL)
		return;
	for (uint32_t i = 0; i < p->n; i++) {
		o = &p->v[i];
		if (o->kind == OPEN_REQUEST && o->rq == rq &&
		    !open_stays(rs, p, o))
			continue;
		p->v[keep++] = *o;
	}
	p->n = keep;
	proc_drop_if_empty(rs, p);
}

void
proc_settle(struct kp_requests *rs, uint64_t id, const struct req *rq)
{
	struct proc *p = proc_get(rs, id);
	struct open o;
	uint32_t keep = 0;

	if (p == NULL)
		return;
	for (uint32_t i = 0; i < p->n; i++) {
		o = p->v[i];
		if (o.doubt != DOUBT_NONE && o.kind == OPEN_REQUEST &&
		    o.rq == rq)
			open_end(rs, p, &o, o.maybe_how, o.maybe);
		else
			p->v[keep++] = o;
	}
	p->n = keep;
	proc_drop_if_empty(rs, p);
}

bool
proc_doubts_entry(struct kp_requests *rs, const struct req *rq,
    kp_target_ns at)
{
	const struct proc *p = proc_get(rs, rq->calls[0].c.proc);

	/* at: by the clock of rq, which is that of p */
	for (uint32_t i = 0; p != NULL && i < p->n; i++)
		if (p->v[i].kind == OPEN_REQUEST && p->v[i].rq == rq &&
		    p->v[i].idx == 0)
			return p->v[i].doubt != DOUBT_NONE &&
			    p->v[i].maybe <= at;
	return false;
}

static void
proc_sweep(struct kp_requests *rs, struct proc *p, kp_target_ns now)
{
	kp_target_ns before = now - KP_REQUEST_AGE_MAX;
	uint32_t keep = 0;
	struct open *o;
	bool old;

	for (uint32_t i = 0; i < p->n; i++) {
		o = &p->v[i];
		old = o->kind == OPEN_OUTLAST ? outlast_is_old(o, now) :
		    o->kind != OPEN_REQUEST && o->start < before;
		if ((o->kind == OPEN_LATE || o->kind == OPEN_OUTLAST) &&
		    o->doubt != DOUBT_NONE) {
			open_end(rs, p, o, o->maybe_how, o->maybe);
		} else if (old) {
			p->node->lost.n[KP_LOSS_OUTLASTED] +=
			    o->kind != OPEN_IGNORED;
			open_end(rs, p, o, KP_UNFINISHED, before);
		} else {
			p->v[keep++] = *o;
		}
	}
	p->n = keep;
	if (p->n == 0)
		p->exact_seen = false;
}

/*
 * A process that died leaves its open calls behind.  Those of requests go when
 * the request does; this looks for late ones, every 10 s.
 */
void
procs_sweep(struct kp_requests *rs, struct rnode *nd, kp_target_ns now)
{
	struct proc *p;

	if (now - nd->swept < KP_REQUEST_AGE_MAX / 6)
		return;
	nd->swept = now;
	/* Removal shifts later entries back: look at a slot until it stays. */
	for (size_t i = 0; i < rs->procs.cap;) {
		if (rs->procs.slots[i].key == 0) {
			i++;
			continue;
		}
		p = (struct proc *)(uintptr_t)rs->procs.slots[i].val;
		if (p->node == nd)
			proc_sweep(rs, p, now);
		if (p->node == nd && p->n == 0)
			proc_free(rs, p);
		else
			i++;
	}
}

/* The loss that *o counts as; KP_LOSS_COUNT: none, or it was counted before. */
static enum kp_loss
abandoned_as(const struct open *o, enum kp_loss cause)
{
	if (o->doubt != DOUBT_NONE || o->kind == OPEN_IGNORED ||
	    (o->kind == OPEN_REQUEST && o->rq->collided))
		return KP_LOSS_COUNT;
	if (cause == KP_LOSS_RUNNING)
		return KP_LOSS_RUNNING_CALLS;
	return o->kind == OPEN_REQUEST ? KP_LOSS_LEFT : KP_LOSS_OUTLASTED_CUT;
}

static void
proc_abandon(struct kp_requests *rs, struct proc *p, enum kp_loss cause)
{
	enum kp_loss as;

	while (p->n > 0) {
		as = abandoned_as(&p->v[p->n - 1], cause);
		if (as != KP_LOSS_COUNT)
			p->node->lost.n[as]++;
		proc_pop_left(rs, p, KP_UNFINISHED, p->last);
	}
	proc_free(rs, p);
}

void
procs_abandon(struct kp_requests *rs, struct rnode *nd, enum kp_loss cause)
{
	struct proc *p;

	for (size_t i = 0; i < rs->procs.cap;) {
		p = rs->procs.slots[i].key != 0 ?
		    (struct proc *)(uintptr_t)rs->procs.slots[i].val : NULL;
		if (p != NULL && p->node == nd)
			proc_abandon(rs, p, cause);
		else
			i++;
	}
}
