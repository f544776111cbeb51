/*
 * Hints: a clause of the identity fun that named nothing, and requests of
 * which none ended, are said below the report, and nothing that may be
 * otherwise is.
 */
#include <sqlite3.h>
#include <unistd.h>

#include "cases.h"
#include "report/advice.h"
#include "store/store.h"

#define S KP_NS_PER_S

/* Clauses 1 to 5, in these lines; the last takes every call. */
static const char conf_text[] =
    "{tiers, [{web, {web, handle, 2}}, {db, {db, query, 1}},\n"
    "  {rare, {cache, '_', '_'}}]}.\n"
    "{identity, fun\n"
    "  ({web, handle, [get, _]}) -> get;\n"		/* 4 */
    "  ({web, handle, [put, _]}) -> put;\n"		/* 5 */
    "  ({cache, get, [Key]})     -> Key;\n"		/* 6 */
    "  ({db, query, [Q]})        -> Q;\n"		/* 7 */
    "  ({web, handle, [head, _]}) -> \"GET\";\n"	/* 8 */
    "  (_)                       -> undefined\n"
    "end}.\n"
    "{rewrite, [{\"GET\", \"get\"}]}.\n";

struct count {
	const char *tier, *identity;
	uint64_t n, unfinished, calls;	/* calls 0: one a request */
	int64_t ms;		/* of all of them */
};

static unsigned weight = 1;	/* requests that each of them stands for */

static struct kp_cell
cell(const struct count *c)
{
	uint64_t calls = c->calls > 0 ? c->calls : c->n;
	int64_t ns = c->ms * KP_NS_PER_MS;

	return (struct kp_cell){ .tier = c->tier, .identity = c->identity,
		.requests = c->n, .calls = calls, .w_requests = weight * c->n,
		.w_calls = weight * calls, .unfinished = c->unfinished,
		.w_unfinished = c->unfinished, .timed = ns > 0 ? calls : 0,
		.w_timed = ns > 0 ? weight * calls : 0, .total = ns,
		.w_total = weight * ns, .busy = ns, .w_busy = weight * ns,
		.min = ns > 0 ? 1 : -1 };
}

/* One window of now, and what happened. */
static void
store(char *path, const char *text, const struct count *counts, size_t n,
    uint64_t sampled, const struct kp_happening *h, size_t nh)
{
	struct kp_store_opts o = { .version = "1", .tiers_text = text,
		.interval = 10 * S };
	struct kp_window *w = calloc(1, sizeof(*w));
	struct kp_store *st;
	char *why;

	strcpy(path, "/tmp/test_hints.XXXXXX");
	assert_true(close(mkstemp(path)) == 0);
	o.path = path;
	assert_int_equal(kp_store_open(&st, &o, &why), KP_OK);
	w->node = "app@host";
	w->start = kp_wall_now();
	w->end = w->start + 10 * S;
	w->sampled = sampled;
	/* requests that expire are unfinished, and a loss */
	w->losses.n[KP_LOSS_EXPIRED] = counts[0].unfinished;
	w->cells = calloc(n, sizeof(*w->cells));
	for (size_t i = 0; i < n; i++)
		w->cells[w->ncells++] = cell(&counts[i]);
	for (size_t i = 0; i < nh; i++)
		kp_store_happening(st, &h[i]);
	kp_store_window(st, w);
	kp_store_close(st);
}

/* As a program gets it, or its hints, a line each; to be freed. */
static char *
report_of(const char *path, const struct kp_query_range *range, bool json)
{
	struct kp_query *q;
	struct report *r;
	struct kp_buf b;
	char *why, *s;

	assert_int_equal(kp_query_open(&q, path, &why), KP_OK);
	assert_int_equal(report_from_db(q, range, &r), KP_OK);
	report_hints(q, range, r);
	kp_buf_init(&b, 1 << 16);
	if (json)
		report_json(&b, r);
	else
		report_put_hints(&b, r, 0);
	s = strdup(kp_buf_cstr(&b));
	kp_buf_free(&b);
	report_free(r);
	kp_query_close(q);
	return s;
}

/* The hints of one window, a line each; to be freed. */
static char *
hints(const char *text, const struct count *counts, size_t n,
    uint64_t sampled, const struct kp_happening *h)
{
	const struct kp_query_range range = { .until = INT64_MAX };
	char path[32], *s;

	store(path, text, counts, n, sampled, h, h != NULL);
	s = report_of(path, &range, false);
	unlink(path);
	return s;
}

#define HINTS(text, counts, sampled, h) hints(text, counts, \
	sizeof(counts) / sizeof((counts)[0]), sampled, h)

/* 2 answers what is not there, 3 is about functions that were not called. */
TEST(clauses)
{
	static const struct count counts[] = { { "_total", "_total", 340, 0, 0, 0 },
		{ "_total", "get", 300, 0, 0, 0 }, { "_total", "undefined", 40, 0, 0, 0 },
		{ "web", "_total", 340, 0, 0, 0 }, { "db", "_total", 12, 0, 0, 0 } };
	char *s = HINTS(conf_text, counts, 340, NULL);

	assert_string_equal(s, "identity clauses 2 (line 5), 3 (line 6) of "
	    "tiers.conf matched none of 340 requests, or only such as another "
	    "clause named first\n");
	free(s);
	/* too few to say so */
	s = HINTS(conf_text, counts, HINT_REQUESTS - 1, NULL);
	assert_string_equal(s, "");
	free(s);
}

/* An identity past the cap may be any clause's; its functions are not. */
TEST(other)
{
	static const struct count counts[] = { { "_total", "_total", 340, 0, 0, 0 },
		{ "_total", "_other", 340, 0, 0, 0 }, { "web", "_total", 340, 0, 0, 0 } };
	char *s = HINTS(conf_text, counts, 340, NULL);

	assert_has(s, "clauses 3 (line 6), 4 (line 7) of");
	free(s);
}

/* Nothing was named: whatever clauses would answer. */
TEST(unnamed)
{
	static const struct count counts[] = { { "_total", "_total", 340, 0, 0, 0 },
		{ "_total", "undefined", 340, 0, 0, 0 }, { "web", "_total", 340, 0, 0, 0 },
		{ "db", "_total", 9, 0, 0, 0 }, { "rare", "_total", 9, 0, 0, 0 } };
	char *s = HINTS(conf_text, counts, 340, NULL);

	assert_has(s, "clauses 1 (line 4), 2 (line 5), 3 (line 6), "
	    "4 (line 7), 5 (line 8) of");
	free(s);
}

/* Requests of before a reload were not asked by the clauses of after it. */
TEST(reloaded)
{
	static const struct count counts[] = { { "_total", "_total", 340, 0, 0, 0 },
		{ "_total", "undefined", 340, 0, 0, 0 } };
	struct kp_happening h = { .at = kp_wall_now() + 3600 * S,
		.node = "app@host", .kind = "reload", .text = "reloaded" };
	char *s = HINTS(conf_text, counts, 340, &h);

	assert_string_equal(s, "");
	free(s);
}

/*
 * What a later file says was held against figures of before it: where it came
 * after the range, was noted at another node, or long before what came last.
 */
TEST(reloaded_elsewhere)
{
	static const struct count counts[] = { { "_total", "_total", 340, 0, 0, 0 },
		{ "_total", "undefined", 340, 0, 0, 0 } };
	enum { MANY = 300 };
	static struct kp_happening many[1 + MANY];
	kp_wall_ns now = kp_wall_now();
	struct kp_query_range until = { .until = now + 1800 * S },
	    node = { .until = INT64_MAX, .node = "app@*" },
	    all = { .until = INT64_MAX };
	char path[32], *s;

	many[0] = (struct kp_happening){ .at = now + 3600 * S,
		.node = "other@host", .kind = "reload", .text = "reloaded" };
	for (int i = 1; i <= MANY; i++)
		many[i] = (struct kp_happening){ .at = now + 7200 * S + i,
			.node = "app@host", .kind = "paused", .text = "-" };
	store(path, conf_text, counts, 2, 340, many, 1 + MANY);
	s = report_of(path, &until, false);
	assert_string_equal(s, "");
	free(s);
	s = report_of(path, &node, false);
	assert_string_equal(s, "");
	free(s);
	s = report_of(path, &all, false);
	assert_string_equal(s, "");
	free(s);
	unlink(path);
}

/* Sums of the range's cells, by what SQLite is asked. */
static unsigned sums;

static int
count_sums(unsigned kind, void *ctx, void *st, void *sql)
{
	(void)kind;
	(void)ctx;
	(void)st;
	sums += strstr(sql, " from stat s ") != NULL;
	return 0;
}

static int
watch(sqlite3 *db, char **why, const struct sqlite3_api_routines *api)
{
	(void)why;
	(void)api;
	return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_sums, NULL);
}

/* Hints cost no second sum of all, and a report is one without them. */
TEST(beside_the_report)
{
	static const struct count counts[] = { { "_total", "_total", 340, 0, 0, 0 },
		{ "_total", "undefined", 340, 0, 0, 0 }, { "web", "_total", 340, 0, 0, 0 } };
	const struct kp_query_range range = { .until = INT64_MAX };
	char path[32], *s;
	sqlite3 *db;

	store(path, conf_text, counts, 3, 340, NULL, 0);
	sqlite3_auto_extension((void (*)(void))watch);
	s = report_of(path, &range, true);
	sqlite3_cancel_auto_extension((void (*)(void))watch);
	assert_has(s, "\"hints\":[\"identity clauses ");
	assert_int_equal(sums, 1);
	free(s);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "drop table event", NULL, NULL, NULL),
	    SQLITE_OK);
	sqlite3_close(db);
	s = report_of(path, &range, true);
	assert_has(s, "\"requests\":340,");
	assert_has(s, "\"hints\":null}");
	free(s);
	unlink(path);
}

TEST(endless)
{
	static const struct count none[] = { { "_total", "_total", 30, 30, 0, 0 },
		{ "_total", "undefined", 30, 30, 0, 0 } };
	static const struct count one[] = { { "_total", "_total", 30, 29, 0, 0 },
		{ "_total", "undefined", 30, 29, 0, 0 } };
	static const char loop[] = "[{web, {web, loop, 1}}].";
	static const char finish[] = "{tiers, [{web, {web, handle, 2}}]}.\n"
	    "{finish, {web, reply, 2}}.\n";
	struct kp_happening h = { .at = kp_wall_now(), .node = "app@host",
		.kind = "probe", .text = "native" };
	char *s = HINTS(loop, none, 30, NULL);

	assert_has(s, "of 30 requests that began none was seen to "
	    "end: where exceptions end them, put the entry in an exact tier, "
	    "or use -probe native; of a server's loop, name a function as the "
	    "entry that it calls for each request\n");
	free(s);
	/* The native probe, which sees exceptions, is there already. */
	s = HINTS(loop, none, 30, &h);
	assert_lacks(s, "or use -probe native");
	free(s);
	snprintf(h.text, sizeof(h.text), "native: its library was sent, since why");
	s = HINTS(loop, none, 30, &h);
	assert_has(s, "none was seen to end: of a server's loop, "
	    "name a function as the entry that it calls for each request\n");
	free(s);
	s = HINTS(finish, none, 30, NULL);
	assert_has(s, "none was seen to end: is web:reply/2, which "
	    "finish names, what ends one?\n");
	free(s);
	s = HINTS(loop, one, 30, NULL);
	assert_string_equal(s, "");
	free(s);
}

/* What was said when it was disarmed is said to who comes later. */
TEST(runaway)
{
	static const struct count counts[] = { { "_total", "_total", 3, 0, 0, 0 } };
	struct kp_happening h = { .at = kp_wall_now(), .node = "app@host",
		.kind = "runaway", .text = "web:loop/1 never returns" };
	char *s = HINTS("[{web, {web, loop, 1}}].", counts, 3, &h);

	assert_string_equal(s, "web:loop/1 never returns\n");
	free(s);
}

/* Of the last look at mailboxes, not of the last event. */
TEST(mailbox)
{
	static const struct count counts[] = { { "_total", "_total", 3, 0, 0, 0 } };
	const struct kp_query_range range = { .until = INT64_MAX };
	char path[32], *s;
	sqlite3 *db;

	store(path, "[{web, {web, handle, 2}}].", counts, 1, 3, NULL, 0);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "insert into usage (window_id, kind, name,"
	    " owner, estimated, count, most, messages, longest, process,"
	    " longest_since_ns) select id, 'processes', 'box', '', 0, 1, 0, 5000,"
	    " 5000, '<0.90.0>', start_ns from time_window", NULL, NULL, NULL),
	    SQLITE_OK);
	s = report_of(path, &range, false);
	assert_has(s, "box: 5 000 messages wait in one mailbox (process <0.90.0>), "
	    "long since ");
	assert_has(s, ": kprof report -memory has all\n");
	free(s);
	assert_int_equal(sqlite3_exec(db, "update usage set longest = 999", NULL,
	    NULL, NULL), SQLITE_OK);
	s = report_of(path, &range, false);
	assert_string_equal(s, "");
	free(s);
	sqlite3_close(db);
	unlink(path);
}

/*
 * Fewer requests were measured than there were, and nothing said why.  Where all were,
 * a change is no news.
 */
TEST(sampling)
{
	static const struct count counts[] = { { "_total", "_total", 3, 0, 0, 0 } };
	struct kp_happening h = { .at = kp_wall_now(), .node = "app@host",
		.kind = "sampling", .text = "now 1 request in 4 is sampled, to keep "
		    "to the budget; profiling costs 6 % of a scheduler" };
	char *s = HINTS("[{web, {web, handle, 2}}].", counts, 3, &h);

	assert_string_equal(s, "");
	free(s);
	weight = 4;
	s = HINTS("[{web, {web, handle, 2}}].", counts, 3, &h);
	weight = 1;
	assert_true(strncmp(s, "sampling changed once in this time: from 20", 43)
	    == 0);
	assert_has(s, " on now 1 request in 4 is sampled, to keep to "
	    "the budget; profiling costs 6 %");
	free(s);
}

/* Where the native probe could not be had; that it is there is no news. */
TEST(fallback)
{
	static const struct count counts[] = { { "_total", "_total", 3, 0, 0, 0 } };
	struct kp_happening h = { .at = kp_wall_now(), .node = "app@host",
		.kind = "probe", .text = "relay: 'app@host' cannot load it" };
	char *s = HINTS("[{web, {web, handle, 2}}].", counts, 3, &h);

	assert_string_equal(s, "relay: 'app@host' cannot load it\n");
	free(s);
	snprintf(h.text, sizeof(h.text), "native");
	s = HINTS("[{web, {web, handle, 2}}].", counts, 3, &h);
	assert_string_equal(s, "");
	free(s);
}

/*
 * Years of merged files may hold more request types than a report has rows.  A filter
 * is the way out, and was refused as well.
 */
TEST(more_types_than_rows)
{
	static char names[REPORT_ROWS_MAX][8];
	struct kp_query_range range = { .until = INT64_MAX };
	struct count *counts = calloc(REPORT_ROWS_MAX, sizeof(*counts));
	struct kp_query *q;
	struct report *r;
	char path[32], *why;

	for (unsigned i = 0; i < REPORT_ROWS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "t%05u", i);
		counts[i] = (struct count){ "_total", names[i], 1, 0, 0, 0 };
	}
	store(path, conf_text, counts, REPORT_ROWS_MAX, REPORT_ROWS_MAX, NULL, 0);
	free(counts);
	assert_int_equal(kp_query_open(&q, path, &why), KP_OK);
	assert_int_equal(report_from_db(q, &range, &r), KP_ELIMIT);
	range.identity_glob = "t0001?";
	assert_int_equal(report_from_db(q, &range, &r), KP_OK);
	assert_fields(*r, IS(nrows, 11) IS(rows[0].cells[0].requests, 10));
	report_hints(q, &range, r);
	assert_true(r->hinted);
	report_free(r);
	kp_query_close(q);
	unlink(path);
}

/* One call for each row of a list, and a pool whose connections are all taken. */
TEST(types)
{
	static const char text[] = "{tiers, [{web, {web, handle, 2}}, {db, {db, query, 1}},\n"
	    "{pool, {poolboy, checkout, 3}}]}.\n"
	    "{identity, fun ({web, handle, [A, _]}) -> A; (_) -> undefined end}.\n";
	static const struct count counts[] = {
		{ "_total", "_total", 400, 0, 0, 4000 },
		{ "_total", "list", 100, 0, 0, 1000 },
		{ "db", "list", 100, 0, 2100, 830 },
		{ "_total", "pay", 100, 0, 0, 1000 },
		{ "pool", "pay", 100, 0, 100, 970 },
		{ "_total", "buy", 100, 0, 0, 1000 },
		{ "pool", "buy", 100, 0, 100, 550 },
		{ "db", "pay", 100, 0, 100, 20 },
		/* few calls, each with several inside; and many that take little time */
		{ "_total", "show", 100, 0, 0, 1000 },
		{ "db", "show", 100, 0, 900, 900 },
		{ "pool", "show", 100, 0, 2700, 400 },
		{ "web", "show", 100, 0, 2000, 100 },
	};
	char *s = HINTS(text, counts, 300, NULL);

	assert_has(s, "list: 21.0 calls of db in each request, in which 83 % of its time "
	    "passes: is it one for each row of a list (N+1)?\n");
	assert_has(s, "55 % of buy waits for a pool (tier pool), and so does 97 % of "
	    "pay: are all its workers or connections taken?\n");
	assert_null(strstr(s, "show"));
	free(s);
}

/*
 * Labels tell two pools of one tier apart.  A request that waits for both, for neither
 * of them long enough, is counted for the tier.
 */
TEST(two_pools)
{
	static const char text[] = "{tiers, [{web, {web, handle, 2}}, {pool, {poolboy, "
	    "checkout, 3}}]}.\n{label, fun ({poolboy, checkout, [P | _]}) -> P end}.\n";
	static const struct count counts[] = {
		{ "_total", "_total", 400, 0, 0, 4000 },
		{ "pool", "_total", 400, 0, 0, 3070 },
		{ "pool: a pool of 5", "_total", 300, 0, 0, 2250 },
		{ "pool: b", "_total", 100, 0, 0, 820 },
		{ "_total", "in a", 100, 0, 0, 1000 },
		{ "pool", "in a", 100, 0, 0, 970 },
		{ "pool: a pool of 5", "in a", 100, 0, 0, 970 },
		{ "_total", "in a too", 100, 0, 0, 1000 },
		{ "pool", "in a too", 100, 0, 0, 800 },
		{ "pool: a pool of 5", "in a too", 100, 0, 0, 800 },
		{ "_total", "in b", 100, 0, 0, 1000 },
		{ "pool", "in b", 100, 0, 0, 520 },
		{ "pool: b", "in b", 100, 0, 0, 520 },
		{ "_total", "in both", 100, 0, 0, 1000 },
		{ "pool", "in both", 100, 0, 0, 780 },
		{ "pool: a pool of 5", "in both", 100, 0, 0, 480 },
		{ "pool: b", "in both", 100, 0, 0, 300 },
	};
	char *s = HINTS(text, counts, 400, NULL);

	assert_string_equal(s, "97 % of in a waits for a pool of 5 (tier pool), and so does "
	    "80 % of in a too: are all its workers or connections taken?\n"
	    "52 % of in b waits for b (tier pool): are all its workers or connections "
	    "taken?\n"
	    "78 % of in both waits for a pool (tier pool): are all its workers or "
	    "connections taken?\n");
	free(s);
}

TESTS(NULL, NULL)
