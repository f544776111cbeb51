/*
 * range_plan.c - takes the longest spans that lie in the range, then looks in
 * the gaps between them for shorter ones, recursively.
 */
#include <stdlib.h>

#include "base/vec.h"
#include "range_plan.h"

#define ALL_NODES 0	/* as span.node_id */

const int64_t span_levels[SPAN_LEVELS] = { 60, 600, 3600, 21600,
	86400, 604800 };

struct finder {
	sqlite3 *conn;
	sqlite3_stmt *spans, *windows;
	const struct range_wanted *w;
	struct range_plan *out;
	int rc;
};

void
range_plan_free(struct range_plan *p)
{
	free(p->v);
	*p = (struct range_plan){ 0 };
}

static void
add(struct finder *f, int64_t id, kp_wall_ns start, bool span)
{
	struct range_plan *p = f->out;

	if (vec_room_by_len(&p->v, p->n, VEC_NO_CAP) != KP_OK) {
		f->rc = SQLITE_NOMEM;
		return;
	}
	p->v[p->n++] = (struct range_piece){ id, start, span };
}

/* Adds what the statement answers, each an id and a start. */
static void
take(struct finder *f, sqlite3_stmt *st, bool span)
{
	int rc = SQLITE_ROW;

	while (f->rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW)
		add(f, sqlite3_column_int64(st, 0),
		    sqlite3_column_int64(st, 1), span);
	if (f->rc == SQLITE_OK && rc != SQLITE_DONE)
		f->rc = rc;
	sqlite3_reset(st);
}

static void
take_windows(struct finder *f, int64_t node, kp_wall_ns since,
    kp_wall_ns until)
{
	sqlite3_bind_int64(f->windows, 1, since);
	sqlite3_bind_int64(f->windows, 2, until);
	sqlite3_bind_int64(f->windows, 3, node);
	take(f, f->windows, false);
}

static void
take_spans(struct finder *f, int64_t node, int64_t level, kp_wall_ns since,
    kp_wall_ns until)
{
	sqlite3_bind_int64(f->spans, 1, level);
	sqlite3_bind_int64(f->spans, 2, node);
	sqlite3_bind_int64(f->spans, 3, since);
	sqlite3_bind_int64(f->spans, 4, until - level * KP_NS_PER_S);
	take(f, f->spans, true);
}

static bool
usable(const struct finder *f, int level, kp_wall_ns since, kp_wall_ns until)
{
	kp_dur_ns length = span_levels[level] * KP_NS_PER_S;

	return (f->w->step == 0 || f->w->step % length == 0) &&
	    until - length >= since;
}

/* From this number of levels of spans, the longest first. */
static void
find(struct finder *f, int64_t node, int levels, kp_wall_ns since,
    kp_wall_ns until)
{
	size_t first = f->out->n, end;
	kp_wall_ns start;
	kp_dur_ns length;

	if (since >= until || f->rc != SQLITE_OK)
		return;
	while (levels > 0 && !usable(f, levels - 1, since, until))
		levels--;
	if (levels == 0 && node != ALL_NODES) {
		take_windows(f, node, since, until);
		return;
	}
	if (levels == 0) {
		for (size_t i = 0; i < f->w->nnodes; i++)
			find(f, f->w->node[i], f->w->node_levels, since, until);
		return;
	}
	length = span_levels[--levels] * KP_NS_PER_S;
	take_spans(f, node, span_levels[levels], since, until);
	end = f->out->n;
	for (size_t i = first; i < end && f->rc == SQLITE_OK; i++) {
		start = f->out->v[i].start;
		find(f, node, levels, since, start);
		since = start + length;
	}
	find(f, node, levels, since, until);
}

int
range_plan_find(sqlite3 *conn, const struct range_wanted *w, struct range_plan *out)
{
	/* a database that was not migrated has no spans */
	bool spans = w->all_levels > 0 || w->node_levels > 0;
	struct finder f = { .conn = conn, .w = w, .out = out };

	f.rc = sqlite3_prepare_v2(conn, "select id, start_ns from time_window"
	    " where start_ns >= ? and start_ns < ? and node_id = ?", -1,
	    &f.windows, NULL);
	if (f.rc == SQLITE_OK && spans)
		f.rc = sqlite3_prepare_v2(conn, "select id, start_ns from span"
		    " where level = ? and node_id = ? and start_ns >= ?"
		    " and start_ns <= ? order by start_ns", -1, &f.spans,
		    NULL);
	if (w->all) {
		find(&f, ALL_NODES, w->all_levels, w->since, w->until);
	} else {
		for (size_t i = 0; i < w->nnodes; i++)
			find(&f, w->node[i], w->node_levels, w->since,
			    w->until);
	}
	sqlite3_finalize(f.spans);
	sqlite3_finalize(f.windows);
	return f.rc;
}
