/* calls_db.c - see the header. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

#include "store/calls_db.h"

static const char schema[] =
    "pragma journal_mode = off; pragma synchronous = off; begin;"
    "create table trace(target text, otp integer, began_ns integer,"
    "  took_ns integer, processes integer, events integer, odd integer,"
    "  lost integer, ended integer);"
    "create table process(id integer primary key, pid text, name text,"
    "  spawned_by integer, spawned_as text);"
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

struct writing {
	sqlite3 *db;
	sqlite3_stmt *st;
	const struct kp_call_names *names;
	const struct kp_calls_sum *sum;
	int rc;
};

static void
prepare(struct writing *w, const char *sql)
{
	sqlite3_finalize(w->st);
	w->st = NULL;
	if (w->rc == SQLITE_OK)
		w->rc = sqlite3_prepare_v2(w->db, sql, -1, &w->st, NULL);
}

static void
row(struct writing *w)
{
	if (w->rc != SQLITE_OK)
		return;
	if (sqlite3_step(w->st) != SQLITE_DONE)
		w->rc = sqlite3_errcode(w->db);
	sqlite3_reset(w->st);
	sqlite3_clear_bindings(w->st);
}

static void
bind_fn(struct writing *w, int at, uint32_t fn)
{
	const struct kp_call_fn *f = kp_call_fn(w->names, fn);
	char *text = f->mod[0] == '\0' ? sqlite3_mprintf("%s", f->fun) :
	    sqlite3_mprintf("%s:%s/%u", f->mod, f->fun, f->arity);

	sqlite3_bind_text(w->st, at, text, -1, sqlite3_free);
}

static void
bind_int(struct writing *w, int at, int64_t v)
{
	sqlite3_bind_int64(w->st, at, v);
}

static void
put_trace(struct writing *w, const struct kp_calls_info *info)
{
	const struct kp_calls_sum *s = w->sum;

	prepare(w, "insert into trace values(?,?,?,?,?,?,?,?,?)");
	sqlite3_bind_text(w->st, 1, info->target, -1, SQLITE_STATIC);
	bind_int(w, 2, info->otp);
	bind_int(w, 3, s->first + info->offset);
	bind_int(w, 4, s->last - s->first);
	bind_int(w, 5, s->nprocs);
	bind_int(w, 6, (int64_t)s->events);
	bind_int(w, 7, (int64_t)s->odd);
	bind_int(w, 8, (int64_t)info->lost);
	bind_int(w, 9, info->end);
	row(w);
}

static void
put_processes(struct writing *w)
{
	const struct kp_call_proc *p;
	const struct kp_calls_proc *q;

	prepare(w, "insert into process values(?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->nprocs && w->rc == SQLITE_OK; i++) {
		p = kp_call_proc(w->names, i);
		q = &w->sum->procs[i];
		bind_int(w, 1, i);
		sqlite3_bind_text(w->st, 2, sqlite3_mprintf("<0.%u.%u>", p->id,
		    p->serial), -1, sqlite3_free);
		if (p->name != NULL)
			sqlite3_bind_text(w->st, 3, p->name, -1,
			    SQLITE_STATIC);
		if (q->spawned) {
			bind_int(w, 4, q->parent);
			bind_fn(w, 5, q->spawned_as);
		}
		row(w);
	}
}

static void
put_calls(struct writing *w)
{
	const struct kp_calls_clock *c;

	prepare(w, "insert into call values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->nclocks && w->rc == SQLITE_OK; i++) {
		c = &w->sum->clocks[i];
		bind_int(w, 1, c->proc);
		bind_fn(w, 2, c->caller);
		bind_fn(w, 3, c->fn);
		bind_int(w, 4, (int64_t)c->calls);
		bind_int(w, 5, c->acc);
		bind_int(w, 6, c->own);
		row(w);
	}
}

static void
put_paths(struct writing *w)
{
	const struct kp_calls_path *p;

	prepare(w, "insert into path values(?,?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->npaths && w->rc == SQLITE_OK; i++) {
		p = &w->sum->paths[i];
		bind_int(w, 1, i);
		if (p->parent != KP_PATH_NONE) {
			bind_int(w, 2, p->parent);
			bind_fn(w, 5, p->fn);
		}
		bind_int(w, 3, p->proc);
		bind_int(w, 4, p->depth);
		bind_int(w, 6, (int64_t)p->calls);
		bind_int(w, 7, p->own);
		row(w);
	}
}

enum kp_err
calls_db_write(const char *file, const struct kp_call_names *t,
    const struct kp_calls_sum *s, const struct kp_calls_info *info, char *why,
    size_t n)
{
	struct writing w = { .names = t, .sum = s };

	if (access(file, F_OK) == 0) {
		snprintf(why, n, "it is there already");
		return KP_EBUSY;
	}
	w.rc = sqlite3_open_v2(file, &w.db,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
	if (w.rc == SQLITE_OK)
		w.rc = sqlite3_exec(w.db, schema, NULL, NULL, NULL);
	put_trace(&w, info);
	put_processes(&w);
	put_calls(&w);
	put_paths(&w);
	prepare(&w, "commit");
	row(&w);
	if (w.rc != SQLITE_OK)
		snprintf(why, n, "%s", sqlite3_errmsg(w.db));
	sqlite3_finalize(w.st);
	sqlite3_close(w.db);
	if (w.rc == SQLITE_OK)
		return KP_OK;
	unlink(file);
	return KP_EIO;
}
