/*
 * test_recorded.c - what nodes of several releases sent for small programs,
 * through decode, requests and stats, against what the programs wrote down.
 *
 * The programs are in test/recordings/catalogue.erl; the rules by which their
 * truth becomes what kprofd is to say in told.erl beside it.  Each recording is
 * replayed three times: in the batches that it came in, event by event, and
 * with all between two statuses at once.
 *
 * Nothing here depends on how fast anything was: a call's start and end lie
 * between moments that the program took from the same clock, and so do all
 * sums of times.
 *
 * KP_RECORDING=otp27/nesting replays only those with this in their path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <glob.h>

#include "kprofd/stats.h"
#include "recording.h"

enum cut { CUT_AS_SENT, CUT_EACH_EVENT, CUT_AT_STATUS };

static struct {
	struct recording *r;
	struct kp_conf *conf;
	struct kp_requests *rs;
	struct kp_stats *stats;
	const char *path;
	enum cut cut;
	uint64_t events;
} replay;

#define CHECK(cond, fmt, ...)                                               \
	do {                                                                \
		if (!(cond))                                                \
			fail_msg("%s (cut %d): %s: " fmt, replay.path,      \
			    replay.cut, #cond, __VA_ARGS__);                \
	} while (0)

static bool
within(int64_t x, const struct rec_time *t)
{
	return x >= t->least && x <= t->most;
}

static bool
timed(uint8_t outcome)
{
	return kp_outcome_timed(outcome);
}

/* ---- one call, one request ---- */

static struct rec_call *
truth_of(const char *proc, const char *fn, kp_target_ns start)
{
	struct rec_call *c;

	for (size_t i = 0; i < replay.r->ncalls; i++) {
		c = &replay.r->calls[i];
		if (within(start, &c->start) && strcmp(c->fn, fn) == 0 &&
		    (proc == NULL || strcmp(c->proc, proc) == 0))
			return c;
	}
	fail_msg("%s (cut %d): %s at %" PRId64 " was never called", replay.path,
	    replay.cut, fn, start);
	return NULL;
}

static struct rec_call *
truth_of_call(const struct kp_call *c)
{
	char proc[32];

	return truth_of(kp_proc_text(c->proc, proc, sizeof(proc)),
	    kp_requests_fn(replay.rs, c->fn)->text, c->start);
}

static struct rec_request *
truth_of_request(uint32_t id)
{
	for (size_t i = 0; i < replay.r->nrequests; i++)
		if (replay.r->requests[i].id == id)
			return &replay.r->requests[i];
	fail_msg("%s: no request %u", replay.path, id);
	return NULL;
}

static void
check_end(struct rec_call *t, uint8_t outcome, kp_target_ns end, bool async)
{
	CHECK(!t->found, "%s, call %u, comes twice", t->fn, t->id);
	t->found = true;
	CHECK(outcome == t->outcome, "%s, call %u: %s, not %s", t->fn, t->id,
	    kp_outcome_name(outcome), kp_outcome_name(t->outcome));
	CHECK(!timed(outcome) || within(end, &t->end), "%s, call %u: %" PRId64
	    " after what is told", t->fn, t->id, end - t->end.most);
	CHECK(async == t->async, "%s, call %u", t->fn, t->id);
}

static void
check_parent(const struct kp_request *rq, uint32_t i, const struct rec_call *t)
{
	uint32_t parent = rq->calls[i].parent, id = 0;

	if (parent != KP_NONE)
		id = truth_of_call(&rq->calls[parent])->id;
	CHECK(t->parent == REC_ANY || id == t->parent,
	    "%s, call %u, is made from %u, not %u", t->fn, t->id, id,
	    t->parent);
}

/* Self times are nobody's twice, and of a sequential request all there is. */
static void
check_self(const struct kp_request *rq, const struct rec_request *t)
{
	kp_dur_ns *self = test_calloc(rq->ncalls, sizeof(*self)), sum = 0;
	const struct kp_call *c;

	assert_int_equal(kp_request_self(rq, self), KP_OK);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		CHECK(timed(c->outcome) ?
		    self[i] >= 0 && self[i] <= c->end - c->start :
		    self[i] == -1, "%" PRId64 " of call %u", self[i], i);
		if (!c->async && self[i] > 0)
			sum += self[i];
	}
	if (t->sequential && timed(rq->outcome))
		CHECK(sum == rq->end - rq->start, "sum of self times is %"
		    PRId64 " of %" PRId64, sum, rq->end - rq->start);
	test_free(self);
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct rec_call *entry = truth_of_call(&rq->calls[0]), *t;
	struct rec_request *q = truth_of_request(entry->request);
	const char *identity = kp_requests_identity(replay.rs, rq->identity);

	(void)ctx;
	CHECK(!q->found, "request %u comes twice", q->id);
	q->found = true;
	q->label = rq->label;
	q->parent_label = rq->parent_label;
	CHECK(strcmp(identity, q->identity) == 0, "%s, not %s", identity,
	    q->identity);
	CHECK(rq->outcome == q->outcome, "request %u: %s", q->id,
	    kp_outcome_name(rq->outcome));
	assert_int_equal(rq->expired, q->expired);
	assert_int_equal(rq->weight, 1);
	CHECK(within(rq->start, &q->start), "%" PRId64, rq->start);
	CHECK(rq->outcome == KP_UNFINISHED || within(rq->end, &q->end),
	    "%" PRId64, rq->end);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		t = truth_of_call(&rq->calls[i]);
		CHECK(t->request == q->id, "%s, call %u, is not of %u", t->fn,
		    t->id, q->id);
		if (rq->calls[i].outlasts == 0)
			check_end(t, rq->calls[i].outcome, rq->calls[i].end,
			    rq->calls[i].async);
		check_parent(rq, i, t);
	}
	check_self(rq, q);
	kp_stats_request(replay.stats, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	struct rec_call *t = truth_of(NULL,
	    kp_requests_fn(replay.rs, c->fn)->text, c->start);
	const char *identity = kp_requests_identity(replay.rs, c->identity);

	(void)ctx;
	if (c->crossed) {
		kp_stats_late(replay.stats, c);
		return;
	}
	check_end(t, c->outcome, c->end, c->outlasts == 0);
	CHECK(strcmp(identity, truth_of_request(t->request)->identity) == 0,
	    "late call %u of '%s'", t->id, identity);
	kp_stats_late(replay.stats, c);
}

static void
on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	(void)ctx;
	(void)node;
	fail_msg("%s: %s is no server loop", replay.path, fn->text);
}

/* ---- all of it ---- */

static void
feed_batch(const struct rec_message *m, kp_target_ns *now)
{
	struct kp_event ev;
	struct kp_batch b;
	enum kp_err e;

	assert_int_equal(kp_batch_begin(&b, m->p, m->n), KP_OK);
	assert_int_equal(b.dropped, 0);
	while ((e = kp_batch_next(&b, &ev)) != KP_END) {
		assert_int_equal(e, KP_OK);
		kp_requests_events(replay.rs, 0, &ev, 1);
		replay.events++;
		if (replay.cut == CUT_EACH_EVENT) {
			*now = ev.ts > *now ? ev.ts : *now;
			kp_requests_close_due(replay.rs, 0, *now);
		}
	}
	if (replay.cut == CUT_AS_SENT)
		kp_requests_close_due(replay.rs, 0, b.sent_at);
	*now = b.sent_at;
}

static void
feed_all(void)
{
	const struct rec_message *m;
	kp_target_ns now = INT64_MIN;

	for (size_t i = 0; i < replay.r->nmessages; i++) {
		m = &replay.r->messages[i];
		if (m->p != NULL) {
			feed_batch(m, &now);
			continue;
		}
		kp_requests_close_due(replay.rs, 0, m->now);
		now = m->now;
	}
	/* Till all that waits for anything has waited long enough. */
	for (int s = 0; s <= 75; s++)
		kp_requests_close_due(replay.rs, 0, now + s * KP_NS_PER_S);
}

static void
check_all_found(void)
{
	const struct rec_request *q;
	uint64_t outer;

	for (size_t i = 0; i < replay.r->nrequests; i++) {
		q = &replay.r->requests[i];
		CHECK(q->found, "request %u", q->id);
		outer = q->outer != 0 ? truth_of_request(q->outer)->label : 0;
		CHECK(q->parent_label == outer, "request %u in %u", q->id,
		    q->outer);
	}
	for (size_t i = 0; i < replay.r->ncalls; i++)
		CHECK(replay.r->calls[i].found, "%s, call %u",
		    replay.r->calls[i].fn, replay.r->calls[i].id);
}

static void
check_cell(const struct kp_cell *c, const struct rec_cell *t)
{
	const struct { const char *name; uint64_t got, told; } counts[] = {
		{ "requests", c->requests, t->requests },
		{ "calls", c->calls, t->calls },
		{ "raised", c->raised, t->raised },
		{ "unfinished", c->unfinished, t->unfinished },
		{ "ambiguous", c->ambiguous, t->ambiguous },
		{ "unknown", c->unknown_outcomes, t->unknown },
		{ "async", c->async_calls, t->async },
		{ "timed", c->timed, t->calls - t->unfinished - t->ambiguous },
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		CHECK(counts[i].got == counts[i].told, "%s of %s %s: %" PRIu64
		    ", not %" PRIu64, counts[i].name, t->tier, t->identity,
		    counts[i].got, counts[i].told);
	CHECK(within(c->total, &t->total), "%s %s: %" PRId64, t->tier,
	    t->identity, c->total);
	CHECK(within(c->busy, &t->busy), "%s %s: %" PRId64, t->tier,
	    t->identity, c->busy);
	CHECK(within(c->async, &t->async_time), "%s %s: %" PRId64, t->tier,
	    t->identity, c->async);
}

static void
check_cells(const struct kp_window *w)
{
	size_t n = 0, j;

	for (size_t i = 0; i < w->ncells; i++) {
		if (strcmp(w->cells[i].identity, "_total") == 0)
			continue;
		for (j = 0; j < replay.r->ncells; j++)
			if (strcmp(w->cells[i].tier,
			    replay.r->cells[j].tier) == 0 &&
			    strcmp(w->cells[i].identity,
			    replay.r->cells[j].identity) == 0)
				break;
		CHECK(j < replay.r->ncells, "%s %s is not told of",
		    w->cells[i].tier, w->cells[i].identity);
		check_cell(&w->cells[i], &replay.r->cells[j]);
		n++;
	}
	CHECK(n == replay.r->ncells, "%zu cells", n);
}

/* The first of the request's calls. */
static const struct rec_call *
entry_of(uint32_t request)
{
	const struct rec_call *c = replay.r->calls;

	while (c < replay.r->calls + replay.r->ncalls && c->request != request)
		c++;
	assert_true(c < replay.r->calls + replay.r->ncalls);
	return c;
}

/* How many requests began in a call of their own entry. */
static uint64_t
counted_twice(void)
{
	const struct rec_call *inner, *outer;
	uint64_t n = 0;

	for (size_t i = 0; i < replay.r->nrequests; i++) {
		if (replay.r->requests[i].outer == 0)
			continue;
		inner = entry_of(replay.r->requests[i].id);
		outer = entry_of(replay.r->requests[i].outer);
		n += strcmp(inner->fn, outer->fn) == 0 &&
		    strcmp(inner->proc, outer->proc) == 0;
	}
	return n;
}

static void
check_losses(void)
{
	struct kp_losses l = { 0 };

	kp_requests_losses_take(replay.rs, 0, &l);
	/* some of these are over when their process meets another request */
	CHECK(l.n[KP_LOSS_OUTLASTED] <= replay.r->losses.n[KP_LOSS_OUTLASTED] &&
	    (l.n[KP_LOSS_OUTLASTED] > 0) ==
	    (replay.r->losses.n[KP_LOSS_OUTLASTED] > 0), "%" PRIu64,
	    l.n[KP_LOSS_OUTLASTED]);
	l.n[KP_LOSS_OUTLASTED] = replay.r->losses.n[KP_LOSS_OUTLASTED];
	CHECK(l.n[KP_LOSS_TWICE] == counted_twice(), "twice: %" PRIu64,
	    l.n[KP_LOSS_TWICE]);
	l.n[KP_LOSS_TWICE] = 0;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		CHECK(l.n[i] == replay.r->losses.n[i], "%s: %" PRIu64,
		    kp_loss_name((enum kp_loss)i), l.n[i]);
}

static void
replay_begin(enum cut cut)
{
	struct kp_requests_opts o = { .conf = replay.conf,
		.on_request = on_request, .on_late = on_late,
		.on_runaway = on_runaway };

	replay.cut = cut;
	replay.events = 0;
	for (size_t i = 0; i < replay.r->nrequests; i++)
		replay.r->requests[i].found = false;
	for (size_t i = 0; i < replay.r->ncalls; i++)
		replay.r->calls[i].found = false;
	replay.rs = kp_requests_new(&o);
	replay.stats = kp_stats_new(replay.conf, "rec@127.0.0.1");
	assert_non_null(replay.rs);
	assert_non_null(replay.stats);
	assert_int_equal(kp_requests_node(replay.rs, "rec@127.0.0.1"), 0);
	kp_stats_names(replay.stats, replay.rs);
	kp_requests_set_otp(replay.rs, 0, replay.r->otp);
}

static void
replay_cut(enum cut cut)
{
	struct kp_window *w;

	replay_begin(cut);
	feed_all();
	assert_true(replay.events > 0);
	check_all_found();
	check_losses();
	assert_int_equal(kp_requests_in_flight(replay.rs, 0), 0);
	w = kp_stats_rotate(replay.stats, 0, 1);
	assert_non_null(w);
	check_cells(w);
	kp_window_free(w);
	kp_stats_free(replay.stats);
	kp_requests_free(replay.rs);
}

static void
recorded(void **state)
{
	struct kp_diags diags;

	replay.path = *state;
	replay.r = recording_read(replay.path);
	assert_int_equal(kp_conf_parse(&replay.conf, replay.r->tiers,
	    replay.r->tiers_len, &diags), KP_OK);
	kp_diags_free(&diags);
	replay_cut(CUT_AS_SENT);
	replay_cut(CUT_EACH_EVENT);
	replay_cut(CUT_AT_STATUS);
	kp_conf_free(replay.conf);
	recording_free(replay.r);
}

int
main(void)
{
	const char *only = getenv("KP_RECORDING");
	struct CMUnitTest *tests;
	size_t n = 0;
	glob_t g;
	int failed;

	if (glob("test/recordings/otp*/*.rec", 0, NULL, &g) != 0) {
		fprintf(stderr, "no recordings: run from the top of the tree\n");
		return 1;
	}
	tests = calloc(g.gl_pathc, sizeof(*tests));
	for (size_t i = 0; tests != NULL && i < g.gl_pathc; i++)
		if (only == NULL || strstr(g.gl_pathv[i], only) != NULL)
			tests[n++] = (struct CMUnitTest){ g.gl_pathv[i],
				recorded, NULL, NULL, g.gl_pathv[i] };
	failed = _cmocka_run_group_tests("recordings", tests, n, NULL, NULL);
	free(tests);
	globfree(&g);
	return failed;
}
