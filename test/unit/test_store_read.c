/*
 * Reading a store, also while it is written: slow requests as trees, and the
 * sum of a range.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "report/report.h"
#include "report/series.h"
#include "store/schema.h"
#include "store/query.h"
#include "store_fixture.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define OTHER "4bf92f3577b34da6a3ce929d0e0e4735"
#define PARENT "00-" TRACE "-00f067aa0ba902b7-01"

TEST(test_tree)
{
	struct kp_store *s = open_store();
	struct kp_tree *t = new_tree(5);
	struct kp_query_requests slow;
	struct kp_query_tree tree;
	struct kp_query *q;

	/* 0 has 1 and 3; 1 has 4; 2 stands alone */
	t->calls[0].fn = "web:handle/1";
	t->calls[0].tier = "";
	t->calls[1].parent = 0;
	t->calls[3].parent = 0;
	t->calls[4].parent = 1;
	t->calls[4].async = true;
	t->calls[4].outcome = KP_UNFINISHED;
	t->calls[4].total = t->calls[4].self = -1;
	t->calls[0].node = "a@h";	/* where it began: goes without saying */
	t->calls[3].node = "db@h";
	t->calls[1].pauses = (struct kp_call_pauses){ .gc = 200000, .out = 0 };
	kp_store_tree(s, t);
	assert_true(sync_store(s));
	assert_sql("select seq, node from slow_calls",
	    "0|\n1|\n2|\n3|db@h\n4|");
	assert_sql("select seq, gc_ms, out_ms from slow_calls where seq < 2",
	    "0|null|null\n1|0.2|0.0");
	assert_sql("select seq, parent, start_ms, tier, call, total_ms,"
	    " self_ms, outcome, async from slow_calls",
	    "0|null|0.0||web:handle/1|0.001|0.001|returned|\n1|0|0.0|db| "
	    " db:query/2|0.001|0.001|returned|\n2|1|0.0|db|   "
	    " db:query/2|null|null|unfinished|async\n3|0|0.0|db| "
	    " db:query/2|0.001|0.001|returned|\n"
	    "4|null|0.0|db|db:query/2|0.001|0.001|returned|");
	assert_sql("select * from slow_requests",
	    "1|2023-11-14T22:13:20.123Z|a@h|create|300.0|raised|5|"
	    "288230371856744449|null|10|0|null");

	q = open_query();
	assert_int_equal(kp_query_slow(q, &all, KP_SLOW_TOTAL, NULL, 0, 10,
	    &slow), KP_OK);
	assert_fields(slow, IS(n, 1) IS(v[0].total, 300000001));
	assert_int_equal(kp_query_tree(q, slow.v[0].id, &tree), KP_OK);
	assert_fields(tree, IS(ncalls, 5)
	    IS(request.label, UINT64_C(0x3ffffff00000001))
	    IS(calls[0].parent, KP_NONE) IS(calls[0].tier, "")
	    IS(calls[0].node, "") IS(calls[3].node, "db@h")
	    IS(calls[2].parent, 1) IS(calls[2].depth, 2)
	    IS(calls[2].total, -1));
	assert_true(tree.calls[2].async);
	assert_int_equal(tree.calls[2].start, 4);
	kp_query_tree_free(&tree);
	kp_query_requests_free(&slow);
	assert_int_equal(kp_query_tree(q, 77, &tree), KP_ENOENT);
	assert_int_equal(kp_query_related(q, READ_STRIDE, &tree), KP_ENOENT);
	kp_query_close(q);
	kp_store_close(s);
}

/* Requests of a trace are found by its id; the file may hold anything as such. */
TEST(test_traced)
{
	struct kp_query_range r = all;
	struct kp_store *s = open_store();
	struct kp_query_requests slow;
	struct kp_query *q;
	struct kp_tree *t;

	for (int i = 0; i < 3; i++) {
		t = new_tree(1);
		t->start += i;
		strcpy(t->traceparent, i == 0 ? "" : i == 1 ? PARENT :
		    "00-" OTHER "-00f067aa0ba902b7-00");
		kp_store_tree(s, t);
	}
	assert_true(sync_store(s));
	assert_sql("select trace_id from slow_requests",
	    "null\n" TRACE "\n" OTHER);
	sql_exec("insert into request (run_id, node_id, identity_id, start_ns, total_ns,"
	    " label, weight, outcome, traceparent) select run_id, node_id, identity_id,"
	    " start_ns, total_ns, label, weight, outcome, '00-" TRACE "-x'"
	    " from request where id = 1");
	q = open_query();
	r.trace = TRACE;
	assert_int_equal(kp_query_slow(q, &r, KP_SLOW_TOTAL, NULL, 0, 10, &slow),
	    KP_OK);
	assert_fields(slow, IS(n, 2) IS(v[0].id, 2) IS(v[0].traceparent, PARENT)
	    IS(v[1].id, 4));
	assert_null(slow.v[1].traceparent);
	kp_query_requests_free(&slow);
	assert_int_equal(kp_query_slow(q, &r, KP_SLOW_SELF, NULL, 0, 10, &slow),
	    KP_OK);
	assert_fields(slow, IS(n, 1) IS(v[0].id, 2));
	kp_query_requests_free(&slow);
	r.trace = "4bf92f3577b34da6a3ce929d0e0e4737";
	assert_int_equal(kp_query_slow(q, &r, KP_SLOW_TOTAL, NULL, 0, 10, &slow),
	    KP_OK);
	assert_int_equal(slow.n, 0);
	kp_query_requests_free(&slow);
	kp_query_close(q);
	kp_store_close(s);
}

static void
put_related(struct kp_store *s, uint64_t label, uint64_t parent, kp_dur_ns at)
{
	struct kp_tree *t = new_tree(1);

	t->label = label;
	t->parent_label = parent;
	t->start = T0 + at;
	t->total = 100 * KP_NS_PER_MS;
	kp_store_tree(s, t);
}

/* At the same time, and no peer. */
static void
put_other_node(struct kp_store *s, kp_dur_ns at)
{
	struct kp_tree *t = new_tree(1);

	t->node = "other@host";
	t->start = T0 + at;
	kp_store_tree(s, t);
}

/* Requests inside each other, as they are stored; a label may come again later. */
TEST(test_related)
{
	struct kp_store *s = open_store();
	struct kp_query_tree tree;
	struct kp_query *q;

	put_related(s, 10, 0, 0);
	put_related(s, 11, 10, 40 * KP_NS_PER_MS);
	put_related(s, 12, 10, 20 * KP_NS_PER_MS);
	put_related(s, 13, 99, 30 * KP_NS_PER_MS);	/* inside one that was fast */
	put_related(s, 14, 10, 300 * S);
	put_related(s, 10, 0, 300 * S);
	put_other_node(s, 10 * KP_NS_PER_MS);
	assert_true(sync_store(s));
	q = open_query();
	assert_int_equal(kp_query_tree(q, 1, &tree), KP_OK);
	assert_int_equal(kp_query_related(q, 1, &tree), KP_OK);
	assert_fields(tree, IS(outer.id, 0) IS(ninner, 2) IS(inner[0].id, 3)
	    IS(inner[1].id, 2) IS(inner[1].start, T0 + 40 * KP_NS_PER_MS));
	/* those at the same time, the longest together with it first */
	assert_fields(tree, IS(npeers, 3) IS(peers[0].id, 3) IS(peers[1].id, 4)
	    IS(peers[2].id, 2) IS(peers[0].total, 100 * KP_NS_PER_MS));
	kp_query_tree_free(&tree);
	assert_int_equal(kp_query_tree(q, 2, &tree), KP_OK);
	assert_int_equal(kp_query_related(q, 2, &tree), KP_OK);
	assert_fields(tree, IS(outer.id, 1) IS(outer.start, T0) IS(ninner, 0));
	kp_query_tree_free(&tree);
	assert_int_equal(kp_query_tree(q, 4, &tree), KP_OK);
	assert_int_equal(kp_query_related(q, 4, &tree), KP_OK);
	assert_fields(tree, IS(outer.id, 0) IS(ninner, 0));
	kp_query_tree_free(&tree);
	kp_query_close(q);
	kp_store_close(s);
}

/* What cannot happen still ends, and every call is stored once. */
TEST(test_odd_trees)
{
	struct kp_store *s = open_store();
	struct kp_tree *t = new_tree(6);

	t->calls[0].parent = 1;		/* a circle of two, with a tail */
	t->calls[1].parent = 0;
	t->calls[2].parent = 1;
	t->calls[3].parent = 3;		/* of one */
	t->calls[4].parent = 99;	/* no such */
	t->calls[5].parent = 2;
	kp_store_tree(s, t);
	t = new_tree(2);
	t->calls[0].parent = 1;		/* a child before its parent */
	kp_store_tree(s, t);
	t = new_tree(5000);		/* deep: a stack would feel it */
	for (uint32_t i = 1; i < 5000; i++)
		t->calls[i].parent = i - 1;
	kp_store_tree(s, t);
	t = new_tree(0);
	t->total = -1;
	kp_store_tree(s, t);
	kp_store_close(s);
	assert_sql("select request_id, seq, parent, start_ns from call where"
	    " request_id < 3 order by 1, 2",
	    "1|0|null|3\n1|1|null|4\n1|2|null|0\n1|3|2|1\n1|4|3|2\n1|5|4|5\n"
	    "2|0|null|1\n2|1|0|0");
	assert_sql("select count(*), max(depth) from call where request_id = 3",
	    "5000|4999");
	assert_sql("select calls, total_ms from slow_requests where request ="
	    " 4", "0|null");
}

TEST(test_sum)
{
	struct kp_query_range r = all;
	struct kp_store *s = open_store();
	struct kp_query_tiers names;
	struct kp_query_nodes nodes;
	struct kp_query_sum sum;
	const struct kp_cell *c;
	kp_wall_ns first, last;
	struct kp_window *w;
	struct kp_query *q;

	for (int i = 0; i < 30; i++)
		kp_store_window(s, known_window(i % 3 ? "a@h" : "b@h",
		    T0 + i * 10 * S));
	w = known_window("b@h", T0 + 300 * S);
	w->cells[3].tier = "gone";	/* not in tiers.conf */
	w->cells[3].identity = "aaa";
	w->losses.n[KP_LOSS_EXPIRED] = 2;
	kp_store_window(s, w);
	assert_true(sync_store(s));
	q = open_query();
	assert_int_equal(kp_query_span(q, &first, &last), KP_OK);
	assert_int_equal(first, T0);
	assert_int_equal(last, T0 + 310 * S);

	assert_int_equal(kp_query_newest(q, NULL, &last), KP_OK);
	assert_int_equal(last, T0 + 300 * S);
	assert_int_equal(kp_query_newest(q, "a@*", &last), KP_OK);
	assert_int_equal(last, T0 + 290 * S);
	assert_int_equal(kp_query_newest(q, "c@h", &last), KP_OK);
	assert_int_equal(last, 0);

	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_fields(sum, IS(windows, 31) IS(start, T0) IS(end, T0 + 310 * S)
	    IS(entry_calls, 3100) IS(sampled, 310)
	    IS(losses.n[KP_LOSS_SAMPLED_OUT], 31 * 90)
	    IS(losses.n[KP_LOSS_EXPIRED], 2) IS(ncells, 5)
	    IS(cells[0].tier, "_total") IS(cells[0].identity, "_total")
	    IS(cells[1].identity, "create") IS(cells[2].tier, "db")
	    IS(cells[4].tier, "gone"));
	c = kp_query_cell(&sum, "db", "create");
	assert_fields(*c, IS(w_requests, 30 * 20) IS(w_async_calls, 30 * 66)
	    IS(total, INT64_C(30) * 123456789) IS(w_async, 30 * 70000)
	    IS(min, 23456789) IS(max, 100000000) IS(hist.count, 30 * 20));
	assert_null(kp_query_cell(&sum, "db", "nope"));
	kp_query_sum_free(&sum);

	r.node = "a@*";
	r.identity = "create";
	r.since = T0 + 10 * S;
	r.until = T0 + 50 * S;	/* windows 1 and 2 and 4 are a@h's */
	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_fields(sum, IS(windows, 3) IS(ncells, 2));
	assert_int_equal(kp_query_cell(&sum, "db", "create")->calls, 9);
	kp_query_sum_free(&sum);
	r.identity = NULL;
	r.identity_glob = "cr*";
	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_int_equal(sum.ncells, 4);	/* those of _total are there, too */
	kp_query_sum_free(&sum);
	assert_int_equal(kp_query_nodes(q, &r, &nodes), KP_OK);
	assert_fields(nodes, IS(n, 1) IS(v[0], "a@h"));
	kp_query_nodes_free(&nodes);
	r.node = NULL;
	assert_int_equal(kp_query_nodes(q, &r, &nodes), KP_OK);
	assert_fields(nodes, IS(n, 2) IS(v[1], "b@h"));
	kp_query_nodes_free(&nodes);
	r.since = r.until = 0;
	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows + sum.ncells, 0);
	kp_query_sum_free(&sum);

	assert_int_equal(kp_query_tiers(q, &names), KP_OK);
	assert_fields(names, IS(n, 3) IS(current, 2) IS(v[0], "web")
	    IS(v[2], "gone"));
	kp_query_tiers_free(&names);
	kp_query_close(q);
	kp_store_close(s);
}

static bool
is_key(const struct kp_query_key *v, size_t n, const struct kp_cell *c)
{
	for (size_t i = 0; i < n; i++)
		if ((v[i].tier == NULL || strcmp(v[i].tier, c->tier) == 0) &&
		    (v[i].identity == NULL || strcmp(v[i].identity, c->identity) == 0))
			return true;
	return false;
}

/* Sums of chosen cells have these, with the figures that a sum of all has. */
TEST(test_keys)
{
	static const struct {
		struct kp_query_key keys[2];
		size_t nkeys, cells;
	} v[] = {
		{ { { "db", "create" } }, 1, 1 },
		{ { { "db", "create" }, { "_total", "_total" } }, 2, 2 },
		{ { { "db", NULL } }, 1, 2 },
		{ { { NULL, "create" } }, 1, 4 },
		{ { { PART, NULL } }, 1, 2 },
		{ { { "none", "create" } }, 1, 0 },
		{ { { "db", "none" } }, 1, 0 },
		{ { { "none", NULL }, { "db", "_total" } }, 2, 1 },
	};
	struct kp_db *db = keep_open(NULL);
	struct kp_query_range r = all;
	struct kp_query_sum whole, some;
	const struct kp_cell *c;
	struct kp_query *q;
	struct kp_window *w;

	for (int i = 0; i < 3; i++) {
		w = labelled_window(i == 2 ? "b@h" : "a@h", NOON + i * 10 * S);
		keep_put(db, w);
		kp_window_free(w);
	}
	q = open_query();
	assert_int_equal(kp_query_sum(q, &all, &whole), KP_OK);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		r.keys = v[i].keys;
		r.nkeys = v[i].nkeys;
		assert_int_equal(kp_query_sum(q, &r, &some), KP_OK);
		assert_int_equal(some.ncells, v[i].cells);
		assert_int_equal(some.windows, whole.windows);
		for (size_t k = 0; k < some.ncells; k++) {
			c = kp_query_cell(&whole, some.cells[k].tier, some.cells[k].identity);
			assert_true(is_key(v[i].keys, v[i].nkeys, c));
			assert_true(some.cells[k].calls == c->calls &&
			    some.cells[k].w_total == c->w_total &&
			    some.cells[k].hist.count == c->hist.count);
		}
		kp_query_sum_free(&some);
	}
	kp_query_sum_free(&whole);
	kp_query_close(q);
	db_close(db, 0);
}

/* A file in WAL mode where nothing can be made beside it: a copy. */
TEST(test_read_without_wal)
{
	static char bytes[1 << 20];
	struct kp_query_sum sum;
	struct kp_query *q;
	struct kp_store *s = open_store();
	char file[128];
	pid_t pid;
	size_t n;
	int status;

	kp_store_window(s, known_window("a@h", T0));
	kp_store_close(s);
	sql_exec("pragma journal_mode = wal");
	n = slurp("", bytes, sizeof(bytes));
	snprintf(file, sizeof(file), "%s/ro", dir);
	assert_int_equal(mkdir(file, 0755), 0);
	snprintf(path, sizeof(path), "%s/ro/c?%%#.db", dir);
	write_file(path, bytes, n);
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chmod(file, 0555), 0);
	pid = fork();
	if (pid == 0) {
		/* root may write anywhere */
		if (getuid() == 0 && setuid(65534) != 0)
			_exit(1);
		q = open_query();
		status = kp_query_sum(q, &all, &sum) == KP_OK &&
		    sum.windows == 1;
		_exit(status ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* Readers see whole windows only, whenever they look. */
TEST(test_read_while_writing)
{
	struct kp_query_sum sum;
	struct kp_store *s = open_store();
	struct kp_query *q = open_query();

	for (int i = 0; i < 100; i++) {
		kp_store_window(s, labelled_window("a@h", T0 + i * 10 * S));
		assert_int_equal(kp_query_sum(q, &all, &sum), KP_OK);
		for (int k = 0; k < 2 && sum.windows > 0; k++)
			assert_int_equal(kp_query_cell(&sum, k == 0 ? "db" : PART,
			    "create")->calls, 3 * sum.windows);
		kp_query_sum_free(&sum);
		if (i % 20 == 0)
			assert_true(sync_store(s));
	}
	kp_query_close(q);
	kp_store_close(s);
	assert_sql("select count(*) from time_window", "100");
}

/* Time that some node was measured counts once, gaps not at all. */
TEST(test_cover)
{
	static const struct {
		const char *node;
		int at, until;
	} t[] = {
		{ "a@h", 0, 10 }, { "b@h", 5, 15 }, { "b@h", 6, 8 },
		{ "a@h", 10, 20 }, { "a@h", 40, 50 }, { "b@h", 40, 50 },
	};
	struct kp_query_range r = all;
	struct kp_store *s = open_store();
	struct kp_query_sum sum;
	struct kp_window *w;
	struct kp_query *q;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		w = known_window(t[i].node, T0 + t[i].at * S);
		w->end = T0 + t[i].until * S;
		kp_store_window(s, w);
	}
	assert_true(sync_store(s));
	q = open_query();
	assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
	assert_fields(sum, IS(windows, 6) IS(covered, 30 * S) IS(start, T0)
	    IS(end, T0 + 50 * S) IS(losses.n[KP_LOSS_SAMPLED_OUT], 6 * 90)
	    IS(ncells, 0));
	r.node = "b@h";
	assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
	assert_int_equal(sum.covered, 20 * S);
	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_int_equal(sum.covered, 20 * S);
	kp_query_sum_free(&sum);
	r.since = INT64_MAX - 1;
	assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows + (uint64_t)sum.covered, 0);
	/* a file may hold anything: no sum runs over */
	sql_exec("update time_window set start_ns = -9223372036854775807,"
	    " end_ns = 9223372036854775807 where id in (1, 2)");
	r = all;
	r.since = INT64_MIN;
	assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
	assert_int_equal(sum.covered, INT64_MAX);
	kp_query_close(q);
	kp_store_close(s);
}

/*
 * A report of 10:05 to 11:05 showed 11:00 to 12:00 once windows had become hours,
 * and 10:05 to 10:55 nothing.  A range has all windows that it has a part of.
 */
TEST(test_whole_windows)
{
	static const struct {
		int since, until;		/* minutes */
		const char *node;
		int from, to, windows;		/* what is measured; 0: nothing */
	} t[] = {
		{ 65, 115, NULL, 60, 120, 1 },
		{ 65, 125, NULL, 60, 180, 2 },
		{ 60, 120, NULL, 60, 120, 1 },
		{ 59, 121, NULL, 0, 180, 3 },
		/* one of its own length */
		{ 61, 62, NULL, 60, 120, 1 },
		{ 0, 240, NULL, 0, 240, 26 },
		{ 240, 300, NULL, 0, 0, 0 },
		{ -60, 0, NULL, 0, 0, 0 },
		/* the range of one node's window is that of the other, too */
		{ 190, 191, "a@h", 180, 240, 1 },
		{ 190, 191, "b@h", 190, 191, 1 },
		{ 190, 191, NULL, 180, 240, 23 },
		{ 190, 192, "b@h", 190, 192, 2 },
	};
	struct kp_store *s = open_store();
	const kp_dur_ns min = 60 * S;
	struct kp_query_range r;
	struct kp_query_sum sum;
	struct kp_query_nodes nodes;
	struct kp_series series;
	const struct kp_series_want want = { .cells = true };
	struct kp_window *w;
	struct kp_query *q;
	uint64_t windows;

	for (int i = 0; i < 4; i++) {
		w = known_window("a@h", T0 + i * 60 * min);
		w->end = w->start + 60 * min;
		kp_store_window(s, w);
	}
	for (int i = 0; i < 22; i++) {
		w = known_window("b@h", T0 + (185 + i) * min);
		w->end = w->start + min;
		kp_store_window(s, w);
	}
	assert_true(sync_store(s));
	q = open_query();
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		r = all;
		r.since = T0 + t[i].since * min;
		r.until = T0 + t[i].until * min;
		r.node = t[i].node;
		assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
		assert_int_equal(sum.windows, t[i].windows);
		if (t[i].windows > 0) {
			assert_int_equal(sum.start, T0 + t[i].from * min);
			assert_int_equal(sum.end, T0 + t[i].to * min);
			assert_int_equal(kp_query_cell(&sum, "db", "create")->
			    calls, 3 * t[i].windows);
		}
		kp_query_sum_free(&sum);
		assert_int_equal(kp_query_nodes(q, &r, &nodes), KP_OK);
		assert_int_equal(nodes.n > 0, t[i].windows > 0);
		kp_query_nodes_free(&nodes);
		assert_int_equal(kp_query_series(q, &r, &want, &series), KP_OK);
		for (size_t k = windows = 0; k < series.n; k++)
			windows += series.v[k].windows;
		assert_int_equal(windows, t[i].windows);
		kp_series_free(&series);
	}
	/* a window that ends a moment late is not of the next range */
	sql_exec("update time_window set end_ns = end_ns + 20000000");
	r = all;
	r.since = T0 + 60 * min;
	r.until = T0 + 120 * min;
	assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows, 1);
	/* exactly what starts in it */
	r.since += min;
	r.exact = true;
	assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows, 0);
	kp_query_close(q);
	kp_store_close(s);
}

/* A request's windows are those of its node in which it may have closed. */
TEST(test_around)
{
	static const struct {
		int64_t start_ms, total_ms;	/* total -1: no end seen */
		int since, until;		/* of the windows, s; -1: none */
	} t[] = {
		{ 1000, 500, 0, 10 }, { 1000, 8700, 0, 10 },
		{ 1000, 8800, 0, 20 }, { 9999, 1, 0, 20 },
		{ 10000, 1, 10, 20 }, { 1000, 25000, 0, 30 },
		{ 1000, -1, 0, 30 }, { 29000, 500, 20, 30 },
		{ 31000, 500, -1, -1 },
	};
	struct kp_query_request rq = { .node = "a@h" };
	struct kp_store *s = open_store();
	struct kp_query_range r;
	struct kp_query_sum sum;
	struct kp_query *q;

	for (int i = 0; i < 3; i++) {
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
		kp_store_window(s, known_window("b@h", T0 + i * 10 * S));
	}
	assert_true(sync_store(s));
	q = open_query();
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		rq.start = T0 + t[i].start_ms * KP_NS_PER_MS;
		rq.total = t[i].total_ms < 0 ? -1 :
		    t[i].total_ms * KP_NS_PER_MS;
		assert_int_equal(kp_query_around(q, &rq, &r), KP_OK);
		assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
		if (t[i].since < 0) {
			assert_int_equal(sum.windows, 0);
			continue;
		}
		assert_fields(sum, IS(start, T0 + t[i].since * S)
		    IS(end, T0 + t[i].until * S)
		    IS(windows, (t[i].until - t[i].since) / 10));
	}
	rq.start = INT64_MAX;
	rq.total = INT64_MAX;
	assert_int_equal(kp_query_around(q, &rq, &r), KP_OK);
	kp_query_close(q);
	kp_store_close(s);
}

/*
 * For a window through which no agent was there the series said 0 requests, as if
 * there had been none.  One node's is not another's.
 */
TEST(test_uncounted)
{
	const struct kp_series_want want = { .step = 10 * S };
	static const uint64_t uncounted[] = { 0, 9995, 4000, 10001 };
	struct kp_store *s = open_store();
	struct kp_series series;
	struct kp_window *w;
	struct kp_query *q;
	struct kp_buf b;

	for (int i = 0; i < 4; i++) {
		w = known_window("a@h", T0 + i * 10 * S);
		w->losses.n[KP_LOSS_UNCOUNTED] = uncounted[i];
		if (uncounted[i] > 0)
			w->entry_calls = w->sampled = 0;
		kp_store_window(s, w);
	}
	kp_store_window(s, known_window("b@h", T0 + 30 * S));
	assert_true(sync_store(s));
	q = open_query();
	assert_int_equal(kp_query_series(q, &all, &want, &series), KP_OK);
	assert_in_range(series.n, 4, 5);	/* one for where the last ends */
	assert_true(series.v[0].counted == 10 * S && series.v[1].counted < 0);
	assert_int_equal(series.v[2].counted / KP_NS_PER_MS, 6000);
	assert_int_equal(series.v[3].counted, 10 * S);	/* all that were there */
	assert_int_equal(series.v[3].windows, 2);
	kp_buf_init(&b, 1 << 20);
	series_load_json(&b, &series);
	assert_has(kp_buf_cstr(&b), "\"entry_calls\":[100,null,0,100");
	assert_has(kp_buf_cstr(&b), "\"lost\":[0,9995,4000,10001");
	kp_buf_free(&b);
	kp_series_free(&series);
	kp_query_close(q);
	kp_store_close(s);
}

static void
put_counted(struct kp_store *s, const char *node, int i, uint64_t calls, uint64_t away)
{
	struct kp_window *w = known_window(node, T0 + i * 10 * S);

	w->entry_calls = w->sampled = calls;
	w->losses.n[KP_LOSS_UNCOUNTED] = away;
	kp_store_window(s, w);
}

/*
 * Rates were per all of the time, also of that in which an agent was away: 91.7/s were
 * shown of 114.6.  a has 120 and then 30 a second, with 5 s of 20 uncounted; b 10 a
 * second all the time; c's agent was never there; d is a target for the last 10 s.
 */
TEST(test_counted)
{
	static const struct kp_query_range by_node = { .until = INT64_MAX,
		.by_node = true };
	static const struct {
		const char *node;
		kp_dur_ns counted;
	} own[] = { { "a@h", 15 * S }, { "b@h", 20 * S }, { "c@h", -1 },
		{ "d@h", 10 * S } };
	struct kp_store *s = open_store();
	struct kp_query_sum sum;
	struct report *r;
	struct kp_query *q;

	for (int i = 0; i < 2; i++) {
		put_counted(s, "a@h", i, i == 0 ? 1200 : 150, i == 0 ? 0 : 5000);
		put_counted(s, "b@h", i, 100, 0);
		put_counted(s, "c@h", i, 0, 10000);
	}
	put_counted(s, "d@h", 1, 50, 0);
	assert_true(sync_store(s));
	q = open_query();
	assert_int_equal(kp_query_cover(q, &all, &sum), KP_OK);
	/* 1350 in 15 s are 1800 in 20; d adds 50 */
	assert_true(fabs((double)sum.entry_calls / (double)sum.counted * 1e9 -
	    (1800 + 200 + 50) / 20.0) < 1e-6);
	assert_int_equal(sum.covered, 20 * S);
	assert_int_equal(report_from_db(q, &by_node, &r), KP_OK);
	assert_int_equal(r->rows[0].counted, sum.counted);
	assert_int_equal(r->nrows, 5);
	for (size_t i = 1; i < r->nrows; i++)
		for (size_t k = 0; k < 4; k++)
			if (strcmp(r->rows[i].identity, own[k].node) == 0)
				assert_int_equal(r->rows[i].counted, own[k].counted);
	report_free(r);
	kp_query_close(q);
	kp_store_close(s);
}

TESTS(setup, teardown)
