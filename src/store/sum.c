/*
 * sum.c - adds up the windows of a range: all of them, or for each step of a time
 * axis.
 *
 * It reads the rows of each database in any order, and merges them in a hash
 * table by tier and request type: a sort of many rows with their histograms
 * would cost far more, and SQL cannot merge histograms.  Row ids belong to one
 * file; cells of several files merge by name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "cell_row.h"
#include "range.h"

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

/* Finds out whether the exact range has windows of more than one node. */
static enum kp_err
several_nodes(struct kp_query *q, const struct kp_query_range *r, bool *several)
{
	struct kp_query_nodes nodes = { 0 };
	enum kp_err err = kp_query_nodes(q, r, &nodes);

	*several = nodes.n > 1;
	kp_query_nodes_free(&nodes);
	return err;
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
	enum kp_err err = several_nodes(q, r, &several);

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

/* ---- sums for each step ---- */

#define STEPS_WANTED 150

/* The possible steps in s: those that make a readable time axis. */
static const int64_t nice[] = { 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
	1800, 3600, 7200, 10800, 21600, 43200, 86400 };
#define NNICE (sizeof(nice) / sizeof(nice[0]))

void
kp_series_free(struct kp_series *s)
{
	for (size_t i = 0; i < s->n && s->v != NULL; i++) {
		for (size_t t = 0; s->v[i].cells != NULL && t <= s->tiers.n; t++)
			kp_cell_free(&s->v[i].cells[t]);
		free(s->v[i].cells);
	}
	free(s->v);
	kp_query_tiers_free(&s->tiers);
	*s = (struct kp_series){ 0 };
}

static kp_dur_ns
nice_step(kp_dur_ns least)
{
	for (size_t i = 0; i < NNICE; i++)
		if (nice[i] * KP_NS_PER_S >= least)
			return nice[i] * KP_NS_PER_S;
	return sat_add(least, KP_NS_PER_S - 1) / KP_NS_PER_S * KP_NS_PER_S;
}

/* Clips the range to its windows, and finds the longest one. */
static enum kp_err
clip(struct kp_query *q, struct kp_query_range *r, kp_dur_ns *longest)
{
	kp_wall_ns first, last;
	enum kp_err err = kp_query_span(q, &first, &last);
	struct read rd;

	if (err != KP_OK)
		return err;
	if (r->since < first)
		r->since = first;
	if (r->until > last)
		r->until = last;
	if (r->until < r->since)
		r->until = r->since;
	read_start(&rd, q, "select max(w.end_ns - w.start_ns)"
	    " from time_window w" IN_RANGE);
	range_bind(&rd, r);
	*longest = 0;
	while (read_next(&rd)) {
		if (read_int(&rd, 0) > *longest)
			*longest = read_int(&rd, 0);
	}
	return read_end(&rd);
}

/* Makes empty cells: for _total, and then for each tier; NULL: no memory. */
static struct kp_cell *
blank_cells(const struct kp_query_tiers *tiers)
{
	struct kp_cell *v = calloc(tiers->n + 1, sizeof(*v));

	for (size_t t = 0; v != NULL && t <= tiers->n; t++)
		v[t] = (struct kp_cell){ .min = -1, .tier = t == 0 ?
			"_total" : tiers->v[t - 1] };
	return v;
}

static enum kp_err
make_steps(struct kp_series *s, const struct kp_query_range *r, bool cells)
{
	int64_t n;

	s->start = r->since - r->since % s->step;
	n = (r->until - 1 - s->start) / s->step + 1;
	if (n > KP_SERIES_STEPS_MAX)
		return KP_ELIMIT;
	s->v = calloc((size_t)n, sizeof(*s->v));
	if (s->v == NULL)
		return KP_ENOMEM;
	s->n = (size_t)n;
	for (size_t i = 0; cells && i < s->n; i++) {
		s->v[i].cells = blank_cells(&s->tiers);
		if (s->v[i].cells == NULL)
			return KP_ENOMEM;
	}
	return KP_OK;
}

/* Returns NULL for a window that was written since. */
static struct kp_series_step *
step_of(const struct kp_series *s, kp_wall_ns start)
{
	int64_t i = (start - s->start) / s->step;

	return i >= 0 && (uint64_t)i < s->n ? &s->v[i] : NULL;
}

/* Returns whether nothing was counted in all of the window, so that its zeros
   are not figures. */
static bool
is_unseen(kp_dur_ns length, uint64_t calls, uint64_t uncounted_ms)
{
	/* its ends and that time are by different clocks */
	const double most = 0.99;

	return calls == 0 && length > 0 && (double)uncounted_ms >=
	    most * (double)length / (double)KP_NS_PER_MS;
}

/* Adds windows in order of start; those of several nodes overlap. */
static enum kp_err
add_windows(struct kp_query *q, const struct kp_query_range *r,
    struct kp_series *s)
{
	struct kp_series_step *v;
	kp_wall_ns start, end, seen = 0;
	struct read rd;

	read_start(&rd, q, "select w.start_ns, w.end_ns, w.entry_calls,"
	    " w.sampled, (select l.n from loss l where l.window_id = w.id"
	    " and l.cause_id = (select id from cause where name ="
	    " 'uncounted')), c.events, c.agent_ns, c.cost_ns"
	    " from time_window w left join cost c on c.window_id = w.id"
	    IN_RANGE " order by w.start_ns");
	read_order(&rd, 0, 1);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		start = read_int(&rd, 0);
		end = read_int(&rd, 1);
		v = step_of(s, start);
		if (v == NULL)
			continue;
		if (end > seen) {
			v->covered = sat_add(v->covered, sat_span(
			    start > seen ? start : seen, end));
			seen = end;
		}
		v->windows++;
		v->entry_calls += (uint64_t)read_int(&rd, 2);
		v->sampled += (uint64_t)read_int(&rd, 3);
		v->unseen += is_unseen(sat_span(start, end),
		    (uint64_t)(read_int(&rd, 2) | read_int(&rd, 3)),
		    (uint64_t)read_int(&rd, 4));
		v->events += (uint64_t)read_int(&rd, 5);
		v->agent = sat_add(v->agent, read_int(&rd, 6));
		v->cost = sat_add(v->cost, read_int(&rd, 7));
	}
	return read_end(&rd);
}

static enum kp_err
add_losses(struct kp_query *q, const struct kp_query_range *r,
    struct kp_series *s)
{
	struct kp_series_step *v;
	const char *name;
	struct read rd;

	read_start(&rd, q, "select w.start_ns, c.name, l.n"
	    " from time_window w cross join loss l on l.window_id = w.id"
	    " join cause c on c.id = l.cause_id" IN_RANGE);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		v = step_of(s, read_int(&rd, 0));
		name = read_text(&rd, 1);
		for (int i = 0; v != NULL && i < KP_LOSS_COUNT; i++)
			if (strcmp(name, kp_loss_name(i)) == 0)
				v->losses.n[i] += (uint64_t)read_int(&rd, 2);
	}
	return read_end(&rd);
}

/*
 * Selects cells by their whole key, so that it reads only the one request type.
 */
#define STEP_CELLS(table, of) "select " CELL_COLUMNS ", t.name from tier t" \
	" cross join " table " s" \
	" on s." of " = ?1 and s.tier_id = t.id and s.identity_id =" \
	" (select id from identity where name = ?2)" \
	" where ?3 is null or t.name = ?3"

static void
add_cell(struct kp_series *s, struct read *rd, kp_wall_ns start, bool several,
    struct kp_cell *row)
{
	size_t t = range_place(&s->tiers, read_text(rd, CELL_END));
	struct kp_series_step *v = step_of(s, start);

	if (v == NULL || t > s->tiers.n)
		return;
	cell_row_read(rd->st, row);
	if (several)
		range_shares(row);
	if (kp_cell_merge(&v->cells[t], row) != KP_OK)
		read_nomem(rd);
}

static enum kp_err
add_cells(struct kp_query *q, size_t file, const struct kp_query_range *r,
    const char *tier, bool several, struct kp_series *s)
{
	struct kp_cell row = { .min = -1 };
	struct range_cells cells;
	enum kp_err err, err2;
	kp_wall_ns start;
	struct read *rd;

	err = range_cells_start(&cells, q, file, r,
	    (struct range_use){ .step = s->step },
	    STEP_CELLS("stat", "window_id"),
	    STEP_CELLS("level_stat", "sum_id"));
	while (err == KP_OK && (rd = range_cells_next(&cells, &start)) != NULL) {
		read_bind_text(rd, r->identity != NULL ? r->identity :
		    "_total");
		read_bind_text(rd, tier);
		while (read_next(rd))
			add_cell(s, rd, start, several, &row);
	}
	kp_cell_free(&row);
	err2 = range_cells_end(&cells);
	return err != KP_OK ? err : err2;
}

static enum kp_err
add_all(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *s)
{
	enum kp_err err = add_windows(q, r, s);
	bool several = false;

	if (err == KP_OK)
		err = add_losses(q, r, s);
	if (err == KP_OK && want->cells)
		err = several_nodes(q, r, &several);
	for (size_t i = 0; i < q->nfiles && err == KP_OK && want->cells; i++)
		err = add_cells(q, i, r, want->tier, several, s);
	return err;
}

enum kp_err
kp_query_series(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *out)
{
	struct kp_query_range clipped;
	struct kp_series s = { 0 };
	kp_dur_ns longest = 0, least;
	enum kp_err err;

	query_hold(q);	/* all queries must see the same windows */
	err = range_whole(q, r, &clipped);
	if (err == KP_OK)
		err = clip(q, &clipped, &longest);
	if (err == KP_OK)
		err = kp_query_tiers(q, &s.tiers);
	least = want->step > 0 ? want->step :
	    (clipped.until - clipped.since) / STEPS_WANTED;
	/* windows of earlier versions end a little late */
	longest -= longest / 10;
	s.step = nice_step(least > longest ? least : longest);
	if (err == KP_OK)
		err = make_steps(&s, &clipped, want->cells);
	if (err == KP_OK)
		err = add_all(q, &clipped, want, &s);
	query_release(q);
	if (err == KP_OK)
		*out = s;
	else
		kp_series_free(&s);
	return err;
}
