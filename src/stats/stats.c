/*
 * stats.c - adds requests to the cells of the running window.
 *
 * A call belongs to every tier of its function.  A tier's busy time is the
 * union of its calls; they come sorted by start, so a union is one pass that
 * remembers how far it has come.  Nothing is allocated for a request once
 * the scratch has grown to the longest and the cells are there.
 *
 * A request of several nodes is added up for each of them and for all at the
 * same time: what a call adds to the union of all is its node's share.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "self.h"
#include "state.h"

/* One request while it is added up: on one node, or on all. */
struct sum {
	struct kp_stats *st;
	struct sum *all;		/* itself, where there is but one */
	uint32_t identity, weight;
	kp_target_ns limit;		/* clip busy times here */
	bool overflow;			/* some of it went to _other */
	uint32_t cell[TIERS];		/* index plus one; 0: not met yet */
	bool counted[TIERS];		/* in the cell's requests */
	kp_target_ns reach[TIERS];	/* busy up to here; TIER_TOTAL: any */
	int64_t covered;		/* union of all tiers' calls */
	const struct call_pauses *pauses; /* of the call; NULL: not measured */
	int64_t gc, out;		/* of all calls */
};

struct kp_stats *
kp_stats_new(const struct kp_conf *conf, const char *node)
{
	struct kp_stats *st = calloc(1, sizeof(*st));

	if (st == NULL)
		return NULL;
	st->conf = conf;
	st->node = node;
	st->has_gc = conf->gc;
	return st;
}

void
kp_stats_release(struct kp_stats *st, bool gc_shared)
{
	st->has_gc = kp_conf_gc(st->conf, gc_shared);
}

void
kp_stats_free(struct kp_stats *st)
{
	if (st == NULL)
		return;
	cells_free(&st->cells);
	waits_free(&st->waits);
	free(st->self);
	free(st->reach);
	free(st->sums);
	pause_sums_free(&st->pauses);
	free(st);
}

void
kp_stats_names(struct kp_stats *st, const struct kp_requests *rs)
{
	st->rs = rs;
}

void
kp_stats_peers(struct kp_stats *st, struct kp_stats *const *by_node)
{
	st->peers = by_node;
}

static bool
scratch_for(struct kp_stats *st, uint32_t ncalls)
{
	kp_dur_ns *self;
	kp_target_ns *reach;
	size_t cap = st->cap > 0 ? st->cap : 64;

	if (ncalls <= st->cap)
		return true;
	while (cap < ncalls)
		cap *= 2;
	self = realloc(st->self, cap * sizeof(*self));
	if (self == NULL)
		return false;
	st->self = self;
	reach = realloc(st->reach, cap * sizeof(*reach));
	if (reach == NULL)
		return false;
	st->reach = reach;
	st->cap = cap;
	return true;
}

/* The cell of this request's identity and a tier; NULL when out of memory. */
static struct kp_cell *
sum_cell(struct sum *s, uint32_t tier)
{
	struct kp_stats *st = s->st;
	uint32_t identity = s->identity;
	struct kp_cell *c;

	if (s->cell[tier] > 0)
		return &st->cells.v[s->cell[tier] - 1];
	c = cells_find(&st->cells, cell_key(identity, tier));
	if (c == NULL && st->cells.n >= KP_SERIES_MAX &&
	    identity != KP_IDENT_OTHER) {
		/* one cell of _other for each tier may go past the cap */
		s->overflow = true;
		identity = KP_IDENT_OTHER;
		c = cells_find(&st->cells, cell_key(identity, tier));
	}
	if (c == NULL) {
		c = cells_add(&st->cells, cell_key(identity, tier));
		if (c == NULL) {
			st->losses.n[KP_LOSS_STORE]++;
			return NULL;
		}
		c->has_gc = st->has_gc;
		c->has_out = st->conf->scheduling;
		c->tier = tier == TIER_TOTAL ? "_total" :
		    st->conf->tiers[tier - 1].name;
		c->identity = kp_requests_identity(st->rs, identity);
	}
	s->cell[tier] = (uint32_t)(c - st->cells.v) + 1;
	return c;
}

/* Counts one call (or, in _total, the request) by its outcome. */
static void
count_outcome(struct kp_cell *c, uint8_t outcome, uint32_t weight)
{
	c->calls++;
	c->w_calls += weight;
	switch (outcome) {
	case KP_RETURNED:
		break;
	case KP_RAISED:
		c->raised++;
		c->w_raised += weight;
		break;
	case KP_AMBIGUOUS:
		c->ambiguous++;
		c->w_ambiguous += weight;
		break;
	default:
		c->unfinished++;
		c->w_unfinished += weight;
	}
}

static void
add_time(struct kp_cell *c, kp_dur_ns total, kp_dur_ns self, uint32_t weight)
{
	/* a count that the histogram has not would skew every quantile */
	if (kp_hist_add(&c->hist, total, weight) != KP_OK)
		return;
	c->timed++;
	c->w_timed += weight;
	c->total = sat_add(c->total, total);
	c->w_total = sat_add(c->w_total, sat_mul(total, weight));
	c->self = sat_add(c->self, self);
	c->w_self = sat_add(c->w_self, sat_mul(self, weight));
	if (c->min < 0 || total < c->min)
		c->min = total;
	if (total > c->max)
		c->max = total;
}

static void
add_pauses(struct kp_cell *c, kp_dur_ns gc, kp_dur_ns out, uint32_t weight)
{
	c->gc = sat_add(c->gc, gc);
	c->w_gc = sat_add(c->w_gc, sat_mul(gc, weight));
	c->out = sat_add(c->out, out);
	c->w_out = sat_add(c->w_out, sat_mul(out, weight));
}

static void
add_busy(struct kp_cell *c, kp_dur_ns busy, kp_dur_ns share, uint32_t weight)
{
	c->busy = sat_add(c->busy, busy);
	c->w_busy = sat_add(c->w_busy, sat_mul(busy, weight));
	c->share_busy = sat_add(c->share_busy, share);
	c->w_share_busy = sat_add(c->w_share_busy, sat_mul(share, weight));
}

static void
add_request(struct kp_cell *c, bool share, uint32_t weight)
{
	c->requests++;
	c->w_requests += weight;
	c->share_requests += share;
	c->w_share_requests += share ? weight : 0;
}

/* dur: -1 if it has none. */
static void
add_async(struct kp_cell *c, kp_dur_ns dur, uint32_t weight)
{
	c->async_calls++;
	c->w_async_calls += weight;
	if (dur < 0)
		return;
	c->async = sat_add(c->async, dur);
	c->w_async = sat_add(c->w_async, sat_mul(dur, weight));
}

/* How much this call adds to a union of which *reach is covered already. */
static kp_dur_ns
reach_out(kp_target_ns *reach, const struct kp_call *call, kp_target_ns limit)
{
	kp_target_ns from = call->start > *reach ? call->start : *reach;
	kp_target_ns to = call->end < limit ? call->end : limit;

	if (to <= from)
		return 0;
	*reach = to;
	return sat_span(from, to);
}

/* The tiers of a function, as bits of configured tiers only. */
static uint64_t
tiers_of(const struct kp_stats *st, uint32_t fn)
{
	uint64_t all = (UINT64_C(1) << st->conf->ntiers) - 1;

	return kp_requests_fn(st->rs, fn)->tiers & all;
}

static void
sum_call_in_tier(struct sum *s, const struct kp_call *call, kp_dur_ns self,
    uint32_t tier)
{
	struct kp_cell *c = sum_cell(s, tier);
	bool timed = outcome_timed(call->outcome);
	kp_dur_ns total = timed ? sat_span(call->start, call->end) : -1;
	kp_dur_ns busy;

	if (c == NULL)
		return;
	if (call->async) {
		add_async(c, total, s->weight);
		return;
	}
	if (!s->counted[tier]) {
		add_request(c, s->all == s || !s->all->counted[tier],
		    s->weight);
		s->counted[tier] = s->all->counted[tier] = true;
	}
	count_outcome(c, call->outcome, s->weight);
	if (!timed)
		return;
	add_time(c, total, self, s->weight);
	if (s->pauses != NULL)
		add_pauses(c, s->pauses->gc, s->pauses->out, s->weight);
	busy = reach_out(&s->reach[tier], call, s->limit);
	add_busy(c, busy, s->all == s ? busy :
	    reach_out(&s->all->reach[tier], call, s->limit), s->weight);
}

static void
sum_call(struct sum *s, const struct kp_call *call, kp_dur_ns self)
{
	uint64_t tiers = tiers_of(s->st, call->fn);
	struct kp_cell *all;

	if (s->pauses != NULL && !call->async) {
		s->all->gc = sat_add(s->all->gc, s->pauses->gc);
		s->all->out = sat_add(s->all->out, s->pauses->out);
	}
	if (tiers == 0)
		return;
	for (uint64_t rest = tiers; rest != 0; rest &= rest - 1)
		sum_call_in_tier(s, call, self,
		    (uint32_t)__builtin_ctzll(rest) + 1);
	if (call->async) {
		all = sum_cell(s, TIER_TOTAL);
		if (all != NULL)
			add_async(all, outcome_timed(call->outcome) ?
			    sat_span(call->start, call->end) : -1, s->weight);
	} else if (outcome_timed(call->outcome)) {
		s->all->covered = sat_add(s->all->covered,
		    reach_out(&s->all->reach[TIER_TOTAL], call, s->limit));
	}
}

/* Last, when it is known how much of the request the tiers cover. */
static void
sum_request(struct sum *s, const struct kp_request *rq)
{
	struct kp_cell *c = sum_cell(s, TIER_TOTAL);
	kp_dur_ns total = sat_span(rq->start, rq->end);

	if (c == NULL)
		return;
	add_request(c, true, s->weight);
	count_outcome(c, rq->outcome, s->weight);
	if (!outcome_timed(rq->outcome))
		return;
	add_time(c, total, total - s->covered, s->weight);
	add_pauses(c, s->gc, s->out, s->weight);
	add_busy(c, total, total, s->weight);
}

/* Identity _total is made when the window closes, never by a request. */
static void
sum_start(struct sum *s, struct kp_stats *st, uint32_t identity,
    uint32_t weight)
{
	*s = (struct sum){
		.st = st,
		.all = s,
		.identity = identity == KP_IDENT_TOTAL ? KP_IDENT_NONE :
		    identity,
		.weight = weight > 0 ? weight : 1,
		.limit = INT64_MAX,
	};
}

static void
sum_start_request(struct sum *s, struct kp_stats *st,
    const struct kp_request *rq)
{
	sum_start(s, st, rq->identity, rq->weight);
	/* without a known end there is nothing to clip to */
	if (outcome_timed(rq->outcome))
		s->limit = rq->end;
	for (uint32_t t = 0; st != NULL && t <= st->conf->ntiers; t++)
		s->reach[t] = rq->start;
}

/* On one node.  Says whether some of it went to _other. */
static bool
sum_here(struct kp_stats *st, const struct kp_request *rq,
    const struct call_pauses *pauses)
{
	struct sum s;

	sum_start_request(&s, st, rq);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		if (pauses != NULL)
			s.pauses = &pauses[i];
		sum_call(&s, &rq->calls[i], st->self[i]);
	}
	sum_request(&s, rq);
	return s.overflow;
}

/* On several: each call where it ran. */
static bool
sum_nodes(struct kp_stats *st, const struct kp_request *rq,
    const struct call_pauses *pauses)
{
	struct sum *all = &st->sums[KP_NODES_MAX], *s;
	uint32_t n;

	sum_start_request(all, st, rq);
	for (uint64_t rest = rq->nodes; rest != 0; rest &= rest - 1) {
		n = (uint32_t)__builtin_ctzll(rest);
		sum_start_request(&st->sums[n], st->peers[n], rq);
		st->sums[n].all = all;
	}
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		s = &st->sums[rq->calls[i].node];
		if (pauses != NULL)
			s->pauses = &pauses[i];
		if (s->st != NULL)
			sum_call(s, &rq->calls[i], st->self[i]);
		else
			st->losses.n[KP_LOSS_LEFT]++;
		all->overflow |= s->overflow;
	}
	sum_request(all, rq);
	return all->overflow;
}

void
kp_stats_request(struct kp_stats *st, const struct kp_request *rq)
{
	bool here = st->peers == NULL ||
	    rq->nodes == UINT64_C(1) << rq->node;
	const struct call_pauses *pauses = NULL;

	st->sampled += !rq->expired;	/* that one is a loss */
	if (!here && st->sums == NULL)
		st->sums = calloc(KP_NODES_MAX + 1, sizeof(*st->sums));
	if (!scratch_for(st, rq->ncalls) || (!here && st->sums == NULL)) {
		st->losses.n[KP_LOSS_STORE]++;
		return;
	}
	request_self(rq, st->self, st->reach);
	if (rq->npauses > 0) {
		pauses = pause_sums(&st->pauses, rq, st->self, st->reach);
		st->losses.n[KP_LOSS_PAUSE_CAP] += pauses == NULL ?
		    rq->npauses : 0;
	}
	if (here ? sum_here(st, rq, pauses) : sum_nodes(st, rq, pauses))
		st->losses.n[KP_LOSS_IDENTITY_CAP]++;
}

void
kp_stats_late(struct kp_stats *st, const struct kp_late_call *late)
{
	struct kp_call call = {
		.start = late->start, .end = late->end, .fn = late->fn,
		.parent = KP_NONE, .outcome = late->outcome, .async = true,
	};
	struct sum s;

	sum_start(&s, st, late->identity, late->weight);
	sum_call(&s, &call, -1);
}
