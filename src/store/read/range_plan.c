/*
 * range_plan.c - takes the sums of the coarsest level that lie in the range,
 * then looks in the gaps between them for finer ones, recursively.
 */
#include <stdlib.h>

#include "base/vec.h"
#include "range_plan.h"

#define ALL_NODES 0	/* as level_sum.node_id */

struct finder {
	sqlite3_stmt *sums, *windows;
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

/* Skips levels that are not multiples, which a damaged file may have. */
static void
add_level(struct range_levels *l, int64_t level)
{
	if (level > 0 && level <= RANGE_LEVEL_MAX &&
	    (l->n == 0 || level % l->v[l->n - 1] == 0))
		l->v[l->n++] = level;
}

int
range_levels_read(sqlite3 *conn, struct range_levels *out)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(conn, "select level from level_next"
	    " order by level", -1, &st, NULL);

	out->n = 0;
	if (rc != SQLITE_OK)
		return rc;
	while (sqlite3_step(st) == SQLITE_ROW && out->n < RANGE_LEVELS_MAX)
		add_level(out, sqlite3_column_int64(st, 0));
	return sqlite3_finalize(st);
}

static void
add(struct finder *f, sqlite3_stmt *st, bool sum)
{
	struct range_plan *p = f->out;

	if (vec_room_by_len(&p->v, p->n, VEC_NO_CAP) != KP_OK) {
		f->rc = SQLITE_NOMEM;
		return;
	}
	p->v[p->n++] = (struct range_piece){ sqlite3_column_int64(st, 0),
		sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2),
		sqlite3_column_int64(st, 3), sum };
}

/* Adds the statement's rows. */
static void
take(struct finder *f, sqlite3_stmt *st, bool sum)
{
	int rc = SQLITE_ROW;

	while (f->rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW)
		add(f, st, sum);
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
take_sums(struct finder *f, int64_t node, int64_t level, kp_wall_ns since,
    kp_wall_ns until)
{
	sqlite3_bind_int64(f->sums, 1, level);
	sqlite3_bind_int64(f->sums, 2, node);
	sqlite3_bind_int64(f->sums, 3, since);
	sqlite3_bind_int64(f->sums, 4, until - level * KP_NS_PER_S);
	take(f, f->sums, true);
}

static bool
usable(const struct finder *f, int level, kp_wall_ns since, kp_wall_ns until)
{
	kp_dur_ns length = f->w->levels->v[level] * KP_NS_PER_S;

	return (f->w->step == 0 || f->w->step % length == 0) &&
	    until - length >= since;
}

/* Uses the first `levels` levels, the coarsest first.  A sum may have a row for
   each run. */
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
	length = f->w->levels->v[--levels] * KP_NS_PER_S;
	take_sums(f, node, f->w->levels->v[levels], since, until);
	end = f->out->n;
	for (size_t i = first; i < end && f->rc == SQLITE_OK; i++) {
		start = f->out->v[i].start;
		find(f, node, levels, since, start);
		since = start + length;
	}
	find(f, node, levels, since, until);
}

int
range_plan_find(sqlite3 *conn, const struct range_wanted *w,
    struct range_plan *out)
{
	bool sums = w->levels->n > 0;
	struct finder f = { .w = w, .out = out };

	f.rc = sqlite3_prepare_v2(conn, "select id, start_ns, run_id, level"
	    " from time_window where start_ns >= ? and start_ns < ?"
	    " and node_id = ?", -1, &f.windows, NULL);
	if (f.rc == SQLITE_OK && sums)
		f.rc = sqlite3_prepare_v2(conn, "select id, start_ns,"
		    " run_id, level from level_sum where level = ?"
		    " and node_id = ? and start_ns >= ? and start_ns <= ?"
		    " order by start_ns", -1,
		    &f.sums, NULL);
	if (w->all) {
		find(&f, ALL_NODES, w->all_levels, w->since, w->until);
	} else {
		for (size_t i = 0; i < w->nnodes; i++)
			find(&f, w->node[i], w->node_levels, w->since,
			    w->until);
	}
	sqlite3_finalize(f.sums);
	sqlite3_finalize(f.windows);
	return f.rc;
}
