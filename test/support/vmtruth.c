/*
 * vmtruth.c - compares what the requests and stats stages make of the events
 * of vmsim.h's programs with the truth; see test_assembly.c for what the VM
 * does not tell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>

#include "figures.h"
#include "request_check.h"
#include "vmtruth.h"

static const char conf_plain[] =
    "{tiers, [{web, [{e,e,1}, {e2,e2,1}]},\n"
    "         {db, [{a,a,1}, {b,b,1}, {c,c,1}, {x,x,1}]},\n"
    "         {cache, [{c,c,1}, {d,d,1}, {y,y,1}, {loop,loop,1}]},\n"
    "         {work, [{b,b,1}, {c,c,1}, {e2,e2,1}, {fin,fin,1}, {f,f,1}]}]}.\n"
    "{entry, [{e,e,1}, {e2,e2,1}]}.\n"
    "{sampling, all}.\n";
static const char conf_finish[] =
    "{tiers, [{web, [{e,e,1}, {e2,e2,1}]},\n"
    "         {db, [{a,a,1}, {b,b,1}, {c,c,1}, {x,x,1}]},\n"
    "         {work, [{b,b,1}, {c,c,1}, {fin,fin,1}, {f,f,1}]}]}.\n"
    "{entry, [{e,e,1}, {e2,e2,1}]}.\n"
    "{finish, {fin,fin,1}}.\n"
    "{sampling, all}.\n";

static struct {
	struct feed f;
	struct kp_stats *st[KP_NODES_MAX];
	uint32_t nodes;
	struct vmfed fed;
	struct { kp_target_ns start; int call; } *by_start;
	uint64_t requests, expired, given_up, twice;
	uint64_t unsampled;	/* that linked ones stand for, beside them */
	uint64_t seed;
} got;

struct vmtruth_counts vmtruth_counts;

/* Starts differ, between processes as well. */
static int
start_cmp(const void *pa, const void *pb)
{
	const kp_target_ns *a = pa, *b = pb;

	return *a < *b ? -1 : *a > *b;
}

static void
index_make(void)
{
	got.by_start = calloc((size_t)sim.n + 1, sizeof(*got.by_start));
	assert_non_null(got.by_start);
	for (int i = 0; i < sim.n; i++) {
		got.by_start[i].start = sim.v[i].start;
		got.by_start[i].call = i;
	}
	qsort(got.by_start, (size_t)sim.n, sizeof(*got.by_start), start_cmp);
}

static int
truth_find(uint32_t fn, kp_target_ns start)
{
	const char *text = kp_requests_fn(got.f.rs, fn)->text;
	const struct sim_call *t;
	size_t lo = 0, hi = (size_t)sim.n, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (got.by_start[mid].start < start)
			lo = mid + 1;
		else
			hi = mid;
	}
	assert_true(lo < (size_t)sim.n && got.by_start[lo].start == start);
	t = &sim.v[got.by_start[lo].call];
	assert_int_equal(strncmp(t->fn, text, strcspn(text, ":")), 0);
	return got.by_start[lo].call;
}

#define CHECK(cond, t)                                                     \
	do {                                                               \
		if (!(cond))                                               \
			fail_msg("%s: %s at %" PRId64 " in %u of #%" PRIu64 \
			    " (KP_SEED=%" PRIu64 ")", #cond, (t)->fn,      \
			    (t)->start - FEED_T0, (t)->proc, (t)->label,   \
			    got.seed);                                         \
	} while (0)

static bool
end_fed(const struct sim_call *t)
{
	return t->end_event >= 0 && sim.ev[t->end_event].fed;
}

/* What is true of a call when it is handed on: its end may be to come. */
static uint8_t
truth_outcome(const struct sim_call *t)
{
	return end_fed(t) ? t->outcome : KP_UNFINISHED;
}

/* Handed on with its request, and to be handed on again with its end. */
static void
check_outlasting(struct sim_call *t, uint8_t outcome)
{
	CHECK(!t->found, t);
	CHECK(!t->outlasts, t);
	CHECK(t->fed, t);
	CHECK(outcome == KP_UNFINISHED, t);
	CHECK(t->loose || t->passed || truth_outcome(t) == KP_UNFINISHED, t);
	t->outlasts = true;
	t->loose |= t->passed;
	vmtruth_counts.outlasting++;
}

static void
check_call(struct sim_call *t, uint8_t outcome, kp_target_ns end)
{
	uint8_t want = truth_outcome(t);

	CHECK(!t->found, t);
	CHECK(t->fed, t);
	if (want == KP_AMBIGUOUS &&
	    (outcome == KP_UNKNOWN || outcome == t->or_how))
		want = t->outcome = outcome;
	t->loose |= t->passed && want == KP_UNFINISHED;
	t->found = true;
	vmtruth_counts.calls++;
	vmtruth_counts.loose += t->loose;
	if (t->loose || (outcome == want &&
	    (want == KP_UNFINISHED || end == t->end)))
		return;
	fail_msg("%s at %" PRId64 " in %u of #%" PRIu64 ": %s, +%" PRId64
	    ", not %s, +%" PRId64 " (KP_SEED=%" PRIu64 ")", t->fn,
	    t->start - FEED_T0, t->proc, t->label,
	    kp_outcome_name(outcome), end - t->start,
	    kp_outcome_name(want), t->end - t->start, got.seed);
}

/* Clocks do not drift here, and offsets are known: see test_nodes.c. */
static kp_target_ns
true_time(uint32_t node, kp_target_ns at)
{
	return at - sim.clock[node].skew;
}

/* Does the VM leave open of which request in each other a call is? */
static bool
labels_vague(void)
{
	return sim.t.nested && sim.t.tail > 0;
}

/*
 * May a call that the VM does not tell enough about have been taken for one
 * of this request, or the other way round?
 */
static bool
label_vague(uint64_t label)
{
	uint64_t at;

	if (labels_vague())
		return true;
	for (int i = 0; i < sim.n; i++) {
		for (at = sim.v[i].label; at != 0 && at != label;)
			at = sim.labels[at].outer;
		if (sim.v[i].loose && at == label)
			return true;
	}
	return false;
}

/* ---- one request ---- */

/* The call whose end is the request's: the finish's, else the entry's. */
static const struct sim_call *
ending_call(const struct sim_label *l)
{
	const struct sim_call *fin = l->finish >= 0 ? &sim.v[l->finish] : NULL;

	if (got.f.conf->nfinishes > 0 && fin != NULL && !fin->after_close &&
	    end_fed(fin))
		return fin;
	return &sim.v[l->entry];
}

static void
check_end(const struct kp_request *rq, const struct sim_label *l)
{
	const struct sim_call *by = ending_call(l);
	kp_target_ns now = got.fed.node_now[rq->node];
	kp_dur_ns age = now - rq->start;

	CHECK(rq->expired == !end_fed(by), by);
	CHECK(rq->outcome == truth_outcome(by), by);
	CHECK(rq->end == (rq->expired ? now : by->end), by);
	CHECK(rq->expired ? age >= KP_REQUEST_AGE_MAX :
	    now - rq->end >= KP_HORIZON, by);
	if (got.f.conf->nfinishes > 0 && by == &sim.v[l->entry])
		CHECK(age >= KP_REQUEST_AGE_MAX, by);
}

static void
check_label(const struct kp_request *rq, const struct sim_label *l, bool vague)
{
	const struct sim_call *entry = &sim.v[l->entry];
	const char *name = l->entry_name != NULL ? l->entry_name :
	    l->named ? l->name : NULL;

	CHECK(!l->closed, entry);
	CHECK(rq->weight == l->weight, entry);
	if (!vague)
		CHECK(strcmp(kp_requests_identity(got.f.rs, rq->identity),
		    name != NULL ? name : "undefined") == 0, entry);
}

/* ---- parents, and figures from the truth ---- */

static bool
covers(const struct fig_call *c, kp_target_ns at)
{
	return c->start <= at && (c->outcome == KP_UNFINISHED || c->end >= at);
}

/*
 * The parent by definition: the innermost open call of its own process, else
 * of the one that sent the token, else of all whose ends are known; and where
 * nobody sent it, of another function (a sibling may have the same).
 */
static int
truth_parent(const struct fig_request *fr, const int *truth, int i)
{
	const struct sim_call *t = &sim.v[truth[i]], *o;
	int by_time = -1, by_token = -1;

	for (int j = 0; j < fr->ncalls; j++) {
		o = &sim.v[truth[j]];
		if (t->parent == truth[j])
			return j;
		if (o->proc == t->proc || j == i || o->start > t->start ||
		    !covers(&fr->calls[j], t->start))
			continue;
		if ((t->from == 0 || t->from == t->proc) &&
		    strcmp(o->fn, t->fn) == 0)
			continue;
		if (fr->calls[j].outcome != KP_UNFINISHED && (by_time < 0 ||
		    o->start > sim.v[truth[by_time]].start))
			by_time = j;
		if (o->proc == t->from && (by_token < 0 ||
		    o->start > sim.v[truth[by_token]].start))
			by_token = j;
	}
	if (by_token >= 0)
		return by_token;
	if (by_time < 0 && i > 0 && covers(&fr->calls[0], t->start))
		return 0;
	return by_time;
}

static void
parents_check(const struct kp_request *rq, struct fig_request *fr,
    const int *truth, struct fig_call *calls)
{
	for (int i = 1; i < fr->ncalls; i++) {
		int want = truth_parent(fr, truth, i);
		int is = rq->calls[i].parent == KP_NONE ? -1 :
		    (int)rq->calls[i].parent;

		calls[i].parent = want;
		if (want != is)
			fail_msg("parent of %s at %" PRId64 " in %u of #%"
			    PRIu64 ": %d, not %d (KP_SEED=%" PRIu64 ")",
			    sim.v[truth[i]].fn,
			    sim.v[truth[i]].start - FEED_T0,
			    sim.v[truth[i]].proc, rq->label, is, want, got.seed);
	}
}

static void
figures_of(const struct kp_request *rq, const int *truth, bool true_ones)
{
	struct fig_call *calls = calloc(rq->ncalls, sizeof(*calls));
	struct fig_request fr = { .start = rq->start, .end = rq->end,
		.identity = kp_requests_identity(got.f.rs, rq->identity),
		.weight = rq->weight, .outcome = rq->outcome,
		.expired = rq->expired, .node = rq->node, .calls = calls,
		.ncalls = (int)rq->ncalls };
	const struct sim_call *t;
	const struct kp_call *c;

	assert_non_null(calls);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		t = &sim.v[truth[i]];
		calls[i] = figures_call(got.f.rs, c);
		if (!true_ones)
			continue;
		calls[i].end = c->outlasts ? rq->end : t->end;
		calls[i].outcome = truth_outcome(t);
		calls[i].async = i > 0 && t->start >= rq->end;
		calls[i].parent = -1;
	}
	if (true_ones)
		parents_check(rq, &fr, truth, calls);
	figures_request(&fr);
	free(calls);
}

/* Each moment of a request is some call's own, where one calls another. */
static void
check_selfs(const struct kp_request *rq, const struct sim_label *l)
{
	kp_dur_ns *self = calloc(rq->ncalls, sizeof(*self)), sum = 0;

	assert_non_null(self);
	assert_int_equal(kp_request_self(rq, self), KP_OK);
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (!rq->calls[i].async && self[i] >= 0)
			sum += self[i];
	CHECK(sum == rq->end - rq->start, &sim.v[l->entry]);
	vmtruth_counts.summed++;
	free(self);
}

static void
check_request(const struct kp_request *rq)
{
	struct sim_label *l = &sim.labels[rq->label];
	int *truth = calloc(rq->ncalls, sizeof(*truth));
	struct sim_call *t;
	bool sure = !labels_vague(), vague = label_vague(rq->label);
	bool alone = true;		/* nothing runs beside the rest */

	assert_non_null(truth);
	assert_int_equal(rq->node, sim_node(sim.v[l->entry].proc));
	got.requests++;
	got.expired += rq->expired;
	if (rq->parent_label != 0) {
		const struct sim_call *entry = &sim.v[l->entry],
		    *outer = &sim.v[sim.labels[rq->parent_label].entry];

		got.unsampled += rq->weight - 1;
		if (outer->proc == entry->proc && strcmp(outer->fn, entry->fn) == 0)
			got.twice += rq->weight;
	}
	request_wellformed(rq);
	check_label(rq, l, vague);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		truth[i] = truth_find(rq->calls[i].fn, rq->calls[i].start);
		t = &sim.v[truth[i]];
		CHECK(rq->calls[i].node == sim_node(t->proc), t);
		CHECK(t->label == rq->label || labels_vague() || t->loose, t);
		alone &= !rq->calls[i].outlasts;
		if (rq->calls[i].outlasts)
			check_outlasting(t, rq->calls[i].outcome);
		else
			check_call(t, rq->calls[i].outcome, rq->calls[i].end);
		sure &= !t->loose;
	}
	assert_int_equal(truth[0], l->entry);
	if (!sim.v[l->entry].loose &&
	    (got.f.conf->nfinishes == 0 || !vague))
		check_end(rq, l);
	figures_of(rq, truth, sure);
	if (sure && alone && !l->parallel && !sim.t.loops && got.f.conf->nfinishes == 0 &&
	    kp_outcome_timed(rq->outcome))
		check_selfs(rq, l);
	l->closed = true;
	l->identity = rq->identity;
	free(truth);
}

/* By the clock that the truth is told by. */
static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct kp_call *calls = calloc(rq->ncalls, sizeof(*calls));
	struct kp_request r = *rq;

	(void)ctx;
	assert_non_null(calls);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		calls[i] = rq->calls[i];
		calls[i].start = true_time(rq->node, calls[i].start);
		calls[i].end = true_time(rq->node, calls[i].end);
	}
	r.calls = calls;
	r.start = true_time(rq->node, r.start);
	r.end = true_time(rq->node, r.end);
	check_request(&r);
	vmtruth_counts.crossed += (rq->nodes & (rq->nodes - 1)) != 0;
	kp_stats_request(got.st[rq->node], rq);
	free(calls);
}

/* Its part inside ends with the request, and what it waited for is less. */
static void
check_after(const struct kp_late_call *c, const struct sim_call *t,
    const struct sim_label *l)
{
	const struct sim_call *by = ending_call(l);

	CHECK(c->waited >= 0, t);
	if (labels_vague() || t->loose || by->loose ||
	    got.f.conf->nfinishes > 0)
		return;
	CHECK(true_time(c->node, c->limit) == by->end, t);
	CHECK(c->outcome == KP_UNFINISHED || c->waited <= c->end - c->limit,
	    t);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	kp_target_ns start = true_time(c->node, c->start);
	kp_target_ns end = true_time(c->node, c->end);
	struct sim_call *t = &sim.v[truth_find(c->fn, start)];
	const struct sim_label *l = &sim.labels[t->label];
	struct fig_call fig = figures_late_call(got.f.rs, c);

	(void)ctx;
	if (c->crossed) {
		figures_handed_late(got.f.rs, c);
		kp_stats_late(got.st[c->node], c);
		return;
	}
	assert_true(c->outcome == KP_UNFINISHED || c->end >= c->start);
	CHECK(c->node == sim_node(t->proc), t);
	CHECK((c->outlasts != 0) == t->outlasts, t);
	if (c->outlasts)
		check_after(c, t, l);
	got.given_up += c->outcome == KP_UNFINISHED;
	fig.start = start;
	fig.end = end;
	fig.limit = true_time(c->node, c->limit);
	check_call(t, c->outcome, end);
	if (!labels_vague() && !t->loose) {
		CHECK(l->closed, t);
		CHECK(c->identity == l->identity, t);
		CHECK(c->weight == l->weight, t);
		fig.end = t->end;
		fig.outcome = truth_outcome(t);
	}
	figures_late(kp_requests_identity(got.f.rs, c->identity), c->weight,
	    &fig);
	kp_stats_late(got.st[c->node], c);
}

/* ---- rounds ---- */

void
vmtruth_begin(const struct sim_traits *t, uint64_t seed)
{
	struct kp_requests_opts o = { .chain_is_ambiguous = t->otp25 };

	got.requests = got.expired = got.given_up = got.twice = 0;
	got.seed = seed;
	feed_init(&got.f, t->finish ? conf_finish : conf_plain, &o);
	got.nodes = t->nodes > 1 ? t->nodes : 1;
	feed_hand_on(&got.f, got.nodes, on_request, on_late);
	memset(got.st, 0, sizeof(got.st));
	for (uint32_t i = 0; i < got.nodes; i++) {
		if (got.nodes > 1)
			kp_requests_offset(got.f.rs, i, -sim.clock[i].skew, 0);
		got.st[i] = kp_stats_new(got.f.conf, feed_names[i]);
		assert_non_null(got.st[i]);
		kp_stats_names(got.st[i], got.f.rs);
		kp_stats_peers(got.st[i], got.st);
	}
	figures_reset(got.f.conf);
	index_make();
}

/* What was not handed on had a token that nobody remembered any more. */
static void
check_found(uint64_t stale)
{
	const struct sim_call *t, *end;

	for (int i = 0; i < sim.n; i++) {
		t = &sim.v[i];
		if (t->found)
			continue;
		end = ending_call(&sim.labels[t->label]);
		CHECK(t->after_close, t);
		CHECK(t->start - end->start >= KP_TOMBSTONE_AGE, t);
		CHECK(stale > 0, t);
		stale--;
	}
	assert_int_equal(stale, 0);
}

static void
check_balance(void)
{
	struct kp_losses l = { 0 };
	uint64_t entries = 0;

	for (uint32_t i = 0; i < got.nodes; i++) {
		kp_requests_losses_take(got.f.rs, i, &l);
		assert_int_equal(kp_requests_entries(got.f.rs, i),
		    got.fed.entries[i]);
		entries += got.fed.entries[i];
	}
	assert_int_equal(got.requests, entries);
	assert_int_equal(l.n[KP_LOSS_EXPIRED], got.expired);
	assert_int_equal(l.n[KP_LOSS_TWICE], got.twice);
	check_found(l.n[KP_LOSS_STALE]);
	/* less where the inner one met no token */
	assert_true(l.n[KP_LOSS_CUT] <= got.unsampled);
	/* those whose end did not come */
	assert_true(l.n[KP_LOSS_OUTLASTED] <= got.given_up);
	l.n[KP_LOSS_EXPIRED] = l.n[KP_LOSS_STALE] = l.n[KP_LOSS_CUT] =
	    l.n[KP_LOSS_OUTLASTED] = l.n[KP_LOSS_TWICE] = 0;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		if (l.n[i] > 0)
			fail_msg("%" PRIu64 " %s (KP_SEED=%" PRIu64 ")",
			    l.n[i], kp_loss_name((enum kp_loss)i), got.seed);
}

static void
check_figures(void)
{
	struct kp_window *w;

	for (uint32_t i = 0; i < got.nodes; i++) {
		w = kp_stats_rotate(got.st[i], 0, KP_NS_PER_S);
		assert_non_null(w);
		figures_compare(w, i, got.seed);
		kp_window_free(w);
		kp_stats_free(got.st[i]);
	}
}

void
vmtruth_feed(const struct vmfeed_opts *o)
{
	vmfeed(&got.f, o, &got.fed);
	vmfeed_expire_all(&got.f, &got.fed);
	check_balance();
	requests_empty(got.f.rs);
	check_figures();
	feed_free(&got.f);
	free(got.by_start);
}
