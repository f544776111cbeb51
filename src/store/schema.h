/*
 * schema.h - opens a database file: is it ours, is it new enough, and if not,
 * what to tell the user.  Private to src/store.
 */
#ifndef KPROFD_STORE_SCHEMA_H
#define KPROFD_STORE_SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "kprofd/err.h"

#define SCHEMA_VERSION 8
#define SCHEMA_APP_ID 1802531430	/* "kprf" */

/*
 * Rows of request_time: of all requests, or with " and ..." of one.  What runs
 * on after the request is not part of it.
 */
#define SCHEMA_REQUEST_TIMES(of_tiers, of_entry) \
	"select request_id, tier_id, sum(self_ns) from call" \
	" where tier_id is not null and self_ns is not null and async = 0" \
	of_tiers " group by request_id, tier_id" \
	" union all select request_id, 0, self_ns from call" \
	" where seq = 0 and self_ns is not null" of_entry

/* From the version before (0: an empty file) to this one. */
struct schema_step {
	int version;
	const char *sql;	/* sets user_version too */
};

/* Sets *why, owned by the caller, to a line of text; why may be NULL. */
void schema_why(char **why, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Says in *why what SQLite's error rc means for somebody opening path. */
enum kp_err schema_explain(sqlite3 *db, int rc, const char *path, char **why);

/* Gets lines for the log: a migration is about to start, and how long it took. */
typedef void (*schema_report)(const char *line);

/*
 * Opens path for writing, made (mode 0640) if it is not there, and brings it
 * to SCHEMA_VERSION.  *lock is a file descriptor that keeps other daemons
 * out: to be closed after the connection; *made: was it?  report may be NULL.
 * On error nothing stays open, and a file that was made here is gone again.
 */
enum kp_err schema_open(sqlite3 **out, int *lock, bool *made, const char *path,
    schema_report report, char **why);
/* The same with a connection that is open already: no lock, no WAL. */
enum kp_err schema_bring_up(sqlite3 *db, const char *path,
    schema_report report, char **why);
/* Is it ours, and of which version?  0: an empty file. */
enum kp_err schema_version(sqlite3 *db, const char *path, int *version,
    char **why);
/* Applies the steps above version, each in a transaction. */
enum kp_err schema_migrate(sqlite3 *db, const char *path, int version,
    const struct schema_step *steps, size_t n, char **why);

#endif
