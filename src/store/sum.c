/*
 * sum.c - adds up the windows of a range: all of them, or for each step of a time
 * axis.
 *
 * It reads the cells of each database in any order, and merges them in a hash
 * table by tier and request type: a sort of many rows with their histograms
 * would cost far more, and SQL cannot merge histograms.  Row ids belong to one
 * file; cells of several files merge by name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "cell_row.h"
#include "range.h"

/* ---- windows and losses ---- */

/* Returns NULL for a window that was written since. */
static struct kp_series_step *
step_of(const struct kp_series *s, kp_wall_ns start)
{
	int64_t i = s->step > 0 ? (start - s->start) / s->step : 0;

	return i >= 0 && (uint64_t)i < s->n ? &s->v[i] : NULL;
}

/*
 * Adds windows in order of start to their steps, or with step 0 to the only one;
 * those of several nodes overlap.  sum: gets what steps do not have, of them all.
 */
static enum kp_err
add_windows(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series *s, struct kp_query_sum *sum)
{
	double call = 0, caller = 0, length = 0, traced;
	struct kp_series_step *v;
	kp_wall_ns start, end;
	uint64_t entry_calls, sampled;
	struct read rd;

	read_start(&rd, q, "select w.start_ns, w.end_ns, w.entry_calls,"
	    " w.sampled, c.events, c.agent_ns, c.cost_ns, c.traced_call_ns,"
	    " c.traced_caller_ns"
	    " from time_window w left join cost c on c.window_id = w.id"
	    IN_RANGE " order by w.start_ns");
	read_order(&rd, 0, 1);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		start = read_int(&rd, 0);
		end = read_int(&rd, 1);
		entry_calls = (uint64_t)read_int(&rd, 2);
		sampled = (uint64_t)read_int(&rd, 3);
		v = step_of(s, start);
		if (v == NULL)
			continue;
		if (sum->windows++ == 0)
			sum->start = sum->end = start;
		if (end > sum->end) {
			v->covered = sat_add(v->covered, sat_span(
			    start > sum->end ? start : sum->end, end));
			sum->end = end;
		}
		sum->uncounted |= entry_calls == 0 && sampled > 0;
		v->windows++;
		v->entry_calls += entry_calls;
		v->sampled += sampled;
		v->events += (uint64_t)read_int(&rd, 4);
		v->agent = sat_add(v->agent, read_int(&rd, 5));
		v->cost = sat_add(v->cost, read_int(&rd, 6));
		if (read_int(&rd, 7) <= 0)
			continue;
		/* means weighted by length, since windows differ in it */
		traced = (double)(end - start);
		length += traced;
		call += traced * (double)read_int(&rd, 7);
		caller += traced * (double)read_int(&rd, 8);
	}
	if (length > 0) {
		sum->traced_call = (kp_dur_ns)(call / length);
		sum->traced_caller = (kp_dur_ns)(caller / length);
	}
	return read_end(&rd);
}

/* Returns whether nothing was counted in all of the window, so that its zeros
   are not figures. */
static bool
is_unseen(kp_dur_ns length, int64_t calls, int64_t uncounted_ms)
{
	/* its ends and that time are by different clocks */
	const double most = 0.99;

	return calls == 0 && length > 0 && (double)uncounted_ms >=
	    most * (double)length / (double)KP_NS_PER_MS;
}

static enum kp_err
add_losses(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series *s)
{
	struct kp_series_step *v;
	const char *name;
	struct read rd;

	read_start(&rd, q, "select w.start_ns, c.name, l.n,"
	    " w.end_ns - w.start_ns, w.entry_calls | w.sampled"
	    " from time_window w cross join loss l on l.window_id = w.id"
	    " join cause c on c.id = l.cause_id" IN_RANGE);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		v = step_of(s, read_int(&rd, 0));
		name = read_text(&rd, 1);
		/* skips causes that this program does not know */
		for (int i = 0; v != NULL && i < KP_LOSS_COUNT; i++) {
			if (strcmp(name, kp_loss_name(i)) != 0)
				continue;
			v->losses.n[i] += (uint64_t)read_int(&rd, 2);
			v->unseen += i == KP_LOSS_UNCOUNTED && is_unseen(
			    read_int(&rd, 3), read_int(&rd, 4),
			    read_int(&rd, 2));
		}
	}
	return read_end(&rd);
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

/* ---- the cells of a sum ---- */

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

void
range_shares(struct kp_cell *c)
{
	c->requests = c->share_requests;
	c->w_requests = c->w_share_requests;
	c->busy = c->share_busy;
	c->w_busy = c->w_share_busy;
}

static int
cell_cmp(const void *pa, const void *pb)
{
	const struct range_cell *a = pa, *b = pb;
	bool ta = is_total(a->cell.identity), tb = is_total(b->cell.identity);
	int names;

	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	if ((names = strcmp(a->cell.tier, b->cell.tier)) != 0)
		return names;
	if (ta != tb)
		return ta ? -1 : 1;
	return strcmp(a->cell.identity, b->cell.identity);
}

enum kp_err
range_unite(struct range_cell *v, size_t n, struct kp_query_sum *s)
{
	struct kp_cell *cells = calloc(n + 1, sizeof(*cells));
	enum kp_err err = cells != NULL ? KP_OK : KP_ENOMEM;

	s->cells = cells;
	if (n > 1)
		qsort(v, n, sizeof(*v), cell_cmp);
	for (size_t i = 0; i < n; i++) {
		if (err == KP_OK && (i == 0 || cell_cmp(&v[i - 1], &v[i]) != 0)) {
			cells[s->ncells++] = v[i].cell;
			continue;
		}
		if (err == KP_OK)
			err = kp_cell_merge(&cells[s->ncells - 1], &v[i].cell);
		kp_cell_free(&v[i].cell);
	}
	free(v);
	return err;
}

void
range_cells_free(struct range_cell *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		kp_cell_free(&v[i].cell);
	free(v);
}

/* Cells; those of one file are found by tier and identity. */
struct table {
	struct range_cell *v;
	size_t n, room;
	struct intern at;	/* of these ids: an index of v */
};

/* Returns the cell of these ids; NULL: out of memory. */
static struct kp_cell *
table_cell(struct table *t, int64_t tier, int64_t identity)
{
	const int64_t ids[] = { tier, identity };
	const struct interned *known = intern_get(&t->at, ids, sizeof(ids));

	if (known == NULL) {
		if (vec_room(&t->v, &t->room, t->n, VEC_NO_CAP) != KP_OK)
			return NULL;
		known = intern_put(&t->at, ids, sizeof(ids), (uint32_t)t->n);
		if (known == NULL)
			return NULL;
		t->v[t->n++] = (struct range_cell){ .tier = tier,
			.identity = identity, .cell = { .tier = "", .identity = "", .min = -1 } };
	}
	return &t->v[known->val].cell;
}

#define CELLS(table, of) "select " CELL_COLUMNS " from " table " s" \
	" where s." of " = ?1" \
	" and (?2 is null or s.identity_id =" \
	" (select id from identity where name = ?2))" \
	" and (?3 is null or s.identity_id in" \
	" (select id from identity where name glob ?3))"

/* Of calls with labels there are no tenths. */
#define NO_PART " and s.tier_id in (select id from tier" \
	" where instr(name, '" KP_PART_SEP "') = 0)"

/* What is added up, and into how many sums. */
struct summing {
	const struct kp_query_range *r;
	bool several;		/* nodes */
	kp_dur_ns unit;		/* of tenths; 0: it is one sum */
	struct table t[KP_TENTHS];
	bool over;		/* tenths have too many cells: some are left out */
};

/*
 * The tenth of a window or sum.  Each row of ten units has one of each, and begins with
 * another one, so that what comes back regularly is not always in the same tenth.
 */
static size_t
tenth_of(const struct summing *s, kp_wall_ns start)
{
	uint64_t unit, row;

	if (s->unit == 0)
		return 0;
	unit = (uint64_t)(start / s->unit);
	row = unit / KP_TENTHS;
	return (size_t)((unit + (row * UINT64_C(0x9e3779b97f4a7c15) >> 40)) %
	    KP_TENTHS);
}

static bool
is_over(const struct summing *s)
{
	size_t cells = 0;

	for (size_t k = 0; k < KP_TENTHS; k++)
		cells += s->t[k].n;
	return s->unit > 0 && cells > KP_TENTHS_CELLS_MAX;
}

static enum kp_err
add_file(struct kp_query *q, size_t file, struct summing *s)
{
	struct kp_cell row = { .min = -1 };
	struct range_rows rows;
	struct kp_cell *to;
	struct read *rd;

	range_rows_start(&rows, q, file, s->r, (struct range_use){
		.step = s->unit,
		.of = { s->r->identity, s->r->identity_glob } },
	    s->unit > 0 ? CELLS("stat", "window_id") NO_PART :
	    CELLS("stat", "window_id"),
	    s->unit > 0 ? CELLS("level_stat", "sum_id") NO_PART :
	    CELLS("level_stat", "sum_id"));
	while (!(s->over = is_over(s)) && (rd = range_rows_next(&rows)) != NULL) {
		cell_row_read(rd->st, &row);
		if (s->several)
			range_shares(&row);
		to = table_cell(&s->t[tenth_of(s, rows.piece->start)],
		    read_int(rd, CELL_TIER), read_int(rd, CELL_IDENTITY));
		if (to == NULL || kp_cell_merge(to, &row) != KP_OK)
			read_nomem(rd);
	}
	kp_cell_free(&row);
	return range_rows_end(&rows);
}

static void
name_cell(struct read *names, const char **to, int64_t id)
{
	read_again(names);
	read_bind(names, id);
	if (read_next(names))
		*to = read_text(names, 0);
}

/* Sets the cells' names, which costs less than to do it for each row. */
static enum kp_err
name_cells(struct kp_query *q, size_t file, const struct kp_query_tiers *tiers,
    struct range_cell *c, const struct range_cell *end)
{
	struct read tier, identity;
	enum kp_err err, err2;

	read_start_file(&tier, q, file, "select name from tier where id = ?");
	read_start_file(&identity, q, file,
	    "select name from identity where id = ?");
	for (; c < end; c++) {
		name_cell(&tier, &c->cell.tier, c->tier);
		name_cell(&identity, &c->cell.identity, c->identity);
		c->place = range_place(tiers, c->cell.tier);
	}
	err = read_end(&tier);
	err2 = read_end(&identity);
	return err != KP_OK ? err : err2;
}

/* Adds up into n sums, which on error still have some cells.  KP_ELIMIT: see is_over(). */
static enum kp_err
sum_cells(struct kp_query *q, const struct kp_query_range *r, kp_dur_ns unit,
    struct kp_query_sum *sums, size_t n)
{
	struct kp_query_tiers tiers = { 0 };
	struct summing s = { .r = r, .unit = unit };
	enum kp_err err = several_nodes(q, r, &s.several);
	size_t first[KP_TENTHS];

	if (err == KP_OK)
		err = kp_query_tiers(q, &tiers);
	for (size_t i = 0; i < q->nfiles && err == KP_OK; i++) {
		for (size_t k = 0; k < n; k++)
			first[k] = s.t[k].n;
		err = add_file(q, i, &s);
		if (err == KP_OK && s.over)
			err = KP_ELIMIT;
		for (size_t k = 0; k < n; k++) {
			if (err == KP_OK && s.t[k].n > first[k])
				err = name_cells(q, i, &tiers, s.t[k].v +
				    first[k], s.t[k].v + s.t[k].n);
			intern_free(&s.t[k].at);
		}
	}
	kp_query_tiers_free(&tiers);
	for (size_t k = 0; k < n; k++) {
		if (err == KP_OK)
			err = range_unite(s.t[k].v, s.t[k].n, &sums[k]);
		else
			range_cells_free(s.t[k].v, s.t[k].n);
	}
	return err;
}

static enum kp_err
sum_range(struct kp_query *q, const struct kp_query_range *r, bool cells,
    struct kp_query_sum *out)
{
	struct kp_series_step all = { 0 };
	const struct kp_series one = { .v = &all, .n = 1 };
	struct kp_query_sum s = { 0 };
	struct kp_query_range whole;
	enum kp_err err;

	query_hold(q);	/* all queries must see the same windows */
	err = range_whole(q, r, &whole);
	if (err == KP_OK)
		err = add_windows(q, &whole, &one, &s);
	if (err == KP_OK)
		err = add_losses(q, &whole, &one);
	if (err == KP_OK && cells)
		err = sum_cells(q, &whole, 0, &s, 1);
	query_release(q);
	s.covered = all.covered;
	s.entry_calls = all.entry_calls;
	s.sampled = all.sampled;
	s.losses = all.losses;
	if (err == KP_OK)
		*out = s;
	else
		kp_query_sum_free(&s);
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

/* Of each step: of the request, the tiers, and the part that was asked for. */
static size_t
series_cells(const struct kp_series *s)
{
	return s->tiers.n + 1 + (s->part != NULL);
}

void
kp_series_free(struct kp_series *s)
{
	for (size_t i = 0; i < s->n && s->v != NULL; i++) {
		for (size_t t = 0; s->v[i].cells != NULL && t < series_cells(s); t++)
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

/* ---- tenths ---- */

/*
 * What is read for tenths: many units, since with few a tenth is one part of the range,
 * and a swing of the load looks like chance; but no more than so many rows.
 */
#define TENTH_UNITS 10	/* of each */
#define TENTH_ROWS 10000

/*
 * The longest window or, if that is longer, the coarsest level of which the range has so
 * many.  No sum reaches from one unit into the next, and so none into two tenths.
 */
static enum kp_err
tenth_unit(struct kp_query *q, const struct kp_query_range *r, size_t units,
    kp_dur_ns longest, kp_dur_ns *unit)
{
	struct range_levels levels;
	struct read rd = { .q = q };
	kp_dur_ns length;

	*unit = longest;
	for (; rd.file < q->nfiles && rd.err == KP_OK; rd.file++) {
		read_fail(&rd, range_levels_read(q->files[rd.file].conn, &levels));
		for (size_t i = 0; i < levels.n && rd.err == KP_OK; i++) {
			length = levels.v[i] * KP_NS_PER_S;
			if (length > *unit && length <= (r->until - r->since) /
			    (int64_t)units)
				*unit = length;
		}
	}
	return rd.err;
}

/* Adds to each tenth how long its windows are, those of several nodes once. */
static enum kp_err
cover_tenths(struct kp_query *q, const struct kp_query_range *r, kp_dur_ns unit,
    struct kp_tenths *t)
{
	const struct summing s = { .unit = unit };
	kp_wall_ns start, end, last = INT64_MIN;
	struct kp_query_sum *v;
	struct read rd;

	read_start(&rd, q, "select w.start_ns, w.end_ns from time_window w"
	    IN_RANGE " order by w.start_ns");
	read_order(&rd, 0, 1);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		start = read_int(&rd, 0);
		end = read_int(&rd, 1);
		v = &t->v[tenth_of(&s, start)];
		t->n += v->windows++ == 0;
		if (end <= last)
			continue;
		v->covered = sat_add(v->covered, sat_span(start > last ?
		    start : last, end));
		last = end;
	}
	return read_end(&rd);
}

enum kp_err
kp_query_tenths(struct kp_query *q, const struct kp_query_range *r,
    size_t ncells, struct kp_tenths *out)
{
	size_t units = TENTH_ROWS / (ncells + 1);
	struct kp_query_range clipped;
	struct kp_tenths t = { .n = 0 };
	kp_dur_ns longest = 0, unit = 0;
	enum kp_err err;

	query_hold(q);
	err = range_whole(q, r, &clipped);
	if (err == KP_OK)
		err = clip(q, &clipped, &longest);
	if (err == KP_OK)
		err = tenth_unit(q, &clipped, units < KP_TENTHS ? KP_TENTHS :
		    units < KP_TENTHS * TENTH_UNITS ? units :
		    KP_TENTHS * TENTH_UNITS, longest, &unit);
	if (err == KP_OK && unit > 0)
		err = cover_tenths(q, &clipped, unit, &t);
	if (err == KP_OK && unit > 0)
		err = sum_cells(q, &clipped, unit, t.v, KP_TENTHS);
	query_release(q);
	if (err != KP_OK)
		kp_tenths_free(&t);
	if (err == KP_ELIMIT)
		err = KP_OK;
	if (err == KP_OK)
		*out = t;
	return err;
}

void
kp_tenths_free(struct kp_tenths *t)
{
	for (size_t i = 0; i < KP_TENTHS; i++)
		kp_query_sum_free(&t->v[i]);
	t->n = 0;
}

/* Makes empty cells: for _total, each tier, and a part of one; NULL: no memory. */
static struct kp_cell *
blank_cells(const struct kp_series *s)
{
	size_t n = series_cells(s);
	struct kp_cell *v = calloc(n, sizeof(*v));

	for (size_t t = 0; v != NULL && t < n; t++)
		v[t] = (struct kp_cell){ .min = -1, .tier = t == 0 ? "_total" :
			t <= s->tiers.n ? s->tiers.v[t - 1] : s->part };
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
		s->v[i].cells = blank_cells(s);
		if (s->v[i].cells == NULL)
			return KP_ENOMEM;
	}
	return KP_OK;
}

/*
 * Selects cells by their whole key, so that it reads only the one request type.
 */
#define STEP_CELLS(table, of) "select " CELL_COLUMNS ", t.name from tier t" \
	" cross join " table " s" \
	" on s." of " = ?1 and s.tier_id = t.id and s.identity_id =" \
	" (select id from identity where name = ?2)" \
	" where case when ?3 is null then instr(t.name, '" KP_PART_SEP "') = 0" \
	" else t.name = ?3 end"

/* tier NULL: of all, without their parts. */
static enum kp_err
add_cells(struct kp_query *q, size_t file, const struct kp_query_range *r,
    const char *tier, bool several, struct kp_series *s)
{
	struct kp_cell row = { .min = -1 };
	struct kp_series_step *v;
	struct range_rows rows;
	struct read *rd;
	size_t t;

	range_rows_start(&rows, q, file, r, (struct range_use){ .step = s->step,
		.of = { r->identity != NULL ? r->identity : "_total", tier } },
	    STEP_CELLS("stat", "window_id"), STEP_CELLS("level_stat", "sum_id"));
	while ((rd = range_rows_next(&rows)) != NULL) {
		t = range_place(&s->tiers, read_text(rd, CELL_END));
		v = step_of(s, rows.piece->start);
		if (v == NULL || t > s->tiers.n + (s->part != NULL))
			continue;
		cell_row_read(rd->st, &row);
		if (several)
			range_shares(&row);
		if (kp_cell_merge(&v->cells[t], &row) != KP_OK)
			read_nomem(rd);
	}
	kp_cell_free(&row);
	return range_rows_end(&rows);
}

enum kp_err
kp_query_series(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *out)
{
	struct kp_query_range clipped;
	struct kp_series s = { 0 };
	kp_dur_ns longest = 0, least;
	bool several = false;
	enum kp_err err;

	query_hold(q);	/* all queries must see the same windows */
	err = range_whole(q, r, &clipped);
	if (err == KP_OK)
		err = clip(q, &clipped, &longest);
	if (err == KP_OK)
		err = kp_query_tiers(q, &s.tiers);
	if (err == KP_OK && want->tier != NULL &&
	    range_place(&s.tiers, want->tier) > s.tiers.n) {
		s.part = want->tier;
		err = kp_query_tier(q, want->tier);
	}
	least = want->step > 0 ? want->step :
	    (clipped.until - clipped.since) / STEPS_WANTED;
	/* windows of earlier versions end a little late */
	longest -= longest / 10;
	s.step = nice_step(least > longest ? least : longest);
	if (err == KP_OK)
		err = make_steps(&s, &clipped, want->cells);
	if (err == KP_OK)
		err = add_windows(q, &clipped, &s, &(struct kp_query_sum){ 0 });
	if (err == KP_OK)
		err = add_losses(q, &clipped, &s);
	if (err == KP_OK && want->cells)
		err = several_nodes(q, &clipped, &several);
	for (size_t i = 0; i < q->nfiles && err == KP_OK && want->cells; i++) {
		if (want->others)
			err = add_cells(q, i, &clipped, NULL, several, &s);
		if (err == KP_OK && (!want->others || s.part != NULL))
			err = add_cells(q, i, &clipped, want->tier, several, &s);
	}
	query_release(q);
	if (err == KP_OK)
		*out = s;
	else
		kp_series_free(&s);
	return err;
}
