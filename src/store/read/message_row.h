/* message_row.h - reads rows of message_stat. */
#ifndef KPROFD_STORE_READ_MESSAGE_ROW_H
#define KPROFD_STORE_READ_MESSAGE_ROW_H

#include <sqlite3.h>

#include "kprofd/stats.h"

/* Columns of message_stat m. */
#define WAIT_COLUMNS "m.messages, m.w_messages, m.away, m.w_away," \
	" m.wait_ns, m.w_wait_ns, m.min_ns, m.max_ns, m.hist"

/*
 * Reads those columns, from col on, into *c except its names; the caller owns
 * its histogram.  Leaves out a damaged histogram.
 */
void wait_row_read(sqlite3_stmt *st, int col, struct kp_wait_cell *c);

#endif
