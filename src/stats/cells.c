/*
 * cells.c - keeps the running window's cells.  They are only ever added, and
 * the whole array is handed over when the window closes.
 */
#include <stdlib.h>

#include "base/vec.h"
#include "cells.h"

void
cells_free(struct cells *cs)
{
	for (size_t i = 0; i < cs->n; i++)
		kp_cell_free(&cs->v[i]);
	free(cs->v);
	map_free(&cs->at);
	*cs = (struct cells){ 0 };
}

struct kp_cell *
cells_find(const struct cells *cs, uint64_t key)
{
	uint64_t *at = map_get(&cs->at, key);

	return at != NULL ? &cs->v[*at] : NULL;
}

struct kp_cell *
cells_add(struct cells *cs, uint64_t key)
{
	if (vec_room(&cs->v, &cs->room, cs->n, VEC_NO_CAP) != KP_OK ||
	    !map_put(&cs->at, key, cs->n))
		return NULL;
	cs->v[cs->n] = (struct kp_cell){ .min = -1 };
	return &cs->v[cs->n++];
}

struct kp_cell *
cells_take(struct cells *cs)
{
	struct kp_cell *v = cs->v;

	map_clear(&cs->at);
	cs->v = NULL;
	cs->n = cs->room = 0;
	return v;
}
