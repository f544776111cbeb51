/*
 * req.c - requests in flight: their memory, and the lists of a node, of which
 * each request is in the one of its state.
 *
 *	early ---> live ---> ended	the usual way
 *	             ^ \       ^
 *	             |  v      |
 *	            pending ---+	its entry or finish is in doubt (stack.c)
 */
#include <stdlib.h>
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
		rs->n_early--;
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

	if (label == 0 || rs->n_early == EARLY_MAX ||
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
	rs->n_early++;
	return rq;
}

void
req_leave_early(struct kp_requests *rs, struct req *rq)
{
	req_unlist(rs, rq);
	rs->n_early--;
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

/* --------------------------------------------- requests that have closed ---- */

/*
 * Remembers closed requests, for calls that come late.
 *
 * Each node has a ring of the requests that began there, in closing order, and
 * all share one index by label.  A ring reaches back KP_TOMBSTONE_AGE by the
 * node's clock, and all together hold TOMBS_MAX labels at most.  A node that has
 * less than its equal share takes from the node that has most.
 */

#define TOMBS_MAX (1u << 17)	/* about 17 MB at most with their index */
#define TOMBS_MIN (1u << 10)
/* A ring is at least half full, or of TOMBS_MIN. */
#define TOMBS_ROOM (2 * TOMBS_MAX + KP_NODES_MAX * TOMBS_MIN)

/* The value of the index for tombstone i of a ring; never 0. */
static uint64_t
tombstone_place(const struct rnode *nd, uint32_t i)
{
	return (uint64_t)nd->index << 32 | (i + 1);
}

static void
tombs_pop(struct kp_requests *rs, struct rnode *nd)
{
	struct tombs *t = &nd->tombs;
	uint64_t label = t->v[t->head].label;
	uint64_t *at = map_get(&rs->buried, label);

	/* If a label closed twice, the index has the newer tombstone. */
	if (at != NULL && *at == tombstone_place(nd, t->head))
		map_remove(&rs->buried, label);
	t->head = (t->head + 1) & (t->cap - 1);
	t->n--;
	rs->ntombs--;
}

void
tombs_free(struct kp_requests *rs, struct rnode *nd)
{
	while (nd->tombs.n > 0)
		tombs_pop(rs, nd);
	rs->tombs_room -= nd->tombs.cap;
	free(nd->tombs.v);
	nd->tombs = (struct tombs){ 0 };
}

static bool
tombs_resize(struct kp_requests *rs, struct rnode *nd, uint32_t cap)
{
	struct tombs *t = &nd->tombs;
	struct tombstone *v = malloc(cap * sizeof(*v));
	uint64_t *at;

	if (v == NULL)
		return false;
	for (uint32_t i = 0; i < t->n; i++) {
		v[i] = t->v[(t->head + i) & (t->cap - 1)];
		at = map_get(&rs->buried, v[i].label);
		if (at != NULL && *at >> 32 == nd->index)
			*at = tombstone_place(nd, i);
	}
	rs->tombs_room += cap - t->cap;
	free(t->v);
	t->v = v;
	t->cap = cap;
	t->head = 0;
	return true;
}

static bool
tombs_grow(struct kp_requests *rs, struct rnode *nd)
{
	uint32_t cap = nd->tombs.cap > 0 ? nd->tombs.cap * 2 : TOMBS_MIN;
	uint32_t more = cap - nd->tombs.cap;
	const struct tombs *t;

	/* Takes room from rings that do not use it any more. */
	for (uint32_t i = 0; i < KP_NODES_MAX; i++) {
		t = &rs->nodes[i].tombs;
		while (rs->tombs_room + more > TOMBS_ROOM &&
		    t->cap > TOMBS_MIN && t->n <= t->cap / 2)
			if (!tombs_resize(rs, &rs->nodes[i], t->cap / 2))
				return false;
	}
	return rs->tombs_room + more <= TOMBS_ROOM &&
	    tombs_resize(rs, nd, cap);
}

/* The node whose oldest tombstone goes when there are TOMBS_MAX. */
static struct rnode *
tombs_over(struct kp_requests *rs, struct rnode *nd)
{
	struct rnode *most = nd;

	if (nd->tombs.n >= TOMBS_MAX / rs->nnodes)
		return nd;
	for (uint32_t i = 0; i < KP_NODES_MAX; i++)
		if (rs->nodes[i].tombs.n > most->tombs.n)
			most = &rs->nodes[i];
	return most;
}

void
tombs_add(struct kp_requests *rs, struct rnode *nd, const struct tombstone *tomb)
{
	struct tombs *t = &nd->tombs;
	uint32_t at;

	if (rs->ntombs == TOMBS_MAX)
		tombs_pop(rs, tombs_over(rs, nd));
	if (t->n == t->cap && !tombs_grow(rs, nd)) {
		if (t->n == 0)
			return;
		tombs_pop(rs, nd);
	}
	at = (t->head + t->n) & (t->cap - 1);
	t->v[at] = *tomb;
	t->n++;
	rs->ntombs++;
	map_put(&rs->buried, tomb->label, tombstone_place(nd, at));
}

const struct tombstone *
tombs_get(const struct kp_requests *rs, uint64_t label)
{
	uint64_t *at = map_get(&rs->buried, label);

	return at != NULL ? &rs->nodes[*at >> 32].tombs.v[(uint32_t)*at - 1] :
	    NULL;
}

void
tombs_spread(struct kp_requests *rs, uint64_t label)
{
	const uint64_t *at = map_get(&rs->buried, label);

	if (at != NULL)
		rs->nodes[*at >> 32].tombs.v[(uint32_t)*at - 1].spread = 1;
}

uint32_t
tombs_node(const struct kp_requests *rs, uint64_t label)
{
	const uint64_t *at = map_get(&rs->buried, label);

	return at != NULL ? (uint32_t)(*at >> 32) : KP_NONE;
}

void
tombs_expire(struct kp_requests *rs, struct rnode *nd, kp_target_ns before)
{
	struct tombs *t = &nd->tombs;

	while (t->n > 0 && t->v[t->head].at < before)
		tombs_pop(rs, nd);
}

uint64_t
label_outer(const struct kp_requests *rs, uint64_t label)
{
	const struct req *rq = req_get(rs, label);
	const struct tombstone *t = rq == NULL ? tombs_get(rs, label) : NULL;

	return rq != NULL ? rq->outer : t != NULL ? t->outer : 0;
}

bool
label_inside(const struct kp_requests *rs, uint64_t label, uint64_t outer)
{
	for (int i = 0; i < NEST_MAX && label != outer; i++) {
		if (label == 0)
			return false;
		label = label_outer(rs, label);
	}
	return label == outer;
}
