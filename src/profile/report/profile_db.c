/*
 * profile_db.c - SQLite databases of traces and of counters: their schemas, and
 * what fills them and reads them back.
 *
 * Names come from a target: they are written as people write them, with unsafe
 * characters replaced, so that sqlite3 may print them.
 */
#include <inttypes.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/file_why.h"
#include "text/text.h"
#include "profile_db.h"
#include "trace_report.h"

#define NAME_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)

/* ---- inserting: the first error of SQLite stays in rc, and nothing is done after it ---- */

struct db {
	sqlite3 *db;
	sqlite3_stmt *st;	/* to bind a row's columns in; may be NULL */
	int rc;
};

/* Makes the file if there is none. */
static void
db_open(struct db *p, const char *file)
{
	p->st = NULL;
	p->rc = sqlite3_open_v2(file, &p->db,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
}

/* The statement that db_row() runs from now on. */
static void
db_prepare(struct db *p, const char *sql)
{
	sqlite3_finalize(p->st);
	p->st = NULL;
	if (p->rc == SQLITE_OK)
		p->rc = sqlite3_prepare_v2(p->db, sql, -1, &p->st, NULL);
}

static void
db_exec(struct db *p, const char *sql)
{
	if (p->rc == SQLITE_OK)
		p->rc = sqlite3_exec(p->db, sql, NULL, NULL, NULL);
}

/* Inserts the row whose columns are bound, and clears them. */
static void
db_row(struct db *p)
{
	if (p->rc != SQLITE_OK)
		return;
	if (sqlite3_step(p->st) != SQLITE_DONE)
		p->rc = sqlite3_errcode(p->db);
	sqlite3_reset(p->st);
	sqlite3_clear_bindings(p->st);
}

static void
db_close(struct db *p)
{
	sqlite3_finalize(p->st);
	sqlite3_close(p->db);
}

/* ---- the columns of the row that is inserted next; `at` is the number of the first ---- */

static void
bind(struct db *p, int at, struct kp_buf *text)
{
	if (text->err != KP_OK)
		p->rc = SQLITE_NOMEM;
	sqlite3_bind_text(p->st, at, kp_buf_cstr(text), -1, SQLITE_TRANSIENT);
	kp_buf_free(text);
}

/* text NULL: null. */
static void
db_text(struct db *p, int at, const char *text)
{
	struct kp_buf clean;

	if (text == NULL)
		return;
	kp_buf_init(&clean, NAME_BYTES_MAX);
	text_put(&clean, text);
	bind(p, at, &clean);
}

static void
db_ints(struct db *p, int at, const int64_t *v, int n)
{
	for (int i = 0; i < n; i++)
		sqlite3_bind_int64(p->st, at + i, v[i]);
}

static void
db_fn(struct db *p, int at, const struct kp_call_names *t, uint32_t fn)
{
	struct kp_buf name;

	kp_buf_init(&name, NAME_BYTES_MAX);
	trace_put_fn(&name, t, fn, false);
	bind(p, at, &name);
}

/* <0.81.0>; NULL: "others" */
static void
db_pid(struct db *p, int at, const struct kp_call_proc *proc)
{
	struct kp_buf text;

	kp_buf_init(&text, 64);
	if (proc == NULL)
		kp_buf_str(&text, "others");
	else
		trace_put_number(&text, proc);
	bind(p, at, &text);
}

/* ---- a trace ---- */

static const char trace_schema[] =
    "pragma journal_mode = off; pragma synchronous = off; begin;"
    "create table trace(target text, otp integer, began_ns integer,"
    "  took_ns integer, processes integer, events integer, odd integer,"
    "  lost integer, ended integer);"
    "create table node(id integer primary key, name text, otp integer,"
    "  offset_ns integer, error_ns integer, ended integer);"
    "create table process(id integer primary key, pid text, name text,"
    "  spawned_by integer, spawned_as text, node integer);"
    "create table call(process integer, caller text, function text,"
    "  calls integer, acc_ns integer, own_ns integer);"
    "create table path(id integer primary key, parent integer,"
    "  process integer, depth integer, function text, calls integer,"
    "  own_ns integer);"
    "create view function as select function, sum(calls) calls,"
    "  sum(acc_ns) / 1e6 acc_ms, sum(own_ns) / 1e6 own_ms from call"
    "  group by function;"
    "create view callee as select caller, function, sum(calls) calls,"
    "  sum(acc_ns) / 1e6 acc_ms, sum(own_ns) / 1e6 own_ms from call"
    "  group by caller, function;";

struct trace_writing {
	struct db to;
	const struct kp_call_names *names;
	const struct kp_calls_sum *sum;
};

static void
put_trace(struct trace_writing *w, const struct kp_calls_info *info)
{
	const struct kp_calls_sum *s = w->sum;
	const int64_t figures[] = { info->otp, s->first + info->offset,
		s->last - s->first, s->nprocs, (int64_t)s->events,
		(int64_t)s->odd, (int64_t)info->lost, info->end };

	db_prepare(&w->to, "insert into trace values(?,?,?,?,?,?,?,?,?)");
	db_text(&w->to, 1, info->target);
	db_ints(&w->to, 2, figures, sizeof(figures) / sizeof(figures[0]));
	db_row(&w->to);
}

static void
put_nodes(struct trace_writing *w)
{
	const struct kp_call_node *nd;

	db_prepare(&w->to, "insert into node values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->names->nnodes &&
	     w->to.rc == SQLITE_OK; i++) {
		nd = &w->names->nodes[i];
		sqlite3_bind_int64(w->to.st, 1, i);
		sqlite3_bind_text(w->to.st, 2, nd->name, -1, SQLITE_STATIC);
		db_ints(&w->to, 3, (int64_t[]){ nd->otp, nd->offset,
		    nd->error, nd->end }, 4);
		db_row(&w->to);
	}
}

static void
put_processes(struct trace_writing *w)
{
	const struct kp_call_proc *p;
	const struct kp_calls_proc *q;

	db_prepare(&w->to, "insert into process values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->nprocs && w->to.rc == SQLITE_OK; i++) {
		p = &w->names->procs[i];
		q = &w->sum->procs[i];
		sqlite3_bind_int64(w->to.st, 1, i);
		db_pid(&w->to, 2, p);
		db_text(&w->to, 3, p->name);
		if (q->spawned) {
			sqlite3_bind_int64(w->to.st, 4, q->parent);
			db_fn(&w->to, 5, w->names, q->spawned_as);
		}
		sqlite3_bind_int64(w->to.st, 6, p->node);
		db_row(&w->to);
	}
}

static void
put_calls(struct trace_writing *w)
{
	const struct kp_calls_clock *c;

	db_prepare(&w->to, "insert into call values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->nclocks && w->to.rc == SQLITE_OK; i++) {
		c = &w->sum->clocks[i];
		sqlite3_bind_int64(w->to.st, 1, c->proc);
		db_fn(&w->to, 2, w->names, c->caller);
		db_fn(&w->to, 3, w->names, c->fn);
		db_ints(&w->to, 4, (int64_t[]){ (int64_t)c->calls, c->acc,
		    c->own }, 3);
		db_row(&w->to);
	}
}

static void
put_paths(struct trace_writing *w)
{
	const struct kp_calls_path *p;

	db_prepare(&w->to, "insert into path values(?,?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->npaths && w->to.rc == SQLITE_OK; i++) {
		p = &w->sum->paths[i];
		sqlite3_bind_int64(w->to.st, 1, i);
		if (p->parent != KP_PATH_NONE) {
			sqlite3_bind_int64(w->to.st, 2, p->parent);
			db_fn(&w->to, 5, w->names, p->fn);
		}
		db_ints(&w->to, 3, (int64_t[]){ p->proc, p->depth }, 2);
		db_ints(&w->to, 6, (int64_t[]){ (int64_t)p->calls, p->own },
		    2);
		db_row(&w->to);
	}
}

enum kp_err
trace_db_write(const char *file, const struct kp_call_names *t,
    const struct kp_calls_sum *s, const struct kp_calls_info *info, char *why,
    size_t n)
{
	struct trace_writing w = { .names = t, .sum = s };
	char text[FILE_WHY_MAX];

	if (file_not_for_db(text, file) != NULL) {
		snprintf(why, n, "%.200s", text);
		return KP_EFORMAT;
	}
	if (access(file, F_OK) == 0) {
		snprintf(why, n, "it is there already");
		return KP_EBUSY;
	}
	db_open(&w.to, file);
	db_exec(&w.to, trace_schema);
	put_trace(&w, info);
	put_nodes(&w);
	put_processes(&w);
	put_calls(&w);
	put_paths(&w);
	db_exec(&w.to, "commit");
	if (w.to.rc != SQLITE_OK)
		snprintf(why, n, "%s", sqlite3_errmsg(w.to.db));
	db_close(&w.to);
	if (w.to.rc == SQLITE_OK)
		return KP_OK;
	unlink(file);
	return KP_EIO;
}

/*
 * ---- counters ----
 *
 * A profile is one transaction, so that the file never has a part of one.  A file
 * that is read is untrusted: its size and its figures are bounded.
 */

#define APPLICATION 1802529904	/* "kpfp" */
#define VERSION 2
#define BUSY_MS 5000		/* while another kprof writes */
#define LIMITED_MAX 16384u
#define FIGURE_MAX (INT64_C(1) << 43)

static const char counts_schema[] =
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

struct counts_writing {
	struct db to;
	sqlite3_int64 id;	/* of the profile */
};

/* ---- what is written ---- */

static void
put_profile(struct counts_writing *w, const struct kp_counts *p,
    const struct counts_view *v, kp_wall_ns now)
{
	const int64_t figures[] = { now, p->elapsed, (int64_t)v->functions,
		(int64_t)v->processes, (int64_t)p->gone, (int64_t)p->merged,
		(int64_t)v->skipped };
	struct kp_buf limited;

	db_prepare(&w->to, "insert into profile(target, otp, type, read_ns, "
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
	db_row(&w->to);
	w->id = sqlite3_last_insert_rowid(w->to.db);
}

static void
put_counted(struct counts_writing *w, const struct kp_counts *p)
{
	const struct kp_counts_row *row;

	db_prepare(&w->to, "insert into counted values(?, ?, ?, ?, ?, ?)");
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
		db_row(&w->to);
	}
}

static void
put_names(struct counts_writing *w, const struct kp_call_names *t)
{
	db_prepare(&w->to, "insert into process values(?, ?, ?)");
	for (uint32_t i = 0; i < t->nprocs && w->to.rc == SQLITE_OK; i++) {
		if (t->procs[i].name == NULL)
			continue;
		sqlite3_bind_int64(w->to.st, 1, w->id);
		db_pid(&w->to, 2, &t->procs[i]);
		db_text(&w->to, 3, t->procs[i].name);
		db_row(&w->to);
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
make(struct counts_writing *w, char *why, size_t n)
{
	db_exec(&w->to, "begin immediate");
	if (w->to.rc != SQLITE_OK)
		return KP_OK;
	if (is_ours(w->to.db))
		return KP_OK;
	if (number(w->to.db, "select count(*) from sqlite_master") != 0) {
		snprintf(why, n, "it is another database: give a file of its "
		    "own");
		return KP_EFORMAT;
	}
	db_exec(&w->to, counts_schema);
	return KP_OK;
}

enum kp_err
counts_db_add(const char *file, const struct kp_counts *p,
    const struct counts_view *v, kp_wall_ns now, char *why, size_t n)
{
	bool is_new = access(file, F_OK) != 0;
	char text[FILE_WHY_MAX];
	enum kp_err e = KP_EIO;
	struct counts_writing w = { 0 };

	if (file_not_for_db(text, file) != NULL) {
		snprintf(why, n, "%.200s", text);
		return KP_EFORMAT;
	}
	db_open(&w.to, file);
	if (w.to.rc == SQLITE_OK)
		sqlite3_busy_timeout(w.to.db, BUSY_MS);
	if (make(&w, why, n) != KP_OK) {
		e = KP_EFORMAT;
		goto out;
	}
	put_profile(&w, p, v, now);
	put_counted(&w, p);
	put_names(&w, p->names);
	db_exec(&w.to, "commit");
	e = w.to.rc == SQLITE_OK ? KP_OK : KP_EIO;
	if (e != KP_OK)
		snprintf(why, n, "%s", w.to.db != NULL ? sqlite3_errmsg(w.to.db) :
		    "out of memory");
out:
	db_close(&w.to);
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
