/* read.c - opens a database for reading, and reads rows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kprofd/nodes.h"
#include "base/map.h"
#include "read.h"
#include "store/schema.h"

#define BUSY_MS 2000
#define DEADLINE_OPS 10000	/* of SQLite's machine, between two looks at
				   the clock: a millisecond or less */

/* Says why the file cannot be read at all, in words of the file system. */
static enum kp_err
file_check(const char *path, char **why)
{
	struct stat sb;

	if (stat(path, &sb) != 0) {
		if (errno != ENOENT && errno != ENOTDIR) {
			schema_why(why, "cannot open '%s': %s", path,
			    strerror(errno));
			return KP_EIO;
		}
		schema_why(why, "cannot open '%s': no such file (name the "
		    "file that kprofd writes with -db; one that did not "
		    "start leaves none)", path);
		return KP_ENOENT;
	}
	if (S_ISDIR(sb.st_mode)) {
		schema_why(why, "cannot open '%s': it is a directory (name a "
		    "file in it with -db)", path);
		return KP_EFORMAT;
	}
	if (access(path, R_OK) != 0) {
		schema_why(why, "cannot read '%s': %s", path,
		    strerror(errno));
		return KP_EIO;
	}
	return KP_OK;
}

static enum kp_err
identify(sqlite3 *conn, const char *path, int *version, char **why)
{
	enum kp_err err;

	err = schema_version(conn, path, version, why);
	if (err != KP_OK)
		return err;
	if (*version == 0) {
		schema_why(why, "cannot read '%s': there is nothing in it "
		    "(see -db)", path);
		return KP_EFORMAT;
	}
	return KP_OK;
}

char *
read_uri(const char *path, const char *query)
{
	char *full = realpath(path, NULL);
	struct kp_buf b;

	if (full == NULL)
		return NULL;
	kp_buf_init(&b, 1 << 16);
	kp_buf_str(&b, "file://");
	for (const char *p = full; *p != '\0'; p++) {
		if (strchr("%?#", *p) != NULL)
			kp_buf_printf(&b, "%%%02x", (unsigned char)*p);
		else
			kp_buf_u8(&b, (uint8_t)*p);
	}
	kp_buf_printf(&b, "?%s", query);
	free(full);
	full = b.err == KP_OK ? strdup(kp_buf_cstr(&b)) : NULL;
	kp_buf_free(&b);
	return full;
}

/*
 * A file in WAL mode needs its -wal and -shm beside it, which a reader may
 * not be able to make: a copy on a read-only disk, a crash seen by somebody
 * else.  With nothing in the WAL the file alone says all.
 */
static sqlite3 *
open_alone(const char *path, int *version)
{
	sqlite3 *conn = NULL;
	char *wal = NULL, *uri;
	struct stat sb;
	bool needs_wal;

	if (asprintf(&wal, "%s-wal", path) < 0)
		return NULL;
	needs_wal = stat(wal, &sb) == 0 && sb.st_size > 0;
	free(wal);
	uri = needs_wal ? NULL : read_uri(path, "immutable=1");
	if (uri == NULL)
		return NULL;
	if (sqlite3_open_v2(uri, &conn, SQLITE_OPEN_READONLY |
	    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL) != SQLITE_OK ||
	    identify(conn, path, version, NULL) != KP_OK) {
		sqlite3_close(conn);
		conn = NULL;
	}
	free(uri);
	return conn;
}

static enum kp_err
conn_open(struct kp_query *q, const char *path, char **why)
{
	sqlite3 *conn = NULL, *alone;
	enum kp_err err;
	int rc;

	rc = sqlite3_open_v2(path, &conn, SQLITE_OPEN_READONLY |
	    SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(conn, BUSY_MS);
		err = identify(conn, path, &q->version, why);
	} else {
		err = schema_explain(conn, rc, path, why);
	}
	if (err == KP_OK) {
		q->conn = conn;
		return KP_OK;
	}
	sqlite3_close(conn);
	alone = err == KP_EIO ? open_alone(path, &q->version) : NULL;
	if (alone == NULL)
		return err;
	free(*why);
	*why = NULL;
	q->conn = alone;
	q->alone = true;
	return KP_OK;
}

/* one_of(name, globs): is it of one of those, which blanks part? */
static void
one_of(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const char *name = (const char *)sqlite3_value_text(argv[0]);
	const char *p = (const char *)sqlite3_value_text(argv[1]);
	char glob[KP_NODE_NAME_MAX + 1];
	bool yes = false;
	size_t n;

	(void)argc;
	for (; name != NULL && p != NULL && *p != '\0' && !yes; p += n) {
		p += strspn(p, " ");
		n = strcspn(p, " ");
		if (n >= sizeof(glob))
			continue;
		memcpy(glob, p, n);
		glob[n] = '\0';
		yes = n > 0 && kp_glob(glob, name);
	}
	sqlite3_result_int(ctx, yes);
}

static int
past_deadline(void *ctx)
{
	const struct kp_query *q = ctx;

	return (q->stop != NULL && atomic_load(q->stop)) ||
	    kp_mono_now() > q->deadline;
}

void
kp_query_deadline(struct kp_query *q, kp_mono_ns at, const atomic_bool *stop)
{
	for (size_t i = 0; i < q->nparts; i++)
		kp_query_deadline(q->parts[i], at, stop);
	if (q->nparts > 0)
		return;
	q->stop = stop;
	q->deadline = at;
	sqlite3_progress_handler(q->conn, DEADLINE_OPS, past_deadline, q);
}

enum kp_err
kp_query_open(struct kp_query **out, const char *path, char **why)
{
	struct kp_query *q;
	enum kp_err err;

	*why = NULL;
	err = file_check(path, why);
	if (err != KP_OK)
		return err;
	q = calloc(1, sizeof(*q));
	if (q == NULL) {
		schema_why(why, "out of memory");
		return KP_ENOMEM;
	}
	err = conn_open(q, path, why);
	if (err != KP_OK) {
		free(q);
		return err;
	}
	if (sqlite3_create_function(q->conn, "one_of", 2, SQLITE_UTF8 |
	    SQLITE_DETERMINISTIC, NULL, one_of, NULL, NULL) != SQLITE_OK) {
		schema_why(why, "out of memory");
		kp_query_close(q);
		return KP_ENOMEM;
	}
	*out = q;
	return KP_OK;
}

void
query_hold(struct kp_query *q)
{
	for (size_t i = 0; i < q->nparts; i++)
		query_hold(q->parts[i]);
	if (q->nparts == 0 && q->held++ == 0)
		sqlite3_exec(q->conn, "begin", NULL, NULL, NULL);
}

void
query_release(struct kp_query *q)
{
	for (size_t i = 0; i < q->nparts; i++)
		query_release(q->parts[i]);
	if (q->nparts == 0 && --q->held == 0)
		sqlite3_exec(q->conn, "commit", NULL, NULL, NULL);
}

enum kp_err
query_part_fail(struct kp_query *set, const struct kp_query *part,
    enum kp_err err)
{
	if (err != KP_OK)
		memcpy(set->why, part->why, sizeof(set->why));
	return err;
}

void
kp_query_close(struct kp_query *q)
{
	if (q == NULL)
		return;
	for (size_t i = 0; i < q->nparts; i++)
		kp_query_close(q->parts[i]);
	free(q->parts);
	sqlite3_close(q->conn);
	intern_free(&q->texts);
	free(q);
}

const char *
kp_query_why(const struct kp_query *q)
{
	return q->why;
}

void
read_nomem(struct read *rd)
{
	if (rd->err != KP_OK)
		return;
	rd->err = KP_ENOMEM;
	snprintf(rd->q->why, sizeof(rd->q->why), "out of memory");
}

void
read_fail(struct read *rd, int rc)
{
	if (rc == SQLITE_OK || rd->err != KP_OK)
		return;
	rd->err = (rc & 0xff) == SQLITE_BUSY ? KP_EBUSY :
	    (rc & 0xff) == SQLITE_INTERRUPT ? KP_ETIMEOUT :
	    (rc & 0xff) == SQLITE_CORRUPT ? KP_EFORMAT : KP_EIO;
	snprintf(rd->q->why, sizeof(rd->q->why), "cannot read the database: %s",
	    sqlite3_errmsg(rd->q->conn));
}

void
read_start(struct read *rd, struct kp_query *q, const char *sql)
{
	*rd = (struct read){ .q = q };
	read_fail(rd, sqlite3_prepare_v2(q->conn, sql, -1, &rd->st, NULL));
}

void
read_again(struct read *rd)
{
	sqlite3_reset(rd->st);
	rd->bound = 0;
}

void
read_bind(struct read *rd, int64_t v)
{
	if (rd->err == KP_OK)
		read_fail(rd, sqlite3_bind_int64(rd->st, ++rd->bound, v));
}

void
read_bind_text(struct read *rd, const char *s)
{
	if (rd->err == KP_OK)
		read_fail(rd, sqlite3_bind_text(rd->st, ++rd->bound, s, -1,
		    SQLITE_TRANSIENT));
}

bool
read_next(struct read *rd)
{
	int rc;

	if (rd->err != KP_OK)
		return false;
	rc = sqlite3_step(rd->st);
	if (rc == SQLITE_ROW)
		return true;
	if (rc != SQLITE_DONE)
		read_fail(rd, rc);
	return false;
}

int64_t
read_int(const struct read *rd, int col)
{
	return sqlite3_column_int64(rd->st, col);
}

kp_dur_ns
read_dur(const struct read *rd, int col)
{
	if (sqlite3_column_type(rd->st, col) == SQLITE_NULL)
		return -1;
	return sqlite3_column_int64(rd->st, col);
}

const char *
read_text(struct read *rd, int col)
{
	const char *s = (const char *)sqlite3_column_text(rd->st, col);
	struct intern *texts = &rd->q->texts;
	const struct interned *t;
	uint64_t hash;
	size_t n;

	if (s == NULL)
		return "";
	n = strlen(s) + 1;
	hash = hash_bytes(s, n);
	t = intern_find(texts, s, n, hash);
	if (t == NULL && intern_put(texts, s, n, hash, 0))
		t = intern_find(texts, s, n, hash);
	if (t == NULL) {
		read_nomem(rd);
		return "";
	}
	return (const char *)t->key;
}

enum kp_err
read_end(struct read *rd)
{
	sqlite3_finalize(rd->st);
	rd->st = NULL;
	return rd->err;
}

bool
read_has_room(struct read *rd, enum kp_err room)
{
	if (room != KP_OK)
		read_nomem(rd);
	return room == KP_OK;
}
