/*
 * range.c - finds the windows, the nodes and the plan of a range, and binds its
 * sums and windows one by one to a prepared statement.
 *
 * The plan has the sums of the coarsest level that lie in the range, then, in the
 * gaps between them, finer ones, recursively.
 */
#include <stdlib.h>

#include "base/sat.h"
#include "range.h"

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

int
range_levels_read(sqlite3 *conn, struct range_levels *out)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(conn, "select level from level_next"
	    " order by level", -1, &st, NULL);
	int64_t level;

	out->n = 0;
	if (rc != SQLITE_OK)
		return rc;
	while (sqlite3_step(st) == SQLITE_ROW && out->n < RANGE_LEVELS_MAX) {
		level = sqlite3_column_int64(st, 0);
		/* skips what are not multiples, which a damaged file may have */
		if (level > 0 && level <= RANGE_LEVEL_MAX && (out->n == 0 ||
		    level % out->v[out->n - 1] == 0))
			out->v[out->n++] = level;
	}
	return sqlite3_finalize(st);
}

/* Binds the n values of v, and adds the statement's rows. */
static void
take(struct finder *f, sqlite3_stmt *st, const int64_t *v, int n)
{
	struct range_plan *p = f->out;
	int rc = SQLITE_ROW;

	for (int i = 0; i < n; i++)
		sqlite3_bind_int64(st, i + 1, v[i]);
	while (f->rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (vec_room_by_len(&p->v, p->n, VEC_NO_CAP) != KP_OK)
			f->rc = SQLITE_NOMEM;
		else
			p->v[p->n++] = (struct range_piece){
				sqlite3_column_int64(st, 0),
				sqlite3_column_int64(st, 1),
				sqlite3_column_int64(st, 2),
				sqlite3_column_int64(st, 3), st == f->sums };
	}
	if (f->rc == SQLITE_OK && rc != SQLITE_DONE)
		f->rc = rc;
	sqlite3_reset(st);
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
		take(f, f->windows, (int64_t[]){ node, since, until }, 3);
		return;
	}
	if (levels == 0) {
		for (size_t i = 0; i < f->w->nnodes; i++)
			find(f, f->w->node[i], f->w->node_levels, since, until);
		return;
	}
	length = f->w->levels->v[--levels] * KP_NS_PER_S;
	take(f, f->sums, (int64_t[]){ f->w->levels->v[levels], node, since,
		until - length }, 4);
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
	    " from time_window where node_id = ? and start_ns >= ?"
	    " and start_ns < ?", -1, &f.windows, NULL);
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

/* ---- the range of a query ---- */

#define LATE (100 * KP_NS_PER_MS)

void
range_bind(struct read *rd, const struct kp_query_range *r)
{
	read_bind(rd, r->since);
	read_bind(rd, r->until);
	read_bind_text(rd, r->node);
}

/*
 * Finds from when to when the windows last that this time cuts; both stay as they
 * are if there is none.  Windows become longer with age, so that none is longer
 * than the oldest, or an hour.  Those of earlier versions end a little late: what
 * reaches less than that behind the time is not cut.
 */
static enum kp_err
widen_to(struct kp_query *q, const struct kp_query_range *r, kp_wall_ns at,
    kp_wall_ns *start, kp_wall_ns *end)
{
	struct read rd;

	read_start(&rd, q, "select min(w.start_ns), max(w.end_ns)"
	    " from time_window w where w.start_ns > ?1 - max(3600000000000,"
	    " (select max(end_ns - start_ns) from (select start_ns, end_ns"
	    " from time_window order by start_ns limit 100)))"
	    " and w.start_ns < ?1 and w.end_ns > ?2"
	    " and (?3 is null or w.node_id in"
	    " (select id from node where one_of(name, ?3)))");
	read_bind(&rd, at);
	read_bind(&rd, sat_add(at, LATE));
	read_bind_text(&rd, r->node);
	while (read_next(&rd)) {
		if (sqlite3_column_type(rd.st, 0) == SQLITE_NULL)
			continue;
		if (read_int(&rd, 0) < *start)
			*start = read_int(&rd, 0);
		if (read_int(&rd, 1) > *end)
			*end = read_int(&rd, 1);
	}
	return read_end(&rd);
}

enum kp_err
range_whole(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_range *out)
{
	kp_wall_ns ignored = INT64_MAX;
	enum kp_err err = KP_OK;

	*out = *r;
	out->exact = true;
	if (r->exact || r->since >= r->until)
		return KP_OK;
	if (r->since > 0)
		err = widen_to(q, r, r->since, &out->since, &ignored);
	ignored = 0;
	if (err == KP_OK && r->until < INT64_MAX)
		err = widen_to(q, r, r->until, &ignored, &out->until);
	return err;
}

/* Finds the range's nodes; *all: there are no others. */
static enum kp_err
find_nodes(struct kp_query *q, size_t file, const struct kp_query_range *r,
    int64_t **v, size_t *n, bool *all)
{
	struct read rd;

	*v = NULL;
	*n = 0;
	*all = true;
	read_start_file(&rd, q, file, "select id, ?1 is null or one_of(name, ?1)"
	    " from node where name <> ''");
	read_bind_text(&rd, r->node);
	while (read_next(&rd)) {
		if (read_int(&rd, 1) == 0) {
			*all = false;
			continue;
		}
		if (!read_room(&rd, v, *n))
			break;
		(*v)[(*n)++] = read_int(&rd, 0);
	}
	return read_end(&rd);
}

/* Sticks in rr->err. */
static void
find_pieces(struct range_rows *rr, struct kp_query *q, size_t file,
    const struct kp_query_range *r)
{
	sqlite3 *conn = q->files[file].conn;
	struct range_levels levels = { .n = 0 };
	struct range_wanted w = { .since = r->since, .until = r->until,
		.levels = &levels, .step = rr->use.step };
	struct read rd = { .q = q, .file = file };
	int64_t *nodes;

	rd.err = find_nodes(q, file, r, &nodes, &w.nnodes, &w.all);
	w.node = nodes;
	w.all = w.all && !rr->use.by_node;
	if (rd.err == KP_OK)
		read_fail(&rd, range_levels_read(conn, &levels));
	w.all_levels = w.node_levels = (int)levels.n;
	if (rd.err == KP_OK)
		read_fail(&rd, range_plan_find(conn, &w, &rr->pieces));
	free(nodes);
	rr->err = rd.err;
}

void
range_rows_start(struct range_rows *rr, struct kp_query *q, size_t file,
    const struct kp_query_range *r, struct range_use use,
    const char *windows, const char *sums)
{
	*rr = (struct range_rows){ .use = use };
	find_pieces(rr, q, file, r);
	if (rr->err != KP_OK)
		return;
	read_start_file(&rr->windows, q, file, windows);
	read_start_file(&rr->sums, q, file, sums);
}

struct read *
range_rows_next(struct range_rows *rr)
{
	while (rr->rd == NULL || !read_next(rr->rd)) {
		if (rr->err != KP_OK || rr->at == rr->pieces.n ||
		    rr->windows.err != KP_OK || rr->sums.err != KP_OK)
			return NULL;
		rr->piece = &rr->pieces.v[rr->at++];
		rr->rd = rr->piece->sum ? &rr->sums : &rr->windows;
		read_again(rr->rd);
		read_bind(rr->rd, rr->piece->id);
		read_bind_text(rr->rd, rr->use.of[0]);
		read_bind_text(rr->rd, rr->use.of[1]);
	}
	return rr->rd;
}

enum kp_err
range_rows_end(struct range_rows *rr)
{
	enum kp_err windows = read_end(&rr->windows), sums = read_end(&rr->sums);

	range_plan_free(&rr->pieces);
	return rr->err != KP_OK ? rr->err : windows != KP_OK ? windows : sums;
}

enum kp_err
range_clip(struct kp_query *q, struct kp_query_range *r, kp_dur_ns *longest)
{
	kp_wall_ns first, last;
	enum kp_err err = kp_query_span(q, &first, &last);
	struct read rd;

	if (err != KP_OK)
		return err;
	if (r->since < first)
		r->since = first;
	if (r->until > last)
		r->until = last;
	if (r->until < r->since)
		r->until = r->since;
	read_start(&rd, q, "select max(w.end_ns - w.start_ns)"
	    " from time_window w" IN_RANGE);
	range_bind(&rd, r);
	*longest = 0;
	while (read_next(&rd)) {
		if (read_int(&rd, 0) > *longest)
			*longest = read_int(&rd, 0);
	}
	return read_end(&rd);
}

#define STEPS_WANTED 150

/* The possible steps in s: those that make a readable time axis. */
static const int64_t nice[] = { 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
	1800, 3600, 7200, 10800, 21600, 43200, 86400 };
#define NNICE (sizeof(nice) / sizeof(nice[0]))

kp_dur_ns
range_step(const struct kp_query_range *r, kp_dur_ns least, kp_dur_ns longest)
{
	if (least == 0)
		least = (r->until - r->since) / STEPS_WANTED;
	/* windows of earlier versions end a little late */
	longest -= longest / 10;
	least = least > longest ? least : longest;
	for (size_t i = 0; i < NNICE; i++)
		if (nice[i] * KP_NS_PER_S >= least)
			return nice[i] * KP_NS_PER_S;
	return sat_add(least, KP_NS_PER_S - 1) / KP_NS_PER_S * KP_NS_PER_S;
}
