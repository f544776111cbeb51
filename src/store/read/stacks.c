/*
 * stacks.c - queries the sampled stacks of a range, and adds them up.
 *
 * Rows are added up by their ids in each file, and those with the longest times
 * get their texts; those of several files are united by these.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "range.h"
#include "store/stack_totals.h"

#define ROWS(of, table, id) "select w.node_id, s.identity_id, s.path_id," \
	" s.stack_id, s.state, s.samples, s.time_ns, s.w_time_ns" \
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

static void
add_row(struct read *rd, struct stack_totals *sum, struct kp_query_stacks *s)
{
	int64_t state = read_int(rd, 4);
	struct stack_row r = { .node = read_int(rd, 0),
		.identity = read_int(rd, 1), .path = read_int(rd, 2),
		.stack = read_int(rd, 3), .state = (uint8_t)state,
		.samples = (uint64_t)read_int(rd, 5), .time = read_int(rd, 6),
		.w_time = read_int(rd, 7) };
	enum kp_err err;

	/* a damaged file may have any number; later versions, more states */
	if (state < 0 || state >= KP_STACK_STATES)
		return;
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
	const struct range_use use = { .by_node = true };
	struct range_cells cells;
	enum kp_err err, err2;
	kp_wall_ns start;
	struct read *rd;
	bool any;

	err = range_cells_start(&cells, q, file, r, use,
	    ROWS("time_window", "stack_stat", "window_id"),
	    ROWS("level_sum", "level_stack", "sum_id"));
	while (err == KP_OK &&
	    (rd = range_cells_next(&cells, &start)) != NULL) {
		read_bind_text(rd, r->identity);
		read_bind_text(rd, r->identity_glob);
		for (any = false; read_next(rd); any = true)
			add_row(rd, sum, s);
		if (any)
			widen(s, &cells.pieces.v[cells.at - 1]);
	}
	err2 = range_cells_end(&cells);
	return err != KP_OK ? err : err2;
}

/* ---- texts ---- */

enum { NODE, IDENTITY, PATH, STACK, NAMES };

static const char *const name_sql[NAMES] = {
	[NODE] = "select name from node where id = ?",
	[IDENTITY] = "select name from identity where id = ?",
	[PATH] = "select path from stack_path where id = ?",
	[STACK] = "select frames from stack where id = ?",
};

static const char *
name_of(struct read *names, int64_t id)
{
	read_again(names);
	read_bind(names, id);
	return read_next(names) ? read_text(names, 0) : "";
}

static int
longest_first(const void *pa, const void *pb)
{
	const struct stack_row *a = pa, *b = pb;

	return (a->w_time < b->w_time) - (a->w_time > b->w_time);
}

static void
name_rows(struct read names[NAMES], const struct stack_row *v, size_t n,
    struct kp_query_stacks *s)
{
	for (size_t i = 0; i < n; i++) {
		s->v[s->n++] = (struct kp_query_stack){
			.node = name_of(&names[NODE], v[i].node),
			.identity = name_of(&names[IDENTITY], v[i].identity),
			.path = name_of(&names[PATH], v[i].path),
			.frames = name_of(&names[STACK], v[i].stack),
			.state = v[i].state, .samples = v[i].samples,
			.time = v[i].time, .w_time = v[i].w_time };
	}
}

/* Moves at most `limit` rows of the sum to the result. */
static enum kp_err
take_rows(struct kp_query *q, size_t file, struct stack_totals *sum, size_t limit,
    struct kp_query_stacks *s)
{
	size_t n = sum->n < limit ? sum->n : limit;
	struct kp_query_stack *v;
	struct read names[NAMES];
	enum kp_err err = KP_OK, err2;

	if (sum->n > 1)
		qsort(sum->v, sum->n, sizeof(*sum->v), longest_first);
	for (size_t i = n; i < sum->n; i++)
		leave(s, sum->v[i].samples, sum->v[i].w_time);
	v = reallocarray(s->v, s->n + n + 1, sizeof(*v));
	if (v == NULL)
		return KP_ENOMEM;
	s->v = v;
	for (int i = 0; i < NAMES; i++)
		read_start_file(&names[i], q, file, name_sql[i]);
	name_rows(names, sum->v, n, s);
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

	query_hold(q);
	err = range_whole(q, r, &whole);
	for (size_t i = 0; i < q->nfiles && err == KP_OK; i++) {
		err = add_rows(q, i, &whole, &sum, &s);
		if (err == KP_OK)
			err = take_rows(q, i, &sum, each, &s);
		stack_totals_free(&sum);
	}
	query_release(q);
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
