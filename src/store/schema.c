/*
 * schema.c - opens a database for writing: locks, identifies, makes it.
 *
 * The lock is flock(2) on a separate descriptor.  It must stay open as long as
 * SQLite has the file open: closing any descriptor of a file releases all POSIX
 * locks that the process holds on it, including SQLite's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema.h"

#include "schema_sql.h"		/* priv/schema.sql */
#include "text/file_why.h"

#define BUSY_MS 1000

void
schema_why(char **why, const char *fmt, ...)
{
	va_list ap;

	if (why == NULL)
		return;
	va_start(ap, fmt);
	if (vasprintf(why, fmt, ap) < 0)
		*why = NULL;
	va_end(ap);
}

enum kp_err
schema_explain(sqlite3 *db, int rc, const char *path, char **why)
{
	switch (rc & 0xff) {
	case SQLITE_NOTADB:
		schema_why(why, "cannot open '%s': not a database (move it "
		    "away or choose another with -db)", path);
		return KP_EFORMAT;
	case SQLITE_CORRUPT:
		schema_why(why, "cannot open '%s': damaged (move it away or "
		    "choose another with -db; \"sqlite3 '%s' .recover\" may "
		    "save what is in it)", path, path);
		return KP_EFORMAT;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		schema_why(why, "cannot open '%s': locked by another program "
		    "(close that, or choose another file with -db)", path);
		return KP_EBUSY;
	case SQLITE_FULL:
		schema_why(why, "cannot write '%s': disk full (make room or "
		    "choose another place with -db)", path);
		return KP_EIO;
	case SQLITE_NOMEM:
		schema_why(why, "cannot open '%s': out of memory", path);
		return KP_ENOMEM;
	case SQLITE_READONLY:
		schema_why(why, "cannot write '%s' or its directory (change "
		    "their mode or choose another file with -db)", path);
		return KP_EIO;
	default:
		schema_why(why, "cannot open '%s': %s (see -db)", path,
		    db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
		return KP_EIO;
	}
}

/* Explains why open(2) failed. */
static enum kp_err
explain_errno(const char *path, char **why)
{
	char text[FILE_WHY_MAX];
	int e = errno;

	if (e == ENOENT || e == ENOTDIR)
		schema_why(why, "cannot make '%s': %s (make it or choose "
		    "another with -db)", path, file_why(text, path, e));
	else if (e == EISDIR)
		schema_why(why, "cannot open '%s': it is a directory (name a "
		    "file in it with -db)", path);
	else
		schema_why(why, "cannot write '%s': %s (change that or choose "
		    "another file with -db)", path, strerror(e));
	return e == ENOENT ? KP_ENOENT : KP_EIO;
}

/* Opens or makes the file, and locks it against other daemons. */
static enum kp_err
file_open(int *fd, bool *made, const char *path, char **why)
{
	char text[FILE_WHY_MAX];
	enum kp_err err;

	if (file_not_for_db(text, path) != NULL) {
		schema_why(why, "cannot use '%s': %s (choose a file with -db)",
		    path, text);
		return KP_EIO;
	}
	*made = true;
	*fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	if (*fd < 0 && errno == EEXIST) {
		*made = false;
		*fd = open(path, O_RDWR | O_CLOEXEC);
	}
	/* follows a symbolic link to a file that does not exist */
	if (*fd < 0 && errno == ENOENT) {
		*made = true;
		*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	}
	if (*fd < 0)
		return explain_errno(path, why);
	/* overrides the umask; WAL and shm get the same mode */
	if (*made && fchmod(*fd, 0640) != 0) {
		err = explain_errno(path, why);
		close(*fd);
		unlink(path);
		return err;
	}
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
		schema_why(why, "cannot open '%s': another kprofd writes it "
		    "(stop that one or choose another with -db)", path);
		close(*fd);
		return KP_EBUSY;
	}
	return KP_OK;
}

enum kp_err
schema_check(sqlite3 *db, const char *path, bool *empty, char **why)
{
	int app = 0, version = 0, tables = 0, rc;
	sqlite3_stmt *st;

	rc = sqlite3_prepare_v2(db, "select application_id, user_version,"
	    " (select count(*) from sqlite_master)"
	    " from pragma_application_id, pragma_user_version", -1, &st, NULL);
	if (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
		app = sqlite3_column_int(st, 0);
		version = sqlite3_column_int(st, 1);
		tables = sqlite3_column_int(st, 2);
	}
	if (rc == SQLITE_OK)
		rc = sqlite3_finalize(st);
	if (rc != SQLITE_OK)
		return schema_explain(db, rc, path, why);
	*empty = app == 0 && tables == 0 && version == 0;
	if (*empty || (app == SCHEMA_APP_ID && version == SCHEMA_VERSION))
		return KP_OK;
	if (app != SCHEMA_APP_ID || version < 1)
		schema_why(why, "cannot open '%s': not a kprofd database (move "
		    "it away or choose another with -db)", path);
	else if (version > SCHEMA_VERSION)
		schema_why(why, "cannot open '%s': written by a newer kprofd "
		    "(its schema is %d, this program knows %d; update it or "
		    "choose another file with -db)", path, version,
		    SCHEMA_VERSION);
	else
		schema_why(why, "cannot open '%s': written by an older kprofd "
		    "(its schema is %d, this program knows %d; keep it and "
		    "begin a new one with kprofd -db)", path, version,
		    SCHEMA_VERSION);
	return KP_EFORMAT;
}

enum kp_err
schema_make(sqlite3 *db, const char *path, char **why)
{
	/*
	 * auto_vacuum can only be set before the first table is made;
	 * retention needs it to release pages.
	 */
	static const char *const steps[] = {
		"pragma auto_vacuum = incremental; begin exclusive",
		(const char *)schema_sql, "commit" };
	int rc = SQLITE_OK;
	enum kp_err err;
	bool empty;

	err = schema_check(db, path, &empty, why);
	if (err != KP_OK || !empty)
		return err;
	for (int i = 0; i < 3 && rc == SQLITE_OK; i++)
		rc = sqlite3_exec(db, steps[i], NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		return KP_OK;
	err = schema_explain(db, rc, path, why);
	sqlite3_exec(db, "rollback", NULL, NULL, NULL);
	return err;
}

enum kp_err
schema_open(sqlite3 **out, int *lock, bool *made, const char *path,
    char **why)
{
	static const char ready[] = "pragma journal_mode = wal;"
				    "pragma synchronous = normal;"
				    "pragma foreign_keys = on;"
				    /* the bytes of a WAL at rest */
				    "pragma journal_size_limit = 16777216;";
	sqlite3 *db = NULL;
	enum kp_err err;
	int rc;

	err = file_open(lock, made, path, why);
	if (err != KP_OK)
		return err;
	/* one thread at a time uses it, so SQLite needs no mutexes */
	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE |
	    SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(db, BUSY_MS);
		err = schema_make(db, path, why);
		if (err == KP_OK)
			rc = sqlite3_exec(db, ready, NULL, NULL, NULL);
	}
	if (rc != SQLITE_OK)
		err = schema_explain(db, rc, path, why);
	if (err == KP_OK) {
		*out = db;
		return KP_OK;
	}
	sqlite3_close(db);
	if (*made)
		unlink(path);
	close(*lock);
	return err;
}
