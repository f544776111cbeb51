/*
 * counts_db.c - the schema of the database; adds a profile to it, and reads
 * one back.
 *
 * A profile is one transaction, so that the file never has a part of one.  A file
 * that is read is untrusted: its size and its figures are bounded.
 */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counts_db.h"
#include "db_insert.h"
#include "text/file_why.h"

#define APPLICATION 1802529904	/* "kpfp" */
#define VERSION 2
#define BUSY_MS 5000		/* while another kprof writes */
#define LIMITED_MAX 16384u
#define FIGURE_MAX (INT64_C(1) << 43)

static const char schema[] =
    "pragma application_id = 1802529904; pragma user_version = 2;"
    "create table profile(id integer primary key, target text not null,"
    "  otp integer not null, type text not null, read_ns integer not null,"
    "  elapsed_ns integer not null, functions integer not null,"
    "  processes integer not null, gone integer not null,"
    "  merged integer not null, skipped integer not null, ended text,"
    "  limited text);"
    "create table counted(profile integer not null references profile,"
    "  function text not null, pid text, calls integer not null,"
    "  us integer, words integer);"
    "create index counted_profile on counted(profile);"
    "create table process(profile integer not null references profile,"
    "  pid text not null, name text not null);"
    "create view profiles as select id, target, otp, type,"
    "  strftime('%Y-%m-%dT%H:%M:%SZ', read_ns / 1000000000, 'unixepoch') read,"
    "  round(elapsed_ns / 1e6, 3) elapsed_ms, functions, limited, ended"
    "  from profile;"
    "create view function as select profile, function, sum(calls) calls,"
    "  sum(us) / 1e3 ms, sum(words) words,"
    "  round(1.0 * sum(us) / sum(calls), 3) us_per_call,"
    "  round(1.0 * sum(words) / sum(calls), 3) words_per_call"
    "  from counted group by profile, function;";

struct writing {
	struct put to;
	sqlite3_int64 id;	/* of the profile */
};

/* ---- what is written ---- */

static void
put_profile(struct writing *w, const struct kp_counts *p,
    const struct counts_view *v, kp_wall_ns now)
{
	const int64_t figures[] = { now, p->elapsed, (int64_t)v->functions,
		(int64_t)v->processes, (int64_t)p->gone, (int64_t)p->merged,
		(int64_t)v->skipped };
	struct kp_buf limited;

	put_prepare(&w->to, "insert into profile(target, otp, type, read_ns, "
	    "elapsed_ns, functions, processes, gone, merged, skipped, ended, "
	    "limited) values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	db_text(&w->to, 1, v->target);
	sqlite3_bind_int(w->to.st, 2, v->otp);
	db_text(&w->to, 3, kp_counts_types[p->type]);
	db_ints(&w->to, 4, figures, sizeof(figures) / sizeof(figures[0]));
	db_text(&w->to, 11, v->ended);
	if (v->limit != NULL) {
		kp_buf_init(&limited, LIMITED_MAX);
		counts_limit_put(&limited, v->limit);
		db_text(&w->to, 12, kp_buf_cstr(&limited));
		kp_buf_free(&limited);
	}
	put_row(&w->to);
	w->id = sqlite3_last_insert_rowid(w->to.db);
}

static void
put_counted(struct writing *w, const struct kp_counts *p)
{
	const struct kp_counts_row *row;

	put_prepare(&w->to, "insert into counted values(?, ?, ?, ?, ?, ?)");
	for (size_t i = 0; i < p->nrows && w->to.rc == SQLITE_OK; i++) {
		row = &p->rows[i];
		sqlite3_bind_int64(w->to.st, 1, w->id);
		db_fn(&w->to, 2, p->names, row->fn);
		if (p->by_process)
			db_pid(&w->to, 3, row->proc == KP_PROC_OTHERS ? NULL :
			    &p->names->procs[row->proc]);
		sqlite3_bind_int64(w->to.st, 4, (sqlite3_int64)row->calls);
		if (p->type != KP_COUNTS_CALLS)
			sqlite3_bind_int64(w->to.st,
			    p->type == KP_COUNTS_TIME ? 5 : 6,
			    (sqlite3_int64)row->value);
		put_row(&w->to);
	}
}

static void
put_names(struct writing *w, const struct kp_call_names *t)
{
	put_prepare(&w->to, "insert into process values(?, ?, ?)");
	for (uint32_t i = 0; i < t->nprocs && w->to.rc == SQLITE_OK; i++) {
		if (t->procs[i].name == NULL)
			continue;
		sqlite3_bind_int64(w->to.st, 1, w->id);
		db_pid(&w->to, 2, &t->procs[i]);
		db_text(&w->to, 3, t->procs[i].name);
		put_row(&w->to);
	}
}

/* ---- the kind of file ---- */

static int64_t
number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t n = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

/* False: another kind of database, or another version. */
static bool
is_ours(sqlite3 *db)
{
	return number(db, "pragma application_id") == APPLICATION &&
	    number(db, "pragma user_version") == VERSION;
}

/* Within the transaction, since another kprof may make it at this moment. */
static enum kp_err
make(struct writing *w, char *why, size_t n)
{
	put_exec(&w->to, "begin immediate");
	if (w->to.rc != SQLITE_OK)
		return KP_OK;
	if (is_ours(w->to.db))
		return KP_OK;
	if (number(w->to.db, "select count(*) from sqlite_master") != 0) {
		snprintf(why, n, "it is another database: give a file of its "
		    "own");
		return KP_EFORMAT;
	}
	put_exec(&w->to, schema);
	return KP_OK;
}

enum kp_err
counts_db_add(const char *file, const struct kp_counts *p,
    const struct counts_view *v, kp_wall_ns now, char *why, size_t n)
{
	bool is_new = access(file, F_OK) != 0;
	char text[FILE_WHY_MAX];
	enum kp_err e = KP_EIO;
	struct writing w = { 0 };

	if (file_not_for_db(text, file) != NULL) {
		snprintf(why, n, "%.200s", text);
		return KP_EFORMAT;
	}
	put_open(&w.to, file);
	if (w.to.rc == SQLITE_OK)
		sqlite3_busy_timeout(w.to.db, BUSY_MS);
	if (make(&w, why, n) != KP_OK) {
		e = KP_EFORMAT;
		goto out;
	}
	put_profile(&w, p, v, now);
	put_counted(&w, p);
	put_names(&w, p->names);
	put_exec(&w.to, "commit");
	e = w.to.rc == SQLITE_OK ? KP_OK : KP_EIO;
	if (e != KP_OK)
		snprintf(why, n, "%s", w.to.db != NULL ? sqlite3_errmsg(w.to.db) :
		    "out of memory");
out:
	put_close(&w.to);
	if (e != KP_OK && is_new)
		unlink(file);
	return e;
}

/* ---- what is read ---- */

bool
counts_db_begins(const void *p, size_t n)
{
	static const char magic[] = "SQLite format 3";

	return n >= sizeof(magic) && memcmp(p, magic, sizeof(magic)) == 0;
}

#define BEFORE "select max(b.id) from profile b, profile l where l.id = " \
    "(select max(id) from profile) and b.id < l.id and " \
    "b.target = l.target and b.type = l.type and b.limited is l.limited"

/* The number of the profile; 0: there is none. */
static int64_t
find(sqlite3 *db, int64_t which)
{
	char sql[120];

	if (which > 0)
		snprintf(sql, sizeof(sql), "select id from profile "
		    "where id = %" PRId64, which);
	else
		snprintf(sql, sizeof(sql), "select id from profile "
		    "order by id desc limit 1");
	which = which == COUNTS_DB_BEFORE ? number(db, BEFORE) : number(db, sql);
	return which > 0 ? which : 0;
}

static enum kp_err
read_type(sqlite3 *db, int64_t id, struct counts_kept *k)
{
	enum kp_err e = KP_EFORMAT;
	sqlite3_stmt *st = NULL;
	const char *type;

	if (sqlite3_prepare_v2(db, "select type from profile where id = ?",
	    -1, &st, NULL) != SQLITE_OK)
		return e;
	sqlite3_bind_int64(st, 1, id);
	type = sqlite3_step(st) == SQLITE_ROW ?
	    (const char *)sqlite3_column_text(st, 0) : NULL;
	for (int i = 0; type != NULL && i < 3; i++) {
		if (strcmp(type, kp_counts_types[i]) == 0) {
			k->type = (enum kp_counts_type)i;
			e = KP_OK;
		}
	}
	sqlite3_finalize(st);
	return e;
}

static bool
read_figure(sqlite3_stmt *st, int col, uint64_t *v)
{
	int64_t n = sqlite3_column_int64(st, col);

	*v = (uint64_t)n;
	return n >= 0 && n <= FIGURE_MAX &&
	    sqlite3_column_type(st, col) == SQLITE_INTEGER;
}

static enum kp_err
read_rows(sqlite3 *db, int64_t id, struct counts_kept *k)
{
	static const char sql[] = "select function, sum(calls), "
	    "coalesce(sum(us), sum(words), 0) from counted where profile = ? "
	    "group by function order by function";
	struct counts_kept_row row;
	sqlite3_stmt *st = NULL;
	enum kp_err e = KP_OK;
	const char *fn;
	int rc;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		return KP_EFORMAT;
	sqlite3_bind_int64(st, 1, id);
	while (e == KP_OK && (rc = sqlite3_step(st)) != SQLITE_DONE) {
		fn = rc == SQLITE_ROW ?
		    (const char *)sqlite3_column_text(st, 0) : NULL;
		row = (struct counts_kept_row){ 0 };
		if (fn == NULL || !read_figure(st, 1, &row.calls) ||
		    !read_figure(st, 2, &row.value))
			e = KP_EFORMAT;
		else
			e = counts_kept_put(k, fn, row.calls, row.value);
	}
	sqlite3_finalize(st);
	return e;
}

enum kp_err
counts_db_read(const char *file, int64_t which, struct counts_kept *k,
    char *why, size_t n)
{
	enum kp_err e = KP_EFORMAT;
	sqlite3 *db = NULL;
	int64_t id = 0;

	*k = (struct counts_kept){ 0 };
	if (sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL) ==
	    SQLITE_OK && is_ours(db)) {
		id = find(db, which);
		e = id == 0 ? KP_ENOENT : read_type(db, id, k);
		if (e == KP_OK)
			e = read_rows(db, id, k);
	}
	sqlite3_close(db);
	if (e == KP_ENOENT)
		snprintf(why, n, "%s", which == COUNTS_DB_BEFORE ?
		    "there is no profile before the last one, of its target, "
		    "kind and limit" : "that profile is not there");
	else if (e != KP_OK)
		snprintf(why, n, "%s", e == KP_EFORMAT ?
		    "it is not a database that kprof count, time or memory write "
		    "with -db" : kp_err_str(e));
	if (e != KP_OK)
		counts_kept_free(k);
	return e;
}
