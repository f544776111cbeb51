/* usage_rows.c - writes and reads what processes and tables of nodes use. */
#include <stdlib.h>
#include <string.h>

#include "db.h"
#include "read.h"

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

/* ---- queries ---- */

void
kp_query_usage_free(struct kp_query_usage *u)
{
	free(u->v);
	*u = (struct kp_query_usage){ 0 };
}

static uint8_t
kind_of(const char *name)
{
	uint8_t k = 0;

	while (k < KP_USAGE_NODE &&
	    strcmp(kp_usage_kind_name((enum kp_usage_kind)k), name) != 0)
		k++;
	return k;
}

static int64_t
at_least(int64_t v)
{
	return v > 0 ? v : 0;
}

static void
add_row(struct read *rd, struct kp_query_usage *u)
{
	struct kp_query_used *to;
	const bool tables = kind_of(read_text(rd, 1)) == KP_USAGE_TABLES;

	if (!read_room(rd, &u->v, u->n))
		return;
	to = &u->v[u->n++];
	*to = (struct kp_query_used){ .node = read_text(rd, 0),
		.row = { .kind = kind_of(read_text(rd, 1)),
			.name = read_text(rd, 3), .owner = read_text(rd, 4),
			.count = (uint64_t)at_least(read_int(rd, 6)),
			.limit = (uint64_t)at_least(read_int(rd, 7)),
			.memory = read_dur(rd, 8), .binaries = read_dur(rd, 9),
			.reductions = read_dur(rd, 10),
			.messages = (uint64_t)at_least(read_int(rd,
			    tables ? 12 : 11)),
			.longest = (uint64_t)at_least(read_int(rd, 13)),
			.since = at_least(read_int(rd, 15)) },
		.estimated = read_int(rd, 5) != 0,
		.process = read_text(rd, 14), .memory_then = read_dur(rd, 16),
		.binaries_then = read_dur(rd, 17),
		.then = read_int(rd, 18), .now = read_int(rd, 19) };
}

/* A node may be in several files: that with the last window has its rows. */
static void
keep_last(struct kp_query_usage *u)
{
	size_t kept = 0;

	for (size_t i = 0; i < u->n; i++) {
		bool last = true;

		for (size_t k = 0; k < u->n && last; k++)
			last = u->v[k].now <= u->v[i].now ||
			    strcmp(u->v[k].node, u->v[i].node) != 0;
		if (last)
			u->v[kept++] = u->v[i];
	}
	u->n = kept;
}

enum kp_err
kp_query_usage(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_usage *out)
{
	static const char sql[] = "with seen as (select w.node_id as node,"
	    "  min(w.start_ns) as first, max(w.start_ns) as last"
	    "  from time_window w where w.start_ns >= ?1 and w.start_ns < ?2"
	    "  and (?3 is null or w.node_id in"
	    "   (select id from node where one_of(name, ?3)))"
	    "  and exists (select 1 from usage x where x.window_id = w.id)"
	    "  group by w.node_id)"
	    " select n.name, u.kind, -coalesce(u.memory_bytes, 0), u.name,"
	    " u.owner, u.estimated, u.count, u.most, u.memory_bytes,"
	    " u.binary_bytes, u.reductions_per_s, u.messages, u.objects,"
	    " u.longest, u.process, u.longest_since_ns, f.memory_bytes,"
	    " f.binary_bytes, s.first, w.end_ns"
	    " from seen s join time_window w on w.node_id = s.node"
	    "  and w.start_ns = s.last"
	    " join usage u on u.window_id = w.id"
	    " join node n on n.id = s.node"
	    " left join time_window v on v.node_id = s.node"
	    "  and v.start_ns = s.first and v.id <> w.id"
	    " left join usage f on f.window_id = v.id and f.kind = u.kind"
	    "  and f.name = u.name and f.owner = u.owner"
	    /* runs of a node, merged, may have windows that begin together */
	    " group by s.node, u.kind, u.name, u.owner"
	    " order by n.name, u.kind, 3, u.name";
	struct kp_query_usage all = { 0 };
	struct kp_query_range whole;
	enum kp_err err = range_whole(q, r, &whole);
	struct read rd;

	if (err != KP_OK)
		return err;
	read_start(&rd, q, sql);
	read_order(&rd, 0, 3);
	read_bind(&rd, whole.since);
	read_bind(&rd, whole.until);
	read_bind_text(&rd, r->node);
	while (read_next(&rd))
		add_row(&rd, &all);
	err = read_end(&rd);
	if (err == KP_OK) {
		keep_last(&all);
		*out = all;
	} else {
		kp_query_usage_free(&all);
	}
	return err;
}
