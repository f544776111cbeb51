/*
 * Roll-up: whatever was rolled up, and in whatever order, the sums over time
 * are those of the windows as they were measured, to the last digit and to the
 * last bucket.
 */
#include <semaphore.h>

#include "cases.h"
#include "pick.h"
#include "store_fixture.h"

/* ---- rolling up ---- */

/* A quarter of an hour of 10 s windows, step by step. */
TEST(test_steps)
{
	struct kp_db *db = keep_open("10s:2h,1m:1d,10m:14d,1h:400d");

	for (int i = 0; i < 90; i++)
		keep_put_known(db, "a@h", NOON + i * 10 * S);
	keep_settle(db, NOON + 2 * HOUR + 59 * S);
	assert_sql("select level, count(*) from time_window group by level",
	    "0|90");
	/* a minute rolls up as a whole, when its end is old enough */
	keep_settle(db, NOON + 2 * HOUR + 60 * S);
	assert_sql("select level, count(*) from time_window group by level",
	    "0|84\n60|1");
	assert_sql("select start, end, requests, calls,"
	    " mean_ms, min_ms, p50_ms, p99_ms, max_ms, sampled_requests"
	    " from tier_stats where tier = 'db' and identity = 'create'"
	    " limit 1", "2023-11-15T12:00:00.000Z|2023-11-15T12:01:00.000Z|"
	    "120|180|61.728|23.457|23.457|99.571|100.0|12");
	assert_sql("select entry_calls, sampled, n from time_window w join loss"
	    " l on l.window_id = w.id where level = 60", "600|60|540");
	keep_settle(db, NOON + DAY);
	assert_sql("select level, count(*) from time_window group by level",
	    "60|15");
	keep_settle(db, NOON + DAY + 20 * MIN);
	assert_sql("select level, start_ns, end_ns from time_window order by 2",
	    "600|1700049600000000000|1700050200000000000\n"
	    "600|1700050200000000000|1700050500000000000");
	keep_settle(db, NOON + 15 * DAY);
	assert_sql("select level, entry_calls from time_window", "3600|9000");
	assert_sql("select count(*), sum(requests), sum(w_total_ns),"
	    " min(min_ns), max(max_ns) from stat",
	    "4|720|444444440400|23456789|100000000");
	assert_sql("select n from loss", "8100");
	keep_settle(db, NOON + 400 * DAY + 15 * MIN - 1);
	assert_sql("select count(*) from time_window", "1");
	keep_settle(db, NOON + 400 * DAY + 15 * MIN);
	assert_sql("select (select count(*) from time_window), (select count(*)"
	    " from stat), (select count(*) from loss)", "0|0|0");
	db_close(db, 0);
}

/* What profiling cost adds up with the windows, and goes with them. */
TEST(test_cost)
{
	struct kp_db *db = keep_open("10s:2h,1m:1d");
	struct kp_window *w;

	for (int i = 0; i < 6; i++) {
		w = new_window("a@h", NOON + i * 10 * S, 0);
		/* the third has none */
		if (i != 2)
			w->cost = (struct kp_cost){ .events = 1000,
				.armed_calls = 2000, .switches = 400,
				.sampled = 10, .agent = 3 * KP_NS_PER_MS };
		keep_put(db, w);
		kp_window_free(w);
	}
	assert_sql("select count(*), min(events), min(cost_ms), min(agent_ms),"
	    " min(scheduler_percent), min(scheduled), min(sampled) from costs",
	    "5|1000|4.752|3.0|0.048|400|10");
	keep_settle(db, NOON + 3 * HOUR);
	assert_sql("select count(*) from time_window", "1");
	assert_sql("select events, armed_calls, agent_ns, cost_ns, scheduled,"
	    " sampled from cost", "5000|10000|15000000|23760000|2000|50");
	keep_settle(db, NOON + 3 * DAY);
	assert_sql("select count(*) from cost", "0");
	db_close(db, 0);
}

/*
 * What was measured in some of the windows is that much in all of them; what was
 * measured in none is not 0.
 */
TEST(test_pauses_and_waits)
{
	struct kp_db *db = keep_open("10s:2h,1m:1d");
	struct kp_wait_cell *c;
	struct kp_window *w;

	for (int i = 0; i < 6; i++) {
		w = labelled_window("a@h", NOON + i * 10 * S);
		w->cells[3].has_gc = i % 2 > 0;
		w->cells[3].gc = i % 2 > 0 ? 100 + i : 0;
		w->cells[3].w_gc = 10 * w->cells[3].gc;
		w->waits = c = calloc(1, sizeof(*c));
		assert_non_null(c);
		w->nwaits = 1;
		*c = (struct kp_wait_cell){ .receiver = "db_server",
			.identity = "create", .messages = 2, .w_messages = 20,
			.away = 1, .w_away = 10, .wait = 3000 + i,
			.w_wait = 30000 + 10 * i, .min = 1000 - i,
			.max = 2000 + 2 * i };
		kp_hist_add(&c->hist, c->min, 10);
		kp_hist_add(&c->hist, c->max, 10);
		keep_put(db, w);
		kp_window_free(w);
	}
	keep_settle(db, NOON + 3 * HOUR);
	assert_sql("select level, count(*) from time_window group by level",
	    "60|1");
	assert_sql("select t.name, i.name, gc_ns, w_gc_ns, out_ns, w_out_ns"
	    " from stat s join tier t on t.id = s.tier_id join identity i on"
	    " i.id = s.identity_id order by 1, 2",
	    "_total|_total|null|null|null|null\n"
	    "_total|create|null|null|null|null\ndb|_total|null|null|null|null\n"
	    "db|create|309|3090|null|null\ndb: orders|_total|null|null|null|null\n"
	    "db: orders|create|null|null|null|null\ndb: users|_total|null|null|null|null\n"
	    "db: users|create|null|null|null|null");
	assert_sql("select tier, calls, min_ms, max_ms from tier_stats where identity ="
	    " 'create' and tier like 'db%' order by 1", "db|180|23.457|100.0\n"
	    "db: orders|180|23.457|100.0\n" PART "|180|23.457|100.0");
	assert_sql("select r.name, i.name, messages, w_messages, away, w_away,"
	    " wait_ns, w_wait_ns, min_ns, max_ns from message_stat m join"
	    " receiver r on r.id = m.receiver_id join identity i on i.id ="
	    " m.identity_id",
	    "db_server|create|12|120|6|60|18015|180150|995|2010");
	/* half of 120 are about 1 us, and half about 2 */
	assert_sql("select p50_ns between 900 and 1100, p99_ns between 1900 and"
	    " 2010 from message_stat", "1|1");
	keep_settle(db, NOON + 3 * DAY);
	assert_sql("select (select count(*) from message_stat), count(*) from stat", "0|0");
	db_close(db, 0);
}

static int waits_steps;	/* of SQLite's machine, for queries of waits */

static int
count_steps(unsigned kind, void *ctx, void *st, void *took)
{
	(void)kind;
	(void)ctx;
	(void)took;
	if (strstr(sqlite3_sql(st), "message_stat") != NULL)
		waits_steps += sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 0);
	return 0;
}

static int
watch(sqlite3 *db, char **why, const struct sqlite3_api_routines *api)
{
	(void)why;
	(void)api;
	return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, count_steps, NULL);
}

/* Every report asks for one receiver's; for that it read the rows of all others, too. */
TEST(test_waits_of_one)
{
	struct kp_db *db = keep_open("10s:2h");
	struct kp_window *w = new_window("a@h", NOON, 0);
	struct kp_query_waits waits;
	struct kp_query *q;
	char names[500][24];

	w->nwaits = 500;
	w->waits = calloc(w->nwaits, sizeof(*w->waits));
	assert_non_null(w->waits);
	for (size_t i = 0; i < w->nwaits; i++) {
		snprintf(names[i], sizeof(names[i]), "r%zu", i);
		w->waits[i] = (struct kp_wait_cell){ .receiver = names[i],
			.identity = "create", .messages = 1 + i, .min = 10, .max = 10 };
		kp_hist_add(&w->waits[i].hist, 10, 1 + i);
	}
	keep_put(db, w);
	kp_window_free(w);
	sqlite3_auto_extension((void (*)(void))watch);
	q = open_query();
	sqlite3_cancel_auto_extension((void (*)(void))watch);
	waits_steps = 0;
	assert_int_equal(kp_query_waits(q, &all, "r7", &waits), KP_OK);
	assert_fields(waits, IS(n, 1) IS(v[0].receiver, "r7") IS(v[0].messages, 8));
	kp_query_waits_free(&waits);
	assert_in_range(waits_steps, 1, 500);
	assert_int_equal(kp_query_waits(q, &all, "nobody", &waits), KP_OK);
	assert_int_equal(waits.n, 0);
	kp_query_waits_free(&waits);
	assert_int_equal(kp_query_waits(q, &all, NULL, &waits), KP_OK);
	assert_int_equal(waits.n, 500);
	kp_query_waits_free(&waits);
	assert_true(waits_steps > 5000);
	kp_query_close(q);
	db_close(db, 0);
}

/* After a long pause: at once to where it belongs; runs and nodes apart. */
TEST(test_after_a_pause)
{
	struct kp_db *db = keep_open("10s:2h,1m:1d,10m:14d");

	for (int i = 0; i < 60; i++)
		keep_put_known(db, i % 2 ? "a@h" : "b@h", NOON + i * 10 * S);
	db_close(db, 0);
	db = keep_open("10s:2h,1m:1d,10m:14d");
	for (int i = 0; i < 5; i++)
		keep_put_known(db, "a@h", NOON + 30 * S + i);
	/* a minute of a node and a run at a turn, and then the ten; the last
	   turn finds nothing */
	assert_int_equal(keep_settle(db, NOON + 2 * DAY), 21 + 3 + 1);
	assert_sql("select run_id, n.name, level, entry_calls from time_window"
	    " w join node n on n.id = w.node_id order by 1, 2",
	    "1|a@h|600|3000\n1|b@h|600|3000\n2|a@h|600|500");
	/* one that comes late joins what is there */
	keep_put_known(db, "a@h", NOON + 500 * S);
	assert_int_equal(keep_settle(db, NOON + 2 * DAY), 3);
	assert_sql("select entry_calls from time_window where run_id = 2",
	    "600");
	db_close(db, 0);
}

/* Windows longer than a step's are moved on as they are. */
TEST(test_long_windows)
{
	struct kp_db *db = keep_open("10s:1h,1m:2h,1h:1d");

	keep.interval = 30 * MIN;
	keep_put_known(db, "a@h", NOON);
	keep_put_known(db, "a@h", NOON + 30 * MIN);
	keep_settle(db, NOON + 2 * HOUR + 30 * MIN);
	assert_sql("select id, level from time_window", "1|60\n2|60");
	keep_settle(db, NOON + 3 * HOUR);
	assert_sql("select level, entry_calls from time_window", "3600|200");
	db_close(db, 0);
}

/* Shorter ones than the first step's are rolled up as soon as they can be. */
TEST(test_short_windows)
{
	struct kp_db *db = keep_open("1m:1d");

	for (int i = 0; i < 9; i++)
		keep_put_known(db, "a@h", NOON + i * 10 * S);
	keep_settle(db, NOON + 90 * S);
	assert_sql("select level, count(*) from time_window group by 1",
	    "0|3\n60|1");
	keep_settle(db, NOON + 120 * S);
	assert_sql("select level, count(*) from time_window group by 1",
	    "60|2");
	db_close(db, 0);
}

/* What was rolled up under another -retain is at the step that it fits. */
TEST(test_other_steps)
{
	struct kp_db *db = keep_open("10s:1h,5m:1d");

	for (int i = 0; i < 90; i++)
		keep_put_known(db, "a@h", NOON + i * 10 * S);
	keep_settle(db, NOON + 2 * HOUR);
	assert_sql("select distinct level from time_window", "300");
	db_close(db, 0);
	db = keep_open("10s:1h,1m:3h,15m:1d");
	keep_settle(db, NOON + 3 * HOUR);
	assert_sql("select distinct level from time_window", "300");
	keep_settle(db, NOON + 4 * HOUR);
	assert_sql("select level, entry_calls from time_window", "900|9000");
	db_close(db, 0);
}

/* A histogram that somebody damaged does not stop it: the sums are true. */
TEST(test_damaged_hist)
{
	struct kp_db *db = keep_open("10s:1h,1m:1d");

	keep_put_known(db, "a@h", NOON);
	keep_put_known(db, "a@h", NOON + 10 * S);
	sql_exec("update stat set hist = x'07' where window_id = 1");
	keep_settle(db, NOON + 3 * HOUR);
	assert_sql("select distinct w_timed, w_total_ns, p50_ns from stat",
	    "40|2469135780|23456789");
	db_close(db, 0);
}

/* ---- any windows, any order: against brute force ---- */

#define WINDOWS 300
#define HOURS 5

static const char *const names[] = { "_total", "get", "put", "del" };
#define NAMES (sizeof(names) / sizeof(names[0]))

/* All of it, as for most requests, or a part. */
static void
random_shares(struct kp_cell *c)
{
	bool all_of_it = pick(2) > 0;

	c->share_requests = all_of_it ? c->requests : pick(1000);
	c->w_share_requests = all_of_it ? c->w_requests : pick(1000);
	c->share_busy = all_of_it ? c->busy : pick(1 << 24);
	c->w_share_busy = all_of_it ? c->w_busy : pick(1 << 24);
}

/* Of each, measured or not. */
static void
random_pauses(struct kp_cell *c)
{
	c->has_gc = pick(2) > 0;
	c->gc = c->has_gc ? pick(1 << 24) : 0;
	c->w_gc = c->has_gc ? pick(1 << 24) : 0;
	c->has_out = pick(2) > 0;
	c->out = c->has_out ? pick(1 << 24) : 0;
	c->w_out = c->has_out ? pick(1 << 24) : 0;
}

static void
random_cell(struct kp_cell *c, const char *tier, const char *identity)
{
	kp_dur_ns d;

	*c = (struct kp_cell){ .tier = tier, .identity = identity,
		.min = -1 };
#define COUNT(X, field, null) c->field = pick(1000), c->w_##field = pick(1000);
#define TIME(X, field, null) \
	c->field = pick(1 << 24) * INT64_C(1000); \
	c->w_##field = pick(1 << 24) * INT64_C(1000);
#define ONCE(X, field, null) c->field = pick(1000);
	KP_CELL_FIGURES(COUNT, TIME, ONCE, )
	c->timed = c->w_timed = 0;	/* of what is in hist, below */
	c->total = c->w_total = 0;
	random_shares(c);
	random_pauses(c);
	for (uint32_t n = pick(4); n > 0; n--) {
		d = (kp_dur_ns)1 << pick(40);
		kp_hist_add(&c->async_hist, d, 10);
		c->async_max = d > c->async_max ? d : c->async_max;
	}
	for (uint32_t n = pick(6); n > 0; n--) {
		d = (kp_dur_ns)1 << pick(40);
		d += pick(1 << 20);
		kp_hist_add(&c->hist, d, 10);
		c->timed++;
		c->w_timed += 10;
		c->total += d;
		c->w_total += 10 * d;
		c->min = c->min < 0 || d < c->min ? d : c->min;
		c->max = d > c->max ? d : c->max;
	}
}

static const char *const receivers[] = { "_entry", "_other", "db:init/1",
	"db_server" };
#define RECEIVERS (sizeof(receivers) / sizeof(receivers[0]))

static void
random_wait(struct kp_wait_cell *c, const char *receiver, const char *identity)
{
	kp_dur_ns d;

	*c = (struct kp_wait_cell){ .receiver = receiver, .identity = identity,
		.min = -1 };
	for (uint32_t n = pick(6); n > 0; n--) {
		d = (kp_dur_ns)1 << pick(40);
		d += pick(1 << 20);
		kp_hist_add(&c->hist, d, 10);
		c->messages++;
		c->w_messages += 10;
		c->wait += d;
		c->w_wait += 10 * d;
		c->min = c->min < 0 || d < c->min ? d : c->min;
		c->max = d > c->max ? d : c->max;
	}
	c->away = pick((uint32_t)c->messages + 1);
	c->w_away = 10 * c->away;
}

/* By receiver and identity, as windows have them; some have none at all. */
static void
random_waits(struct kp_window *w)
{
	if (pick(4) == 0)
		return;
	w->waits = calloc(RECEIVERS * NAMES, sizeof(*w->waits));
	assert_non_null(w->waits);
	for (size_t i = 0; i < RECEIVERS * NAMES; i++) {
		if (pick(3) == 0)
			random_wait(&w->waits[w->nwaits++],
			    receivers[i / NAMES], names[i % NAMES]);
	}
}

static struct kp_window *
random_window(void)
{
	static const char *const nodes[] = { "a@h", "b@h", "c@h" };
	struct kp_window *w = new_window(nodes[pick(3)], NOON +
	    pick(HOURS * 360) * 10 * S + pick(3) * S, 2 * NAMES);
	size_t n = 0;

	/* split by `kprof dump`, or not */
	w->end = w->start + (1 + pick(10)) * S;
	w->entry_calls = pick(1000);
	w->sampled = pick(1000);
	for (int i = 0; i < 3; i++)
		w->losses.n[pick(KP_LOSS_COUNT)] = pick(100);
	for (int t = 0; t < 2; t++) {
		for (size_t i = 0; i < NAMES; i++) {
			if (pick(3) > 0)
				random_cell(&w->cells[n++], t == 0 ? "_total" :
				    "db", names[i]);
		}
	}
	w->ncells = n;
	random_waits(w);
	return w;
}

static void
assert_same_hist(const struct kp_hist *a, const struct kp_hist *b)
{
	struct kp_buf x, y;

	kp_buf_init(&x, 1 << 16);
	kp_buf_init(&y, 1 << 16);
	kp_hist_write(a, &x);
	kp_hist_write(b, &y);
	assert_int_equal(x.len, y.len);
	assert_memory_equal(x.p, y.p, x.len);
	kp_buf_free(&x);
	kp_buf_free(&y);
}

static bool
in_range(const struct kp_window *w, const struct kp_query_range *r)
{
	return w != NULL && w->start >= r->since && w->start < r->until &&
	    (r->node == NULL || strcmp(w->node, r->node) == 0);
}

static bool
of_several_nodes(struct kp_window *const *w, const struct kp_query_range *r)
{
	const char *node = NULL;

	for (int i = 0; i < WINDOWS; i++) {
		if (!in_range(w[i], r))
			continue;
		if (node != NULL && strcmp(node, w[i]->node) != 0)
			return true;
		node = w[i]->node;
	}
	return false;
}

/*
 * One series by hand: all windows of the range and the node, one by one.  Of
 * several nodes a request counts by its shares.
 */
static void
brute_cell(struct kp_window *const *w, const struct kp_query_range *r,
    const struct kp_cell *key, struct kp_cell *sum)
{
	bool several = of_several_nodes(w, r);
	struct kp_cell c;

	*sum = (struct kp_cell){ .min = -1 };
	for (int i = 0; i < WINDOWS; i++) {
		if (!in_range(w[i], r))
			continue;
		for (size_t k = 0; k < w[i]->ncells; k++) {
			c = w[i]->cells[k];
			if (several) {
				c.requests = c.share_requests;
				c.w_requests = c.w_share_requests;
				c.busy = c.share_busy;
				c.w_busy = c.w_share_busy;
			}
			if (strcmp(c.tier, key->tier) == 0 &&
			    strcmp(c.identity, key->identity) == 0)
				kp_cell_merge(sum, &c);
		}
	}
}

static void
assert_same_cell(const struct kp_cell *a, const struct kp_cell *b)
{
	/* the figures between the names and the histogram */
	size_t from = offsetof(struct kp_cell, requests);

	assert_memory_equal((const char *)a + from, (const char *)b + from,
	    offsetof(struct kp_cell, hist) - from);
	assert_same_hist(&a->hist, &b->hist);
	assert_same_hist(&a->async_hist, &b->async_hist);
	assert_int_equal(a->async_max, b->async_max);
}

static void
assert_same_heads(struct kp_window *const *w, const struct kp_query_range *r,
    const struct kp_query_sum *sum)
{
	struct kp_losses losses = { 0 };
	uint64_t calls = 0, sampled = 0;
	kp_wall_ns end = 0;

	for (int i = 0; i < WINDOWS; i++) {
		if (!in_range(w[i], r))
			continue;
		calls += w[i]->entry_calls;
		sampled += w[i]->sampled;
		end = w[i]->end > end ? w[i]->end : end;
		for (int k = 0; k < KP_LOSS_COUNT; k++)
			losses.n[k] += w[i]->losses.n[k];
	}
	assert_fields(*sum, IS(entry_calls, calls) IS(sampled, sampled)
	    IS(end, end));
	assert_memory_equal(&sum->losses, &losses, sizeof(losses));
}

/* As brute_cell. */
static void
brute_wait(struct kp_window *const *w, const struct kp_query_range *r,
    const struct kp_wait_cell *key, struct kp_wait_cell *sum)
{
	const struct kp_wait_cell *c;

	*sum = (struct kp_wait_cell){ .min = -1 };
	for (int i = 0; i < WINDOWS; i++) {
		for (size_t k = 0; in_range(w[i], r) && k < w[i]->nwaits; k++) {
			c = &w[i]->waits[k];
			if (strcmp(c->receiver, key->receiver) == 0 &&
			    strcmp(c->identity, key->identity) == 0)
				kp_wait_cell_merge(sum, c);
		}
	}
}

static void
assert_same_wait(const struct kp_wait_cell *a, const struct kp_wait_cell *b)
{
	assert_fields(*a, IS(messages, b->messages)
	    IS(w_messages, b->w_messages) IS(away, b->away)
	    IS(w_away, b->w_away) IS(wait, b->wait) IS(w_wait, b->w_wait)
	    IS(min, b->min) IS(max, b->max));
	assert_same_hist(&a->hist, &b->hist);
}

static void
assert_same_waits(struct kp_query *q, struct kp_window *const *w,
    const struct kp_query_range *r)
{
	struct kp_wait_cell key = { .min = -1 }, brute, none = { .min = -1 };
	const struct kp_wait_cell *c;
	struct kp_query_waits waits;

	assert_int_equal(kp_query_waits(q, r, NULL, &waits), KP_OK);
	assert_true(waits.n <= RECEIVERS * NAMES);
	for (size_t i = 0; i < RECEIVERS * NAMES; i++) {
		key.receiver = receivers[i / NAMES];
		key.identity = names[i % NAMES];
		brute_wait(w, r, &key, &brute);
		c = &none;
		for (size_t k = 0; k < waits.n; k++)
			if (strcmp(waits.v[k].receiver, key.receiver) == 0 &&
			    strcmp(waits.v[k].identity, key.identity) == 0)
				c = &waits.v[k];
		assert_same_wait(c, &brute);
		kp_hist_free(&brute.hist);
	}
	kp_query_waits_free(&waits);
}

static void
assert_same_range(struct kp_query *q, struct kp_window *const *w,
    const struct kp_query_range *r)
{
	struct kp_cell brute, key, none = { .min = -1 };
	const struct kp_cell *c;
	struct kp_query_sum sum;

	assert_int_equal(kp_query_sum(q, r, &sum), KP_OK);
	assert_same_heads(w, r, &sum);
	assert_same_waits(q, w, r);
	for (size_t i = 0; i < 2 * NAMES; i++) {
		key.tier = i < NAMES ? "_total" : "db";
		key.identity = names[i % NAMES];
		brute_cell(w, r, &key, &brute);
		c = kp_query_cell(&sum, key.tier, key.identity);
		assert_same_cell(c != NULL ? c : &none, &brute);
		kp_cell_free(&brute);
	}
	kp_query_sum_free(&sum);
}

/* Ranges that begin and end on whole hours hold whole windows, always. */
static void
assert_same(struct kp_query *q, struct kp_window *const *w)
{
	struct kp_query_range r = all;

	r.exact = true;
	assert_same_range(q, w, &r);
	r.node = "b@h";
	r.since = NOON + (int)pick(HOURS) * HOUR;
	r.until = r.since + (int)(1 + pick(2)) * HOUR;
	assert_same_range(q, w, &r);
}

static void
one_property(uint32_t s)
{
	static const char *const plans[] = { "10s:10m,1m:30m,10m:1h,1h:9d",
		"10s:1m,30s:2m,1m:3m,20m:90m,1h:9d", "1m:9d", "10m:10m,1h:9d",
		"10s:2m,1h:9d" };
	struct kp_window *w[WINDOWS] = { NULL };
	struct kp_db *db;
	struct kp_query *q;
	kp_wall_ns now = NOON;
	bool more;

	seed = s;
	db = keep_open(plans[pick(5)]);
	q = open_query();
	for (int i = 0; i < WINDOWS; i++) {
		w[i] = random_window();
		keep_put(db, w[i]);
		if (pick(8) > 0)
			continue;
		/* some turns, and time passes, sometimes a lot of it */
		now += (kp_dur_ns)pick(20) * MIN;
		more = true;
		for (uint32_t n = pick(20); n > 0 && more; n--)
			assert_int_equal(upkeep_turn(&keep, db, now, &more),
			    SQLITE_OK);
		assert_same(q, w);
		if (pick(10) == 0) {
			db_close(db, 0);
			db = keep_open(plans[pick(5)]);
		}
	}
	keep_settle(db, now + DAY);
	assert_same(q, w);
	kp_query_close(q);
	db_close(db, 0);
	assert_sql("pragma integrity_check", "ok");
	assert_sql("pragma foreign_key_check", "");
	for (int i = 0; i < WINDOWS; i++)
		kp_window_free(w[i]);
}

TEST(test_property)
{
	for (uint32_t s = 1; s <= 20; s++) {
		one_property(s);
		teardown(state);
		setup(state);
	}
}

/* ---- beside the writer's work ---- */

struct script {
	struct kp_store *store;
	sem_t known;		/* store is */
	kp_wall_ns now;
	int turns, waited;
	bool seen;
};

/*
 * On the writer's thread, before each turn.  At the third there is a new
 * window; at the fourth it must be there for everybody, though hundreds of
 * turns are still to come.
 */
static kp_wall_ns
scripted_now(void *ctx)
{
	struct script *sc = ctx;

	if (sc->turns++ == 0)
		sem_wait(&sc->known);
	if (sc->turns == 3)
		kp_store_window(sc->store, known_window("new@h", sc->now));
	if (sc->turns == 4)
		sc->seen = strcmp(sql_text("select count(*) from time_window w"
		    " join node n on n.id = w.node_id where n.name = 'new@h'"),
		    "1") == 0;
	return sc->now;
}

/* Readers that look while it is rolled up see every window once. */
TEST(test_beside_the_writer)
{
	struct script sc = { .now = NOON + DAY };
	struct kp_store_opts o = store_opts(path);
	struct kp_db *db = keep_open("10s:9d");
	struct kp_query_sum sum;
	struct kp_query *q;
	int n = 0;

	for (int i = 0; i < 1200; i++)
		keep_put_known(db, "a@h", NOON + i * 10 * S);
	db_close(db, 0);
	assert_true(kp_retain_parse("10s:2h,1m:1d", &o.retain));
	o.now = scripted_now;
	o.ctx = &sc;
	sem_init(&sc.known, 0, 0);
	q = open_query();
	sc.store = open_store_with(&o);
	sem_post(&sc.known);
	do {
		assert_int_equal(kp_query_sum(q, &all, &sum), KP_OK);
		n = (int)sum.windows;
		assert_int_equal(kp_query_cell(&sum, "db", "create")->calls *
		    100, sum.entry_calls * 3);
		assert_true(sum.entry_calls >= 120000);
		assert_true(sum.entry_calls <= 120100);
		kp_query_sum_free(&sum);
	} while (n > 201);
	kp_query_close(q);
	kp_store_close(sc.store);
	assert_true(sc.seen);
	assert_true(sc.turns > 200);
	sem_destroy(&sc.known);
}

TESTS(setup, teardown)
