/*
 * insert.h - inserts rows into a database that the client makes or adds to.
 * The first error of SQLite stays in rc, and nothing is done after it.
 */
#ifndef KPROFD_STORE_INSERT_H
#define KPROFD_STORE_INSERT_H

#include <sqlite3.h>

struct put {
	sqlite3 *db;
	sqlite3_stmt *st;	/* to bind a row's columns in; may be NULL */
	int rc;
};

/* Made where there is none. */
void put_open(struct put *p, const char *file);
/* From now on rows are put so. */
void put_prepare(struct put *p, const char *sql);
void put_exec(struct put *p, const char *sql);
/* One row, whose columns are bound; of the next one none is. */
void put_row(struct put *p);
void put_close(struct put *p);

#endif
