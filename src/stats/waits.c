/*
 * waits.c - adds the waits of requests' messages, and those of requests in queues, to
 * the running window.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "state.h"

void
waits_free(struct waits *ws)
{
	for (size_t i = 0; i < ws->n; i++)
		kp_hist_free(&ws->v[i].hist);
	free(ws->v);
	map_free(&ws->at);
	*ws = (struct waits){ .n = 0 };
}

/* Never 0, which is not a key: no request has type _total. */
static uint64_t
wait_key(uint32_t identity, uint32_t receiver)
{
	return (uint64_t)identity << 32 | receiver;
}

/* Finds or adds the cell.  NULL: out of memory. */
static struct kp_wait_cell *
wait_cell(struct kp_stats *st, uint32_t identity, uint32_t receiver)
{
	struct waits *ws = &st->waits;
	uint64_t *at = map_get(&ws->at, wait_key(identity, receiver));

	if (at == NULL && ws->n >= KP_WAIT_SERIES_MAX) {
		/* one more cell for each type may go past the cap */
		receiver = KP_RECEIVER_OTHER;
		at = map_get(&ws->at, wait_key(identity, receiver));
	}
	if (at != NULL)
		return &ws->v[*at];
	if (vec_room(&ws->v, &ws->room, ws->n, VEC_NO_CAP) != KP_OK ||
	    !map_put(&ws->at, wait_key(identity, receiver), ws->n))
		return NULL;
	ws->v[ws->n] = (struct kp_wait_cell){ .min = -1,
		.receiver = kp_requests_receiver(st->rs, receiver),
		.identity = kp_requests_identity(st->rs, identity) };
	return &ws->v[ws->n++];
}

/* False: no memory, or the count is too large; it adds nothing. */
static bool
wait_add(struct kp_wait_cell *c, const struct kp_wait *w, uint32_t weight)
{
	bool away = w->node != w->from;

	if (kp_hist_add(&c->hist, w->wait, weight) != KP_OK)
		return false;
	c->messages++;
	c->w_messages += weight;
	c->away += away;
	c->w_away += away ? weight : 0;
	c->wait = sat_add(c->wait, w->wait);
	c->w_wait = sat_add(c->w_wait, sat_mul(w->wait, weight));
	if (c->min < 0 || w->wait < c->min)
		c->min = w->wait;
	if (w->wait > c->max)
		c->max = w->wait;
	return true;
}

static void
add(struct kp_stats *st, const struct kp_request *rq, const struct kp_wait *w)
{
	struct kp_stats *of = st->peers != NULL ? st->peers[w->node] : st;
	uint32_t identity = rq->identity == KP_IDENT_TOTAL ? KP_IDENT_NONE :
	    rq->identity;
	struct kp_wait_cell *c = of != NULL ? wait_cell(of, identity, w->receiver) :
	    NULL;

	if (c == NULL || !wait_add(c, w, rq->weight > 0 ? rq->weight : 1))
		st->losses.n[KP_LOSS_MAIL_GONE]++;
}

void
kp_stats_waits(struct kp_stats *st, const struct kp_request *rq)
{
	const struct kp_wait queue = { .wait = rq->queued, .node = rq->node,
		.from = rq->node, .receiver = KP_RECEIVER_QUEUE };
	uint32_t n;
	const struct kp_wait *w = kp_requests_waits(st->rs, &n);

	for (uint32_t i = 0; i < n; i++)
		add(st, rq, &w[i]);
	if (rq->was_queued)
		add(st, rq, &queue);
}

static int
wait_cmp(const void *pa, const void *pb)
{
	const struct kp_wait_cell *a = pa, *b = pb;
	int order = strcmp(a->receiver, b->receiver);

	return order != 0 ? order : strcmp(a->identity, b->identity);
}

struct kp_wait_cell *
waits_take(struct waits *ws)
{
	struct kp_wait_cell *v = ws->v;

	if (ws->n > 1)
		qsort(v, ws->n, sizeof(*v), wait_cmp);
	map_free(&ws->at);
	*ws = (struct waits){ .n = 0 };
	return v;
}
