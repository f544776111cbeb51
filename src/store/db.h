/*
 * db.h - the writing connection: prepared statements, row ids of names,
 * transactions.  Private to src/store; one thread at a time.
 *
 * Errors stick: after the first one in a transaction every call does nothing,
 * until db_commit() returns that error and clears it.
 */
#ifndef KPROFD_STORE_DB_H
#define KPROFD_STORE_DB_H

#include <sqlite3.h>
#include <sys/types.h>

#include "base/intern.h"
#include "store/read/range_plan.h"
#include "store/write/drop_counts.h"
#include "store.h"

enum dim { DIM_NODE, DIM_TIER, DIM_IDENTITY, DIM_FUNCTION,
	DIM_RECEIVER, DIM_COUNT };

enum stmt {
	ST_BEGIN,
	ST_COMMIT,
	ST_WINDOW,
	ST_STAT,
	ST_LOSS,
	ST_COST,
	ST_REQUEST,
	ST_CALL,
	ST_MESSAGES,				/* write/message_rows.c */
	ST_REQUEST_WAIT,
	ST_TIMES,
	ST_EVENT,
	ST_LEVEL_OLDEST,			/* upkeep.c */
	ST_OLDEST,
	ST_WINDOW_DEL,
	ST_PART_CELLS,				/* combine.c */
	ST_SUM_CELLS,
	ST_LEVELS_DEL,				/* levels.c */
	ST_LEVELS_ADD,
	ST_LEVELS_BACK,
	ST_LEVEL_AT,
	ST_LEVEL_DONE,
	ST_WINDOW_NEXT,
	ST_NODE_NEXT,
	ST_SUM,
	ST_SUM_STAT,
	ST_SUM_THERE,
	ST_SUM_DEL,
	ST_SUMS_LATE,
	ST_SUMS_FINER,
	ST_SUMS_SLOT,
	ST_SHOW_PARTS,
	ST_SHOW_WINDOW,
	ST_SHOW_SUM,
	ST_SHOW_STAT,
	ST_SHOW_LOSSES,
	ST_SHOW_COST,
	ST_SHOW_PARTS_DEL,
	ST_RAISE,
	ST_REQUEST_DEL,
	ST_EVENT_DEL,
	ST_RUN_DEL,
	ST_SUMS_OLD,
	ST_WINDOWS_OLD,
	ST_REQUESTS_OLD,
	ST_EVENTS_OLD,
	ST_RUNS_OLD,
	ST_DIM_FIND,				/* and one for each dim */
	ST_DIM_ADD = ST_DIM_FIND + DIM_COUNT,	/* the same */
	ST_COUNT = ST_DIM_ADD + DIM_COUNT
};

/* The windows of one node, or of all, that start within one interval. */
struct slot {
	int64_t level;		/* its length in s */
	int64_t node;		/* row id; 0: all */
	kp_wall_ns start;
	/* of one run only, and up to this time: for levels_show() */
	int64_t run;
	kp_wall_ns until;
};

/* Windows of node ?1 and run ?4, of level ?2 or finer, that start in ?3..?5. */
#define IN_SLOT " from time_window where node_id = ?1 and level <= ?2" \
	" and start_ns >= ?3 and run_id = ?4 and start_ns < ?5"
/* Those which the window ?6 replaces. */
#define PARTS_OF " (select id" IN_SLOT " and id <> ?6)"

struct kp_db {
	sqlite3 *conn;
	int lock;		/* see schema.c */
	bool made;		/* db_open() made the file */
	char *path;
	dev_t dev;		/* of the next two, to recognise them */
	ino_t wal, shm;		/* 0: unknown */
	off_t size;		/* of the file, when last looked at */
	sqlite3_stmt *st[ST_COUNT];
	struct intern ids[DIM_COUNT];	/* of names: a cache */
	size_t nids;
	int64_t run;
	struct range_levels levels;	/* none: not read yet */
	int64_t cause[KP_LOSS_COUNT];
	struct kp_buf blob;

	int rc;			/* first error of this transaction */
	char why[256];		/* its text */
	sqlite3_stmt *row;	/* being filled in */
	int col;
};

/* write/run_rows.c: opens the file, marks earlier runs that did not end, starts
   this one. */
enum kp_err db_open(struct kp_db **out, const struct kp_store_opts *o,
    char **why);
/* The end of the last window that is there; 0: there is none. */
kp_wall_ns db_newest(struct kp_db *db);
/* Ends the run and leaves one file.  lost: rows that no window reports. */
void db_close(struct kp_db *db, uint64_t lost);
/* Ends a run that never began; deletes a file made for it, unless keep. */
void db_failed(struct kp_db *db, const char *why, bool keep);
/*
 * Closes a file that was moved: completes it where it is now, and removes what
 * is left under the old name, since the next file would take its WAL.
 */
void db_abandon(struct kp_db *db);

/* Finalizes all statements. */
void db_finalize(struct kp_db *db);

/*
 * Closes a file that was truncated, without writing to it.  Returns true if
 * something is left of it: that is renamed, with ".truncated" appended.
 */
bool db_discard(struct kp_db *db);

/*
 * write/file_replaced.c: whether the file and its WAL are still under their
 * names.  DB_MOVED: one was deleted, moved or replaced.
 */
enum db_file { DB_THERE, DB_MOVED, DB_TRUNCATED };
enum db_file db_file(const struct kp_db *db);
/* Notes which files are open, once the WAL exists. */
void file_remember(struct kp_db *db);
/* Notes the file's size, after what may have changed it. */
void file_note_size(struct kp_db *db);
/* Removes an empty file; renames another one, and returns true. */
bool file_set_aside(const struct kp_db *db);
/* Removes the file, unless its name leads to another one by now. */
void file_remove(const struct kp_db *db);
/* Removes our WAL and shm beside the file's old name. */
void file_clear_wal(const struct kp_db *db);

/* write/run_rows.c: another tiers.conf is in force from now on. */
void db_conf(struct kp_db *db, const struct kp_conf *conf, const char *text);

void db_begin(struct kp_db *db);
/* SQLITE_OK, or the first error, and then nothing was written. */
int db_commit(struct kp_db *db);
/* Notes rc if it is an error, and the first one of this transaction. */
void db_fail(struct kp_db *db, int rc);
int64_t db_last_id(const struct kp_db *db);

/* A row: start, fill in column by column, end. */
void row_start(struct kp_db *db, enum stmt which);
void row_int(struct kp_db *db, int64_t v);
/* Null unless `is`. */
void row_opt(struct kp_db *db, bool is, int64_t v);
void row_text(struct kp_db *db, const char *s);
void row_blob(struct kp_db *db, const void *p, size_t n);
void row_end(struct kp_db *db);
/*
 * The rows of a query: start, fill in, then row_next() until it returns false;
 * row_get() reads a column.  row_leave() ends the query early.
 */
bool row_next(struct kp_db *db);
int64_t row_get(const struct kp_db *db, int col);
void row_leave(struct kp_db *db);
/*
 * For a query of ids that is started and filled in: deletes by `del` the rows
 * that it finds.  Stops after DELETE_ROWS rows, those that are deleted with
 * them included: one turn of upkeep.  False: it found none.
 */
#define DELETE_ROWS 32768	/* some 100 ms */
bool rows_delete(struct kp_db *db, enum stmt del);

/* The row id of a name, inserted if new.  Not while a row is filled in. */
int64_t db_dim(struct kp_db *db, enum dim which, const char *name);
/* Empties the cache of row ids. */
void db_ids_clear(struct kp_db *db);

/*
 * write/window_rows.c, write/request_rows.c.  lost: what this window reports of
 * earlier ones of its node; or NULL.
 */
void db_window(struct kp_db *db, const struct kp_window *w,
    const struct drop_counts_node *lost);
void db_happening(struct kp_db *db, const struct kp_happening *h);
void db_tree(struct kp_db *db, const struct kp_tree *t);
uint64_t db_window_rows(const struct kp_window *w);
/* cell_row.c.  into: ST_STAT, of a window, or ST_SUM_STAT, of a sum. */
void db_cell(struct kp_db *db, enum stmt into, int64_t id, int64_t tier,
    int64_t identity, const struct kp_cell *c);
/* Columns of the row: min, max, histogram and percentiles; null without any. */
void db_hist(struct kp_db *db, bool any, const struct kp_hist *h,
    kp_dur_ns min, kp_dur_ns max);

/* write/message_rows.c: the waits of a window, and of a request kept as a tree. */
void db_waits(struct kp_db *db, int64_t window, const struct kp_window *w);
void db_tree_waits(struct kp_db *db, int64_t request,
    const struct kp_tree *t);
/* Adds up the waits of the windows of a slot and its run for a new window. */
void db_waits_combine(struct kp_db *db, const struct slot *s, int64_t into);

#endif
