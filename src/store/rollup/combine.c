/*
 * combine.c - does a k-way merge of cells by tier and request type.
 *
 * The cells of each piece are read in the order of the table's key, so they
 * merge like sorted lists.  Merged cells are written in batches, because after
 * every write SQLite has to reposition the reading cursors.
 */
#include <stdlib.h>

#include "store/cell_row.h"
#include "combine.h"

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

int64_t
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

void
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
