/*
 * multi_steps.c - the windows of several files, added up step by step.
 *
 * Steps lie on multiples of their length since 1970, so those of all files
 * fall together once all have the same length: that of whichever file needs
 * the longest.
 */
#include <stdlib.h>
#include <string.h>

#include "range.h"
#include "multi.h"
#include "one_file.h"
#include "base/sat.h"

#define STEPS_WANTED 150	/* as in series.c, of what all files cover */

static void
parts_free(struct kp_series *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		kp_series_free(&v[i]);
	free(v);
}

/* Asks all again whose steps are shorter than the longest, until none are. */
static enum kp_err
ask_parts(struct kp_query *set, const struct kp_query_range *r,
    struct kp_series_want *want, struct kp_series *v)
{
	kp_dur_ns longest = want->step;
	enum kp_err err = KP_OK;
	bool again;

	do {
		again = false;
		want->step = longest;
		for (size_t i = 0; i < set->nparts && err == KP_OK; i++) {
			if (v[i].step >= longest && v[i].step > 0)
				continue;
			kp_series_free(&v[i]);
			err = query_part_fail(set, set->parts[i],
			    file_series(set->parts[i], r, want, &v[i]));
			again = true;
			if (v[i].step > longest)
				longest = v[i].step;
		}
	} while (again && err == KP_OK);
	return err;
}

static enum kp_err
add_cells(const struct kp_series *s, struct kp_series_step *to,
    const struct kp_query_tiers *tiers, const struct kp_series_step *from)
{
	enum kp_err err = kp_cell_merge(&to->cells[0], &from->cells[0]);
	size_t at;

	for (size_t t = 0; t < tiers->n && err == KP_OK; t++) {
		for (at = 0; strcmp(s->tiers.v[at], tiers->v[t]) != 0;)
			if (++at == s->tiers.n)
				break;	/* it has come since */
		if (at < s->tiers.n)
			err = kp_cell_merge(&to->cells[at + 1],
			    &from->cells[t + 1]);
	}
	return err;
}

static enum kp_err
add_part(struct kp_series *s, const struct kp_series *part)
{
	int64_t shift = (part->start - s->start) / s->step, at;
	const struct kp_series_step *from;
	struct kp_series_step *to;
	enum kp_err err = KP_OK;

	for (size_t i = 0; i < part->n && err == KP_OK; i++) {
		at = (int64_t)i + shift;
		/* one that has nothing in this range has a step elsewhere */
		if (at < 0 || (uint64_t)at >= s->n)
			continue;
		from = &part->v[i];
		to = &s->v[at];
		to->windows += from->windows;
		to->unseen += from->unseen;
		to->entry_calls += from->entry_calls;
		to->sampled += from->sampled;
		to->events += from->events;
		to->agent = sat_add(to->agent, from->agent);
		to->cost = sat_add(to->cost, from->cost);
		for (int k = 0; k < KP_LOSS_COUNT; k++)
			to->losses.n[k] += from->losses.n[k];
		if (to->cells != NULL && from->cells != NULL)
			err = add_cells(s, to, &part->tiers, from);
	}
	return err;
}

struct cover {
	struct kp_series *s;
	kp_wall_ns seen;
};

/* In order of start; those of several nodes overlap. */
static void
cover_window(void *ctx, kp_wall_ns start, kp_wall_ns end)
{
	struct cover *c = ctx;
	int64_t i = (start - c->s->start) / c->s->step;
	struct kp_series_step *v;

	if (start < c->s->start || (uint64_t)i >= c->s->n || end <= c->seen)
		return;
	v = &c->s->v[i];
	v->covered = sat_add(v->covered, sat_span(
	    start > c->seen ? start : c->seen, end));
	c->seen = end;
}

static enum kp_err
put_together(struct kp_query *set, const struct kp_query_range *r,
    const struct kp_series_want *want, const struct kp_series *v,
    struct kp_series *s)
{
	struct cover cover = { s, INT64_MIN };
	enum kp_err err = kp_query_tiers(set, &s->tiers);

	s->step = want->step;
	if (err == KP_OK)
		err = series_make_steps(s, r, want->cells);
	for (size_t i = 0; i < set->nparts && err == KP_OK; i++)
		err = add_part(s, &v[i]);
	if (err == KP_OK)
		err = multi_windows(set, r, cover_window, &cover);
	return err;
}

/* As far as any file has windows. */
static enum kp_err
clip(struct kp_query *set, struct kp_query_range *r)
{
	kp_wall_ns first, last;
	enum kp_err err = kp_query_span(set, &first, &last);

	if (r->since < first)
		r->since = first;
	if (r->until > last)
		r->until = last;
	if (r->until < r->since)
		r->until = r->since;
	return err;
}

static enum kp_err
multi_series(struct kp_query *set, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *out)
{
	struct kp_query_range clipped = *r;
	struct kp_series_want same = *want;
	struct kp_series s = { 0 }, *v;
	enum kp_err err;

	v = calloc(set->nparts, sizeof(*v));
	if (v == NULL)
		return KP_ENOMEM;
	query_hold(set);
	err = clip(set, &clipped);
	if (same.step == 0)
		same.step = (clipped.until - clipped.since) / STEPS_WANTED;
	if (err == KP_OK)
		err = multi_shares(set, r);
	if (err == KP_OK)
		err = ask_parts(set, &clipped, &same, v);
	if (err == KP_OK)
		err = put_together(set, &clipped, &same, v, &s);
	query_release(set);
	parts_free(v, set->nparts);
	if (err == KP_OK)
		*out = s;
	else
		kp_series_free(&s);
	return err;
}

enum kp_err
kp_query_series(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *out)
{
	return q->nparts > 0 ? multi_series(q, r, want, out) :
	    file_series(q, r, want, out);
}
