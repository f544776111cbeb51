/*
 * merge.c - handles the files of a merge: locks OUT, copies it to OUT.merging,
 * adds each IN in a transaction, and renames the copy to OUT at the end.
 *
 * The copy needs no journal, because any failure deletes it.  It is synced
 * once, before it replaces OUT.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "merge_rows.h"
#include "store/read/read.h"
#include "store/schema.h"
#include "store/rollup/levels.h"
#include "text/file_why.h"

#define STOP_OPS 10000		/* of SQLite's VM, between two checks */
#define BACKUP_PAGES 1000	/* the same, while OUT is copied */
#define BUSY_MS 2000

struct kp_merge {
	char *path, *copy;	/* OUT, OUT.merging */
	const volatile sig_atomic_t *stop;
	sqlite3 *db;		/* the copy */
	int lock, fd;		/* of OUT, -1: there is none; of the copy */
};

static int
stopped(void *ctx)
{
	const struct kp_merge *m = ctx;

	return *m->stop != 0;
}

static enum kp_err
fail(const struct kp_merge *m, int rc, char **why)
{
	if ((rc & 0xff) != SQLITE_INTERRUPT)
		return schema_explain(m->db, rc, m->copy, why);
	schema_why(why, "interrupted: '%s' is as it was", m->path);
	return KP_ETIMEOUT;
}

static enum kp_err
fail_errno(const char *what, const char *path, char **why)
{
	char text[FILE_WHY_MAX];

	schema_why(why, "cannot %s '%s': %s", what, path,
	    file_why(text, path, errno));
	return KP_EIO;
}

static void
merge_free(struct kp_merge *m)
{
	if (m->db != NULL)
		sqlite3_close(m->db);
	if (m->fd >= 0)
		close(m->fd);
	if (m->lock >= 0)
		close(m->lock);
	free(m->copy);
	free(m->path);
	free(m);
}

void
kp_merge_abandon(struct kp_merge *m)
{
	if (m->fd >= 0)
		unlink(m->copy);
	merge_free(m);
}

/* Returns whether the name still leads to this file. */
static bool
still_named(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum kp_err
lock_file(int fd, const char *path, char **why)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && still_named(fd, path))
		return KP_OK;
	schema_why(why, "cannot merge into '%s': a kprofd or another merge "
	    "writes it", path);
	return KP_EBUSY;
}

/*
 * Checks that there is no WAL or journal of an earlier OUT, which SQLite would
 * apply to the new one, and damage it.
 */
static enum kp_err
nothing_left(const struct kp_merge *m, char **why)
{
	static const char *const suffixes[] = { "-wal", "-journal" };
	enum kp_err err = KP_OK;
	char *name;

	for (size_t i = 0; i < 2 && err == KP_OK; i++) {
		if (asprintf(&name, "%s%s", m->path, suffixes[i]) < 0)
			return KP_ENOMEM;
		if (access(name, F_OK) == 0) {
			schema_why(why, "cannot make '%s': '%s' belongs to "
			    "another database of this name (move it away)",
			    m->path, name);
			err = KP_ESTATE;
		}
		free(name);
	}
	return err;
}

/* What is not a file is never replaced by one: as root not even /dev/null. */
static enum kp_err
check_is_file(const char *path, char **why)
{
	char text[FILE_WHY_MAX];

	if (file_not_for_db(text, path) == NULL)
		return KP_OK;
	schema_why(why, "cannot merge into '%s': %s", path, text);
	return KP_ESTATE;
}

static enum kp_err
lock_out(struct kp_merge *m, char **why)
{
	m->lock = open(m->path, O_RDWR | O_CLOEXEC);
	if (m->lock >= 0)
		return lock_file(m->lock, m->path, why);
	if (errno != ENOENT)
		return fail_errno("write", m->path, why);
	return nothing_left(m, why);
}

/* Makes an empty file with OUT's mode; replaces that of a killed merge. */
static enum kp_err
make_copy(struct kp_merge *m, char **why)
{
	struct stat sb = { .st_mode = 0640 };
	enum kp_err err;

	m->fd = open(m->copy, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (m->fd < 0)
		return fail_errno("make", m->copy, why);
	err = lock_file(m->fd, m->copy, why);
	if (err != KP_OK) {
		close(m->fd);	/* another merge uses it: keep it */
		m->fd = -1;
		return err;
	}
	if (m->lock >= 0 && fstat(m->lock, &sb) == 0 &&
	    fchown(m->fd, sb.st_uid, sb.st_gid) != 0)
		sb.st_mode &= (mode_t)~070;	/* it has another group */
	if (fchmod(m->fd, sb.st_mode & 0777) != 0 || ftruncate(m->fd, 0) != 0)
		return fail_errno("make", m->copy, why);
	return KP_OK;
}

static int
mode_is(void *ctx, int n, char **values, char **names)
{
	bool *single = ctx;

	(void)names;
	*single = n == 1 && values[0] != NULL &&
	    strcmp(values[0], "delete") == 0;
	return 0;
}

/* Leaves WAL mode, as SQLite would apply a WAL beside OUT to the new OUT. */
static enum kp_err
leave_wal(struct kp_merge *m, sqlite3 *out, char **why)
{
	bool single = false;
	int rc;

	rc = sqlite3_exec(out, "pragma journal_mode = delete", mode_is,
	    &single, NULL);
	if (rc == SQLITE_OK && !single)
		rc = SQLITE_BUSY;
	if (rc == SQLITE_OK)
		return KP_OK;
	if ((rc & 0xff) != SQLITE_BUSY)
		return schema_explain(out, rc, m->path, why);
	schema_why(why, "cannot merge into '%s': another program has it open "
	    "(close that)", m->path);
	return KP_EBUSY;
}

static enum kp_err
backup(struct kp_merge *m, sqlite3 *out, char **why)
{
	sqlite3_backup *b = sqlite3_backup_init(m->db, "main", out, "main");
	int rc = SQLITE_OK;

	if (b == NULL)
		return fail(m, sqlite3_errcode(m->db), why);
	while (rc == SQLITE_OK)
		rc = *m->stop != 0 ? SQLITE_INTERRUPT :
		    sqlite3_backup_step(b, BACKUP_PAGES);
	sqlite3_backup_finish(b);
	return rc == SQLITE_DONE ? KP_OK : fail(m, rc, why);
}

static enum kp_err
copy_out(struct kp_merge *m, char **why)
{
	sqlite3 *out = NULL;
	enum kp_err err;
	int rc, version;

	rc = sqlite3_open_v2(m->path, &out, SQLITE_OPEN_READWRITE |
	    SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(out, BUSY_MS);
		err = schema_version(out, m->path, &version, why);
	} else {
		err = schema_explain(out, rc, m->path, why);
	}
	if (err == KP_OK)
		err = leave_wal(m, out, why);
	if (err == KP_OK && version > 0)
		err = backup(m, out, why);
	sqlite3_close(out);
	return err;
}

static enum kp_err
open_copy(struct kp_merge *m, char **why)
{
	/* only for main: attached files must not be locked */
	static const char ready[] = "pragma main.locking_mode = exclusive;"
				    "pragma main.journal_mode = off;"
				    "pragma main.synchronous = off;"
				    "pragma trusted_schema = off;"
				    "pragma foreign_keys = on";
	enum kp_err err = KP_OK;
	int rc;

	rc = sqlite3_open_v2(m->copy, &m->db, SQLITE_OPEN_READWRITE |
	    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
	if (rc != SQLITE_OK)
		return fail(m, rc, why);
	sqlite3_busy_timeout(m->db, BUSY_MS);
	sqlite3_progress_handler(m->db, STOP_OPS, stopped, m);
	if (m->lock >= 0)
		err = copy_out(m, why);
	if (err == KP_OK)
		err = schema_bring_up(m->db, m->copy, why);
	if (err != KP_OK)
		return err;
	rc = sqlite3_exec(m->db, ready, NULL, NULL, NULL);
	return rc == SQLITE_OK ? KP_OK : fail(m, rc, why);
}

enum kp_err
kp_merge_open(struct kp_merge **out, const char *path,
    const volatile sig_atomic_t *stop, char **why)
{
	struct kp_merge *m = calloc(1, sizeof(*m));
	struct stat link;
	enum kp_err err;

	*why = NULL;
	if (m == NULL)
		return KP_ENOMEM;
	m->stop = stop;
	m->lock = m->fd = -1;
	/* replaces the target of a symbolic link, not the link */
	m->path = realpath(path, NULL);
	if (m->path == NULL && lstat(path, &link) == 0) {
		err = fail_errno("follow the link", path, why);
		merge_free(m);
		return err;
	}
	if (m->path == NULL)
		m->path = strdup(path);
	if (m->path == NULL || asprintf(&m->copy, "%s.merging", path) < 0) {
		m->copy = NULL;
		merge_free(m);
		return KP_ENOMEM;
	}
	err = check_is_file(path, why);
	if (err == KP_OK)
		err = check_is_file(m->copy, why);
	if (err == KP_OK)
		err = lock_out(m, why);
	if (err == KP_OK)
		err = make_copy(m, why);
	if (err == KP_OK)
		err = open_copy(m, why);
	if (err == KP_OK)
		*out = m;
	else
		kp_merge_abandon(m);
	return err;
}

static enum kp_err
attach(struct kp_merge *m, const char *in, bool alone, char **why)
{
	char *uri = read_uri(in, alone ? "immutable=1" : "mode=ro"), *sql;
	int rc = SQLITE_NOMEM;

	sql = uri != NULL ? sqlite3_mprintf("attach %Q as src", uri) : NULL;
	if (sql != NULL)
		rc = sqlite3_exec(m->db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	free(uri);
	return rc == SQLITE_OK ? KP_OK : schema_explain(m->db, rc, in, why);
}

/* Reports dangling references as damage, with any error of SQLite. */
static enum kp_err
explain_rows(struct kp_merge *m, int rc, const char *in, char **why)
{
	if ((rc & 0xff) != SQLITE_CONSTRAINT && (rc & 0xff) != SQLITE_CORRUPT)
		return fail(m, rc, why);
	schema_why(why, "cannot merge '%s': it is damaged (%s)", in,
	    sqlite3_errmsg(m->db));
	return KP_EFORMAT;
}

static enum kp_err
add_file(struct kp_merge *m, const char *in, bool alone,
    struct kp_merge_count *count, char **why)
{
	enum kp_err err = attach(m, in, alone, why);
	int rc;

	if (err != KP_OK)
		return err;
	rc = sqlite3_exec(m->db, "begin", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = merge_rows(m->db, count);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(m->db, "commit", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(m->db, "detach src", NULL, NULL, NULL);
	return rc == SQLITE_OK ? KP_OK : explain_rows(m, rc, in, why);
}

enum kp_err
kp_merge_add(struct kp_merge *m, const char *in, struct kp_merge_count *count,
    char **why)
{
	struct kp_query *q;
	enum kp_err err;
	bool alone;

	*why = NULL;
	if (m->lock >= 0 && still_named(m->lock, in)) {
		schema_why(why, "cannot merge '%s' into itself", in);
		return KP_ESTATE;
	}
	err = kp_query_open(&q, in, why);
	if (err != KP_OK)
		return err;
	alone = q->files[0].alone;
	kp_query_close(q);
	return add_file(m, in, alone, count, why);
}

/* Makes the new name survive a power failure. */
static void
sync_directory(const char *path)
{
	char *copy = strdup(path), *slash;
	int fd;

	if (copy == NULL)
		return;
	slash = strrchr(copy, '/');
	if (slash != NULL)
		slash[slash == copy] = '\0';
	fd = open(slash != NULL ? copy : ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(copy);
}

enum kp_err
kp_merge_finish(struct kp_merge *m, char **why)
{
	enum kp_err err = KP_OK;
	int rc = levels_make_all(m->db);

	*why = NULL;
	if (rc == SQLITE_OK)
		rc = sqlite3_close(m->db);
	if (rc == SQLITE_OK)
		m->db = NULL;
	if (rc != SQLITE_OK)
		err = fail(m, rc, why);
	else if (fsync(m->fd) != 0)
		err = fail_errno("write", m->copy, why);
	else if (rename(m->copy, m->path) != 0)
		err = fail_errno("write", m->path, why);
	if (err != KP_OK) {
		kp_merge_abandon(m);
		return err;
	}
	sync_directory(m->path);
	merge_free(m);
	return KP_OK;
}
