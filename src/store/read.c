/*
 * read.c - opens one or more databases, to be read as one, and reads the rows of
 * a statement from them.
 *
 * Each file returns rows in the order of its statement; of several files, the
 * least row is next (read_order).
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kprofd/nodes.h"
#include "base/map.h"
#include "read.h"
#include "schema.h"
#include "text/file_why.h"

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
	    sqlite3_errmsg(rd->q->files[rd->file].conn));
}

/* Runs the statement in n files, from `first` on. */
static void
start(struct read *rd, struct kp_query *q, size_t first, size_t n,
    const char *sql)
{
	*rd = (struct read){ .q = q, .first = first, .file = first };
	rd->v = calloc(n, sizeof(*rd->v));
	if (rd->v == NULL) {
		read_nomem(rd);
		return;
	}
	for (rd->n = 0; rd->n < n && rd->err == KP_OK; rd->n++) {
		rd->file = first + rd->n;
		read_fail(rd, sqlite3_prepare_v2(q->files[rd->file].conn, sql,
		    -1, &rd->v[rd->n].st, NULL));
	}
}

void
read_start(struct read *rd, struct kp_query *q, const char *sql)
{
	start(rd, q, 0, q->nfiles, sql);
}

void
read_start_file(struct read *rd, struct kp_query *q, size_t file,
    const char *sql)
{
	start(rd, q, file, 1, sql);
}

void
read_again(struct read *rd)
{
	for (size_t i = 0; i < rd->n; i++)
		sqlite3_reset(rd->v[i].st);
	rd->bound = 0;
	rd->st = NULL;
}

void
read_order(struct read *rd, int col, int cols)
{
	rd->col = col;
	rd->cols = cols;
}

void
read_latest(struct read *rd, int col)
{
	read_order(rd, col, 1);
	rd->latest = true;
}

/* less: by how much the value of a file is less than that of the one before it. */
static void
bind(struct read *rd, int64_t v, int64_t less)
{
	rd->bound++;
	for (size_t i = 0; i < rd->n && rd->err == KP_OK; i++) {
		rd->file = rd->first + i;
		read_fail(rd, sqlite3_bind_int64(rd->v[i].st, rd->bound,
		    v - (int64_t)rd->file * less));
	}
}

void
read_bind(struct read *rd, int64_t v)
{
	bind(rd, v, 0);
}

void
read_bind_id(struct read *rd, int64_t id)
{
	bind(rd, id, READ_STRIDE);
}

void
read_bind_text(struct read *rd, const char *s)
{
	rd->bound++;
	for (size_t i = 0; i < rd->n && rd->err == KP_OK; i++) {
		rd->file = rd->first + i;
		read_fail(rd, sqlite3_bind_text(rd->v[i].st, rd->bound, s, -1,
		    SQLITE_TRANSIENT));
	}
}

static void
step(struct read *rd, size_t i)
{
	int rc = sqlite3_step(rd->v[i].st);

	rd->file = rd->first + i;
	rd->v[i].more = rc == SQLITE_ROW;
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		read_fail(rd, rc);
}

static int
column_cmp(sqlite3_stmt *a, sqlite3_stmt *b, int col)
{
	const char *s, *t;
	int64_t i, k;

	/* a damaged file may have anything in any column */
	if (sqlite3_column_type(a, col) == SQLITE_TEXT &&
	    sqlite3_column_type(b, col) == SQLITE_TEXT) {
		s = (const char *)sqlite3_column_text(a, col);
		t = (const char *)sqlite3_column_text(b, col);
		return s != NULL && t != NULL ? strcmp(s, t) : 0;
	}
	i = sqlite3_column_int64(a, col);
	k = sqlite3_column_int64(b, col);
	return (i > k) - (i < k);
}

/* Returns whether this row precedes that of an earlier file. */
static bool
goes_first(const struct read *rd, sqlite3_stmt *later, sqlite3_stmt *earlier)
{
	int d = 0;

	for (int i = 0; i < rd->cols && d == 0; i++)
		d = column_cmp(later, earlier, rd->col + i);
	return rd->latest ? d >= 0 : d < 0;
}

bool
read_next(struct read *rd)
{
	size_t from = rd->st != NULL ? rd->file - rd->first : 0;
	size_t to = rd->st != NULL ? from + 1 : rd->n;

	for (size_t i = from; i < to && rd->err == KP_OK; i++)
		step(rd, i);
	rd->st = NULL;
	for (size_t i = 0; i < rd->n && rd->err == KP_OK; i++) {
		if (rd->v[i].more && (rd->st == NULL ||
		    goes_first(rd, rd->v[i].st, rd->st))) {
			rd->st = rd->v[i].st;
			rd->file = rd->first + i;
		}
	}
	return rd->st != NULL;
}

int64_t
read_int(const struct read *rd, int col)
{
	return sqlite3_column_int64(rd->st, col);
}

int64_t
read_id(const struct read *rd, int col)
{
	return read_int(rd, col) + (int64_t)rd->file * READ_STRIDE;
}

bool
query_file_of(const struct kp_query *q, int64_t *id, size_t *file)
{
	*file = (size_t)((uint64_t)*id / (uint64_t)READ_STRIDE);
	*id %= READ_STRIDE;
	return *id >= 0 && *file < q->nfiles;
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
	size_t n;

	if (s == NULL)
		return "";
	n = strlen(s) + 1;
	t = intern_get(texts, s, n);
	if (t == NULL)
		t = intern_put(texts, s, n, 0);
	if (t == NULL) {
		read_nomem(rd);
		return "";
	}
	return (const char *)t->key;
}

const char *
read_name(struct read *rd, int64_t id)
{
	read_again(rd);
	read_bind(rd, id);
	return read_next(rd) ? read_text(rd, 0) : "";
}

enum kp_err
read_end(struct read *rd)
{
	for (size_t i = 0; i < rd->n; i++)
		sqlite3_finalize(rd->v[i].st);
	free(rd->v);
	rd->v = NULL;
	rd->n = 0;
	return rd->err;
}

bool
read_has_room(struct read *rd, enum kp_err room)
{
	if (room != KP_OK)
		read_nomem(rd);
	return room == KP_OK;
}

/* ---- the files ---- */

#define ROOM_BLOCKS 8	/* fewer: a window does not fit any more */
#define BUSY_MS 2000
#define LIMIT_OPS 10000		/* of SQLite's VM between two checks of the
				   clocks: a millisecond or less */
/* SQLite's cache: its default for each file, and less for many files. */
#define CACHE_KIB 2000u
#define CACHE_KIB_ALL 16384u
#define CACHE_KIB_MIN 128u

/* Explains why the file cannot be read, if the file system shows it. */
static enum kp_err
file_check(const char *path, char **why)
{
	const char *special;
	char text[FILE_WHY_MAX];
	struct stat sb;

	if (stat(path, &sb) != 0) {
		if (errno != ENOENT && errno != ENOTDIR) {
			schema_why(why, "cannot open '%s': %s", path,
			    strerror(errno));
			return KP_EIO;
		}
		schema_why(why, "cannot open '%s': %s (name the file that "
		    "kprofd writes with -db; one that did not start leaves "
		    "none)", path, file_why(text, path, errno));
		return KP_ENOENT;
	}
	if (S_ISDIR(sb.st_mode)) {
		schema_why(why, "cannot open '%s': it is a directory (name a "
		    "file in it with -db)", path);
		return KP_EFORMAT;
	}
	special = file_special(path);
	if (special != NULL) {	/* a read of a FIFO would wait for ever */
		schema_why(why, "cannot open '%s': it is %s, not a file (see "
		    "-db)", path, special);
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
identify(sqlite3 *conn, const char *path, char **why)
{
	enum kp_err err;
	bool empty;

	err = schema_check(conn, path, &empty, why);
	if (err != KP_OK)
		return err;
	if (empty) {
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
 * Opens the file without its WAL.  In WAL mode it needs its -wal and -shm,
 * which a reader may be unable to make: beside a copy on a read-only disk, or
 * another user's file after a crash.  With an empty WAL the file alone is
 * complete.
 */
static sqlite3 *
open_alone(const char *path)
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
	    identify(conn, path, NULL) != KP_OK) {
		sqlite3_close(conn);
		conn = NULL;
	}
	free(uri);
	return conn;
}

static enum kp_err
conn_open(struct read_file *f, const char *path, char **why)
{
	sqlite3 *conn = NULL, *alone;
	enum kp_err err;
	int rc;

	rc = sqlite3_open_v2(path, &conn, SQLITE_OPEN_READONLY |
	    SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(conn, BUSY_MS);
		err = identify(conn, path, why);
	} else {
		err = schema_explain(conn, rc, path, why);
	}
	if (err == KP_OK) {
		f->conn = conn;
		return KP_OK;
	}
	sqlite3_close(conn);
	alone = err == KP_EIO ? open_alone(path) : NULL;
	if (alone == NULL)
		return err;
	free(*why);
	*why = NULL;
	f->conn = alone;
	f->alone = true;
	return KP_OK;
}

/* one_of(name, globs): true if one of the globs (blanks between) matches. */
static void
one_of(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const char *name = (const char *)sqlite3_value_text(argv[0]);
	const char *globs = (const char *)sqlite3_value_text(argv[1]);

	(void)argc;
	sqlite3_result_int(ctx, name != NULL && globs != NULL &&
	    kp_globs(globs, name));
}

/*
 * The operator GLOB with fnmatch()'s rules, which patterns of request types have everywhere
 * else: a backslash quotes the next character.  Besides, with its own GLOB SQLite compiles
 * a statement again whenever a pattern is bound to it, so for each piece of a range.
 */
static void
glob(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const char *pattern = (const char *)sqlite3_value_text(argv[0]);
	const char *name = (const char *)sqlite3_value_text(argv[1]);

	(void)argc;
	sqlite3_result_int(ctx, name != NULL && pattern != NULL &&
	    fnmatch(pattern, name, 0) == 0);
}

static int
past_limit(void *ctx)
{
	const struct kp_query *q = ctx;

	return (q->stop != NULL && atomic_load(q->stop)) ||
	    kp_mono_now() > q->deadline || kp_thread_worked() > q->work_end;
}

void
kp_query_limit(struct kp_query *q, kp_dur_ns work, kp_dur_ns all,
    const atomic_bool *stop)
{
	q->stop = stop;
	q->deadline = kp_mono_now() + all;
	q->work_end = kp_thread_worked() + work;
	for (size_t i = 0; i < q->nfiles; i++)
		sqlite3_progress_handler(q->files[i].conn, LIMIT_OPS,
		    past_limit, q);
}

const char *
kp_query_disk_full(const struct kp_query *q)
{
	const char *name;
	struct statvfs fs;

	for (size_t i = 0; i < q->nfiles; i++) {
		name = sqlite3_db_filename(q->files[i].conn, "main");
		if (name != NULL && statvfs(name, &fs) == 0 &&
		    fs.f_blocks > 0 && fs.f_bavail < ROOM_BLOCKS &&
		    (fs.f_flag & ST_RDONLY) == 0)
			return name;
	}
	return NULL;
}

static enum kp_err
file_open(struct kp_query *q, const char *path, size_t files, char **why)
{
	struct read_file *f = &q->files[q->nfiles];
	size_t kib = CACHE_KIB_ALL / files;
	enum kp_err err = file_check(path, why);
	char sql[64];
	int rc;

	if (err == KP_OK)
		err = conn_open(f, path, why);
	if (err != KP_OK)
		return err;
	q->nfiles++;
	if (kib > CACHE_KIB)
		kib = CACHE_KIB;
	snprintf(sql, sizeof(sql), "pragma cache_size = -%zu",
	    kib > CACHE_KIB_MIN ? kib : CACHE_KIB_MIN);
	sqlite3_exec(f->conn, sql, NULL, NULL, NULL);
	rc = sqlite3_create_function(f->conn, "one_of", 2, SQLITE_UTF8 |
	    SQLITE_DETERMINISTIC, NULL, one_of, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_function(f->conn, "glob", 2, SQLITE_UTF8 |
		    SQLITE_DETERMINISTIC, NULL, glob, NULL, NULL);
	return rc == SQLITE_OK ? KP_OK :
	    schema_explain(f->conn, rc, path, why);
}

/* Rejects a run that two files hold, as it would count twice. */
static enum kp_err
check_runs(struct kp_query *q, const struct kp_query_files *f, char **why)
{
	int64_t started = INT64_MIN;
	size_t file = 0;
	struct read rd;
	enum kp_err err;

	if (f->n == 1)
		return KP_OK;
	read_start(&rd, q, "select started_ns from run order by started_ns");
	read_order(&rd, 0, 1);
	while (read_next(&rd)) {
		if (read_int(&rd, 0) == started && rd.file != file)
			break;
		started = read_int(&rd, 0);
		file = rd.file;
	}
	if (rd.err != KP_OK) {
		schema_why(why, "cannot read '%s': %s", f->v[rd.file], q->why);
	} else if (rd.st != NULL) {
		schema_why(why, "'%s' and '%s' hold the same run of kprofd, "
		    "which would count twice (leave one out)",
		    f->v[file], f->v[rd.file]);
		rd.err = KP_ESTATE;
	}
	err = read_end(&rd);
	return err;
}

enum kp_err
kp_query_open_all(struct kp_query **out, const struct kp_query_files *f,
    char **why)
{
	struct kp_query *q = calloc(1, sizeof(*q));
	enum kp_err err = KP_OK;

	*why = NULL;
	if (q != NULL)
		q->files = calloc(f->n, sizeof(*q->files));
	if (q == NULL || q->files == NULL) {
		free(q);
		schema_why(why, "out of memory");
		return KP_ENOMEM;
	}
	for (size_t i = 0; i < f->n && err == KP_OK; i++)
		err = file_open(q, f->v[i], f->n, why);
	if (err == KP_OK)
		err = check_runs(q, f, why);
	if (err == KP_OK)
		*out = q;
	else
		kp_query_close(q);
	return err;
}

enum kp_err
kp_query_open(struct kp_query **out, const char *path, char **why)
{
	return kp_query_open_all(out, &(struct kp_query_files){ &path, 1 },
	    why);
}

static void
all_exec(struct kp_query *q, const char *sql)
{
	for (size_t i = 0; i < q->nfiles; i++)
		sqlite3_exec(q->files[i].conn, sql, NULL, NULL, NULL);
}

void
kp_query_hold(struct kp_query *q)
{
	if (q->held++ == 0)
		all_exec(q, "begin");
}

void
kp_query_release(struct kp_query *q)
{
	if (--q->held == 0)
		all_exec(q, "commit");
}

void
kp_query_close(struct kp_query *q)
{
	if (q == NULL)
		return;
	for (size_t i = 0; i < q->nfiles; i++)
		sqlite3_close(q->files[i].conn);
	free(q->files);
	intern_free(&q->texts);
	free(q);
}

const char *
kp_query_why(const struct kp_query *q)
{
	return q->why;
}
