/*
 * Whatever happens to the disk or to the file while kprofd writes: survived,
 * counted and said.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "store/db.h"
#include "store_fixture.h"

static struct kp_store_status
status(struct kp_store *s)
{
	struct kp_store_status st;

	kp_store_status(s, &st);
	return st;
}

/* Waits until what was queued is on disk, at last. */
static void
sync_at_last(struct kp_store *s)
{
	while (!sync_store(s))
		usleep(50000);
}

/* What must be true of the sums, whatever happened: 100 entry calls came with
   each window, 90 of them sampled out. */
static void
assert_balance(int windows)
{
	struct kp_query *q = open_query();
	struct kp_query_sum sum;
	uint64_t unwritten;

	assert_int_equal(kp_query_sum(q, &all, &sum), KP_OK);
	unwritten = sum.losses.n[KP_LOSS_UNWRITTEN];
	assert_int_equal(sum.entry_calls, 100 * windows);
	assert_int_equal(sum.losses.n[KP_LOSS_SAMPLED_OUT], 90 * windows);
	assert_int_equal(sum.sampled + unwritten, 10 * windows);
	assert_int_equal(sum.losses.n[KP_LOSS_STORE],
	    unwritten / 10 * KNOWN_ROWS);
	kp_query_sum_free(&sum);
	kp_query_close(q);
	assert_sql("pragma integrity_check", "ok");
	assert_sql("pragma foreign_key_check", "");
}

/* A table that is gone under the writer's feet will not come back. */
TEST_WITH(test_lasting_error, setup, teardown)
{
	struct kp_store *s = open_store();

	sql_exec("drop table stat");
	kp_store_window(s, known_window("a@h", T0));
	assert_false(sync_store(s));
	assert_int_equal(status(s).dropped[KP_STORE_REFUSED], KNOWN_ROWS);
	assert_has(status(s).why, "no such table");
	assert_sql("select count(*) from time_window", "0");
	assert_int_equal(kp_store_close(s), KNOWN_ROWS);
	assert_sql("select kind, text from events",
	    "store_loss|6 rows could not be written before the end of the run:"
	    " no such table: stat");
}

/* Another process has the lock; LOCK_S says for how long, 60 for the night,
   from when the writer was seen to be stuck by it. */
TEST_WITH(test_locked, setup, teardown)
{
	const char *given = getenv("LOCK_S");
	unsigned seconds = given != NULL ? (unsigned)atoi(given) : 3;
	int go[2], ready[2], st, i = 0;
	struct kp_store *s;
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(ready), 0);
	/* Before there is a writer, which may have SQLite's own locks. */
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &st, 1) != 1)
			_exit(1);
		lock_db();
		if (write(ready[1], "x", 1) == 1 && read(go[0], &st, 1) == 1)
			sleep(seconds);
		_exit(0);
	}
	s = open_store();
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(read(ready[0], &st, 1), 1);
	kp_store_window(s, known_window("a@h", T0));
	/* who waits for the disk is told, instead of waiting too */
	assert_false(sync_store(s));
	assert_true(status(s).stuck);
	assert_int_equal(status(s).windows, 1);
	assert_has(status(s).why, "locked");
	assert_int_equal(write(go[1], "x", 1), 1);
	while (waitpid(pid, &st, WNOHANG) == 0) {
		if (++i < 100)
			kp_store_window(s, known_window("a@h", T0 + i * S));
		usleep(100000);
	}
	sync_at_last(s);
	assert_false(status(s).stuck);
	assert_int_equal(dropped(s), 0);
	kp_store_close(s);
	assert_balance(i < 100 ? i + 1 : 100);
	close(go[0]);
	close(go[1]);
	close(ready[0]);
	close(ready[1]);
}

/*
 * What does not fit in the queue is counted by what stopped the writer, and
 * told once, with a window of that node which is written afterwards.
 */
TEST_WITH(test_full_queue, setup, teardown)
{
	struct kp_happening h = { .at = T0, .node = "a@h", .kind = "trip" };
	struct kp_store *s = open_store();
	sqlite3 *db = lock_db();
	int n = KP_STORE_QUEUE_MAX + 3;

	kp_store_window(s, known_window("a@h", T0));
	assert_false(sync_store(s));
	for (int i = 1; i < n; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	kp_store_window(s, known_window("b@h", T0));
	/* others have room still */
	kp_store_happening(s, &h);
	assert_int_equal(dropped(s), 4 * KNOWN_ROWS);
	assert_int_equal(status(s).dropped[KP_STORE_LOCKED], 4 * KNOWN_ROWS);
	assert_int_equal(status(s).windows, KP_STORE_QUEUE_MAX);
	sqlite3_close(db);
	sync_at_last(s);
	assert_balance(n);
	assert_sql("select node, lost, unit from losses where cause = 'store'",
	    "a@h|18|rows");
	/* that node's comes with its own next */
	kp_store_window(s, known_window("b@h", T0 + 10 * S));
	kp_store_close(s);
	assert_balance(n + 2);
	assert_sql("select node, lost from losses where cause = 'unwritten'",
	    "a@h|30\nb@h|10");
	assert_sql("select kind, text from events where kind <> 'trip'",
	    "store_loss|18 rows could not be written: database is locked\n"
	    "store_loss|6 rows could not be written: database is locked");
}

/* Closing does not hang for ever on a database that stays locked. */
TEST_WITH(test_close_while_locked, setup, teardown)
{
	struct kp_store *s = open_store();
	sqlite3 *db = lock_db();

	kp_store_window(s, known_window("a@h", T0));
	kp_store_close(s);
	sqlite3_close(db);
	assert_sql("select count(*) from time_window", "0");
	s = open_store();
	kp_store_close(s);
	assert_sql("select state from runs", "unclean\nclean");
}

/* A file that cannot grow is what a full disk looks like. */
TEST_WITH(test_file_limit, setup, teardown)
{
	struct kp_store *s = open_store();
	struct rlimit old, tight;

	assert_true(sync_store(s));
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = old;
	tight.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	for (int i = 0; i < 10; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	assert_false(sync_store(s));
	/* it was told as "disk I/O error", which asks for another disk */
	assert_has(status(s).why, "full: a file may not be larger");
	assert_int_equal(dropped(s), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	sync_at_last(s);
	assert_int_equal(dropped(s), 0);
	kp_store_close(s);
	assert_balance(10);
}

/* Makes dir a file system of its own, of 1 MiB. */
static void
small_disk(void)
{
	if (mount("tmpfs", dir, "tmpfs", 0, "size=1m") == 0)
		return;
	if (errno == EPERM)
		skip();		/* not root */
	fail_msg("mount: %s", strerror(errno));
}

static void
fill_disk(const char *file)
{
	static const char block[4096] = { 1 };
	int fd = open(file, O_WRONLY | O_CREAT, 0600);

	while (write(fd, block, sizeof(block)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

/* The real thing: what waits is written when there is room again. */
TEST_WITH(test_disk_full, setup, teardown)
{
	char big[128];
	struct kp_store *s;

	small_disk();
	s = open_store();
	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	snprintf(big, sizeof(big), "%s/big", dir);
	fill_disk(big);
	for (int i = 1; i < 20; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	while (sync_store(s))
		kp_store_window(s, known_window("b@h", T0));
	assert_true(status(s).stuck);
	assert_has(status(s).why, "full");
	assert_int_equal(dropped(s), 0);
	/* readers are not hindered, nor is what was there harmed */
	assert_sql("pragma integrity_check", "ok");
	unlink(big);
	sync_at_last(s);
	assert_int_equal(dropped(s), 0);
	kp_store_close(s);
	assert_sql("select count(*) from time_window w join node n on n.id ="
	    " w.node_id where n.name = 'a@h'", "20");
	assert_sql("pragma integrity_check", "ok");
	assert_int_equal(umount(dir), 0);
}

static void
rename_db(const char *suffix, const char *to)
{
	char from[128], name[128];

	snprintf(from, sizeof(from), "%s%s", path, suffix);
	snprintf(name, sizeof(name), "%s/%s", dir, to);
	assert_int_equal(rename(from, name), 0);
}

/*
 * Moved away, as by hand or by logrotate: the old file is complete where it
 * is now, and a new one is begun under the name.
 */
TEST_WITH(test_moved, setup, teardown)
{
	struct kp_store *s = open_store();
	char was[96];

	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	kp_store_window(s, known_window("a@h", T0 + 10 * S));
	assert_true(sync_store(s));
	rename_db("", "old.db");
	kp_store_window(s, known_window("a@h", T0 + 20 * S));
	assert_true(sync_store(s));
	assert_int_equal(dropped(s), 0);
	assert_balance(1);
	assert_sql("select kind from events", "db_moved");
	kp_store_close(s);
	assert_sql("select position, name from tier order by 1",
	    "0|_total\n1|web\n2|db");
	memcpy(was, path, sizeof(was));
	snprintf(path, sizeof(path), "%s/old.db", dir);
	assert_balance(2);
	assert_sql("select state from runs", "clean");
	memcpy(path, was, sizeof(was));
}

static void
unlink_db(const char *suffix)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	assert_int_equal(unlink(name), 0);
}

/* Deleted: with its WAL, without it, or only that. */
TEST_WITH(test_deleted, setup, teardown)
{
	static const char *const which[][4] = { { "", "-wal", "-shm" },
		{ "" }, { "-wal" }, { "", "-wal" } };
	/* without the WAL alone nothing is gone */
	static const int left[] = { 1, 1, 3, 1 };
	struct kp_store *s = open_store();

	for (size_t i = 0; i < 4; i++) {
		kp_store_window(s, known_window("a@h", T0));
		assert_true(sync_store(s));
		for (size_t k = 0; which[i][k] != NULL; k++)
			unlink_db(which[i][k]);
		kp_store_window(s, known_window("a@h", T0 + 20 * S));
		assert_true(sync_store(s));
		assert_int_equal(dropped(s), 0);
		assert_balance(left[i]);
	}
	kp_store_close(s);
	assert_false(exists("-wal"));
	assert_balance(1);
}

/* Replaced by one that is ours: it goes on in that. */
TEST_WITH(test_replaced, setup, teardown)
{
	struct kp_store *s = open_store();
	char junk[8192], other[128];

	kp_store_window(s, known_window("a@h", T0));
	kp_store_close(s);
	rename_db("", "copy.db");
	s = open_store();
	kp_store_window(s, known_window("a@h", T0 + 10 * S));
	kp_store_window(s, known_window("a@h", T0 + 20 * S));
	assert_true(sync_store(s));
	snprintf(other, sizeof(other), "%s/copy.db", dir);
	assert_int_equal(rename(other, path), 0);
	kp_store_window(s, known_window("a@h", T0 + 30 * S));
	assert_true(sync_store(s));
	assert_balance(2);

	/* or by something else: nothing is written till that is gone */
	memset(junk, 'x', sizeof(junk));
	write_file(other, junk, sizeof(junk));
	assert_int_equal(rename(other, path), 0);
	kp_store_window(s, known_window("a@h", T0 + 40 * S));
	assert_false(sync_store(s));
	assert_has(status(s).why, "not a database");
	assert_int_equal(slurp("", other, 1), 1);
	assert_int_equal(other[0], 'x');
	unlink_db("");
	sync_at_last(s);
	assert_int_equal(dropped(s), 0);
	kp_store_close(s);
	assert_balance(1);
}

static void
cut_db(const char *suffix, off_t size)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	assert_int_equal(truncate(name, size), 0);
}

/*
 * Truncated, as by a log rotation that copies: kprofd went on in the WAL, and
 * ended with 0 and a database that was empty or damaged.  Its own windows of
 * this run are lost, which is said, and nothing that comes after.
 */
TEST_WITH(test_truncated, setup, teardown)
{
	static const off_t sizes[] = { 0, 10, 4096, 3 * 4096, 5000 };
	struct kp_store *s = open_store();
	uint64_t rows = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		/* the second time all that it has is in the WAL */
		for (int k = 0; k < 3; k++)
			kp_store_window(s, known_window("a@h", T0 + k * S));
		rows += (i == 0 ? 3 : 4) * KNOWN_ROWS;
		assert_true(sync_store(s));
		cut_db("", sizes[i]);
		kp_store_window(s, known_window("a@h", T0 + 20 * S));
		assert_true(sync_store(s));
		assert_balance(1);
		assert_int_equal(status(s).begun, i + 1);
		assert_true(status(s).begun_lost);
		assert_int_equal(status(s).dropped[KP_STORE_TRUNCATED], rows);
		assert_sql("select kind from events", "db_truncated");
		assert_has(sql_text("select text from events"),
		    i == 0 ? ": 3 windows of this run are lost" :
		    ": 4 windows of this run are lost");
		assert_int_equal(exists(".truncated"), sizes[i] > 0);
		if (sizes[i] > 0)
			unlink_db(".truncated");
	}
	/* and with nothing to write any more */
	cut_db("", 0);
	kp_store_stop(s);
	assert_int_equal(status(s).begun, sizeof(sizes) / sizeof(sizes[0]) + 1);
	kp_store_close(s);
	assert_balance(0);
	assert_sql("select kind from events", "db_truncated");
	assert_sql("select state from runs", "clean");
}

/*
 * Under a symbolic link: the link itself was deleted or renamed instead, the
 * next file was made in its place, and the WAL stayed beside the last one.
 */
TEST_WITH(test_symlink, setup, teardown)
{
	static const off_t sizes[] = { 0, 5000 };
	char real[128], name[160];
	struct kp_store *s;
	struct stat st;

	snprintf(real, sizeof(real), "%s/real.db", dir);
	assert_int_equal(symlink("real.db", path), 0);
	s = open_store();
	for (size_t i = 0; i < 2; i++) {
		kp_store_window(s, known_window("a@h", T0));
		assert_true(sync_store(s));
		cut_db("", sizes[i]);
		kp_store_window(s, known_window("a@h", T0 + 20 * S));
		assert_true(sync_store(s));
		assert_int_equal(status(s).begun, i + 1);
		assert_int_equal(lstat(path, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_balance(1);
		snprintf(name, sizeof(name), "%s.truncated", real);
		assert_int_equal(access(name, F_OK) == 0, sizes[i] > 0);
	}
	/* what it leads to is deleted: that is made again */
	assert_int_equal(unlink(real), 0);
	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	assert_false(status(s).begun_lost);
	kp_store_close(s);
	assert_int_equal(lstat(real, &st), 0);
	assert_balance(1);
}

/* What is left cannot have another name: that is not said then. */
TEST_WITH(test_truncated_stays, setup, teardown)
{
	struct kp_store *s = open_store();
	char name[128];

	snprintf(name, sizeof(name), "%s.truncated", path);
	assert_int_equal(mkdir(name, 0700), 0);
	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	cut_db("", 5000);
	kp_store_window(s, known_window("a@h", T0 + 20 * S));
	assert_false(sync_store(s));
	unlink_db("");
	sync_at_last(s);
	assert_lacks(status(s).begun_why, "has the name");
	kp_store_close(s);
	assert_balance(1);
}

/* It shrinks by itself, when what is too old goes. */
TEST_WITH(test_shrunk, setup, teardown)
{
	struct kp_store *s = open_store();
	struct stat before, after;

	for (int i = 0; i < 200; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	assert_true(sync_store(s));
	assert_int_equal(stat(path, &before), 0);
	/* by another program, with its checkpoint, which waits for the upkeep */
	sql_exec("pragma busy_timeout = 10000; pragma foreign_keys = on;"
	    "delete from time_window where id > 1;"
	    "pragma incremental_vacuum; pragma wal_checkpoint(full)");
	assert_int_equal(stat(path, &after), 0);
	assert_true(after.st_size < before.st_size);
	kp_store_window(s, known_window("a@h", T0 + 10 * S));
	assert_true(sync_store(s));
	assert_int_equal(status(s).begun, 0);
	kp_store_close(s);
	assert_balance(2);
}

/* A name that leads to itself leads nowhere: what was written is lost to all. */
TEST_WITH(test_symlink_to_itself, setup, teardown)
{
	struct kp_store *s = open_store();

	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	rename_db("", "old.db");
	assert_int_equal(symlink("k.db", path), 0);
	kp_store_window(s, known_window("a@h", T0 + 10 * S));
	assert_false(sync_store(s));
	assert_true(status(s).stuck);
	assert_has(status(s).why, "symbolic links");
	unlink_db("");
	sync_at_last(s);
	assert_int_equal(dropped(s), 0);
	assert_int_equal(status(s).begun, 1);
	assert_false(status(s).begun_lost);
	kp_store_close(s);
	assert_balance(1);
}

/* The directory is gone for good: closing ends, and says what is lost. */
TEST_WITH(test_nowhere, setup, teardown)
{
	struct kp_store *s = open_store();
	char away[128];

	snprintf(away, sizeof(away), "%s.away", dir);
	assert_int_equal(rename(dir, away), 0);
	kp_store_window(s, known_window("a@h", T0));
	assert_false(sync_store(s));
	assert_has(status(s).why, "does not exist");
	kp_store_close(s);
	assert_int_equal(rename(away, dir), 0);
	assert_sql("select count(*) from time_window", "0");
}

/* Damaged under the writer's feet: what comes waits for a file that is not. */
TEST_WITH(test_damaged, setup, teardown)
{
	struct kp_store *s = open_store();

	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	sql_exec("pragma writable_schema = on;"
	    "update sqlite_schema set rootpage = 99999 where name = 'stat';"
	    "pragma schema_version = 1000");
	kp_store_window(s, known_window("a@h", T0 + 10 * S));
	assert_false(sync_store(s));
	assert_true(status(s).stuck);
	assert_has(status(s).why, "malformed");
	assert_int_equal(dropped(s), 0);
	rename_db("", "damaged.db");
	sync_at_last(s);
	assert_int_equal(dropped(s), 0);
	kp_store_close(s);
	assert_balance(1);
}

/* Nodes whose names are new every time: what has been told makes room. */
TEST(test_many_nodes)
{
	struct drop_counts l = { 0 };
	struct drop_counts_node told;
	char name[32];

	drop_counts_add(&l, "stays", 7, NULL);
	for (int i = 0; i < 2 * DROP_COUNTS_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "app@10.0.0.%d", i);
		drop_counts_add(&l, name, 3, NULL);
		told = *drop_counts_find(&l, name);
		drop_counts_add(&l, name, 2, NULL);
		drop_counts_reported(&l, &told);
		assert_int_equal(drop_counts_find(&l, name)->rows, 2);
		told = *drop_counts_find(&l, name);
		drop_counts_reported(&l, &told);
		assert_null(drop_counts_find(&l, name));
	}
	assert_int_equal(drop_counts_find(&l, "stays")->rows, 7);
	assert_int_equal(drop_counts_rows(&l), 7);
	drop_counts_free(&l);
}

TESTS(NULL, NULL)
