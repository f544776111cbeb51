/*
 * db_file.c - opens the database file and starts a run of the daemon in it; ends
 * the run and closes the file; and detects that it was deleted, moved, replaced
 * or truncated meanwhile.
 *
 * A run that has no end when the next one starts did not end cleanly: no other
 * process can be writing, since schema_open() holds the lock.
 *
 * When the file was moved or deleted, SQLite goes on writing to its open file; and it
 * would apply a WAL under the old name to the next file, and damage that.  So
 * the writer checks before every batch whether the names still lead to the open
 * files.
 *
 * SQLite does not detect that a file was truncated, for example by a log
 * rotation that copies: it goes on in the WAL, later writes pages of it into
 * the empty file, and all other pages are lost.  So the writer checks for that
 * too, and also before each checkpoint, which hides it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db.h"
#include "schema.h"
#include "text/text.h"

/* ---- whether it is still there ---- */

/*
 * Returns the name of the file itself; db->path may be a symbolic link to it.
 * SQLite makes its other files in the same directory.
 */
static const char *
own_name(const struct kp_db *db)
{
	return sqlite3_db_filename(db->conn, "main");
}

/* Returns the inode of the file with this suffix; 0: there is none. */
static ino_t
inode_of(const struct kp_db *db, const char *suffix, dev_t *dev)
{
	struct stat sb;
	char *name;
	ino_t ino = 0;

	if (asprintf(&name, "%s%s", own_name(db), suffix) < 0)
		return 0;
	if (stat(name, &sb) == 0) {
		ino = sb.st_ino;
		*dev = sb.st_dev;
	}
	free(name);
	return ino;
}

/* Records the file's size, after possible changes. */
static void
file_note_size(struct kp_db *db)
{
	struct stat sb;

	if (fstat(db->lock, &sb) == 0)
		db->size = sb.st_size;
}

/* Reads a number in the file's header. */
static uint32_t
big_endian(const uint8_t *p, size_t n)
{
	uint32_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

/*
 * Returns whether the file is smaller than its header says.  A checkpoint of
 * any process cuts off released pages after it has written the header.  Source:
 * sqlite.org/fileformat2.html, 1.3: at 16 the size of a page, where 1 is 65536,
 * at 28 the number of pages.
 */
static bool
is_cut(const struct kp_db *db, off_t size)
{
	uint8_t head[32];
	uint32_t page;

	if (size >= db->size)
		return false;
	if (pread(db->lock, head, sizeof(head), 0) != sizeof(head))
		return true;
	page = big_endian(head + 16, 2);
	if (page == 1)
		page = 65536;
	return (off_t)page * big_endian(head + 28, 4) > size ||
	    memcmp(head, "SQLite format 3", 16) != 0;
}

/* Returns false on a disk error: it does not mean that the file is gone. */
static bool
is_other(const char *path, ino_t ino, dev_t dev)
{
	struct stat sb;

	if (stat(path, &sb) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
	return sb.st_ino != ino || sb.st_dev != dev;
}

enum db_file
db_file(const struct kp_db *db)
{
	struct stat mine;
	bool moved;
	char *wal;

	if (fstat(db->lock, &mine) != 0)
		return DB_THERE;
	if (is_other(db->path, mine.st_ino, mine.st_dev))
		return DB_MOVED;
	if (is_cut(db, mine.st_size))
		return DB_TRUNCATED;
	if (db->wal == 0 || asprintf(&wal, "%s-wal", own_name(db)) < 0)
		return DB_THERE;
	moved = is_other(wal, db->wal, db->dev);
	free(wal);
	return moved ? DB_MOVED : DB_THERE;
}

/* Removes a file, unless its name now leads to another one. */
static void
unlink_own(const struct kp_db *db, const char *suffix, ino_t own)
{
	dev_t dev;
	char *name;

	if (own == 0 || inode_of(db, suffix, &dev) != own || dev != db->dev ||
	    asprintf(&name, "%s%s", own_name(db), suffix) < 0)
		return;
	unlink(name);
	free(name);
}

static bool
rename_own(const struct kp_db *db, const char *suffix, ino_t own)
{
	char *from = NULL, *to = NULL;
	bool done;
	dev_t dev;

	done = own != 0 && inode_of(db, suffix, &dev) == own &&
	    dev == db->dev &&
	    asprintf(&from, "%s%s", own_name(db), suffix) >= 0 &&
	    asprintf(&to, "%s.truncated%s", own_name(db), suffix) >= 0 &&
	    rename(from, to) == 0;
	free(from);
	free(to);
	return done;
}

/* Removes an empty file; renames another one, and returns true. */
static bool
file_set_aside(const struct kp_db *db)
{
	struct stat mine;
	bool done;

	if (fstat(db->lock, &mine) != 0)
		return false;
	if (mine.st_size == 0) {
		unlink_own(db, "", mine.st_ino);
		return false;
	}
	done = rename_own(db, "", mine.st_ino);
	if (done)
		rename_own(db, "-wal", db->wal);
	return done;
}

/* ---- the run ---- */

#define CLOSE_BUSY_MS 2000
#define CLOSE_TRIES 3
#define CHECKPOINT_FRAMES 1000	/* of the WAL: SQLite's own default */

/* Runs one statement; types has a letter for each value: i int64, s text. */
static void
run_sql(struct kp_db *db, const char *sql, const char *types, ...)
{
	sqlite3_stmt *st;
	va_list ap;

	if (db->rc != SQLITE_OK)
		return;
	db_fail(db, sqlite3_prepare_v2(db->conn, sql, -1, &st, NULL));
	if (db->rc != SQLITE_OK)
		return;
	va_start(ap, types);
	for (int i = 0; types[i] != '\0'; i++) {
		if (types[i] == 'i')
			sqlite3_bind_int64(st, i + 1, va_arg(ap, int64_t));
		else
			sqlite3_bind_text(st, i + 1, va_arg(ap, const char *),
			    -1, SQLITE_TRANSIENT);
	}
	va_end(ap);
	db_fail(db, sqlite3_step(st));
	sqlite3_finalize(st);
}

/* Gives each earlier run without an end an event, and its last window's end. */
static void
mark_unclean(struct kp_db *db)
{
	run_sql(db, "insert into event (run_id, node_id, at_ns, kind, text)"
	    " select r.id, ?, ?, 'unclean_end',"
	    " 'run ' || r.id || ' of kprofd did not end well; its last window'"
	    " || coalesce(' ended ' || strftime('%Y-%m-%dT%H:%M:%SZ',"
	    " max(w.end_ns) / 1000000000, 'unixepoch'), ' is missing')"
	    " from run r left join time_window w on w.run_id = r.id"
	    " where r.clean is null group by r.id", "ii",
	    db_dim(db, DIM_NODE, ""), (int64_t)kp_wall_now());
	run_sql(db, "update run set clean = 0, ended_ns = (select"
	    " max(end_ns) from time_window w where w.run_id = run.id)"
	    " where clean is null", "");
}

/* Orders the tiers as the tiers.conf in force does. */
static void
number_tiers(struct kp_db *db, const struct kp_conf *conf)
{
	static const char put[] = "insert into tier (name, position)"
	    " values (?, ?) on conflict (name) do update"
	    " set position = excluded.position";

	run_sql(db, "update tier set position = null", "");
	run_sql(db, put, "si", "_total", INT64_C(0));
	for (size_t i = 0; conf != NULL && i < conf->ntiers; i++)
		run_sql(db, put, "si", conf->tiers[i].name, (int64_t)i + 1);
}

void
db_conf(struct kp_db *db, const struct kp_conf *conf, const char *text)
{
	number_tiers(db, conf);
	run_sql(db, "update run set tiers_conf = ? where id = ?", "si", text,
	    db->run);
}

static void
db_free(struct kp_db *db)
{
	db_finalize(db);
	sqlite3_close(db->conn);
	close(db->lock);
	db_ids_clear(db);
	free(db->stack_texts.used);
	kp_buf_free(&db->blob);
	kp_buf_free(&db->async_blob);
	free(db->path);
	free(db);
}

/* Checkpoints as SQLite does by default, unless the file was truncated. */
static int
on_commit(void *ctx, sqlite3 *conn, const char *name, int frames)
{
	struct kp_db *db = ctx;

	if (frames >= CHECKPOINT_FRAMES && db_file(db) != DB_TRUNCATED) {
		sqlite3_wal_checkpoint_v2(conn, name,
		    SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
		file_note_size(db);
	}
	return SQLITE_OK;
}

enum kp_err
db_open(struct kp_db **out, const struct kp_store_opts *o, char **why)
{
	struct kp_db *db = calloc(1, sizeof(*db));
	enum kp_err err;
	int rc;

	if (db == NULL || (db->path = strdup(o->path)) == NULL) {
		free(db);
		schema_why(why, "cannot open '%s': out of memory", o->path);
		return KP_ENOMEM;
	}
	err = schema_open(&db->conn, &db->lock, &db->made, o->path, why);
	if (err != KP_OK) {
		free(db->path);
		free(db);
		return err;
	}
	db_begin(db);
	mark_unclean(db);
	run_sql(db, "insert into run (started_ns, version, interval_ns,"
	    " tiers_conf) values (?, ?, ?, ?)", "isis",
	    (int64_t)kp_wall_now(), o->version, (int64_t)o->interval,
	    o->tiers_text);
	db->run = db_last_id(db);
	number_tiers(db, o->conf);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		run_sql(db, "insert into cause (name, unit, help)"
		    " values (?, ?, ?) on conflict (name) do update"
		    " set unit = excluded.unit, help = excluded.help", "sss",
		    kp_loss_name(i), kp_loss_unit(i), kp_loss_help(i));
	rc = db_commit(db);
	if (rc != SQLITE_OK) {
		err = schema_explain(db->conn, rc, o->path, why);
		db_free(db);
		return err;
	}
	db->wal = inode_of(db, "-wal", &db->dev);
	db->shm = inode_of(db, "-shm", &db->dev);
	file_note_size(db);
	sqlite3_wal_hook(db->conn, on_commit, db);
	*out = db;
	return KP_OK;
}

kp_wall_ns
db_newest(struct kp_db *db)
{
	row_start(db, ST_NEWEST);
	return row_value(db, 0);
}

static void
end_run(struct kp_db *db, uint64_t lost)
{
	char why[sizeof(db->why)], rows[TEXT_MAX];

	memcpy(why, db->why, sizeof(why));	/* which the next begin clears */
	db_begin(db);
	if (lost > 0)	/* since the last window */
		db_event(db, kp_wall_now(), "store_loss", "%s could not be "
		    "written before the end of the run%s%s", text_counted(rows,
		    lost, "row"), why[0] != '\0' ? ": " : "", why);
	run_sql(db, "update run set ended_ns = ?, clean = 1 where id = ?",
	    "ii", (int64_t)kp_wall_now(), db->run);
	db_commit(db);
	db_finalize(db);
	sqlite3_wal_checkpoint_v2(db->conn, NULL, SQLITE_CHECKPOINT_TRUNCATE,
	    NULL, NULL);
}

static bool
has_journal(const struct kp_db *db)
{
	char *name;
	bool has;

	if (asprintf(&name, "%s-journal", sqlite3_db_filename(db->conn,
	    "main")) < 0)
		return false;
	has = access(name, F_OK) == 0;
	free(name);
	return has;
}

/*
 * Leaves WAL mode.  While a reader has the file open it stays in WAL mode; the
 * last reader to close it, or our next start, changes that.  It retries after a
 * disk error, and if a journal could not be removed, which SQLite does not
 * report: the next statement rolls it back, which a reader could not.
 * synchronous = full, because without its own sync the journal's header may be
 * on disk before its page is, and a power loss would roll back to garbage.
 */
static void
leave_one_file(struct kp_db *db)
{
	static const char sql[] = "pragma synchronous = full;"
				  "pragma journal_mode = delete;"
				  "select count(*) from sqlite_schema";
	int rc;

	for (int i = 0; i < CLOSE_TRIES; i++) {
		rc = sqlite3_exec(db->conn, sql, NULL, NULL, NULL);
		if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED ||
		    (rc == SQLITE_OK && !has_journal(db)))
			break;
	}
}

void
db_wait_no_more(struct kp_db *db)
{
	sqlite3_busy_timeout(db->conn, 0);
}

void
db_close(struct kp_db *db, uint64_t lost)
{
	sqlite3_busy_timeout(db->conn, CLOSE_BUSY_MS);
	end_run(db, lost);
	leave_one_file(db);
	db_free(db);
}

/*
 * Replaces the last run and its events, if that had the same failure and has no
 * windows, so that a service that retries for ever has one row.  The way out, in
 * brackets, may differ: it lists nodes.
 */
static void
fail_run(struct kp_db *db, const char *why)
{
	static const char alike[] = " (select id from run where id < ?1"
	    " and substr(failed, 1, instr(failed || ' (', ' (') - 1)"
	    " = substr(?2, 1, instr(?2 || ' (', ' (') - 1)"
	    " and id = (select max(id) from run"
	    " where id < ?1) and not exists (select 1 from time_window"
	    " where run_id = run.id))";
	char sql[512];

	db_begin(db);
	run_sql(db, "update run set failed = ?2 where id = ?1", "is", db->run,
	    why);
	snprintf(sql, sizeof(sql), "delete from event where run_id in%s",
	    alike);
	run_sql(db, sql, "is", db->run, why);
	snprintf(sql, sizeof(sql), "delete from run where id in%s", alike);
	run_sql(db, sql, "is", db->run, why);
	db_commit(db);
}

/*
 * Closes a file that is not under its name.  SQLite goes by names, which may be
 * another file's, so it deletes nothing; our WAL and shm beside the old name go.
 */
static void
close_unnamed(struct kp_db *db)
{
	int keep = 1;

	sqlite3_file_control(db->conn, NULL, SQLITE_FCNTL_PERSIST_WAL, &keep);
	unlink_own(db, "-wal", db->wal);
	unlink_own(db, "-shm", db->shm);
	db_free(db);
}

void
db_failed(struct kp_db *db, const char *why, bool keep)
{
	struct stat mine;

	fail_run(db, why);
	if (!db->made || keep) {
		db_close(db, 0);
		return;
	}
	db_finalize(db);
	sqlite3_db_config(db->conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (fstat(db->lock, &mine) == 0 && mine.st_dev == db->dev)
		unlink_own(db, "", mine.st_ino);
	close_unnamed(db);
}

void
db_abandon(struct kp_db *db)
{
	end_run(db, 0);
	close_unnamed(db);
}

bool
db_discard(struct kp_db *db)
{
	bool left;

	db_finalize(db);
	sqlite3_db_config(db->conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	left = file_set_aside(db);
	close_unnamed(db);
	return left;
}
