/* window_rows.c - writes windows and events as rows. */
#include <string.h>

#include "store/db.h"
#include "store/rollup/levels.h"

static bool
has_cost(const struct kp_cost *c)
{
	return c->events > 0 || c->armed_calls > 0 || c->agent > 0 ||
	    c->traced_call > 0;
}

uint64_t
db_window_rows(const struct kp_window *w)
{
	uint64_t rows = 1 + w->ncells + w->nwaits + has_cost(&w->cost);

	for (int i = 0; i < KP_LOSS_COUNT; i++)
		rows += w->losses.n[i] > 0;
	return rows;
}

static void
cell_times(struct kp_db *db, const struct kp_cell *c)
{
	static const double qs[] = { 0.50, 0.90, 0.95, 0.99 };
	bool timed = c->timed > 0;

	row_opt(db, timed, c->min);
	row_opt(db, timed, c->max);
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++)
		row_opt(db, timed, timed ? kp_hist_quantile_within(
		    &c->hist, qs[i], c->min, c->max) : 0);
	if (!timed) {
		row_opt(db, false, 0);
		return;
	}
	kp_buf_reset(&db->blob);
	db->blob.max = KP_HIST_BYTES_MAX;
	kp_hist_write(&c->hist, &db->blob);
	if (db->blob.err != KP_OK)
		db_fail(db, SQLITE_NOMEM);
	row_blob(db, db->blob.p, db->blob.len);
}

/* Null where they are what the figures themselves are: mostly. */
static void
cell_shares(struct kp_db *db, const struct kp_cell *c)
{
	bool differ = c->share_requests != c->requests ||
	    c->share_busy != c->busy || c->w_share_requests != c->w_requests ||
	    c->w_share_busy != c->w_busy;

	row_opt(db, differ, (int64_t)c->share_requests);
	row_opt(db, differ, (int64_t)c->w_share_requests);
	row_opt(db, differ, c->share_busy);
	row_opt(db, differ, c->w_share_busy);
}

/* Null where they were not asked for. */
static void
cell_pauses(struct kp_db *db, const struct kp_cell *c)
{
	row_opt(db, c->has_gc, c->gc);
	row_opt(db, c->has_gc, c->w_gc);
	row_opt(db, c->has_out, c->out);
	row_opt(db, c->has_out, c->w_out);
}

/* Null where these were not counted. */
static void
cell_after(struct kp_db *db, const struct kp_cell *c)
{
	bool recorded = !c->unrecorded;

	row_opt(db, recorded, (int64_t)c->outlasting);
	row_opt(db, recorded, (int64_t)c->w_outlasting);
	row_opt(db, recorded, (int64_t)c->unknown_outcomes);
	row_opt(db, recorded, (int64_t)c->w_unknown_outcomes);
	row_opt(db, recorded, (int64_t)c->w_inside);
	row_opt(db, recorded, (int64_t)c->w_made);
	row_opt(db, recorded, (int64_t)c->async_raised);
	row_opt(db, recorded, (int64_t)c->w_async_raised);
	row_opt(db, recorded, (int64_t)c->async_unknown);
	row_opt(db, recorded, (int64_t)c->w_async_unknown);
	row_opt(db, recorded, (int64_t)c->async_unfinished);
	row_opt(db, recorded, (int64_t)c->w_async_unfinished);
}

void
db_cell(struct kp_db *db, enum stmt into, int64_t id, int64_t tier,
    int64_t identity, const struct kp_cell *c)
{
	const int64_t v[] = {
		c->requests, c->w_requests, c->calls, c->w_calls,
		c->raised, c->w_raised, c->unfinished, c->w_unfinished,
		c->ambiguous, c->w_ambiguous, c->async_calls,
		c->w_async_calls, c->timed, c->w_timed, c->total, c->w_total,
		c->self, c->w_self, c->busy, c->w_busy, c->async, c->w_async,
	};

	row_start(db, into);
	row_int(db, id);
	row_int(db, tier);
	row_int(db, identity);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		row_int(db, v[i]);
	cell_times(db, c);
	cell_shares(db, c);
	cell_pauses(db, c);
	cell_after(db, c);
	row_end(db);
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
		drop_counts_tell(lost, &head);
	levels_window(db, node, w->start);
	id = window_row(db, node, &head);
	for (size_t i = 0; i < w->ncells && db->rc == SQLITE_OK; i++)
		cell_row(db, id, &w->cells[i]);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		loss_row(db, id, i, head.losses.n[i]);
	cost_row(db, id, &w->cost);
	db_waits(db, id, w);
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
