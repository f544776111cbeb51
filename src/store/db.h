/*
 * db.h - declares the writing side: the connection with its prepared statements
 * and row ids of names, the rows that it inserts, sums and upkeep.  Private to
 * src/store; one thread at a time.
 *
 * Errors stick: after the first one in a transaction every call does nothing,
 * until db_commit() returns that error and clears it.
 */
#ifndef KPROFD_STORE_DB_H
#define KPROFD_STORE_DB_H

#include <sqlite3.h>
#include <sys/types.h>

#include "base/map.h"
#include "range.h"
#include "retain.h"
#include "store.h"

enum dim { DIM_NODE, DIM_TIER, DIM_IDENTITY, DIM_FUNCTION, DIM_CAUSE,
	DIM_RECEIVER, DIM_STACK, DIM_STACK_PATH, DIM_COUNT };

enum stmt {
	ST_BEGIN,
	ST_COMMIT,
	ST_NEWEST,				/* db_file.c */
	ST_WINDOW,				/* insert.c */
	ST_STAT,
	ST_LOSS,
	ST_COST,
	ST_REQUEST,
	ST_CALL,
	ST_MESSAGES,				/* message_rows.c */
	ST_SHOW_WAITS,
	ST_REQUEST_WAIT,
	ST_USAGE,				/* usage_rows.c */
	ST_STACK_STAT,				/* stack_rows.c */
	ST_SUM_STACK,
	ST_PART_STACKS,
	ST_SUM_STACKS,
	ST_PART_STACKS_N,
	ST_SUM_STACKS_N,
	ST_STACK_LAST,				/* upkeep.c */
	ST_STACK_USED,
	ST_STACK_SUM_USED,
	ST_STACK_IDS,
	ST_STACK_DEL,
	ST_TIMES,
	ST_EVENT,
	ST_LEVEL_OLDEST,
	ST_OLDEST,
	ST_PAGE_SIZE,
	ST_PAGES,
	ST_FREE_PAGES,
	ST_VACUUM,
	ST_WINDOW_DEL,
	ST_PART_CELLS,				/* levels.c */
	ST_SUM_CELLS,
	ST_LEVELS_DEL,
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
	ST_SHOW_USAGE,
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
/* The first three and all values of these. */
#define SLOT(s) (s)->node, (s)->level, (s)->start
#define SLOT_OF_RUN(s) SLOT(s), (s)->run, (s)->until
/* Those that window ?6 replaces. */
#define PARTS_OF " (select id" IN_SLOT " and id <> ?6)"

/*
 * A pass over the texts of stacks, which deletes those that no row refers to.  An
 * index of the rows by stack would double them.  Instead a pass reads all rows
 * once, a part in each turn of upkeep, and marks the stacks it meets; rows that
 * are written meanwhile mark theirs.  Then it deletes the texts that were there
 * at its start and have no mark.  Zeroed: no pass is running.
 */
struct stack_texts {
	uint8_t *used;		/* a bit for each id; NULL: no pass */
	int64_t last;		/* it may delete ids up to this one */
	enum { STACK_TEXTS_SUMS, STACK_TEXTS_WINDOWS, STACK_TEXTS_DELETE } step;
	int64_t at;		/* the last id of this step that it has seen */
	kp_wall_ns next;	/* when the next pass begins; 0: not set */
	bool swept;		/* a pass has ended since the last cut of ages */
};

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
	struct kp_buf blob, async_blob;	/* bound until row_end() */
	struct stack_texts stack_texts;

	int rc;			/* first error of this transaction */
	char why[256];		/* its text */
	sqlite3_stmt *row;	/* being filled in */
	int col;
};

/* db_file.c: opens the file, marks earlier runs that did not end, starts this
   one. */
enum kp_err db_open(struct kp_db **out, const struct kp_store_opts *o,
    char **why);
/* Returns the end of the last window; 0: there is none. */
kp_wall_ns db_newest(struct kp_db *db);
/* From here on what another program has locked fails at once. */
void db_wait_no_more(struct kp_db *db);
/* Ends the run and leaves one file.  lost: rows that no window reports. */
void db_close(struct kp_db *db, uint64_t lost);
/* Ends a run that never began; deletes a file made for it, unless keep. */
void db_failed(struct kp_db *db, const char *why, bool keep);
/*
 * Closes a file that was moved: completes it where it is now, and removes its
 * WAL under the old name, which SQLite would apply to the next file.
 */
void db_abandon(struct kp_db *db);
/*
 * Closes a file that was truncated, without writing to it.  If it is not empty,
 * renames it, with ".truncated" appended, and returns true.
 */
bool db_discard(struct kp_db *db);
/*
 * Checks whether the file and its WAL are still under their names.  DB_MOVED: one
 * was deleted, moved or replaced.
 */
enum db_file { DB_THERE, DB_MOVED, DB_TRUNCATED };
enum db_file db_file(const struct kp_db *db);
/* Records that another tiers.conf is in force from now on. */
void db_conf(struct kp_db *db, const struct kp_conf *conf, const char *text);

/* Finalizes all statements. */
void db_finalize(struct kp_db *db);
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
/* Starts a statement with values that are integers; and runs it as well. */
#define row_begin_ints(db, which, ...) row_ints(db, which, \
	(const int64_t[]){ __VA_ARGS__ }, \
	sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
#define row_exec_ints(db, which, ...) \
	(row_begin_ints(db, which, __VA_ARGS__), row_end(db))
void row_ints(struct kp_db *db, enum stmt which, const int64_t *v, size_t n);
/*
 * To read a query's rows, start it, fill in, and call row_next() until it
 * returns false; row_get() reads a column.  row_leave() ends the query early.
 */
bool row_next(struct kp_db *db);
int64_t row_get(const struct kp_db *db, int col);
void row_leave(struct kp_db *db);
/*
 * Reads one column of one row, and ends the query.  Returns `none` for no row, for
 * null, and after an error.
 */
int64_t row_value(struct kp_db *db, int64_t none);
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
 * Rows that could not be written, until a window of their node is written and
 * reports them.  So the sums over all windows stay true: entry calls are never
 * missing, and each request that was measured but not written counts as a loss.
 */
struct drop_counts_node {
	char *node;		/* owned */
	uint64_t rows;		/* of any table */
	uint64_t entry_calls, sampled;
	struct kp_losses losses;
};

/* Nodes with unreported drops; further ones count with the last. */
#define DROP_COUNTS_NODES_MAX 256

struct drop_counts {
	struct drop_counts_node v[DROP_COUNTS_NODES_MAX];
	size_t n;
};

void drop_counts_free(struct drop_counts *l);
/* Returns NULL if nothing of the node was dropped. */
struct drop_counts_node *drop_counts_find(struct drop_counts *l,
    const char *node);
/* w: the window that was dropped; NULL: the rows were not a window. */
void drop_counts_add(struct drop_counts *l, const char *node, uint64_t rows,
    const struct kp_window *w);
/* Adds the node's counts to a window that reports them. */
void drop_counts_add_to(const struct drop_counts_node *n,
    struct kp_window *head);
/*
 * Subtracts what a window has reported; more may have been dropped meanwhile.
 * A node with nothing left is removed.
 */
void drop_counts_reported(struct drop_counts *l,
    const struct drop_counts_node *reported);
/* Returns the number of unreported rows of all nodes. */
uint64_t drop_counts_rows(const struct drop_counts *l);

/*
 * insert.c.  lost: drops of its node that this window reports; or NULL.
 */
void db_window(struct kp_db *db, const struct kp_window *w,
    const struct drop_counts_node *lost);
void db_happening(struct kp_db *db, const struct kp_happening *h);
/* Writes a happening of the daemon itself. */
void db_event(struct kp_db *db, kp_wall_ns at, const char *kind,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Sets its id. */
void db_tree(struct kp_db *db, struct kp_tree *t);
uint64_t db_window_rows(const struct kp_window *w);
/* cell_row.c.  into: ST_STAT, of a window, or ST_SUM_STAT, of a sum. */
void db_cell(struct kp_db *db, enum stmt into, int64_t id, int64_t tier,
    int64_t identity, const struct kp_cell *c);
/* Binds min, max, histogram and percentiles; nulls unless any. */
void db_hist(struct kp_db *db, bool any, const struct kp_hist *h,
    kp_dur_ns min, kp_dur_ns max);

/*
 * message_rows.c: writes the waits of a window, and of a slow request; or adds up
 * those of the windows in a slot, as those of the window `into`.
 */
void db_waits(struct kp_db *db, int64_t window, const struct kp_window *w);
void db_tree_waits(struct kp_db *db, int64_t request,
    const struct kp_tree *t);
void db_waits_combine(struct kp_db *db, const struct slot *s, int64_t into);
/* Columns of message_stat m. */
#define WAIT_COLUMNS "m.messages, m.w_messages, m.away, m.w_away," \
	" m.wait_ns, m.w_wait_ns, m.min_ns, m.max_ns, m.hist"

/* usage_rows.c */
void db_usage(struct kp_db *db, int64_t window, const struct kp_usage *u);

/* stack_rows.c: a table of rows by their ids, state and octave. */
struct stack_row {
	int64_t node;		/* ids; 0 where all rows are of one node */
	int64_t identity, path, stack;
	uint8_t state;		/* enum kp_stack_state */
	uint8_t octave;		/* of the request's duration (hist.h) */
	uint64_t samples;
	kp_dur_ns time, w_time;
};

/* Zeroed is empty; no two rows have the same ids, state and octave. */
struct stack_totals {
	struct stack_row *v;
	size_t n, room;
	uint32_t *slots;	/* 1 + index of v, by hash; 0: free */
	size_t nslots;		/* a power of two */
};

#define STACK_TOTALS_MAX 1000000u	/* rows: 88 MB */

void stack_totals_free(struct stack_totals *s);
/* Adds to the row of these ids.  KP_ENOMEM, KP_ELIMIT: s is unchanged. */
enum kp_err stack_totals_add(struct stack_totals *s,
    const struct stack_row *row);

/* The most rows of one window: what is beyond goes into others, as below. */
struct stack_limits {
	size_t of_identity;	/* stacks of one request type */
	size_t stacks;		/* of all types */
	size_t others;		/* rows of the stack "_other" */
};

/* The ids of "_other", as a stack, as a path and as a request type. */
struct stack_other {
	int64_t stack, path, identity;
};

/*
 * Keeps the rows with the longest w_time.  The others are added up as the stack
 * "_other" of their type, path, state and octave; of these rows, those that are too many
 * as "_other" in every respect, one for each state.  So sums stay the same, and
 * n is at most stacks + others + KP_STACK_STATES.  After KP_ENOMEM only free s.
 */
enum kp_err stack_totals_limit(struct stack_totals *s,
    const struct stack_limits *l, const struct stack_other *other);

/*
 * Writes the stacks of a window, at most STACKS_OF_WINDOW rows; or adds up those
 * of pieces, at most STACKS_OF_SUM rows, into ST_STACK_STAT, of a window, or
 * ST_SUM_STACK, of a sum of one node.
 */
#define STACKS_OF_WINDOW 3007
#define STACKS_OF_SUM 1507
void db_stacks(struct kp_db *db, int64_t window, const struct kp_window *w);
void db_stacks_combine(struct kp_db *db, const struct range_piece *v, size_t n,
    enum stmt into, int64_t id);

/*
 * levels.c makes the windows of coarser levels: sums of whole minutes, tens of
 * minutes, hours, six hours, days and weeks (in UTC), or of the lengths of
 * -retain, of each node and of all nodes.
 *
 * A turn of upkeep writes a sum once its slot of time is over, from the sums of
 * the next finer level, in its own transaction: a sum that fails loses no
 * window.  It is in level_sum and level_stat as long as its windows exist; when
 * these are too old it replaces them as a window (levels_show).  So every
 * window is in time_window once, and queries return the same without sums.
 * level_next has the levels and the progress of each.  A slot with only one
 * window is not written: that window is its sum.
 *
 * These run in the caller's transaction.
 */

/* Sets the levels; if they differ from those before, all sums are rebuilt. */
void levels_set(struct kp_db *db, const struct kp_retain *r,
    kp_dur_ns interval);
/* Returns the next level above `level` that divides `of`. */
int64_t levels_above(struct kp_db *db, int64_t level, int64_t of);
/*
 * Call it before a window is written: deletes the sums of the slots that it
 * starts in, so that they are made again.
 */
void levels_forget_sums(struct kp_db *db, int64_t node, kp_wall_ns start);
/* Writes one sum that is due.  False: none is due. */
bool levels_make(struct kp_db *db, kp_wall_ns now, kp_dur_ns interval);
/*
 * Replaces the windows of one run in this slot by one window.  If they are too
 * many for one turn, it adds the first of them, or only deletes finer sums.
 */
void levels_show(struct kp_db *db, const struct slot *s);

/*
 * Writes all sums that are due, in a database that no other process has open.
 * Returns SQLite's result code.
 */
int levels_make_all(sqlite3 *conn);

/*
 * upkeep.c does the writer's work while nothing waits to be written: deletes old
 * rows, level by level, writes missing sums, and releases free pages.
 *
 * It works in small turns, one transaction each, so that a window that is
 * closed meanwhile waits for one turn at most.  A crash between two turns loses
 * nothing: the database shows what is due.
 */
struct upkeep {
	struct kp_retain retain;
	kp_dur_ns interval;	/* of windows as they are measured */
	uint64_t max_bytes;	/* of the file; 0: no limit */
	unsigned cuts;		/* times that ages were shortened by a quarter,
				   because the file would be too large */
	unsigned cuts_reported;	/* their maximum in reported events */
	uint64_t bytes;		/* of the file, at the last turn */
};

/* Returns SQLite's result code; *more: there may be more to do now. */
int upkeep_turn(struct upkeep *u, struct kp_db *db, kp_wall_ns now,
    bool *more);
/* Returns the ages in force, in percent of the configured ones. */
unsigned upkeep_percent(const struct upkeep *u);
/* Marks the text of a stack that a row is written for. */
void stack_texts_use(struct stack_texts *t, int64_t id);

#endif
