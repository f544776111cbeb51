/*
 * sum.c - merges the cells of a range of windows.
 *
 * It reads the rows of each database in any order, and merges them in a hash
 * table by tier and request type: a sort of many rows with their histograms
 * would cost far more, and SQL cannot merge histograms.  Row ids belong to one
 * file; cells of several files merge by name.
 */
#include <stdlib.h>
#include <string.h>

#include "store/cell_row.h"
#include "range.h"
#include "base/sat.h"

struct slot {
	int64_t tier, identity;	/* row ids */
	size_t place;		/* of the tier; 0 is _total */
	struct kp_cell cell;	/* tier NULL: free slot */
};

struct merge {
	struct slot *v;
	size_t n, cap;
	struct kp_cell row;	/* as it was read */
	bool shares;		/* use shares: there are several nodes */
};

/* The cells of all files, sorted. */
struct pile {
	struct slot *v;
	size_t n;
	struct kp_query_tiers tiers;
};

static size_t
slot_of(const struct merge *m, int64_t tier, int64_t identity)
{
	uint64_t key = (uint64_t)tier << 32 ^ (uint64_t)identity;
	size_t s = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
	    (m->cap - 1);

	while (m->v[s].cell.tier != NULL && (m->v[s].tier != tier ||
	    m->v[s].identity != identity))
		s = (s + 1) & (m->cap - 1);
	return s;
}

static bool
merge_grow(struct merge *m)
{
	struct merge new = { .cap = m->cap ? 2 * m->cap : 256, .n = m->n,
		.row = m->row, .shares = m->shares };

	new.v = calloc(new.cap, sizeof(*new.v));
	if (new.v == NULL)
		return false;
	for (size_t i = 0; i < m->cap; i++) {
		if (m->v[i].cell.tier != NULL)
			new.v[slot_of(&new, m->v[i].tier,
			    m->v[i].identity)] = m->v[i];
	}
	free(m->v);
	*m = new;
	return true;
}

static void
merge_free(struct merge *m)
{
	for (size_t i = 0; i < m->cap; i++)
		kp_cell_free(&m->v[i].cell);
	free(m->v);
	kp_cell_free(&m->row);
}

static void
name_slot(struct read *names, const char **to, int64_t id)
{
	read_again(names);
	read_bind(names, id);
	if (read_next(names))
		*to = read_text(names, 0);
}

/* Sets the cells' names, which costs less than to do it for each row. */
static enum kp_err
name_cells(struct kp_query *q, size_t file, const struct kp_query_tiers *tiers,
    struct merge *m)
{
	struct read tier, identity;
	enum kp_err err, err2;
	struct slot *s;

	read_start_file(&tier, q, file, "select name from tier where id = ?");
	read_start_file(&identity, q, file,
	    "select name from identity where id = ?");
	for (size_t i = 0; i < m->cap; i++) {
		s = &m->v[i];
		if (s->cell.tier == NULL)
			continue;
		name_slot(&tier, &s->cell.tier, s->tier);
		name_slot(&identity, &s->cell.identity, s->identity);
		s->place = range_place(tiers, s->cell.tier);
	}
	err = read_end(&tier);
	err2 = read_end(&identity);
	return err != KP_OK ? err : err2;
}

static void
merge_row(struct read *rd, struct merge *m)
{
	struct slot *s;

	cell_row_read(rd->st, &m->row);
	if (m->shares)
		range_shares(&m->row);
	if (2 * (m->n + 1) > m->cap && !merge_grow(m)) {
		read_nomem(rd);
		return;
	}
	s = &m->v[slot_of(m, read_int(rd, CELL_TIER),
	    read_int(rd, CELL_IDENTITY))];
	if (s->cell.tier == NULL) {
		*s = (struct slot){ read_int(rd, CELL_TIER),
			read_int(rd, CELL_IDENTITY), 0,
			{ .tier = "", .identity = "", .min = -1 } };
		m->n++;
	}
	if (kp_cell_merge(&s->cell, &m->row) != KP_OK)
		read_nomem(rd);
}

#define CELLS(table, of) "select " CELL_COLUMNS " from " table " s" \
	" where s." of " = ?1" \
	" and (?2 is null or s.identity_id =" \
	" (select id from identity where name = ?2))" \
	" and (?3 is null or s.identity_id in" \
	" (select id from identity where name glob ?3))"

static enum kp_err
merge_cells(struct kp_query *q, size_t file, const struct kp_query_range *r,
    struct merge *m)
{
	struct range_cells cells;
	enum kp_err err, err2;
	kp_wall_ns start;
	struct read *rd;

	err = range_cells_start(&cells, q, file, r, (struct range_use){ 0 },
	    CELLS("stat", "window_id"),
	    CELLS("level_stat", "sum_id"));
	while (err == KP_OK && (rd = range_cells_next(&cells, &start)) != NULL) {
		read_bind_text(rd, r->identity);
		read_bind_text(rd, r->identity_glob);
		while (read_next(rd))
			merge_row(rd, m);
	}
	err2 = range_cells_end(&cells);
	return err != KP_OK ? err : err2;
}

/* Sums windows in order of start; those of several nodes overlap. */
static enum kp_err
sum_windows(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *s)
{
	kp_wall_ns start, end;
	struct read rd;

	read_start(&rd, q, "select w.start_ns, w.end_ns, w.entry_calls,"
	    " w.sampled from time_window w" IN_RANGE " order by w.start_ns");
	read_order(&rd, 0, 1);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		start = read_int(&rd, 0);
		end = read_int(&rd, 1);
		if (s->windows++ == 0)
			s->start = s->end = start;
		if (end > s->end) {
			s->covered = sat_add(s->covered, sat_span(
			    start > s->end ? start : s->end, end));
			s->end = end;
		}
		s->entry_calls += (uint64_t)read_int(&rd, 2);
		s->sampled += (uint64_t)read_int(&rd, 3);
		s->uncounted |= read_int(&rd, 2) == 0 && read_int(&rd, 3) > 0;
	}
	return read_end(&rd);
}

static enum kp_err
sum_losses(struct kp_query *q, const struct kp_query_range *r,
    struct kp_losses *losses)
{
	const char *name;
	struct read rd;

	read_start(&rd, q, "select c.name, sum(l.n) from time_window w"
	    " cross join loss l on l.window_id = w.id"
	    " join cause c on c.id = l.cause_id" IN_RANGE " group by c.id");
	range_bind(&rd, r);
	while (read_next(&rd)) {
		name = read_text(&rd, 0);
		/* skips causes that this program does not know */
		for (int i = 0; i < KP_LOSS_COUNT; i++) {
			if (strcmp(name, kp_loss_name(i)) == 0)
				losses->n[i] += (uint64_t)read_int(&rd, 1);
		}
	}
	return read_end(&rd);
}

/* Computes means weighted by length, since windows differ in it. */
static enum kp_err
sum_traced(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *s)
{
	double call = 0, caller = 0, length = 0;
	struct read rd;

	read_start(&rd, q, "select"
	    " sum(1.0 * c.traced_call_ns * (w.end_ns - w.start_ns)),"
	    " sum(1.0 * c.traced_caller_ns * (w.end_ns - w.start_ns)),"
	    " sum(w.end_ns - w.start_ns) from time_window w cross join cost c"
	    " on c.window_id = w.id and c.traced_call_ns > 0" IN_RANGE);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		call += sqlite3_column_double(rd.st, 0);
		caller += sqlite3_column_double(rd.st, 1);
		length += sqlite3_column_double(rd.st, 2);
	}
	if (length > 0) {
		s->traced_call = (kp_dur_ns)(call / length);
		s->traced_caller = (kp_dur_ns)(caller / length);
	}
	return read_end(&rd);
}

/* ---- cells of all files ---- */

static int
slot_cmp(const void *pa, const void *pb)
{
	const struct slot *a = pa, *b = pb;

	return range_cell_cmp(a->place, &a->cell, b->place, &b->cell);
}

static void
pile_free(struct pile *p)
{
	for (size_t i = 0; i < p->n; i++)
		kp_cell_free(&p->v[i].cell);
	free(p->v);
	kp_query_tiers_free(&p->tiers);
}

/* Merges cells of the same names. */
static enum kp_err
pile_unite(struct pile *p)
{
	enum kp_err err = KP_OK;
	size_t n = 0;

	if (p->n > 1)
		qsort(p->v, p->n, sizeof(*p->v), slot_cmp);
	for (size_t i = 0; i < p->n; i++) {
		if (n == 0 || slot_cmp(&p->v[n - 1], &p->v[i]) != 0) {
			p->v[n++] = p->v[i];
			continue;
		}
		if (err == KP_OK)
			err = kp_cell_merge(&p->v[n - 1].cell, &p->v[i].cell);
		kp_cell_free(&p->v[i].cell);
	}
	p->n = n;
	return err;
}

/* Moves the cells of m to p, where cells of the same names merge. */
static enum kp_err
pile_add(struct pile *p, struct merge *m)
{
	struct slot *v = reallocarray(p->v, p->n + m->n + 1, sizeof(*v));

	if (v == NULL)
		return KP_ENOMEM;
	p->v = v;
	for (size_t i = 0; i < m->cap; i++) {
		if (m->v[i].cell.tier == NULL)
			continue;
		v[p->n++] = m->v[i];
		m->v[i] = (struct slot){ 0 };
	}
	return pile_unite(p);
}

/* Moves the cells to the result. */
static enum kp_err
pile_take(struct pile *p, struct kp_query_sum *s)
{
	s->cells = calloc(p->n + 1, sizeof(*s->cells));
	if (s->cells == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		s->cells[i] = p->v[i].cell;
	s->ncells = p->n;
	p->n = 0;
	return KP_OK;
}

static enum kp_err
sum_cells(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *s)
{
	struct pile pile = { 0 };
	struct merge m;
	bool several = false;
	enum kp_err err = range_several(q, r, &several);

	if (err == KP_OK)
		err = kp_query_tiers(q, &pile.tiers);
	for (size_t i = 0; i < q->nfiles && err == KP_OK; i++) {
		m = (struct merge){ .shares = several };
		err = merge_cells(q, i, r, &m);
		if (err == KP_OK)
			err = name_cells(q, i, &pile.tiers, &m);
		if (err == KP_OK)
			err = pile_add(&pile, &m);
		merge_free(&m);
	}
	if (err == KP_OK)
		err = pile_take(&pile, s);
	pile_free(&pile);
	return err;
}

static enum kp_err
sum_range(struct kp_query *q, const struct kp_query_range *r, bool cells,
    struct kp_query_sum *out)
{
	struct kp_query_sum s = { 0 };
	struct kp_query_range whole;
	enum kp_err err;

	query_hold(q);	/* all queries must see the same windows */
	err = range_whole(q, r, &whole);
	if (err == KP_OK)
		err = sum_windows(q, &whole, &s);
	if (err == KP_OK)
		err = sum_losses(q, &whole, &s.losses);
	if (err == KP_OK)
		err = sum_traced(q, &whole, &s);
	if (err == KP_OK && cells)
		err = sum_cells(q, &whole, &s);
	query_release(q);
	if (err == KP_OK)
		*out = s;
	return err;
}

enum kp_err
kp_query_sum(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out)
{
	return sum_range(q, r, true, out);
}

enum kp_err
kp_query_cover(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out)
{
	return sum_range(q, r, false, out);
}

/* A request counts when it closes, a while after its end, or expires. */
enum kp_err
kp_query_around(struct kp_query *q, const struct kp_query_request *rq,
    struct kp_query_range *out)
{
	kp_dur_ns age = rq->total >= 0 ? rq->total : KP_REQUEST_AGE_MAX;
	struct kp_query_range r = { .node = rq->node, .exact = true };
	int64_t id = rq->id;
	struct read rd;
	enum kp_err err;
	size_t file;

	if (!query_file_of(q, &id, &file))
		return KP_ENOENT;
	read_start_file(&rd, q, file, "select min(w.start_ns),"
	    " max(w.start_ns) + 1"
	    " from time_window w join node n on n.id = w.node_id"
	    " where w.start_ns <= ?1 and w.end_ns > ?2 and n.name = ?3");
	read_bind(&rd, sat_add(rq->start, sat_add(age, KP_HORIZON)));
	read_bind(&rd, rq->start);
	read_bind_text(&rd, rq->node);
	if (read_next(&rd)) {
		r.since = read_int(&rd, 0);
		r.until = read_int(&rd, 1);
	}
	err = read_end(&rd);
	if (err == KP_OK)
		*out = r;
	return err;
}

void
kp_query_sum_free(struct kp_query_sum *s)
{
	for (size_t i = 0; i < s->ncells; i++)
		kp_cell_free(&s->cells[i]);
	free(s->cells);
	*s = (struct kp_query_sum){ 0 };
}

const struct kp_cell *
kp_query_cell(const struct kp_query_sum *s, const char *tier,
    const char *identity)
{
	for (size_t i = 0; i < s->ncells; i++) {
		if (strcmp(s->cells[i].tier, tier) == 0 &&
		    strcmp(s->cells[i].identity, identity) == 0)
			return &s->cells[i];
	}
	return NULL;
}
