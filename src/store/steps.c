/*
 * steps.c - reads how long requests took in each step of a range, by node and request
 * type.
 *
 * It reads windows, not sums: a change is dated by them.  Names are the same pointers in
 * all rows (read_text()), so they are what a series is found by.
 */
#include <stdlib.h>

#include "base/map.h"
#include "range.h"

/* Names are numbered as they come; 0: no memory. */
static uint64_t
number_of(struct map *names, const char *name)
{
	uint64_t key = (uint64_t)(uintptr_t)name;
	const uint64_t *n = map_get(names, key);

	if (n != NULL)
		return *n;
	return map_put(names, key, names->len + 1) ? names->len : 0;
}

struct finding {
	struct map names, series;
};

/* The series of this node and request type, which is made if there is room. */
static struct kp_steps_of *
series_of(struct kp_steps *s, struct finding *f, const char *node,
    const char *identity)
{
	uint64_t key = number_of(&f->names, node) << 32 |
	    number_of(&f->names, identity);
	const uint64_t *i = map_get(&f->series, key);
	struct kp_steps_of *of;

	if (i != NULL)
		return &s->of[*i];
	if (key >> 32 == 0 || (uint32_t)key == 0 || s->nof == KP_STEPS_SERIES_MAX ||
	    vec_room_by_len(&s->of, s->nof, VEC_NO_CAP) != KP_OK)
		return NULL;
	of = &s->of[s->nof];
	*of = (struct kp_steps_of){ .node = node, .identity = identity,
		.v = calloc(s->n, sizeof(*of->v)) };
	if (of->v == NULL || !map_put(&f->series, key, s->nof)) {
		free(of->v);
		return NULL;
	}
	s->nof++;
	return of;
}

static void
add_row(struct kp_step *v, const struct read *rd)
{
	v->sampled += (float)read_int(rd, 3);
	v->requests += (float)read_int(rd, 4);
	v->raised += (float)read_int(rd, 5);
	v->timed += (float)read_int(rd, 6);
	v->total += (float)read_int(rd, 7);
	v->unseen += (float)kp_calls_unseen((uint64_t)read_int(rd, 8),
	    (uint64_t)read_int(rd, 9), (uint64_t)read_int(rd, 10));
}

static enum kp_err
read_steps(struct kp_query *q, const struct kp_query_range *r, struct kp_steps *s)
{
	struct finding f = { 0 };
	struct kp_steps_of *of;
	struct read rd;
	int64_t at;

	read_start(&rd, q, "select w.start_ns, n.name, i.name, s.requests,"
	    " s.w_requests, s.w_raised, s.w_timed, s.w_total_ns, s.w_calls,"
	    " s.w_unfinished, s.w_unknown_outcomes + s.w_ambiguous"
	    " from time_window w join node n on n.id = w.node_id"
	    " join stat s on s.window_id = w.id and s.tier_id ="
	    " (select id from tier where name = '_total')"
	    " join identity i on i.id = s.identity_id" IN_RANGE
	    " and i.name <> '_total' and (?4 is null or i.name = ?4)"
	    " and (?5 is null or i.name glob ?5)");
	range_bind(&rd, r);
	read_bind_text(&rd, r->identity);
	read_bind_text(&rd, r->identity_glob);
	while (read_next(&rd)) {
		at = (read_int(&rd, 0) - s->start) / s->step;
		if (at < 0 || (uint64_t)at >= s->n)
			continue;
		of = series_of(s, &f, read_text(&rd, 1), read_text(&rd, 2));
		if (of != NULL)
			add_row(&of->v[at], &rd);
		else
			s->left++;
	}
	map_free(&f.names);
	map_free(&f.series);
	return read_end(&rd);
}

enum kp_err
kp_query_steps(struct kp_query *q, const struct kp_query_range *r, kp_dur_ns least,
    struct kp_steps *out)
{
	struct kp_query_range whole;
	struct kp_steps s = { 0 };
	kp_dur_ns longest = 0;
	enum kp_err err;

	kp_query_hold(q);	/* both read the same windows */
	err = range_whole(q, r, &whole);
	if (err == KP_OK)
		err = range_clip(q, &whole, &longest);
	if (err == KP_OK && longest > 0) {
		s.step = range_step(&whole, least, longest);
		s.start = whole.since - whole.since % s.step;
		s.n = (size_t)((whole.until - 1 - s.start) / s.step) + 1;
		err = s.n > KP_SERIES_STEPS_MAX ? KP_ELIMIT :
		    read_steps(q, &whole, &s);
	}
	kp_query_release(q);
	if (err == KP_OK)
		*out = s;
	else
		kp_steps_free(&s);
	return err;
}

void
kp_steps_free(struct kp_steps *s)
{
	for (size_t i = 0; i < s->nof; i++)
		free(s->of[i].v);
	free(s->of);
	*s = (struct kp_steps){ 0 };
}
