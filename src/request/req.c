/*
 * req.c - requests in flight: their memory, and the lists of a node, of which
 * each request is in the one of its state.
 *
 *	early ---> live ---> ended	the usual way
 *	             ^ \       ^
 *	             |  v      |
 *	            pending ---+	its entry or finish is in doubt (stack.c)
 */
#include <string.h>

#include "request/state.h"

/*
 * Events are nearly in order.  A request whose event is further off than this
 * stays where the search ends, and is closed later than it is due.
 */
#define WALK_MAX 1000

#define CALLS_FIRST 5	/* of a request: 256 bytes, which double */
#define EARLY_MAX 10000	/* requests whose entry is waited for */

/* ---- memory ---- */

struct req *
req_new(struct kp_requests *rs)
{
	size_t bytes = sizeof(struct req);
	struct req *rq = pool_get(&rs->pool, &bytes);

	if (rq != NULL)
		memset(rq, 0, sizeof(*rq));
	return rq;
}

void
req_free(struct kp_requests *rs, struct req *rq)
{
	for (uint64_t rest = rq->r.nodes; rest != 0; rest &= rest - 1)
		rs->nodes[__builtin_ctzll(rest)].touched--;
	rs->calls -= rq->ncalls;
	pool_put(&rs->pool, rq->calls, rq->bytes);
	pool_put(&rs->pool, rq, sizeof(*rq));
}

void
reqs_free(struct kp_requests *rs)
{
	struct req_list *l;
	struct req *rq;

	for (uint32_t i = 0; i < KP_NODES_MAX * REQ_STATES; i++) {
		l = &rs->nodes[i / REQ_STATES].lists[i % REQ_STATES];
		while ((rq = TAILQ_FIRST(l)) != NULL) {
			TAILQ_REMOVE(l, rq, link);
			req_free(rs, rq);
		}
	}
	map_free(&rs->by_label);
}

/* Makes room for another call at least. */
static bool
req_grow(struct kp_requests *rs, struct req *rq)
{
	size_t bytes = rq->bytes > 0 ? 2 * (size_t)rq->bytes :
	    CALLS_FIRST * sizeof(struct rcall);
	struct rcall *v = pool_get(&rs->pool, &bytes);

	if (v == NULL)
		return false;
	if (rq->ncalls > 0)
		memcpy(v, rq->calls, rq->ncalls * sizeof(*v));
	pool_put(&rs->pool, rq->calls, rq->bytes);
	rq->calls = v;
	rq->bytes = (uint32_t)bytes;
	return true;
}

void
req_touch_node(struct kp_requests *rs, struct req *rq, uint32_t node)
{
	uint64_t bit = UINT64_C(1) << node;

	if ((rq->r.nodes & bit) == 0) {
		rq->r.nodes |= bit;
		rs->nodes[node].touched++;
	}
}

uint32_t
req_add_call(struct kp_requests *rs, struct req *rq, const struct rcall *c)
{
	if (rq->ncalls == rs->o.max_calls ||
	    rs->calls == rs->o.max_calls_in_flight)
		return KP_NONE;
	if ((rq->ncalls + 1) * sizeof(*c) > rq->bytes && !req_grow(rs, rq))
		return KP_NONE;
	req_touch_node(rs, rq, c->c.node);
	rq->calls[rq->ncalls] = *c;
	rs->calls++;
	return rq->ncalls++;
}

void
req_lose_calls(struct kp_requests *rs, const struct req *rq, uint32_t from,
    enum kp_loss cause)
{
	for (uint32_t i = from; i < rq->ncalls; i++)
		rs->nodes[rq->calls[i].c.node].lost.n[cause] +=
		    !rq->calls[i].c.lost;
}

/* ---- lists ---- */

static void
req_unlist(struct kp_requests *rs, struct req *rq)
{
	TAILQ_REMOVE(&rs->nodes[rq->r.node].lists[rq->state], rq, link);
}

static void
req_enlist(struct kp_requests *rs, struct req *rq, enum req_state state)
{
	rq->state = (uint8_t)state;
	TAILQ_INSERT_TAIL(&rs->nodes[rq->r.node].lists[state], rq, link);
}

static void
req_enlist_live(struct kp_requests *rs, struct req *rq)
{
	struct req_list *l = &rs->nodes[rq->r.node].lists[REQ_LIVE];
	struct req *at = TAILQ_LAST(l, req_list);

	rq->state = REQ_LIVE;
	for (int i = 0; i < WALK_MAX && at != NULL &&
	    at->r.start > rq->r.start; i++)
		at = TAILQ_PREV(at, req_list, link);
	if (at != NULL)
		TAILQ_INSERT_AFTER(l, at, rq, link);
	else
		TAILQ_INSERT_HEAD(l, rq, link);
}

bool
req_enter(struct kp_requests *rs, struct req *rq)
{
	return map_put(&rs->by_label, rq->r.label, (uint64_t)(uintptr_t)rq);
}

void
req_unlink(struct kp_requests *rs, struct req *rq)
{
	struct rnode *nd = &rs->nodes[rq->r.node];

	req_unlist(rs, rq);
	map_remove(&rs->by_label, rq->r.label);
	if (rq->state == REQ_EARLY) {
		rs->nearly--;
	} else {
		rs->in_flight--;
		nd->in_flight--;
		nd->over -= rq->state == REQ_ENDED;
		nd->collided -= rq->collided;
	}
}

/* ---- states ---- */

struct req *
req_make_early(struct kp_requests *rs, uint64_t label, uint32_t node,
    kp_target_ns at)
{
	struct rcall entry = { .c = { .parent = KP_NONE,
	    .outcome = KP_UNFINISHED, .node = (uint8_t)node } };
	struct req *rq;

	if (label == 0 || rs->nearly == EARLY_MAX ||
	    (rq = req_new(rs)) == NULL)
		return NULL;
	rq->r = (struct kp_request){ .label = label,
		.identity = KP_IDENT_NONE, .node = (uint8_t)node };
	rq->ended_by = KP_NONE;
	rq->touched = at;
	if (req_add_call(rs, rq, &entry) == KP_NONE || !req_enter(rs, rq)) {
		req_free(rs, rq);
		return NULL;
	}
	req_enlist(rs, rq, REQ_EARLY);
	rs->nearly++;
	return rq;
}

void
req_leave_early(struct kp_requests *rs, struct req *rq)
{
	req_unlist(rs, rq);
	rs->nearly--;
}

void
req_go_live(struct kp_requests *rs, struct req *rq)
{
	struct rnode *nd = &rs->nodes[rq->r.node];

	req_enlist_live(rs, rq);
	rs->in_flight++;
	nd->in_flight++;
}

void
req_end(struct kp_requests *rs, struct req *rq, enum kp_outcome how,
    kp_target_ns at)
{
	if (rq->state == REQ_ENDED)
		return;
	req_unlist(rs, rq);
	rq->r.end = at > rq->r.start ? at : rq->r.start;
	rq->r.outcome = (uint8_t)how;
	if (rq->set) {
		rq->calls[0].c.end = rq->r.end;
		rq->calls[0].c.outcome = (uint8_t)how;
	}
	req_enlist(rs, rq, REQ_ENDED);
	rs->nodes[rq->r.node].over++;
}

bool
call_may_end(const struct kp_requests *rs, const struct req *rq, uint32_t idx)
{
	return idx == 0 || rs->fns.v[rq->calls[idx].c.fn].finish;
}

void
req_pend(struct kp_requests *rs, struct req *rq, kp_target_ns at)
{
	/* One that has run for a minute is not waited for any longer. */
	if (rq->state == REQ_ENDED || rq->state == REQ_EARLY ||
	    at - rq->r.start >= KP_REQUEST_AGE_MAX)
		return;
	req_unlist(rs, rq);
	rq->touched = at;
	req_enlist(rs, rq, REQ_PENDING);
}

void
req_unpend(struct kp_requests *rs, struct req *rq)
{
	req_unlist(rs, rq);
	req_enlist_live(rs, rq);
}

void
req_end_by_finish(struct kp_requests *rs, struct req *rq)
{
	const struct kp_call *c;

	for (uint32_t i = 1; i < rq->ncalls; i++) {
		c = &rq->calls[i].c;
		if (!rs->fns.v[c->fn].finish)
			continue;
		if (c->outcome == KP_OPEN)
			req_pend(rs, rq, rq->r.start);
		else if (rq->state != REQ_ENDED) {
			rq->ended_by = i;
			req_end(rs, rq, (enum kp_outcome)c->outcome,
			    req_time(rs, rq, c->node, c->end));
		}
	}
}
