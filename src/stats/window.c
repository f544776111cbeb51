/*
 * window.c - closes windows, and copies running ones: adds up all request types,
 * sorts the cells, and hands them over.
 *
 * The running window does not change until every allocation has succeeded, so
 * that a failed rotation loses nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "state.h"

kp_dur_ns
kp_window_counted(const struct kp_window *w)
{
	kp_dur_ns length = sat_span(w->start, w->end);
	uint64_t ms = w->losses.n[KP_LOSS_UNCOUNTED];

	return ms >= (uint64_t)(length / KP_NS_PER_MS) ? 0 :
	    length - (kp_dur_ns)ms * KP_NS_PER_MS;
}

/* Begins the cell of a tier's type _total, if it has none yet. */
static void
total_begin(const struct kp_stats *st, struct kp_cell *total, uint32_t tier)
{
	if (total[tier].tier == NULL)
		total[tier] = (struct kp_cell){ .tier = tier_name(st, tier),
			.identity = kp_requests_identity(st->rs, KP_IDENT_TOTAL),
			.min = -1 };
}

/* Adds every cell to its tier's type _total. */
static enum kp_err
sum_identities(const struct kp_stats *st, struct kp_cell *total)
{
	const struct map_slot *at;
	const struct kp_cell *cell;
	enum kp_err err = KP_OK;
	size_t i = 0;
	uint32_t t;

	while (err == KP_OK && (at = map_next(&st->cells.at, &i)) != NULL) {
		t = cell_key_tier(at->key);
		cell = &st->cells.v[at->val];
		total_begin(st, total, t);
		err = kp_cell_merge(&total[t], cell);
	}
	return err;
}

/*
 * Adds what the VM counted, and calls of which nobody can tell the request, to a
 * window that has figures.  A tier with such calls has a cell then, though no measured
 * request has one.
 */
static void
add_calls(const struct kp_stats *st, struct kp_cell *total)
{
	for (uint32_t t = 0; t <= st->conf->ntiers && st->cells.n > 0; t++) {
		if (st->calls[t].counted == 0 && st->calls[t].crossed == 0)
			continue;
		total_begin(st, total, t);
		total[t].has_gc |= st->has_gc;
		total[t].has_out |= st->conf->scheduling;
		total[t].counted = st->calls[t].counted;
		total[t].strayed += st->calls[t].crossed;
		total[t].missed += st->calls[t].missed;
	}
}

/* A cell and its sort key. */
struct ranked {
	uint32_t tier;
	bool total;
	const struct kp_cell *cell;
};

static int
ranked_cmp(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;

	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	if (a->total != b->total)
		return a->total ? -1 : 1;
	return strcmp(a->cell->identity, b->cell->identity);
}

static size_t
rank_cells(const struct kp_stats *st, const struct kp_cell *total,
    struct ranked *out)
{
	const struct map_slot *at;
	size_t n = 0, i = 0;

	for (uint32_t t = 0; t < TIERS_MAX; t++) {
		if (total[t].tier != NULL)
			out[n++] = (struct ranked){ t, true, &total[t] };
	}
	while ((at = map_next(&st->cells.at, &i)) != NULL)
		out[n++] = (struct ranked){ cell_key_tier(at->key), false,
			&st->cells.v[at->val] };
	qsort(out, n, sizeof(*out), ranked_cmp);
	return n;
}

static struct kp_window *
window_new(const struct kp_stats *st, size_t cells)
{
	struct kp_window *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->cells = calloc(cells, sizeof(*w->cells));
	if (w->cells == NULL) {
		free(w);
		return NULL;
	}
	w->node = st->node;
	w->sampled = st->sampled;
	w->losses = st->losses;
	return w;
}

/* Gives the window its cells; copy: st keeps its histograms. */
static enum kp_err
fill_cells(struct kp_window *w, const struct ranked *order, size_t n, bool copy)
{
	enum kp_err err = KP_OK;
	struct kp_cell *c;

	for (size_t i = 0; i < n; i++) {
		c = &w->cells[w->ncells++];
		*c = *order[i].cell;
		/* those of sums are the window's own in any case */
		if (!copy || order[i].total)
			continue;
		kp_hist_init(&c->hist);
		kp_hist_init(&c->async_hist);
		if (err == KP_OK)
			err = kp_hist_merge(&c->hist, &order[i].cell->hist);
		if (err == KP_OK)
			err = kp_hist_merge(&c->async_hist,
			    &order[i].cell->async_hist);
	}
	return err;
}

static struct kp_window *
window_make(const struct kp_stats *st, kp_wall_ns start, kp_wall_ns end,
    bool copy)
{
	struct kp_cell *total = calloc(TIERS_MAX, sizeof(*total));
	struct kp_window *w = window_new(st, st->cells.n + TIERS_MAX);
	struct ranked *order = calloc(st->cells.n + TIERS_MAX, sizeof(*order));
	enum kp_err err = total != NULL ? sum_identities(st, total) : KP_ENOMEM;

	if (w == NULL || order == NULL || err != KP_OK) {
		for (uint32_t t = 0; total != NULL && t < TIERS_MAX; t++)
			kp_cell_free(&total[t]);
		free(total);
		kp_window_free(w);
		free(order);
		return NULL;
	}
	add_calls(st, total);
	w->start = start;
	w->end = end;
	err = fill_cells(w, order, rank_cells(st, total, order), copy);
	free(total);
	free(order);
	if (err == KP_OK)
		return w;
	kp_window_free(w);
	return NULL;
}

struct kp_window *
kp_stats_copy(const struct kp_stats *st, kp_wall_ns start, kp_wall_ns end)
{
	return window_make(st, start, end, true);
}

struct kp_window *
kp_stats_rotate(struct kp_stats *st, kp_wall_ns start, kp_wall_ns end)
{
	struct kp_window *w = window_make(st, start, end, false);

	if (w == NULL)
		return NULL;
	/* Only the array: the window has the histograms now. */
	free(cells_take(&st->cells));
	w->nwaits = st->waits.n;
	w->waits = waits_take(&st->waits);
	st->sampled = 0;
	if (w->ncells > 0)
		memset(st->calls, 0, sizeof(st->calls));
	st->losses = (struct kp_losses){ 0 };
	return w;
}
