/*
 * multi_sum.c - the windows of a range of several files, added up.
 *
 * Each file adds up its own; cells are then put together by name, and the
 * time that is covered by whichever file is found from all their windows.
 */
#include <stdlib.h>
#include <string.h>

#include "multi.h"
#include "one_file.h"
#include "base/sat.h"

struct placed {
	struct kp_cell cell;
	size_t tier;		/* its place: 0 is _total */
};

struct pile {
	struct placed *v;
	size_t n;
	struct kp_query_tiers tiers;
};

static void
pile_free(struct pile *p)
{
	for (size_t i = 0; i < p->n; i++)
		kp_hist_free(&p->v[i].cell.hist);
	free(p->v);
	kp_query_tiers_free(&p->tiers);
}

static size_t
place_of(const struct pile *p, const char *tier)
{
	size_t t = 0;

	if (strcmp(tier, "_total") == 0)
		return 0;
	while (t < p->tiers.n && strcmp(p->tiers.v[t], tier) != 0)
		t++;
	return t + 1;
}

/* The order of kp_query_sum. */
static int
placed_cmp(const void *pa, const void *pb)
{
	const struct placed *a = pa, *b = pb;
	bool ta, tb;

	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	ta = strcmp(a->cell.identity, "_total") == 0;
	tb = strcmp(b->cell.identity, "_total") == 0;
	if (ta != tb)
		return ta ? -1 : 1;
	return strcmp(a->cell.identity, b->cell.identity);
}

/* Cells of one name become one. */
static enum kp_err
pile_unite(struct pile *p)
{
	enum kp_err err = KP_OK;
	size_t n = 0;

	if (p->n > 1)
		qsort(p->v, p->n, sizeof(*p->v), placed_cmp);
	for (size_t i = 0; i < p->n; i++) {
		if (n == 0 || placed_cmp(&p->v[n - 1], &p->v[i]) != 0) {
			p->v[n++] = p->v[i];
			continue;
		}
		if (err == KP_OK)
			err = kp_cell_merge(&p->v[n - 1].cell, &p->v[i].cell);
		kp_hist_free(&p->v[i].cell.hist);
	}
	p->n = n;
	return err;
}

/* Takes the cells of s over; no more stay than there are names. */
static enum kp_err
pile_add(struct pile *p, struct kp_query_sum *s)
{
	struct placed *v = reallocarray(p->v, p->n + s->ncells + 1,
	    sizeof(*v));

	if (v == NULL)
		return KP_ENOMEM;
	p->v = v;
	for (size_t i = 0; i < s->ncells; i++) {
		v[p->n++] = (struct placed){ s->cells[i],
			place_of(p, s->cells[i].tier) };
		s->cells[i].hist = (struct kp_hist){ 0 };
	}
	return pile_unite(p);
}

/* The cells move into the result. */
static enum kp_err
pile_take(struct pile *p, struct kp_query_sum *out)
{
	out->cells = calloc(p->n + 1, sizeof(*out->cells));
	if (out->cells == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		out->cells[i] = p->v[i].cell;
	out->ncells = p->n;
	p->n = 0;
	return KP_OK;
}

/* Of parts that have it, by their time; called before that is added up. */
static void
traced_add(struct kp_query_sum *to, const struct kp_query_sum *from)
{
	double all = (double)to->covered + (double)from->covered;
	double part = all > 0 ? (double)from->covered / all : 1;

	if (from->traced_call <= 0)
		return;
	if (to->traced_call <= 0)
		part = 1;
	to->traced_call += (kp_dur_ns)(part *
	    (double)(from->traced_call - to->traced_call));
	to->traced_caller += (kp_dur_ns)(part *
	    (double)(from->traced_caller - to->traced_caller));
	to->covered = (kp_dur_ns)all;
}

static void
add_figures(struct kp_query_sum *to, const struct kp_query_sum *from)
{
	to->windows += from->windows;
	to->entry_calls += from->entry_calls;
	to->sampled += from->sampled;
	to->uncounted |= from->uncounted;
	traced_add(to, from);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		to->losses.n[i] += from->losses.n[i];
}

/* In order of start; those of several nodes overlap. */
static void
cover_window(void *ctx, kp_wall_ns start, kp_wall_ns end)
{
	struct kp_query_sum *s = ctx;

	if (s->start == 0 && s->end == 0)
		s->start = s->end = start;
	if (end > s->end) {
		s->covered = sat_add(s->covered, sat_span(
		    start > s->end ? start : s->end, end));
		s->end = end;
	}
}

static enum kp_err
multi_sum(struct kp_query *set, const struct kp_query_range *r, bool cells,
    struct kp_query_sum *out)
{
	struct kp_query_sum sum = { 0 }, one;
	struct pile pile = { 0 };
	struct kp_query *part;
	enum kp_err err;

	query_hold(set);
	err = multi_shares(set, r);
	if (err == KP_OK)
		err = kp_query_tiers(set, &pile.tiers);
	for (size_t i = 0; i < set->nparts && err == KP_OK; i++) {
		part = set->parts[i];
		one = (struct kp_query_sum){ 0 };
		err = query_part_fail(set, part, cells ?
		    file_sum(part, r, &one) :
		    file_cover(part, r, &one));
		add_figures(&sum, &one);
		if (err == KP_OK)
			err = pile_add(&pile, &one);
		kp_query_sum_free(&one);
	}
	sum.covered = 0;	/* parts may be of the same time */
	if (err == KP_OK)
		err = multi_windows(set, r, cover_window, &sum);
	query_release(set);
	if (err == KP_OK && cells)
		err = pile_take(&pile, &sum);
	pile_free(&pile);
	if (err == KP_OK)
		*out = sum;
	else
		kp_query_sum_free(&sum);
	return err;
}

enum kp_err
kp_query_sum(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out)
{
	return q->nparts > 0 ? multi_sum(q, r, true, out) : file_sum(q, r, out);
}

enum kp_err
kp_query_cover(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out)
{
	return q->nparts > 0 ? multi_sum(q, r, false, out) :
	    file_cover(q, r, out);
}
