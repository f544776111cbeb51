/*
 * db_insert.h - inserts rows into a database that the client makes or adds to.
 * The first error of SQLite stays in rc, and nothing is done after it.
 *
 * Names come from a target: they are written as people write them, with unsafe
 * characters replaced, so that sqlite3 may print them.
 */
#ifndef KPROFD_PROFILE_REPORT_DB_INSERT_H
#define KPROFD_PROFILE_REPORT_DB_INSERT_H

#include <sqlite3.h>

#include "calls/call_trace.h"

struct put {
	sqlite3 *db;
	sqlite3_stmt *st;	/* to bind a row's columns in; may be NULL */
	int rc;
};

/* Makes the file if there is none. */
void put_open(struct put *p, const char *file);
/* The statement that put_row() runs from now on. */
void put_prepare(struct put *p, const char *sql);
void put_exec(struct put *p, const char *sql);
/* Inserts the row whose columns are bound, and clears them. */
void put_row(struct put *p);
void put_close(struct put *p);

/* ---- the columns of the row that is put next ---- */

/* `at` is the number of the (first) column.  text NULL: null. */
void db_text(struct put *p, int at, const char *text);
void db_ints(struct put *p, int at, const int64_t *v, int n);
void db_fn(struct put *p, int at, const struct kp_call_names *t, uint32_t fn);
/* <0.81.0>; NULL: "others" */
void db_pid(struct put *p, int at, const struct kp_call_proc *proc);

#endif
