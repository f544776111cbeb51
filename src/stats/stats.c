/*
 * stats.c - adds requests to the cells of the running window.
 *
 * A call belongs to every tier of its function.  A tier's busy time is the
 * union of its calls.  Once the scratch has grown and the cells exist, a
 * request allocates nothing except for calls that outlast it.
 *
 * A request of several nodes is added up for each of them and for all at the
 * same time: a call's part of the union of all is its node's share.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "state.h"

/* --------------------------------------------------------------- cells ---- */

/* Cells are only ever added; a closing window takes the whole array. */
static void
cells_free(struct cells *cs)
{
	for (size_t i = 0; i < cs->n; i++)
		kp_cell_free(&cs->v[i]);
	free(cs->v);
	map_free(&cs->at);
	*cs = (struct cells){ 0 };
}

static struct kp_cell *
cells_find(const struct cells *cs, uint64_t key)
{
	uint64_t *at = map_get(&cs->at, key);

	return at != NULL ? &cs->v[*at] : NULL;
}

/* The key must not be there yet.  NULL: out of memory. */
static struct kp_cell *
cells_add(struct cells *cs, uint64_t key)
{
	if (vec_room(&cs->v, &cs->room, cs->n, VEC_NO_CAP) != KP_OK ||
	    !map_put(&cs->at, key, cs->n))
		return NULL;
	cs->v[cs->n] = (struct kp_cell){ .min = -1 };
	return &cs->v[cs->n++];
}

struct kp_cell *
cells_take(struct cells *cs)
{
	struct kp_cell *v = cs->v;

	map_clear(&cs->at);
	cs->v = NULL;
	cs->n = cs->room = 0;
	return v;
}

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
kp_stats_set_gc(struct kp_stats *st, bool gc_shared)
{
	st->has_gc = kp_conf_gc(st->conf, gc_shared);
}

bool
kp_stats_has_gc(const struct kp_stats *st)
{
	return st->has_gc;
}

static void sums_free(struct sum *sums);

void
kp_stats_free(struct kp_stats *st)
{
	if (st == NULL)
		return;
	cells_free(&st->cells);
	waits_free(&st->waits);
	free(st->self);
	free(st->reach);
	free(st->made);
	free(st->up);
	sums_free(st->sums);
	pause_sums_free(&st->pauses);
	insides_free(&st->insides);
	free(st);
}

void
kp_stats_names(struct kp_stats *st, const struct kp_requests *rs)
{
	st->rs = rs;
}

void
kp_stats_rename(struct kp_stats *st, const char *node)
{
	st->node = node;
}

void
kp_stats_peers(struct kp_stats *st, struct kp_stats *const *by_node)
{
	st->peers = by_node;
}

/* ------------------------------------------------------- sums of a request ---- */

/*
 * The time in which at least one of some calls ran.
 *
 * Calls are sorted by start, so a union is one pass that remembers how far it
 * has come.  Calls that outlast the request add to it when they end: each holds
 * the time from its own start to that of the next one, or to the request's end,
 * in which no call that ended was busy.  Together they add up to the union.
 */
struct busy_union {
	kp_target_ns reach;	/* the time up to here is accounted for */
	kp_dur_ns *holder;	/* gets the idle time after that; or NULL */
};

/* Gives the idle time up to `to` to the holder. */
static inline void
union_idle(struct busy_union *u, kp_target_ns to)
{
	if (u->holder == NULL || to <= u->reach)
		return;
	*u->holder = sat_add(*u->holder, sat_span(u->reach, to));
	u->reach = to;
}

/* Adds a call that outlasts the request; *sum gets its part; or NULL. */
static inline void
union_hold(struct busy_union *u, kp_target_ns start, kp_dur_ns *sum)
{
	union_idle(u, start);
	u->holder = sum;
	if (start > u->reach)
		u->reach = start;
}

/* Adds a call that ended; returns its part, clipped. */
static inline kp_dur_ns
union_add(struct busy_union *u, const struct kp_call *c, kp_target_ns limit)
{
	kp_target_ns from, to = c->end < limit ? c->end : limit;

	union_idle(u, c->start < limit ? c->start : limit);
	from = c->start > u->reach ? c->start : u->reach;
	if (to <= from)
		return 0;
	u->reach = to;
	return sat_span(from, to);
}

/* The part of a request that is in one tier. */
struct sum_tier {
	uint32_t cell;			/* index plus one; 0: none yet */
	bool counted;			/* in the cell's requests */
	struct busy_union busy;
};

/* The sums of one request: on one node, or on all. */
struct sum {
	struct kp_stats *st;
	const struct kp_fn *fns;	/* by number: see sum_tiers() */
	struct sum *all;		/* itself for a request of one node */
	uint32_t identity, weight;
	kp_target_ns limit;		/* clip busy times here */
	bool overflow;			/* some calls count under _other */
	int64_t covered;		/* union of all tiers' calls */
	/* Of the call that is being added: */
	const struct call_made *made;	/* NULL: not known */
	const struct kp_call_pauses *pauses; /* NULL: not measured */
	struct inside *inside;		/* if it outlasts the request */
	int64_t gc, out;		/* of all calls */
	/* Those seen so far.  TIER_TOTAL's busy is any tier's. */
	struct sum_tier *tier;
};

static bool
scratch_for(struct kp_stats *st, uint32_t ncalls)
{
	kp_dur_ns *self;
	kp_target_ns *reach;
	struct call_made *made;
	uint32_t *up;
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
	made = realloc(st->made, cap * sizeof(*made));
	if (made == NULL)
		return false;
	st->made = made;
	up = realloc(st->up, cap * sizeof(*up));
	if (up == NULL)
		return false;
	st->up = up;
	st->cap = cap;
	return true;
}

static struct kp_cell *
sum_find_cell(struct sum *s, uint32_t tier)
{
	struct kp_stats *st = s->st;
	uint32_t identity = s->identity;
	bool part = tier > st->conf->ntiers;
	struct kp_cell *c;

	c = cells_find(&st->cells, cell_key(identity, tier));
	/* labels leave room for tiers */
	if (c == NULL && st->cells.n >= KP_SERIES_MAX / (part ? 2 : 1) &&
	    identity != KP_IDENT_OTHER) {
		/* one cell of _other for each tier may go past the cap */
		s->overflow |= !part;
		st->losses.n[KP_LOSS_LABEL_CAP] += part;
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
		c->tier = tier_name(st, tier);
		c->identity = kp_requests_identity(st->rs, identity);
	}
	s->tier[tier].cell = (uint32_t)(c - st->cells.v) + 1;
	return c;
}

/* Returns the cell of this request's type and a tier; NULL: out of memory. */
static inline struct kp_cell *
sum_cell(struct sum *s, uint32_t tier)
{
	uint32_t at = s->tier[tier].cell;

	return at > 0 ? &s->st->cells.v[at - 1] : sum_find_cell(s, tier);
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
	case KP_UNKNOWN:
		c->unknown_outcomes++;
		c->w_unknown_outcomes += weight;
		break;
	default:
		c->unfinished++;
		c->w_unfinished += weight;
	}
}

static void
add_time(struct kp_cell *c, kp_dur_ns total, kp_dur_ns self, uint32_t weight)
{
	/* calls that the histogram lacks must not count in the sums either */
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

/* Does nothing if made is NULL, which means unknown. */
static void
add_made(struct kp_cell *c, const struct call_made *made, uint32_t weight)
{
	if (made == NULL)
		return;
	c->w_inside += (uint64_t)made->all * weight;
	c->w_made += (uint64_t)made->made * weight;
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

static void
add_async(struct kp_cell *c, const struct kp_call *call, uint32_t weight)
{
	bool raised = call->outcome == KP_RAISED;
	bool unknown = call->outcome == KP_UNKNOWN ||
	    call->outcome == KP_AMBIGUOUS;
	bool unfinished = call->outcome == KP_UNFINISHED;
	kp_dur_ns dur;

	c->async_calls++;
	c->w_async_calls += weight;
	c->async_raised += raised;
	c->w_async_raised += raised ? weight : 0;
	c->async_unknown += unknown;
	c->w_async_unknown += unknown ? weight : 0;
	c->async_unfinished += unfinished;
	c->w_async_unfinished += unfinished ? weight : 0;
	if (!kp_outcome_timed(call->outcome))
		return;
	dur = sat_span(call->start, call->end);
	if (kp_hist_add(&c->async_hist, dur, weight) == KP_OK &&
	    dur > c->async_max)
		c->async_max = dur;
	c->async = sat_add(c->async, dur);
	c->w_async = sat_add(c->w_async, sat_mul(dur, weight));
}

/* Adds the time after the end of a call that began inside. */
static void
add_after(struct kp_cell *c, kp_dur_ns after, uint32_t weight)
{
	if (after <= 0)
		return;
	c->outlasting++;
	c->w_outlasting += weight;
	c->async = sat_add(c->async, after);
	c->w_async = sat_add(c->w_async, sat_mul(after, weight));
}

/* Returns a function's tiers, as bits of configured tiers only. */
static inline uint64_t
sum_tiers(const struct sum *s, uint32_t fn)
{
	return s->fns[fn].tiers &
	    ((UINT64_C(1) << s->st->conf->ntiers) - 1);
}

/* Returns the part that a call with a label is of; 0: it has none. */
static inline uint32_t
sum_part(const struct sum *s, uint32_t fn)
{
	uint32_t part = s->fns[fn].part;

	return part == 0 ? 0 : (uint32_t)s->st->conf->ntiers + part;
}

/* Adds a call with an outcome, and returns whether it has a time. */
static inline bool
sum_ended(const struct sum *s, struct kp_cell *c, const struct kp_call *call,
    kp_dur_ns self)
{
	count_outcome(c, call->outcome, s->weight);
	if (!kp_outcome_timed(call->outcome))
		return false;
	add_time(c, sat_span(call->start, call->end), self, s->weight);
	add_after(c, sat_span(s->limit, call->end), s->weight);
	return true;
}

/* Prepares a call that outlasts its request: its time counts when it ends. */
static void
sum_open(struct sum *s, const struct kp_call *call, uint32_t tier)
{
	struct inside_tier *x = NULL;

	if (s->inside != NULL) {
		x = &s->inside->v[s->inside->n++];
		x->tier = tier;
	}
	union_hold(&s->tier[tier].busy, call->start, x != NULL ? &x->busy : NULL);
	if (s->all != s)
		union_hold(&s->all->tier[tier].busy, call->start,
		    x != NULL ? &x->share : NULL);
}

/*
 * Adds a call that ran inside.  One that outlasts its request has no outcome
 * yet: only its end shows the outcome, and how long it ran.
 */
static void
sum_inside(struct sum *s, const struct kp_call *call, kp_dur_ns self,
    uint32_t tier)
{
	struct kp_cell *c = sum_cell(s, tier);
	kp_dur_ns busy;

	if (c == NULL)
		return;
	if (!s->tier[tier].counted) {
		add_request(c, s->all == s || !s->all->tier[tier].counted,
		    s->weight);
		s->tier[tier].counted = s->all->tier[tier].counted = true;
	}
	if (call->outlasts) {
		sum_open(s, call, tier);
		return;
	}
	if (!sum_ended(s, c, call, self))
		return;
	add_made(c, s->made, s->weight);
	if (s->pauses != NULL)
		add_pauses(c, s->pauses->gc, s->pauses->out, s->weight);
	busy = union_add(&s->tier[tier].busy, call, s->limit);
	add_busy(c, busy, s->all == s ? busy :
	    union_add(&s->all->tier[tier].busy, call, s->limit), s->weight);
}

static inline bool
ends_after(const struct sum *s, const struct kp_call *call)
{
	return call->end > s->limit && kp_outcome_timed(call->outcome);
}

/* Adds a call's time after the request to _total, once for each call. */
static void
sum_after(struct sum *s, const struct kp_call *call)
{
	struct kp_cell *c = sum_cell(s, TIER_TOTAL);

	if (c == NULL)
		return;
	if (call->async)
		add_async(c, call, s->weight);
	else
		add_after(c, sat_span(s->limit, call->end), s->weight);
}

static void
sum_outside_tier(struct sum *s, const struct kp_call *call, kp_dur_ns self,
    uint32_t tier)
{
	struct kp_cell *c = sum_cell(s, tier);

	if (c != NULL && call->async)
		add_async(c, call, s->weight);
	else if (c != NULL)
		sum_ended(s, c, call, self);
}

/* Adds a call after its request, or the rest of one that outlasts it. */
static void
sum_outside(struct sum *s, const struct kp_call *call, kp_dur_ns self)
{
	uint64_t rest = sum_tiers(s, call->fn);
	uint32_t part = sum_part(s, call->fn);

	for (uint64_t left = rest; left != 0; left &= left - 1)
		sum_outside_tier(s, call, self,
		    (uint32_t)__builtin_ctzll(left) + 1);
	if (part != 0)
		sum_outside_tier(s, call, self, part);
	if (rest != 0 && (call->async || ends_after(s, call)))
		sum_after(s, call);
}

/* A call with another request's token: others like it came with none. */
static void
add_strayed(struct sum *s, uint64_t tiers)
{
	struct kp_cell *c;

	for (; tiers != 0; tiers &= tiers - 1) {
		c = sum_cell(s, (uint32_t)__builtin_ctzll(tiers) + 1);
		if (c == NULL)
			continue;
		c->strayed++;
		c->missed += (uint64_t)s->weight * (s->weight - 1);
	}
}

static inline void
sum_call(struct sum *s, const struct kp_call *call, kp_dur_ns self)
{
	uint64_t tiers = sum_tiers(s, call->fn);
	uint32_t part;

	if (call->strayed && s->weight > 1 &&
	    kp_sampling_mixes(&s->st->conf->sampling))
		add_strayed(s, tiers);
	if (call->outlasts && call->start >= s->limit)
		return;		/* kp_stats_late() adds all of it */
	if (call->async) {
		sum_outside(s, call, self);
		return;
	}
	if (s->pauses != NULL) {
		s->all->gc = sat_add(s->all->gc, s->pauses->gc);
		s->all->out = sat_add(s->all->out, s->pauses->out);
	}
	if (tiers == 0)
		return;
	for (uint64_t rest = tiers; rest != 0; rest &= rest - 1)
		sum_inside(s, call, self,
		    (uint32_t)__builtin_ctzll(rest) + 1);
	if ((part = sum_part(s, call->fn)) != 0)
		sum_inside(s, call, self, part);
	if (ends_after(s, call))
		sum_after(s, call);
	if (kp_outcome_timed(call->outcome))
		s->all->covered = sat_add(s->all->covered,
		    union_add(&s->all->tier[TIER_TOTAL].busy, call, s->limit));
}

/* Adds the request itself, after its calls: it needs what tiers cover. */
static void
sum_request(struct sum *s, const struct kp_request *rq)
{
	struct kp_cell *c = sum_cell(s, TIER_TOTAL);
	kp_dur_ns total = sat_span(rq->start, rq->end);

	if (c == NULL)
		return;
	add_request(c, true, s->weight);
	count_outcome(c, rq->outcome, s->weight);
	if (!kp_outcome_timed(rq->outcome))
		return;
	add_time(c, total, total - s->covered, s->weight);
	/* the entry's own call is the first */
	add_made(c, rq->ncalls > 0 ? s->st->made : NULL, s->weight);
	add_pauses(c, s->gc, s->out, s->weight);
	add_busy(c, total, total, s->weight);
}

/*
 * Type _total is made when the window closes, never by a request.  Members are
 * set one by one: there is room for many more tiers than most files configure.
 */
static void
sum_start(struct sum *s, struct kp_stats *st, uint32_t identity,
    uint32_t weight, kp_target_ns start)
{
	s->st = st;
	s->fns = st != NULL ? kp_requests_fn(st->rs, 0) : NULL;
	s->all = s;
	s->identity = identity == KP_IDENT_TOTAL ? KP_IDENT_NONE : identity;
	s->weight = weight > 0 ? weight : 1;
	s->limit = INT64_MAX;
	s->overflow = false;
	s->covered = s->gc = s->out = 0;
	s->made = NULL;
	s->pauses = NULL;
	s->inside = NULL;
	for (uint32_t t = 0; st != NULL && t <= tiers_seen(st); t++)
		s->tier[t] = (struct sum_tier){ .busy.reach = start };
}

static void
sum_start_request(struct sum *s, struct kp_stats *st,
    const struct kp_request *rq)
{
	sum_start(s, st, rq->identity, rq->weight, rq->start);
	/* without a known end there is nothing to clip to */
	if (rq->outcome != KP_UNFINISHED)
		s->limit = rq->end;
}

/* Gives the idle time at the end of each tier to the call open in it. */
static void
sum_end(struct sum *s)
{
	for (uint32_t t = 1; s->st != NULL && t <= tiers_seen(s->st); t++)
		union_idle(&s->tier[t].busy, s->limit);
}

/* Keeps the times so far of a call that outlasts the request. */
static struct inside *
keep_inside(struct sum *s, const struct kp_call *c, kp_dur_ns self)
{
	struct inside *x = c->start < s->limit && self >= 0 ?
	    inside_keep(&s->st->insides, c->outlasts, (unsigned)
	    __builtin_popcountll(sum_tiers(s, c->fn)) +
	    (sum_part(s, c->fn) != 0)) : NULL;

	if (x != NULL) {
		x->self = self;
		x->alone = s->all == s;
	}
	return x;
}

/* Adds call i of the request where it ran. */
static void
sum_nth(struct sum *s, const struct kp_request *rq, uint32_t i,
    const struct kp_stats *st, const struct kp_call_pauses *pauses)
{
	const struct kp_call *c = &rq->calls[i];

	s->pauses = pauses != NULL ? &pauses[i] : NULL;
	s->made = &st->made[i];
	s->inside = c->outlasts ? keep_inside(s, c, st->self[i]) : NULL;
	sum_call(s, c, st->self[i]);
}

/* For one node.  Returns whether some calls count under _other. */
static bool
sum_here(struct kp_stats *st, const struct kp_request *rq,
    const struct kp_call_pauses *pauses)
{
	struct sum_tier tier[TIERS_MAX];
	struct sum s = { .tier = tier };

	sum_start_request(&s, st, rq);
	for (uint32_t i = 0; i < rq->ncalls; i++)
		sum_nth(&s, rq, i, st, pauses);
	sum_end(&s);
	sum_request(&s, rq);
	return s.overflow;
}

static void
sums_free(struct sum *sums)
{
	if (sums != NULL)
		free(sums[0].tier);
	free(sums);
}

/* Makes room for the sums of a request of several nodes. */
static bool
sums_for(struct kp_stats *st)
{
	uint32_t n = tiers_seen(st) + 1;
	struct sum_tier *tier;

	if (st->sums == NULL)
		st->sums = calloc(KP_NODES_MAX + 1, sizeof(*st->sums));
	if (st->sums == NULL || n <= st->sum_room)
		return st->sums != NULL;
	tier = realloc(st->sums[0].tier, (KP_NODES_MAX + 1) * (size_t)n * sizeof(*tier));
	if (tier == NULL)
		return false;
	st->sum_room = n;
	for (uint32_t i = 0; i <= KP_NODES_MAX; i++)
		st->sums[i].tier = tier + (size_t)i * n;
	return true;
}

/* For several nodes: adds each call where it ran.  Returns as sum_here(). */
static bool
sum_nodes(struct kp_stats *st, const struct kp_request *rq,
    const struct kp_call_pauses *pauses)
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
		if (s->st != NULL)
			sum_nth(s, rq, i, st, pauses);
		else
			st->losses.n[KP_LOSS_LEFT]++;
		all->overflow |= s->overflow;
	}
	for (uint64_t rest = rq->nodes; rest != 0; rest &= rest - 1)
		sum_end(&st->sums[__builtin_ctzll(rest)]);
	sum_end(all);
	sum_request(all, rq);
	return all->overflow;
}

void
kp_stats_request(struct kp_stats *st, const struct kp_request *rq)
{
	bool here = st->peers == NULL ||
	    rq->nodes == UINT64_C(1) << rq->node;
	const struct kp_call_pauses *pauses = NULL;

	st->sampled += !rq->expired;	/* an expired one is a loss */
	if (!scratch_for(st, rq->ncalls) || (!here && !sums_for(st))) {
		st->losses.n[KP_LOSS_STORE]++;
		return;
	}
	request_self(rq, st->self, st->reach);
	request_made(rq, st->made);
	if (rq->npauses > 0) {
		pauses = pause_sums(&st->pauses, rq, st->self, st->reach);
		st->losses.n[KP_LOSS_PAUSE_CAP] += pauses == NULL ?
		    rq->npauses : 0;
	}
	if (rq->outlasts)
		inside_self(rq, st->self, st->reach, st->up);
	if (here ? sum_here(st, rq, pauses) : sum_nodes(st, rq, pauses))
		st->losses.n[KP_LOSS_IDENTITY_CAP]++;
}

/* Adds the busy time of a call that ended, and so ran inside to the end. */
static void
sum_was_inside(struct sum *s, const struct inside *x)
{
	struct kp_cell *c;

	for (uint32_t i = 0; i < x->n; i++) {
		c = sum_cell(s, x->v[i].tier);
		if (c != NULL)
			add_busy(c, x->v[i].busy, x->alone ? x->v[i].busy :
			    x->v[i].share, s->weight);
	}
}

void
kp_stats_late(struct kp_stats *st, const struct kp_late_call *late)
{
	bool inside = late->outlasts && late->limit > late->start;
	struct kp_call call = {
		.start = late->start, .end = late->end, .fn = late->fn,
		.parent = KP_NONE, .outcome = late->outcome, .async = !inside,
	};
	struct sum_tier tier[TIERS_MAX];
	struct sum s = { .tier = tier };
	struct inside *x;

	sum_start(&s, st, late->identity, late->weight, 0);
	if (late->crossed) {
		for (uint64_t t = sum_tiers(&s, late->fn); t != 0; t &= t - 1) {
			st->calls[__builtin_ctzll(t) + 1].crossed++;
			st->calls[__builtin_ctzll(t) + 1].missed += s.weight;
		}
		return;
	}
	if (inside)
		s.limit = late->limit;
	x = inside_take(&st->insides, late->outlasts);
	if (inside && x == NULL && kp_outcome_timed(late->outcome)) {
		call.outcome = KP_UNFINISHED;
		st->losses.n[KP_LOSS_OUTLASTED_CUT]++;
	}
	sum_outside(&s, &call, late->end - late->limit - late->waited +
	    (x != NULL ? x->self : 0));
	if (x != NULL && inside && kp_outcome_timed(call.outcome))
		sum_was_inside(&s, x);
	free(x);
}

void
kp_stats_counted(struct kp_stats *st, uint32_t tier, uint64_t n)
{
	if (tier <= st->conf->ntiers)
		st->calls[tier].counted += n;
}
