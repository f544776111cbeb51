/*
 * steps.c - reads how long requests took in each step of a range, by node and request
 * type.
 *
 * It reads windows, not sums: a change is dated by them.
 */
#include <stdlib.h>

#include "base/map.h"
#include "range.h"

#define LEFT UINT32_MAX

/* Of one file. */
struct finding {
	struct intern at;	/* of ids: an index of the series, or LEFT */
	struct read node, identity;	/* names */
};

/* Returns the index of the series of these ids, which is made if there is room. */
static uint32_t
make_series(struct kp_steps *s, struct finding *f, const int64_t ids[2])
{
	/* the same pointers in all files, see read_text() */
	struct kp_steps_of of = { .node = read_name(&f->node, ids[0]),
		.identity = read_name(&f->identity, ids[1]) };
	uint32_t i = 0;

	while (i < s->nof && (s->of[i].node != of.node || s->of[i].identity != of.identity))
		i++;
	if (i < s->nof)
		return i;
	if (s->nof == KP_STEPS_SERIES_MAX ||
	    vec_room_by_len(&s->of, s->nof, VEC_NO_CAP) != KP_OK ||
	    (of.v = calloc(s->n, sizeof(*of.v))) == NULL)
		return LEFT;
	s->of[s->nof++] = of;
	return i;
}

static struct kp_steps_of *
series_of(struct kp_steps *s, struct finding *f, const struct read *rd)
{
	const int64_t ids[] = { read_int(rd, 1), read_int(rd, 2) };
	const struct interned *known = intern_get(&f->at, ids, sizeof(ids));

	if (known == NULL)
		known = intern_put(&f->at, ids, sizeof(ids), make_series(s, f, ids));
	return known != NULL && known->val != LEFT ? &s->of[known->val] : NULL;
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
read_steps(struct kp_query *q, size_t file, const struct kp_query_range *r,
    struct kp_steps *s)
{
	struct finding f = { 0 };
	enum kp_err err, node, identity;
	struct kp_steps_of *of;
	struct read rd;
	int64_t at;

	read_start_file(&f.node, q, file, "select name from node where id = ?");
	read_start_file(&f.identity, q, file, "select name from identity where id = ?");
	read_start_file(&rd, q, file, "select w.start_ns, w.node_id, s.identity_id,"
	    " s.requests, s.w_requests, s.w_raised, s.w_timed, s.w_total_ns, s.w_calls,"
	    " s.w_unfinished, s.w_unknown_outcomes + s.w_ambiguous"
	    " from time_window w join stat s on s.window_id = w.id and s.tier_id ="
	    " (select id from tier where name = '_total')" IN_RANGE
	    " and s.identity_id <> (select id from identity where name = '_total')"
	    " and (?4 is null or s.identity_id ="
	    " (select id from identity where name = ?4))"
	    " and (?5 is null or s.identity_id in"
	    " (select id from identity where name glob ?5))");
	range_bind(&rd, r);
	read_bind_text(&rd, r->identity);
	read_bind_text(&rd, r->identity_glob);
	while (read_next(&rd)) {
		at = (read_int(&rd, 0) - s->start) / s->step;
		if (at < 0 || (uint64_t)at >= s->n)
			continue;
		of = series_of(s, &f, &rd);
		if (of != NULL)
			add_row(&of->v[at], &rd);
		else
			s->left++;
	}
	err = read_end(&rd);
	node = read_end(&f.node);
	identity = read_end(&f.identity);
	intern_free(&f.at);
	return err != KP_OK ? err : node != KP_OK ? node : identity;
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
		err = s.n > KP_SERIES_STEPS_MAX ? KP_ELIMIT : KP_OK;
		for (size_t i = 0; i < q->nfiles && err == KP_OK; i++)
			err = read_steps(q, i, &whole, &s);
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
