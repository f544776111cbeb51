/* trace_db.c - the schema of the database, and the statements that fill it. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

#include "clean_db.h"
#include "trace_db.h"

static const char schema[] =
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

struct writing {
	struct put to;
	const struct kp_call_names *names;
	const struct kp_calls_sum *sum;
};

/* Pseudo functions have no module. */
static void
bind_fn(struct writing *w, int at, uint32_t fn)
{
	const struct kp_call_fn *f = kp_call_fn(w->names, fn);

	if (f->mod[0] == '\0')
		clean_bind_text(&w->to, at, f->fun);
	else
		clean_bind_fn(&w->to, at, f->mod, f->fun, f->arity);
}

static void
bind_int(struct writing *w, int at, int64_t v)
{
	sqlite3_bind_int64(w->to.st, at, v);
}

static void
put_trace(struct writing *w, const struct kp_calls_info *info)
{
	const struct kp_calls_sum *s = w->sum;

	put_prepare(&w->to, "insert into trace values(?,?,?,?,?,?,?,?,?)");
	clean_bind_text(&w->to, 1, info->target);
	bind_int(w, 2, info->otp);
	bind_int(w, 3, s->first + info->offset);
	bind_int(w, 4, s->last - s->first);
	bind_int(w, 5, s->nprocs);
	bind_int(w, 6, (int64_t)s->events);
	bind_int(w, 7, (int64_t)s->odd);
	bind_int(w, 8, (int64_t)info->lost);
	bind_int(w, 9, info->end);
	put_row(&w->to);
}

/* Times are those of node 0. */
static void
put_nodes(struct writing *w)
{
	const struct kp_call_node *nd;

	put_prepare(&w->to, "insert into node values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < kp_call_nodes(w->names) &&
	     w->to.rc == SQLITE_OK; i++) {
		nd = kp_call_node(w->names, i);
		bind_int(w, 1, i);
		sqlite3_bind_text(w->to.st, 2, nd->name, -1, SQLITE_STATIC);
		bind_int(w, 3, nd->otp);
		bind_int(w, 4, nd->offset);
		bind_int(w, 5, nd->error);
		bind_int(w, 6, nd->end);
		put_row(&w->to);
	}
}

static void
put_processes(struct writing *w)
{
	const struct kp_call_proc *p;
	const struct kp_calls_proc *q;

	put_prepare(&w->to, "insert into process values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->nprocs && w->to.rc == SQLITE_OK; i++) {
		p = kp_call_proc(w->names, i);
		q = &w->sum->procs[i];
		bind_int(w, 1, i);
		sqlite3_bind_text(w->to.st, 2, sqlite3_mprintf("<0.%u.%u>", p->id,
		    p->serial), -1, sqlite3_free);
		if (p->name != NULL)
			clean_bind_text(&w->to, 3, p->name);
		if (q->spawned) {
			bind_int(w, 4, q->parent);
			bind_fn(w, 5, q->spawned_as);
		}
		bind_int(w, 6, p->node);
		put_row(&w->to);
	}
}

static void
put_calls(struct writing *w)
{
	const struct kp_calls_clock *c;

	put_prepare(&w->to, "insert into call values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->nclocks && w->to.rc == SQLITE_OK; i++) {
		c = &w->sum->clocks[i];
		bind_int(w, 1, c->proc);
		bind_fn(w, 2, c->caller);
		bind_fn(w, 3, c->fn);
		bind_int(w, 4, (int64_t)c->calls);
		bind_int(w, 5, c->acc);
		bind_int(w, 6, c->own);
		put_row(&w->to);
	}
}

static void
put_paths(struct writing *w)
{
	const struct kp_calls_path *p;

	put_prepare(&w->to, "insert into path values(?,?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->sum->npaths && w->to.rc == SQLITE_OK; i++) {
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
		put_row(&w->to);
	}
}

enum kp_err
trace_db_write(const char *file, const struct kp_call_names *t,
    const struct kp_calls_sum *s, const struct kp_calls_info *info, char *why,
    size_t n)
{
	struct writing w = { .names = t, .sum = s };

	if (access(file, F_OK) == 0) {
		snprintf(why, n, "it is there already");
		return KP_EBUSY;
	}
	put_open(&w.to, file);
	put_exec(&w.to, schema);
	put_trace(&w, info);
	put_nodes(&w);
	put_processes(&w);
	put_calls(&w);
	put_paths(&w);
	put_exec(&w.to, "commit");
	if (w.to.rc != SQLITE_OK)
		snprintf(why, n, "%s", sqlite3_errmsg(w.to.db));
	put_close(&w.to);
	if (w.to.rc == SQLITE_OK)
		return KP_OK;
	unlink(file);
	return KP_EIO;
}
