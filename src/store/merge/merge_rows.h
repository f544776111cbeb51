/*
 * merge_rows.h - copies the rows of an attached database into main's.  Private
 * to src/store.
 */
#ifndef KPROFD_STORE_MERGE_MERGE_ROWS_H
#define KPROFD_STORE_MERGE_MERGE_ROWS_H

#include <sqlite3.h>

#include "merge.h"

/*
 * Copies from the schema `src` into `main`, both of SCHEMA_VERSION.
 * Returns SQLite's error; the caller must then discard main.
 */
int merge_rows(sqlite3 *db, struct kp_merge_count *count);
/* Returns whether merging handles the table; a test checks every table. */
bool merge_knows(const char *table);

#endif
