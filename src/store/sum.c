/*
 * sum.c - adds up the windows of a range: all of them, or for each step of a time
 * axis.
 *
 * It reads the cells of each database in any order, and merges them in a hash
 * table by tier and request type: a sort of many rows with their histograms
 * would cost far more, and SQL cannot merge histograms.  Row ids belong to one
 * file; cells of several files merge by name.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "cell_row.h"
#include "range.h"

/* ---- windows and losses ---- */

#define UNCOUNTED_NS "1000000 * ifnull((select l.n from loss l where" \
	" l.window_id = w.id and l.cause_id = (select id from cause" \
	" where name = 'uncounted')), 0)"

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

void
range_pace_add(struct range_pace *p, uint64_t n, kp_dur_ns length, kp_dur_ns counted)
{
	/* without requests the times alone decide */
	double weight = (double)n + 1e-18 * (double)length;

	if (length <= 0 || (n == 0 && counted <= 0))
		return;
	p->n += weight;
	p->filled += weight * (counted > 0 ? (double)length / (double)counted : 1);
}

kp_dur_ns
range_counted(const struct range_pace *p, kp_dur_ns covered)
{
	return p->filled > 0 ? (kp_dur_ns)((double)covered * p->n / p->filled) : -1;
}

/*
 * Sets how long requests were counted in each step.  A window without calls that was
 * uncounted but for 1 % was so wholly: its ends and that time are by different clocks.
 */
static enum kp_err
add_counted(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series *s)
{
	struct range_pace *v = calloc(s->n + 1, sizeof(*v));
	struct read rd;
	enum kp_err err;
	int64_t i;

	if (v == NULL)
		return KP_ENOMEM;
	read_start(&rd, q, "select step, sum(n), sum(length), sum(iif(n = 0 and"
	    " lost >= 0.99 * length, 0, max(length - lost, 0))) from"
	    " (select (w.start_ns - ?4) / ?5 as step, w.node_id as node,"
	    " max(w.entry_calls, w.sampled) as n, w.end_ns - w.start_ns as length,"
	    " " UNCOUNTED_NS " as lost from time_window w" IN_RANGE ")"
	    " group by step, node");
	range_bind(&rd, r);
	read_bind(&rd, s->start);
	read_bind(&rd, s->step > 0 ? s->step : INT64_MAX);
	while (read_next(&rd)) {
		i = read_int(&rd, 0);
		if (i >= 0 && (uint64_t)i < s->n)
			range_pace_add(&v[i], (uint64_t)read_int(&rd, 1),
			    read_int(&rd, 2), read_int(&rd, 3));
	}
	err = read_end(&rd);
	for (size_t k = 0; k < s->n; k++)
		s->v[k].counted = range_counted(&v[k], s->v[k].covered);
	free(v);
	return err;
}

static enum kp_err
add_losses(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series *s)
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
		/* skips causes that this program does not know */
		for (int i = 0; v != NULL && i < KP_LOSS_COUNT; i++) {
			if (strcmp(name, kp_loss_name(i)) == 0)
				v->losses.n[i] += (uint64_t)read_int(&rd, 2);
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

#define AND_GLOB " and (?3 is null or s.identity_id in" \
	" (select id from identity where name glob ?3 or name = '_total'))"
#define CELLS(columns, table, of) "select " columns " from " table " s" \
	" where s." of " = ?1" AND_GLOB

/*
 * ?2: for each key the least and the largest id of its tier, and of its request type.  It
 * reads no other rows: without the + the index would be searched by the bounds of the tier
 * alone.
 */
#define KEYED(columns, table, of) "with k(t0, t1, i0, i1) as materialized (select" \
	" json_extract(value, '$[0]'), json_extract(value, '$[1]')," \
	" json_extract(value, '$[2]'), json_extract(value, '$[3]')" \
	" from json_each(?2)) select " columns " from k" \
	" cross join tier t on t.id between k.t0 and k.t1" \
	" cross join " table " s on s." of " = ?1 and s.tier_id = +t.id" \
	" and s.identity_id between k.i0 and k.i1" AND_GLOB

/* Where they are too many, calls with labels have no tenths. */
#define NO_PART " and s.tier_id in (select id from tier" \
	" where instr(name, '" KP_PART_SEP "') = 0)"

/* What is read, and where it goes: to the cells of a sum, or for tenths to `take`. */
struct summing {
	const struct kp_query_range *r;
	bool several;		/* nodes */
	struct kp_query_tiers tiers;
	struct range_cell *v;	/* for tenths, only their names */
	size_t n, room, first;	/* first: of this file */
	struct intern at;	/* of ids in this file: an index of v */
	struct read tier, identity;	/* names of this file */
	kp_query_take *take;	/* NULL: it is a sum */
	void *ctx;
	kp_dur_ns unit;		/* of tenths */
	bool parts;		/* of tiers, too */
};

static bool
is_over(const struct summing *s)
{
	return s->take != NULL && s->n - s->first > KP_TENTHS_CELLS_MAX;
}

/* Returns the cell of these ids; NULL: out of memory. */
static struct kp_cell *
cell_of(struct summing *s, int64_t tier, int64_t identity)
{
	const int64_t ids[] = { tier, identity };
	const struct interned *known = intern_get(&s->at, ids, sizeof(ids));
	struct range_cell *c;

	if (known == NULL) {
		if (vec_room(&s->v, &s->room, s->n, VEC_NO_CAP) != KP_OK)
			return NULL;
		known = intern_put(&s->at, ids, sizeof(ids), (uint32_t)s->n);
		if (known == NULL)
			return NULL;
		c = &s->v[s->n++];
		*c = (struct range_cell){ .cell = { .tier = read_name(&s->tier, tier),
			.identity = read_name(&s->identity, identity), .min = -1 } };
		c->place = range_place(&s->tiers, c->cell.tier);
	}
	return &s->v[known->val].cell;
}

#define KEY_BYTES 96	/* four numbers of 19 digits, and what is between them */

/* Writes the keys as KEYED() wants them; one whose name the file does not have has no cells. */
static enum kp_err
write_keys(struct kp_query *q, size_t file, const struct kp_query_key *v, size_t n,
    struct kp_buf *b)
{
	const char *sep = "[";
	struct read rd;
	int64_t tier, identity;
	enum kp_err err;

	read_start_file(&rd, q, file, "select (select id from tier where name = ?1),"
	    " (select id from identity where name = ?2)");
	for (size_t i = 0; i < n; i++) {
		read_again(&rd);
		read_bind_text(&rd, v[i].tier);
		read_bind_text(&rd, v[i].identity);
		if (!read_next(&rd))
			break;
		tier = read_int(&rd, 0);
		identity = read_int(&rd, 1);
		if ((v[i].tier != NULL && tier == 0) ||
		    (v[i].identity != NULL && identity == 0))
			continue;
		kp_buf_printf(b, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]",
		    sep, tier, tier > 0 ? tier : INT64_MAX, identity,
		    identity > 0 ? identity : INT64_MAX);
		sep = ",";
	}
	kp_buf_str(b, sep[0] == '[' ? "[]" : "]");
	err = read_end(&rd);
	return err != KP_OK ? err : b->err;
}

/* KP_ELIMIT: see is_over(). */
static enum kp_err
add_rows(struct kp_query *q, size_t file, struct summing *s, const char *keys)
{
	/* by: keys; a sum, tenths, tenths without parts of tiers; of windows, and of sums */
#define BOTH(what, columns, more) { what(columns, "stat", "window_id") more, \
	what(columns, "level_stat", "sum_id") more }
#define EACH(what) { BOTH(what, CELL_COLUMNS, ""), \
	BOTH(what, CELL_COLUMNS_OF_TENTHS, ""), \
	BOTH(what, CELL_COLUMNS_OF_TENTHS, NO_PART) }
	static const char *const sql[2][3][2] = { EACH(CELLS), EACH(KEYED) };
#undef EACH
#undef BOTH
	const char *const *of = sql[keys != NULL][s->take == NULL ? 0 : s->parts ? 1 : 2];
	struct kp_cell row = { .min = -1 }, *to;
	struct range_rows rows;
	enum kp_err err;
	struct read *rd;
	bool ok;

	range_rows_start(&rows, q, file, s->r, (struct range_use){ .step = s->unit,
		.of = { keys, s->r->identity_glob } }, of[0], of[1]);
	while (!is_over(s) && (rd = range_rows_next(&rows)) != NULL) {
		if (s->take == NULL)
			cell_row_read(rd->st, &row);
		else
			cell_row_read_of_tenths(rd->st, &row);
		if (s->several)
			range_shares(&row);
		to = cell_of(s, read_int(rd, CELL_TIER), read_int(rd, CELL_IDENTITY));
		ok = to != NULL;
		if (ok && s->take == NULL) {
			ok = kp_cell_merge(to, &row) == KP_OK;
		} else if (ok) {
			row.tier = to->tier;
			row.identity = to->identity;
			ok = s->take(s->ctx, kp_tenth(rows.piece->start, s->unit), &row);
		}
		if (!ok)
			read_nomem(rd);
	}
	kp_cell_free(&row);
	err = range_rows_end(&rows);
	return err == KP_OK && is_over(s) ? KP_ELIMIT : err;
}

static enum kp_err
add_file(struct kp_query *q, size_t file, struct summing *s)
{
	const struct kp_query_key of_type = { NULL, s->r->identity };
	const struct kp_query_key *v = s->r->nkeys > 0 ? s->r->keys : &of_type;
	size_t n = s->r->nkeys > 0 ? s->r->nkeys : s->r->identity != NULL;
	enum kp_err err = KP_OK, tier, identity;
	struct kp_buf keys;

	s->first = s->n;
	kp_buf_init(&keys, KEY_BYTES * n);
	read_start_file(&s->tier, q, file, "select name from tier where id = ?");
	read_start_file(&s->identity, q, file, "select name from identity where id = ?");
	if (n > 0)
		err = write_keys(q, file, v, n, &keys);
	if (err == KP_OK)
		err = add_rows(q, file, s, n > 0 ? kp_buf_cstr(&keys) : NULL);
	tier = read_end(&s->tier);
	identity = read_end(&s->identity);
	intern_free(&s->at);
	kp_buf_free(&keys);
	return err != KP_OK ? err : tier != KP_OK ? tier : identity;
}

/* Reads the cells of all files; the caller frees those of s. */
static enum kp_err
add_files(struct kp_query *q, struct summing *s)
{
	enum kp_err err = several_nodes(q, s->r, &s->several);

	if (err == KP_OK)
		err = kp_query_tiers(q, &s->tiers);
	for (size_t i = 0; i < q->nfiles && err == KP_OK; i++)
		err = add_file(q, i, s);
	kp_query_tiers_free(&s->tiers);
	return err;
}

static enum kp_err
sum_cells(struct kp_query *q, const struct kp_query_range *r, struct kp_query_sum *out)
{
	struct summing s = { .r = r, .parts = true };
	enum kp_err err = add_files(q, &s);

	if (err == KP_OK)
		return range_unite(s.v, s.n, out);
	range_cells_free(s.v, s.n);
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

	kp_query_hold(q);	/* all queries must see the same windows */
	err = range_whole(q, r, &whole);
	if (err == KP_OK)
		err = add_windows(q, &whole, &one, &s);
	if (err == KP_OK)
		err = add_losses(q, &whole, &one);
	if (err == KP_OK)
		err = add_counted(q, &whole, &one);
	if (err == KP_OK && cells)
		err = sum_cells(q, &whole, &s);
	kp_query_release(q);
	s.covered = all.covered;
	s.counted = all.counted;
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

/* ---- tenths ---- */

/*
 * What is read for tenths: many units, since with few a tenth is one part of the range,
 * and a swing of the load looks like chance; but no more than so many rows.
 */
#define TENTH_UNITS 10	/* of each */
#define TENTH_UNITS_LEAST 3	/* where the cells are few */
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

/*
 * Sets how long the windows of each tenth are, those of several nodes once, and how much
 * of that was counted.
 */
static enum kp_err
cover_tenths(struct kp_query *q, const struct kp_query_range *r, struct kp_tenths *t)
{
	double length[KP_TENTHS] = { 0 }, lost[KP_TENTHS] = { 0 };
	kp_wall_ns start, end, last = INT64_MIN;
	struct read rd;
	size_t i;

	read_start(&rd, q, "select w.start_ns, w.end_ns, " UNCOUNTED_NS
	    " from time_window w" IN_RANGE " order by w.start_ns");
	read_order(&rd, 0, 1);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		start = read_int(&rd, 0);
		end = read_int(&rd, 1);
		i = kp_tenth(start, t->unit);
		length[i] += (double)(end - start);
		lost[i] += (double)read_int(&rd, 2);
		if (end <= last)
			continue;
		t->counted[i] += (double)sat_span(start > last ? start : last, end);
		last = end;
	}
	t->n = kp_tenths_filled(length);
	for (i = 0; i < KP_TENTHS; i++)
		t->counted[i] *= lost[i] >= length[i] ? 0 : 1 - lost[i] / length[i];
	return read_end(&rd);
}

/*
 * Leaves out what is not a whole unit at either end, if there are enough without: it has
 * as many pieces as all the others.
 */
static void
whole_units(struct kp_query_range *r, kp_dur_ns unit)
{
	kp_wall_ns since = r->since + unit - 1, until = r->until;

	since -= since % unit;
	until -= until % unit;
	if (until - since >= KP_TENTHS * unit) {
		r->since = since;
		r->until = until;
	}
}

enum kp_err
kp_query_tenths(struct kp_query *q, const struct kp_query_range *r, size_t ncells,
    size_t nodes, struct kp_tenths *out, kp_query_take *take, void *ctx)
{
	size_t units = TENTH_ROWS / (ncells + 1), least = KP_TENTHS;
	struct kp_query_range clipped;
	struct summing s = { .r = &clipped, .parts = ncells <= KP_TENTHS_CELLS_MAX,
		.take = take, .ctx = ctx };
	struct kp_tenths t = { .unit = out->unit };
	kp_dur_ns longest = 0;
	enum kp_err err;

	if (units >= KP_TENTHS * TENTH_UNITS_LEAST)
		least *= TENTH_UNITS_LEAST;
	units /= nodes + 1;
	kp_query_hold(q);
	err = range_whole(q, r, &clipped);
	if (err == KP_OK)
		err = range_clip(q, &clipped, &longest);
	if (err == KP_OK && t.unit == 0)
		err = tenth_unit(q, &clipped, units < least ? least :
		    units < KP_TENTHS * TENTH_UNITS ? units :
		    KP_TENTHS * TENTH_UNITS, longest, &t.unit);
	s.unit = t.unit;
	if (err == KP_OK && t.unit > 0)
		whole_units(&clipped, t.unit);
	if (err == KP_OK && t.unit > 0)
		err = cover_tenths(q, &clipped, &t);
	if (err == KP_OK && t.unit > 0)
		err = add_files(q, &s);
	kp_query_release(q);
	range_cells_free(s.v, s.n);
	if (err == KP_ELIMIT) {
		t.n = 0;
		err = KP_OK;
	}
	if (err == KP_OK)
		*out = t;
	return err;
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
	kp_dur_ns longest = 0;
	bool several = false;
	enum kp_err err;

	kp_query_hold(q);	/* all queries must see the same windows */
	err = range_whole(q, r, &clipped);
	if (err == KP_OK)
		err = range_clip(q, &clipped, &longest);
	if (err == KP_OK)
		err = kp_query_tiers(q, &s.tiers);
	if (err == KP_OK && want->tier != NULL &&
	    range_place(&s.tiers, want->tier) > s.tiers.n) {
		s.part = want->tier;
		err = kp_query_tier(q, want->tier);
	}
	s.step = range_step(&clipped, want->step, longest);
	if (err == KP_OK)
		err = make_steps(&s, &clipped, want->cells);
	if (err == KP_OK)
		err = add_windows(q, &clipped, &s, &(struct kp_query_sum){ 0 });
	if (err == KP_OK)
		err = add_losses(q, &clipped, &s);
	if (err == KP_OK)
		err = add_counted(q, &clipped, &s);
	if (err == KP_OK && want->cells)
		err = several_nodes(q, &clipped, &several);
	for (size_t i = 0; i < q->nfiles && err == KP_OK && want->cells; i++) {
		if (want->others)
			err = add_cells(q, i, &clipped, NULL, several, &s);
		if (err == KP_OK && (!want->others || s.part != NULL))
			err = add_cells(q, i, &clipped, want->tier, several, &s);
	}
	kp_query_release(q);
	if (err == KP_OK)
		*out = s;
	else
		kp_series_free(&s);
	return err;
}
