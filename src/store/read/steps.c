/*
 * steps.c - chooses a step that a time axis can show, and adds each window,
 * loss and cell to the step that it starts in.
 */
#include <stdlib.h>
#include <string.h>

#include "store/cell_row.h"
#include "range.h"
#include "steps.h"
#include "base/sat.h"

#define STEPS_WANTED 150

/* The possible steps in s: those that make a readable time axis. */
static const int64_t nice[] = { 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
	1800, 3600, 7200, 10800, 21600, 43200, 86400 };
#define NNICE (sizeof(nice) / sizeof(nice[0]))

void
kp_series_free(struct kp_series *s)
{
	for (size_t i = 0; i < s->n && s->v != NULL; i++) {
		for (size_t t = 0; s->v[i].cells != NULL && t <= s->tiers.n; t++)
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

struct kp_cell *
range_blank(const struct kp_query_tiers *tiers)
{
	struct kp_cell *v = calloc(tiers->n + 1, sizeof(*v));

	for (size_t t = 0; v != NULL && t <= tiers->n; t++)
		v[t] = (struct kp_cell){ .min = -1, .tier = t == 0 ?
			"_total" : tiers->v[t - 1] };
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
		s->v[i].cells = range_blank(&s->tiers);
		if (s->v[i].cells == NULL)
			return KP_ENOMEM;
	}
	return KP_OK;
}

/* Returns NULL for a window that was written since. */
static struct kp_series_step *
step_of(const struct kp_series *s, kp_wall_ns start)
{
	int64_t i = (start - s->start) / s->step;

	return i >= 0 && (uint64_t)i < s->n ? &s->v[i] : NULL;
}

/* Returns whether nothing was counted in all of the window, so that its zeros
   are not figures. */
static bool
is_unseen(kp_dur_ns length, uint64_t calls, uint64_t uncounted_ms)
{
	/* its ends and that time are by different clocks */
	const double most = 0.99;

	return calls == 0 && length > 0 && (double)uncounted_ms >=
	    most * (double)length / (double)KP_NS_PER_MS;
}

/* Adds windows in order of start; those of several nodes overlap. */
static enum kp_err
add_windows(struct kp_query *q, const struct kp_query_range *r,
    struct kp_series *s)
{
	struct kp_series_step *v;
	kp_wall_ns start, end, seen = 0;
	struct read rd;

	read_start(&rd, q, "select w.start_ns, w.end_ns, w.entry_calls,"
	    " w.sampled, (select l.n from loss l where l.window_id = w.id"
	    " and l.cause_id = (select id from cause where name ="
	    " 'uncounted')), c.events, c.agent_ns, c.cost_ns"
	    " from time_window w left join cost c on c.window_id = w.id"
	    IN_RANGE " order by w.start_ns");
	read_order(&rd, 0, 1);
	range_bind(&rd, r);
	while (read_next(&rd)) {
		start = read_int(&rd, 0);
		end = read_int(&rd, 1);
		v = step_of(s, start);
		if (v == NULL)
			continue;
		if (end > seen) {
			v->covered = sat_add(v->covered, sat_span(
			    start > seen ? start : seen, end));
			seen = end;
		}
		v->windows++;
		v->entry_calls += (uint64_t)read_int(&rd, 2);
		v->sampled += (uint64_t)read_int(&rd, 3);
		v->unseen += is_unseen(sat_span(start, end),
		    (uint64_t)(read_int(&rd, 2) | read_int(&rd, 3)),
		    (uint64_t)read_int(&rd, 4));
		v->events += (uint64_t)read_int(&rd, 5);
		v->agent = sat_add(v->agent, read_int(&rd, 6));
		v->cost = sat_add(v->cost, read_int(&rd, 7));
	}
	return read_end(&rd);
}

static enum kp_err
add_losses(struct kp_query *q, const struct kp_query_range *r,
    struct kp_series *s)
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
		for (int i = 0; v != NULL && i < KP_LOSS_COUNT; i++)
			if (strcmp(name, kp_loss_name(i)) == 0)
				v->losses.n[i] += (uint64_t)read_int(&rd, 2);
	}
	return read_end(&rd);
}

static size_t
tier_of(const struct kp_series *s, const char *name)
{
	size_t t = 0;

	if (strcmp(name, "_total") == 0)
		return 0;
	while (t < s->tiers.n && strcmp(s->tiers.v[t], name) != 0)
		t++;
	return t + 1;
}

/*
 * Selects cells by their whole key, so that it reads only the one request type.
 */
#define CELLS(table, of) "select " CELL_COLUMNS ", t.name from tier t" \
	" cross join " table " s" \
	" on s." of " = ?1 and s.tier_id = t.id and s.identity_id =" \
	" (select id from identity where name = ?2)" \
	" where ?3 is null or t.name = ?3"

static void
add_cell(struct kp_series *s, struct read *rd, kp_wall_ns start, bool several,
    struct kp_cell *row)
{
	size_t t = tier_of(s, read_text(rd, CELL_END));
	struct kp_series_step *v = step_of(s, start);

	if (v == NULL || t > s->tiers.n)
		return;
	cell_row_read(rd->st, row);
	if (several)
		range_shares(row);
	if (kp_cell_merge(&v->cells[t], row) != KP_OK)
		read_nomem(rd);
}

static enum kp_err
add_cells(struct kp_query *q, size_t file, const struct kp_query_range *r,
    const char *tier, bool several, struct kp_series *s)
{
	struct kp_cell row = { .min = -1 };
	struct range_cells cells;
	enum kp_err err, err2;
	kp_wall_ns start;
	struct read *rd;

	err = range_cells_start(&cells, q, file, r,
	    (struct range_use){ .step = s->step },
	    CELLS("stat", "window_id"),
	    CELLS("level_stat", "sum_id"));
	while (err == KP_OK && (rd = range_cells_next(&cells, &start)) != NULL) {
		read_bind_text(rd, r->identity != NULL ? r->identity :
		    "_total");
		read_bind_text(rd, tier);
		while (read_next(rd))
			add_cell(s, rd, start, several, &row);
	}
	kp_cell_free(&row);
	err2 = range_cells_end(&cells);
	return err != KP_OK ? err : err2;
}

static enum kp_err
add_all(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *s)
{
	enum kp_err err = add_windows(q, r, s);
	bool several;

	if (err == KP_OK)
		err = add_losses(q, r, s);
	if (err == KP_OK && want->cells)
		err = range_several(q, r, &several);
	for (size_t i = 0; i < q->nfiles && err == KP_OK && want->cells; i++)
		err = add_cells(q, i, r, want->tier, several, s);
	return err;
}

enum kp_err
kp_query_series(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *out)
{
	struct kp_query_range clipped;
	struct kp_series s = { 0 };
	kp_dur_ns longest = 0, least;
	enum kp_err err;

	query_hold(q);	/* all queries must see the same windows */
	err = range_whole(q, r, &clipped);
	if (err == KP_OK)
		err = clip(q, &clipped, &longest);
	if (err == KP_OK)
		err = kp_query_tiers(q, &s.tiers);
	least = want->step > 0 ? want->step :
	    (clipped.until - clipped.since) / STEPS_WANTED;
	/* windows of earlier versions end a little late */
	longest -= longest / 10;
	s.step = nice_step(least > longest ? least : longest);
	if (err == KP_OK)
		err = make_steps(&s, &clipped, want->cells);
	if (err == KP_OK)
		err = add_all(q, &clipped, want, &s);
	query_release(q);
	if (err == KP_OK)
		*out = s;
	else
		kp_series_free(&s);
	return err;
}
