/*
 * expire.c - time passes: what is due is settled, closed, dropped or forgotten;
 * or all of it at once.
 */
#include "request/internal.h"

/* No entry came: the token is older than what is remembered. */
static void
req_drop_early(struct kp_requests *rs, struct req *rq)
{
	rs->lost.n[KP_LOSS_STALE] += rq->ncalls - 1;
	for (uint32_t i = 1; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN)
			proc_ignore(rs, rq->calls[i].c.proc, rq);
	req_drop(rs, rq);
}

/*
 * Its process is silent: if in doubt, the entry did end where it seemed; a
 * finish as well.
 */
static void
req_settle(struct kp_requests *rs, struct req *rq)
{
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN &&
		    call_may_end(rs, rq, i))
			proc_settle(rs, rq->calls[i].c.proc, rq);
	if (!rq->ended) {
		/* It is still at work, or a finish is waited for. */
		list_remove(&rs->pending, rq);
		rq->pending = false;
		list_add_by_start(&rs->live, rq);
	}
}

/* No end within a minute.  Where a finish was waited for in vain, the
 * entry's own return will do. */
static void
req_expire(struct kp_requests *rs, struct req *rq, kp_target_ns now)
{
	const struct kp_call *entry = &rq->calls[0].c;

	if (rq->ncalls > 0 && entry->outcome != KP_OPEN &&
	    entry->outcome != KP_UNFINISHED) {
		req_end(rs, rq, entry->outcome, entry->end);
	} else {
		rs->lost.n[KP_LOSS_EXPIRED] += !rq->collided;
		rq->r.expired = true;
		req_end(rs, rq, KP_UNFINISHED, now);
	}
	req_close(rs, rq);
}

void
kp_requests_expire(struct kp_requests *rs, kp_target_ns now)
{
	struct req *rq;

	if (now >= KP_TARGET_TIME_MAX || now <= -KP_TARGET_TIME_MAX)
		return;
	if (now < rs->now - KP_NS_PER_S) {
		/* The target started anew, and so did its clock. */
		tombs_free(&rs->tombs);
		rs->swept = now;
	}
	rs->now = now;
	while ((rq = rs->early.head) != NULL && now - rq->touched >= KP_HORIZON)
		req_drop_early(rs, rq);
	while ((rq = rs->pending.head) != NULL &&
	    now - rq->touched >= KP_TAIL_WAIT)
		req_settle(rs, rq);
	while ((rq = rs->ended.head) != NULL && now - rq->r.end >= KP_HORIZON)
		req_close(rs, rq);
	while ((rq = rs->live.head) != NULL &&
	    now - rq->r.start >= KP_REQUEST_AGE_MAX)
		req_expire(rs, rq, now);
	tombs_expire(&rs->tombs, now - KP_TOMBSTONE_AGE);
	procs_sweep(rs, now);
}

void
kp_requests_abandon(struct kp_requests *rs, enum kp_loss cause)
{
	struct req *rq;

	while ((rq = rs->early.head) != NULL)
		req_drop_early(rs, rq);
	while ((rq = rs->pending.head) != NULL)
		req_settle(rs, rq);
	while ((rq = rs->ended.head) != NULL)
		req_close(rs, rq);
	while ((rq = rs->live.head) != NULL) {
		req_settle_parent(rs, rq);
		rs->lost.n[cause] += !rq->collided;
		rs->lost.n[KP_LOSS_WITH_REQUEST] += rq->ncalls - 1;
		req_drop(rs, rq);
	}
	procs_abandon(rs);
}
