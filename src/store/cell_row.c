/*
 * cell_row.c - decodes a row of stat or level_stat into a struct kp_cell, column
 * by column, with its histogram.
 */
#include "cell_row.h"

#define FIRST_FIGURE 2

static void
share_read(sqlite3_stmt *st, int col, struct kp_cell *c)
{
	bool differ = sqlite3_column_type(st, col) != SQLITE_NULL;

	c->share_requests = c->requests;
	c->w_share_requests = c->w_requests;
	c->share_busy = c->busy;
	c->w_share_busy = c->w_busy;
	if (!differ)
		return;
	c->share_requests = (uint64_t)sqlite3_column_int64(st, col);
	c->w_share_requests = (uint64_t)sqlite3_column_int64(st, col + 1);
	c->share_busy = sqlite3_column_int64(st, col + 2);
	c->w_share_busy = sqlite3_column_int64(st, col + 3);
}

static void
pauses_read(sqlite3_stmt *st, int col, struct kp_cell *c)
{
	c->has_gc = sqlite3_column_type(st, col) != SQLITE_NULL;
	c->gc = sqlite3_column_int64(st, col);
	c->w_gc = sqlite3_column_int64(st, col + 1);
	c->has_out = sqlite3_column_type(st, col + 2) != SQLITE_NULL;
	c->out = sqlite3_column_int64(st, col + 2);
	c->w_out = sqlite3_column_int64(st, col + 3);
}

static void
after_read(sqlite3_stmt *st, int col, struct kp_cell *c)
{
	c->outlasting = (uint64_t)sqlite3_column_int64(st, col);
	c->w_outlasting = (uint64_t)sqlite3_column_int64(st, col + 1);
	c->unrecorded =
	    sqlite3_column_type(st, col + 2) == SQLITE_NULL;
	c->unknown_outcomes = (uint64_t)sqlite3_column_int64(st, col + 2);
	c->w_unknown_outcomes = (uint64_t)sqlite3_column_int64(st, col + 3);
	c->w_inside = (uint64_t)sqlite3_column_int64(st, col + 4);
	c->w_made = (uint64_t)sqlite3_column_int64(st, col + 5);
	c->async_raised = (uint64_t)sqlite3_column_int64(st, col + 6);
	c->w_async_raised = (uint64_t)sqlite3_column_int64(st, col + 7);
	c->async_unknown = (uint64_t)sqlite3_column_int64(st, col + 8);
	c->w_async_unknown = (uint64_t)sqlite3_column_int64(st, col + 9);
	c->async_unfinished = (uint64_t)sqlite3_column_int64(st, col + 10);
	c->w_async_unfinished = (uint64_t)sqlite3_column_int64(st, col + 11);
}

void
cell_row_read(sqlite3_stmt *st, struct kp_cell *c, struct kp_hist *hist)
{
	uint64_t *const counts[] = {
		&c->requests, &c->w_requests, &c->calls, &c->w_calls,
		&c->raised, &c->w_raised, &c->unfinished, &c->w_unfinished,
		&c->ambiguous, &c->w_ambiguous, &c->async_calls,
		&c->w_async_calls, &c->timed, &c->w_timed,
	};
	int64_t *const times[] = {
		&c->total, &c->w_total, &c->self, &c->w_self, &c->busy,
		&c->w_busy, &c->async, &c->w_async,
	};
	int col = FIRST_FIGURE;
	const void *blob;

	*c = (struct kp_cell){ .tier = "", .identity = "", .min = -1 };
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		*counts[i] = (uint64_t)sqlite3_column_int64(st, col++);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		*times[i] = sqlite3_column_int64(st, col++);
	if (sqlite3_column_type(st, col) != SQLITE_NULL)
		c->min = sqlite3_column_int64(st, col);
	c->max = sqlite3_column_int64(st, ++col);
	kp_hist_free(hist);
	blob = sqlite3_column_blob(st, ++col);
	if (blob != NULL)
		kp_hist_read(hist, blob, (size_t)sqlite3_column_bytes(st, col));
	c->hist = *hist;
	share_read(st, ++col, c);
	pauses_read(st, col + 4, c);
	after_read(st, col + 8, c);
}
