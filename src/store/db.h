/*
 * db.h - manages the writing connection: prepared statements, row ids of names,
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
#include "store/rollup/stack_texts.h"
#include "store/write/drop_counts.h"
#include "store.h"

enum dim { DIM_NODE, DIM_TIER, DIM_IDENTITY, DIM_FUNCTION,
	DIM_RECEIVER, DIM_STACK, DIM_STACK_PATH, DIM_COUNT };

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
	ST_STACK_STAT,				/* write/stack_rows.c */
	ST_SUM_STACK,
	ST_PART_STACKS,
	ST_SUM_STACKS,
	ST_PART_STACKS_N,
	ST_SUM_STACKS_N,
	ST_STACK_LAST,				/* stack_texts.c */
	ST_STACK_USED,
	ST_STACK_SUM_USED,
	ST_STACK_IDS,
	ST_STACK_DEL,
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
	/* levels_show(): of this run only, and up to this time */
	int64_t run;
	kp_wall_ns until;
};

/* Windows of node ?1 and run ?4, of level ?2 or finer, that start in ?3..?5. */
#define IN_SLOT " from time_window where node_id = ?1 and level <= ?2" \
	" and start_ns >= ?3 and run_id = ?4 and start_ns < ?5"
/* Those that window ?6 replaces. */
#define PARTS_OF " (select id" IN_SLOT " and id <> ?6)"

struct kp_db {
	sqlite3 *conn;
	int lock;		/* see schema.c */
	bool made;		/* db_open() made the file */
	char *path;
	dev_t dev;		/* of the next two, to recognise them */
	ino_t wal, shm;		/* 0: unknown */
	off_t size;		/* of the file, at the last check */
	sqlite3_stmt *st[ST_COUNT];
	struct intern ids[DIM_COUNT];	/* of names: a cache */
	size_t nids;
	int64_t run;
	struct range_levels levels;	/* none: not read yet */
	kp_wall_ns last_end;	/* of the window written last; 0: none yet */
	int64_t cause[KP_LOSS_COUNT];
	struct kp_buf blob, async_blob;	/* bound until row_end() */
	struct stack_texts stack_texts;

	int rc;			/* first error of this transaction */
	char why[256];		/* its text */
	sqlite3_stmt *row;	/* being filled in */
	int col;
};

/* write/run_rows.c: opens the file, marks earlier runs that did not end, starts
   this one. */
enum kp_err db_open(struct kp_db **out, const struct kp_store_opts *o,
    char **why);
/* Returns the end of the last window; 0: there is none. */
kp_wall_ns db_newest(struct kp_db *db);
/* Ends the run and leaves one file.  lost: rows that no window reports. */
void db_close(struct kp_db *db, uint64_t lost);
/* Ends a run that never began; deletes a file made for it, unless keep. */
void db_failed(struct kp_db *db, const char *why, bool keep);
/*
 * Closes a file that was moved: completes it where it is now, and removes its
 * WAL under the old name, which SQLite would apply to the next file.
 */
void db_abandon(struct kp_db *db);

/* Finalizes all statements. */
void db_finalize(struct kp_db *db);

/*
 * Closes a file that was truncated, without writing to it.  If it is not empty,
 * renames it, with ".truncated" appended, and returns true.
 */
bool db_discard(struct kp_db *db);

/*
 * write/file_replaced.c: checks whether the file and its WAL are still under
 * their names.  DB_MOVED: one was deleted, moved or replaced.
 */
enum db_file { DB_THERE, DB_MOVED, DB_TRUNCATED };
enum db_file db_file(const struct kp_db *db);
/* Records which files are open, once the WAL exists. */
void file_remember(struct kp_db *db);
/* Records the file's size; call it after possible changes. */
void file_note_size(struct kp_db *db);
/* Removes an empty file; renames another one, and returns true. */
bool file_set_aside(const struct kp_db *db);
/* Removes the file, unless its name now leads to another one. */
void file_remove(const struct kp_db *db);
/* Removes our WAL and shm beside the file's old name. */
void file_clear_wal(const struct kp_db *db);

/* write/run_rows.c: records that another tiers.conf is in force from now on. */
void db_conf(struct kp_db *db, const struct kp_conf *conf, const char *text);

void db_begin(struct kp_db *db);
/* Returns SQLITE_OK, or the first error; nothing was written then. */
int db_commit(struct kp_db *db);
/* Records rc if it is the first error of this transaction. */
void db_fail(struct kp_db *db, int rc);
int64_t db_last_id(const struct kp_db *db);

/* To write a row, start it, fill in column by column, and end it. */
void row_start(struct kp_db *db, enum stmt which);
void row_int(struct kp_db *db, int64_t v);
/* Binds null unless `is`. */
void row_opt(struct kp_db *db, bool is, int64_t v);
void row_text(struct kp_db *db, const char *s);
void row_blob(struct kp_db *db, const void *p, size_t n);
void row_end(struct kp_db *db);
/*
 * To read a query's rows, start it, fill in, and call row_next() until it
 * returns false; row_get() reads a column.  row_leave() ends the query early.
 */
bool row_next(struct kp_db *db);
int64_t row_get(const struct kp_db *db, int col);
void row_leave(struct kp_db *db);
/*
 * Deletes by `del` the rows of a query of ids that is started and filled in.
 * Stops after DELETE_ROWS rows, including those that the cascade deletes: one
 * turn of upkeep.  False: it found none.
 */
#define DELETE_ROWS 32768	/* about 100 ms */
bool rows_delete(struct kp_db *db, enum stmt del);

/* Returns a name's row id; adds a new name.  Not while a row is filled in. */
int64_t db_dim(struct kp_db *db, enum dim which, const char *name);
/* Empties the cache of row ids. */
void db_ids_clear(struct kp_db *db);

/*
 * write/window_rows.c, write/request_rows.c.  lost: drops of its node that this
 * window reports; or NULL.
 */
void db_window(struct kp_db *db, const struct kp_window *w,
    const struct drop_counts_node *lost);
void db_happening(struct kp_db *db, const struct kp_happening *h);
void db_tree(struct kp_db *db, const struct kp_tree *t);
uint64_t db_window_rows(const struct kp_window *w);
/* cell_row.c.  into: ST_STAT, of a window, or ST_SUM_STAT, of a sum. */
void db_cell(struct kp_db *db, enum stmt into, int64_t id, int64_t tier,
    int64_t identity, const struct kp_cell *c);
/* Binds min, max, histogram and percentiles; nulls unless any. */
void db_hist(struct kp_db *db, bool any, const struct kp_hist *h,
    kp_dur_ns min, kp_dur_ns max);

/* write/message_rows.c: write the waits of a window, and of a slow request. */
void db_waits(struct kp_db *db, int64_t window, const struct kp_window *w);
void db_tree_waits(struct kp_db *db, int64_t request,
    const struct kp_tree *t);
/*
 * write/stack_rows.c: writes the stacks of a window, at most STACKS_OF_WINDOW
 * rows; or adds up those of pieces, at most STACKS_OF_SUM rows, into ST_STACK_STAT,
 * of a window, or ST_SUM_STACK, of a sum of one node.
 */
#define STACKS_OF_WINDOW 3007
#define STACKS_OF_SUM 1507
void db_stacks(struct kp_db *db, int64_t window, const struct kp_window *w);
void db_stacks_combine(struct kp_db *db, const struct range_piece *v, size_t n,
    enum stmt into, int64_t id);
/* Returns the number of rows of the pieces; stops counting past the limit. */
int64_t db_stacks_count(struct kp_db *db, const struct range_piece *v,
    size_t n, int64_t limit);
/* Sums the waits of the windows of a slot and its run for a new window. */
void db_waits_combine(struct kp_db *db, const struct slot *s, int64_t into);

#endif
