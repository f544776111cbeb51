/*
 * Busy, self and async times, counts, windows.  The names that the requests
 * stage would give are made up here, so that stats is tested by itself.
 */
#include "cases.h"
#include "pick.h"
#include "kprofd/stats.h"

enum { TIERS = 4, FNS = 9, IDENTS = KP_SERIES_MAX + 10 };

struct kp_requests {
	struct kp_fn fns[FNS];
	char names[IDENTS][16];
	uint32_t nparts;
};

static struct kp_requests names;
static struct kp_tier tiers[TIERS] = {
	{ .name = "web" }, { .name = "db" }, { .name = "cache" },
	{ .name = "auth" },
};
static struct kp_stats *st;	/* what is tested, and the window that it gave last */
static struct kp_window *w;
static const struct kp_conf conf = { .tiers = tiers, .ntiers = TIERS };

const struct kp_fn *
kp_requests_fn(const struct kp_requests *rs, uint32_t fn)
{
	return &rs->fns[fn];
}

const char *
kp_requests_identity(const struct kp_requests *rs, uint32_t id)
{
	return rs->names[id];
}

uint32_t
kp_requests_parts(const struct kp_requests *rs)
{
	return rs->nparts;
}

const char *
kp_requests_part(const struct kp_requests *rs, uint32_t part)
{
	(void)rs;
	return part == 0 ? "db: users" : "db: orders";
}

/* What the request that is counted has; receivers by their ids. */
static struct kp_wait *waits;
static uint32_t nwaits;

const struct kp_wait *
kp_requests_waits(const struct kp_requests *rs, uint32_t *n)
{
	(void)rs;
	*n = nwaits;
	return waits;
}

const char *
kp_requests_receiver(const struct kp_requests *rs, uint32_t id)
{
	return id == KP_RECEIVER_QUEUE ? KP_QUEUE : rs->names[id];
}

/* fn 0 is in no tier, 1 .. 4 in one each, the others in several. */
static void
make_names(void)
{
	static const uint64_t sets[FNS] = { 0, 1, 2, 4, 8, 3, 6, 15,
		/* a tier that the configuration has not */ 2 | 1 << TIERS };

	for (int i = 0; i < FNS; i++)
		names.fns[i] = (struct kp_fn){ .text = "m:f/1",
		    .tiers = sets[i] };
	for (int i = 0; i < IDENTS; i++)
		snprintf(names.names[i], sizeof(names.names[i]), "i%05d", i);
	strcpy(names.names[KP_IDENT_TOTAL], "_total");
	strcpy(names.names[KP_IDENT_NONE], "undefined");
	strcpy(names.names[KP_IDENT_OTHER], "_other");
}

static struct kp_stats *
new_stats(void)
{
	struct kp_stats *s = kp_stats_new(&conf, "n@h");

	assert_non_null(s);
	kp_stats_names(s, &names);
	return s;
}

FIXTURE(setup)
{
	make_names();
	st = new_stats();
	return 0;
}

FIXTURE(teardown)
{
	kp_window_free(w);
	w = NULL;
	kp_stats_free(st);
	return 0;
}

static void
rotate(struct kp_stats *s, kp_wall_ns from, kp_wall_ns to)
{
	kp_window_free(w);
	w = kp_stats_rotate(s, from, to);
	assert_non_null(w);
}

static const struct kp_cell *
cell(const char *tier, const char *identity)
{
	for (size_t i = 0; i < w->ncells; i++) {
		if (strcmp(w->cells[i].tier, tier) == 0 &&
		    strcmp(w->cells[i].identity, identity) == 0)
			return &w->cells[i];
	}
	return NULL;
}

/* A call, in the order that reads well below. */
#define CALL(start_, end_, fn_, proc_, parent_, outcome_, async_)              \
	{ .start = (start_), .end = (end_), .fn = (fn_), .proc = (proc_),      \
	  .parent = (parent_), .outcome = (outcome_), .async = (async_) }

/* The request of the README: web 0..100 waits for db 20..50 and 40..60. */
static const struct kp_call simple_calls[] = {
	CALL(0, 100, 1, 0, KP_NONE, KP_RETURNED, false),
	CALL(20, 50, 2, 0, 0, KP_RETURNED, false),
	CALL(40, 60, 2, 1, 0, KP_RAISED, false),
	CALL(90, 130, 3, 1, 0, KP_RETURNED, false),
	CALL(110, 140, 4, 1, 3, KP_RETURNED, true),
	CALL(50, 0, 2, 1, 0, KP_UNFINISHED, false),
};

static struct kp_request
simple(void)
{
	return (struct kp_request){
		.start = 0, .end = 100, .identity = 5, .weight = 10,
		.outcome = KP_RETURNED, .ncalls = 6, .calls = simple_calls,
	};
}

TEST(test_self)
{
	struct kp_request rq = simple();
	kp_dur_ns self[6];

	assert_int_equal(kp_request_self(&rq, self), KP_OK);
	assert_int_equal(self[0], 100 - 40 - 10);
	assert_int_equal(self[1], 30);
	assert_int_equal(self[2], 20);
	assert_int_equal(self[3], 40);	/* waits not for async */
	assert_int_equal(self[4], 30);
	assert_int_equal(self[5], -1);
	rq.ncalls = 0;
	assert_int_equal(kp_request_self(&rq, NULL), KP_OK);
}

/* A look at the running window changes nothing, and shows all of it. */
TEST(test_copy)
{
	struct kp_request rq = simple();
	struct kp_window *seen;

	seen = kp_stats_copy(st, 1000, 1500);
	assert_int_equal(seen->ncells, 0);
	kp_window_free(seen);
	kp_stats_request(st, &rq);
	seen = kp_stats_copy(st, 1000, 1500);
	rotate(st, 1000, 2000);
	assert_fields(*seen, IS(end, 1500) IS(sampled, 1));
	assert_int_equal(w->sampled, 1);
	assert_int_equal(seen->ncells, w->ncells);
	for (size_t i = 0; i < w->ncells; i++) {
		assert_fields(*seen, IS(cells[i].tier, w->cells[i].tier)
		    IS(cells[i].identity, w->cells[i].identity)
		    IS(cells[i].w_calls, w->cells[i].w_calls)
		    IS(cells[i].hist.count, w->cells[i].hist.count));
		/* each has its own */
		if (w->cells[i].hist.count > 0)
			assert_ptr_not_equal(seen->cells[i].hist.n,
			    w->cells[i].hist.n);
	}
	kp_window_free(seen);
}

TEST(test_one_request)
{
	struct kp_request rq = simple();
	const struct kp_cell *c;

	kp_stats_request(st, &rq);
	rotate(st, 1000, 2000);
	assert_fields(*w, IS(node, "n@h") IS(start, 1000) IS(end, 2000)
	    IS(sampled, 1) IS(ncells, 10));

	c = cell("db", "i00005");
	assert_fields(*c, IS(requests, 1) IS(w_requests, 10) IS(calls, 3)
	    IS(w_calls, 30) IS(raised, 1) IS(unfinished, 1) IS(timed, 2)
	    IS(total, 50) IS(w_total, 500) IS(busy, 40) IS(w_busy, 400)
	    IS(min, 20) IS(max, 30) IS(hist.count, 20));

	c = cell("cache", "_total");
	assert_int_equal(c->total, 40);
	assert_int_equal(c->busy, 10);	/* up to the request's end */

	c = cell("auth", "i00005");
	assert_fields(*c, IS(requests, 0) IS(calls, 0) IS(async_calls, 1)
	    IS(async, 30) IS(w_async, 300) IS(async_max, 30)
	    IS(async_hist.count, 10) IS(hist.count, 0) IS(min, -1));

	c = cell("_total", "i00005");
	assert_fields(*c, IS(requests, 1) IS(calls, 1) IS(total, 100)
	    IS(self, 0) IS(busy, 100) IS(async_calls, 1));
}

/* What no tier accounts for is _total's self time. */
/*
 * Once the time of a call below an ambiguous one was counted twice: as its
 * own, and as that of the call above both.  web 0..100 called db, of which it
 * is not known when it ended, and that disk 20..50.
 */
TEST(test_self_below_ambiguous)
{
	const struct kp_call calls[] = {
		CALL(0, 100, 1, 0, KP_NONE, KP_RETURNED, false),
		CALL(10, 60, 2, 0, 0, KP_AMBIGUOUS, false),
		CALL(20, 50, 3, 0, 1, KP_RETURNED, false),
		CALL(70, 0, 2, 0, 0, KP_UNFINISHED, false),
		CALL(75, 80, 3, 0, 3, KP_RAISED, false),
	};
	struct kp_request rq = simple();
	kp_dur_ns self[5];

	rq.calls = calls;
	rq.ncalls = 5;
	assert_int_equal(kp_request_self(&rq, self), KP_OK);
	assert_int_equal(self[0], 100 - 30 - 5);
	assert_int_equal(self[1], -1);
	assert_int_equal(self[2], 30);
	assert_int_equal(self[3], -1);
	assert_int_equal(self[4], 5);
}

TEST(test_total_self)
{
	static const struct kp_call calls[] = {
		CALL(0, 100, 0, 0, KP_NONE, KP_RETURNED, false),	/* no tier */
		CALL(10, 30, 1, 0, 0, KP_RETURNED, false),
		CALL(20, 40, 2, 0, 0, KP_RETURNED, false),
		CALL(90, 200, 2, 0, 0, KP_RETURNED, false),
	};
	const struct kp_request rq = { .end = 100, .identity = 1, .weight = 1,
		.outcome = KP_RAISED, .ncalls = 4, .calls = calls };
	const struct kp_cell *c;

	kp_stats_request(st, &rq);
	rotate(st, 0, 1);
	c = cell("_total", "undefined");
	assert_fields(*c, IS(self, 100 - 30 - 10) IS(raised, 1));
}

/* A request whose end was not seen is counted, and not timed. */
TEST(test_unfinished_request)
{
	struct kp_request rq = simple();
	const struct kp_cell *c;

	rq.outcome = KP_UNFINISHED;
	rq.end = 0;
	kp_stats_request(st, &rq);
	rq.outcome = KP_AMBIGUOUS;
	rq.end = 1;	/* by then it was over */
	kp_stats_request(st, &rq);
	rotate(st, 0, 1);
	c = cell("_total", "i00005");
	assert_fields(*c, IS(requests, 2) IS(unfinished, 1) IS(w_ambiguous, 10)
	    IS(timed, 0) IS(min, -1) IS(hist.count, 0));
	/* the first has no end to clip to */
	assert_int_equal(cell("cache", "i00005")->busy, 40);
}

TEST(test_late)
{
	struct kp_late_call late = { .identity = 7, .weight = 3, .fn = 5,
		.outcome = KP_RETURNED, .start = 5, .end = 25 };

	kp_stats_late(st, &late);
	late.outcome = KP_UNFINISHED;
	kp_stats_late(st, &late);
	rotate(st, 0, 1);
	assert_int_equal(w->sampled, 0);
	assert_int_equal(cell("web", "i00007")->async, 20);
	assert_int_equal(cell("db", "i00007")->async_calls, 2);
	assert_int_equal(cell("_total", "i00007")->async, 20);
	assert_int_equal(cell("_total", "_total")->w_async, 60);
	assert_int_equal(cell("_total", "i00007")->requests, 0);
}

/* Requests of random calls, each figure against a sweep tick by tick. */

enum { SPAN = 60, CALLS = 12 };

static int
start_cmp(const void *a, const void *b)
{
	const struct kp_call *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void
random_request(struct kp_request *rq, struct kp_call *calls)
{
	uint32_t n = (uint32_t)rnd(CALLS + 1);
	kp_target_ns base = -1000000 + (kp_target_ns)rnd(100);

	*rq = (struct kp_request){ .start = base, .identity = 3,
		.end = base + (kp_target_ns)rnd(SPAN), .calls = calls,
		.weight = (uint32_t)rnd(5) + 1, .ncalls = n,
		.outcome = (uint8_t)(KP_RETURNED + rnd(4)) };
	for (uint32_t i = 0; i < n; i++) {
		calls[i].start = base + (kp_target_ns)rnd(SPAN);
		calls[i].end = calls[i].start + (kp_target_ns)rnd(SPAN / 2);
		calls[i].fn = (uint32_t)rnd(FNS);
		calls[i].outlasts = 0;
		calls[i].outcome = (uint8_t)(KP_RETURNED + rnd(4));
		if (rnd(2))
			calls[i].outcome = KP_RETURNED;
	}
	qsort(calls, n, sizeof(*calls), start_cmp);
	for (uint32_t i = 0; i < n; i++) {
		calls[i].async = rq->end < calls[i].start;
		calls[i].parent = rnd(3) ? (uint32_t)rnd(n) : KP_NONE;
		if (calls[i].parent >= i)
			calls[i].parent = KP_NONE;
	}
}

static bool
timed(const struct kp_call *c)
{
	return kp_outcome_timed(c->outcome);
}

static bool
covers(const struct kp_call *c, kp_target_ns t)
{
	return timed(c) && c->start <= t && t < c->end;
}

/* The nearest call around call j of which a time is known, and that ran then. */
static uint32_t
slow_waiter(const struct kp_request *rq, uint32_t j)
{
	uint32_t p = rq->calls[j].parent;

	while (p != KP_NONE && (!timed(&rq->calls[p]) ||
	    rq->calls[p].end <= rq->calls[j].start))
		p = rq->calls[p].parent;
	return p;
}

static kp_dur_ns
slow_self(const struct kp_request *rq, uint32_t i)
{
	const struct kp_call *p = &rq->calls[i], *c;
	kp_dur_ns self = 0;
	bool hidden;

	for (kp_target_ns t = p->start; t < p->end; t++) {
		hidden = false;
		for (uint32_t j = 0; j < rq->ncalls; j++) {
			c = &rq->calls[j];
			if (slow_waiter(rq, j) == i && covers(c, t) &&
			    (!c->async || p->async))
				hidden = true;
		}
		self += !hidden;
	}
	return timed(p) ? self : -1;
}

static kp_target_ns
slow_end(const struct kp_request *rq)
{
	return rq->outcome != KP_UNFINISHED ? rq->end : rq->start + 3 * SPAN;
}

static kp_dur_ns
slow_busy(const struct kp_request *rq, uint64_t set)
{
	kp_target_ns end = slow_end(rq);
	const struct kp_call *c;
	kp_dur_ns busy = 0;
	bool on;

	for (kp_target_ns t = rq->start; t < end; t++) {
		on = false;
		for (uint32_t j = 0; j < rq->ncalls; j++) {
			c = &rq->calls[j];
			if (!c->async && covers(c, t) &&
			    (names.fns[c->fn].tiers & set))
				on = true;
		}
		busy += on;
	}
	return busy;
}

static void
check_tier(const struct kp_request *rq, int t)
{
	const struct kp_cell *c = cell(tiers[t].name, "i00003");
	struct kp_cell want = { .min = -1 };
	const struct kp_call *call;
	kp_dur_ns d;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		call = &rq->calls[i];
		d = call->end - call->start;
		if (!(names.fns[call->fn].tiers >> t & 1))
			continue;
		if (call->async) {
			want.async_calls++;
			want.async += timed(call) ? d : 0;
			want.async_raised += call->outcome == KP_RAISED;
			want.async_unfinished += call->outcome ==
			    KP_UNFINISHED;
			continue;
		}
		want.calls++;
		want.requests = 1;
		if (!timed(call))
			continue;
		if (call->end > slow_end(rq)) {
			want.outlasting++;
			want.async += call->end - slow_end(rq);
		}
		want.timed++;
		want.total += d;
		want.self += slow_self(rq, i);
		want.min = want.min < 0 || d < want.min ? d : want.min;
		want.max = d > want.max ? d : want.max;
	}
	if (c == NULL) {
		assert_int_equal(want.calls + want.async_calls, 0);
		return;
	}
	assert_fields(*c, IS(requests, want.requests) IS(calls, want.calls)
	    IS(async_calls, want.async_calls) IS(async, want.async)
	    IS(async_raised, want.async_raised)
	    IS(async_unfinished, want.async_unfinished)
	    IS(outlasting, want.outlasting) IS(timed, want.timed)
	    IS(total, want.total) IS(self, want.self) IS(min, want.min)
	    IS(max, want.max) IS(busy, slow_busy(rq, UINT64_C(1) << t))
	    IS(w_busy, c->busy * rq->weight)
	    IS(hist.count, want.timed * rq->weight));
}

TEST(test_random_requests)
{
	struct kp_call calls[CALLS];
	kp_dur_ns self[CALLS];
	const struct kp_cell *c;
	struct kp_request rq;

	for (int round = 0; round < 20000; round++) {
		random_request(&rq, calls);
		assert_int_equal(kp_request_self(&rq, self), KP_OK);
		for (uint32_t i = 0; i < rq.ncalls; i++)
			assert_int_equal(self[i], slow_self(&rq, i));
		kp_stats_request(st, &rq);
		rotate(st, 0, 1);
		for (int t = 0; t < TIERS; t++)
			check_tier(&rq, t);
		c = cell("_total", "i00003");
		if (c->timed > 0)
			assert_int_equal(c->self, rq.end - rq.start -
			    slow_busy(&rq, 15));
		}
}

TEST(test_identity_total_and_order)
{
	static const char *const want[][2] = {
		{ "_total", "_total" }, { "_total", "i00005" },
		{ "_total", "i00009" }, { "_total", "undefined" },
		{ "web", "_total" }, { "web", "i00005" },
		{ "web", "i00009" }, { "web", "undefined" },
		{ "db", "_total" },
	};
	struct kp_request rq = simple();

	for (int i = 0; i < 3; i++) {
		rq.identity = i == 0 ? 9 : i == 1 ? KP_IDENT_TOTAL : 5;
		rq.weight = (uint32_t)i + 1;
		kp_stats_request(st, &rq);
	}
	rotate(st, 0, 1);
	assert_int_equal(w->ncells, 5 * 4);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_string_equal(w->cells[i].tier, want[i][0]);
		assert_string_equal(w->cells[i].identity, want[i][1]);
	}
	assert_fields(*w, IS(cells[0].requests, 3) IS(cells[0].w_requests, 6)
	    IS(cells[0].hist.count, 6) IS(cells[8].w_busy, 6 * 40));

	/* the next window starts empty */
	rotate(st, 1, 2);
	assert_fields(*w, IS(ncells, 0) IS(sampled, 0));
}

TEST(test_series_cap)
{
	struct kp_request rq = { .end = 10, .weight = 2, .calls = NULL,
		.outcome = KP_RETURNED };

	for (uint32_t i = 3; i < IDENTS; i++) {
		rq.identity = i;
		kp_stats_request(st, &rq);
	}
	rotate(st, 0, 1);
	/* and _other and _total */
	assert_int_equal(w->ncells, KP_SERIES_MAX + 2);
	assert_int_equal(cell("_total", "_other")->requests, 7);
	assert_int_equal(w->losses.n[KP_LOSS_IDENTITY_CAP], 7);
	assert_int_equal(cell("_total", "_total")->w_requests,
	    2 * (IDENTS - 3));
}

/* Labels take half of the room at most: no type is _other because of them. */
TEST(test_labels_leave_room)
{
	const struct kp_call calls[] = {
		CALL(0, 10, 3, 0, KP_NONE, KP_RETURNED, false),
	};
	struct kp_request rq = { .end = 10, .weight = 1, .outcome = KP_RETURNED,
		.ncalls = 1, .calls = calls };
	uint32_t types = KP_SERIES_MAX * 3 / 10;

	names.fns[3] = (struct kp_fn){ .text = "db:f/1 [users]", .tiers = 2,
		.part = 1 };
	names.nparts = 1;
	for (uint32_t i = 3; i < types + 3; i++) {
		rq.identity = i;
		kp_stats_request(st, &rq);
	}
	rotate(st, 0, 1);
	assert_fields(*w, IS(losses.n[KP_LOSS_IDENTITY_CAP], 0)
	    IS(sampled, types));
	assert_fields(*cell("db", "_total"), IS(requests, types));
	assert_fields(*cell("db: users", "_total"), IS(requests, types));
	assert_int_equal(cell("db: users", "_other")->requests, types -
	    KP_SERIES_MAX / 2 / 3);
	make_names();
	names.nparts = 0;
}

/* Time stamps from outside may be anything; sums stop, nothing overflows. */
TEST(test_absurd_times)
{
	const struct kp_call calls[] = {
		CALL(INT64_MIN, INT64_MAX, 1, 0, 1, KP_RETURNED, false),
		CALL(INT64_MIN, INT64_MAX, 1, 0, 0, KP_RETURNED, false),
		CALL(5, 2, 1, 0, 77, KP_RETURNED, false),
		CALL(5, 9, 1, 0, 3, KP_RETURNED, true),
	};
	const struct kp_request rq = { .start = INT64_MIN, .end = INT64_MAX,
		.identity = 4, .weight = UINT32_MAX, .ncalls = 4,
		.outcome = KP_RETURNED, .calls = calls };

	kp_stats_request(st, &rq);
	kp_stats_request(st, &rq);
	rotate(st, 0, 1);
	assert_true(cell("web", "_total")->w_total == INT64_MAX);
}

TEST(test_merge)
{
	struct kp_cell a = { .min = -1 }, b = { .min = -1 };

	b.requests = 1;
	b.w_requests = 4;
	b.total = 100;
	b.w_total = 400;
	b.min = b.max = 100;
	kp_hist_add(&b.hist, 100, 4);
	assert_int_equal(kp_cell_merge(&a, &b), KP_OK);
	b.min = 50;
	b.max = 70;
	assert_int_equal(kp_cell_merge(&a, &b), KP_OK);
	assert_fields(a, IS(requests, 2) IS(w_requests, 8) IS(w_total, 800)
	    IS(min, 50) IS(max, 100) IS(hist.count, 8));
	/* a file may claim more than can be counted: sums stay true */
	kp_hist_add(&a.hist, 100, UINT64_MAX - 8);
	assert_int_equal(kp_cell_merge(&a, &b), KP_OK);
	assert_fields(a, IS(w_requests, 12) IS(hist.count, UINT64_MAX));
	kp_hist_free(&a.hist);
	kp_hist_free(&b.hist);
}

/*
 * Waits count by receiver and identity, by weight, where the receiver is; what
 * comes past the cap is one more receiver, _other.
 */
TEST(test_waits)
{
	struct kp_stats *far = new_stats();
	struct kp_stats *peers[KP_NODES_MAX] = { st, far };
	struct kp_wait v[] = {
		{ 1, 100, 5, 0, 0 }, { 1, 300, 5, 0, 1 }, { 2, 50, 4, 1, 1 },
		{ 3, 7, 5, 2, 2 },	/* a node that is none any more */
	};
	struct kp_request rq = { .identity = 7, .weight = 10 };
	const struct kp_wait_cell *c;
	uint64_t messages = 0;

	kp_stats_peers(st, peers);
	waits = v;
	nwaits = 4;
	kp_stats_waits(st, &rq);
	rotate(st, 0, 1);
	assert_int_equal(w->nwaits, 1);
	c = w->waits;
	assert_fields(*c, IS(receiver, "i00005") IS(identity, "i00007")
	    IS(messages, 2) IS(w_messages, 20) IS(away, 1) IS(w_away, 10)
	    IS(wait, 400) IS(w_wait, 4000) IS(min, 100) IS(max, 300)
	    IS(hist.count, 20));
	assert_int_equal(w->losses.n[KP_LOSS_MAIL_GONE], 1);
	rotate(far, 0, 1);
	assert_fields(*w, IS(nwaits, 1) IS(waits[0].wait, 50));
	nwaits = 1;
	for (uint32_t i = 0; i < KP_WAIT_SERIES_MAX + 100; i++) {
		v[0].receiver = i;
		kp_stats_waits(st, &rq);
	}
	rotate(st, 0, 1);
	assert_true(w->nwaits <= KP_WAIT_SERIES_MAX + 1);
	for (size_t i = 0; i < w->nwaits; i++)
		messages += w->waits[i].messages;
	assert_int_equal(messages, KP_WAIT_SERIES_MAX + 100);
	kp_stats_free(far);
}

/* What a request waited before it began is a wait of its type, with no message. */
TEST(test_queue)
{
	struct kp_request rq = { .identity = 7, .weight = 10, .queued = 30,
		.was_queued = true };

	nwaits = 0;
	kp_stats_waits(st, &rq);
	rq.queued = 50;
	rq.weight = 1;
	kp_stats_waits(st, &rq);
	rq.was_queued = false;
	kp_stats_waits(st, &rq);
	rotate(st, 0, 1);
	assert_int_equal(w->nwaits, 1);
	assert_fields(w->waits[0], IS(receiver, KP_QUEUE) IS(identity, "i00007")
	    IS(messages, 2) IS(w_messages, 11) IS(away, 0) IS(wait, 80)
	    IS(w_wait, 350) IS(min, 30) IS(max, 50));
}

/* A call with a label is of a part of its tier as well: a cell like any other. */
TEST(test_labels)
{
	struct kp_call calls[] = {
		CALL(0, 100, 1, 0, KP_NONE, KP_RETURNED, false),
		CALL(10, 30, 3, 0, 0, KP_RETURNED, false),
		CALL(20, 50, 3, 1, 0, KP_RETURNED, false),
		CALL(60, 70, 4, 0, 0, KP_RAISED, false),
		CALL(120, 125, 4, 0, KP_NONE, KP_RETURNED, true),
	};
	struct kp_request rq = { .identity = 5, .weight = 10, .end = 100,
		.outcome = KP_RETURNED, .ncalls = 5, .calls = calls };

	names.fns[3].tiers = names.fns[4].tiers = 2;	/* db */
	names.fns[3].part = 1;
	names.fns[4].part = 2;
	names.nparts = 2;
	kp_stats_request(st, &rq);
	rotate(st, 0, 1);
	assert_fields(*cell("db", "i00005"), IS(calls, 3) IS(w_calls, 30)
	    IS(busy, 50) IS(requests, 1) IS(async_calls, 1));
	assert_fields(*cell("db: users", "i00005"), IS(calls, 2) IS(total, 50)
	    IS(busy, 40) IS(requests, 1) IS(raised, 0) IS(async_calls, 0));
	assert_fields(*cell("db: orders", "_total"), IS(calls, 1) IS(busy, 10)
	    IS(raised, 1) IS(async_calls, 1) IS(async, 5));
	assert_fields(*cell("_total", "i00005"), IS(async_calls, 1));
	make_names();
	names.nparts = 0;
}

/* Strayed calls stand for others where sampling passes requests over. */
TEST(test_strayed)
{
	struct kp_call calls[] = {
		CALL(0, 100, 1, 0, KP_NONE, KP_RETURNED, false),
		CALL(20, 50, 2, 0, 0, KP_RETURNED, false),
		CALL(60, 90, 6, 0, 0, KP_RETURNED, false),
		CALL(200, 230, 2, 1, KP_NONE, KP_RETURNED, true),
	};
	struct kp_request rq = { .identity = 5, .weight = 10, .end = 100,
		.outcome = KP_RETURNED, .ncalls = 4, .calls = calls };

	calls[1].strayed = calls[2].strayed = calls[3].strayed = true;
	kp_stats_counted(st, 2, 30);	/* db: no request has come */
	rotate(st, 0, 1);
	assert_int_equal(w->ncells, 0);
	kp_stats_request(st, &rq);
	kp_stats_counted(st, 0, 10);
	kp_stats_counted(st, 2, 3);
	kp_stats_counted(st, 4, 7);	/* auth, which no request called */
	rotate(st, 1, 2);
	assert_fields(*cell("db", "_total"), IS(strayed, 3)
	    IS(missed, 3 * 10 * 9) IS(counted, 33));
	assert_int_equal(cell("cache", "_total")->strayed, 1);
	assert_int_equal(cell("web", "_total")->strayed, 0);
	assert_int_equal(cell("db", "i00005")->counted, 0);
	assert_int_equal(cell("_total", "_total")->counted, 10);
	assert_fields(*cell("auth", "_total"), IS(counted, 7) IS(calls, 0));
	/* but those that are lost because nobody knows whose they are */
	rq.weight = 1;
	kp_stats_request(st, &rq);
	kp_stats_late(st, &(struct kp_late_call){ .crossed = true, .fn = 2,
	    .identity = KP_IDENT_NONE, .weight = 8, .outcome = KP_UNFINISHED });
	kp_stats_late(st, &(struct kp_late_call){ .crossed = true, .fn = 2,
	    .identity = KP_IDENT_NONE, .weight = 1, .outcome = KP_UNFINISHED });
	rotate(st, 2, 3);
	assert_fields(*cell("db", "_total"), IS(strayed, 2) IS(missed, 9)
	    IS(calls, 2) IS(async_calls, 1));
	assert_fields(*cell("db", "i00005"), IS(strayed, 0) IS(missed, 0));
	/* where all are sampled none is missed */
	kp_stats_request(st, &rq);
	rotate(st, 3, 4);
	assert_fields(*cell("db", "_total"), IS(strayed, 0) IS(missed, 0)
	    IS(counted, 0));
}

TESTS(setup, teardown)
