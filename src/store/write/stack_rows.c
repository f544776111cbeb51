/*
 * stack_rows.c - writes sampled stacks as rows: those of windows, of windows
 * that are rolled up, and of sums.
 *
 * Ids of texts are looked up last, so that what is over the limit adds none.
 */
#include <string.h>

#include "kprofd/stacks.h"
#include "store/db.h"
#include "store/stack_totals.h"

#define OTHER "_other"

static const struct stack_limits of_window = { .of_identity = 2000,
	.stacks = 2000, .others = 1000 };
/* A hundred of each of ten types; a year of hours has 9000 such sums. */
static const struct stack_limits of_sum = { .of_identity = 100,
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
	const int64_t v[] = { id, r->identity, r->path, r->stack, r->state,
		(int64_t)r->samples, r->time, r->w_time };

	stack_texts_use(&db->stack_texts, r->stack);
	row_start(db, into);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		row_int(db, v[i]);
	row_end(db);
}

/* ---- a window ---- */

/* Adds cell i; its stack has the id -1 - i until it is written. */
static void
add_cell(struct kp_db *db, struct stack_totals *s, const struct kp_stack_cell *c,
    size_t i, const struct stack_other *other)
{
	struct stack_row r = { .state = c->state, .samples = c->samples,
		.time = c->time, .w_time = c->w_time };

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

int64_t
db_stacks_count(struct kp_db *db, const struct range_piece *v, size_t n,
    int64_t most)
{
	int64_t rows = 0;

	for (size_t i = 0; i < n && rows <= most; i++) {
		row_start(db, v[i].sum ? ST_SUM_STACKS_N : ST_PART_STACKS_N);
		row_int(db, v[i].id);
		if (row_next(db)) {
			rows += row_get(db, 0);
			row_leave(db);
		}
	}
	return rows;
}

static void
add_piece(struct kp_db *db, struct stack_totals *s, const struct range_piece *p)
{
	struct stack_row r = { .node = 0 };

	row_start(db, p->sum ? ST_SUM_STACKS : ST_PART_STACKS);
	row_int(db, p->id);
	while (row_next(db)) {
		r.identity = row_get(db, 0);
		r.path = row_get(db, 1);
		r.stack = row_get(db, 2);
		r.state = (uint8_t)row_get(db, 3);
		r.samples = (uint64_t)row_get(db, 4);
		r.time = row_get(db, 5);
		r.w_time = row_get(db, 6);
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
