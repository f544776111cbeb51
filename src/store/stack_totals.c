/*
 * stack_totals.c - a hash table of rows by their ids and state.
 *
 * Rows lie in an array in the order in which they came; the table has their
 * indices.
 */
#include <stdlib.h>

#include "base/sat.h"
#include "base/vec.h"
#include "stack_totals.h"

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
	    a->state == b->state;
}

/* Returns the slot of the row, or the free one where it belongs. */
static size_t
slot_of(const struct stack_totals *s, const struct stack_row *r)
{
	const uint64_t of[] = { (uint64_t)r->stack, (uint64_t)r->path,
		(uint64_t)r->identity, (uint64_t)r->node, r->state };
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
by_time(const struct stack_row *a, const struct stack_row *b)
{
	if (a->w_time != b->w_time)
		return a->w_time < b->w_time ? 1 : -1;
	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	if (a->path != b->path)
		return a->path < b->path ? -1 : 1;
	return (a->state > b->state) - (a->state < b->state);
}

static int
identity_order(const void *pa, const void *pb)
{
	const struct stack_row *a = pa, *b = pb;

	if (a->identity != b->identity)
		return a->identity < b->identity ? -1 : 1;
	return by_time(a, b);
}

static int
time_order(const void *pa, const void *pb)
{
	return by_time(pa, pb);
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
		}
		err = stack_totals_add(&kept, r);
	}
	stack_totals_free(&rest);
	stack_totals_free(err == KP_OK ? s : &kept);
	if (err == KP_OK)
		*s = kept;
	return err;
}
