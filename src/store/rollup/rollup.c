/*
 * rollup.c - replaces the windows of a span of time by one that holds their
 * sums.
 */
#include <stdlib.h>

#include "combine.h"
#include "rollup.h"
#include "spans.h"

#define PARTS_MAX 17		/* a window of six or ten, and some to spare */
#define CELLS_MAX 32768		/* read in one turn: some 100 ms */
#define BEING_MADE (-1)		/* level of a window whose figures move */

struct part {
	int64_t id, level;
	struct kp_window w;	/* no cells */
};

struct rollup {
	struct kp_db *db;
	struct part part[PARTS_MAX];
	size_t n;
	int64_t window;		/* the new one */
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

static struct range_piece
piece_of(const struct part *p)
{
	return (struct range_piece){ .id = p->id, .start = p->w.start };
}

/* So many that a turn stays short; two at least, or it would never end. */
static void
limit_parts(struct rollup *r)
{
	int64_t cells = 0;
	struct range_piece v;

	for (size_t i = 0; i < r->n; i++) {
		v = piece_of(&r->part[i]);
		cells += combine_count(r->db, &v, 1, CELLS_MAX);
		if (i >= 2 && cells > CELLS_MAX) {
			r->n = i;
			return;
		}
	}
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

static void
raise_window(struct rollup *r, int64_t id, int64_t level)
{
	row_start(r->db, ST_RAISE);
	row_int(r->db, level);
	row_int(r->db, id);
	row_end(r->db);
}

/* The new window has the losses and the cost of all; what it was made of goes. */
static void
replace_parts(struct rollup *r)
{
	for (size_t i = 0; i < r->n; i++) {
		row_start(r->db, ST_LOSSES_ADD);
		row_int(r->db, r->window);
		row_int(r->db, r->part[i].id);
		row_end(r->db);
		row_start(r->db, ST_COST_ADD);
		row_int(r->db, r->window);
		row_int(r->db, r->part[i].id);
		row_end(r->db);
		raise_window(r, r->part[i].id, BEING_MADE);
		row_start(r->db, ST_WINDOW_DEL);
		row_int(r->db, r->part[i].id);
		row_end(r->db);
	}
}

static void
combine_waits(struct rollup *r)
{
	int64_t id[PARTS_MAX];

	for (size_t i = 0; i < r->n; i++)
		id[i] = r->part[i].id;
	db_waits_combine(r->db, id, r->n, r->window);
}

static void
merge_parts(struct rollup *r, const struct span *s, int64_t level)
{
	struct kp_window head = merged_head(r);
	struct range_piece v[PARTS_MAX];

	for (size_t i = 0; i < r->n; i++)
		v[i] = piece_of(&r->part[i]);
	r->window = db_window_row(r->db, s->run, s->node, BEING_MADE, &head);
	combine_pieces(r->db, v, r->n, ST_STAT, r->window);
	combine_waits(r);
	replace_parts(r);
	raise_window(r, r->window, level);
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
		raise_window(r, r->part[0].id, level);
	else if (r->n > 1)
		merge_parts(r, s, level);
	spans_moved(db, s);
	free(r);
}
