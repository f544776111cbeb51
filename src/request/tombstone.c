/*
 * tombstone.c - remembers closed requests, for calls that come late.
 *
 * Each node has a ring of the requests that began there, in closing order, and
 * all share one index by label.  A ring reaches back KP_TOMBSTONE_AGE by the
 * node's clock, and all together hold TOMBS_MAX labels at most.  A node that has
 * less than its equal share takes from the node that has most.
 */
#include <stdlib.h>

#include "request/state.h"

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
