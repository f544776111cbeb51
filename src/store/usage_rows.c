/* usage_rows.c - writes and reads what processes and tables of nodes use. */
#include <stdlib.h>
#include <string.h>

#include "db.h"

void
db_usage(struct kp_db *db, int64_t window, const struct kp_usage *u)
{
	const struct kp_usage_row *r;
	char process[64];
	bool is;

	for (size_t i = 0; i < u->n && db->rc == SQLITE_OK; i++) {
		r = &u->rows[i];
		is = r->kind == KP_USAGE_PROCESSES;
		row_begin_ints(db, ST_USAGE, window);
		row_text(db, kp_usage_kind_name((enum kp_usage_kind)r->kind));
		row_text(db, r->name);
		row_text(db, r->owner);
		row_int(db, is && u->estimated);
		row_int(db, (int64_t)r->count);
		row_int(db, (int64_t)r->limit);
		row_opt(db, r->memory >= 0, r->memory);
		row_opt(db, is && r->binaries >= 0, r->binaries);
		row_opt(db, is && r->reductions >= 0, r->reductions);
		row_opt(db, is, (int64_t)r->messages);
		row_opt(db, r->kind == KP_USAGE_TABLES, (int64_t)r->messages);
		row_opt(db, is, (int64_t)r->longest);
		if (r->proc != 0)
			row_text(db, kp_proc_text(r->proc, process,
			    sizeof(process)));
		else
			row_opt(db, false, 0);
		row_opt(db, r->since > 0, r->since);
		row_end(db);
	}
}
