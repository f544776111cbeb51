/*
 * rollup.c - see the header.
 *
 * Each part's cells come out of the table in the order of its key, so that
 * they merge like sorted lists: one cell at a time is in memory, however many
 * series there are.  What was merged is written in batches, since every write
 * makes SQLite find the place of the reading cursors anew.
 */
#include <stdlib.h>

#include "cell_row.h"
#include "rollup.h"

#define PARTS_MAX 17		/* a window of six or ten, and some to spare */
#define CELLS_MAX 32768		/* read in one turn: some 100 ms */
#define BATCH 128

struct part {
	int64_t id, level;
	struct kp_window w;	/* no cells */
	sqlite3_stmt *st;	/* its cells; NULL: no more */
	int64_t tier, identity;	/* of the one it stands at */
};

struct merged {
	int64_t tier, identity;
	struct kp_cell cell;
};

struct rollup {
	struct kp_db *db;
	struct part part[PARTS_MAX];
	size_t n;
	int64_t window;		/* the new one */
	struct merged batch[BATCH];
	size_t nbatch;
	struct kp_hist hist;	/* scratch */
};

static void
read_parts(struct rollup *r, const struct span *s, int64_t level)
{
	struct kp_db *db = r->db;
	struct part *p;

	row_start(db, ST_PARTS);
	row_int(db, s->run);
	row_int(db, s->node);
	row_int(db, level);
	row_int(db, s->start);
	row_int(db, s->start + s->length);
	row_int(db, PARTS_MAX);
	while (row_next(db)) {
		p = &r->part[r->n++];
		*p = (struct part){ .id = row_get(db, 0),
			.level = row_get(db, 1) };
		p->w.start = row_get(db, 2);
		p->w.end = row_get(db, 3);
		p->w.entry_calls = (uint64_t)row_get(db, 4);
		p->w.sampled = (uint64_t)row_get(db, 5);
	}
}

/* So many that a turn stays short; two at least, or it would never end. */
static void
limit_parts(struct rollup *r)
{
	struct kp_db *db = r->db;
	int64_t cells = 0;

	for (size_t i = 0; i < r->n; i++) {
		row_start(db, ST_PART_CELLS);
		row_int(db, r->part[i].id);
		if (row_next(db)) {
			cells += row_get(db, 0);
			row_leave(db);
		}
		if (i >= 2 && cells > CELLS_MAX) {
			r->n = i;
			return;
		}
	}
}

static void
part_next(struct rollup *r, struct part *p)
{
	int rc = sqlite3_step(p->st);

	if (rc == SQLITE_ROW) {
		p->tier = sqlite3_column_int64(p->st, CELL_TIER);
		p->identity = sqlite3_column_int64(p->st, CELL_IDENTITY);
		return;
	}
	db_fail(r->db, rc);
	sqlite3_finalize(p->st);
	p->st = NULL;
}

static void
open_parts(struct rollup *r)
{
	static const char sql[] = "select " CELL_COLUMNS " from stat s"
	    " where s.window_id = ? order by s.tier_id, s.identity_id";
	struct part *p;

	for (size_t i = 0; i < r->n && r->db->rc == SQLITE_OK; i++) {
		p = &r->part[i];
		db_fail(r->db, sqlite3_prepare_v2(r->db->conn, sql, -1, &p->st,
		    NULL));
		if (p->st == NULL)
			return;
		sqlite3_bind_int64(p->st, 1, p->id);
		part_next(r, p);
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
lowest(const struct rollup *r)
{
	const struct part *low = NULL;

	for (size_t i = 0; i < r->n; i++) {
		if (r->part[i].st != NULL &&
		    (low == NULL || part_cmp(&r->part[i], low) < 0))
			low = &r->part[i];
	}
	return low;
}

static void
flush(struct rollup *r)
{
	struct merged *m;

	for (size_t i = 0; i < r->nbatch; i++) {
		m = &r->batch[i];
		db_cell(r->db, r->window, m->tier, m->identity, &m->cell);
		kp_hist_free(&m->cell.hist);
	}
	r->nbatch = 0;
}

/* Merges the cells of the series that `key` stands at, and goes on there. */
static void
merge_series(struct rollup *r, struct part key)
{
	struct merged *m = &r->batch[r->nbatch++];
	struct kp_cell c;
	struct part *p;

	*m = (struct merged){ key.tier, key.identity, { .min = -1 } };
	for (size_t i = 0; i < r->n; i++) {
		p = &r->part[i];
		if (p->st == NULL || part_cmp(p, &key) != 0)
			continue;
		cell_row_read(p->st, &c, &r->hist);
		if (kp_cell_merge(&m->cell, &c) != KP_OK)
			db_fail(r->db, SQLITE_NOMEM);
		part_next(r, p);
	}
	if (r->nbatch == BATCH)
		flush(r);
}

static struct kp_window
merged_head(const struct rollup *r)
{
	struct kp_window h = r->part[0].w;
	const struct kp_window *w;

	for (size_t i = 1; i < r->n; i++) {
		w = &r->part[i].w;
		h.start = w->start < h.start ? w->start : h.start;
		h.end = w->end > h.end ? w->end : h.end;
		h.entry_calls += w->entry_calls;
		h.sampled += w->sampled;
	}
	return h;
}

/* The new window has the losses of all; what it was made of goes. */
static void
replace_parts(struct rollup *r)
{
	for (size_t i = 0; i < r->n; i++) {
		row_start(r->db, ST_LOSSES_ADD);
		row_int(r->db, r->window);
		row_int(r->db, r->part[i].id);
		row_end(r->db);
		row_start(r->db, ST_WINDOW_DEL);
		row_int(r->db, r->part[i].id);
		row_end(r->db);
	}
}

static void
merge_parts(struct rollup *r, const struct span *s, int64_t level)
{
	struct kp_window head = merged_head(r);
	const struct part *low;

	r->window = db_window_row(r->db, s->run, s->node, level, &head);
	open_parts(r);
	while (r->db->rc == SQLITE_OK && (low = lowest(r)) != NULL)
		merge_series(r, *low);
	flush(r);
	for (size_t i = 0; i < r->n; i++)
		sqlite3_finalize(r->part[i].st);
	kp_hist_free(&r->hist);
	replace_parts(r);
}

static void
raise_part(struct rollup *r, int64_t level)
{
	row_start(r->db, ST_RAISE);
	row_int(r->db, level);
	row_int(r->db, r->part[0].id);
	row_end(r->db);
}

void
rollup_span(struct kp_db *db, const struct span *s)
{
	struct rollup *r = calloc(1, sizeof(*r));
	int64_t level = s->length / KP_NS_PER_S;

	if (r == NULL) {
		db_fail(db, SQLITE_NOMEM);
		return;
	}
	r->db = db;
	read_parts(r, s, level);
	limit_parts(r);
	if (r->n == 1)
		raise_part(r, level);
	else if (r->n > 1)
		merge_parts(r, s, level);
	free(r);
}
