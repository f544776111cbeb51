/*
 * levels.c - writes the next sum that is due: finds its parts, adds them by
 * run, and records the progress of its level.
 */
#include <stdlib.h>

#include "base/vec.h"
#include "cell_row.h"
#include "db.h"

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

struct merge {
	struct kp_db *db;
	struct part *part;
	size_t n;
	enum stmt into;
	int64_t id;
	struct merged batch[BATCH];
	size_t nbatch;
	struct kp_cell row;	/* as it was read */
};

/* Returns the number of cells of the pieces; stops counting past the limit. */
static int64_t
combine_count(struct kp_db *db, const struct range_piece *v, size_t n, int64_t limit)
{
	int64_t cells = 0;

	for (size_t i = 0; i < n && cells <= limit; i++) {
		row_start(db, v[i].sum ? ST_SUM_CELLS : ST_PART_CELLS);
		row_int(db, v[i].id);
		if (row_next(db)) {
			cells += row_get(db, 0);
			row_leave(db);
		}
	}
	return cells;
}

static void
part_next(struct merge *m, struct part *p)
{
	int rc = sqlite3_step(p->st);

	if (rc == SQLITE_ROW) {
		p->tier = sqlite3_column_int64(p->st, CELL_TIER);
		p->identity = sqlite3_column_int64(p->st, CELL_IDENTITY);
		return;
	}
	db_fail(m->db, rc);
	sqlite3_finalize(p->st);
	p->st = NULL;
}

static void
open_parts(struct merge *m, const struct range_piece *v)
{
	static const char *const sql[] = {
		"select " CELL_COLUMNS " from stat s"
		    " where s.window_id = ? order by s.tier_id, s.identity_id",
		"select " CELL_COLUMNS " from level_stat s"
		    " where s.sum_id = ? order by s.tier_id, s.identity_id",
	};
	struct part *p;

	for (size_t i = 0; i < m->n && m->db->rc == SQLITE_OK; i++) {
		p = &m->part[i];
		db_fail(m->db, sqlite3_prepare_v2(m->db->conn, sql[v[i].sum],
		    -1, &p->st, NULL));
		if (p->st == NULL)
			return;
		sqlite3_bind_int64(p->st, 1, v[i].id);
		part_next(m, p);
	}
}

static int
part_cmp(const struct part *a, const struct part *b)
{
	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	if (a->identity != b->identity)
		return a->identity < b->identity ? -1 : 1;
	return 0;
}

static const struct part *
lowest(const struct merge *m)
{
	const struct part *low = NULL;

	for (size_t i = 0; i < m->n; i++) {
		if (m->part[i].st != NULL &&
		    (low == NULL || part_cmp(&m->part[i], low) < 0))
			low = &m->part[i];
	}
	return low;
}

static void
flush(struct merge *m)
{
	struct merged *c;

	for (size_t i = 0; i < m->nbatch; i++) {
		c = &m->batch[i];
		db_cell(m->db, m->into, m->id, c->tier, c->identity, &c->cell);
		kp_cell_free(&c->cell);
	}
	m->nbatch = 0;
}

/* Merges the cells of key's current series, and advances past them. */
static void
merge_series(struct merge *m, struct part key)
{
	struct merged *to = &m->batch[m->nbatch++];
	struct part *p;

	*to = (struct merged){ key.tier, key.identity, { .min = -1 } };
	for (size_t i = 0; i < m->n; i++) {
		p = &m->part[i];
		if (p->st == NULL || part_cmp(p, &key) != 0)
			continue;
		cell_row_read(p->st, &m->row);
		if (kp_cell_merge(&to->cell, &m->row) != KP_OK)
			db_fail(m->db, SQLITE_NOMEM);
		part_next(m, p);
	}
	if (m->nbatch == BATCH)
		flush(m);
}

/*
 * Writes the sums of the pieces with db_cell(into, id).  Only one cell at a time is
 * in memory, for any number of series.
 */
static void
combine_pieces(struct kp_db *db, const struct range_piece *v, size_t n,
    enum stmt into, int64_t id)
{
	struct merge *m = calloc(1, sizeof(*m));
	struct part *part = calloc(n > 0 ? n : 1, sizeof(*part));
	const struct part *low;

	if (m == NULL || part == NULL) {
		db_fail(db, SQLITE_NOMEM);
	} else {
		*m = (struct merge){ .db = db, .part = part, .n = n,
			.into = into, .id = id };
		open_parts(m, v);
		while (db->rc == SQLITE_OK && (low = lowest(m)) != NULL)
			merge_series(m, *low);
		flush(m);
		for (size_t i = 0; i < n; i++)
			sqlite3_finalize(part[i].st);
		kp_cell_free(&m->row);
	}
	free(part);
	free(m);
}

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

static bool
same_levels(const struct range_levels *a, const struct range_levels *b)
{
	size_t i = 0;

	while (i < a->n && i < b->n && a->v[i] == b->v[i])
		i++;
	return i == a->n && i == b->n;
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
	struct range_levels l;

	choose_levels(&l, r, interval);
	if (same_levels(&l, known_levels(db)) || db->rc != SQLITE_OK)
		return;
	/* cells come first: the cascade would look them up one by one */
	db_fail(db, sqlite3_exec(db->conn, "delete from level_stat;"
	    "delete from level_stack;"
	    "delete from level_sum", NULL, NULL, NULL));
	row_start(db, ST_LEVELS_DEL);
	row_end(db);
	for (size_t i = 0; i < l.n; i++) {
		row_start(db, ST_LEVELS_ADD);
		row_int(db, l.v[i]);
		row_end(db);
	}
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
levels_window(struct kp_db *db, int64_t node, kp_wall_ns start)
{
	row_start(db, ST_SUMS_LATE);
	row_int(db, node);
	row_int(db, start);
	row_end(db);
	row_start(db, ST_LEVELS_BACK);
	row_int(db, start);
	row_end(db);
}

/* ---- the sum of a slot ---- */

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

static void
slot_bind(struct kp_db *db, enum stmt which, const struct slot *s)
{
	row_start(db, which);
	row_int(db, s->node);
	row_int(db, s->level);
	row_int(db, s->start);
}

static bool
is_made(struct kp_db *db, const struct slot *s)
{
	bool made;

	slot_bind(db, ST_SUM_THERE, s);
	made = row_next(db);
	if (made)
		row_leave(db);
	return made;
}

/* Returns all nodes; NULL: out of memory. */
static int64_t *
all_nodes(struct kp_db *db, size_t *n)
{
	int64_t *v = NULL, *grown, id = 0;

	for (*n = 0; ask(db, ST_NODE_NEXT, id, &id); v[(*n)++] = id) {
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

	slot_bind(db, ST_SUM, s);
	row_int(db, run);
	row_end(db);
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

/* Returns whether all parts have finer levels: not after a new -retain. */
static bool
finer(const struct slot *s, const struct range_plan *parts)
{
	for (size_t i = 0; i < parts->n && s->node != 0; i++)
		if (parts->v[i].level > s->level)
			return false;
	return true;
}

/* Writes the sum, unless it has one window only, or too many parts. */
static bool
make(struct kp_db *db, const struct slot *s)
{
	struct range_plan parts = { 0 };
	bool made;

	if (is_made(db, s))
		return false;
	find_parts(db, s, &parts);
	made = parts.n > 1 && parts.n <= PARTS_MAX && finer(s, &parts) &&
	    combine_count(db, parts.v, parts.n, CELLS_MAX) <= CELLS_MAX &&
	    (s->node == 0 || db_stacks_count(db, parts.v, parts.n,
	    CELLS_MAX) <= CELLS_MAX) && db->rc == SQLITE_OK;
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

	row_start(db, ST_LEVEL_AT);
	row_int(db, x->level);
	if (!row_next(db))
		return false;
	x->start = row_get(db, 0);
	x->node = row_get(db, 1);
	row_leave(db);
	if (!ask(db, ST_WINDOW_NEXT, x->start, &start))
		return false;
	start -= start % length;
	if (start > x->start) {
		x->start = start;
		x->node = 0;
	}
	return x->start <= now - length - interval - LATE;
}

static void
note_done(struct kp_db *db, const struct slot *x)
{
	row_start(db, ST_LEVEL_DONE);
	row_int(db, x->start);
	row_int(db, x->node);
	row_int(db, x->level);
	row_end(db);
}

/* Takes nodes in order; the sum of all comes last. */
static void
make_next(struct kp_db *db, struct slot *x)
{
	struct slot all = *x;

	while (ask(db, ST_NODE_NEXT, x->node, &x->node)) {
		if (make(db, x) || db->rc != SQLITE_OK) {
			note_done(db, x);
			return;
		}
	}
	all.node = 0;
	make(db, &all);
	x->start += x->level * KP_NS_PER_S;
	x->node = 0;
	note_done(db, x);
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

static void
show_bind(struct kp_db *db, enum stmt which, const struct slot *s)
{
	slot_bind(db, which, s);
	row_int(db, s->run);
	row_int(db, s->until);
}

/* Makes the sum of this slot and run, if there is one, the only piece. */
static bool
find_sum(struct kp_db *db, const struct slot *s, struct range_plan *found)
{
	bool has;

	slot_bind(db, ST_SHOW_SUM, s);
	row_int(db, s->run);
	has = row_next(db);
	if (has && vec_room_by_len(&found->v, found->n, VEC_NO_CAP) == KP_OK)
		found->v[found->n++] = (struct range_piece){ .id =
			row_get(db, 0), .sum = true };
	else if (has)
		db_fail(db, SQLITE_NOMEM);
	row_leave(db);
	return has;
}

/*
 * Finds the windows of the slot, at least the first two.  If one turn may not
 * add all of them, s->until is where the others start.
 */
static void
find_windows(struct kp_db *db, struct slot *s, struct range_plan *found)
{
	kp_wall_ns start = s->start;
	int64_t cells = 0;

	show_bind(db, ST_SHOW_PARTS, s);
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
	static const enum stmt rest[] = { ST_SHOW_LOSSES, ST_SHOW_COST,
		ST_SHOW_PARTS_DEL };
	int64_t id;

	show_bind(db, ST_SHOW_WINDOW, s);
	row_end(db);
	id = db_last_id(db);
	if (summed) {
		show_bind(db, ST_SHOW_STAT, s);
		row_int(db, id);
		row_end(db);
	} else {
		combine_pieces(db, found->v, found->n, ST_STAT, id);
	}
	db_waits_combine(db, s, id);
	db_stacks_combine(db, found->v, found->n, ST_STACK_STAT, id);
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
		show_bind(db, rest[i], s);
		row_int(db, id);
		row_end(db);
	}
}

void
levels_show(struct kp_db *db, const struct slot *slot)
{
	struct slot s = *slot;
	struct range_plan found = { 0 };
	bool summed;

	slot_bind(db, ST_SUMS_FINER, &s);
	if (rows_delete(db, ST_SUM_DEL))
		return;
	s.until = s.start + s.level * KP_NS_PER_S;
	summed = find_sum(db, &s, &found);
	if (!summed)
		find_windows(db, &s, &found);
	if (summed || found.n > 1) {
		show_window(db, &s, summed, &found);
	} else {
		show_bind(db, ST_RAISE, &s);
		row_end(db);
	}
	slot_bind(db, ST_SUMS_SLOT, &s);
	row_end(db);
	range_plan_free(&found);
}
