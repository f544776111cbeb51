/* db.c - runs statements and transactions on the writing connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "cell_row.h"
#include "db.h"
#include "schema.h"

/* A larger cache is emptied: targets choose request types. */
#define IDS_MAX 65536
#define ID_BYTES 128	/* a longer name, of a stack, counts as several */
#define DELETE_IDS 64	/* looked up in one turn */
#define VACUUM_PAGES "512"	/* released in one turn: 2 MiB */

#define DIM_SQL(dim, table) DIM_SQL_OF(dim, table, "name")
#define DIM_SQL_OF(dim, table, column) \
	[ST_DIM_FIND + dim] = "select id from " table " where " column " = ?", \
	[ST_DIM_ADD + dim] = "insert into " table " (" column ") values (?)"

#define STACK_COLUMNS "identity_id, path_id, stack_id, state, octave, samples," \
	" time_ns, w_time_ns"

#define LAST_COST(column) "(select c." column " from cost c" \
	" join time_window w on w.id = c.window_id where w.id in" PARTS_OF \
	" and c." column " is not null order by w.start_ns desc limit 1)"

/* Of rows u in windows w, of which some may be longer, as they were combined before. */
#define MEAN(column) "cast(round(sum(1.0 * u." column " * (w.end_ns - w.start_ns)) /" \
	" sum((u." column " is not null) * (w.end_ns - w.start_ns))) as integer)"

static const char *const sql[ST_COUNT] = {
	[ST_BEGIN] = "begin immediate",
	[ST_COMMIT] = "commit",
	/* uses an index; only windows that were rolled up overlap */
	[ST_NEWEST] = "select max(end_ns) from time_window where start_ns ="
	    " (select max(start_ns) from time_window)",
	[ST_WINDOW] = "insert into time_window (run_id, node_id, level,"
	    " start_ns, end_ns, entry_calls, sampled)"
	    " values (?, ?, 0, ?, ?, ?, ?)",
	[ST_STAT] = "insert into stat (window_id, " CELL_INSERT ")"
	    " values (?, " CELL_VALUES ")",
	[ST_LOSS] = "insert into loss (window_id, cause_id, n)"
	    " values (?, ?, ?)",
	[ST_COST] = "insert into cost (window_id, events, armed_calls,"
	    " agent_ns, cost_ns, traced_call_ns, traced_caller_ns, scheduled,"
	    " sampled) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ST_USAGE] = "insert into usage (window_id, kind, name, owner,"
	    " estimated, count, most, memory_bytes, binary_bytes,"
	    " reductions_per_s, messages, objects, longest, process,"
	    " longest_since_ns) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
	    " ?, ?)",
	[ST_REQUEST] = "insert into request (run_id, node_id, identity_id,"
	    " start_ns, total_ns, label, parent_label, weight, outcome,"
	    " traceparent) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ST_CALL] = "insert into call (request_id, seq, parent, depth,"
	    " function_id, tier_id, pid, start_ns, total_ns, self_ns, outcome,"
	    " async, node_id, outlasts, gc_ns, out_ns)"
	    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ST_MESSAGES] = "insert into message_stat (window_id, receiver_id,"
	    " identity_id, messages, w_messages, away, w_away, wait_ns,"
	    " w_wait_ns, min_ns, max_ns, hist, p50_ns, p90_ns, p95_ns, p99_ns)"
	    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ST_SHOW_WAITS] = "select m.receiver_id, m.identity_id, " WAIT_COLUMNS
	    " from message_stat m where m.window_id in" PARTS_OF
	    " order by m.receiver_id, m.identity_id",
	[ST_REQUEST_WAIT] = "insert into request_wait (request_id, seq,"
	    " receiver_id, pid, node_id, messages, away, wait_ns, max_ns)"
	    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ST_STACK_STAT] = "insert into stack_stat (window_id, " STACK_COLUMNS
	    ") values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ST_SUM_STACK] = "insert into level_stack (sum_id, " STACK_COLUMNS
	    ") values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ST_PART_STACKS] = "select " STACK_COLUMNS " from stack_stat"
	    " where window_id = ?",
	[ST_SUM_STACKS] = "select " STACK_COLUMNS " from level_stack"
	    " where sum_id = ?",
	[ST_PART_STACKS_N] = "select count(*) from stack_stat"
	    " where window_id = ?",
	[ST_SUM_STACKS_N] = "select count(*) from level_stack"
	    " where sum_id = ?",
	[ST_STACK_LAST] = "select max(id) from stack",
	[ST_STACK_USED] = "select window_id, stack_id from stack_stat"
	    " where window_id > ? order by window_id",
	[ST_STACK_SUM_USED] = "select sum_id, stack_id from level_stack"
	    " where sum_id > ? order by sum_id",
	[ST_STACK_IDS] = "select id from stack where id > ? order by id",
	[ST_STACK_DEL] = "delete from stack where id = ?",
	[ST_TIMES] = "insert into request_time "
	    SCHEMA_REQUEST_TIMES(" and request_id = ?1", " and request_id = ?1"),
	[ST_EVENT] = "insert into event (run_id, node_id, at_ns, kind, text)"
	    " values (?, ?, ?, ?, ?)",
	[ST_LEVEL_OLDEST] = "select min(level) from time_window"
	    " where level > ?",
	[ST_OLDEST] = "select node_id, start_ns, run_id from time_window"
	    " where level = ? and start_ns < ? order by start_ns limit 1",
	[ST_PAGE_SIZE] = "pragma page_size",
	[ST_PAGES] = "pragma page_count",
	[ST_FREE_PAGES] = "pragma freelist_count",
	[ST_VACUUM] = "pragma incremental_vacuum(" VACUUM_PAGES ")",
	[ST_PART_CELLS] = "select count(*) from stat where window_id = ?",
	[ST_SUM_CELLS] = "select count(*) from level_stat where sum_id = ?",
	[ST_LEVELS_DEL] = "delete from level_next",
	[ST_LEVELS_ADD] = "insert into level_next values (?, 0, 0)",
	[ST_LEVELS_BACK] = "update level_next set node_id = 0, start_ns ="
	    " ?1 - ?1 % (level * 1000000000) where start_ns > ?1"
	    " or (node_id > 0 and start_ns + level * 1000000000 > ?1)",
	[ST_LEVEL_AT] = "select start_ns, node_id from level_next"
	    " where level = ?",
	[ST_LEVEL_DONE] = "update level_next set start_ns = ?, node_id = ?"
	    " where level = ?",
	[ST_WINDOW_NEXT] = "select min(start_ns) from time_window"
	    " where start_ns >= ?",
	[ST_NODE_NEXT] = "select min(id) from node where id > ?",
	[ST_SUM] = "insert into level_sum (node_id, level, start_ns, run_id)"
	    " values (?, ?, ?, ?)",
	[ST_SUM_STAT] = "insert into level_stat (sum_id, " CELL_INSERT ")"
	    " values (?, " CELL_VALUES ")",
	[ST_SUM_THERE] = "select 1 from level_sum where node_id = ?"
	    " and level = ? and start_ns = ? limit 1",
	[ST_SUM_DEL] = "delete from level_sum where id = ?",
	[ST_SUMS_LATE] = "delete from level_sum where id in (select s.id"
	    " from level_next x cross join level_sum s on s.level = x.level"
	    " and s.node_id in (0, ?1) and s.start_ns ="
	    " ?2 - ?2 % (x.level * 1000000000))",
	[ST_SUMS_FINER] = "select s.id from level_next x"
	    " cross join level_sum s on s.level = x.level"
	    " and s.node_id in (0, ?1) and s.start_ns >= ?3"
	    " and s.start_ns < ?3 + ?2 * 1000000000 where x.level < ?2",
	[ST_SUMS_SLOT] = "delete from level_sum where node_id = ?1"
	    " and level = ?2 and start_ns = ?3",
	[ST_SHOW_PARTS] = "select id, start_ns, (select count(*) from stat"
	    " where window_id = time_window.id) + (select count(*)"
	    " from message_stat where window_id = time_window.id)"
	    " + (select count(*) from stack_stat"
	    " where window_id = time_window.id) + (select count(*) from usage"
	    " where window_id = time_window.id)" IN_SLOT
	    " order by start_ns",
	[ST_SHOW_WINDOW] = "insert into time_window (run_id, node_id, level,"
	    " start_ns, end_ns, entry_calls, sampled) select run_id, node_id,"
	    " ?2, min(start_ns), max(end_ns), sum(entry_calls), sum(sampled)"
	    IN_SLOT,
	[ST_SHOW_SUM] = "select id from level_sum where node_id = ?1"
	    " and level = ?2 and start_ns = ?3 and run_id = ?4",
	[ST_SHOW_STAT] = "insert into stat (window_id, " CELL_INSERT ")"
	    " select ?6, " CELL_INSERT " from level_stat where sum_id ="
	    " (select id from level_sum where node_id = ?1 and level = ?2"
	    " and start_ns = ?3 and run_id = ?4)",
	[ST_SHOW_LOSSES] = "insert into loss (window_id, cause_id, n)"
	    " select ?6, cause_id, sum(n) from loss where window_id in"
	    PARTS_OF " group by cause_id",
	/* the last measured cost of one traced call */
	[ST_SHOW_COST] = "insert into cost (window_id, events, armed_calls,"
	    " agent_ns, cost_ns, traced_call_ns, traced_caller_ns, scheduled,"
	    " sampled) select ?6, sum(events), sum(armed_calls), sum(agent_ns),"
	    " sum(cost_ns), " LAST_COST("traced_call_ns") ", "
	    LAST_COST("traced_caller_ns") ", sum(scheduled), sum(sampled)"
	    " from cost where window_id in" PARTS_OF " group by null",
	/* means; process and since are of the longest queue: SQLite takes
	   other columns from the row of the only max() */
	[ST_SHOW_USAGE] = "insert into usage select ?6, kind, name, owner,"
	    " sum(estimated) > 0, " MEAN("count") ", " MEAN("most") ", "
	    MEAN("memory_bytes") ", " MEAN("binary_bytes") ", "
	    MEAN("reductions_per_s") ", " MEAN("messages") ", "
	    MEAN("objects") ", max(longest), process, longest_since_ns"
	    " from usage u join time_window w on w.id = u.window_id"
	    " where u.window_id in" PARTS_OF
	    " group by kind, name, owner order by kind, sum(memory_bytes) desc"
	    " limit 160",	/* KP_USAGE_ROWS_MAX */
	[ST_SHOW_PARTS_DEL] = "delete from time_window where id in" PARTS_OF,
	[ST_RAISE] = "update time_window set level = ?2 where id in (select id"
	    IN_SLOT ")",
	/* "on delete cascade" deletes their cells, losses and calls */
	[ST_WINDOW_DEL] = "delete from time_window where id = ?",
	[ST_REQUEST_DEL] = "delete from request where id = ?",
	[ST_EVENT_DEL] = "delete from event where id = ?",
	[ST_RUN_DEL] = "delete from run where id = ?",
	[ST_SUMS_OLD] = "select id from level_sum where start_ns <= ?1"
	    " order by start_ns",
	[ST_WINDOWS_OLD] = "select id from time_window"
	    " where start_ns <= ?1 and end_ns <= ?1 order by start_ns",
	[ST_REQUESTS_OLD] = "select id from request where start_ns <= ?1"
	    " order by start_ns",
	[ST_EVENTS_OLD] = "select id from event where at_ns <= ?1"
	    " order by at_ns",
	[ST_RUNS_OLD] = "select id from run r where clean is not null"
	    " and coalesce(ended_ns, started_ns) <= ?1"
	    " and not exists (select 1 from time_window where run_id = r.id)"
	    " and not exists (select 1 from request where run_id = r.id)"
	    " and not exists (select 1 from event where run_id = r.id)",
	DIM_SQL(DIM_NODE, "node"),
	DIM_SQL(DIM_TIER, "tier"),
	DIM_SQL(DIM_IDENTITY, "identity"),
	DIM_SQL(DIM_FUNCTION, "function"),
	DIM_SQL(DIM_CAUSE, "cause"),
	DIM_SQL(DIM_RECEIVER, "receiver"),
	DIM_SQL_OF(DIM_STACK, "stack", "frames"),
	DIM_SQL_OF(DIM_STACK_PATH, "stack_path", "path"),
};

/* Returns the errno with which a write to the database or its WAL failed. */
static int
write_errno(struct kp_db *db)
{
	static const int files[] = { SQLITE_FCNTL_JOURNAL_POINTER,
		SQLITE_FCNTL_FILE_POINTER };
	sqlite3_file *f;
	int e = 0;

	for (int i = 0; i < 2 && e != EFBIG && e != EDQUOT; i++) {
		f = NULL;
		sqlite3_file_control(db->conn, NULL, files[i], &f);
		if (f != NULL && f->pMethods != NULL)
			f->pMethods->xFileControl(f, SQLITE_FCNTL_LAST_ERRNO,
			    &e);
	}
	return e;
}

/*
 * SQLite reports only ENOSPC as a full disk, and these as I/O errors.  With
 * SIGXFSZ ignored a limit of the file's size is an error of write(2).
 */
static const char *
why_full(struct kp_db *db, int rc)
{
	int e = (rc & 0xff) == SQLITE_IOERR && sqlite3_extended_errcode(
	    db->conn) == SQLITE_IOERR_WRITE ? write_errno(db) : 0;

	if (e == EFBIG)
		return "database or disk is full: a file may not be larger "
		       "(ulimit -f)";
	return e == EDQUOT ? "database or disk is full: the quota is reached" :
	    NULL;
}

void
db_fail(struct kp_db *db, int rc)
{
	const char *full;

	if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW ||
	    db->rc != SQLITE_OK)
		return;
	full = why_full(db, rc);
	db->rc = full != NULL ? SQLITE_FULL : rc;
	snprintf(db->why, sizeof(db->why), "%s", full != NULL ? full :
	    rc == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(db->conn));
}

int64_t
db_last_id(const struct kp_db *db)
{
	return sqlite3_last_insert_rowid(db->conn);
}

/* Statements are prepared when first needed: a schema error shows there. */
static sqlite3_stmt *
stmt_get(struct kp_db *db, enum stmt which)
{
	if (db->st[which] == NULL)
		db_fail(db, sqlite3_prepare_v3(db->conn, sql[which], -1,
		    SQLITE_PREPARE_PERSISTENT, &db->st[which], NULL));
	return db->st[which];
}

void
db_finalize(struct kp_db *db)
{
	for (int i = 0; i < ST_COUNT; i++) {
		sqlite3_finalize(db->st[i]);
		db->st[i] = NULL;
	}
}

void
db_begin(struct kp_db *db)
{
	db->rc = SQLITE_OK;
	row_start(db, ST_BEGIN);
	row_end(db);
}

int
db_commit(struct kp_db *db)
{
	int rc;

	row_start(db, ST_COMMIT);
	row_end(db);
	rc = db->rc;
	db->rc = SQLITE_OK;
	if (rc == SQLITE_OK)
		return rc;
	/* some errors have rolled back already */
	if (!sqlite3_get_autocommit(db->conn))
		sqlite3_exec(db->conn, "rollback", NULL, NULL, NULL);
	/* the rollback removed ids of this transaction */
	db_ids_clear(db);
	db->levels.n = 0;
	return rc;
}

void
row_start(struct kp_db *db, enum stmt which)
{
	db->row = db->rc == SQLITE_OK ? stmt_get(db, which) : NULL;
	db->col = 0;
}

void
row_int(struct kp_db *db, int64_t v)
{
	if (db->rc == SQLITE_OK)
		db_fail(db, sqlite3_bind_int64(db->row, ++db->col, v));
}

void
row_ints(struct kp_db *db, enum stmt which, const int64_t *v, size_t n)
{
	row_start(db, which);
	for (size_t i = 0; i < n; i++)
		row_int(db, v[i]);
}

void
row_opt(struct kp_db *db, bool is, int64_t v)
{
	if (is)
		row_int(db, v);
	else if (db->rc == SQLITE_OK)
		db_fail(db, sqlite3_bind_null(db->row, ++db->col));
}

void
row_text(struct kp_db *db, const char *s)
{
	if (db->rc == SQLITE_OK)
		db_fail(db, sqlite3_bind_text(db->row, ++db->col, s, -1,
		    SQLITE_STATIC));
}

void
row_blob(struct kp_db *db, const void *p, size_t n)
{
	if (db->rc == SQLITE_OK)
		db_fail(db, sqlite3_bind_blob64(db->row, ++db->col, p, n,
		    SQLITE_STATIC));
}

void
row_end(struct kp_db *db)
{
	if (db->row == NULL)
		return;
	if (db->rc == SQLITE_OK)
		db_fail(db, sqlite3_step(db->row));
	sqlite3_reset(db->row);
	db->row = NULL;
}

bool
row_next(struct kp_db *db)
{
	int rc;

	if (db->row == NULL)
		return false;
	rc = db->rc == SQLITE_OK ? sqlite3_step(db->row) : db->rc;
	if (rc == SQLITE_ROW)
		return true;
	db_fail(db, rc);
	row_leave(db);
	return false;
}

int64_t
row_get(const struct kp_db *db, int col)
{
	return sqlite3_column_int64(db->row, col);
}

void
row_leave(struct kp_db *db)
{
	if (db->row != NULL)
		sqlite3_reset(db->row);
	db->row = NULL;
}

int64_t
row_value(struct kp_db *db, int64_t none)
{
	int64_t v = none;

	if (row_next(db) &&
	    sqlite3_column_type(db->row, 0) != SQLITE_NULL)
		v = row_get(db, 0);
	row_leave(db);
	return v;
}

bool
rows_delete(struct kp_db *db, enum stmt del)
{
	int rows = sqlite3_total_changes(db->conn);
	int64_t id[DELETE_IDS];
	size_t n = 0;

	while (n < DELETE_IDS && row_next(db))
		id[n++] = row_get(db, 0);
	row_leave(db);
	for (size_t i = 0; i < n; i++) {
		row_exec_ints(db, del, id[i]);
		if (sqlite3_total_changes(db->conn) - rows > DELETE_ROWS)
			break;
	}
	return n > 0;
}

void
db_ids_clear(struct kp_db *db)
{
	for (int which = 0; which < DIM_COUNT; which++)
		intern_free(&db->ids[which]);
	db->nids = 0;
}

int64_t
db_dim(struct kp_db *db, enum dim which, const char *name)
{
	size_t n = strlen(name);
	const struct interned *known = intern_get(&db->ids[which], name, n);
	int64_t id;

	if (known != NULL)
		return known->val;
	row_start(db, ST_DIM_FIND + which);
	row_text(db, name);
	id = row_value(db, 0);
	if (id == 0) {
		row_start(db, ST_DIM_ADD + which);
		row_text(db, name);
		row_end(db);
		id = db_last_id(db);
	}
	if (db->rc != SQLITE_OK)
		return 0;
	if (db->nids >= IDS_MAX)
		db_ids_clear(db);
	/* a failure to cache only makes it slower */
	if (id > 0 && id <= UINT32_MAX &&
	    intern_put(&db->ids[which], name, n, (uint32_t)id) != NULL)
		db->nids += 1 + n / ID_BYTES;
	return id;
}
