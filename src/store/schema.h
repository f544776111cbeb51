/*
 * schema.h - opens a database file, checks that kprofd wrote it, and makes its
 * tables.  Private to src/store.
 */
#ifndef KPROFD_STORE_SCHEMA_H
#define KPROFD_STORE_SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "kprofd/err.h"

#define SCHEMA_VERSION 12	/* of priv/schema.sql */
#define SCHEMA_APP_ID 1802531430	/* "kprf" */

/*
 * Selects rows of request_time for all requests, or with " and ..." for one,
 * without calls that began after the request.
 */
#define SCHEMA_REQUEST_TIMES(of_tiers, of_entry) \
	"select request_id, tier_id, sum(self_ns) from call" \
	" where tier_id is not null and self_ns is not null and async = 0" \
	of_tiers " group by request_id, tier_id" \
	" union all select request_id, 0, self_ns from call" \
	" where seq = 0 and self_ns is not null" of_entry

/* Sets *why, owned by the caller, to a line of text; why may be NULL. */
void schema_why(char **why, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Explains SQLite's error rc for a user who opens path. */
enum kp_err schema_explain(sqlite3 *db, int rc, const char *path, char **why);

/*
 * Opens path for writing, and makes it (mode 0640) if it is not there.  *lock is a
 * file descriptor that locks out other daemons; close it after the connection.
 * *made: there was no file.  On error nothing stays open, and a new file is
 * removed.
 */
enum kp_err schema_open(sqlite3 **out, int *lock, bool *made, const char *path,
    char **why);
/* Makes the tables by an open connection, if the file is empty. */
enum kp_err schema_make(sqlite3 *db, const char *path, char **why);
/* Refuses a file that is not empty and not of SCHEMA_VERSION; does not write. */
enum kp_err schema_check(sqlite3 *db, const char *path, bool *empty,
    char **why);

#endif
