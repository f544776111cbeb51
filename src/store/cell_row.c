/*
 * cell_row.c - reads and writes a row of stat or level_stat, figure by figure,
 * with its histogram.
 */
#include <stddef.h>
#include <string.h>

#include "cell_row.h"
#include "db.h"

enum null_when { CELL_NEVER, CELL_SHARE, CELL_GC, CELL_OUT, NULL_COUNT };

/* All figures are integers of 64 bits. */
static const struct figure {
	size_t at;		/* in struct kp_cell */
	enum null_when null;
} figures[] = {
#define FIGURE(column, field, null) { offsetof(struct kp_cell, field), null },
	CELL_FIGURES(FIGURE)
}, of_tenths[] = {
	CELL_OF_TENTHS(FIGURE)
};
#define NFIGURES (sizeof(figures) / sizeof(figures[0]))

static void
hist_read(sqlite3_stmt *st, int column, struct kp_hist *h)
{
	const void *blob = sqlite3_column_blob(st, column);

	if (blob != NULL)
		kp_hist_read(h, blob, (size_t)sqlite3_column_bytes(st, column));
}

static void
row_read(sqlite3_stmt *st, const struct figure *v, size_t n, struct kp_cell *c)
{
	bool null[NULL_COUNT] = { false };
	int64_t figure;

	kp_cell_free(c);
	*c = (struct kp_cell){ .tier = "", .identity = "", .min = -1 };
	for (size_t i = 0; i < n; i++) {
		figure = sqlite3_column_int64(st, CELL_FIGURE + (int)i);
		memcpy((char *)c + v[i].at, &figure, sizeof(figure));
		if (v[i].null != CELL_NEVER && sqlite3_column_type(st,
		    CELL_FIGURE + (int)i) == SQLITE_NULL)
			null[v[i].null] = true;
	}
	if (null[CELL_SHARE]) {
		c->share_requests = c->requests;
		c->w_share_requests = c->w_requests;
		c->share_busy = c->busy;
		c->w_share_busy = c->w_busy;
	}
	c->has_gc = !null[CELL_GC];
	c->has_out = !null[CELL_OUT];
	if (sqlite3_column_type(st, CELL_MIN) != SQLITE_NULL)
		c->min = sqlite3_column_int64(st, CELL_MIN);
	c->max = sqlite3_column_int64(st, CELL_MAX);
	c->async_max = sqlite3_column_int64(st, CELL_ASYNC_MAX);
	hist_read(st, CELL_HIST, &c->hist);
	hist_read(st, CELL_ASYNC_HIST, &c->async_hist);
}

void
cell_row_read(sqlite3_stmt *st, struct kp_cell *c)
{
	row_read(st, figures, NFIGURES, c);
}

void
cell_row_read_of_tenths(sqlite3_stmt *st, struct kp_cell *c)
{
	row_read(st, of_tenths, sizeof(of_tenths) / sizeof(of_tenths[0]), c);
	c->has_gc = c->has_out = false;
}

static void
bind_hist(struct kp_db *db, struct kp_buf *blob, bool any,
    const struct kp_hist *h, kp_dur_ns min, kp_dur_ns max)
{
	static const double qs[] = { 0.50, 0.90, 0.95, 0.99 };

	row_opt(db, any, max);
	if (any) {
		kp_buf_reset(blob);
		blob->max = KP_HIST_BYTES_MAX;
		kp_hist_write(h, blob);
		if (blob->err != KP_OK)
			db_fail(db, SQLITE_NOMEM);
		row_blob(db, blob->p, blob->len);
	} else {
		row_opt(db, false, 0);
	}
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++)
		row_opt(db, any, any ? kp_hist_quantile_within(h, qs[i], min,
		    max) : 0);
}

void
db_hist(struct kp_db *db, bool any, const struct kp_hist *h, kp_dur_ns min,
    kp_dur_ns max)
{
	row_opt(db, any, min);
	bind_hist(db, &db->blob, any, h, min, max);
}

void
db_cell(struct kp_db *db, enum stmt into, int64_t id, int64_t tier,
    int64_t identity, const struct kp_cell *c)
{
	const bool null[NULL_COUNT] = {
		[CELL_SHARE] = c->share_requests == c->requests &&
		    c->w_share_requests == c->w_requests &&
		    c->share_busy == c->busy && c->w_share_busy == c->w_busy,
		[CELL_GC] = !c->has_gc,
		[CELL_OUT] = !c->has_out,
	};
	int64_t v;

	row_start(db, into);
	row_int(db, id);
	row_int(db, tier);
	row_int(db, identity);
	db_hist(db, c->timed > 0, &c->hist, c->min, c->max);
	bind_hist(db, &db->async_blob, c->async_hist.count > 0, &c->async_hist,
	    0, c->async_max);
	for (size_t i = 0; i < NFIGURES; i++) {
		memcpy(&v, (const char *)c + figures[i].at, sizeof(v));
		row_opt(db, !null[figures[i].null], v);
	}
	row_end(db);
}
