/*
 * message_rows.c - writes and reads the waits of messages: of windows, of windows
 * that are rolled up, of slow requests.
 */
#include <stdlib.h>
#include <string.h>

#include "db.h"

/*
 * Reads WAIT_COLUMNS, from col on, into *c except its names; the caller owns
 * its histogram.  Leaves out a damaged histogram.
 */
static void
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

static void
cell_row(struct kp_db *db, int64_t window, int64_t receiver,
    int64_t identity, const struct kp_wait_cell *c)
{
	row_begin_ints(db, ST_MESSAGES, window, receiver, identity,
	    c->messages, c->w_messages, c->away,
	    c->w_away, c->wait, c->w_wait);
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
		row_begin_ints(db, ST_REQUEST_WAIT, request, i, receiver);
		row_text(db, w->pid);
		row_opt(db, node, node_id);
		row_int(db, w->messages);
		row_int(db, w->away);
		row_int(db, w->wait);
		row_int(db, w->max);
		row_end(db);
	}
}

void
db_waits_combine(struct kp_db *db, const struct slot *s, int64_t into)
{
	struct merged {
		int64_t receiver, identity;
		struct kp_wait_cell cell;
	} *v = NULL, *last = NULL;
	struct kp_wait_cell c;
	size_t n = 0, room = 0;

	/* in the order of receivers and types */
	row_begin_ints(db, ST_SHOW_WAITS, SLOT_OF_RUN(s), into);
	while (row_next(db)) {
		if (last == NULL || last->receiver != row_get(db, 0) ||
		    last->identity != row_get(db, 1)) {
			if (vec_room(&v, &room, n, VEC_NO_CAP) != KP_OK) {
				db_fail(db, SQLITE_NOMEM);
				break;
			}
			last = &v[n++];
			*last = (struct merged){ row_get(db, 0),
				row_get(db, 1), { .min = -1 } };
		}
		wait_row_read(db->row, 2, &c);
		if (kp_wait_cell_merge(&last->cell, &c) != KP_OK)
			db_fail(db, SQLITE_NOMEM);
		kp_hist_free(&c.hist);
	}
	row_leave(db);
	for (size_t i = 0; i < n; i++) {
		cell_row(db, into, v[i].receiver, v[i].identity, &v[i].cell);
		kp_hist_free(&v[i].cell.hist);
	}
	free(v);
}

/* ---- queries ---- */

void
kp_query_waits_free(struct kp_query_waits *w)
{
	for (size_t i = 0; i < w->n; i++)
		kp_hist_free(&w->v[i].hist);
	free(w->v);
	*w = (struct kp_query_waits){ 0 };
}

/* Adds a row.  Rows are sorted by name, so those of a cell are adjacent. */
static bool
add_row(struct read *rd, struct kp_query_waits *w)
{
	struct kp_wait_cell c, *last = w->n > 0 ? &w->v[w->n - 1] : NULL;
	enum kp_err err;

	wait_row_read(rd->st, 2, &c);
	c.receiver = read_text(rd, 0);
	c.identity = read_text(rd, 1);
	if (last != NULL && strcmp(last->receiver, c.receiver) == 0 &&
	    strcmp(last->identity, c.identity) == 0) {
		err = kp_wait_cell_merge(last, &c);
		kp_hist_free(&c.hist);
		if (err != KP_OK)
			read_nomem(rd);
		return err == KP_OK;
	}
	if (!read_room(rd, &w->v, w->n)) {
		kp_hist_free(&c.hist);
		return false;
	}
	w->v[w->n++] = c;
	return true;
}

/* of_one: a condition of m, which its key is to have, as a window may have many rows. */
#define WAITS(of_one) "select r.name, i.name, " WAIT_COLUMNS \
	" from time_window w cross join message_stat m" \
	"  on m.window_id = w.id" of_one \
	" join receiver r on r.id = m.receiver_id" \
	" join identity i on i.id = m.identity_id" \
	" where w.start_ns >= ?1 and w.start_ns < ?2" \
	" and (?3 is null or w.node_id in" \
	"  (select id from node where one_of(name, ?3)))" \
	" and (?4 is null or i.name = ?4)" \
	" and (?5 is null or i.name glob ?5) order by r.name, i.name"

enum kp_err
kp_query_waits(struct kp_query *q, const struct kp_query_range *r,
    const char *receiver, struct kp_query_waits *out)
{
	struct kp_query_waits all = { 0 };
	struct kp_query_range whole;
	enum kp_err err = range_whole(q, r, &whole);
	struct read rd;

	if (err != KP_OK)
		return err;
	read_start(&rd, q, receiver == NULL ? WAITS("") : WAITS(" and m.receiver_id ="
	    "  (select id from receiver where name = ?6)"));
	read_order(&rd, 0, 2);
	read_bind(&rd, whole.since);
	read_bind(&rd, whole.until);
	read_bind_text(&rd, r->node);
	read_bind_text(&rd, r->identity);
	read_bind_text(&rd, r->identity_glob);
	if (receiver != NULL)
		read_bind_text(&rd, receiver);
	while (read_next(&rd) && add_row(&rd, &all))
		;
	err = read_end(&rd);
	if (err == KP_OK)
		*out = all;
	else
		kp_query_waits_free(&all);
	return err;
}

enum kp_err
query_tree_waits(struct kp_query *q, size_t file, int64_t id,
    struct kp_query_tree *t)
{
	static const char sql[] = "select r.name, t.pid, n.name, t.messages,"
	    " t.away, t.wait_ns, t.max_ns from request_wait t"
	    " join receiver r on r.id = t.receiver_id"
	    " left join node n on n.id = t.node_id"
	    " where t.request_id = ? order by t.seq";
	struct read rd;

	read_start_file(&rd, q, file, sql);
	read_bind(&rd, id);
	while (read_next(&rd)) {
		if (!read_room(&rd, &t->waits, t->nwaits))
			break;
		t->waits[t->nwaits++] = (struct kp_query_wait){
			.receiver = read_text(&rd, 0),
			.pid = read_text(&rd, 1),
			.node = read_text(&rd, 2),
			.messages = (uint64_t)read_int(&rd, 3),
			.away = (uint64_t)read_int(&rd, 4),
			.wait = read_int(&rd, 5),
			.max = read_int(&rd, 6) };
	}
	return read_end(&rd);
}
