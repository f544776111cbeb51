/* window_rows.c - writes windows and events as rows. */
#include <string.h>

#include "store/db.h"
#include "store/rollup/levels.h"

static bool
has_cost(const struct kp_cost *c)
{
	return c->events > 0 || c->armed_calls > 0 || c->agent > 0 ||
	    c->traced_call > 0 || c->switches > 0;
}

uint64_t
db_window_rows(const struct kp_window *w)
{
	uint64_t rows = 1 + w->ncells + w->nwaits + w->nstacks +
	    has_cost(&w->cost);

	for (int i = 0; i < KP_LOSS_COUNT; i++)
		rows += w->losses.n[i] > 0;
	return rows;
}

static void
loss_row(struct kp_db *db, int64_t window, int cause, uint64_t n)
{
	if (n == 0)
		return;
	row_start(db, ST_LOSS);
	row_int(db, window);
	row_int(db, db->cause[cause]);
	row_int(db, (int64_t)n);
	row_end(db);
}

static int64_t
window_row(struct kp_db *db, int64_t node, const struct kp_window *w)
{
	row_start(db, ST_WINDOW);
	row_int(db, db->run);
	row_int(db, node);
	row_int(db, w->start);
	row_int(db, w->end);
	row_int(db, (int64_t)w->entry_calls);
	row_int(db, (int64_t)w->sampled);
	row_end(db);
	return db_last_id(db);
}

static void
cost_row(struct kp_db *db, int64_t window, const struct kp_cost *c)
{
	if (!has_cost(c))
		return;
	row_start(db, ST_COST);
	row_int(db, window);
	row_int(db, (int64_t)c->events);
	row_int(db, (int64_t)c->armed_calls);
	row_int(db, c->agent);
	row_int(db, kp_cost_total(c));
	row_opt(db, c->traced_call > 0, c->traced_call);
	row_opt(db, c->traced_call > 0, c->traced_caller);
	row_int(db, (int64_t)c->switches);
	row_int(db, (int64_t)c->sampled);
	row_end(db);
}

static void
cell_row(struct kp_db *db, int64_t window, const struct kp_cell *c)
{
	int64_t tier = db_dim(db, DIM_TIER, c->tier);
	int64_t identity = db_dim(db, DIM_IDENTITY, c->identity);

	db_cell(db, ST_STAT, window, tier, identity, c);
}

void
db_window(struct kp_db *db, const struct kp_window *w,
    const struct drop_counts_node *lost)
{
	int64_t node = db_dim(db, DIM_NODE, w->node);
	struct kp_window head = *w;
	int64_t id;

	if (lost != NULL)
		drop_counts_add_to(lost, &head);
	db->last_end = w->end;
	levels_window(db, node, w->start);
	id = window_row(db, node, &head);
	for (size_t i = 0; i < w->ncells && db->rc == SQLITE_OK; i++)
		cell_row(db, id, &w->cells[i]);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		loss_row(db, id, i, head.losses.n[i]);
	cost_row(db, id, &w->cost);
	db_waits(db, id, w);
	db_stacks(db, id, w);
}

void
db_happening(struct kp_db *db, const struct kp_happening *h)
{
	int64_t node = db_dim(db, DIM_NODE, h->node);

	row_start(db, ST_EVENT);
	row_int(db, db->run);
	row_int(db, node);
	row_int(db, h->at);
	row_text(db, h->kind);
	row_text(db, h->text);
	row_end(db);
}
