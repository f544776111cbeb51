/*
 * message_waits.c - queries the waits of messages: in the windows of a range,
 * by receiver, and in one request.
 */
#include <stdlib.h>
#include <string.h>

#include "range.h"
#include "message_row.h"

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

enum kp_err
kp_query_waits(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_waits *out)
{
	static const char sql[] = "select r.name, i.name, " WAIT_COLUMNS
	    " from time_window w cross join message_stat m"
	    "  on m.window_id = w.id"
	    " join receiver r on r.id = m.receiver_id"
	    " join identity i on i.id = m.identity_id"
	    " where w.start_ns >= ?1 and w.start_ns < ?2"
	    " and (?3 is null or w.node_id in"
	    "  (select id from node where one_of(name, ?3)))"
	    " and (?4 is null or i.name = ?4)"
	    " and (?5 is null or i.name glob ?5) order by r.name, i.name";
	struct kp_query_waits all = { 0 };
	struct kp_query_range whole;
	enum kp_err err = range_whole(q, r, &whole);
	struct read rd;

	if (err != KP_OK)
		return err;
	read_start(&rd, q, sql);
	read_order(&rd, 0, 2);
	read_bind(&rd, whole.since);
	read_bind(&rd, whole.until);
	read_bind_text(&rd, r->node);
	read_bind_text(&rd, r->identity);
	read_bind_text(&rd, r->identity_glob);
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
