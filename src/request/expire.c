/*
 * expire.c - settles, closes or drops requests when they are due, or all of a
 * node's at once.
 */
#include <stdlib.h>

#include "request/clock_align.h"

#define ORPHAN_WALK 256		/* early requests that are passed over */
#define ABANDONED_MAX (1u << 16)	/* of a node: 2 MB */

/* No entry came: the token is older than the tombstones. */
static void
req_drop_early(struct kp_requests *rs, struct req *rq)
{
	if (rq->r.label >= ORPHAN) {
		orphan_settle(rs, rq, true);
		return;
	}
	req_lose_calls(rs, rq, 1, KP_LOSS_STALE);
	for (uint32_t i = 1; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN)
			proc_ignore(rs, rq->calls[i].c.proc, rq);
	req_drop(rs, rq);
}

/*
 * Its process is silent: an entry or a finish that is in doubt did end where it
 * seemed to.
 */
static void
req_settle(struct kp_requests *rs, struct req *rq)
{
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN &&
		    call_may_end(rs, rq, i))
			proc_settle(rs, rq->calls[i].c.proc, rq);
	if (rq->state != REQ_ENDED)
		req_unpend(rs, rq);
}

/*
 * No end came within a minute.  If only a finish is missing, the entry's own
 * return is the end.
 */
static void
req_expire(struct kp_requests *rs, struct req *rq, kp_target_ns now)
{
	const struct kp_call *entry = &rq->calls[0].c;

	if (rq->ncalls > 0 && entry->outcome != KP_OPEN &&
	    entry->outcome != KP_UNFINISHED) {
		req_end(rs, rq, entry->outcome, entry->end);
	} else {
		rs->nodes[rq->r.node].lost.n[KP_LOSS_EXPIRED] += !rq->collided;
		rq->r.expired = true;
		req_end(rs, rq, KP_UNFINISHED, now);
	}
	req_close(rs, rq);
}

/* Between them there may be early requests, of which some are passed over. */
static void
node_settle_orphans(struct kp_requests *rs, struct rnode *nd, kp_target_ns due)
{
	struct req *rq = TAILQ_FIRST(&nd->lists[REQ_EARLY]), *next;

	for (unsigned n = 0; n < ORPHAN_WALK && rq != NULL &&
	    due - rq->touched >= KP_HORIZON / 2; rq = next) {
		next = TAILQ_NEXT(rq, link);
		if (rq->r.label >= ORPHAN)
			orphan_settle(rs, rq, due - rq->touched >=
			    KP_HORIZON / 4 * 3);
		else
			n++;
	}
}

/* Requests of nd are about to close: orphans of all nodes may be theirs. */
static void
orphans_settle(struct kp_requests *rs, const struct rnode *nd, kp_target_ns due)
{
	for (uint32_t i = 0; i < KP_NODES_MAX && rs->nearly > 0; i++)
		if (rs->nodes[i].name != NULL)
			node_settle_orphans(rs, &rs->nodes[i],
			    node_time(rs, nd->index, i, due));
}

void
kp_requests_expire(struct kp_requests *rs, uint32_t node, kp_target_ns now)
{
	struct rnode *nd;
	kp_target_ns due;
	struct req *rq;

	if (node == KP_NONE || now >= KP_TARGET_TIME_MAX ||
	    now <= -KP_TARGET_TIME_MAX)
		return;
	nd = &rs->nodes[node];
	if (now < nd->now - KP_NS_PER_S) {
		/* The target restarted, and its clock with it. */
		tombs_free(rs, nd);
		map_clear(&nd->abandoned);
		/* Not of the first time, which is less than none (0) as well. */
		nd->has_met &= !nd->has_now;
		nd->swept = now;
	}
	nd->has_now = true;
	nd->now = now;
	due = node_due(rs, nd, now);
	if (rs->next_orphan > 0)
		orphans_settle(rs, nd, due);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_EARLY])) != NULL &&
	    due - rq->touched >= KP_HORIZON)
		req_drop_early(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_PENDING])) != NULL &&
	    due - rq->touched >= KP_TAIL_WAIT)
		req_settle(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_ENDED])) != NULL &&
	    due - rq->r.end >= KP_HORIZON) {
		prefetch_close(rs, rq);
		req_close(rs, rq);
	}
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_LIVE])) != NULL &&
	    now - rq->r.start >= KP_REQUEST_AGE_MAX)
		req_expire(rs, rq, now);
	tombs_expire(rs, nd, now - KP_TOMBSTONE_AGE);
	procs_sweep(rs, nd, now);
	if (rs->messages != NULL)
		messages_expire(rs, nd, now);
}

/*
 * The node's clock may start again, or another node get its index.  So calls
 * that ran there are converted to the clock of their request now, and requests
 * whose entry has not come are dropped.
 */
static void
list_detach(struct kp_requests *rs, struct req_list *l, uint32_t node)
{
	struct req *rq = TAILQ_FIRST(l), *next;

	for (; rq != NULL; rq = next) {
		next = TAILQ_NEXT(rq, link);
		if ((rq->r.nodes >> node & 1) == 0)
			continue;
		if (rq->state == REQ_EARLY)
			req_drop_early(rs, rq);
		else
			calls_detach(rs, rq, node);
	}
}

static void
node_detach(struct kp_requests *rs, struct rnode *gone)
{
	struct rnode *nd;

	for (uint32_t i = 0; gone->touched > 0 && i < KP_NODES_MAX; i++) {
		nd = &rs->nodes[i];
		for (uint32_t j = 0; j < REQ_STATES; j++)
			list_detach(rs, &nd->lists[j], gone->index);
	}
}

/*
 * Their samples are lost, and not those of idle processes with an old token.  Where
 * memory is short, or there are too many, it is not known which they were.
 */
static void
abandoned_note(struct rnode *nd)
{
	const struct req *rq;

	map_clear(&nd->abandoned);
	nd->abandoned_at = nd->now;
	if (!nd->has_now)
		return;
	TAILQ_FOREACH(rq, &nd->lists[REQ_LIVE], link)
		if (nd->abandoned.len == ABANDONED_MAX ||
		    !map_put(&nd->abandoned, rq->r.label, 1))
			return;
}

void
kp_requests_abandon(struct kp_requests *rs, uint32_t node, enum kp_loss cause)
{
	struct rnode *nd;
	struct req *rq;

	if (node == KP_NONE)
		return;
	nd = &rs->nodes[node];
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_EARLY])) != NULL)
		req_drop_early(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_PENDING])) != NULL)
		req_settle(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_ENDED])) != NULL)
		req_close(rs, rq);
	abandoned_note(nd);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_LIVE])) != NULL) {
		req_settle_parent(rs, rq);
		nd->lost.n[cause] += !rq->collided;
		req_lose_calls(rs, rq, 1, KP_LOSS_WITH_REQUEST);
		req_drop(rs, rq);
	}
	procs_abandon(rs, nd, cause);
	if (rs->pauses != NULL)
		pauses_detach(rs, nd);
	node_detach(rs, nd);
	if (rs->messages != NULL)
		messages_detach(rs, nd);
	crossed_detach(&rs->crossed, node);
	nd->has_now = false;
}

void
kp_requests_remove(struct kp_requests *rs, uint32_t node, enum kp_loss cause)
{
	struct rnode *nd = &rs->nodes[node];

	kp_requests_abandon(rs, node, cause);
	tombs_free(rs, nd);
	map_free(&nd->abandoned);
	free(nd->name);
	nd->name = NULL;
	nd->timed = false;
	rs->nnodes--;
}
