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

#define SCHEMA_VERSION 10	/* of priv/schema.sql */
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

/* Leads to this version from the one before, or from an empty file. */
struct schema_step {
	int version;
	const char *sql;	/* also sets user_version */
};

/* Sets *why, owned by the caller, to a line of text; why may be NULL. */
void schema_why(char **why, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Explains SQLite's error rc for a user who opens path. */
enum kp_err schema_explain(sqlite3 *db, int rc, const char *path, char **why);

/*
 * Opens path for writing, makes it (mode 0640) if it is not there, and brings it
 * to SCHEMA_VERSION.  *lock is a file descriptor that locks out other daemons;
 * close it after the connection.  *made: there was no file.  On error nothing
 * stays open, and a new file is removed.
 */
enum kp_err schema_open(sqlite3 **out, int *lock, bool *made, const char *path,
    char **why);
/* Does that by an open connection: without lock or WAL. */
enum kp_err schema_bring_up(sqlite3 *db, const char *path, char **why);
/*
 * Gets the schema of the file, if it is kprofd's and this program knows it; 0: an
 * empty file.
 */
enum kp_err schema_version(sqlite3 *db, const char *path, int *version,
    char **why);
/* Runs the steps above version, each in a transaction. */
enum kp_err schema_migrate(sqlite3 *db, const char *path, int version,
    const struct schema_step *steps, size_t n, char **why);

#endif
