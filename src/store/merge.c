/*
 * merge.c - merges databases.  It locks OUT, copies it to OUT.merging, adds each
 * IN in a transaction, and renames the copy to OUT at the end.  The copy needs no
 * journal, because any failure deletes it.  It is synced once, before it replaces
 * OUT.
 *
 * Row ids differ from file to file.  For each kind of id a temporary table maps
 * the old one to the new one (map_node: old, new).  Columns with ids have the
 * names of these, such as node_id, and are translated; others are copied.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db.h"
#include "merge.h"
#include "schema.h"
#include "text/file_why.h"

/* ---- the rows ---- */

#define OF_NEW " and request_id in (select new from temp.map_request)"

/* A table, the name of the map of its ids, and a column. */
struct copied {
	const char *table, *map, *key;
};

/* Tables of names; these are in the column, and unique. */
static const struct copied names[] = {
	{ "node", "node", "name" }, { "tier", "tier", "name" },
	{ "identity", "identity", "name" }, { "function", "function", "name" },
	{ "cause", "cause", "name" }, { "receiver", "receiver", "name" },
	{ "stack", "stack", "frames" }, { "stack_path", "path", "path" },
};

/* Tables whose rows are copied if the column is in the map. */
static const struct copied rows[] = {
	{ "run", "run", "id" },
	{ "time_window", "window", "id" },
	{ "stat", "window", "window_id" },
	{ "loss", "window", "window_id" },
	{ "cost", "window", "window_id" },
	{ "request", "request", "id" },
	{ "call", "request", "request_id" },
	{ "event", "event", "id" },
	{ "message_stat", "window", "window_id" },
	{ "request_wait", "request", "request_id" },
	{ "stack_stat", "window", "window_id" },
	{ "usage", "window", "window_id" },
};

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

bool
kp_merge_knows(const char *table)
{
	/* these are computed from others */
	static const char *const derived[] = { "request_time", "level_sum",
		"level_stat", "level_stack", "level_next" };

	for (size_t i = 0; i < COUNT(derived); i++)
		if (strcmp(derived[i], table) == 0)
			return true;
	for (size_t i = 0; i < COUNT(names); i++)
		if (strcmp(names[i].table, table) == 0)
			return true;
	for (size_t i = 0; i < COUNT(rows); i++)
		if (strcmp(rows[i].table, table) == 0)
			return true;
	return false;
}

/* ---- statements ---- */

/* Deletes all sums; levels_make_all() makes them again at the end. */
static const char no_sums[] = "delete from main.level_stat;"
    "delete from main.level_stack;"
    "delete from main.level_sum;"
    "update main.level_next set start_ns = 0, node_id = 0";

static const char add_times[] = "insert into main.request_time "
    SCHEMA_REQUEST_TIMES(OF_NEW, OF_NEW);

#define MAP(table) "drop table if exists temp.map_" table ";" \
	"create temp table map_" table " (old integer primary key, new integer);"

static const char maps[] =
    MAP("node") MAP("tier") MAP("identity") MAP("function") MAP("cause")
    MAP("receiver") MAP("stack") MAP("path") MAP("run") MAP("window")
    MAP("request") MAP("event")
    "drop table if exists temp.reach;"
    "drop table if exists temp.met;"
    "drop table if exists temp.place;"
    /* how long main's windows of a level are at most */
    "create temp table reach (level integer primary key, longest integer);"
    /* windows of src that others of main overlap, and how far these go */
    "create temp table met (old integer primary key, start_ns integer,"
    " end_ns integer, inside integer);"
    "create temp table place (name text primary key, position integer);";

/* Places tiers that main's tiers.conf lacks behind it, in their order. */
static const char positions[] =
    "insert into temp.place select s.name,"
    " (select coalesce(max(position), -1) from main.tier)"
    "  + row_number() over (order by s.position)"
    " from src.tier s join main.tier t on t.name = s.name"
    " where s.position is not null and t.position is null;"
    "update main.tier set position = p.position from temp.place p"
    " where p.name = main.tier.name";

/* Maps runs that main has; new_runs gives ids to the others. */
static const char known_runs[] =
    "insert into temp.map_run select s.id, min(d.id) from src.run s"
    " join main.run d on d.started_ns = s.started_ns"
    " and d.interval_ns = s.interval_ns and d.version = s.version"
    " group by s.id";

static const char new_runs[] =
    "insert into temp.map_run select s.id,"
    " (select coalesce(max(id), 0) from main.run)"
    "  + row_number() over (order by s.id)"
    " from src.run s where s.id not in (select old from temp.map_run)";

/*
 * Finds windows of known runs that main lacks, but for which it has others at
 * the same time.  It looks back by the longest window of each level, so that
 * one of a day does not make it read a day of windows of ten seconds.
 */
static const char met_windows[] =
    "insert into temp.reach select level, max(end_ns - start_ns)"
    " from main.time_window group by level;"
    "insert into temp.met select w.id, min(o.start_ns), max(o.end_ns),"
    " min(o.start_ns >= w.start_ns and o.end_ns <= w.end_ns)"
    " from src.time_window w"
    " join temp.map_run r on r.old = w.run_id"
    " join temp.map_node n on n.old = w.node_id"
    " cross join temp.reach l"
    " cross join main.time_window o indexed by time_window_level"
    "  on o.level = l.level and o.start_ns < w.end_ns"
    "  and o.start_ns > w.start_ns - l.longest and o.end_ns > w.start_ns"
    "  and o.run_id = r.new and o.node_id = n.new"
    " where r.new in (select id from main.run) and not exists (select 1"
    "  from main.time_window e where e.start_ns = w.start_ns"
    "  and e.end_ns = w.end_ns and e.run_id = r.new and e.node_id = n.new)"
    " group by w.id";

/* Deletes main's windows that a longer window of src covers. */
static const char replace_windows[] =
    "delete from main.time_window where id in (select o.id from temp.met m"
    " join src.time_window w on w.id = m.old"
    " join temp.map_run r on r.old = w.run_id"
    " join temp.map_node n on n.old = w.node_id"
    " cross join main.time_window o on o.start_ns >= m.start_ns"
    "  and o.start_ns < m.end_ns and o.end_ns <= m.end_ns"
    "  and o.run_id = r.new and o.node_id = n.new"
    " where m.inside and (w.start_ns < m.start_ns or w.end_ns > m.end_ns))";

static const char take_windows[] =
    "insert into temp.map_window select w.id,"
    " (select coalesce(max(id), 0) from main.time_window)"
    "  + row_number() over (order by w.id)"
    " from src.time_window w"
    " join temp.map_run r on r.old = w.run_id"
    " join temp.map_node n on n.old = w.node_id"
    " left join temp.met m on m.old = w.id"
    " where (m.old is null or (m.inside and (w.start_ns < m.start_ns"
    "  or w.end_ns > m.end_ns))) and not exists (select 1"
    "  from main.time_window e where e.start_ns = w.start_ns"
    "  and e.end_ns = w.end_ns and e.run_id = r.new and e.node_id = n.new)";

static const char take_requests[] =
    "insert into temp.map_request select s.id,"
    " (select coalesce(max(id), 0) from main.request)"
    "  + row_number() over (order by s.id)"
    " from src.request s"
    " join temp.map_run r on r.old = s.run_id"
    " join temp.map_node n on n.old = s.node_id"
    " where not exists (select 1 from main.request d"
    "  where d.start_ns = s.start_ns and d.run_id = r.new"
    "  and d.node_id = n.new and d.label = s.label)";

static const char take_events[] =
    "insert into temp.map_event select s.id,"
    " (select coalesce(max(id), 0) from main.event)"
    "  + row_number() over (order by s.id)"
    " from src.event s"
    " join temp.map_run r on r.old = s.run_id"
    " join temp.map_node n on n.old = s.node_id"
    " where not exists (select 1 from main.event d"
    "  where d.at_ns = s.at_ns and d.run_id = r.new and d.node_id = n.new"
    "  and d.kind = s.kind and d.text = s.text)";

/* Updates a known run that has ended since, or has another tiers.conf. */
static const char renew_runs[] =
    "update main.run set ended_ns = coalesce(s.ended_ns, run.ended_ns),"
    " clean = coalesce(s.clean, run.clean), tiers_conf = s.tiers_conf"
    " from (select m.new, s.* from src.run s"
    "  join temp.map_run m on m.old = s.id where s.clean is not null"
    "  or exists (select 1 from temp.map_window w join src.time_window t"
    "   on t.id = w.old where t.run_id = s.id)) s"
    " where s.new = main.run.id";

/* ---- copying ---- */

/*
 * These write the statements that copy a table, ?1, with map and column ?2 and ?3.
 * They copy all columns except `position`, which main sets.
 */
#define COLUMNS " from pragma_table_info(?1, 'main') where name <> 'position'"

/* Adds the names that main lacks, and maps all ids. */
static const char copy_names[] =
    "select printf('insert or ignore into main.%s (%s) select %s from src.%s s"
    " order by s.id; insert into temp.map_%s select s.id, d.id from src.%s s"
    " join main.%s d on d.%s = s.%s', ?1, c, c, ?1, ?2, ?1, ?1, ?3, ?3)"
    " from (select group_concat(printf('\"%w\"', name)) as c" COLUMNS
    " and name <> 'id')";

/* It starts from the map, to read little of a file that grew little. */
static const char copy_rows[] =
    "select printf('insert into main.%s (%s) select %s from temp.map_%s m"
    " cross join src.%s s on s.%s = m.old%s', ?1,"
    " group_concat(printf('\"%w\"', name)),"
    " group_concat(case when name = ?3 then 'm.new'"
    "  when name glob '*_id' then printf('(select new"
    "   from temp.map_%s where old = s.\"%w\")', substr(name, 1,"
    "   length(name) - 3), name)"
    "  else printf('s.\"%w\"', name) end), ?2, ?1, ?3,"
    " case when ?1 = 'run' then"
    "  ' where m.new not in (select id from main.run)' else '' end)" COLUMNS;

/* Sets *count, unless NULL, to the number of rows of the last statement. */
static int
copy(sqlite3 *db, const char *writes, const struct copied *c, uint64_t *count)
{
	const char *text;
	char *sql = NULL;
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(db, writes, -1, &st, NULL);

	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_text(st, 1, c->table, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, c->map, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 3, c->key, -1, SQLITE_STATIC);
	if (sqlite3_step(st) == SQLITE_ROW &&
	    (text = (const char *)sqlite3_column_text(st, 0)) != NULL)
		sql = sqlite3_mprintf("%s", text);
	rc = sqlite3_finalize(st);
	if (rc == SQLITE_OK)
		rc = sql != NULL ? sqlite3_exec(db, sql, NULL, NULL, NULL) :
		    SQLITE_NOMEM;
	sqlite3_free(sql);
	if (rc == SQLITE_OK && count != NULL)
		*count = (uint64_t)sqlite3_changes64(db);
	return rc;
}

/* Chooses what to copy; each step uses the maps of those before it. */
static int
choose(sqlite3 *db)
{
	/* new runs are not in main yet, so a run there is a known one */
	static const char *const steps[] = { known_runs, new_runs,
		met_windows, replace_windows, take_windows, take_requests,
		take_events, renew_runs, positions };
	int rc = SQLITE_OK;

	for (size_t i = 0; i < COUNT(steps) && rc == SQLITE_OK; i++)
		rc = sqlite3_exec(db, steps[i], NULL, NULL, NULL);
	return rc;
}

/*
 * Copies from the schema `src` into `main`.  Returns SQLite's error; the caller
 * must then discard main.
 */
static int
merge_rows(sqlite3 *db, struct kp_merge_count *count)
{
	uint64_t n[COUNT(rows)] = { 0 };
	int rc = sqlite3_exec(db, maps, NULL, NULL, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, no_sums, NULL, NULL, NULL);
	for (size_t i = 0; i < COUNT(names) && rc == SQLITE_OK; i++)
		rc = copy(db, copy_names, &names[i], NULL);
	if (rc == SQLITE_OK)
		rc = choose(db);
	for (size_t i = 0; i < COUNT(rows) && rc == SQLITE_OK; i++)
		rc = copy(db, copy_rows, &rows[i], &n[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, add_times, NULL, NULL, NULL);
	*count = (struct kp_merge_count){ .runs = n[0], .windows = n[1],
		.requests = n[5], .events = n[7] };
	return rc;
}

/* ---- the files ---- */

#define STOP_OPS 10000		/* of SQLite's VM, between two checks */
#define BACKUP_PAGES 1000	/* the same, while OUT is copied */
#define BUSY_MS 2000

struct kp_merge {
	char *path, *copy;	/* OUT, OUT.merging */
	const volatile sig_atomic_t *stop;
	sqlite3 *db;		/* the copy */
	int lock, fd;		/* of OUT, -1: there is none; of the copy */
};

static int
stopped(void *ctx)
{
	const struct kp_merge *m = ctx;

	return *m->stop != 0;
}

static enum kp_err
fail(const struct kp_merge *m, int rc, char **why)
{
	if ((rc & 0xff) != SQLITE_INTERRUPT)
		return schema_explain(m->db, rc, m->copy, why);
	schema_why(why, "interrupted: '%s' is as it was", m->path);
	return KP_ETIMEOUT;
}

static enum kp_err
fail_errno(const char *what, const char *path, char **why)
{
	char text[FILE_WHY_MAX];

	schema_why(why, "cannot %s '%s': %s", what, path,
	    file_why(text, path, errno));
	return KP_EIO;
}

static void
merge_free(struct kp_merge *m)
{
	if (m->db != NULL)
		sqlite3_close(m->db);
	if (m->fd >= 0)
		close(m->fd);
	if (m->lock >= 0)
		close(m->lock);
	free(m->copy);
	free(m->path);
	free(m);
}

void
kp_merge_abandon(struct kp_merge *m)
{
	if (m->fd >= 0)
		unlink(m->copy);
	merge_free(m);
}

/* Returns whether the name still leads to this file. */
static bool
still_named(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum kp_err
lock_file(int fd, const char *path, char **why)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && still_named(fd, path))
		return KP_OK;
	schema_why(why, "cannot merge into '%s': a kprofd or another merge "
	    "writes it", path);
	return KP_EBUSY;
}

/*
 * Checks that there is no WAL or journal of an earlier OUT, which SQLite would
 * apply to the new one, and damage it.
 */
static enum kp_err
nothing_left(const struct kp_merge *m, char **why)
{
	static const char *const suffixes[] = { "-wal", "-journal" };
	enum kp_err err = KP_OK;
	char *name;

	for (size_t i = 0; i < COUNT(suffixes) && err == KP_OK; i++) {
		if (asprintf(&name, "%s%s", m->path, suffixes[i]) < 0)
			return KP_ENOMEM;
		if (access(name, F_OK) == 0) {
			schema_why(why, "cannot make '%s': '%s' belongs to "
			    "another database of this name (move it away)",
			    m->path, name);
			err = KP_ESTATE;
		}
		free(name);
	}
	return err;
}

/* Replaces regular files only: as root it would replace /dev/null otherwise. */
static enum kp_err
check_is_file(const char *path, char **why)
{
	char text[FILE_WHY_MAX];

	if (file_not_for_db(text, path) == NULL)
		return KP_OK;
	schema_why(why, "cannot merge into '%s': %s", path, text);
	return KP_ESTATE;
}

static enum kp_err
lock_out(struct kp_merge *m, char **why)
{
	m->lock = open(m->path, O_RDWR | O_CLOEXEC);
	if (m->lock >= 0)
		return lock_file(m->lock, m->path, why);
	if (errno != ENOENT)
		return fail_errno("write", m->path, why);
	return nothing_left(m, why);
}

/* Makes an empty file with OUT's mode; replaces that of a killed merge. */
static enum kp_err
make_copy(struct kp_merge *m, char **why)
{
	struct stat sb = { .st_mode = 0640 };
	enum kp_err err;

	m->fd = open(m->copy, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (m->fd < 0)
		return fail_errno("make", m->copy, why);
	err = lock_file(m->fd, m->copy, why);
	if (err != KP_OK) {
		close(m->fd);	/* another merge uses it: keep it */
		m->fd = -1;
		return err;
	}
	if (m->lock >= 0 && fstat(m->lock, &sb) == 0 &&
	    fchown(m->fd, sb.st_uid, sb.st_gid) != 0)
		sb.st_mode &= (mode_t)~070;	/* it has another group */
	if (fchmod(m->fd, sb.st_mode & 0777) != 0 || ftruncate(m->fd, 0) != 0)
		return fail_errno("make", m->copy, why);
	return KP_OK;
}

static int
mode_is(void *ctx, int n, char **values, char **columns)
{
	bool *single = ctx;

	(void)columns;
	*single = n == 1 && values[0] != NULL &&
	    strcmp(values[0], "delete") == 0;
	return 0;
}

/* Leaves WAL mode, as SQLite would apply a WAL beside OUT to the new OUT. */
static enum kp_err
leave_wal(struct kp_merge *m, sqlite3 *out, char **why)
{
	bool single = false;
	int rc;

	rc = sqlite3_exec(out, "pragma journal_mode = delete", mode_is,
	    &single, NULL);
	if (rc == SQLITE_OK && !single)
		rc = SQLITE_BUSY;
	if (rc == SQLITE_OK)
		return KP_OK;
	if ((rc & 0xff) != SQLITE_BUSY)
		return schema_explain(out, rc, m->path, why);
	schema_why(why, "cannot merge into '%s': another program has it open "
	    "(close that)", m->path);
	return KP_EBUSY;
}

static enum kp_err
backup(struct kp_merge *m, sqlite3 *out, char **why)
{
	sqlite3_backup *b = sqlite3_backup_init(m->db, "main", out, "main");
	int rc = SQLITE_OK;

	if (b == NULL)
		return fail(m, sqlite3_errcode(m->db), why);
	while (rc == SQLITE_OK)
		rc = *m->stop != 0 ? SQLITE_INTERRUPT :
		    sqlite3_backup_step(b, BACKUP_PAGES);
	sqlite3_backup_finish(b);
	return rc == SQLITE_DONE ? KP_OK : fail(m, rc, why);
}

static enum kp_err
copy_out(struct kp_merge *m, char **why)
{
	sqlite3 *out = NULL;
	enum kp_err err;
	bool empty = false;
	int rc;

	rc = sqlite3_open_v2(m->path, &out, SQLITE_OPEN_READWRITE |
	    SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(out, BUSY_MS);
		err = schema_check(out, m->path, &empty, why);
	} else {
		err = schema_explain(out, rc, m->path, why);
	}
	if (err == KP_OK)
		err = leave_wal(m, out, why);
	if (err == KP_OK && !empty)
		err = backup(m, out, why);
	sqlite3_close(out);
	return err;
}

static enum kp_err
open_copy(struct kp_merge *m, char **why)
{
	/* only for main: attached files must not be locked */
	static const char ready[] = "pragma main.locking_mode = exclusive;"
				    "pragma main.journal_mode = off;"
				    "pragma main.synchronous = off;"
				    "pragma trusted_schema = off;"
				    "pragma foreign_keys = on";
	enum kp_err err = KP_OK;
	int rc;

	rc = sqlite3_open_v2(m->copy, &m->db, SQLITE_OPEN_READWRITE |
	    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
	if (rc != SQLITE_OK)
		return fail(m, rc, why);
	sqlite3_busy_timeout(m->db, BUSY_MS);
	sqlite3_progress_handler(m->db, STOP_OPS, stopped, m);
	if (m->lock >= 0)
		err = copy_out(m, why);
	if (err == KP_OK)
		err = schema_make(m->db, m->copy, why);
	if (err != KP_OK)
		return err;
	rc = sqlite3_exec(m->db, ready, NULL, NULL, NULL);
	return rc == SQLITE_OK ? KP_OK : fail(m, rc, why);
}

enum kp_err
kp_merge_open(struct kp_merge **out, const char *path,
    const volatile sig_atomic_t *stop, char **why)
{
	struct kp_merge *m = calloc(1, sizeof(*m));
	struct stat link;
	enum kp_err err;

	*why = NULL;
	if (m == NULL)
		return KP_ENOMEM;
	m->stop = stop;
	m->lock = m->fd = -1;
	/* replaces the target of a symbolic link, not the link */
	m->path = realpath(path, NULL);
	if (m->path == NULL && lstat(path, &link) == 0) {
		err = fail_errno("follow the link", path, why);
		merge_free(m);
		return err;
	}
	if (m->path == NULL)
		m->path = strdup(path);
	if (m->path == NULL || asprintf(&m->copy, "%s.merging", path) < 0) {
		m->copy = NULL;
		merge_free(m);
		return KP_ENOMEM;
	}
	err = check_is_file(path, why);
	if (err == KP_OK)
		err = check_is_file(m->copy, why);
	if (err == KP_OK)
		err = lock_out(m, why);
	if (err == KP_OK)
		err = make_copy(m, why);
	if (err == KP_OK)
		err = open_copy(m, why);
	if (err == KP_OK)
		*out = m;
	else
		kp_merge_abandon(m);
	return err;
}

static enum kp_err
attach(struct kp_merge *m, const char *in, bool alone, char **why)
{
	char *uri = read_uri(in, alone ? "immutable=1" : "mode=ro"), *sql;
	int rc = SQLITE_NOMEM;

	sql = uri != NULL ? sqlite3_mprintf("attach %Q as src", uri) : NULL;
	if (sql != NULL)
		rc = sqlite3_exec(m->db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	free(uri);
	return rc == SQLITE_OK ? KP_OK : schema_explain(m->db, rc, in, why);
}

/* Reports dangling references as damage, with any error of SQLite. */
static enum kp_err
explain_rows(struct kp_merge *m, int rc, const char *in, char **why)
{
	if ((rc & 0xff) != SQLITE_CONSTRAINT && (rc & 0xff) != SQLITE_CORRUPT)
		return fail(m, rc, why);
	schema_why(why, "cannot merge '%s': it is damaged (%s)", in,
	    sqlite3_errmsg(m->db));
	return KP_EFORMAT;
}

static enum kp_err
add_file(struct kp_merge *m, const char *in, bool alone,
    struct kp_merge_count *count, char **why)
{
	enum kp_err err = attach(m, in, alone, why);
	int rc;

	if (err != KP_OK)
		return err;
	rc = sqlite3_exec(m->db, "begin", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = merge_rows(m->db, count);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(m->db, "commit", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(m->db, "detach src", NULL, NULL, NULL);
	return rc == SQLITE_OK ? KP_OK : explain_rows(m, rc, in, why);
}

enum kp_err
kp_merge_add(struct kp_merge *m, const char *in, struct kp_merge_count *count,
    char **why)
{
	struct kp_query *q;
	enum kp_err err;
	bool alone;

	*why = NULL;
	if (m->lock >= 0 && still_named(m->lock, in)) {
		schema_why(why, "cannot merge '%s' into itself", in);
		return KP_ESTATE;
	}
	err = kp_query_open(&q, in, why);
	if (err != KP_OK)
		return err;
	alone = q->files[0].alone;
	kp_query_close(q);
	return add_file(m, in, alone, count, why);
}

/* Makes the new name survive a power failure. */
static void
sync_directory(const char *path)
{
	char *copy = strdup(path), *slash;
	int fd;

	if (copy == NULL)
		return;
	slash = strrchr(copy, '/');
	if (slash != NULL)
		slash[slash == copy] = '\0';
	fd = open(slash != NULL ? copy : ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(copy);
}

enum kp_err
kp_merge_finish(struct kp_merge *m, char **why)
{
	enum kp_err err = KP_OK;
	int rc = levels_make_all(m->db);

	*why = NULL;
	if (rc == SQLITE_OK)
		rc = sqlite3_close(m->db);
	if (rc == SQLITE_OK)
		m->db = NULL;
	if (rc != SQLITE_OK)
		err = fail(m, rc, why);
	else if (fsync(m->fd) != 0)
		err = fail_errno("write", m->copy, why);
	else if (rename(m->copy, m->path) != 0)
		err = fail_errno("write", m->path, why);
	if (err != KP_OK) {
		kp_merge_abandon(m);
		return err;
	}
	sync_directory(m->path);
	merge_free(m);
	return KP_OK;
}
