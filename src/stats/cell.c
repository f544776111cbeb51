/*
 * cell.c - merges and frees cells and windows.  It is separate from the rest
 * of this folder so that the store and the client need not link requests.
 */
#include <stdlib.h>

#include "base/sat.h"
#include "kprofd/stats.h"

void
kp_cell_free(struct kp_cell *c)
{
	kp_hist_free(&c->hist);
	kp_hist_free(&c->async_hist);
}

static void
cells_release(struct kp_cell *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		kp_cell_free(&v[i]);
	free(v);
}

void
kp_window_free(struct kp_window *w)
{
	if (w == NULL)
		return;
	cells_release(w->cells, w->ncells);
	for (size_t i = 0; i < w->nwaits; i++)
		kp_hist_free(&w->waits[i].hist);
	free(w->waits);
	free(w->stacks);
	free(w->stack_texts);
	free(w->usage);
	free(w);
}

enum kp_err
kp_cell_merge(struct kp_cell *to, const struct kp_cell *from)
{
	enum kp_err err = kp_hist_merge(&to->hist, &from->hist);

	/* a histogram at its limit is left out: the sums are still true */
	if (err != KP_ENOMEM)
		err = kp_hist_merge(&to->async_hist, &from->async_hist);
	if (err == KP_ENOMEM)
		return err;
#define COUNT(X, f, null) to->f += from->f, to->w_##f += from->w_##f;
#define TIME(X, f, null) to->f = sat_add(to->f, from->f), \
	to->w_##f = sat_add(to->w_##f, from->w_##f);
#define ONCE(X, f, null) to->f += from->f;
	KP_CELL_FIGURES(COUNT, TIME, ONCE, )
#undef COUNT
#undef TIME
#undef ONCE
	to->has_gc |= from->has_gc;
	to->has_out |= from->has_out;
	if (from->min >= 0 && (to->min < 0 || from->min < to->min))
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	if (from->async_max > to->async_max)
		to->async_max = from->async_max;
	return KP_OK;
}

enum kp_err
kp_wait_cell_merge(struct kp_wait_cell *to, const struct kp_wait_cell *from)
{
	enum kp_err err = kp_hist_merge(&to->hist, &from->hist);

	if (err == KP_ENOMEM)
		return err;
	to->messages += from->messages;
	to->w_messages += from->w_messages;
	to->away += from->away;
	to->w_away += from->w_away;
	to->wait = sat_add(to->wait, from->wait);
	to->w_wait = sat_add(to->w_wait, from->w_wait);
	if (from->min >= 0 && (to->min < 0 || from->min < to->min))
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	return KP_OK;
}
