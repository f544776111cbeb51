/*
 * message_row.c - decodes a row of message_stat into a struct kp_wait_cell,
 * with its histogram.
 */
#include "message_row.h"

void
wait_row_read(sqlite3_stmt *st, int col, struct kp_wait_cell *c)
{
	const void *blob;

	*c = (struct kp_wait_cell){ .receiver = "", .identity = "",
		.messages = (uint64_t)sqlite3_column_int64(st, col),
		.w_messages = (uint64_t)sqlite3_column_int64(st, col + 1),
		.away = (uint64_t)sqlite3_column_int64(st, col + 2),
		.w_away = (uint64_t)sqlite3_column_int64(st, col + 3),
		.wait = sqlite3_column_int64(st, col + 4),
		.w_wait = sqlite3_column_int64(st, col + 5), .min = -1 };
	if (sqlite3_column_type(st, col + 6) != SQLITE_NULL)
		c->min = sqlite3_column_int64(st, col + 6);
	c->max = sqlite3_column_int64(st, col + 7);
	blob = sqlite3_column_blob(st, col + 8);
	if (blob != NULL)
		kp_hist_read(&c->hist, blob,
		    (size_t)sqlite3_column_bytes(st, col + 8));
}
