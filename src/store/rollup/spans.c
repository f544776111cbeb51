/*
 * spans.c - makes the next span that is due: finds its parts, adds them up, and
 * notes how far its level has come.
 */
#include <stdlib.h>

#include "combine.h"
#include "spans.h"

#define LATE (5 * KP_NS_PER_S)	/* a window may be, on its way to the disk */
/*
 * Added up in one turn, which a window that was closed may have to wait for:
 * one past this is read from its parts.
 */
#define CELLS_MAX 131072
#define PARTS_MAX 1024

/* The next span of a level, and its nodes after this one. */
struct next {
	int level;
	kp_wall_ns start;
	int64_t node;
};

static bool
ask(struct kp_db *db, enum stmt which, int64_t of, int64_t *v)
{
	bool some;

	row_start(db, which);
	row_int(db, of);
	if (!row_next(db))
		return false;
	some = sqlite3_column_type(db->row, 0) != SQLITE_NULL;
	*v = row_get(db, 0);
	row_leave(db);
	return some;
}

/* Where to go on in this level; false: nothing there is whole yet. */
static bool
find_next(struct kp_db *db, struct next *x, kp_wall_ns now, kp_dur_ns interval)
{
	kp_dur_ns length = span_levels[x->level] * KP_NS_PER_S;
	kp_wall_ns start;

	row_start(db, ST_SPAN_NEXT);
	row_int(db, span_levels[x->level]);
	if (!row_next(db))
		return false;
	x->start = row_get(db, 0);
	x->node = row_get(db, 1);
	row_leave(db);
	/* the clock was ahead once: on with the last span that is whole */
	if (x->start > now) {
		x->start = now - interval - LATE - length;
		x->start -= x->start % length;
		x->node = 0;
	}
	if (!ask(db, ST_SPAN_WINDOW, x->start, &start))
		return false;
	start -= start % length;
	if (start > x->start) {
		x->start = start;
		x->node = 0;
	}
	return x->start <= now - length - interval - LATE;
}

/* All nodes that there are; NULL when out of memory. */
static int64_t *
all_nodes(struct kp_db *db, size_t *n)
{
	int64_t *v = NULL, *grown, id = 0;

	for (*n = 0; ask(db, ST_SPAN_NODE, id, &id); v[(*n)++] = id) {
		grown = reallocarray(v, *n + 1, sizeof(*v));
		if (grown == NULL) {
			db_fail(db, SQLITE_NOMEM);
			break;
		}
		v = grown;
	}
	return v;
}

static void
find_parts(struct kp_db *db, const struct next *x, struct range_plan *parts)
{
	kp_dur_ns length = span_levels[x->level] * KP_NS_PER_S;
	struct range_wanted w = { .since = x->start,
		.until = x->start + length, .node = &x->node, .nnodes = 1,
		.all_levels = x->level, .node_levels = x->level };
	int64_t *nodes = NULL;

	if (x->node == 0) {
		nodes = all_nodes(db, &w.nnodes);
		w.node = nodes;
		w.all = true;
		w.node_levels++;
	}
	if (db->rc == SQLITE_OK)
		db_fail(db, range_plan_find(db->conn, &w, parts));
	free(nodes);
}

static void
place(struct kp_db *db, enum stmt which, const struct next *x)
{
	row_start(db, which);
	row_int(db, span_levels[x->level]);
	row_int(db, x->node);
	row_int(db, x->start);
	row_end(db);
}

/* Of one node, or (0) of all; not what is one already, or too many. */
static bool
make(struct kp_db *db, const struct next *x)
{
	struct range_plan parts = { 0 };
	bool made;

	find_parts(db, x, &parts);
	made = parts.n > 1 && parts.n <= PARTS_MAX &&
	    combine_count(db, parts.v, parts.n, CELLS_MAX) <= CELLS_MAX &&
	    db->rc == SQLITE_OK;
	if (made) {
		place(db, ST_SPAN_DEL, x);
		place(db, ST_SPAN, x);
		combine_pieces(db, parts.v, parts.n, ST_SPAN_STAT,
		    db_last_id(db));
	}
	range_plan_free(&parts);
	return made;
}

static void
note_done(struct kp_db *db, const struct next *x)
{
	row_start(db, ST_SPAN_DONE);
	row_int(db, x->start);
	row_int(db, x->node);
	row_int(db, span_levels[x->level]);
	row_end(db);
}

/* Nodes in order; the sum of all comes last. */
static void
make_next(struct kp_db *db, struct next *x)
{
	struct next all = *x;

	while (ask(db, ST_SPAN_NODE, x->node, &x->node)) {
		if (make(db, x) || db->rc != SQLITE_OK) {
			note_done(db, x);
			return;
		}
	}
	all.node = 0;
	make(db, &all);
	x->start += span_levels[x->level] * KP_NS_PER_S;
	x->node = 0;
	note_done(db, x);
}

bool
spans_make(struct kp_db *db, kp_wall_ns now, kp_dur_ns interval)
{
	struct next x;

	for (int i = 0; i < SPAN_LEVELS; i++) {
		x = (struct next){ .level = i };
		if (find_next(db, &x, now, interval)) {
			make_next(db, &x);
			return true;
		}
	}
	return false;
}

int
spans_make_all(sqlite3 *conn)
{
	struct kp_db *db = calloc(1, sizeof(*db));
	bool more = true;
	int rc = SQLITE_OK;

	if (db == NULL)
		return SQLITE_NOMEM;
	db->conn = conn;
	while (more && rc == SQLITE_OK) {
		db_begin(db);
		more = spans_make(db, kp_wall_now(), 0);
		rc = db_commit(db);
	}
	db_finalize(db);
	kp_buf_free(&db->blob);
	free(db);
	return rc;
}

void
spans_moved(struct kp_db *db, const struct span *s)
{
	for (int i = 0; i < SPAN_LEVELS; i++) {
		row_start(db, ST_SPANS_MOVED);
		row_int(db, span_levels[i]);
		row_int(db, s->node);
		row_int(db, s->start);
		row_int(db, s->start + s->length);
		row_end(db);
	}
}
