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

static void
list_free(struct kp_requests *rs, struct req_list *l)
{
	struct req *rq;

	while ((rq = l->head) != NULL) {
		l->head = rq->next;
		req_free(rs, rq);
	}
}

void
reqs_free(struct kp_requests *rs)
{
	for (uint32_t i = 0; i < KP_NODES_MAX; i++) {
		list_free(rs, &rs->nodes[i].early);
		list_free(rs, &rs->nodes[i].live);
		list_free(rs, &rs->nodes[i].pending);
		list_free(rs, &rs->nodes[i].ended);
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
		rs->nodes[rq->calls[i].c.node].lost.n[cause]++;
}

/* ---- lists ---- */

static struct req_list *
req_list(struct kp_requests *rs, const struct req *rq)
{
	struct rnode *nd = &rs->nodes[rq->r.node];

	if (rq->early)
		return &nd->early;
	return rq->ended ? &nd->ended : rq->pending ? &nd->pending : &nd->live;
}

static void
list_add(struct req_list *l, struct req *rq)
{
	rq->next = NULL;
	rq->prev = l->tail;
	if (l->tail != NULL)
		l->tail->next = rq;
	else
		l->head = rq;
	l->tail = rq;
}

static void
list_add_by_start(struct req_list *l, struct req *rq)
{
	struct req *at = l->tail;

	for (int i = 0; i < WALK_MAX && at != NULL &&
	    at->r.start > rq->r.start; i++)
		at = at->prev;
	if (at == l->tail) {
		list_add(l, rq);
		return;
	}
	rq->prev = at;
	rq->next = at != NULL ? at->next : l->head;
	rq->next->prev = rq;
	if (at != NULL)
		at->next = rq;
	else
		l->head = rq;
}

static void
req_unlist(struct kp_requests *rs, struct req *rq)
{
	struct req_list *l = req_list(rs, rq);

	if (rq->prev != NULL)
		rq->prev->next = rq->next;
	else
		l->head = rq->next;
	if (rq->next != NULL)
		rq->next->prev = rq->prev;
	else
		l->tail = rq->prev;
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
	if (rq->early) {
		rs->nearly--;
	} else {
		rs->in_flight--;
		nd->in_flight--;
		nd->over -= rq->ended;
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
	rq->early = true;
	rq->touched = at;
	if (req_add_call(rs, rq, &entry) == KP_NONE || !req_enter(rs, rq)) {
		req_free(rs, rq);
		return NULL;
	}
	list_add(&rs->nodes[node].early, rq);
	rs->nearly++;
	return rq;
}

void
req_leave_early(struct kp_requests *rs, struct req *rq)
{
	req_unlist(rs, rq);
	rs->nearly--;
	rq->early = false;
}

void
req_go_live(struct kp_requests *rs, struct req *rq)
{
	struct rnode *nd = &rs->nodes[rq->r.node];

	list_add_by_start(&nd->live, rq);
	rs->in_flight++;
	nd->in_flight++;
}

void
req_end(struct kp_requests *rs, struct req *rq, enum kp_outcome how,
    kp_target_ns at)
{
	if (rq->ended)
		return;
	req_unlist(rs, rq);
	rq->ended = true;
	rq->r.end = at > rq->r.start ? at : rq->r.start;
	rq->r.outcome = (uint8_t)how;
	if (rq->set) {
		rq->calls[0].c.end = rq->r.end;
		rq->calls[0].c.outcome = (uint8_t)how;
	}
	list_add(&rs->nodes[rq->r.node].ended, rq);
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
	if (rq->ended || rq->early ||
	    at - rq->r.start >= KP_REQUEST_AGE_MAX)
		return;
	req_unlist(rs, rq);
	rq->pending = true;
	rq->touched = at;
	list_add(&rs->nodes[rq->r.node].pending, rq);
}

void
req_unpend(struct kp_requests *rs, struct req *rq)
{
	req_unlist(rs, rq);
	rq->pending = false;
	list_add_by_start(&rs->nodes[rq->r.node].live, rq);
}
