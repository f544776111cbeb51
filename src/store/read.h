/*
 * read.h - defines the open databases, and the row reader of queries.
 * Private to src/store.
 *
 * The same queries read one database or several: each file runs the statement,
 * and the rows are read as if they came from one.  Files share names, but not
 * row ids.
 */
#ifndef KPROFD_STORE_READ_H
#define KPROFD_STORE_READ_H

#include <sqlite3.h>

#include "base/map.h"
#include "base/vec.h"
#include "query.h"

struct read_file {
	sqlite3 *conn;
	bool alone;		/* it is read without its WAL */
};

struct kp_query {
	struct read_file *files;
	size_t nfiles;		/* 1 at least */
	struct intern texts;	/* every text in results */
	unsigned held;		/* nesting of kp_query_hold() */
	kp_mono_ns deadline;
	kp_dur_ns work_end;	/* by kp_thread_worked() */
	const atomic_bool *stop;	/* NULL: none */
	char why[512];
};

/*
 * Ids of requests and runs are those of their own file, plus READ_STRIDE times
 * the file's number: ids of the first file do not change, and those of the
 * others do not collide with them.
 */
#define READ_STRIDE INT64_C(1000000000000)

/* Converts an id to a file and the id there.  False: no file has it. */
bool query_file_of(const struct kp_query *q, int64_t *id, size_t *file);

/* Returns file:///a/b%3fc?QUERY, owned by the caller; NULL: failure. */
char *read_uri(const char *path, const char *query);

/* A statement as one file runs it. */
struct read_part {
	sqlite3_stmt *st;
	bool more;		/* it has an unread row */
};

/*
 * A statement that is being read.  Errors stick: read_next() returns false at
 * the end and at an error, and read_end() shows which it was.
 */
struct read {
	struct kp_query *q;
	struct read_part *v;
	size_t n, first;	/* of n files, from this one on */
	size_t file;		/* of the row, or of the error */
	sqlite3_stmt *st;	/* of the row; NULL: there is no row */
	int col, cols;		/* the rows' order */
	bool latest;
	enum kp_err err;
	int bound;
};

/* Runs in every file: one after the other, unless read_order() follows. */
void read_start(struct read *rd, struct kp_query *q, const char *sql);
/* Runs in one file only. */
void read_start_file(struct read *rd, struct kp_query *q, size_t file,
    const char *sql);
/*
 * Merges the rows of the files by `cols` columns from this one on, by which the
 * statement must sort; of equal rows the first file's come first.
 */
void read_order(struct read *rd, int col, int cols);
/* The same, descending, by one column: of equals the last file's come first. */
void read_latest(struct read *rd, int col);
/* Resets the statement, for other values. */
void read_again(struct read *rd);
void read_bind(struct read *rd, int64_t v);
/* Binds what read_id() returned, as an id that each file's own compare with. */
void read_bind_id(struct read *rd, int64_t id);
/* NULL binds null. */
void read_bind_text(struct read *rd, const char *s);
bool read_next(struct read *rd);
int64_t read_int(const struct read *rd, int col);
/* Returns the id of a request or a run, for all files. */
int64_t read_id(const struct read *rd, int col);
/* Returns -1 for null, as in all durations. */
kp_dur_ns read_dur(const struct read *rd, int col);
/* Returns a text borrowed from q; "" for null or when out of memory. */
const char *read_text(struct read *rd, int col);
/* Runs a statement that gets a text by an id, in one file; returns that, or "". */
const char *read_name(struct read *rd, int64_t id);
void read_nomem(struct read *rd);
/* Records rc if it is the first error. */
void read_fail(struct read *rd, int rc);
enum kp_err read_end(struct read *rd);
/* Makes room for one more of n elements; false: no memory, an error of rd. */
#define read_room(rd, v, n) \
	read_has_room(rd, vec_room_by_len(v, n, VEC_NO_CAP))
bool read_has_room(struct read *rd, enum kp_err room);

/* message_rows.c: reads those of the request with this id in its file. */
enum kp_err query_tree_waits(struct kp_query *q, size_t file, int64_t id,
    struct kp_query_tree *t);

#endif
