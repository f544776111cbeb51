/*
 * merge_rows.h - copies the rows of an attached database into main's.  Private
 * to src/store.
 */
#ifndef KPROFD_STORE_MERGE_MERGE_ROWS_H
#define KPROFD_STORE_MERGE_MERGE_ROWS_H

#include <sqlite3.h>

#include "merge.h"

/*
 * From the schema `src` into `main`, which is of SCHEMA_VERSION.  Returns
 * SQLite's error; main is then to be thrown away.
 */
int merge_rows(sqlite3 *db, struct kp_merge_count *count);
/* Whether merging handles the table; a test asks for every table. */
bool merge_knows(const char *table);

#endif
