/* trace_db.c - the schema of the database, and the statements that fill it. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

#include "db_insert.h"
#include "trace_db.h"
#include "text/file_why.h"

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

#define LEN(v) ((int)(sizeof(v) / sizeof((v)[0])))

static void
put_trace(struct writing *w, const struct kp_calls_info *info)
{
	const struct kp_calls_sum *s = w->sum;
	const int64_t figures[] = { info->otp, s->first + info->offset,
		s->last - s->first, s->nprocs, (int64_t)s->events,
		(int64_t)s->odd, (int64_t)info->lost, info->end };

	put_prepare(&w->to, "insert into trace values(?,?,?,?,?,?,?,?,?)");
	db_text(&w->to, 1, info->target);
	db_ints(&w->to, 2, figures, LEN(figures));
	put_row(&w->to);
}

static void
put_nodes(struct writing *w)
{
	const struct kp_call_node *nd;

	put_prepare(&w->to, "insert into node values(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < w->names->nnodes &&
	     w->to.rc == SQLITE_OK; i++) {
		nd = &w->names->nodes[i];
		sqlite3_bind_int64(w->to.st, 1, i);
		sqlite3_bind_text(w->to.st, 2, nd->name, -1, SQLITE_STATIC);
		db_ints(&w->to, 3, (int64_t[]){ nd->otp, nd->offset,
		    nd->error, nd->end }, 4);
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
		sqlite3_bind_int64(w->to.st, 1, c->proc);
		db_fn(&w->to, 2, w->names, c->caller);
		db_fn(&w->to, 3, w->names, c->fn);
		db_ints(&w->to, 4, (int64_t[]){ (int64_t)c->calls, c->acc,
		    c->own }, 3);
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
		sqlite3_bind_int64(w->to.st, 1, i);
		if (p->parent != KP_PATH_NONE) {
			sqlite3_bind_int64(w->to.st, 2, p->parent);
			db_fn(&w->to, 5, w->names, p->fn);
		}
		db_ints(&w->to, 3, (int64_t[]){ p->proc, p->depth }, 2);
		db_ints(&w->to, 6, (int64_t[]){ (int64_t)p->calls, p->own },
		    2);
		put_row(&w->to);
	}
}

enum kp_err
trace_db_write(const char *file, const struct kp_call_names *t,
    const struct kp_calls_sum *s, const struct kp_calls_info *info, char *why,
    size_t n)
{
	struct writing w = { .names = t, .sum = s };
	char text[FILE_WHY_MAX];

	if (file_not_for_db(text, file) != NULL) {
		snprintf(why, n, "%.200s", text);
		return KP_EFORMAT;
	}
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
