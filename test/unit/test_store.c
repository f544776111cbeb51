/*
 * The store on real files: what is written reads back to the last digit,
 * every way to open a file that is not ours is refused in words, and a
 * run's end is known.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "store_fixture.h"

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

/* SQLite would keep these in memory, or wait; a device would be written to. */
TEST(test_not_for_db)
{
	char name[] = "/tmp/test_store.XXXXXX", fifo[64];

	refused(":memory:", "in memory");
	refused("file:x.db", "URI");
	refused("/dev/null", "it is a device, not a file");
	query_refused("/dev/null", "it is a device, not a file");
	assert_non_null(mkdtemp(name));
	refused(name, "it is a directory, not a file");
	snprintf(fifo, sizeof(fifo), "%s/fifo", name);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	refused(fifo, "it is a FIFO, not a file");
	query_refused(fifo, "it is a FIFO, not a file");
	assert_int_equal(unlink(fifo), 0);
	assert_int_equal(rmdir(name), 0);
}

TEST(test_views)
{
	struct kp_happening h = { .at = T0, .node = "a@h", .kind = "trip",
		.text = "queue 20001" };
	struct kp_store *s = open_store();

	kp_store_happening(s, &h);
	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	/*
	 * By a second connection, while the first is open.  Percentiles are
	 * the middle of a bucket, but never outside of min .. max.
	 */
	assert_sql("select * from tier_stats"
	    " where tier = 'db' and identity = 'create'",
	    "2023-11-14T22:13:20.123Z|2023-11-14T22:13:30.123Z|a@h|db|create|"
	    "20|30|11|44|55|66|1234.568|61.728|234.568|1000.0|50.0|0.07|"
	    "23.457|23.457|99.571|99.571|99.571|100.0|2|3|0.07|0.004|10|20|"
	    "0|0|0|null|null|null|null|null");
	assert_sql("select tier, identity from tier_stats",
	    "_total|_total\n_total|create\ndb|_total\ndb|create");
	assert_sql("select total_ns, w_total_ns, self_ns,"
	    " w_self_ns, busy_ns, w_busy_ns, async_ns, w_async_ns, min_ns,"
	    " max_ns, raised, w_raised, timed, w_timed from stat limit 1",
	    "123456789|1234567890|23456789|234567890|100000001|1000000010|"
	    "7000|70000|23456789|100000000|1|11|2|20");
	assert_sql("select identity, requests, errors, unfinished, mean_ms,"
	    " p99_ms, self_ms from request_stats",
	    "_total|20|11|44|61.728|99.571|234.568\n"
	    "create|20|11|44|61.728|99.571|234.568");
	assert_sql("select * from losses",
	    "2023-11-14T22:13:20.123Z|2023-11-14T22:13:30.123Z|a@h|"
	    "sampled_out|90|requests|passed over by sampling; the others stand "
	    "for them");
	assert_sql("select * from events",
	    "2023-11-14T22:13:20.123Z|a@h|trip|queue 20001");
	assert_sql("select run, ended, state, version, interval_s from runs",
	    "1|null|running|0.1.0|10.0");
	assert_sql("select name, position from tier order by position",
	    "_total|0\nweb|1\ndb|2");
	kp_store_close(s);
}

/* 0 errors is said only where nothing is unseen: as kp_cell_unseen() has it. */
TEST(test_errors_not_seen)
{
	static const struct {
		const char *figures, *errors;
	} v[] = {
		{ "w_raised = 0, w_unknown_outcomes = 0, w_ambiguous = 0,"
		    " w_unfinished = 2", "0" },
		{ "w_unfinished = w_calls", "null" },
		{ "w_calls = 0, w_unfinished = 0", "0" },
		{ "w_ambiguous = 1", "null" },
		{ "w_ambiguous = 0, w_unknown_outcomes = 1, w_calls = 3",
		    "null" },
		{ "w_raised = 1", "1" },
	};
	struct kp_store *s = open_store();
	char set[128];

	kp_store_window(s, known_window("a@h", T0));
	kp_store_close(s);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(set, sizeof(set), "update stat set %s", v[i].figures);
		sql_exec(set);
		assert_sql("select errors from request_stats"
		    " where identity = 'create'", v[i].errors);
	}
}

/* Windows of before and after have the names they had. */
TEST(test_another_conf)
{
	struct kp_tier other[] = { { .name = "db" }, { .name = "cache" } };
	const struct kp_conf next = { .tiers = other, .ntiers = 2 };
	struct kp_store *s = open_store();

	kp_store_window(s, known_window("a@h", T0));
	kp_store_conf(s, &next, "[{db, {db, all, 1}}].");
	kp_store_window(s, known_window("a@h", T0 + 10 * S));
	assert_true(sync_store(s));
	assert_sql("select name, position from tier order by position is null,"
	    " position", "_total|0\ndb|1\ncache|2\nweb|null");
	assert_sql("select tiers_conf from run", "[{db, {db, all, 1}}].");
	assert_sql("select count(*) from time_window", "2");
	kp_store_close(s);
}

/* What a tier's calls raise after a request's end is no error of the request. */
TEST(test_errors_after_the_end)
{
	static const char *const want[] = { "", "164|0|839", "164|7|839",
		"null|839|839" };
	struct kp_store *s = open_store();
	struct kp_window *w;
	struct kp_cell *c;

	for (size_t i = 1; i < 4; i++) {
		w = new_window("a@h", T0 + (int64_t)i * 10 * S, 2);
		for (size_t k = 0; k < 2; k++) {
			c = &w->cells[k];
			c->tier = k == 0 ? "_total" : "db";
			c->identity = "create";
			c->w_async_calls = 839;
			c->w_async_raised = i < 3 ? 164 : 0;
			c->w_async_unknown = i == 1 ? 0 : i == 2 ? 7 : 839;
		}
		kp_store_window(s, w);
	}
	kp_store_close(s);
	for (size_t i = 1; i < 4; i++) {
		char text[200];

		snprintf(text, sizeof(text), "select raised, async_unknown,"
		    " async_calls from tier_stats where tier = 'db'"
		    " limit 1 offset %zu", i - 1);
		assert_sql(text, want[i]);
	}
	assert_sql("select distinct raised from tier_stats where tier ="
	    " '_total'", "0");
}

/* A tier that only late calls have reached has no times at all. */
TEST(test_untimed_cell)
{
	struct kp_store *s = open_store();
	struct kp_window *w = new_window("a@h", T0, 1);

	w->cells[0].tier = "db";
	w->cells[0].identity = "create";
	w->cells[0].async_calls = 1;
	kp_store_window(s, w);
	kp_store_close(s);
	assert_sql("select mean_ms, busy_per_request_ms, min_ms, p50_ms,"
	    " p99_ms, max_ms from tier_stats", "null|null|null|null|null|null");
	assert_sql("select hist from stat", "null");
}

TEST(test_close_leaves_one_file)
{
	mode_t old = umask(0);
	struct kp_store *s = open_store();
	unsigned char head[100];
	struct stat sb;
	char wal[128];
	int fd;

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
	assert_sql("select state from runs", "clean");
	assert_sql("pragma integrity_check", "ok");
	assert_sql("pragma foreign_key_check", "");

	s = open_store();
	kp_store_close(s);
	assert_sql("select run, state from runs", "1|clean\n2|clean");
	assert_sql("select count(*) from events", "0");
}

/* kill -9: what was synced is there, and the next run says what happened. */
TEST(test_unclean_end)
{
	static char db1[1 << 20], db2[1 << 20], wal1[1 << 20], wal2[1 << 20];
	struct kp_query_events e;
	struct kp_query_runs r;
	struct kp_query_sum sum;
	struct kp_query *q;
	struct kp_store *s;
	size_t ndb, nwal;
	pid_t pid = fork();

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
	assert_fields(r, IS(n, 2) IS(v[0].state, KP_RUN_RUNNING)
	    IS(v[1].state, KP_RUN_UNCLEAN) IS(v[1].ended, T0 + 10 * S)
	    IS(v[1].tiers_text, "[{db, {db, query, 2}}]."));
	kp_query_runs_free(&r);
	assert_int_equal(kp_query_events(q, &all, 10, &e), KP_OK);
	assert_fields(e, IS(n, 1) IS(v[0].run, 1) IS(v[0].kind, "unclean_end")
	    IS(v[0].text, "run 1 of kprofd did not end well; its last window ended 2023-11-14T22:13:30Z"));
	kp_query_events_free(&e);
	kp_query_close(q);
	kp_store_close(s);
	assert_false(exists("-wal"));
}

/* The latest run's failure, of how many runs. */
static size_t
failed_runs(char why[64])
{
	struct kp_query *q = open_query();
	struct kp_query_runs r;
	size_t n;

	assert_int_equal(kp_query_runs(q, 10, &r), KP_OK);
	n = r.n;
	snprintf(why, 64, "%s", r.v[0].failed);
	kp_query_runs_free(&r);
	kp_query_close(q);
	return n;
}

/*
 * A run that never began leaves no file that it made; where there was one, or
 * it is to be kept, the run says so in it, once for all that failed alike.
 */
TEST(test_failed)
{
	struct kp_store *s = open_store();
	char why[64];

	assert_true(exists("-wal"));
	kp_store_failed(s, "no node", false);
	kp_store_close(s);
	assert_false(exists(""));
	assert_false(exists("-wal"));
	assert_false(exists("-shm"));

	s = open_store();
	kp_store_failed(s, "no node", true);
	kp_store_close(s);
	assert_int_equal(failed_runs(why), 1);
	assert_string_equal(why, "no node");
	for (int i = 0; i < 3; i++) {
		s = open_store();
		kp_store_failed(s, i == 0 ? "no cookie (a@h is there)" :
		    i == 1 ? "no cookie (b@h is there)" : "no cookie", false);
		kp_store_close(s);
	}
	assert_int_equal(failed_runs(why), 2);
	assert_string_equal(why, "no cookie");
	kp_store_close(open_store());
	assert_int_equal(failed_runs(why), 3);
	assert_string_equal(why, "");
}

TEST(test_refusals)
{
	static char junk[8192];
	char file[128];
	struct kp_store *s;

	snprintf(file, sizeof(file), "%s/no/k.db", dir);
	refused(file, "/no does not exist (make it");
	query_refused(file, "/no does not exist (name");
	snprintf(file, sizeof(file), "%s/no.db", dir);
	query_refused(file, "no such file");
	refused(dir, "is a directory");
	query_refused(dir, "is a directory");
	refused("/proc/k.db", "cannot ");

	memset(junk, 'x', sizeof(junk));
	write_file(path, junk, sizeof(junk));
	refused(path, "not a database");
	query_refused(path, "not a database");
	snprintf(file, sizeof(file), "%s/k.db/k.db", dir);
	refused(file, "/k.db is not a directory");
	query_refused(file, "/k.db is not a directory");
	assert_int_equal(unlink(path), 0);

	write_file(path, "", 0);
	query_refused(path, "nothing in it");
	s = open_store();	/* an empty file will do */
	refused(path, "another kprofd");
	kp_store_close(s);

	sql_exec("pragma user_version = 99");
	refused(path, "newer kprofd");
	query_refused(path, "newer kprofd");
	sql_exec("pragma user_version = 2; pragma application_id = 7");
	refused(path, "not a kprofd database");
	query_refused(path, "not a kprofd database");
	assert_sql("select state from runs", "clean");
}

/* A database of before is neither read nor written, and stays as it is. */
TEST(test_older_schema)
{
	static char before[1 << 20], after[1 << 20];
	char words[256];
	size_t n;

	kp_store_close(open_store());
	sql_exec("pragma user_version = 9");
	n = slurp("", before, sizeof(before));
	snprintf(words, sizeof(words), "cannot open '%s': written by an older "
	    "kprofd (its schema is 9, this program knows 12; keep it and begin "
	    "a new one with kprofd -db)", path);
	refused(path, words);
	query_refused(path, words);
	assert_int_equal(slurp("", after, sizeof(after)), n);
	assert_memory_equal(before, after, n);
	assert_false(exists("-wal"));
}

TEST(test_a_thousand_series)
{
	static char names[1000][16];
	struct kp_window *w = new_window("a@h", T0, 1000);
	struct kp_store *s = open_store();
	kp_mono_ns before;

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
	assert_sql("select count(*) from stat", "1000");
}

/* A refused start leaves no half-made file behind. */
TEST(test_corrupt)
{
	static char bytes[1 << 20];
	struct kp_store *s = open_store();
	size_t n;

	kp_store_close(s);
	n = slurp("", bytes, sizeof(bytes));
	/* the first page holds the schema; keep the header */
	memset(bytes + 100, 0xa5, 3000);
	write_file(path, bytes, n);
	refused(path, "damaged");
	query_refused(path, "damaged");
}

TESTS(setup, teardown)
