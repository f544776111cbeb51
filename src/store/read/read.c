/*
 * read.c - reads the rows of one statement from one or more databases.
 *
 * Each file returns rows in the order of its statement; of several files, the
 * least row is next (read_order).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "read.h"

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

void
read_bind(struct read *rd, int64_t v)
{
	rd->bound++;
	for (size_t i = 0; i < rd->n && rd->err == KP_OK; i++) {
		rd->file = rd->first + i;
		read_fail(rd, sqlite3_bind_int64(rd->v[i].st, rd->bound, v));
	}
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
