/*
 * insert.h - inserts rows into a database that the client makes or adds to.
 * The first error of SQLite stays in rc, and nothing is done after it.
 */
#ifndef KPROFD_PROFILE_REPORT_INSERT_H
#define KPROFD_PROFILE_REPORT_INSERT_H

#include <sqlite3.h>

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

#endif
