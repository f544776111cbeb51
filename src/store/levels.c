/*
 * levels.c - writes the next sum that is due: finds its parts, adds them by
 * run, and records the progress of its level.
 */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cell_row.h"
#include "db.h"

#define LATE (5 * KP_NS_PER_S)	/* a window may be on disk that late */
/*
 * Limits of one turn, since a window that was closed may have to wait for it.
 * A larger slot has no sum: it is read from its parts.
 */
#define CELLS_MAX 131072
#define PARTS_MAX 1024
#define SHOW_CELLS_MAX DELETE_ROWS	/* it deletes as many rows */

/* Levels besides those of -retain, if they fit its steps. */
static const int64_t usual[] = { 60, 600, 3600, 21600, 86400, 604800 };
#define NUSUAL (sizeof(usual) / sizeof(usual[0]))

/* ---- the levels ---- */

static void
add_level(struct range_levels *l, int64_t level)
{
	size_t at = 0;

	if (level > RANGE_LEVEL_MAX)
		return;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i] == level || (l->v[i] % level != 0 &&
		    level % l->v[i] != 0))
			return;
	while (at < l->n && l->v[at] < level)
		at++;
	for (size_t i = l->n++; i > at; i--)
		l->v[i] = l->v[i - 1];
	l->v[at] = level;
}

static void
choose_levels(struct range_levels *l, const struct kp_retain *r,
    kp_dur_ns interval)
{
	*l = (struct range_levels){ .n = 0 };
	for (size_t i = 0; i < r->n; i++)
		if (r->step[i].length > interval)
			add_level(l, r->step[i].length / KP_NS_PER_S);
	for (size_t i = 0; i < NUSUAL; i++)
		if (usual[i] * KP_NS_PER_S > interval)
			add_level(l, usual[i]);
}

static const struct range_levels *
known_levels(struct kp_db *db)
{
	if (db->levels.n == 0)
		db_fail(db, range_levels_read(db->conn, &db->levels));
	return &db->levels;
}

void
levels_set(struct kp_db *db, const struct kp_retain *r, kp_dur_ns interval)
{
	const struct range_levels *now = known_levels(db);
	struct range_levels l;

	choose_levels(&l, r, interval);
	if (db->rc != SQLITE_OK || (l.n == now->n &&
	    memcmp(l.v, now->v, l.n * sizeof(l.v[0])) == 0))
		return;
	/* cells come first: the cascade would look them up one by one */
	db_fail(db, sqlite3_exec(db->conn, "delete from level_stat;"
	    "delete from level_stack;"
	    "delete from level_sum", NULL, NULL, NULL));
	row_start(db, ST_LEVELS_DEL);
	row_end(db);
	for (size_t i = 0; i < l.n; i++)
		row_exec_ints(db, ST_LEVELS_ADD, l.v[i]);
	db->levels = l;
}

int64_t
levels_above(struct kp_db *db, int64_t level, int64_t of)
{
	const struct range_levels *l = known_levels(db);

	for (size_t i = 0; i < l->n; i++)
		if (l->v[i] > level && l->v[i] < of && of % l->v[i] == 0)
			return l->v[i];
	return of;
}

void
levels_forget_sums(struct kp_db *db, int64_t node, kp_wall_ns start)
{
	row_exec_ints(db, ST_SUMS_LATE, node, start);
	row_exec_ints(db, ST_LEVELS_BACK, start);
}

/* ---- adding cells up ---- */

/*
 * The cells of each piece are read in the order of the table's key, so they merge
 * like sorted lists: only one cell at a time is in memory, for any number of
 * series.  Merged cells are written in batches, because after every write SQLite
 * has to reposition the reading cursors.
 */
#define BATCH 128

/* A piece being read. */
struct part {
	sqlite3_stmt *st;	/* its cells; NULL: no more */
	int64_t tier, identity;	/* of its current cell */
};

struct merged {
	int64_t tier, identity;
	struct kp_cell cell;
};

static void
part_next(struct kp_db *db, struct part *p)
{
	int rc = sqlite3_step(p->st);

	if (rc == SQLITE_ROW) {
		p->tier = sqlite3_column_int64(p->st, CELL_TIER);
		p->identity = sqlite3_column_int64(p->st, CELL_IDENTITY);
		return;
	}
	db_fail(db, rc);
	sqlite3_finalize(p->st);
	p->st = NULL;
}

static void
part_open(struct kp_db *db, struct part *p, const struct range_piece *piece)
{
	static const char *const sql[] = {
		"select " CELL_COLUMNS " from stat s"
		    " where s.window_id = ? order by s.tier_id, s.identity_id",
		"select " CELL_COLUMNS " from level_stat s"
		    " where s.sum_id = ? order by s.tier_id, s.identity_id",
	};

	db_fail(db, sqlite3_prepare_v2(db->conn, sql[piece->sum], -1, &p->st,
	    NULL));
	if (p->st == NULL)
		return;
	sqlite3_bind_int64(p->st, 1, piece->id);
	part_next(db, p);
}

static int
part_cmp(const struct part *a, const struct part *b)
{
	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	return (a->identity > b->identity) - (a->identity < b->identity);
}

/* Merges the cells of the lowest series, and goes past them.  False: at the end. */
static bool
next_series(struct kp_db *db, struct part *part, size_t n, struct kp_cell *row,
    struct merged *to)
{
	const struct part *low = NULL;
	struct part key;

	for (size_t i = 0; i < n; i++) {
		if (part[i].st != NULL &&
		    (low == NULL || part_cmp(&part[i], low) < 0))
			low = &part[i];
	}
	if (low == NULL || db->rc != SQLITE_OK)
		return false;
	key = *low;
	*to = (struct merged){ key.tier, key.identity, { .min = -1 } };
	for (size_t i = 0; i < n; i++) {
		if (part[i].st == NULL || part_cmp(&part[i], &key) != 0)
			continue;
		cell_row_read(part[i].st, row);
		if (kp_cell_merge(&to->cell, row) != KP_OK)
			db_fail(db, SQLITE_NOMEM);
		part_next(db, &part[i]);
	}
	return true;
}

/* Writes the sums of the pieces with db_cell(into, id). */
static void
combine_pieces(struct kp_db *db, const struct range_piece *v, size_t n,
    enum stmt into, int64_t id)
{
	struct merged *batch = calloc(BATCH, sizeof(*batch));
	struct part *part = calloc(n + 1, sizeof(*part));
	struct kp_cell row = { .min = -1 };
	size_t done = BATCH;

	if (batch == NULL || part == NULL)
		db_fail(db, SQLITE_NOMEM);
	for (size_t i = 0; i < n && db->rc == SQLITE_OK; i++)
		part_open(db, &part[i], &v[i]);
	while (done == BATCH && db->rc == SQLITE_OK) {
		done = 0;
		while (done < BATCH &&
		    next_series(db, part, n, &row, &batch[done]))
			done++;
		for (size_t i = 0; i < done; i++) {
			db_cell(db, into, id, batch[i].tier, batch[i].identity,
			    &batch[i].cell);
			kp_cell_free(&batch[i].cell);
		}
	}
	for (size_t i = 0; i < n && part != NULL; i++)
		sqlite3_finalize(part[i].st);
	kp_cell_free(&row);
	free(part);
	free(batch);
}

/* ---- the sum of a slot ---- */

/* Returns 0 after the last. */
static int64_t
next_node(struct kp_db *db, int64_t node)
{
	row_begin_ints(db, ST_NODE_NEXT, node);
	return row_value(db, 0);
}

/* Returns all nodes; NULL: out of memory. */
static int64_t *
all_nodes(struct kp_db *db, size_t *n)
{
	int64_t *v = NULL, *grown, id = 0;

	for (*n = 0; (id = next_node(db, id)) != 0; v[(*n)++] = id) {
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
find_parts(struct kp_db *db, const struct slot *s, struct range_plan *parts)
{
	const struct range_levels *l = known_levels(db);
	struct range_wanted w = { .since = s->start,
		.until = s->start + s->level * KP_NS_PER_S, .node = &s->node,
		.nnodes = 1, .levels = l };
	int64_t *nodes = NULL;

	while (w.node_levels < (int)l->n && l->v[w.node_levels] < s->level)
		w.node_levels++;
	if (s->node == 0) {
		nodes = all_nodes(db, &w.nnodes);
		w.node = nodes;
		w.all = true;
		w.all_levels = w.node_levels++;
	}
	if (db->rc == SQLITE_OK)
		db_fail(db, range_plan_find(db->conn, &w, parts));
	free(nodes);
}

/* Orders by run; sums of all nodes have run 0. */
static int
piece_cmp(const void *pa, const void *pb)
{
	const struct range_piece *a = pa, *b = pb;

	return (a->run > b->run) - (a->run < b->run);
}

static void
make_sum(struct kp_db *db, const struct slot *s, int64_t run,
    const struct range_piece *v, size_t n)
{
	int64_t id;

	row_exec_ints(db, ST_SUM, SLOT(s), run);
	id = db_last_id(db);
	combine_pieces(db, v, n, ST_SUM_STAT, id);
	/* rows of stacks name their node, so sums of all are never read */
	if (s->node != 0)
		db_stacks_combine(db, v, n, ST_SUM_STACK, id);
}

/* Writes one sum for each run; for all nodes together, one sum. */
static void
make_sums(struct kp_db *db, const struct slot *s, struct range_plan *parts)
{
	const struct range_piece *v = parts->v;
	size_t n;

	if (s->node == 0) {
		make_sum(db, s, 0, v, parts->n);
		return;
	}
	qsort(parts->v, parts->n, sizeof(*v), piece_cmp);
	for (size_t i = 0; i < parts->n && db->rc == SQLITE_OK; i += n) {
		n = 1;
		while (i + n < parts->n && v[i + n].run == v[i].run)
			n++;
		make_sum(db, s, v[i].run, &v[i], n);
	}
}

/*
 * Returns whether one turn may add the rows of the parts; all of these must have
 * finer levels, which after a new -retain is not so.
 */
static bool
may_add(struct kp_db *db, const struct slot *s, const struct range_plan *parts)
{
	static const enum stmt count[][2] = {
		{ ST_PART_CELLS, ST_SUM_CELLS },
		{ ST_PART_STACKS_N, ST_SUM_STACKS_N },
	};
	const struct range_piece *p;
	int64_t rows[2] = { 0 };

	if (parts->n < 2 || parts->n > PARTS_MAX)
		return false;
	for (size_t i = 0; i < parts->n; i++) {
		p = &parts->v[i];
		if (s->node != 0 && p->level > s->level)
			return false;
		for (int k = 0; k < (s->node != 0 ? 2 : 1); k++) {
			row_begin_ints(db, count[k][p->sum], p->id);
			rows[k] += row_value(db, 0);
			if (rows[k] > CELLS_MAX)
				return false;
		}
	}
	return db->rc == SQLITE_OK;
}

/* Writes the sum, unless it has one window only, or too many parts. */
static bool
make(struct kp_db *db, const struct slot *s)
{
	struct range_plan parts = { 0 };
	bool made;

	row_begin_ints(db, ST_SUM_THERE, SLOT(s));
	if (row_value(db, 0) != 0)
		return false;
	find_parts(db, s, &parts);
	made = may_add(db, s, &parts);
	if (made)
		make_sums(db, s, &parts);
	range_plan_free(&parts);
	return made;
}

/* ---- the next sum that is due ---- */

/* Finds the next slot of a level, and its nodes after this one. */
static bool
find_next(struct kp_db *db, struct slot *x, kp_wall_ns now,
    kp_dur_ns interval)
{
	kp_dur_ns length = x->level * KP_NS_PER_S;
	kp_wall_ns start;

	row_begin_ints(db, ST_LEVEL_AT, x->level);
	if (!row_next(db))
		return false;
	x->start = row_get(db, 0);
	x->node = row_get(db, 1);
	row_leave(db);
	row_begin_ints(db, ST_WINDOW_NEXT, x->start);
	start = row_value(db, INT64_MAX);
	if (start == INT64_MAX)
		return false;
	start -= start % length;
	if (start > x->start) {
		x->start = start;
		x->node = 0;
	}
	return x->start <= now - length - interval - LATE;
}

/* Takes nodes in order; the sum of all comes last. */
static void
make_next(struct kp_db *db, struct slot *x)
{
	bool made = false;

	while (!made && (x->node = next_node(db, x->node)) != 0)
		made = make(db, x) || db->rc != SQLITE_OK;
	if (!made) {
		make(db, x);
		x->start += x->level * KP_NS_PER_S;
	}
	row_exec_ints(db, ST_LEVEL_DONE, x->start, x->node, x->level);
}

bool
levels_make(struct kp_db *db, kp_wall_ns now, kp_dur_ns interval)
{
	const struct range_levels *l = known_levels(db);
	struct slot x;

	for (size_t i = 0; i < l->n; i++) {
		x = (struct slot){ .level = l->v[i] };
		if (find_next(db, &x, now, interval)) {
			make_next(db, &x);
			return true;
		}
	}
	return false;
}

int
levels_make_all(sqlite3 *conn)
{
	struct kp_db *db = calloc(1, sizeof(*db));
	bool more = true;
	int rc = SQLITE_OK;

	if (db == NULL)
		return SQLITE_NOMEM;
	db->conn = conn;
	while (more && rc == SQLITE_OK) {
		db_begin(db);
		more = levels_make(db, kp_wall_now(), 0);
		rc = db_commit(db);
	}
	db_finalize(db);
	db_ids_clear(db);
	kp_buf_free(&db->blob);
	kp_buf_free(&db->async_blob);
	free(db);
	return rc;
}

/* ---- replacing windows by one of a coarser level ---- */

/*
 * Finds the windows of the slot, at least the first two.  If one turn may not
 * add all of them, s->until is where the others start.
 */
static void
find_windows(struct kp_db *db, struct slot *s, struct range_plan *found)
{
	kp_wall_ns start = s->start;
	int64_t cells = 0;

	row_begin_ints(db, ST_SHOW_PARTS, SLOT_OF_RUN(s));
	while (row_next(db)) {
		cells += row_get(db, 2);
		if (found->n >= 2 && row_get(db, 1) > start &&
		    (found->n >= PARTS_MAX || cells > SHOW_CELLS_MAX)) {
			s->until = row_get(db, 1);
			break;
		}
		if (vec_room_by_len(&found->v, found->n, VEC_NO_CAP) != KP_OK) {
			db_fail(db, SQLITE_NOMEM);
			break;
		}
		start = row_get(db, 1);
		found->v[found->n++] = (struct range_piece){ .id =
			row_get(db, 0) };
	}
	row_leave(db);
}

/* Writes the window that replaces the slot's, with their losses and cost. */
static void
show_window(struct kp_db *db, const struct slot *s, bool summed,
    const struct range_plan *found)
{
	int64_t id;

	row_exec_ints(db, ST_SHOW_WINDOW, SLOT_OF_RUN(s));
	id = db_last_id(db);
	if (summed)
		row_exec_ints(db, ST_SHOW_STAT, SLOT_OF_RUN(s), id);
	else
		combine_pieces(db, found->v, found->n, ST_STAT, id);
	db_waits_combine(db, s, id);
	db_stacks_combine(db, found->v, found->n, ST_STACK_STAT, id);
	row_exec_ints(db, ST_SHOW_LOSSES, SLOT_OF_RUN(s), id);
	row_exec_ints(db, ST_SHOW_COST, SLOT_OF_RUN(s), id);
	row_exec_ints(db, ST_SHOW_USAGE, SLOT_OF_RUN(s), id);
	row_exec_ints(db, ST_SHOW_PARTS_DEL, SLOT_OF_RUN(s), id);
}

void
levels_show(struct kp_db *db, const struct slot *slot)
{
	struct range_piece sum = { .sum = true };
	struct range_plan found = { 0 };
	struct slot s = *slot;

	row_begin_ints(db, ST_SUMS_FINER, SLOT(&s));
	if (rows_delete(db, ST_SUM_DEL))
		return;
	s.until = s.start + s.level * KP_NS_PER_S;
	row_begin_ints(db, ST_SHOW_SUM, SLOT(&s), s.run);
	sum.id = row_value(db, 0);
	if (sum.id != 0)
		show_window(db, &s, true, &(struct range_plan){ &sum, 1 });
	else
		find_windows(db, &s, &found);
	if (found.n > 1)
		show_window(db, &s, false, &found);
	else if (sum.id == 0)
		row_exec_ints(db, ST_RAISE, SLOT_OF_RUN(&s));
	row_exec_ints(db, ST_SUMS_SLOT, SLOT(&s));
	range_plan_free(&found);
}
