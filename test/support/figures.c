/* figures.c - see the header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"

enum { CELLS = 1024, MOMENTS = 4096, NODES = 4 };

static struct {
	const struct kp_conf *conf;
	struct kp_cell cell[CELLS];
	uint32_t node[CELLS];		/* of each */
	size_t ncells;
	uint64_t sampled[NODES];
	/* of calls that outlast their request, what they did inside */
	struct inside {
		uint32_t number;
		int tier;
		kp_dur_ns busy, share, self;
	} inside[CELLS];
	size_t ninside;
} fig;

void
figures_reset(const struct kp_conf *conf)
{
	fig.conf = conf;
	fig.ncells = fig.ninside = 0;
	for (int i = 0; i < NODES; i++)
		fig.sampled[i] = 0;
}

/* tier -1: "_total" */
static struct kp_cell *
cell(uint32_t node, int tier, const char *identity)
{
	const char *name = tier < 0 ? "_total" : fig.conf->tiers[tier].name;
	struct kp_cell *c;

	for (size_t i = 0; i < fig.ncells; i++) {
		c = &fig.cell[i];
		if (fig.node[i] == node && strcmp(c->tier, name) == 0 &&
		    strcmp(c->identity, identity) == 0)
			return c;
	}
	assert_true(fig.ncells < CELLS && node < NODES);
	fig.node[fig.ncells] = node;
	c = &fig.cell[fig.ncells++];
	*c = (struct kp_cell){ .tier = name, .identity = identity, .min = -1 };
	return c;
}

static bool
timed(const struct fig_call *c)
{
	return kp_outcome_timed(c->outcome);
}

static int
time_cmp(const void *pa, const void *pb)
{
	const kp_target_ns *a = pa, *b = pb;

	return *a < *b ? -1 : *a > *b;
}

/*
 * How many ns within [from, to) some call of those that `is` picks runs, and
 * the first of these that does is on this node (-1: on any).  Between two of
 * the times at which calls begin or end nothing changes.
 */
static kp_dur_ns
covered(const struct fig_request *rq, kp_target_ns from, kp_target_ns to,
    bool (*is)(const struct fig_request *, int, int), int arg, int node)
{
	static kp_target_ns at[MOMENTS];
	kp_dur_ns sum = 0;
	int n = 0;

	for (int i = 0; i < rq->ncalls; i++)
		if (is(rq, i, arg)) {
			assert_true(n + 4 <= MOMENTS);
			at[n++] = rq->calls[i].start;
			at[n++] = rq->calls[i].end;
		}
	at[n++] = from;
	at[n++] = to;
	qsort(at, (size_t)n, sizeof(*at), time_cmp);
	for (int m = 0; m + 1 < n; m++) {
		if (at[m] < from || at[m + 1] > to || at[m] == at[m + 1])
			continue;
		for (int i = 0; i < rq->ncalls; i++)
			if (is(rq, i, arg) && rq->calls[i].start <= at[m] &&
			    rq->calls[i].end >= at[m + 1]) {
				sum += node < 0 || (uint32_t)node ==
				    rq->calls[i].node ? at[m + 1] - at[m] : 0;
				break;
			}
	}
	return sum;
}

/* ---- what is covered by what ---- */

/* Did call i wait for call j?  Through calls of which no time is known, too. */
static bool
waited_for(const struct fig_request *rq, int j, int i)
{
	int p = rq->calls[j].parent;

	if (!timed(&rq->calls[j]))
		return false;
	while (p >= 0 && (!timed(&rq->calls[p]) ||
	    rq->calls[p].end <= rq->calls[j].start))
		p = rq->calls[p].parent;
	return p == i && (!rq->calls[j].async || rq->calls[i].async);
}

static bool
in_tier(const struct fig_request *rq, int j, int tier)
{
	return timed(&rq->calls[j]) && !rq->calls[j].async &&
	    (tier < 0 ? rq->calls[j].tiers != 0 :
	    (rq->calls[j].tiers >> tier & 1) != 0);
}

/* ---- of one node ---- */

static struct {
	uint32_t node;
} here;

static bool
in_tier_here(const struct fig_request *rq, int j, int tier)
{
	return rq->calls[j].node == here.node && in_tier(rq, j, tier);
}

/* ---- adding up ---- */

#define ADD(c, field, n)                                   \
	((c)->field += (n), (c)->w_##field += (n) * weight)

static void
add_outcome(struct kp_cell *c, uint8_t outcome, uint32_t weight)
{
	ADD(c, calls, 1);
	if (outcome == KP_RAISED)
		ADD(c, raised, 1);
	if (outcome == KP_UNFINISHED)
		ADD(c, unfinished, 1);
	if (outcome == KP_AMBIGUOUS)
		ADD(c, ambiguous, 1);
	if (outcome == KP_UNKNOWN)
		ADD(c, unknown_outcomes, 1);
}

static void
add_time(struct kp_cell *c, kp_dur_ns total, kp_dur_ns self, uint32_t weight)
{
	ADD(c, timed, 1);
	ADD(c, total, total);
	ADD(c, self, self);
	if (c->min < 0 || total < c->min)
		c->min = total;
	if (total > c->max)
		c->max = total;
}

static void
add_async(struct kp_cell *c, const struct fig_call *call, uint32_t weight)
{
	ADD(c, async_calls, 1);
	if (timed(call))
		ADD(c, async, call->end - call->start);
}

/* What of a call that began inside was after this end. */
static void
add_after(struct kp_cell *c, const struct fig_call *call, kp_target_ns end,
    uint32_t weight)
{
	if (!timed(call) || call->end <= end)
		return;
	ADD(c, outlasting, 1);
	ADD(c, async, call->end - end);
}

static kp_target_ns
end_of(const struct fig_request *rq)
{
	return rq->outcome != KP_UNFINISHED ? rq->end : INT64_MAX;
}

/* All of it comes later. */
static bool
to_come(const struct fig_request *rq, const struct fig_call *c)
{
	return c->outlasts && c->start >= end_of(rq);
}

static void
add_call(const struct fig_request *rq, int i, int tier, const char *identity)
{
	const struct fig_call *c = &rq->calls[i];
	struct kp_cell *to = cell(c->node, tier, identity);
	kp_dur_ns self;

	if (c->async) {
		add_async(to, c, rq->weight);
		return;
	}
	if (c->outlasts)
		return;
	self = c->end - c->start -
	    covered(rq, c->start, c->end, waited_for, i, -1);
	add_outcome(to, c->outcome, rq->weight);
	if (timed(c))
		add_time(to, c->end - c->start, self, rq->weight);
	add_after(to, c, end_of(rq), rq->weight);
}

static void
add_tier(const struct fig_request *rq, int tier, const char *identity)
{
	bool any[NODES] = { false };
	int first = -1;
	uint32_t weight = rq->weight;
	kp_target_ns end = end_of(rq);
	struct kp_cell *c;

	for (int i = 0; i < rq->ncalls; i++)
		if ((rq->calls[i].tiers >> tier & 1) &&
		    !to_come(rq, &rq->calls[i])) {
			any[rq->calls[i].node] |= !rq->calls[i].async;
			if (first < 0 && !rq->calls[i].async)
				first = (int)rq->calls[i].node;
			add_call(rq, i, tier, identity);
		}
	for (int n = 0; n < NODES; n++) {
		if (!any[n])
			continue;
		here.node = (uint32_t)n;
		c = cell(here.node, tier, identity);
		ADD(c, requests, 1);
		ADD(c, share_requests, first == n);
		ADD(c, busy, covered(rq, rq->start, end, in_tier_here, tier,
		    -1));
		ADD(c, share_busy, covered(rq, rq->start, end, in_tier, tier,
		    n));
	}
}

static void
add_total(const struct fig_request *rq, const char *identity)
{
	struct kp_cell *c;
	uint32_t weight = rq->weight;

	for (int i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].tiers == 0 || to_come(rq, &rq->calls[i]))
			continue;
		else if (rq->calls[i].async)
			add_async(cell(rq->calls[i].node, -1, identity),
			    &rq->calls[i], rq->weight);
		else if (timed(&rq->calls[i]) && rq->calls[i].end > end_of(rq))
			add_after(cell(rq->calls[i].node, -1, identity),
			    &rq->calls[i], end_of(rq), rq->weight);
	c = cell(rq->node, -1, identity);
	ADD(c, requests, 1);
	ADD(c, share_requests, 1);
	add_outcome(c, rq->outcome, weight);
	if (!kp_outcome_timed(rq->outcome))
		return;
	add_time(c, rq->end - rq->start, rq->end - rq->start -
	    covered(rq, rq->start, rq->end, in_tier, -1, -1), weight);
	ADD(c, busy, rq->end - rq->start);
	ADD(c, share_busy, rq->end - rq->start);
}

/* Did call i, which outlasts the request, wait for call j inside? */
static bool
waited_inside(const struct fig_request *rq, int j, int i)
{
	int p = rq->calls[j].parent;

	if (rq->calls[j].async || !(timed(&rq->calls[j]) ||
	    (rq->calls[j].outlasts && rq->calls[j].proc == rq->calls[i].proc)))
		return false;
	while (p >= 0 && p != i && !timed(&rq->calls[p]))
		p = rq->calls[p].parent;
	return p == i;
}

/* Where the next one of the tier takes over; node -1: on any. */
static kp_target_ns
next_start(const struct fig_request *rq, int i, int tier, int node)
{
	const struct fig_call *c;

	for (int j = i + 1; j < rq->ncalls; j++) {
		c = &rq->calls[j];
		if (c->outlasts && !c->async && c->start < rq->end &&
		    (c->tiers >> tier & 1) &&
		    (node < 0 || c->node == (uint32_t)node))
			return c->start;
	}
	return rq->end;
}

/* For when its end is seen, if it is. */
static void
keep_inside(const struct fig_request *rq, int i, int tier)
{
	const struct fig_call *c = &rq->calls[i];
	kp_target_ns to = next_start(rq, i, tier, (int)c->node);
	kp_target_ns all = next_start(rq, i, tier, -1);

	here.node = c->node;
	assert_true(fig.ninside < CELLS);
	fig.inside[fig.ninside++] = (struct inside){ c->outlasts, tier,
		to - c->start - covered(rq, c->start, to, in_tier_here, tier,
		    -1),
		all - c->start - covered(rq, c->start, all, in_tier, tier, -1),
		rq->end - c->start - covered(rq, c->start, rq->end,
		    waited_inside, i, -1) };
}

static void
keep_insides(const struct fig_request *rq)
{
	for (int i = 0; i < rq->ncalls; i++)
		for (size_t t = 0; t < fig.conf->ntiers; t++)
			if (rq->calls[i].outlasts &&
			    (rq->calls[i].tiers >> t & 1) &&
			    rq->calls[i].start < end_of(rq))
				keep_inside(rq, i, (int)t);
}

void
figures_request(const struct fig_request *rq)
{
	const char *identity[] = { rq->identity, "_total" };

	keep_insides(rq);

	fig.sampled[rq->node] += !rq->expired;
	for (int k = 0; k < 2; k++) {
		add_total(rq, identity[k]);
		for (size_t t = 0; t < fig.conf->ntiers; t++)
			add_tier(rq, (int)t, identity[k]);
	}
}

static void
late_in_tier(const struct fig_call *c, int tier, const char *identity,
    uint32_t weight)
{
	struct kp_cell *to = cell(c->node, tier, identity);
	const struct inside *in = NULL;

	if (c->async) {
		add_async(to, c, weight);
		return;
	}
	add_outcome(to, c->outcome, weight);
	if (!timed(c))
		return;
	for (size_t i = 0; i < fig.ninside; i++)
		if (fig.inside[i].number == c->outlasts &&
		    fig.inside[i].tier == tier)
			in = &fig.inside[i];
	assert_non_null(in);
	add_time(to, c->end - c->start, c->end - c->limit - c->waited +
	    in->self, weight);
	ADD(to, busy, in->busy);
	ADD(to, share_busy, in->share);
	add_after(to, c, c->limit, weight);
}

void
figures_late(const char *identity, uint32_t weight, const struct fig_call *c)
{
	const char *identities[] = { identity, "_total" };

	for (int k = 0; k < 2 && c->tiers != 0; k++) {
		if (c->async)
			add_async(cell(c->node, -1, identities[k]), c, weight);
		else if (timed(c) && c->end > c->limit)
			add_after(cell(c->node, -1, identities[k]), c,
			    c->limit, weight);
		for (size_t t = 0; t < fig.conf->ntiers; t++)
			if (c->tiers >> t & 1)
				late_in_tier(c, (int)t, identities[k], weight);
	}
}

/* One that outlasts its request and did something inside is no async call. */
struct fig_call
figures_late_call(const struct kp_requests *rs, const struct kp_late_call *c)
{
	return (struct fig_call){ .start = c->start, .end = c->end,
		.outcome = c->outcome, .parent = -1, .node = c->node,
		.async = !c->outlasts || c->limit <= c->start,
		.limit = c->limit, .waited = c->waited,
		.outlasts = c->outlasts,
		.tiers = kp_requests_fn(rs, c->fn)->tiers };
}

/* ---- what was handed on ---- */

struct fig_call
figures_call(const struct kp_requests *rs, const struct kp_call *c)
{
	return (struct fig_call){ .start = c->start, .end = c->end,
		.outcome = c->outcome, .async = c->async, .node = c->node,
		.outlasts = c->outlasts, .proc = c->proc,
		.tiers = kp_requests_fn(rs, c->fn)->tiers,
		.parent = c->parent == KP_NONE ? -1 : (int)c->parent };
}

void
figures_handed(const struct kp_requests *rs, const struct kp_request *rq)
{
	struct fig_call *calls = calloc(rq->ncalls, sizeof(*calls));

	assert_non_null(calls);
	for (uint32_t i = 0; i < rq->ncalls; i++)
		calls[i] = figures_call(rs, &rq->calls[i]);
	figures_request(&(struct fig_request){ .start = rq->start,
	    .end = rq->end, .weight = rq->weight, .outcome = rq->outcome,
	    .identity = kp_requests_identity(rs, rq->identity),
	    .expired = rq->expired, .node = rq->node, .calls = calls,
	    .ncalls = (int)rq->ncalls });
	free(calls);
}

void
figures_handed_late(const struct kp_requests *rs, const struct kp_late_call *c)
{
	struct fig_call call = figures_late_call(rs, c);
	struct kp_cell *total;

	for (size_t t = 0; c->crossed && t < fig.conf->ntiers; t++)
		if (call.tiers >> t & 1) {
			total = cell(c->node, (int)t, "_total");
			total->strayed++;
			total->missed += c->weight;
		}
	if (!c->crossed)
		figures_late(kp_requests_identity(rs, c->identity), c->weight, &call);
}

/* ---- comparing ---- */

static void
same(const struct kp_cell *got, const struct kp_cell *want, const char *what,
    int64_t g, int64_t w, uint64_t seed)
{
	if (g != w)
		fail_msg("%s of %s/%s: %" PRId64 ", not %" PRId64
		    " (KP_SEED=%" PRIu64 ")", what, got->tier,
		    want->identity, g, w, seed);
}

#define SAME(field)                                                         \
	(same(got, want, #field, (int64_t)got->field, (int64_t)want->field, \
	     seed),                                                         \
	 same(got, want, "w_" #field, (int64_t)got->w_##field,              \
	     (int64_t)want->w_##field, seed))

static void
cell_compare(const struct kp_cell *got, const struct kp_cell *want,
    uint64_t seed)
{
	SAME(requests);
	SAME(calls);
	SAME(raised);
	SAME(unfinished);
	SAME(ambiguous);
	SAME(unknown_outcomes);
	SAME(async_calls);
	SAME(timed);
	SAME(total);
	SAME(self);
	SAME(busy);
	SAME(share_requests);
	SAME(share_busy);
	SAME(async);
	SAME(outlasting);
	same(got, want, "min", got->min, want->min, seed);
	same(got, want, "max", got->max, want->max, seed);
	same(got, want, "hist.count", (int64_t)got->hist.count,
	    (int64_t)want->w_timed, seed);
	/* Of crossed calls; where sampling mixes requests, of others, too. */
	if (kp_sampling_mixes(&fig.conf->sampling))
		return;
	same(got, want, "strayed", (int64_t)got->strayed,
	    (int64_t)want->strayed, seed);
	same(got, want, "missed", (int64_t)got->missed,
	    (int64_t)want->missed, seed);
}

void
figures_compare(const struct kp_window *w, uint32_t node, uint64_t seed)
{
	size_t k, n = 0;

	assert_int_equal(w->sampled, fig.sampled[node]);
	for (k = 0; k < fig.ncells; k++)
		n += fig.node[k] == node;
	assert_int_equal(w->ncells, n);
	for (size_t i = 0; i < w->ncells; i++) {
		for (k = 0; k < fig.ncells; k++)
			if (fig.node[k] == node &&
			    strcmp(w->cells[i].tier, fig.cell[k].tier) == 0 &&
			    strcmp(w->cells[i].identity,
			    fig.cell[k].identity) == 0)
				break;
		assert_true(k < fig.ncells);
		cell_compare(&w->cells[i], &fig.cell[k], seed);
	}
}
