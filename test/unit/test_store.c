/*
 * The store on real files: what is written reads back to the last digit, a
 * reader may look while it is written, and whatever happens to the disk or
 * the file is survived, counted and said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/query.h"
#include "store/schema.h"
#include "store/store.h"

#define T0 INT64_C(1700000000123000000)	/* 2023-11-14T22:13:20.123Z */
#define S KP_NS_PER_S

static char dir[64], path[96];
static struct kp_tier tiers[] = { { .name = "web" }, { .name = "db" } };
static const struct kp_conf conf = { .tiers = tiers, .ntiers = 2 };

static int
setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_store.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/k.db", dir);
	return 0;
}

static int
teardown(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	return system(cmd);
}

static enum kp_err
try_open(struct kp_store **s, const char *file, char **why)
{
	const struct kp_store_opts o = { .path = file, .version = "0.1.0",
		.tiers_text = "[{db, {db, query, 2}}].", .conf = &conf,
		.interval = 10 * S };

	*why = NULL;
	return kp_store_open(s, &o, why);
}

static struct kp_store *
open_store(void)
{
	struct kp_store *s = NULL;
	char *why;

	if (try_open(&s, path, &why) != KP_OK)
		fail_msg("%s", why);
	return s;
}

struct waiter {
	sem_t sem;
	bool ok;
};

static void
synced(void *ctx, bool ok)
{
	struct waiter *w = ctx;

	w->ok = ok;
	sem_post(&w->sem);
}

static bool
sync_store(struct kp_store *s)
{
	struct waiter w;

	sem_init(&w.sem, 0, 0);
	kp_store_sync(s, synced, &w);
	sem_wait(&w.sem);
	sem_destroy(&w.sem);
	return w.ok;
}

static struct kp_window *
new_window(const char *node, kp_wall_ns start, size_t ncells)
{
	struct kp_window *w = calloc(1, sizeof(*w));

	w->node = node;
	w->start = start;
	w->end = start + 10 * S;
	w->entry_calls = 100;
	w->sampled = 10;
	w->ncells = ncells;
	w->cells = calloc(ncells, sizeof(*w->cells));
	for (size_t i = 0; i < ncells; i++)
		w->cells[i].min = -1;
	return w;
}

/* Figures that are all different, so that no two can be mixed up. */
static void
fill_cell(struct kp_cell *c, const char *tier, const char *identity)
{
	*c = (struct kp_cell){ .tier = tier, .identity = identity,
		.requests = 2, .w_requests = 20, .calls = 3, .w_calls = 30,
		.raised = 1, .w_raised = 11, .unfinished = 4,
		.w_unfinished = 44, .ambiguous = 5, .w_ambiguous = 55,
		.async_calls = 6, .w_async_calls = 66, .timed = 2,
		.w_timed = 20, .total = 123456789, .w_total = 1234567890,
		.self = 23456789, .w_self = 234567890, .busy = 100000001,
		.w_busy = 1000000010, .async = 7000, .w_async = 70000,
		.min = 23456789, .max = 100000000 };
	kp_hist_add(&c->hist, 23456789, 10);
	kp_hist_add(&c->hist, 100000000, 10);
}

static struct kp_window *
known_window(const char *node, kp_wall_ns start)
{
	struct kp_window *w = new_window(node, start, 4);

	fill_cell(&w->cells[0], "_total", "_total");
	fill_cell(&w->cells[1], "_total", "create");
	fill_cell(&w->cells[2], "db", "_total");
	fill_cell(&w->cells[3], "db", "create");
	w->losses.n[KP_LOSS_SAMPLED_OUT] = 90;
	return w;
}

/* All rows of a query: columns with '|', rows with newlines. */
static char *
sql_text(const char *sql)
{
	static char out[4096];
	sqlite3 *db;
	sqlite3_stmt *st;
	size_t n = 0;
	const char *v;
	int rc;

	out[0] = '\0';
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY,
	    NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 2000);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(st); i++) {
			v = (const char *)sqlite3_column_text(st, i);
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s",
			    i > 0 ? "|" : n > 0 ? "\n" : "", v ? v : "null");
			assert_true(n < sizeof(out));
		}
	}
	assert_int_equal(rc, SQLITE_DONE);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return out;
}

static void
sql_exec(const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 2000);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static struct kp_query *
open_query(void)
{
	struct kp_query *q = NULL;
	char *why;

	if (kp_query_open(&q, path, &why) != KP_OK)
		fail_msg("%s", why);
	return q;
}

static const struct kp_query_range all = { .since = 0, .until = INT64_MAX };

static void
test_views(void **state)
{
	struct kp_happening h = { .at = T0, .node = "a@h", .kind = "trip",
		.text = "queue 20001" };
	struct kp_store *s = open_store();

	(void)state;
	kp_store_happening(s, &h);
	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	/*
	 * By a second connection, while the first is open.  Percentiles are
	 * the middle of a bucket, but never outside of min .. max.
	 */
	assert_string_equal(sql_text("select * from tier_stats"
	    " where tier = 'db' and identity = 'create'"),
	    "2023-11-14T22:13:20.123Z|2023-11-14T22:13:30.123Z|a@h|db|create|"
	    "20|30|11|44|55|66|1234.568|61.728|234.568|1000.0|50.0|0.07|"
	    "23.457|23.457|99.571|99.571|99.571|100.0|2|3");
	assert_string_equal(sql_text("select tier, identity from tier_stats"),
	    "_total|_total\n_total|create\ndb|_total\ndb|create");
	assert_string_equal(sql_text("select total_ns, w_total_ns, self_ns,"
	    " w_self_ns, busy_ns, w_busy_ns, async_ns, w_async_ns, min_ns,"
	    " max_ns, raised, w_raised, timed, w_timed from stat limit 1"),
	    "123456789|1234567890|23456789|234567890|100000001|1000000010|"
	    "7000|70000|23456789|100000000|1|11|2|20");
	assert_string_equal(sql_text("select identity, requests, errors,"
	    " unfinished, mean_ms, p99_ms, self_ms from request_stats"),
	    "_total|20|11|44|61.728|99.571|234.568\n"
	    "create|20|11|44|61.728|99.571|234.568");
	assert_string_equal(sql_text("select * from losses"),
	    "2023-11-14T22:13:20.123Z|2023-11-14T22:13:30.123Z|a@h|"
	    "sampled_out|90|requests|passed over by sampling");
	assert_string_equal(sql_text("select * from events"),
	    "2023-11-14T22:13:20.123Z|a@h|trip|queue 20001");
	assert_string_equal(sql_text("select run, ended, state, version,"
	    " interval_s from runs"), "1|null|running|0.1.0|10.0");
	assert_string_equal(sql_text("select name, position from tier"
	    " order by position"), "_total|0\nweb|1\ndb|2");
	kp_store_close(s);
}

/* Windows of before and after have the names they had. */
static void
test_another_conf(void **state)
{
	struct kp_tier other[] = { { .name = "db" }, { .name = "cache" } };
	const struct kp_conf next = { .tiers = other, .ntiers = 2 };
	struct kp_store *s = open_store();

	(void)state;
	kp_store_window(s, known_window("a@h", T0));
	kp_store_conf(s, &next, "[{db, {db, all, 1}}].");
	kp_store_window(s, known_window("a@h", T0 + 10 * S));
	assert_true(sync_store(s));
	assert_string_equal(sql_text("select name, position from tier"
	    " order by position is null, position"),
	    "_total|0\ndb|1\ncache|2\nweb|null");
	assert_string_equal(sql_text("select tiers_conf from run"),
	    "[{db, {db, all, 1}}].");
	assert_string_equal(sql_text("select count(*) from time_window"), "2");
	kp_store_close(s);
}

/* A tier that only late calls have reached has no times at all. */
static void
test_untimed_cell(void **state)
{
	struct kp_store *s = open_store();
	struct kp_window *w = new_window("a@h", T0, 1);

	(void)state;
	w->cells[0].tier = "db";
	w->cells[0].identity = "create";
	w->cells[0].async_calls = 1;
	kp_store_window(s, w);
	kp_store_close(s);
	assert_string_equal(sql_text("select mean_ms, busy_per_request_ms,"
	    " min_ms, p50_ms, p99_ms, max_ms from tier_stats"),
	    "null|null|null|null|null|null");
	assert_string_equal(sql_text("select hist from stat"), "null");
}

static bool
exists(const char *suffix)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return access(name, F_OK) == 0;
}

static void
test_close_leaves_one_file(void **state)
{
	mode_t old = umask(0);
	struct kp_store *s = open_store();
	unsigned char head[100];
	struct stat sb;
	char wal[128];
	int fd;

	(void)state;
	umask(077);
	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	assert_int_equal(stat(path, &sb), 0);
	assert_int_equal(sb.st_mode & 07777, 0640);
	snprintf(wal, sizeof(wal), "%s-wal", path);
	assert_int_equal(stat(wal, &sb), 0);
	assert_int_equal(sb.st_mode & 07777, 0640);
	kp_store_close(s);
	umask(old);
	assert_false(exists("-wal"));
	assert_false(exists("-shm"));
	assert_false(exists("-journal"));
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, head, sizeof(head)), sizeof(head));
	close(fd);
	/* read and write version 1: not WAL */
	assert_int_equal(head[18], 1);
	assert_int_equal(head[19], 1);
	assert_string_equal(sql_text("select state from runs"), "clean");
	assert_string_equal(sql_text("pragma integrity_check"), "ok");
	assert_string_equal(sql_text("pragma foreign_key_check"), "");

	s = open_store();
	kp_store_close(s);
	assert_string_equal(sql_text("select run, state from runs"),
	    "1|clean\n2|clean");
	assert_string_equal(sql_text("select count(*) from events"), "0");
}

static size_t
slurp(const char *suffix, char *out, size_t max)
{
	char name[128];
	size_t n;
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	f = fopen(name, "rb");
	assert_non_null(f);
	n = fread(out, 1, max, f);
	fclose(f);
	return n;
}

/* kill -9: what was synced is there, and the next run says what happened. */
static void
test_unclean_end(void **state)
{
	static char db1[1 << 20], db2[1 << 20], wal1[1 << 20], wal2[1 << 20];
	struct kp_query_events e;
	struct kp_query_runs r;
	struct kp_query_sum sum;
	struct kp_query *q;
	struct kp_store *s;
	size_t ndb, nwal;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		s = open_store();
		kp_store_window(s, known_window("a@h", T0));
		_exit(sync_store(s) ? 0 : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_true(exists("-wal"));

	ndb = slurp("", db1, sizeof(db1));
	nwal = slurp("-wal", wal1, sizeof(wal1));
	q = open_query();
	assert_int_equal(kp_query_sum(q, &all, &sum), KP_OK);
	assert_int_equal(sum.windows, 1);
	kp_query_sum_free(&sum);
	assert_int_equal(kp_query_runs(q, 10, &r), KP_OK);
	assert_int_equal(r.v[0].state, KP_RUN_RUNNING);
	kp_query_runs_free(&r);
	kp_query_close(q);
	/* reading has changed nothing */
	assert_int_equal(slurp("", db2, sizeof(db2)), ndb);
	assert_int_equal(slurp("-wal", wal2, sizeof(wal2)), nwal);
	assert_memory_equal(db1, db2, ndb);
	assert_memory_equal(wal1, wal2, nwal);

	s = open_store();
	q = open_query();
	assert_int_equal(kp_query_runs(q, 10, &r), KP_OK);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.v[0].state, KP_RUN_RUNNING);
	assert_int_equal(r.v[1].state, KP_RUN_UNCLEAN);
	assert_int_equal(r.v[1].ended, T0 + 10 * S);
	assert_string_equal(r.v[1].tiers_text, "[{db, {db, query, 2}}].");
	kp_query_runs_free(&r);
	assert_int_equal(kp_query_events(q, &all, 10, &e), KP_OK);
	assert_int_equal(e.n, 1);
	assert_int_equal(e.v[0].run, 1);
	assert_string_equal(e.v[0].kind, "unclean_end");
	assert_string_equal(e.v[0].text, "run 1 of kprofd did not end well; "
	    "its last window ended 2023-11-14T22:13:30Z");
	kp_query_events_free(&e);
	kp_query_close(q);
	kp_store_close(s);
	assert_false(exists("-wal"));
}

static void
write_file(const char *file, const char *bytes, size_t n)
{
	FILE *f = fopen(file, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void
refused(const char *file, const char *words)
{
	struct kp_store *s;
	char *why;

	assert_int_not_equal(try_open(&s, file, &why), KP_OK);
	assert_non_null(why);
	if (strstr(why, words) == NULL || strchr(why, '\n') != NULL ||
	    strstr(why, "-db") == NULL)
		fail_msg("'%s' is not about '%s'", why, words);
	free(why);
}

static void
query_refused(const char *file, const char *words)
{
	struct kp_query *q;
	char *why;

	assert_int_not_equal(kp_query_open(&q, file, &why), KP_OK);
	assert_non_null(why);
	if (strstr(why, words) == NULL || strchr(why, '\n') != NULL)
		fail_msg("'%s' is not about '%s'", why, words);
	free(why);
}

static void
test_refusals(void **state)
{
	static char junk[8192];
	char file[128];
	struct kp_store *s;

	(void)state;
	snprintf(file, sizeof(file), "%s/no/k.db", dir);
	refused(file, "no such directory");
	query_refused(file, "no such file");
	refused(dir, "is a directory");
	query_refused(dir, "is a directory");
	refused("/proc/k.db", "cannot ");

	memset(junk, 'x', sizeof(junk));
	write_file(path, junk, sizeof(junk));
	refused(path, "not a database");
	query_refused(path, "not a database");
	snprintf(file, sizeof(file), "%s/k.db/k.db", dir);
	refused(file, "no such directory");
	assert_int_equal(unlink(path), 0);

	write_file(path, "", 0);
	query_refused(path, "nothing in it");
	s = open_store();	/* an empty file will do */
	refused(path, "another kprofd");
	kp_store_close(s);

	sql_exec("pragma user_version = 2");
	refused(path, "newer kprofd");
	query_refused(path, "newer kprofd");
	sql_exec("pragma user_version = 1; pragma application_id = 7");
	refused(path, "not a kprofd database");
	query_refused(path, "not a kprofd database");
	assert_string_equal(sql_text("select state from runs"), "clean");
}

/* A refused start leaves no half-made file behind. */
static void
test_corrupt(void **state)
{
	static char bytes[1 << 20];
	struct kp_store *s = open_store();
	size_t n;

	(void)state;
	kp_store_close(s);
	n = slurp("", bytes, sizeof(bytes));
	/* the first page holds the schema; keep the header */
	memset(bytes + 100, 0xa5, 3000);
	write_file(path, bytes, n);
	refused(path, "damaged");
	query_refused(path, "damaged");
}

/* A table that is gone under the writer's feet will not come back. */
static void
test_lasting_error(void **state)
{
	struct kp_store *s = open_store();
	char why[128];

	(void)state;
	sql_exec("drop table stat");
	kp_store_window(s, known_window("a@h", T0));
	assert_false(sync_store(s));
	assert_int_equal(kp_store_dropped(s, why, sizeof(why)), 6);
	assert_non_null(strstr(why, "no such table"));
	assert_string_equal(sql_text("select count(*) from time_window"), "0");
	kp_store_close(s);
	assert_string_equal(sql_text("select kind, text from events"),
	    "store_loss|6 rows could not be written before the end of the "
	    "run");
}

static sqlite3 *
lock_db(void)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL,
	    NULL), SQLITE_OK);
	return db;
}

static void
test_locked_for_two_seconds(void **state)
{
	struct kp_store *s = open_store();
	sqlite3 *db = lock_db();
	char why[128];

	(void)state;
	kp_store_window(s, known_window("a@h", T0));
	/* who waits for the disk is told, instead of waiting too */
	assert_false(sync_store(s));
	usleep(2000000);
	assert_int_equal(kp_store_dropped(s, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "locked"));
	sqlite3_close(db);
	while (!sync_store(s))
		usleep(50000);
	assert_int_equal(kp_store_dropped(s, why, sizeof(why)), 0);
	kp_store_close(s);
	assert_string_equal(sql_text("select count(*) from stat"), "4");
}

static void
test_full_queue(void **state)
{
	struct kp_store *s = open_store();
	sqlite3 *db = lock_db();

	(void)state;
	for (int i = 0; i < KP_STORE_QUEUE_MAX + 3; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	assert_int_equal(kp_store_dropped(s, NULL, 0), 3 * 6);
	sqlite3_close(db);
	while (!sync_store(s))
		usleep(50000);
	kp_store_close(s);
	assert_string_equal(sql_text("select count(*) from time_window"), "64");
	/* told once, with a window that was written afterwards */
	assert_string_equal(sql_text("select lost, unit from losses"
	    " where cause = 'store'"), "18|rows");
}

/* Closing does not hang for ever on a database that stays locked. */
static void
test_close_while_locked(void **state)
{
	struct kp_store *s = open_store();
	sqlite3 *db = lock_db();

	(void)state;
	kp_store_window(s, known_window("a@h", T0));
	kp_store_close(s);
	sqlite3_close(db);
	assert_string_equal(sql_text("select count(*) from time_window"), "0");
	s = open_store();
	kp_store_close(s);
	assert_string_equal(sql_text("select state from runs"),
	    "unclean\nclean");
}

/* A file that cannot grow is what a full disk looks like. */
static void
test_disk_full(void **state)
{
	struct kp_store *s = open_store();
	struct rlimit old, tight;
	struct stat sb;

	(void)state;
	assert_true(sync_store(s));
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(stat(path, &sb), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = old;
	tight.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	for (int i = 0; i < 10; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	assert_false(sync_store(s));
	assert_int_equal(kp_store_dropped(s, NULL, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	while (!sync_store(s))
		usleep(50000);
	assert_int_equal(kp_store_dropped(s, NULL, 0), 0);
	kp_store_close(s);
	assert_string_equal(sql_text("select count(*) from time_window"), "10");
	assert_string_equal(sql_text("pragma integrity_check"), "ok");
}

static struct kp_tree *
new_tree(uint32_t ncalls)
{
	struct kp_tree *t = calloc(1, sizeof(*t) +
	    ncalls * sizeof(t->calls[0]));

	*t = (struct kp_tree){ .node = "a@h", .identity = "create",
		.label = UINT64_C(0x3ffffff00000001), .weight = 10,
		.start = T0, .total = 300 * KP_NS_PER_MS + 1,
		.outcome = KP_RAISED, .ncalls = ncalls };
	for (uint32_t i = 0; i < ncalls; i++) {
		t->calls[i] = (struct kp_tree_call){ .fn = "db:query/2",
			.tier = "db", .pid = "<0.1.0>", .total = 1000,
			.self = 500, .parent = KP_NONE,
			.outcome = KP_RETURNED, .start = i };
	}
	return t;
}

static void
test_tree(void **state)
{
	struct kp_store *s = open_store();
	struct kp_tree *t = new_tree(5);
	struct kp_query_requests slow;
	struct kp_query_tree tree;
	struct kp_query *q;

	(void)state;
	/* 0 has 1 and 3; 1 has 4; 2 stands alone */
	t->calls[0].fn = "web:handle/1";
	t->calls[0].tier = "";
	t->calls[1].parent = 0;
	t->calls[3].parent = 0;
	t->calls[4].parent = 1;
	t->calls[4].async = true;
	t->calls[4].outcome = KP_UNFINISHED;
	t->calls[4].total = t->calls[4].self = -1;
	kp_store_tree(s, t);
	assert_true(sync_store(s));
	assert_string_equal(sql_text("select seq, parent, start_ms, tier, call,"
	    " total_ms, self_ms, outcome, async from slow_calls"),
	    "0|null|0.0||web:handle/1|0.001|0.001|returned|\n"
	    "1|0|0.0|db|  db:query/2|0.001|0.001|returned|\n"
	    "2|1|0.0|db|    db:query/2|null|null|unfinished|async\n"
	    "3|0|0.0|db|  db:query/2|0.001|0.001|returned|\n"
	    "4|null|0.0|db|db:query/2|0.001|0.001|returned|");
	assert_string_equal(sql_text("select * from slow_requests"),
	    "1|2023-11-14T22:13:20.123Z|a@h|create|300.0|raised|5|"
	    "288230371856744449|null|10");

	q = open_query();
	assert_int_equal(kp_query_slow(q, &all, 10, &slow), KP_OK);
	assert_int_equal(slow.n, 1);
	assert_int_equal(slow.v[0].total, 300000001);
	assert_int_equal(kp_query_tree(q, slow.v[0].id, &tree), KP_OK);
	assert_int_equal(tree.ncalls, 5);
	assert_int_equal(tree.request.label, UINT64_C(0x3ffffff00000001));
	assert_int_equal(tree.calls[0].parent, KP_NONE);
	assert_string_equal(tree.calls[0].tier, "");
	assert_int_equal(tree.calls[2].parent, 1);
	assert_int_equal(tree.calls[2].depth, 2);
	assert_int_equal(tree.calls[2].total, -1);
	assert_true(tree.calls[2].async);
	assert_int_equal(tree.calls[2].start, 4);
	kp_query_tree_free(&tree);
	kp_query_requests_free(&slow);
	assert_int_equal(kp_query_tree(q, 77, &tree), KP_ENOENT);
	kp_query_close(q);
	kp_store_close(s);
}

/* What cannot happen still ends, and every call is stored once. */
static void
test_odd_trees(void **state)
{
	struct kp_store *s = open_store();
	struct kp_tree *t = new_tree(6);

	(void)state;
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
	assert_string_equal(sql_text("select request_id, seq, parent, start_ns"
	    " from call where request_id < 3 order by 1, 2"),
	    "1|0|null|3\n1|1|null|4\n1|2|null|0\n1|3|2|1\n1|4|3|2\n1|5|4|5\n"
	    "2|0|null|1\n2|1|0|0");
	assert_string_equal(sql_text("select count(*), max(depth) from call"
	    " where request_id = 3"), "5000|4999");
	assert_string_equal(sql_text("select calls, total_ms from"
	    " slow_requests where request = 4"), "0|null");
}

static void
test_sum(void **state)
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

	(void)state;
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

	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows, 31);
	assert_int_equal(sum.start, T0);
	assert_int_equal(sum.end, T0 + 310 * S);
	assert_int_equal(sum.entry_calls, 3100);
	assert_int_equal(sum.sampled, 310);
	assert_int_equal(sum.losses.n[KP_LOSS_SAMPLED_OUT], 31 * 90);
	assert_int_equal(sum.losses.n[KP_LOSS_EXPIRED], 2);
	assert_int_equal(sum.ncells, 5);
	assert_string_equal(sum.cells[0].tier, "_total");
	assert_string_equal(sum.cells[0].identity, "_total");
	assert_string_equal(sum.cells[1].identity, "create");
	assert_string_equal(sum.cells[2].tier, "db");
	assert_string_equal(sum.cells[4].tier, "gone");
	c = kp_query_cell(&sum, "db", "create");
	assert_int_equal(c->w_requests, 30 * 20);
	assert_int_equal(c->w_async_calls, 30 * 66);
	assert_int_equal(c->total, INT64_C(30) * 123456789);
	assert_int_equal(c->w_async, 30 * 70000);
	assert_int_equal(c->min, 23456789);
	assert_int_equal(c->max, 100000000);
	assert_int_equal(c->hist.count, 30 * 20);
	assert_null(kp_query_cell(&sum, "db", "nope"));
	kp_query_sum_free(&sum);

	r.node = "a@*";
	r.identity = "create";
	r.since = T0 + 10 * S;
	r.until = T0 + 50 * S;	/* windows 1 and 2 and 4 are a@h's */
	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows, 3);
	assert_int_equal(sum.ncells, 2);
	assert_int_equal(kp_query_cell(&sum, "db", "create")->calls, 9);
	kp_query_sum_free(&sum);
	r.identity = NULL;
	r.identity_glob = "cr*";
	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_int_equal(sum.ncells, 2);
	kp_query_sum_free(&sum);
	assert_int_equal(kp_query_nodes(q, &r, &nodes), KP_OK);
	assert_int_equal(nodes.n, 1);
	assert_string_equal(nodes.v[0], "a@h");
	kp_query_nodes_free(&nodes);
	r.node = NULL;
	assert_int_equal(kp_query_nodes(q, &r, &nodes), KP_OK);
	assert_int_equal(nodes.n, 2);
	assert_string_equal(nodes.v[1], "b@h");
	kp_query_nodes_free(&nodes);
	r.since = r.until = 0;
	assert_int_equal(kp_query_sum(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows + sum.ncells, 0);
	kp_query_sum_free(&sum);

	assert_int_equal(kp_query_tiers(q, &names), KP_OK);
	assert_int_equal(names.n, 3);
	assert_int_equal(names.current, 2);
	assert_string_equal(names.v[0], "web");
	assert_string_equal(names.v[2], "gone");
	kp_query_tiers_free(&names);
	kp_query_close(q);
	kp_store_close(s);
}

/* A file in WAL mode where nothing can be made beside it: a copy. */
static void
test_read_without_wal(void **state)
{
	static char bytes[1 << 20];
	struct kp_query_sum sum;
	struct kp_query *q;
	struct kp_store *s = open_store();
	char file[128];
	pid_t pid;
	size_t n;
	int status;

	(void)state;
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
static void
test_read_while_writing(void **state)
{
	struct kp_query_sum sum;
	struct kp_store *s = open_store();
	struct kp_query *q = open_query();

	(void)state;
	for (int i = 0; i < 100; i++) {
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
		assert_int_equal(kp_query_sum(q, &all, &sum), KP_OK);
		if (sum.windows > 0)
			assert_int_equal(kp_query_cell(&sum, "db",
			    "create")->calls, 3 * sum.windows);
		kp_query_sum_free(&sum);
		if (i % 20 == 0)
			assert_true(sync_store(s));
	}
	kp_query_close(q);
	kp_store_close(s);
	assert_string_equal(sql_text("select count(*) from time_window"),
	    "100");
}

static void
test_migration(void **state)
{
	static const struct schema_step good[] = {
		{ 1, "this has been done" },
		{ 2, "create table more (x); pragma user_version = 2" },
	};
	static const struct schema_step bad[] = {
		{ 3, "create table half (x); pragma user_version = 3; oops" },
	};
	struct kp_store *s = open_store();
	char *why = NULL;
	sqlite3 *db;

	(void)state;
	kp_store_close(s);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(schema_migrate(db, path, 1, good, 2, &why), KP_OK);
	assert_int_not_equal(schema_migrate(db, path, 2, bad, 1, &why), KP_OK);
	assert_non_null(why);
	free(why);
	sqlite3_close(db);
	assert_string_equal(sql_text("pragma user_version"), "2");
	assert_string_equal(sql_text("select name from sqlite_master"
	    " where name in ('more', 'half')"), "more");
}

static void
test_a_thousand_series(void **state)
{
	static char names[1000][16];
	struct kp_window *w = new_window("a@h", T0, 1000);
	struct kp_store *s = open_store();
	kp_mono_ns before;

	(void)state;
	for (size_t i = 0; i < 1000; i++) {
		snprintf(names[i], sizeof(names[i]), "id%zu", i);
		fill_cell(&w->cells[i], "db", names[i]);
		for (int k = 0; k < 300; k++)
			kp_hist_add(&w->cells[i].hist, 100000 * k, 1);
	}
	before = kp_mono_now();
	kp_store_window(s, w);
	assert_true(sync_store(s));
	print_message("1000 series on disk after %.1f ms\n",
	    (double)(kp_mono_now() - before) / 1e6);
	kp_store_close(s);
	assert_string_equal(sql_text("select count(*) from stat"), "1000");
}

/* Time that some node was measured counts once, gaps not at all. */
static void
test_cover(void **state)
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

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		w = known_window(t[i].node, T0 + t[i].at * S);
		w->end = T0 + t[i].until * S;
		kp_store_window(s, w);
	}
	assert_true(sync_store(s));
	q = open_query();
	assert_int_equal(kp_query_cover(q, &r, &sum), KP_OK);
	assert_int_equal(sum.windows, 6);
	assert_int_equal(sum.covered, 30 * S);
	assert_int_equal(sum.start, T0);
	assert_int_equal(sum.end, T0 + 50 * S);
	assert_int_equal(sum.losses.n[KP_LOSS_SAMPLED_OUT], 6 * 90);
	assert_int_equal(sum.ncells, 0);
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

/* A request's windows are those of its node in which it may have closed. */
static void
test_around(void **state)
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

	(void)state;
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
		assert_int_equal(sum.start, T0 + t[i].since * S);
		assert_int_equal(sum.end, T0 + t[i].until * S);
		assert_int_equal(sum.windows,
		    (t[i].until - t[i].since) / 10);
	}
	rq.start = INT64_MAX;
	rq.total = INT64_MAX;
	assert_int_equal(kp_query_around(q, &rq, &r), KP_OK);
	kp_query_close(q);
	kp_store_close(s);
}

#define ON_A_FILE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_FILE(test_views),
		ON_A_FILE(test_another_conf),
		ON_A_FILE(test_untimed_cell),
		ON_A_FILE(test_close_leaves_one_file),
		ON_A_FILE(test_unclean_end),
		ON_A_FILE(test_refusals),
		ON_A_FILE(test_corrupt),
		ON_A_FILE(test_lasting_error),
		ON_A_FILE(test_locked_for_two_seconds),
		ON_A_FILE(test_full_queue),
		ON_A_FILE(test_close_while_locked),
		ON_A_FILE(test_disk_full),
		ON_A_FILE(test_tree),
		ON_A_FILE(test_odd_trees),
		ON_A_FILE(test_sum),
		ON_A_FILE(test_cover),
		ON_A_FILE(test_around),
		ON_A_FILE(test_read_without_wal),
		ON_A_FILE(test_read_while_writing),
		ON_A_FILE(test_migration),
		ON_A_FILE(test_a_thousand_series),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
