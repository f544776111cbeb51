/*
 * stack_rows.c - adds up sampled stacks, writes them as rows of windows and sums,
 * and queries them.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/stacks.h"
#include "base/sat.h"
#include "base/vec.h"
#include "db.h"

#define SLOTS_FIRST 64

void
stack_totals_free(struct stack_totals *s)
{
	free(s->v);
	free(s->slots);
	*s = (struct stack_totals){ 0 };
}

static bool
same(const struct stack_row *a, const struct stack_row *b)
{
	return a->stack == b->stack && a->path == b->path &&
	    a->identity == b->identity && a->node == b->node &&
	    a->state == b->state && a->octave == b->octave;
}

/* Returns the slot of the row, or the free one where it belongs. */
static size_t
slot_of(const struct stack_totals *s, const struct stack_row *r)
{
	const uint64_t of[] = { (uint64_t)r->stack, (uint64_t)r->path,
		(uint64_t)r->identity, (uint64_t)r->node,
		(uint64_t)r->octave << 8 | r->state };
	uint64_t hash = 0;
	size_t i;

	for (size_t k = 0; k < sizeof(of) / sizeof(of[0]); k++)
		hash = (hash ^ of[k]) * UINT64_C(0x9e3779b97f4a7c15);
	i = (size_t)(hash >> 32) & (s->nslots - 1);
	while (s->slots[i] != 0 && !same(&s->v[s->slots[i] - 1], r))
		i = (i + 1) & (s->nslots - 1);
	return i;
}

static bool
grow(struct stack_totals *s)
{
	struct stack_totals new = *s;

	new.nslots = s->nslots > 0 ? 2 * s->nslots : SLOTS_FIRST;
	new.slots = calloc(new.nslots, sizeof(*new.slots));
	if (new.slots == NULL)
		return false;
	for (size_t i = 0; i < s->n; i++)
		new.slots[slot_of(&new, &s->v[i])] = (uint32_t)i + 1;
	free(s->slots);
	*s = new;
	return true;
}

enum kp_err
stack_totals_add(struct stack_totals *s, const struct stack_row *row)
{
	struct stack_row *to;
	enum kp_err err;
	size_t i;

	if (2 * (s->n + 1) > s->nslots && !grow(s))
		return KP_ENOMEM;
	i = slot_of(s, row);
	if (s->slots[i] == 0) {
		err = vec_room(&s->v, &s->room, s->n, STACK_TOTALS_MAX);
		if (err != KP_OK)
			return err;
		s->v[s->n++] = *row;
		s->slots[i] = (uint32_t)s->n;
		return KP_OK;
	}
	to = &s->v[s->slots[i] - 1];
	to->samples += row->samples;
	to->time = sat_add(to->time, row->time);
	to->w_time = sat_add(to->w_time, row->w_time);
	return KP_OK;
}

/* ---- limits ---- */

/* Longest first; of equals, in the order of their ids. */
static int
row_order(const struct stack_row *a, const struct stack_row *b)
{
	if (a->w_time != b->w_time)
		return a->w_time < b->w_time ? 1 : -1;
	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	if (a->path != b->path)
		return a->path < b->path ? -1 : 1;
	if (a->octave != b->octave)
		return a->octave < b->octave ? -1 : 1;
	return (a->state > b->state) - (a->state < b->state);
}

static int
identity_order(const void *pa, const void *pb)
{
	const struct stack_row *a = pa, *b = pb;

	if (a->identity != b->identity)
		return a->identity < b->identity ? -1 : 1;
	return row_order(a, b);
}

static int
time_order(const void *pa, const void *pb)
{
	return row_order(pa, pb);
}

/* Turns what is too much of one type into other->stack. */
static void
limit_each(struct stack_totals *s, size_t most, const struct stack_other *other)
{
	struct stack_row *r;
	size_t of_one = 0;

	qsort(s->v, s->n, sizeof(*s->v), identity_order);
	for (size_t i = 0; i < s->n; i++) {
		r = &s->v[i];
		if (i > 0 && r->identity != r[-1].identity)
			of_one = 0;
		if (r->stack != other->stack && of_one++ >= most)
			r->stack = other->stack;
	}
}

/* Divides the rows into those that are kept and the sums of the rest. */
static enum kp_err
divide(struct stack_totals *s, size_t most, const struct stack_other *other,
    struct stack_totals *kept, struct stack_totals *rest)
{
	enum kp_err err = KP_OK;
	struct stack_row r;

	qsort(s->v, s->n, sizeof(*s->v), time_order);
	for (size_t i = 0; i < s->n && err == KP_OK; i++) {
		r = s->v[i];
		if (r.stack != other->stack && kept->n < most) {
			err = stack_totals_add(kept, &r);
			continue;
		}
		r.stack = other->stack;
		err = stack_totals_add(rest, &r);
	}
	return err;
}

enum kp_err
stack_totals_limit(struct stack_totals *s, const struct stack_limits *l,
    const struct stack_other *other)
{
	struct stack_totals kept = { .n = 0 }, rest = { .n = 0 };
	struct stack_row *r;
	enum kp_err err;

	limit_each(s, l->of_identity, other);
	err = divide(s, l->stacks, other, &kept, &rest);
	if (rest.n > 1)
		qsort(rest.v, rest.n, sizeof(*rest.v), time_order);
	for (size_t i = 0; i < rest.n && err == KP_OK; i++) {
		r = &rest.v[i];
		if (i >= l->others) {
			r->path = other->path;
			r->identity = other->identity;
			r->octave = 0;
		}
		err = stack_totals_add(&kept, r);
	}
	stack_totals_free(&rest);
	stack_totals_free(err == KP_OK ? s : &kept);
	if (err == KP_OK)
		*s = kept;
	return err;
}

/* ---- writing ---- */

#define OTHER "_other"

static const struct stack_limits of_window = { .of_identity = 2000,
	.stacks = 2000, .others = 1000 };
/*
 * A hundred of each of ten types, or two hundred of some, as a stack has a row for each
 * octave; a year of hours has 9000 such sums.
 */
static const struct stack_limits of_sum = { .of_identity = 200,
	.stacks = 1000, .others = 500 };

_Static_assert(STACKS_OF_WINDOW == 2000 + 1000 + KP_STACK_STATES, "window");
_Static_assert(STACKS_OF_SUM == 1000 + 500 + KP_STACK_STATES, "sum");

static struct stack_other
other_ids(struct kp_db *db)
{
	return (struct stack_other){ db_dim(db, DIM_STACK, OTHER),
		db_dim(db, DIM_STACK_PATH, OTHER),
		db_dim(db, DIM_IDENTITY, OTHER) };
}

static void
add(struct kp_db *db, struct stack_totals *s, const struct stack_row *r)
{
	if (db->rc == SQLITE_OK && stack_totals_add(s, r) != KP_OK)
		db_fail(db, SQLITE_NOMEM);
}

static void
limit(struct kp_db *db, struct stack_totals *s, const struct stack_limits *l,
    const struct stack_other *other)
{
	if (db->rc == SQLITE_OK && stack_totals_limit(s, l, other) != KP_OK)
		db_fail(db, SQLITE_NOMEM);
}

static void
write_row(struct kp_db *db, enum stmt into, int64_t id,
    const struct stack_row *r)
{
	stack_texts_use(&db->stack_texts, r->stack);
	row_exec_ints(db, into, id, r->identity, r->path, r->stack, r->state,
	    r->octave, r->samples, r->time, r->w_time);
}

/* ---- a window ---- */

/* Adds cell i; its stack has the id -1 - i until it is written. */
static void
add_cell(struct kp_db *db, struct stack_totals *s, const struct kp_stack_cell *c,
    size_t i, const struct stack_other *other)
{
	struct stack_row r = { .state = c->state, .octave = c->octave,
		.samples = c->samples, .time = c->time, .w_time = c->w_time };

	r.identity = db_dim(db, DIM_IDENTITY, c->identity);
	r.path = db_dim(db, DIM_STACK_PATH, c->path);
	r.stack = strcmp(c->frames, OTHER) == 0 ? other->stack :
	    -1 - (int64_t)i;
	add(db, s, &r);
}

void
db_stacks(struct kp_db *db, int64_t window, const struct kp_window *w)
{
	struct stack_totals s = { .n = 0 };
	struct stack_other other;
	struct stack_row r;

	if (w->nstacks == 0)
		return;
	other = other_ids(db);
	for (size_t i = 0; i < w->nstacks && db->rc == SQLITE_OK; i++)
		add_cell(db, &s, &w->stacks[i], i, &other);
	limit(db, &s, &of_window, &other);
	for (size_t i = 0; i < s.n && db->rc == SQLITE_OK; i++) {
		r = s.v[i];
		if (r.stack < 0)
			r.stack = db_dim(db, DIM_STACK,
			    w->stacks[-1 - r.stack].frames);
		write_row(db, ST_STACK_STAT, window, &r);
	}
	stack_totals_free(&s);
}

/* ---- windows and sums that are added up ---- */

static void
add_piece(struct kp_db *db, struct stack_totals *s, const struct range_piece *p)
{
	struct stack_row r = { .node = 0 };

	row_begin_ints(db, p->sum ? ST_SUM_STACKS : ST_PART_STACKS, p->id);
	while (row_next(db)) {
		r.identity = row_get(db, 0);
		r.path = row_get(db, 1);
		r.stack = row_get(db, 2);
		r.state = (uint8_t)row_get(db, 3);
		r.octave = (uint8_t)row_get(db, 4);
		r.samples = (uint64_t)row_get(db, 5);
		r.time = row_get(db, 6);
		r.w_time = row_get(db, 7);
		add(db, s, &r);
	}
}

void
db_stacks_combine(struct kp_db *db, const struct range_piece *v, size_t n,
    enum stmt into, int64_t id)
{
	struct stack_totals s = { .n = 0 };
	struct stack_other other;

	for (size_t i = 0; i < n && db->rc == SQLITE_OK; i++)
		add_piece(db, &s, &v[i]);
	if (s.n > 0 && db->rc == SQLITE_OK) {
		other = other_ids(db);
		limit(db, &s, &of_sum, &other);
	}
	for (size_t i = 0; i < s.n && db->rc == SQLITE_OK; i++)
		write_row(db, into, id, &s.v[i]);
	stack_totals_free(&s);
}

/* ---- queries ---- */

#define ROWS(of, table, id) "select w.node_id, s.identity_id, s.path_id," \
	" s.stack_id, s.state, s.samples, s.time_ns, s.w_time_ns, s.octave" \
	" from " of " w cross join " table " s on s." id " = w.id" \
	" where w.id = ?1 and (?2 is null or s.identity_id =" \
	" (select id from identity where name = ?2))" \
	" and (?3 is null or s.identity_id in" \
	" (select id from identity where name glob ?3))"

/* Counts a row that is left out. */
static void
leave(struct kp_query_stacks *s, uint64_t samples, kp_dur_ns w_time)
{
	s->left++;
	s->left_samples += samples;
	s->left_time = sat_add(s->left_time, w_time);
}

static bool
is_wanted(const struct kp_query_range *range, int64_t octave)
{
	bool within = range->took_from <= octave && octave <= range->took_to;

	return range->took_to == 0 || (octave > 0 && within != range->took_other);
}

/* Rows of all octaves that are wanted are added up. */
static void
add_row(struct read *rd, const struct kp_query_range *range,
    struct stack_totals *sum, struct kp_query_stacks *s)
{
	int64_t state = read_int(rd, 4), octave = read_int(rd, 8);
	struct stack_row r = { .node = read_int(rd, 0),
		.identity = read_int(rd, 1), .path = read_int(rd, 2),
		.stack = read_int(rd, 3), .state = (uint8_t)state,
		.samples = (uint64_t)read_int(rd, 5), .time = read_int(rd, 6),
		.w_time = read_int(rd, 7) };
	enum kp_err err;

	/* a damaged file may have any number; later versions, more states */
	if (state < 0 || state >= KP_STACK_STATES)
		return;
	if (!is_wanted(range, octave)) {
		s->untimed += octave == 0 ? r.samples : 0;
		return;
	}
	s->samples += r.samples;
	if (r.state == KP_STACK_NOT_SEEN)
		s->not_seen += r.samples;
	err = stack_totals_add(sum, &r);
	if (err == KP_ELIMIT)
		leave(s, r.samples, r.w_time);
	else if (err != KP_OK)
		read_nomem(rd);
}

static void
widen(struct kp_query_stacks *s, const struct range_piece *p)
{
	kp_wall_ns until = p->start + (p->sum ? p->level * KP_NS_PER_S : 1);

	if (s->until == 0 || p->start < s->since)
		s->since = p->start;
	if (until > s->until)
		s->until = until;
}

static enum kp_err
add_rows(struct kp_query *q, size_t file, const struct kp_query_range *r,
    struct stack_totals *sum, struct kp_query_stacks *s)
{
	struct range_rows rows;
	struct read *rd;

	range_rows_start(&rows, q, file, r, (struct range_use){ .by_node = true,
		.of = { r->identity, r->identity_glob } },
	    ROWS("time_window", "stack_stat", "window_id"),
	    ROWS("level_sum", "level_stack", "sum_id"));
	while ((rd = range_rows_next(&rows)) != NULL) {
		add_row(rd, r, sum, s);
		widen(s, rows.piece);
	}
	return range_rows_end(&rows);
}

/* ---- texts ---- */

enum { NODE, IDENTITY, PATH, STACK, NAMES };

static const char *const name_sql[NAMES] = {
	[NODE] = "select name from node where id = ?",
	[IDENTITY] = "select name from identity where id = ?",
	[PATH] = "select path from stack_path where id = ?",
	[STACK] = "select frames from stack where id = ?",
};

/* Moves at most `limit` rows of the sum to the result. */
static enum kp_err
take_rows(struct kp_query *q, size_t file, struct stack_totals *sum, size_t limit,
    struct kp_query_stacks *s)
{
	size_t n = sum->n < limit ? sum->n : limit;
	struct kp_query_stack *v;
	const struct stack_row *r;
	struct read names[NAMES];
	enum kp_err err = KP_OK, err2;

	if (sum->n > 1)
		qsort(sum->v, sum->n, sizeof(*sum->v), time_order);
	for (size_t i = n; i < sum->n; i++)
		leave(s, sum->v[i].samples, sum->v[i].w_time);
	v = reallocarray(s->v, s->n + n + 1, sizeof(*v));
	if (v == NULL)
		return KP_ENOMEM;
	s->v = v;
	for (int i = 0; i < NAMES; i++)
		read_start_file(&names[i], q, file, name_sql[i]);
	for (r = sum->v; r < sum->v + n; r++)
		s->v[s->n++] = (struct kp_query_stack){
			.node = read_name(&names[NODE], r->node),
			.identity = read_name(&names[IDENTITY], r->identity),
			.path = read_name(&names[PATH], r->path),
			.frames = read_name(&names[STACK], r->stack),
			.state = r->state, .samples = r->samples,
			.time = r->time, .w_time = r->w_time };
	for (int i = 0; i < NAMES; i++) {
		err2 = read_end(&names[i]);
		err = err != KP_OK ? err : err2;
	}
	return err;
}

/* ---- the rows of all files ---- */

static int
by_names(const void *pa, const void *pb)
{
	const struct kp_query_stack *a = pa, *b = pb;
	int d = strcmp(a->node, b->node);

	if (d == 0)
		d = strcmp(a->identity, b->identity);
	if (d == 0)
		d = strcmp(a->path, b->path);
	if (d == 0)
		d = strcmp(a->frames, b->frames);
	return d != 0 ? d : (a->state > b->state) - (a->state < b->state);
}

static int
by_time(const void *pa, const void *pb)
{
	const struct kp_query_stack *a = pa, *b = pb;

	if (a->w_time != b->w_time)
		return a->w_time < b->w_time ? 1 : -1;
	return by_names(pa, pb);
}

/* Adds up rows of several files that have the same names. */
static void
unite(struct kp_query_stacks *s)
{
	struct kp_query_stack *last;
	size_t n = 0;

	qsort(s->v, s->n, sizeof(*s->v), by_names);
	for (size_t i = 0; i < s->n; i++) {
		last = n > 0 ? &s->v[n - 1] : NULL;
		if (last == NULL || by_names(last, &s->v[i]) != 0) {
			s->v[n++] = s->v[i];
			continue;
		}
		last->samples += s->v[i].samples;
		last->time = sat_add(last->time, s->v[i].time);
		last->w_time = sat_add(last->w_time, s->v[i].w_time);
	}
	s->n = n;
}

static void
order_and_limit(struct kp_query_stacks *s, size_t limit, bool several)
{
	if (several && s->n > 1)
		unite(s);
	if (s->n > 1)
		qsort(s->v, s->n, sizeof(*s->v), by_time);
	for (; s->n > limit; s->n--)
		leave(s, s->v[s->n - 1].samples, s->v[s->n - 1].w_time);
}

enum kp_err
kp_query_stacks(struct kp_query *q, const struct kp_query_range *r,
    size_t limit, struct kp_query_stacks *out)
{
	bool several = q->nfiles > 1;
	size_t each = several || limit > KP_QUERY_STACKS_MAX ?
	    KP_QUERY_STACKS_MAX : limit;
	struct kp_query_stacks s = { .n = 0 };
	struct stack_totals sum = { .n = 0 };
	struct kp_query_range whole;
	enum kp_err err;

	kp_query_hold(q);
	err = range_whole(q, r, &whole);
	for (size_t i = 0; i < q->nfiles && err == KP_OK; i++) {
		err = add_rows(q, i, &whole, &sum, &s);
		if (err == KP_OK)
			err = take_rows(q, i, &sum, each, &s);
		stack_totals_free(&sum);
	}
	kp_query_release(q);
	if (err != KP_OK) {
		kp_query_stacks_free(&s);
		return err;
	}
	order_and_limit(&s, limit, several);
	*out = s;
	return KP_OK;
}

void
kp_query_stacks_free(struct kp_query_stacks *s)
{
	free(s->v);
	*s = (struct kp_query_stacks){ .n = 0 };
}
