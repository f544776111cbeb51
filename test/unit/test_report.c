/*
 * Reports: the figures are those of the windows, the table is what the
 * design shows, and what strangers named is text everywhere.
 */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"
#include "report/report.h"
#include "report/requests.h"
#include "report/series.h"
#include "store/store.h"

#define MS KP_NS_PER_MS
#define S KP_NS_PER_S
#define T0 (INT64_C(1795255200) * S)	/* 2026-11-21T10:00:00Z */

static struct kp_tier tiers[] = { { .name = "http" }, { .name = "database" },
	{ .name = "templating" } };
static const struct kp_conf conf = { .tiers = tiers, .ntiers = 3 };
static struct kp_buf buf;
static struct report *r;	/* of the window that was measured last */

FIXTURE(setup)
{
	setenv("TZ", "UTC", 1);
	tzset();
	kp_buf_init(&buf, 1 << 20);
	return 0;
}

FIXTURE(teardown)
{
	kp_buf_free(&buf);
	report_free(r);
	r = NULL;
	return 0;
}

/* n requests of weight w, each with one call of so many ns. */
static struct kp_cell
cell(const char *tier, const char *identity, uint64_t n, uint64_t w,
    kp_dur_ns each)
{
	struct kp_cell c = { .tier = tier, .identity = identity,
		.requests = n, .calls = n, .timed = n, .w_requests = n * w,
		.w_calls = n * w, .w_timed = n * w, .min = each, .max = each };

	c.total = c.busy = (int64_t)n * each;
	c.w_total = c.w_busy = (int64_t)(n * w) * each;
	c.self = c.total / 2;
	c.w_self = c.w_total / 2;
	assert_int_equal(kp_hist_add(&c.hist, each, n * w), KP_OK);
	return c;
}

static struct kp_window *
new_window(size_t ncells)
{
	struct kp_window *w = calloc(1, sizeof(*w));

	w->node = "app@host";
	w->start = T0;
	w->end = T0 + 1800 * S;
	w->cells = calloc(ncells, sizeof(*w->cells));
	return w;
}

/* _total has calls of http, and http those of the others. */
static void
set_self(struct kp_cell *c, const kp_dur_ns *each, int t)
{
	const kp_dur_ns self[] = { each[0] - each[1],
		each[1] - each[2] - each[3], each[2], each[3] };

	c->self = (int64_t)c->requests * self[t];
	c->w_self = (int64_t)c->w_requests * self[t];
}

/* The table of the design: create 310 and update 894 requests. */
static struct kp_window *
known_window(uint64_t weight)
{
	static const kp_dur_ns create[] = { 110 * MS, 70 * MS, 30 * MS,
		10 * MS }, update[] = { 80 * MS, 43 * MS, 17 * MS, 10 * MS };
	static const char *const names[] = { "_total", "http", "database",
		"templating" };
	struct kp_window *w = new_window(12);
	struct kp_cell sum;

	for (int t = 0; t < 4; t++) {
		struct kp_cell c = cell(names[t], "create", 310, weight,
		    create[t]);
		struct kp_cell u = cell(names[t], "update", 894, weight,
		    update[t]);

		set_self(&c, create, t);
		set_self(&u, update, t);
		sum = (struct kp_cell){ .tier = names[t],
			.identity = "_total", .min = -1 };
		kp_cell_merge(&sum, &c);
		kp_cell_merge(&sum, &u);
		w->cells[w->ncells++] = sum;
		w->cells[w->ncells++] = c;
		w->cells[w->ncells++] = u;
	}
	w->sampled = 1204;
	w->entry_calls = 1204 * weight;
	return w;
}

static void
measured(struct kp_window *w)
{
	report_free(r);
	assert_int_equal(report_from_window(w, &conf, &r), KP_OK);
	kp_window_free(w);
}

static const char *
out(void)
{
	assert_int_equal(buf.err, KP_OK);
	return kp_buf_cstr(&buf);
}

static const char *
table_as(const struct report_opts *o)
{
	kp_buf_reset(&buf);
	report_table(&buf, r, o);
	return out();
}

static const char *
table(enum report_what what)
{
	return table_as(&(struct report_opts){ .what = what });
}

static const char *
json(void)
{
	kp_buf_reset(&buf);
	report_json(&buf, r);
	return out();
}

static const char *
csv(void)
{
	kp_buf_reset(&buf);
	report_csv(&buf, r);
	return out();
}

#define COVERAGE "2026-11-21 10:00:00 to 10:30:00 UTC (30m), app@host\n"
#define SHARE "share: of the 105.6 s that all requests took, added up\n"

TEST(test_table)
{
	measured(known_window(1));
	assert_string_equal(table(REPORT_BUSY),
	    "              requests   total  share   http  database  templating\n"
	    "------------------------------------------------------------------\n"
	    "all requests     1 204   88 ms  100 %  50 ms     20 ms       10 ms\n"
	    "------------------------------------------------------------------\n"
	    "update             894   80 ms   68 %  43 ms     17 ms       10 ms\n"
	    "create             310  110 ms   32 %  70 ms     30 ms       10 ms\n"
	    "\n"
	    "time in tier (inclusive) per request; " COVERAGE
	    "time in tier: with that of the tiers it calls, so a row does not "
	    "add up to total (-what self does)\n" SHARE
	    "losses: none\n");
	assert_int_equal(report_sort(r, "http", REPORT_BUSY), KP_OK);
	assert_string_equal(table(REPORT_SELF),
	    "              requests   total  share   http  database  templating  no tier\n"
	    "---------------------------------------------------------------------------\n"
	    "all requests     1 204   88 ms  100 %  20 ms     20 ms       10 ms    38 ms\n"
	    "---------------------------------------------------------------------------\n"
	    "create             310  110 ms   32 %  30 ms     30 ms       10 ms    40 ms\n"
	    "update             894   80 ms   68 %  16 ms     17 ms       10 ms    37 ms\n"
	    "\n"
	    "self (exclusive) time per request; " COVERAGE
	    "self: the tiers of a row, and the time in no tier, add up to total "
	    "(inclusive)\n" SHARE
	    "losses: none\n");
	assert_int_equal(report_sort(r, "name", REPORT_BUSY), KP_OK);
	assert_string_equal(r->rows[1].identity, "create");
	assert_int_equal(report_sort(r, "requests", REPORT_BUSY), KP_OK);
	assert_string_equal(r->rows[1].identity, "update");
	assert_int_equal(report_sort(r, "htpt", REPORT_BUSY), KP_ENOENT);
	assert_int_equal(report_sort(r, "total", REPORT_BUSY), KP_OK);
	assert_string_equal(r->rows[1].identity, "create");
	assert_int_equal(report_sort(r, "-total", REPORT_BUSY), KP_OK);
	assert_string_equal(r->rows[1].identity, "update");
	/* fewer requests, each of which takes longer, cost less here */
	assert_int_equal(report_sort(r, "http", REPORT_BUSY), KP_OK);
	assert_int_equal(report_sort(r, "cost", REPORT_BUSY), KP_OK);
	assert_string_equal(r->rows[1].identity, "update");
	assert_true(fabs(r->rows[1].share - 894 * 80.0 / (894 * 80.0 +
	    310 * 110.0)) < 1e-9);
}

/* A file for many applications has tiers that this one does not call. */
TEST(test_tier_without_calls)
{
	const char *text;

	measured(known_window(1));
	for (size_t i = 0; i < r->nrows; i++)
		memset(&r->rows[i].cells[2], 0, sizeof(r->rows[i].cells[2]));
	text = table(REPORT_SELF);
	assert_non_null(strstr(text, "share   http  templating  no tier\n"));
	assert_non_null(strstr(text, "\nno calls of tier database\n"));
}

/* A row that does not add up says so, and why. */
TEST(test_sum_of_self)
{
	struct kp_window *w = known_window(1);

	w->cells[0].self = w->cells[0].w_self = 0;	/* the entry is in http */
	w->cells[3].self = w->cells[3].w_self += w->cells[0].w_total;
	measured(w);
	assert_has(table(REPORT_SELF), "\nself: the tiers of a row, and the time "
	    "in no tier, add up to 138 ms, not to total (inclusive), 88 ms: calls "
	    "that run at the same time, outlast their request or are in two tiers "
	    "count in full\n");
	w = known_window(1);
	w->cells[3].self = w->cells[3].w_self = 0;
	measured(w);
	assert_has(table(REPORT_SELF), " add up to 68 ms, not to total "
	    "(inclusive), 88 ms: the end of some calls was not seen");
}

/* What one type has too much and another too little cancels out in all of them. */
TEST(test_sum_of_one)
{
	struct kp_window *w = known_window(1);

	for (size_t i = 0; i < w->ncells; i++) {
		struct kp_cell *c = &w->cells[i];
		int64_t more = strcmp(c->identity, "create") == 0 ? 1 : -1;

		if (strcmp(c->tier, "http") == 0 &&
		    strcmp(c->identity, "_total") != 0)
			c->self = c->w_self += more * 894 * 10 * MS;
	}
	measured(w);
	assert_has(table(REPORT_SELF), " add up to total (inclusive), but not in "
	    "each: those of update to 70 ms, not to 80 ms: the end of some calls "
	    "was not seen");
}

/* The range is from the first window to the last, and does not show gaps. */
TEST(test_gaps)
{
	measured(known_window(1));
	r->start = T0;
	r->end = T0 + 24 * 3600 * S;
	r->windows = 1140;		/* of 10 s each */
	r->covered = 11400 * S;
	assert_has(table(REPORT_BUSY), " UTC (1d), covered 3h10m of 1d, "
	    "app@host\n");
	/* a window that is missing is not worth a word */
	r->windows = 8639;
	r->covered = 86390 * S;
	assert_lacks(table(REPORT_BUSY), "covered");
	r->windows = 8638;
	r->covered = 86380 * S;
	assert_has(table(REPORT_BUSY), "covered 23h59m40s of");
}

/* The cheapest tiers are one column, their sum; inclusive times have no sum. */
TEST(test_narrow)
{
	static const struct {
		enum report_what what;
		unsigned width;
		const char *keep, *head, *all, *note;
	} rows[] = {
		{ REPORT_SELF, 80, NULL, "share   http  database  templating  no tier",
		    "100 %  20 ms     20 ms       10 ms    38 ms", NULL },
		{ REPORT_SELF, 72, NULL, "share  database  2 other  no tier",
		    "100 %     20 ms    30 ms    38 ms", "\n2 other: the sum of tiers "
		    "that have no room here: http, templating; a\n  wider terminal "
		    "shows them, and kprof report | less -S\n" },
		{ REPORT_SELF, 72, "templating", "share  templating  2 other  no tier",
		    "100 %       10 ms    40 ms    38 ms", "here: http, database;" },
		{ REPORT_CALLS, 64, NULL, "share  http  2 other",
		    "100 %  1.00     2.00", "here: database,\n  templating;" },
		{ REPORT_BUSY, 64, NULL, "share   http  database",
		    "100 %  50 ms     20 ms", "\n(no room for: templating)\n" },
		/* not even two columns fit */
		{ REPORT_CALLS, 40, NULL, "\n              http  2 other",
		    "\nall requests  1.00     2.00", NULL },
	};
	struct report_opts o = { .what = REPORT_SELF };

	measured(known_window(1));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		o = (struct report_opts){ .what = rows[i].what,
			.width = rows[i].width, .keep = rows[i].keep };
		assert_has(table_as(&o), rows[i].head);
		assert_has(out(), rows[i].all);
		if (rows[i].note != NULL)
			assert_has(out(), rows[i].note);
		else
			assert_lacks(out(), "no room");
	}
}

/* What is left out of a row's figures must not make it look complete. */
TEST(test_narrow_unknown)
{
	const struct report_opts o = { .what = REPORT_SELF, .width = 72 };

	measured(known_window(1));
	for (size_t t = 1; t <= 3; t += 2)
		r->rows[1].cells[t].timed = 0;
	assert_has(table_as(&o), "\nupdate             894   80 ms   68 %     17 ms"
	    "        ?    37 ms\n");
}

/*
 * On OTP 25 a function that ends by a tail call has no time: cowboy's handlers
 * of REST requests were shown as taking 0 ns.
 */
TEST(test_no_time)
{
	struct kp_window *w = known_window(1);

	for (size_t i = 0; i < w->ncells; i++) {
		struct kp_cell *c = &w->cells[i];

		if (strcmp(c->tier, "database") == 0 &&
		    strcmp(c->identity, "update") != 0) {
			c->w_ambiguous = 310;
			c->w_timed -= 310;
			if (c->w_timed == 0)
				c->w_total = c->w_busy = c->w_self = 0;
		}
	}
	measured(w);
	assert_has(table(REPORT_BUSY), "  70 ms         ?       10 ms\n");
	assert_has(table(REPORT_BUSY), "\nno time for 26 % of the calls of "
	    "database: their end was not seen\n");
	assert_null(strpbrk(table(REPORT_CALLS), "?"));
	assert_null(strpbrk(table(REPORT_ASYNC), "?"));
	assert_lacks(out(), "no time");
}

TEST(test_percentiles)
{
	const struct report_opts o = { .percentiles = true };

	measured(known_window(1));
	table_as(&o);
	/* the rank of the median is update's; buckets are 2 % wide */
	assert_has(out(),
	    "\nhttp          calls   mean    p50    p90    p99    max\n"
	    "------------------------------------------------------\n"
	    "all requests  1 204  50 ms  43 ms  70 ms  70 ms  70 ms\n"
	    "update          894  43 ms  43 ms  43 ms  43 ms  43 ms\n"
	    "create          310  70 ms  70 ms  70 ms  70 ms  70 ms\n");
	assert_has(out(), "\nwhole request  requests");
	/* of the requests the VM's count is there, of calls an estimate */
	measured(known_window(10));
	assert_has(table_as(&o), "\nall requests    12 040   88 ms ");
	assert_has(out(), "\nupdate          ~8 940   80 ms ");
	assert_has(out(), "\nall requests  ~12 040  50 ms  43 ms ");
}

/* One of ten requests was measured: what its messages stand for is no count. */
TEST(test_messages_estimated)
{
	struct kp_wait_cell c = { .receiver = "db:loop/1", .identity = "create",
		.messages = 30, .w_messages = 300, .away = 3, .w_away = 30,
		.wait = 30 * MS, .w_wait = 300 * MS, .min = MS, .max = MS };
	const struct kp_query_waits waits = { &c, 1 };
	const struct kp_query_sum cover = { .windows = 1 };

	assert_int_equal(kp_hist_add(&c.hist, MS, 300), KP_OK);
	assert_int_equal(messages_table(&buf, &waits, &cover, 0), KP_OK);
	assert_has(out(), "\ndb:loop/1      ~300        ~30   300.000    1.000 ");
	c.w_messages = 30;
	kp_buf_reset(&buf);
	assert_int_equal(messages_table(&buf, &waits, &cover, 0), KP_OK);
	assert_has(out(), "\ndb:loop/1        30 ");
	kp_hist_free(&c.hist);
}

/* Of the requests that were not measured some may be slow, too. */
TEST(test_slow_of_some)
{
	struct kp_query_request slow = { .id = 9, .start = T0, .total = 3 * MS,
		.node = "app@host", .identity = "create", .weight = 4 };
	const struct kp_query_requests rs = { &slow, 1 };
	struct kp_query_sum cover = { .windows = 1, .entry_calls = 400,
		.sampled = 100, .losses.n[KP_LOSS_SAMPLED_OUT] = 300 };

	requests_table(&buf, &rs, &cover, 0);
	assert_has(out(), "\nof the 100 requests measured, which are 25 % of all 400: "
	    "among the others may be some that were as slow\n");
	kp_buf_reset(&buf);
	requests_json(&buf, &rs, &cover);
	assert_has(out(), ",\"entry_calls\":400,\"sampled\":100,\"windows\":{");
	/* one was lost, and none passed over */
	cover.sampled = 399;
	cover.losses.n[KP_LOSS_SAMPLED_OUT] = 0;
	kp_buf_reset(&buf);
	requests_table(&buf, &rs, &cover, 0);
	assert_lacks(out(), "among the others");
}

TEST(test_queues)
{
	struct kp_wait_cell c = { .receiver = KP_QUEUE, .identity = "job Mailer",
		.messages = 30, .w_messages = 300, .wait = 60 * MS,
		.w_wait = 600 * MS, .min = 2 * MS, .max = 2 * MS };
	const struct kp_query_waits queues = { &c, 1 }, none = { NULL, 0 };
	struct report_opts o = { .what = REPORT_SELF, .queues = &none };
	struct kp_query_wait in_tree = { .receiver = KP_QUEUE, .pid = "<0.1.0>",
		.node = "", .messages = 1, .wait = 44 * MS, .max = 44 * MS };
	struct kp_query_tree tree = { .request = { .id = 7, .start = T0,
		.total = 5 * MS, .node = "app@host", .identity = "job Mailer",
		.weight = 1, .outcome = KP_RETURNED, .ncalls = 1 }, .waits = &in_tree,
		.nwaits = 1 };
	const struct kp_query_sum cover = { .windows = 1 };
	struct kp_query_request inner = { .id = 9, .start = T0 + 4 * MS,
		.total = 3 * MS, .node = "app@host", .identity = "GET v2 /" };

	assert_int_equal(kp_hist_add(&c.hist, 2 * MS, 300), KP_OK);
	measured(known_window(1));
	assert_lacks(table_as(&o), "queue");
	o.queues = &queues;
	assert_has(table_as(&o), "\nin a queue, before it began  requests    mean  "
	    "   p50     p95     p99     max\n");
	assert_has(out(), "\njob Mailer                       ~300  2.0 ms  2.0 ms  "
	    "2.0 ms  2.0 ms  2.0 ms\n");
	kp_hist_free(&c.hist);
	kp_buf_reset(&buf);
	tree_text(&buf, &(struct request_report){ tree, cover, { 0 } }, 0);
	assert_has(out(), ", returned, 1 call, after 44 ms in a queue\n");
	assert_lacks(out(), "messages in mailboxes");
	assert_lacks(out(), "began inside");
	/* its row, and its own head */
	tree.inner = &inner;
	tree.ninner = 1;
	tree_text(&buf, &(struct request_report){ tree, cover, { 0 } }, 0);
	assert_has(out(), "\nrequests that began inside it, as far as they were slow:\n"
	    "start ms  total ms  id  identity\n"
	    "--------------------------------\n"
	    "   4.000     3.000   9  GET v2 /\n");
	tree = (struct kp_query_tree){ .request = inner, .outer = { .id = 7,
		.start = T0, .identity = "POST /orders" } };
	tree.request.parent_label = 5;
	tree_text(&buf, &(struct request_report){ tree, cover, { 0 } }, 0);
	assert_has(out(), ", started 4.0 ms into request 7, POST /orders\n");
	tree.outer.id = 0;
	tree_text(&buf, &(struct request_report){ tree, cover, { 0 } }, 0);
	assert_has(out(), ", started inside another request\n");
}

/* Weights, async and losses are said below the table, in one line each. */
TEST(test_below_the_table)
{
	struct kp_window *w = known_window(10);

	w->entry_calls = 12050;
	w->losses.n[KP_LOSS_SAMPLED_OUT] = 10836;
	w->losses.n[KP_LOSS_STALE] = 3;
	/* database's two totals: a quarter of its calls again, after the end */
	w->cells[6].async_calls = 301;
	w->cells[6].w_async_calls = 3010;
	w->cells[0].w_async_calls = 3010;
	w->cells[0].w_async = w->cells[6].w_async = 12040 * MS;
	measured(w);
	assert_has(table(REPORT_BUSY), "all requests    12 050   88 ms  1.0 ms  "
	    "100 %  50 ms     20 ms       10 ms\n");
	/* what was sampled out is estimated, identity by identity */
	assert_has(out(), "\nupdate          ~8 940 ");
	assert_has(out(), "\ncreate          ~3 100 ");
	assert_has(out(), "\nrequests: the VM counted all; each type has those "
	    "that were measured, for which the sampled ones stand: ~12 040 in all"
	    "\nshare: of the 1 056 s that all requests took, added up"
	    "\nsampling: 1 204 of 12 050 requests, as the VM counted them, were "
	    "measured; the table estimates all (~: an estimated count)\n"
	    "after: time after the request's end, 1.0 ms per request (+ in a tier's "
	    "column, where there is room), not in total; 7.7 % of the calls began after it\n"
	    "losses:\n"
	    "      10 836 requests  passed over by sampling; the others stand for "
	    "them (sampled_out)\n"
	    "           3 calls     not measured: they belong to no request of the "
	    "last 30 s (stale)\n");
	assert_has(table(REPORT_ASYNC), "all requests    12 050   88 ms  1.0 ms  "
	    "100 %     -    1.0 ms           -\n");
}

/*
 * 144,518 requests were all there were, and their types added up to 144,230; where
 * tracing was off for half of them, "the table estimates all" was said.
 */
TEST(test_unmeasured)
{
	struct kp_window *w = known_window(1);

	w->entry_calls = 1492;
	w->losses.n[KP_LOSS_UNSEEN] = 288;
	measured(w);
	assert_has(table(REPORT_BUSY), "\nnot measured       288       -      "
	    "-      -         -           -\n");
	assert_has(out(), "\nrequests: the VM counted all; each type has those "
	    "that were measured; the others are \"not measured\", and times are of "
	    "those measured\n");
	assert_has(json(), "\"requests\":1492,\"requests_known\":true,"
	    "\"entry_calls\":1492,\"sampled\":1204,\"unmeasured_requests\":288,");
	assert_has(csv(), ",_not_measured,_total,288,,");

	/* by sampling, and tracing was off for half of them */
	w = known_window(10);
	w->entry_calls = 24000;
	measured(w);
	assert_has(table(REPORT_BUSY), "\nnot measured ");
	assert_has(out(), "\nsampling: 1 204 of 24 000 requests, as the VM counted "
	    "them, were measured; the table estimates the ~12 040 that were made "
	    "while tracing was on ");
	assert_has(out(), "measured, for which the sampled ones stand: ~12 040 in "
	    "all; the others are ");

	/* by sampling in slices of time: no more is missing than was lost */
	w = known_window(10);
	w->entry_calls = 24000;
	w->losses.n[KP_LOSS_SAMPLED_OUT] = 22296;
	w->losses.n[KP_LOSS_UNSEEN] = 500;
	measured(w);
	assert_has(table(REPORT_BUSY), "\nnot measured      ~500 ");

	/* by chance, and not known */
	w = known_window(10);
	w->entry_calls = 12050;
	measured(w);
	assert_lacks(table(REPORT_BUSY), "not measured");
	assert_has(out(), "stand: ~12 040 in all\n");
	r->filtered = true;
	assert_lacks(table(REPORT_BUSY), "requests: ");
	assert_has(out(), " that requests of all types took, added up\n");
	measured(known_window(1));	/* they add up */
	assert_lacks(table(REPORT_BUSY), "requests: ");
}

/* The VM's own count stands for all, where it counted all and nobody chose. */
TEST(test_known)
{
	static const struct {
		uint64_t calls, lost, requests;
		bool known;
	} t[] = {
		{ 12050, 0, 12050, true },
		{ 12050, 20, 12040, false },	/* for 20 ms nobody counted */
		{ 0, 0, 12040, false },
		{ 1203, 0, 12040, false },	/* fewer than were measured */
	};
	struct kp_window *w;
	bool known;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		w = known_window(10);
		w->sampled = 1204;
		w->entry_calls = t[i].calls;
		w->losses.n[KP_LOSS_UNCOUNTED] = t[i].lost;
		measured(w);
		assert_int_equal(report_requests(r, 0, &known), t[i].requests);
		assert_int_equal(known, t[i].known);
		assert_int_equal(report_requests(r, 1, &known), 8940);
		assert_false(known);
		assert_has(json(), t[i].known ? "\"requests\":12050,"
		    "\"requests_known\":true,\"entry_calls\":12050" :
		    "\"requests\":12040,\"requests_known\":false,");
		assert_has(table(REPORT_BUSY), t[i].known ?
		    "\nall requests    12 050 " : "\nall requests   ~12 040 ");
	}
	/* Nothing was sampled out. */
	measured(known_window(1));
	report_requests(r, 1, &known);
	assert_true(known);
}

static struct kp_window *
hostile_window(void)
{
	static const char *const names[] = { "_total", "=cmd|'/c calc'!A1",
		"a,\"b\"", "\x1b[31m\n", "+1", "-1", "@x", "\xff\xfe", "" };
	struct kp_window *w = new_window(18);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		w->cells[w->ncells++] = cell("_total", names[i], 9 - i, 1,
		    5 * MS);
		w->cells[w->ncells++] = cell("http", names[i], 9 - i, 1,
		    4 * MS);
	}
	return w;
}

/*
 * 18 ms of audit that goes on after the answer was read as 35 us: what a tier
 * does inside and after stand side by side.
 */
TEST(test_after)
{
	struct kp_window *w = known_window(1);

	for (size_t i = 0; i < w->ncells; i++) {
		if (strcmp(w->cells[i].tier, "templating") != 0 &&
		    strcmp(w->cells[i].tier, "_total") != 0)
			continue;
		w->cells[i].outlasting = w->cells[i].w_outlasting =
		    w->cells[i].requests;
		w->cells[i].async = w->cells[i].w_async =
		    (int64_t)w->cells[i].requests * 18 * MS;
	}
	measured(w);
	assert_has(table(REPORT_BUSY), "              requests   total  after  "
	    "share   http  database    templating\n");
	assert_has(out(), "all requests     1 204   88 ms  18 ms  100 %  50 ms     "
	    "20 ms  10 ms +18 ms\n");
	assert_has(out(), "\nafter: time after the request's end, 18 ms per "
	    "request (+ in a tier's column, where there is room), not in total; 33 % of the calls "
	    "outlast it\n");
	assert_has(json(), "\"outlasting\":1204,\"after_ms\":21672,"
	    "\"after_per_request_ms\":18,");
}

/* Of a node that only works on after requests of others: per which request? */
TEST(test_after_alone)
{
	struct kp_window *w = new_window(2);

	for (size_t i = 0; i < 2; i++) {
		w->cells[w->ncells++] = (struct kp_cell){ .min = -1,
			.tier = i == 0 ? "_total" : "database",
			.identity = "_total", .async_calls = 3,
			.w_async_calls = 3, .async = 60 * MS,
			.w_async = 60 * MS };
	}
	measured(w);
	assert_has(table(REPORT_BUSY), "\nafter: time after the request's end, 60 "
	    "ms in all; 100 % of the calls began after it\n");
}

/* Two ends of each, of a report without tenths. */
#define NO_INTERVALS ",,,,,,,,,,,,,,,,,,,,"

TEST(test_csv)
{
	static const char *const lines[] = {
		"start,end,identity,tier,requests,calls,",
		"\n2026-11-21T10:00:00.000Z,2026-11-21T10:30:00.000Z,_total,"
		    "_total,9,9,0,0,0,0,45,5,22.5,45,5,0,5,5,5,5,5,5,9,9,,,,0,0,0,,0,0,0,"
		    ",,,,,known,0,0,,0,0" NO_INTERVALS "\n",
		",\"'=cmd|'/c calc'!A1\",http,8,8,",
		",\"a,\"\"b\"\"\",http,7,7,",
		",\\x1b[31m\\x0a,http,6,6,",
		",\"'+1\",http,5,", ",\"'-1\",http,4,", ",\"'@x\",http,3,",
		",\xef\xbf\xbd\xef\xbf\xbd,http,2,", ",,http,1,",
	};

	measured(hostile_window());
	csv();
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_has(out(), lines[i]);
	assert_null(strchr(out(), '\x1b'));
}

/* The window still runs: the table says so, and programs are told. */
TEST(test_running)
{
	measured(hostile_window());
	assert_has(json(), "\"running\":false,");
	assert_lacks(table(REPORT_BUSY), "running");
	r->running = true;
	r->covered = 4 * KP_NS_PER_S;
	r->left = 6 * KP_NS_PER_S;
	assert_has(table(REPORT_BUSY), "\nrunning window: 4 s so far; it is stored "
	    "when it ends, in 6 s\n");
	assert_has(json(), "\"running\":true,");
	assert_has(csv(), ",running,counted_calls,missed_calls,missing,requests_low,"
	    "requests_high,mean_ms_low,");
	assert_has(out(), ",known,0,1,,0,0" NO_INTERVALS "\n");
}

TEST(test_json)
{
	const char *s;

	measured(hostile_window());
	s = json();
	/* one line, whatever the names hold */
	assert_ptr_equal(strchr(s, '\n'), s + buf.len - 1);
	assert_null(strchr(s, '\x1b'));
	assert_has(s, "\"identity\":\"\\u001b[31m\\n\"");
	assert_has(s, "\"identity\":\"\xef\xbf\xbd\xef\xbf\xbd\"");
	assert_has(s, "{\"tier\":\"http\",\"requests\":9,\"calls\":9,\"raised\":0,"
	    "\"unfinished\":0,\"ambiguous\":0,\"async_calls\":0,\"total_ms\":36,"
	    "\"mean_ms\":4,");
}

/*
 * With the relay a tenth of the requests crashed, and the report said 0: it
 * cannot see how they end, which is not the same.
 */
TEST(test_outcomes_not_seen)
{
	static const struct {
		uint32_t weight;
		uint64_t raised, unknown;
		const char *json, *csv, *line;
	} v[] = {
		{ 10, 0, 100, "\"raised\":null,", ",100,100,,0,0,", "\nerrors: not "
		    "seen: the native probe sees it" },
		{ 1, 7, 90, "\"raised\":7,", ",100,100,7,0,0,", "\nerrors: at least 7 "
		    "of the requests raised; of others it is not seen: the native "
		    "probe sees it" },
		/* one in ten was measured, and three of them may have raised */
		{ 10, 30, 10, "\"raised\":30,", ",100,100,30,0,0,", "\nerrors: ~30 or "
		    "more of the requests raised; of others it is not seen: the "
		    "native probe sees it" },
		{ 1, 7, 0, "\"raised_seen\":\"known\"", ",100,100,7,0,0,",
		    "\nerrors: 7 of the requests raised (7.0 %)\n" },
		{ 10, 7, 0, "\"raised_seen\":\"known\"", ",100,100,7,0,0,",
		    "\nerrors: ~7 of the requests raised (7.0 %)\n" },
		{ 10, 0, 0, "\"raised\":0,", ",100,100,0,0,0,", NULL },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct kp_window *w = new_window(1);

		w->cells[w->ncells] = cell("_total", "_total", 100 / v[i].weight,
		    v[i].weight, 5 * MS);
		w->cells[w->ncells].w_raised = v[i].raised;
		w->cells[w->ncells++].w_unknown_outcomes = v[i].unknown;
		measured(w);
		assert_has(json(), v[i].json);
		assert_has(csv(), v[i].csv);
		if (v[i].line == NULL)
			assert_lacks(table(REPORT_BUSY), "errors:");
		else
			assert_has(table(REPORT_BUSY), v[i].line);
	}
}

/* Of ten calls, so many for each way to end; the rest returned. */
static uint64_t
unseen_of(uint64_t raised, uint64_t unfinished, uint64_t ambiguous,
    uint64_t unknown)
{
	struct kp_cell c = { .w_calls = 10, .w_raised = raised,
		.w_unfinished = unfinished, .w_ambiguous = ambiguous,
		.w_unknown_outcomes = unknown };

	return kp_cell_unseen(&c, true);
}

/*
 * With the relay on OTP 25 and 26 a raise past untraced frames leaves its calls
 * without an end: where all fail so, "errors: 0" was said of them.
 */
TEST(test_unfinished_may_have_raised)
{
	assert_int_equal(unseen_of(0, 10, 0, 0), 10);
	assert_int_equal(unseen_of(0, 8, 1, 1), 10);
	/* beside calls that are known to have ended they are no failures */
	assert_int_equal(unseen_of(0, 2, 0, 0), 0);
	assert_int_equal(unseen_of(0, 2, 1, 1), 2);
	assert_int_equal(unseen_of(3, 7, 0, 0), 0);
	assert_int_equal(kp_raised_seen(0, unseen_of(0, 10, 0, 0)),
	    KP_NOT_SEEN);
	assert_int_equal(unseen_of(0, 0, 0, 0), 0);
}

/*
 * A process that waits is answered because of another request, which was not
 * sampled: render, once in each request, showed 0.17 and nothing said so.
 */
TEST(test_missing)
{
	struct kp_window *w = new_window(2);
	struct kp_cell *all = &w->cells[0], *c = &w->cells[1];

	*all = cell("_total", "_total", 70, 10, 10 * MS);
	*c = cell("database", "_total", 12, 10, MS);
	w->ncells = 2;
	w->sampled = 70;
	w->entry_calls = all->counted = 710;
	c->async_calls = 60;
	c->w_async_calls = 600;
	c->counted = 710;
	c->strayed = 5;
	c->missed = 450;
	measured(w);
	assert_has(table(REPORT_CALLS), "  database !");
	assert_has(table(REPORT_CALLS), "\n! database: 0.17 calls per request and "
	    "0.86 after it, where the VM counted 710, 1.00 per request; about 0.64 "
	    "per request are missing: a process was answered because of "
	    "another request");
	assert_has(json(), "\"missing\":[{\"tier\":\"database\","
	    "\"counted_calls\":710,\"counted_requests\":710,\"calls\":120,"
	    "\"async_calls\":600,\"missed_calls\":450}]");
	assert_has(csv(), ",0,0,710,450,1" NO_INTERVALS "\n");
	/* more than the VM counted cannot be missing */
	r->rows[0].cells[2].missed = 6000;
	assert_has(table(REPORT_CALLS), "about 0.83 per");
	/* calls outside of requests are no strayed ones */
	r->rows[0].cells[2].sampled_calls = 12;
	r->rows[0].cells[2].counted = 100000;
	r->rows[0].cells[2].strayed = 2;
	assert_lacks(table(REPORT_CALLS), "!");
	r->rows[0].cells[2].strayed = 5;
	r->rows[0].cells[2].missed = 5;
	r->rows[0].cells[2].counted = 710;
	assert_lacks(table(REPORT_CALLS), "!");
	assert_has(json(), "\"missing\":[],");
	/*
	 * If all workers are taken no token comes back, as if the calls were
	 * made outside of requests.
	 */
	r->rows[0].cells[2].calls = r->rows[0].cells[2].async_calls = 0;
	r->rows[0].cells[2].strayed = 0;
	r->rows[0].cells[2].sampled_calls = r->rows[0].cells[2].sampled_async = 0;
	assert_has(table(REPORT_CALLS), "\nnot in requests: 710 calls of database, "
	    "1.00 per request: the VM counted them");
	assert_has(table(REPORT_CALLS), "\nno calls of tier http, templating\n");
	assert_has(json(), "\"missed_calls\":null}]");
	r->rows[0].cells[0].sampled_requests = 19;	/* may be chance */
	assert_lacks(table(REPORT_CALLS), "not in requests");
}

/* In a step whose outcomes are all unknown none can be seen, which is not 0. */
TEST(test_series_seen)
{
	struct kp_cell cells[] = { { .w_calls = 5, .w_unknown_outcomes = 5 },
		{ .w_calls = 5, .w_raised = 2, .w_ambiguous = 1 },
		{ .w_calls = 5, .w_raised = 2 } };
	struct kp_series_step v[3];
	struct kp_series s = { .step = S, .v = v, .n = 3 };

	for (size_t i = 0; i < s.n; i++)
		v[i] = (struct kp_series_step){ .windows = 1, .covered = S,
			.cells = &cells[i] };
	kp_buf_reset(&buf);
	assert_int_equal(series_json(&buf, &s, NULL, NULL), KP_OK);
	assert_has(out(), "\"unknown_outcomes\":[5,0,0]");
	assert_has(out(), "\"raised\":[null,2,2],\"errors\":[null,2,2],"
	    "\"raised_seen\":[\"not_seen\",\"at_least\",\"known\"]");
}

/*
 * The calls of a tier that all began after their request had ended were said
 * to be without errors: nobody had looked.
 */
#define NO_ASYNC_TIMES "\"async_p50_ms\":null,\"async_p90_ms\":null," \
	"\"async_p95_ms\":null,\"async_p99_ms\":null,\"async_max_ms\":null,"

TEST(test_outcomes_after_the_end)
{
	static const struct {
		uint64_t raised, unknown;
		const char *json;
	} v[] = {
		{ 164, 0, "\"raised\":164,\"unfinished\":0,\"ambiguous\":0,"
		    "\"async_calls\":839," },
		{ 0, 675, "\"raised\":null,\"unfinished\":0,\"ambiguous\":0,"
		    "\"async_calls\":839," },
		{ 0, 675, "\"async_raised\":null,\"async_unknown\":675,"
		    "\"async_unfinished\":3," NO_ASYNC_TIMES
		    "\"raised_seen\":\"not_seen\"" },
		{ 7, 675, "\"async_raised\":7,\"async_unknown\":675,"
		    "\"async_unfinished\":3," NO_ASYNC_TIMES
		    "\"raised_seen\":\"at_least\"" },
	};
	struct kp_window *w;
	struct kp_cell *c;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		w = new_window(2);
		w->cells[w->ncells++] = cell("_total", "_total", 10, 10, 5 * MS);
		c = &w->cells[w->ncells++];
		*c = cell("http", "_total", 0, 0, 0);
		w->cells[0].w_async_calls = c->w_async_calls = 839;
		w->cells[0].w_async_raised = c->w_async_raised = v[i].raised;
		c->w_async_unknown = v[i].unknown;
		w->cells[0].w_async_unknown = v[i].unknown;
		c->w_async_unfinished = 3;
		measured(w);
		assert_lacks(table(REPORT_BUSY), "no time for");
		r->rows[0].cells[1].async_unfinished = 168;
		assert_has(table(REPORT_BUSY), "no time for 20 % of the calls of "
		    "http after the end: their end was");
		r->rows[0].cells[1].async_unfinished = 3;
		assert_has(json(), v[i].json);
		/* requests are not to blame for what they left behind */
		assert_has(out(), "\"tier\":\"_total\",\"requests\":100,"
		    "\"calls\":100,\"raised\":0,");
	}
}

/*
 * Of a tier's calls 26,292 began after their request, and 6 inside: the table had
 * the percentiles of the 6, as those of all.
 */
TEST(test_percentiles_after_the_end)
{
	const struct report_opts o = { .percentiles = true };
	struct kp_window *w = new_window(3);
	struct kp_cell *c;

	for (int i = 0; i < 3; i++) {
		c = &w->cells[w->ncells++];
		*c = cell(i == 0 ? "_total" : i == 1 ? "http" : "database",
		    "_total", 6, 1, 5 * MS);
		if (i == 1)
			continue;
		c->async_calls = c->w_async_calls = 26292;
		assert_int_equal(kp_hist_add(&c->async_hist, 20 * MS, 20000),
		    KP_OK);
		assert_int_equal(kp_hist_add(&c->async_hist, 35 * MS, 6292),
		    KP_OK);
		c->async_max = 36 * MS;
	}
	measured(w);
	assert_has(table_as(&o), "all requests              6  5.0 ms  5.0 ms  5.0 ms  "
	    "5.0 ms  5.0 ms\n");
	assert_has(out(), "all requests, after  26 292       -   20 ms   35 ms   "
	    "35 ms   36 ms\n");
	/* not of requests, and not of a tier without such calls */
	assert_lacks(strstr(out(), ", after") + 1, ", after");
	assert_has(json(), "\"p99_ms\":5,");
	assert_has(out(), "\"async_max_ms\":36,");
}

/*
 * Calls of a tier raised, which their requests handled: errors were 0 everywhere
 * but in JSON.
 */
TEST(test_raised_inside)
{
	struct kp_window *w = known_window(1);

	measured(known_window(1));
	assert_lacks(table(REPORT_SELF), "errors");
	/* of database, of all and of update; of http, a part is not seen */
	w->cells[6].w_raised = w->cells[8].w_raised = 45;
	w->cells[3].w_raised = w->cells[5].w_raised = 7;
	w->cells[3].w_unknown_outcomes = w->cells[5].w_unknown_outcomes = 9;
	measured(w);
	assert_has(table(REPORT_SELF), "\n"
	    "errors        requests  http  database\n"
	    "--------------------------------------\n"
	    "all requests       0 %  >= 7     3.7 %\n"
	    "--------------------------------------\n"
	    "update             0 %  >= 7     5.0 %\n\n");
}

/* Nothing measured: still a report, that says so. */
TEST(test_empty)
{
	measured(new_window(1));
	assert_true(report_empty(r));
	assert_int_equal(r->nrows, 1);
	table(REPORT_BUSY);
	assert_has(json(), "\"rows\":[{\"identity\":\"_total\",\"requests\":0,"
	    "\"requests_known\":true,\"counted_ms\":1800000,\"share\":null,\"tiers\":[]}]");
	measured(known_window(1));
	assert_false(report_empty(r));
}

static struct kp_query *
stored(char *path, struct kp_window *w)
{
	struct kp_store_opts o = { .path = path, .version = "1",
		.tiers_text = "[].", .conf = &conf, .interval = 10 * S };
	struct kp_store *s;
	struct kp_query *q;
	char *why;

	strcpy(path, "/tmp/test_report.XXXXXX");
	assert_true(close(mkstemp(path)) == 0);
	assert_int_equal(kp_store_open(&s, &o, &why), KP_OK);
	kp_store_window(s, w);
	kp_store_close(s);
	assert_int_equal(kp_query_open(&q, path, &why), KP_OK);
	return q;
}

static void
from_db(struct kp_query *q, const struct kp_query_range *range)
{
	report_free(r);
	assert_int_equal(report_from_db(q, range, &r), KP_OK);
}

/* What a database gives is what the window gave, to the last character. */
TEST(test_from_db)
{
	struct kp_query_range range = { .until = INT64_MAX };
	struct kp_query *q;
	char path[64], *as_table, *as_json;

	measured(known_window(10));
	as_table = strdup(table(REPORT_BUSY));
	as_json = strdup(json());
	q = stored(path, known_window(10));
	from_db(q, &range);
	assert_string_equal(table(REPORT_BUSY), as_table);
	assert_string_equal(json(), as_json);
	free(as_table);
	free(as_json);
	/* chosen identities are added up */
	range.identity_glob = "cr*";
	from_db(q, &range);
	assert_fields(*r, IS(nrows, 2) IS(rows[0].cells[0].requests, 3100)
	    IS(rows[0].cells[1].p50, 70 * MS));
	assert_has(table(REPORT_BUSY), "all of these");
	/* and their share is that of all requests, chosen or not */
	assert_has(out(), "all of these    ~3 100  110 ms   32 %  70 ms ");
	range.identity_glob = "_total";
	from_db(q, &range);
	assert_true(report_empty(r));
	/* a backslash, which the page puts before a star in a name */
	range.identity_glob = "c\\reate";
	for (int by_node = 0; by_node < 2; by_node++) {
		range.by_node = by_node;
		from_db(q, &range);
		assert_fields(*r, IS(nrows, 2) IS(rows[1].cells[0].requests, 3100));
	}
	kp_query_close(q);
	unlink(path);
}

static const char *
tree(const struct kp_query_tree *t, const struct kp_query_sum *cover, bool as_json)
{
	const struct request_report rr = { *t, *cover, { 0 } };

	kp_buf_reset(&buf);
	if (as_json)
		tree_json(&buf, &rr);
	else
		tree_text(&buf, &rr, 0);
	return out();
}

/* Where it stands among its type. */
TEST(test_place)
{
	struct request_report rr = { .tree = { .request = { 42, T0, 300 * MS, "app@host",
		"create", 1, 0, 1, KP_RETURNED, 0, -1 } }, .cover = { .windows = 1 },
		.place = { .known = true, .faster = 987 } };

	tree_text(&buf, &rr, 0);
	assert_lacks(out(), "of its type");
	assert_int_equal(kp_hist_add(&rr.place.hist, MS, 1000), KP_OK);
	tree_text(&buf, &rr, 0);
	assert_has(out(), "\nslower than 98.7 % of 1 000 requests of its type in its window\n");
	rr.place.faster = 1000;		/* but for the longest, in the same bucket */
	rr.place.known = false;
	rr.cover.windows = 2;
	tree_text(&buf, &rr, 0);
	assert_has(out(), "\nslower than 99.9 % of ~1 000 requests of its type in its windows\n");
	rr.place.slowest = true;
	tree_text(&buf, &rr, 0);
	assert_has(out(), "\nthe slowest of ~1 000 requests of its type in its windows\n");
	rr.tree.request.weight = 0;
	tree_text(&buf, &rr, 0);
	assert_has(out(), "\nslower than all of ~1 000 requests of its type in its windows\n");
	kp_hist_free(&rr.place.hist);
}

TEST(test_tree)
{
	struct kp_query_call calls[] = {
		{ "Elixir.My.Web:handle/2", "http", "<0.5.0>", 0, 300 * MS, 40 * MS,
		    KP_NONE, 0, KP_RETURNED, false, false, "", { -1, -1 } },
		{ "db:query/2\x1b", "database", "<0.7.0>", 1500000, 240 * MS,
		    240 * MS, 0, 1, KP_RAISED, false, false, "", { -1, -1 } },
		{ "web:done/1", "", "<0.5.0>", 310 * MS, -1, -1, 0, 1, 77,
		    true, false, "", { -1, -1 } },
	};
	struct kp_query_sum cover = { .windows = 1, .start = T0,
		.end = T0 + 10 * S };
	struct kp_query_tree t = { .request = { 42, T0, 300 * MS, "app@host",
		"create", UINT64_C(1) << 58, 3, 10, KP_RETURNED, 3, -1 },
		.calls = calls, .ncalls = 3 };

	cover.losses.n[KP_LOSS_TREE] = 2;
	assert_string_equal(tree(&t, &cover, false),
	    "request 42: create on app@host\n"
	    "2026-11-21 10:00:00.000 UTC, 300 ms, returned, 3 calls, stands "
	    "for 10 requests, started inside another request\n\n"
	    "start ms  total ms  self ms  process  outcome   tier      function\n"
	    "---------------------------------------------------------"
	    "-----------------\n"
	    "   0.000   300.000   40.000  <0.5.0>  returned  http      "
	    "My.Web.handle/2\n"
	    "   1.500   240.000  240.000  <0.7.0>  raised    database    "
	    "db:query/2\\x1b\n\n"
	    "after: 1 call began after the request had ended\n"
	    "start ms  total ms  self ms  process  outcome  tier  function\n"
	    "---------------------------------------------------------"
	    "--------\n"
	    " 310.000         -        -  <0.5.0>  ?        -       "
	    "web:done/1\n\n"
	    "its window: 2026-11-21 10:00:00 to 10:00:10 UTC (10s)\n"
	    "losses:\n"
	    "           2 requests  slow, but without a trace: too many to "
	    "keep (tree)\n");
	kp_buf_reset(&buf);
	cover = (struct kp_query_sum){ 0 };
	assert_has(tree(&t, &cover, false), "\nlosses: not known, its window is no longer kept\n");
	cover = (struct kp_query_sum){ .windows = 1, .start = T0,
		.end = T0 + 10 * S };
	cover.losses.n[KP_LOSS_TREE] = 2;
	assert_has(tree(&t, &cover, true), "\"windows\":{\"n\":1,"
	    "\"start\":\"2026-11-21T10:00:00.000Z\","
	    "\"end\":\"2026-11-21T10:00:10.000Z\",\"losses\":[{\"cause\":\"tree\","
	    "\"lost\":2,");
	assert_has(out(), "\"label\":\"288230376151711744\","
	    "\"parent_label\":\"3\"");
	assert_has(out(), "{\"seq\":1,\"parent\":0,\"depth\":1,\"start_ms\":1.5,"
	    "\"total_ms\":240,\"self_ms\":240,\"gc_ms\":null,\"out_ms\":null,"
	    "\"tier\":\"database\","
	    "\"call\":\"db:query/2\\u001b\",\"pid\":\"<0.7.0>\","
	    "\"node\":\"app@host\",\"outcome\":\"raised\",\"async\":false,"
	    "\"outlasts\":false,\"after_ms\":null}");
	/* It goes on for 18 ms after the end. */
	calls[1].start = 78 * MS;
	assert_has(tree(&t, &cover, false), "start ms  total ms  after ms  self ms  process  ");
	assert_has(out(), "  78.000   240.000    18.000  240.000  <0.7.0>");
	assert_has(out(), "\nafter ms: of 1 call that outlasts the request, the "
	    "time after its end\n");
	assert_has(tree(&t, &cover, true), "\"after_ms\":18}");
	/* Its process collected garbage, and was scheduled out. */
	calls[1].pauses = (struct kp_call_pauses){ .gc = 3 * MS, .out = 70 * MS };
	assert_has(tree(&t, &cover, false), "self ms  gc ms  out ms  process  ");
	assert_has(out(), "   18.000  240.000  3.000  70.000  <0.7.0>");
	assert_has(out(), "  -   40.000      -       -  <0.5.0>");
	assert_has(tree(&t, &cover, true), "\"gc_ms\":3,\"out_ms\":70,");
	calls[1].pauses = (struct kp_call_pauses){ -1, -1 };
	calls[1].start = 1500000;
	/* On another node than it began on. */
	calls[1].node = "db@host";
	assert_has(tree(&t, &cover, false), "self ms  process  node     outcome   tier      "
	    "function\n");
	assert_has(out(),
	    "  40.000  <0.5.0>           returned  http      My.Web.handle/2\n"
	    "   1.500   240.000  240.000  <0.7.0>  db@host  raised    ");
	assert_has(tree(&t, &cover, true), "\"pid\":\"<0.7.0>\",\"node\":\"db@host\",");
}

/*
 * What tracing adds shows where a tier's calls are short, and is subtracted
 * where that is asked for, from callers for each traced call inside them.
 */
TEST(test_less_tracing)
{
	struct kp_window *w = new_window(3);
	const struct report_cell *c;

	w->cells[w->ncells++] = cell("_total", "_total", 10, 1, 100000);
	w->cells[w->ncells++] = cell("http", "_total", 10, 1, 90000);
	w->cells[w->ncells++] = cell("database", "_total", 10, 1, 9000);
	w->cells[1].w_inside = w->cells[1].w_made = 100;
	w->cost.traced_call = 4000;
	w->cost.traced_caller = 1000;
	measured(w);
	assert_has(table(REPORT_TOTAL), "tracing adds to each call of http about "
	    "54 us of its 90 us, database about 4.0 us of its 9.0 us "
	    "(-less-tracing subtracts it)");
	assert_lacks(out(), "~");
	assert_true(report_less_tracing(r));
	c = &r->rows[0].cells[1];
	assert_int_equal(c->mean, 36000);
	assert_int_equal(c->self, 450000 - 10 * 4000 - 100 * 1000);
	assert_int_equal(r->rows[0].cells[2].mean, 5000);
	assert_int_equal(r->rows[0].cells[2].self, 45000 - 40000);
	assert_has(table(REPORT_TOTAL), "~36 us");
	assert_has(out(), "~ estimated: less what tracing adds, about 4.0 us to a "
	    "traced call and 1.0 us more to its caller");
	/* the share is that of what is left, of what is left */
	assert_has(out(), "  100 %");
	assert_has(out(), "\nshare: of the ~960 us that all requests took");

	/* never below nothing; and not measured is no 0 */
	w = new_window(1);
	w->cells[w->ncells++] = cell("http", "_total", 1, 1, 3000);
	w->cost.traced_call = 4000;
	measured(w);
	assert_true(report_less_tracing(r));
	assert_int_equal(r->rows[0].cells[1].mean, 0);
	assert_int_equal(r->rows[0].cells[1].self, 0);
	measured(known_window(1));
	assert_int_equal(r->rows[0].cells[1].tracing, -1);
	assert_false(report_less_tracing(r));
}

static struct kp_cell
label_cell(const char *part, const char *identity, uint64_t requests, uint64_t calls)
{
	struct kp_cell c = cell(part, identity, calls, 1, MS);

	c.requests = c.w_requests = requests;
	return c;
}

/* How many calls with each label a request makes. */
TEST(test_labels)
{
	static const char *const parts[] = { "database: items", "database: orders",
		"database: users", "database: _other", "gone: x" };
	static const uint64_t calls[] = { 200, 20, 10, 5, 5 };
	struct kp_window *w = new_window(16);

	w->cells[w->ncells++] = cell("_total", "_total", 20, 1, 100 * MS);
	w->cells[w->ncells++] = cell("_total", "create", 10, 1, 100 * MS);
	w->cells[w->ncells++] = cell("_total", "update", 10, 1, 100 * MS);
	w->cells[w->ncells++] = cell("database", "_total", 235, 1, MS);
	w->cells[w->ncells++] = cell("database", "create", 235, 1, MS);
	for (int i = 0; i < 5; i++) {
		w->cells[w->ncells++] = label_cell(parts[i], "_total", 10, calls[i]);
		w->cells[w->ncells++] = label_cell(parts[i], "create", 10, calls[i]);
	}
	measured(w);
	assert_int_equal(r->ntiers, 3);
	assert_int_equal(r->rows[0].nlabels, 4);
	assert_string_equal(r->rows[0].labels[0].name, "items");
	assert_has(table(REPORT_SELF),
	    "\ndatabase, by label           calls  each request    mean     p99\n"
	    "----------------------------------------------------------------\n"
	    "all requests        items     10.0         10 ms  1.0 ms  1.0 ms\n"
	    "                    orders    1.00        1.0 ms  1.0 ms  1.0 ms\n"
	    "                    users     0.50        500 us  1.0 ms  1.0 ms\n"
	    "                    1 other   0.25        250 us       -       -\n"
	    "----------------------------------------------------------------\n"
	    "create              items     20.0         20 ms  1.0 ms  1.0 ms\n");
	assert_has(out(), "\nby label: times are inclusive, of whole calls\n");
	assert_lacks(out(), "gone");
	assert_has(table(REPORT_CALLS), "all requests        items     10.0  1.0 ms  "
	    "1.0 ms\n");
	kp_buf_reset(&buf);
	report_json(&buf, r);
	assert_has(out(), "\"labels\":[{\"label\":\"items\",\"requests\":10,"
	    "\"calls\":200,");
	kp_buf_reset(&buf);
	report_csv(&buf, r);
	assert_has(out(), ",create,\"database: items\",10,200,0,");
}

TESTS(setup, teardown)
