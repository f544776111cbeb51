/*
 * Databases of many machines: merged into one file, and read as one without
 * that.  Both have to say the same, twice is the same as once, and whatever
 * fails leaves the file as it was.
 */
#include <errno.h>
#include <sys/mount.h>
#include <unistd.h>

#include "cases.h"
#include "store/merge.h"
#include "store/query.h"
#include "store/read.h"
#include "store_fixture.h"

static volatile sig_atomic_t stop;
static char a_db[128], b_db[128], out_db[128];

FIXTURE(setup_files)
{
	int rc = setup(state);

	stop = 0;
	snprintf(a_db, sizeof(a_db), "%s/a.db", dir);
	snprintf(b_db, sizeof(b_db), "%s/b.db", dir);
	snprintf(out_db, sizeof(out_db), "%s/out.db", dir);
	return rc;
}

/* From here on the fixture speaks of this file. */
static void
use(const char *file)
{
	assert_in_range(strlen(file), 1, sizeof(path) - 1);
	memcpy(path, file, strlen(file) + 1);
}

static void
put_happening(struct kp_store *s, const char *node, kp_wall_ns at)
{
	struct kp_happening h = { .at = at, .node = node, .kind = "trip",
		.text = "queue of 20123 messages" };

	kp_store_happening(s, &h);
}

/* What the database has only where it is asked for. */
static struct kp_window *
fuller_window(const char *node, kp_wall_ns start)
{
	struct kp_window *w = labelled_window(node, start);
	struct kp_wait_cell *c = calloc(2, sizeof(*c));

	assert_non_null(c);
	/* ids of parts differ from file to file as well */
	for (size_t i = 4; node[0] == 'b' && i < w->ncells; i++)
		w->cells[i].tier = i < 6 ? "db: orders" : PART;
	w->cells[3].has_gc = true;
	w->cells[3].gc = 12;
	w->cells[3].w_gc = 120;
	w->waits = c;
	w->nwaits = 2;
	for (int i = 0; i < 2; i++) {
		/* ids differ from file to file: the second is the node's own */
		c[i] = (struct kp_wait_cell){ .receiver = i == 0 ? "db_server" :
			node, .identity = "create", .messages = 1,
			.w_messages = 10, .wait = 1000 + i,
			.w_wait = 10000 + 10 * i, .min = 1000 + i,
			.max = 1000 + i };
		kp_hist_add(&c[i].hist, c[i].wait, 10);
	}
	return w;
}

/* Three calls, and two processes that messages waited for. */
static struct kp_tree *
fuller_tree(const char *node)
{
	const size_t calls = 3 * sizeof(struct kp_tree_call);
	struct kp_tree *t = new_tree(3), *more;

	more = realloc(t, sizeof(*t) + calls + 2 * sizeof(*t->waits));
	assert_non_null(more);
	more->waits = (struct kp_tree_wait *)(void *)&more->calls[3];
	more->nwaits = 2;
	for (uint64_t i = 0; i < 2; i++)
		more->waits[i] = (struct kp_tree_wait){ .pid = "<0.1.0>",
			.receiver = i == 0 ? node : "db_server",
			.messages = 1 + i, .wait = 2000, .max = 1500 };
	return more;
}

/* Two windows, a slow request, an event; the store stays open. */
static struct kp_store *
begin_file(const char *file, const char *node, kp_wall_ns start)
{
	struct kp_tree *t = fuller_tree(node);
	struct kp_store *s;

	use(file);
	s = open_store();
	kp_store_window(s, fuller_window(node, start));
	kp_store_window(s, fuller_window(node, start + 10 * S));
	t->node = node;
	t->start = start + S;
	t->total += (start - T0) / 100;
	kp_store_tree(s, t);
	put_happening(s, node, start + 2 * S);
	assert_true(sync_store(s));
	return s;
}

static void
make_file(const char *file, const char *node, kp_wall_ns start)
{
	kp_store_close(begin_file(file, node, start));
}

/* Of n files; what the last one added is in *count. */
static enum kp_err
try_merge(const char *const *in, size_t n, struct kp_merge_count *count,
    char **why)
{
	struct kp_merge *m;
	enum kp_err err = kp_merge_open(&m, out_db, &stop, why);

	if (err != KP_OK)
		return err;
	for (size_t i = 0; i < n && err == KP_OK; i++)
		err = kp_merge_add(m, in[i], count, why);
	if (err == KP_OK)
		return kp_merge_finish(m, why);
	kp_merge_abandon(m);
	return err;
}

static struct kp_merge_count
merge(const char *first, const char *second)
{
	const char *const in[] = { first, second };
	struct kp_merge_count count = { 0 };
	char *why = NULL;

	if (try_merge(in, second != NULL ? 2 : 1, &count, &why) != KP_OK)
		fail_msg("%s", why);
	return count;
}

/* It fails, in these words, and OUT is as it was. */
static void
refused(const char *in, enum kp_err want, const char *words)
{
	static char before[1 << 20], after[1 << 20];
	const char *const list[] = { in };
	struct kp_merge_count count;
	size_t n = 0, m = 0;
	char *why = NULL;
	bool there;

	use(out_db);
	there = exists("");
	if (there)
		n = slurp("", before, sizeof(before));
	assert_int_equal(try_merge(list, 1, &count, &why), want);
	assert_non_null(why);
	if (strstr(why, words) == NULL)
		fail_msg("'%s' is not in '%s'", words, why);
	free(why);
	assert_int_equal(exists(""), there);
	assert_false(exists(".merging"));
	if (there)
		m = slurp("", after, sizeof(after));
	assert_int_equal(n, m);
	assert_memory_equal(before, after, n);
}

static struct kp_query *
open_files(const char *const *v, size_t n)
{
	struct kp_query_files f = { v, n };
	struct kp_query *q;
	char *why = NULL;

	if (kp_query_open_all(&q, &f, &why) != KP_OK)
		fail_msg("%s", why);
	return q;
}

static void
same_cells(const struct kp_cell *a, const struct kp_cell *b)
{
	static const double qs[] = { 0, 0.5, 0.9, 1 };

	assert_fields(*a, IS(tier, b->tier) IS(identity, b->identity));
#define PAIR(X, field, null) \
	assert_int_equal(a->field, b->field); \
	assert_int_equal(a->w_##field, b->w_##field);
#define ONCE(X, field, null) assert_int_equal(a->field, b->field);
	KP_CELL_FIGURES(PAIR, PAIR, ONCE, )
	assert_fields(*a, IS(has_gc, b->has_gc) IS(has_out, b->has_out)
	    IS(min, b->min) IS(max, b->max) IS(hist.count, b->hist.count));
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(kp_hist_quantile(&a->hist, qs[i]),
		    kp_hist_quantile(&b->hist, qs[i]));
}

static void
same_sums(struct kp_query *a, struct kp_query *b,
    const struct kp_query_range *r)
{
	struct kp_query_sum sa, sb;

	assert_int_equal(kp_query_sum(a, r, &sa), KP_OK);
	assert_int_equal(kp_query_sum(b, r, &sb), KP_OK);
	assert_fields(sa, IS(windows, sb.windows) IS(start, sb.start)
	    IS(end, sb.end) IS(covered, sb.covered)
	    IS(entry_calls, sb.entry_calls) IS(sampled, sb.sampled));
	assert_memory_equal(&sa.losses, &sb.losses, sizeof(sa.losses));
	assert_int_equal(sa.ncells, sb.ncells);
	for (size_t i = 0; i < sa.ncells; i++)
		same_cells(&sa.cells[i], &sb.cells[i]);
	kp_query_sum_free(&sa);
	kp_query_sum_free(&sb);
}

static void
same_waits(struct kp_query *a, struct kp_query *b)
{
	struct kp_query_waits wa, wb;

	assert_int_equal(kp_query_waits(a, &all, NULL, &wa), KP_OK);
	assert_int_equal(kp_query_waits(b, &all, NULL, &wb), KP_OK);
	assert_int_equal(wa.n, wb.n);
	assert_true(wa.n > 0);
	for (size_t i = 0; i < wa.n; i++) {
		assert_fields(wa, IS(v[i].receiver, wb.v[i].receiver)
		    IS(v[i].identity, wb.v[i].identity)
		    IS(v[i].messages, wb.v[i].messages)
		    IS(v[i].w_wait, wb.v[i].w_wait) IS(v[i].min, wb.v[i].min)
		    IS(v[i].max, wb.v[i].max)
		    IS(v[i].hist.count, wb.v[i].hist.count));
	}
	kp_query_waits_free(&wa);
	kp_query_waits_free(&wb);
}

static void
same_series(struct kp_query *a, struct kp_query *b,
    const struct kp_query_range *r)
{
	const struct kp_series_want want = { .cells = true, .tier = PART,
		.others = true };
	struct kp_series sa, sb;

	assert_int_equal(kp_query_series(a, r, &want, &sa), KP_OK);
	assert_int_equal(kp_query_series(b, r, &want, &sb), KP_OK);
	assert_fields(sa, IS(step, sb.step) IS(start, sb.start) IS(n, sb.n)
	    IS(tiers.n, sb.tiers.n));
	for (size_t i = 0; i < sa.n; i++) {
		assert_int_equal(sa.v[i].windows, sb.v[i].windows);
		assert_int_equal(sa.v[i].covered, sb.v[i].covered);
		assert_int_equal(sa.v[i].entry_calls, sb.v[i].entry_calls);
		for (size_t t = 0; t <= sa.tiers.n + 1; t++) {
			assert_fields(sa,
			    IS(v[i].cells[t].w_calls, sb.v[i].cells[t].w_calls)
			    IS(v[i].cells[t].hist.count, sb.v[i].cells[t].hist.count));
		}
	}
	kp_series_free(&sa);
	kp_series_free(&sb);
}

static void
same_lists(struct kp_query *a, struct kp_query *b)
{
	struct kp_query_requests ra, rb;
	struct kp_query_events ea, eb;
	struct kp_query_nodes na, nb;
	struct kp_query_tiers ta, tb;

	assert_int_equal(kp_query_slow(a, &all, KP_SLOW_TOTAL, NULL, 0, 10,
	    &ra), KP_OK);
	assert_int_equal(kp_query_slow(b, &all, KP_SLOW_TOTAL, NULL, 0, 10,
	    &rb), KP_OK);
	assert_int_equal(ra.n, rb.n);
	for (size_t i = 0; i < ra.n; i++) {
		assert_int_equal(ra.v[i].start, rb.v[i].start);
		assert_string_equal(ra.v[i].node, rb.v[i].node);
		assert_int_equal(ra.v[i].ncalls, rb.v[i].ncalls);
	}
	assert_int_equal(kp_query_events(a, &all, 10, &ea), KP_OK);
	assert_int_equal(kp_query_events(b, &all, 10, &eb), KP_OK);
	assert_int_equal(ea.n, eb.n);
	for (size_t i = 0; i < ea.n; i++)
		assert_int_equal(ea.v[i].at, eb.v[i].at);
	assert_int_equal(kp_query_nodes(a, &all, &na), KP_OK);
	assert_int_equal(kp_query_nodes(b, &all, &nb), KP_OK);
	assert_int_equal(na.n, nb.n);
	for (size_t i = 0; i < na.n; i++)
		assert_string_equal(na.v[i], nb.v[i]);
	assert_int_equal(kp_query_tiers(a, &ta), KP_OK);
	assert_int_equal(kp_query_tiers(b, &tb), KP_OK);
	assert_fields(ta, IS(n, tb.n) IS(current, tb.current));
	for (size_t i = 0; i < ta.n; i++)
		assert_string_equal(ta.v[i], tb.v[i]);
	kp_query_requests_free(&ra);
	kp_query_requests_free(&rb);
	kp_query_events_free(&ea);
	kp_query_events_free(&eb);
	kp_query_nodes_free(&na);
	kp_query_nodes_free(&nb);
	kp_query_tiers_free(&ta);
	kp_query_tiers_free(&tb);
}

TEST(test_merged_is_as_one)
{
	const char *const both[] = { a_db, b_db }, *const one[] = { out_db };
	const struct kp_query_range part = { T0 + 10 * S, T0 + 25 * S,
		.node = NULL }, on_b = { 0, INT64_MAX, .node = "b@*" };
	struct kp_query *set, *q;

	make_file(a_db, "a@h", T0);
	make_file(b_db, "b@h", T0 + 5 * S);
	merge(a_db, b_db);
	set = open_files(both, 2);
	q = open_files(one, 1);
	same_sums(set, q, &all);
	same_sums(set, q, &part);
	same_sums(set, q, &on_b);
	same_series(set, q, &all);
	same_lists(set, q);
	same_waits(set, q);
	kp_query_close(set);
	kp_query_close(q);
	use(out_db);
	assert_sql("select r.name, n.name, sum(messages), sum(wait_ns) from"
	    " message_stat m join receiver r on r.id = m.receiver_id join"
	    " time_window w on w.id = m.window_id join node n on n.id ="
	    " w.node_id group by 1, 2 order by 1, 2",
	    "a@h|a@h|2|2002\nb@h|b@h|2|2002\ndb_server|a@h|2|2000\n"
	    "db_server|b@h|2|2000");
	assert_sql("select n.name, t.seq, v.name, messages from request_wait t"
	    " join receiver v on v.id = t.receiver_id join request r on r.id ="
	    " t.request_id join node n on n.id = r.node_id order by 1, 2",
	    "a@h|0|a@h|1\na@h|1|db_server|2\nb@h|0|b@h|1\nb@h|1|db_server|2");
	assert_sql("select sum(gc_ns), sum(w_gc_ns), count(gc_ns),"
	    " count(out_ns), count(*) from stat", "48|480|4|0|32");
	assert_sql("select count(*), sum(entry_calls), count(distinct run_id)"
	    " from time_window", "4|400|2");
	assert_sql("select count(*) from call", "6");
	assert_sql("select name, position from tier where position >= 0 order by 2",
	    "_total|0\nweb|1\ndb|2");
	assert_sql("select tier, identity, sum(calls) from tier_stats where tier"
	    " like 'db: %' group by 1, 2", "db: orders|_total|120\ndb: orders|create|120\n"
	    PART "|_total|120\n" PART "|create|120");
	assert_sql("pragma foreign_key_check", "");
	assert_sql("pragma integrity_check", "ok");
	assert_sql("pragma journal_mode", "delete");
	assert_false(exists(".merging"));
}

TEST(test_twice_is_once)
{
	static char first[1 << 20];
	struct kp_merge_count n;

	make_file(a_db, "a@h", T0);
	make_file(b_db, "b@h", T0);
	n = merge(a_db, b_db);
	assert_fields(n, IS(runs, 1) IS(windows, 2) IS(requests, 1)
	    IS(events, 1));
	use(out_db);
	snprintf(first, sizeof(first), "%s", sql_text("select"
	    " (select count(*) from stat), (select count(*) from loss),"
	    " (select count(*) from call), (select count(*) from event),"
	    " (select count(*) from request), (select count(*) from run)"));
	n = merge(b_db, a_db);
	assert_int_equal(n.runs + n.windows + n.requests + n.events, 0);
	assert_sql("select (select count(*) from stat), (select count(*) from"
	    " loss), (select count(*) from call), (select count(*) from event),"
	    " (select count(*) from request), (select count(*) from run)",
	    first);
	/* and the same file twice at once */
	unlink(out_db);
	n = merge(a_db, a_db);
	assert_int_equal(n.windows, 0);
	assert_sql("select count(*) from time_window", "2");
}

/* While a kprofd writes it, and again when that has gone on, and has ended. */
TEST(test_grown)
{
	struct kp_merge_count n;
	struct kp_store *s;

	s = begin_file(a_db, "a@h", T0);
	n = merge(a_db, NULL);
	assert_int_equal(n.windows, 2);
	use(out_db);
	assert_sql("select clean from run", "null");
	kp_store_window(s, known_window("a@h", T0 + 20 * S));
	put_happening(s, "a@h", T0 + 21 * S);
	kp_store_close(s);
	n = merge(a_db, NULL);
	assert_fields(n, IS(runs, 0) IS(windows, 1) IS(requests, 0)
	    IS(events, 1));
	assert_sql("select count(*), sum(entry_calls), count(distinct run_id)"
	    " from time_window", "3|300|1");
	assert_sql("select clean, ended_ns is not null from run", "1|1");
}

/* What was merged as measured has been rolled up in IN since, and gone on. */
TEST(test_rolled_up_since)
{
	struct kp_merge_count n;
	struct kp_db *db;

	use(a_db);
	db = keep_open("10s:20s,1m:9d");
	for (int i = 0; i < 8; i++)
		keep_put_known(db, "a@h", NOON + i * 10 * S);
	n = merge(a_db, NULL);
	assert_int_equal(n.windows, 8);
	for (int i = 8; i < 12; i++)
		keep_put_known(db, "a@h", NOON + i * 10 * S);
	keep_settle(db, NOON + HOUR);
	db_close(db, 0);
	assert_sql("select count(*) from time_window", "2");
	n = merge(a_db, NULL);
	/* the first minute is there; the second replaces two tens of it */
	assert_int_equal(n.windows, 1);
	use(out_db);
	assert_sql("select count(*), sum(entry_calls) from time_window",
	    "7|1200");
	assert_sql("select sum(w_calls) from stat where tier_id = (select id"
	    " from tier where name = 'db') and identity_id = (select id from"
	    " identity where name = '_total')", "360");
	n = merge(a_db, NULL);
	assert_int_equal(n.windows, 0);
}

/* Merged is what is there; the order does not matter. */
TEST(test_older_copy)
{
	struct kp_merge_count n;
	struct kp_db *db;

	use(a_db);
	db = keep_open("10s:20s,1m:9d");
	for (int i = 0; i < 12; i++)
		keep_put_known(db, "a@h", NOON + i * 10 * S);
	use(out_db);
	n = merge(a_db, NULL);
	assert_int_equal(n.windows, 12);
	assert_int_equal(rename(out_db, b_db), 0);	/* the older state */
	use(a_db);
	keep_settle(db, NOON + HOUR);
	db_close(db, 0);
	n = merge(a_db, b_db);
	assert_int_equal(n.windows, 0);
	use(out_db);
	assert_sql("select count(*), sum(entry_calls) from time_window",
	    "2|1200");
}

/* Neither a file of before nor one of after is merged, or merged into. */
TEST(test_other_schema)
{
	make_file(a_db, "a@h", T0);
	make_file(out_db, "b@h", T0);
	use(a_db);
	sql_exec("pragma user_version = 9");
	refused(a_db, KP_EFORMAT, "/a.db': written by an older kprofd");
	use(a_db);
	sql_exec("pragma user_version = 99");
	refused(a_db, KP_EFORMAT, "/a.db': written by a newer kprofd");
	make_file(b_db, "b@h", T0);
	use(out_db);
	sql_exec("pragma user_version = 9");
	refused(b_db, KP_EFORMAT, "/out.db': written by an older kprofd");
}

/* A table that merging does not know would be left out of what is merged. */
TEST(test_knows_every_table)
{
	char *name, *save;

	make_file(a_db, "a@h", T0);
	for (name = strtok_r(sql_text("select name from sqlite_schema"
	    " where type = 'table' and name not like 'sqlite_%'"), "\n",
	    &save); name != NULL; name = strtok_r(NULL, "\n", &save)) {
		if (!kp_merge_knows(name))
			fail_msg("kprof merge does not know table %s", name);
	}
	assert_false(kp_merge_knows("tier_stats"));
}

TEST(test_refused)
{
	struct kp_store *s;
	char link[128];

	snprintf(link, sizeof(link), "%s/link.db", dir);
	make_file(a_db, "a@h", T0);
	refused("/none/such.db", KP_ENOENT, "/none does not exist");
	make_file(out_db, "o@h", T0);
	refused(dir, KP_EFORMAT, "is a directory");
	refused(out_db, KP_ESTATE, "into itself");
	assert_int_equal(symlink(out_db, link), 0);
	refused(link, KP_ESTATE, "into itself");
	write_file(b_db, "not a database, but a text of some length", 40);
	refused(b_db, KP_EFORMAT, "not a database");
	stop = 1;
	refused(a_db, KP_ETIMEOUT, "interrupted");
	stop = 0;
	/* a kprofd writes it */
	use(out_db);
	s = open_store();
	assert_true(sync_store(s));
	refused(a_db, KP_EBUSY, "a kprofd or another merge writes it");
	kp_store_close(s);
	merge(a_db, NULL);
}

/* Rows that point nowhere. */
TEST(test_damaged)
{
	make_file(a_db, "a@h", T0);
	make_file(out_db, "o@h", T0);
	use(a_db);
	sql_exec("pragma foreign_keys = off;"
	    "update time_window set node_id = 999;"
	    "update stat set tier_id = tier_id + 900");
	/* windows of no node are none of ours; their cells go with them */
	assert_int_equal(merge(a_db, NULL).windows, 0);
	make_file(b_db, "b@h", T0);
	use(b_db);
	sql_exec("pragma foreign_keys = off;"
	    "update stat set tier_id = tier_id + 900");
	refused(b_db, KP_EFORMAT, "it is damaged");
}

TEST(test_other_reader)
{
	sqlite3 *other;

	make_file(a_db, "a@h", T0);
	make_file(out_db, "o@h", T0);
	use(out_db);
	/* somebody has it in WAL mode, and open */
	assert_int_equal(sqlite3_open(out_db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "pragma journal_mode = wal;"
	    "begin; select count(*) from run", NULL, NULL, NULL), SQLITE_OK);
	refused(a_db, KP_EBUSY, "another program has it open");
	sqlite3_close(other);
	merge(a_db, NULL);
	assert_sql("select count(*) from time_window", "4");
}

TEST(test_disk_full)
{
	static const char block[4096] = { 1 };
	char file[128];
	FILE *f;

	if (mount("tmpfs", dir, "tmpfs", 0, "size=1m") != 0) {
		if (errno == EPERM)
			skip();		/* not root */
		fail_msg("mount: %s", strerror(errno));
	}
	make_file(a_db, "a@h", T0);
	make_file(out_db, "o@h", T0);
	snprintf(file, sizeof(file), "%s/filler", dir);
	f = fopen(file, "wb");
	while (fwrite(block, 1, sizeof(block), f) == sizeof(block) &&
	    fflush(f) == 0)
		;
	fclose(f);
	refused(a_db, KP_EIO, "disk full");
	assert_int_equal(unlink(file), 0);
	assert_int_equal(merge(a_db, NULL).windows, 2);
	use(out_db);
	assert_sql("pragma integrity_check", "ok");
	assert_int_equal(umount(dir), 0);
}

/* ---- several files, read as one ---- */

TEST(test_set_ids)
{
	const char *const both[] = { a_db, b_db };
	struct kp_query_requests rs;
	struct kp_query_range around;
	struct kp_query_tree t;
	struct kp_query_sum cover;
	struct kp_query *q;

	make_file(a_db, "a@h", T0);
	make_file(b_db, "b@h", T0 + 5 * S);
	q = open_files(both, 2);
	assert_int_equal(kp_query_slow(q, &all, KP_SLOW_TOTAL, NULL, 0, 10,
	    &rs), KP_OK);
	assert_int_equal(rs.n, 2);
	assert_string_equal(rs.v[0].node, "b@h");	/* the slower one */
	assert_fields(rs, IS(v[0].id, READ_STRIDE + 1) IS(v[1].id, 1));
	kp_query_requests_free(&rs);
	assert_int_equal(kp_query_slow(q, &all, KP_SLOW_TOTAL, NULL, 1, 10,
	    &rs), KP_OK);
	assert_fields(rs, IS(n, 1) IS(v[0].id, 1));
	kp_query_requests_free(&rs);
	assert_int_equal(kp_query_tree(q, READ_STRIDE + 1, &t), KP_OK);
	assert_fields(t, IS(request.id, READ_STRIDE + 1) IS(request.node, "b@h")
	    IS(ncalls, 3));
	assert_int_equal(kp_query_around(q, &t.request, &around), KP_OK);
	assert_int_equal(kp_query_cover(q, &around, &cover), KP_OK);
	assert_int_equal(cover.windows, 1);
	kp_query_tree_free(&t);
	assert_int_equal(kp_query_tree(q, 2, &t), KP_ENOENT);
	assert_int_equal(kp_query_tree(q, 2 * READ_STRIDE + 1, &t), KP_ENOENT);
	assert_int_equal(kp_query_tree(q, -1, &t), KP_ENOENT);
	kp_query_close(q);
}

TEST(test_set_same_run)
{
	const char *const both[] = { a_db, out_db };
	struct kp_query_files f = { both, 2 };
	struct kp_query *q;
	char *why;

	make_file(a_db, "a@h", T0);
	merge(a_db, NULL);
	assert_int_equal(kp_query_open_all(&q, &f, &why), KP_ESTATE);
	assert_has(why, "hold the same run");
	free(why);
	f = (struct kp_query_files){ (const char *const[]){ a_db, a_db }, 2 };
	assert_int_equal(kp_query_open_all(&q, &f, &why), KP_ESTATE);
	free(why);
	f.v = (const char *const[]){ a_db, "/none/such.db" };
	assert_int_equal(kp_query_open_all(&q, &f, &why), KP_ENOENT);
	free(why);
}

TEST(test_set_one_empty)
{
	const char *const both[] = { a_db, b_db }, *const one[] = { b_db };
	struct kp_query *set, *q;
	kp_wall_ns first, last;

	use(a_db);
	kp_store_close(open_store());	/* no window at all */
	make_file(b_db, "b@h", T0);
	set = open_files(both, 2);
	q = open_files(one, 1);
	same_sums(set, q, &all);
	same_series(set, q, &all);
	assert_int_equal(kp_query_span(set, &first, &last), KP_OK);
	assert_int_equal(first, T0);
	assert_int_equal(last, T0 + 20 * S);
	kp_query_close(set);
	kp_query_close(q);
}

/*
 * One that was begun anew, and what was moved away: with the range of one of
 * them, steps went on to the other, and were too many.
 */
TEST(test_set_eras)
{
	const char *const both[] = { b_db, a_db }, *const one[] = { out_db };
	const struct kp_query_range ranges[] = {
		{ T0, T0 + 20 * S, .node = NULL },		/* a's */
		{ T0 + 5 * S, T0 + 400 * HOUR, .node = NULL },
		{ T0 + 400 * HOUR, T0 + 500 * HOUR, .node = NULL },
		{ T0 + 5 * S, INT64_MAX, .node = NULL },
		{ T0 + 720 * HOUR, INT64_MAX, .node = NULL },	/* b's */
		{ T0 + 5000 * HOUR, INT64_MAX, .node = NULL },	/* nobody's */
	};
	const struct kp_series_want want = { .cells = true };
	struct kp_query *set, *q;
	struct kp_series s;

	make_file(a_db, "a@h", T0);
	make_file(b_db, "a@h", T0 + 720 * HOUR);
	merge(a_db, b_db);
	set = open_files(both, 2);
	q = open_files(one, 1);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		same_sums(set, q, &ranges[i]);
		same_series(set, q, &ranges[i]);
	}
	assert_int_equal(kp_query_series(set, &ranges[0], &want, &s), KP_OK);
	assert_in_range(s.n, 2, 3);	/* T0 lies within a step */
	kp_series_free(&s);
	kp_query_close(set);
	kp_query_close(q);
}

/* Cells of any number of files become one each. */
TEST(test_set_of_many)
{
	static char names[12][128];
	const char *files[12], *const one[] = { out_db };
	struct kp_merge_count count;
	struct kp_query *set, *q;
	char *why = NULL;

	for (size_t i = 0; i < 12; i++) {
		snprintf(names[i], sizeof(names[i]), "%s/%zu.db", dir, i);
		files[i] = names[i];
		make_file(names[i], i % 2 == 0 ? "a@h" : "b@h",
		    T0 + (kp_wall_ns)i * 7 * S);
	}
	assert_int_equal(try_merge(files, 12, &count, &why), KP_OK);
	set = open_files(files, 12);
	q = open_files(one, 1);
	same_sums(set, q, &all);
	same_series(set, q, &all);
	same_lists(set, q);
	kp_query_close(set);
	kp_query_close(q);
}

TEST(test_set_deadline)
{
	const char *const both[] = { a_db, b_db };
	struct kp_query_sum sum;
	struct kp_query *q;
	struct kp_db *db;

	use(a_db);
	db = keep_open(NULL);
	for (int i = 0; i < 2000; i++)
		keep_put_known(db, "a@h", T0 + i * 10 * S);
	db_close(db, 0);
	make_file(b_db, "b@h", T0);
	q = open_files(both, 2);
	kp_query_limit(q, S, -S, NULL);
	assert_int_equal(kp_query_sum(q, &all, &sum), KP_ETIMEOUT);
	assert_string_not_equal(kp_query_why(q), "");
	kp_query_close(q);
}

TESTS(setup_files, teardown)
