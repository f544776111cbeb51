/*
 * Requests of many calls that outlast them: what these did inside, and that to
 * find that out is work of the order of the calls, or is given up.  The names
 * that the requests stage would give are made up here.
 *
 * Calls begin one tick after the other, from 1 on; what ended took its tick.
 */
#include "cases.h"
#include "kprofd/stats.h"
#include "stats/state.h"

enum { DB, CACHE };

struct kp_requests {
	struct kp_fn fns[2];
};

static struct kp_requests names = { .fns = {
	[DB] = { .text = "db:query/1", .tiers = 1 << DB },
	[CACHE] = { .text = "cache:get/1", .tiers = 1 << CACHE },
} };
static struct kp_tier tiers[] = { { .name = "db" }, { .name = "cache" } };
static const struct kp_conf conf = { .tiers = tiers, .ntiers = 2 };

const struct kp_fn *
kp_requests_fn(const struct kp_requests *rs, uint32_t fn)
{
	return &rs->fns[fn];
}

const char *
kp_requests_identity(const struct kp_requests *rs, uint32_t id)
{
	(void)rs;
	return id == KP_IDENT_TOTAL ? "_total" : "undefined";
}

uint32_t
kp_requests_parts(const struct kp_requests *rs)
{
	(void)rs;
	return 0;
}

const char *
kp_requests_part(const struct kp_requests *rs, uint32_t part)
{
	(void)rs;
	(void)part;
	return "";
}

const struct kp_wait *
kp_requests_waits(const struct kp_requests *rs, uint32_t *n)
{
	(void)rs;
	*n = 0;
	return NULL;
}

const char *
kp_requests_receiver(const struct kp_requests *rs, uint32_t id)
{
	(void)rs;
	(void)id;
	return "_gone";
}

static const struct kp_cell *
db(const struct kp_window *w)
{
	for (size_t i = 0; i < w->ncells; i++)
		if (strcmp(w->cells[i].tier, "db") == 0 &&
		    strcmp(w->cells[i].identity, "_total") == 0)
			return &w->cells[i];
	fail_msg("no cell");
	return NULL;
}

enum { MANY = 10000 };

static struct kp_call many[MANY];

static struct kp_request
many_calls(uint32_t open, uint32_t nested)
{
	for (uint32_t i = 0; i < MANY; i++)
		many[i] = (struct kp_call){ .start = i + 1, .end = i + 2,
			.fn = DB, .proc = i < open ? 1 : 2,
			.parent = i == 0 ? KP_NONE :
			    i - 1 < nested ? i - 1 : nested,
			.outcome = KP_RETURNED };
	for (uint32_t i = 0; i < open; i++) {
		many[i].outcome = KP_UNFINISHED;
		many[i].outlasts = i + 1;
		many[i].end = MANY + 1;
	}
	return (struct kp_request){ .end = MANY + 1, .identity = KP_IDENT_NONE,
		.weight = 1, .outcome = KP_RETURNED, .ncalls = MANY,
		.calls = many, .nodes = 1, .outlasts = open > 0 };
}

/* All that are open end a tick after the request. */
static struct kp_window *
many_ended(const struct kp_request *rq)
{
	struct kp_stats *st = kp_stats_new(&conf, "n@h");
	struct kp_window *w;

	assert_non_null(st);
	kp_stats_names(st, &names);
	kp_stats_request(st, rq);
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].outlasts)
			kp_stats_late(st, &(struct kp_late_call){
			    .identity = rq->identity, .weight = 1,
			    .fn = rq->calls[i].fn, .outcome = KP_RETURNED,
			    .outlasts = rq->calls[i].outlasts,
			    .start = rq->calls[i].start, .end = rq->end + 1,
			    .limit = rq->end });
	w = kp_stats_rotate(st, 0, 1);
	kp_stats_free(st);
	return w;
}

/* Of two of a tier that are far apart no moment counts for both. */
TEST(test_open_far_apart)
{
	struct kp_request rq = many_calls(1, 0);
	struct kp_window *w;

	for (uint32_t i = 1; i < MANY; i++)
		many[i].fn = CACHE;
	many[MANY / 2].fn = DB;
	many[MANY / 2].outcome = KP_UNFINISHED;
	many[MANY / 2].outlasts = 2;
	w = many_ended(&rq);
	assert_fields(*db(w), IS(timed, 2) IS(busy, MANY) IS(share_busy, MANY));
	kp_window_free(w);
}

/*
 * A process with as many open as it may have, one inside the other, and all
 * else inside the innermost: the work is of the order of the calls.
 */
TEST(test_open_nested)
{
	static kp_dur_ns self[MANY];
	static kp_target_ns reach[MANY];
	static uint32_t up[MANY];
	struct kp_request rq = many_calls(1000, 999);
	struct kp_window *w;

	assert_true(inside_self(&rq, self, reach, up));
	for (uint32_t i = 0; i < 999; i++)
		assert_int_equal(self[i], 1);
	assert_int_equal(self[999], 1);	/* before the first that ended */
	w = many_ended(&rq);
	assert_fields(*db(w), IS(unfinished, 0) IS(busy, MANY));
	assert_int_equal(w->losses.n[KP_LOSS_OUTLASTED_CUT], 0);
	kp_window_free(w);
}

/*
 * Thousands of processes, each started inside the call of another: what is too
 * much work is given up, and its calls are left unfinished and counted.
 */
TEST(test_open_given_up)
{
	struct kp_request rq = many_calls(MANY / 2, MANY / 2 - 1);
	const struct kp_cell *c;
	struct kp_window *w;

	for (uint32_t i = 0; i < MANY; i++)
		many[i].proc = i;
	w = many_ended(&rq);
	c = db(w);
	assert_fields(*c, IS(unfinished, MANY / 2) IS(timed, MANY / 2)
	    IS(busy, MANY / 2));
	assert_int_equal(w->losses.n[KP_LOSS_OUTLASTED_CUT], MANY / 2);
	kp_window_free(w);
}

TESTS(NULL, NULL)
