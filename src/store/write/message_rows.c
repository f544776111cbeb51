/*
 * message_rows.c - writes waits of messages as rows: those of windows, of
 * windows that are rolled up, and of slow requests.
 */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "store/db.h"
#include "store/read/message_row.h"

static void
cell_row(struct kp_db *db, int64_t window, int64_t receiver,
    int64_t identity, const struct kp_wait_cell *c)
{
	const int64_t v[] = { window, receiver, identity, c->messages,
		c->w_messages, c->away, c->w_away, c->wait, c->w_wait };

	row_start(db, ST_MESSAGES);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		row_int(db, v[i]);
	db_hist(db, c->messages > 0, &c->hist, c->min, c->max);
	row_end(db);
}

void
db_waits(struct kp_db *db, int64_t window, const struct kp_window *w)
{
	const struct kp_wait_cell *c;
	int64_t receiver, identity;

	for (size_t i = 0; i < w->nwaits && db->rc == SQLITE_OK; i++) {
		c = &w->waits[i];
		receiver = db_dim(db, DIM_RECEIVER, c->receiver);
		identity = db_dim(db, DIM_IDENTITY, c->identity);
		cell_row(db, window, receiver, identity, c);
	}
}

void
db_tree_waits(struct kp_db *db, int64_t request, const struct kp_tree *t)
{
	const struct kp_tree_wait *w;
	int64_t receiver, node_id;
	bool node;

	for (uint32_t i = 0; i < t->nwaits && db->rc == SQLITE_OK; i++) {
		w = &t->waits[i];
		receiver = db_dim(db, DIM_RECEIVER, w->receiver);
		node = w->node != NULL && strcmp(w->node, t->node) != 0;
		node_id = node ? db_dim(db, DIM_NODE, w->node) : 0;
		row_start(db, ST_REQUEST_WAIT);
		row_int(db, request);
		row_int(db, i);
		row_int(db, receiver);
		row_text(db, w->pid);
		row_opt(db, node, node_id);
		row_int(db, (int64_t)w->messages);
		row_int(db, (int64_t)w->away);
		row_int(db, w->wait);
		row_int(db, w->max);
		row_end(db);
	}
}

/* ---- windows that are rolled up ---- */

/* A cell of the new window; rows are read in the order of its key. */
struct merged {
	int64_t receiver, identity;
	struct kp_wait_cell cell;
};

struct merge {
	struct merged *v;
	size_t n, room;
};

static struct merged *
merged_last(struct merge *m, int64_t receiver, int64_t identity)
{
	if (m->n > 0 && m->v[m->n - 1].receiver == receiver &&
	    m->v[m->n - 1].identity == identity)
		return &m->v[m->n - 1];
	if (vec_room(&m->v, &m->room, m->n, VEC_NO_CAP) != KP_OK)
		return NULL;
	m->v[m->n] = (struct merged){ receiver, identity, { .min = -1 } };
	return &m->v[m->n++];
}

static int
merge_row(struct merge *m, sqlite3_stmt *st)
{
	struct merged *to = merged_last(m, sqlite3_column_int64(st, 0),
	    sqlite3_column_int64(st, 1));
	struct kp_wait_cell c;
	enum kp_err err;

	if (to == NULL)
		return SQLITE_NOMEM;
	wait_row_read(st, 2, &c);
	err = kp_wait_cell_merge(&to->cell, &c);
	kp_hist_free(&c.hist);
	return err == KP_OK ? SQLITE_OK : SQLITE_NOMEM;
}

void
db_waits_combine(struct kp_db *db, const struct slot *s, int64_t into)
{
	static const char sql[] = "select m.receiver_id, m.identity_id, "
	    WAIT_COLUMNS " from message_stat m where m.window_id in" PARTS_OF
	    " order by m.receiver_id, m.identity_id";
	const int64_t of[] = { s->node, s->level, s->start, s->run, s->until,
		into };
	struct merge m = { .n = 0 };
	sqlite3_stmt *st = NULL;
	int rc = SQLITE_ROW;

	if (db->rc != SQLITE_OK)
		return;
	db_fail(db, sqlite3_prepare_v2(db->conn, sql, -1, &st, NULL));
	for (int i = 0; st != NULL && i < 6; i++)
		sqlite3_bind_int64(st, i + 1, of[i]);
	while (st != NULL && db->rc == SQLITE_OK &&
	    (rc = sqlite3_step(st)) == SQLITE_ROW)
		db_fail(db, merge_row(&m, st));
	if (st != NULL)
		db_fail(db, rc);
	sqlite3_finalize(st);
	for (size_t i = 0; i < m.n; i++) {
		cell_row(db, into, m.v[i].receiver, m.v[i].identity,
		    &m.v[i].cell);
		kp_hist_free(&m.v[i].cell.hist);
	}
	free(m.v);
}
