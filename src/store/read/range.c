/*
 * range.c - finds the windows, the nodes and the plan of a range, and binds its
 * sums and windows one by one to a prepared statement.
 */
#include <stdlib.h>

#include "base/sat.h"
#include "range.h"

#define LATE (100 * KP_NS_PER_MS)

void
range_bind(struct read *rd, const struct kp_query_range *r)
{
	read_bind(rd, r->since);
	read_bind(rd, r->until);
	read_bind_text(rd, r->node);
}

/*
 * Finds from when to when the windows last that this time cuts; both stay as they
 * are if there is none.  Windows become longer with age, so that none is longer
 * than the oldest, or an hour.  Those of earlier versions end a little late: what
 * reaches less than that behind the time is not cut.
 */
static enum kp_err
widen_to(struct kp_query *q, const struct kp_query_range *r, kp_wall_ns at,
    kp_wall_ns *start, kp_wall_ns *end)
{
	struct read rd;

	read_start(&rd, q, "select min(w.start_ns), max(w.end_ns)"
	    " from time_window w where w.start_ns > ?1 - max(3600000000000,"
	    " (select max(end_ns - start_ns) from (select start_ns, end_ns"
	    " from time_window order by start_ns limit 100)))"
	    " and w.start_ns < ?1 and w.end_ns > ?2"
	    " and (?3 is null or w.node_id in"
	    " (select id from node where one_of(name, ?3)))");
	read_bind(&rd, at);
	read_bind(&rd, sat_add(at, LATE));
	read_bind_text(&rd, r->node);
	while (read_next(&rd)) {
		if (sqlite3_column_type(rd.st, 0) == SQLITE_NULL)
			continue;
		if (read_int(&rd, 0) < *start)
			*start = read_int(&rd, 0);
		if (read_int(&rd, 1) > *end)
			*end = read_int(&rd, 1);
	}
	return read_end(&rd);
}

enum kp_err
range_whole(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_range *out)
{
	kp_wall_ns ignored = INT64_MAX;
	enum kp_err err = KP_OK;

	*out = *r;
	out->exact = true;
	if (r->exact || r->since >= r->until)
		return KP_OK;
	if (r->since > 0)
		err = widen_to(q, r, r->since, &out->since, &ignored);
	ignored = 0;
	if (err == KP_OK && r->until < INT64_MAX)
		err = widen_to(q, r, r->until, &ignored, &out->until);
	return err;
}

void
range_shares(struct kp_cell *c)
{
	c->requests = c->share_requests;
	c->w_requests = c->w_share_requests;
	c->busy = c->share_busy;
	c->w_busy = c->w_share_busy;
}

enum kp_err
range_several(struct kp_query *q, const struct kp_query_range *r, bool *several)
{
	struct kp_query_nodes nodes = { 0 };
	enum kp_err err = kp_query_nodes(q, r, &nodes);

	*several = nodes.n > 1;
	kp_query_nodes_free(&nodes);
	return err;
}

/* Finds the range's nodes; *all: there are no others. */
static enum kp_err
find_nodes(struct kp_query *q, size_t file, const struct kp_query_range *r,
    int64_t **v, size_t *n, bool *all)
{
	struct read rd;

	*v = NULL;
	*n = 0;
	*all = true;
	read_start_file(&rd, q, file, "select id, ?1 is null or one_of(name, ?1)"
	    " from node where name <> ''");
	read_bind_text(&rd, r->node);
	while (read_next(&rd)) {
		if (read_int(&rd, 1) == 0) {
			*all = false;
			continue;
		}
		if (!read_room(&rd, v, *n))
			break;
		(*v)[(*n)++] = read_int(&rd, 0);
	}
	return read_end(&rd);
}

static enum kp_err
find_pieces(struct kp_query *q, size_t file, const struct kp_query_range *r,
    struct range_use use, struct range_plan *out)
{
	struct range_levels levels = { .n = 0 };
	struct range_wanted w = { .since = r->since, .until = r->until,
		.levels = &levels, .step = use.step };
	struct read rd = { .q = q, .file = file };
	int64_t *nodes;
	enum kp_err err = find_nodes(q, file, r, &nodes, &w.nnodes,
	    &w.all);

	w.node = nodes;
	w.all = w.all && !use.by_node;
	if (err == KP_OK)
		read_fail(&rd, range_levels_read(q->files[file].conn,
		    &levels));
	w.all_levels = w.node_levels = (int)levels.n;
	if (err == KP_OK && rd.err == KP_OK)
		read_fail(&rd, range_plan_find(q->files[file].conn, &w,
		    out));
	free(nodes);
	return err != KP_OK ? err : rd.err;
}

enum kp_err
range_cells_start(struct range_cells *rc, struct kp_query *q, size_t file,
    const struct kp_query_range *r, struct range_use use,
    const char *windows, const char *sums)
{
	enum kp_err err;

	*rc = (struct range_cells){ .windows.q = q, .sums.q = q };
	err = find_pieces(q, file, r, use, &rc->pieces);
	if (err != KP_OK)
		return err;
	read_start_file(&rc->windows, q, file, windows);
	read_start_file(&rc->sums, q, file, sums);
	return KP_OK;
}

struct read *
range_cells_next(struct range_cells *rc, kp_wall_ns *start)
{
	const struct range_piece *p;
	struct read *rd;

	if (rc->at == rc->pieces.n || rc->windows.err != KP_OK ||
	    rc->sums.err != KP_OK)
		return NULL;
	p = &rc->pieces.v[rc->at++];
	rd = p->sum ? &rc->sums : &rc->windows;
	read_again(rd);
	read_bind(rd, p->id);
	*start = p->start;
	return rd;
}

enum kp_err
range_cells_end(struct range_cells *rc)
{
	enum kp_err err = read_end(&rc->windows), err2 = read_end(&rc->sums);

	range_plan_free(&rc->pieces);
	return err != KP_OK ? err : err2;
}

/* ---- the order of cells ---- */

static bool
is_total(const char *name)
{
	return strcmp(name, "_total") == 0;
}

size_t
range_place(const struct kp_query_tiers *tiers, const char *tier)
{
	size_t t = 0;

	if (is_total(tier))
		return 0;
	while (t < tiers->n && strcmp(tiers->v[t], tier) != 0)
		t++;
	return t + 1;
}

int
range_cell_cmp(size_t place_a, const struct kp_cell *a, size_t place_b,
    const struct kp_cell *b)
{
	bool ta = is_total(a->identity), tb = is_total(b->identity);

	if (place_a != place_b)
		return place_a < place_b ? -1 : 1;
	if (ta != tb)
		return ta ? -1 : 1;
	return strcmp(a->identity, b->identity);
}
