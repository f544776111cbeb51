/*
 * cells.c - the running window's cells: an array, and an open-addressing
 * hash of indices into it.  Cells are only ever added, and the whole array
 * is handed on when the window closes.
 */
#include <stdlib.h>
#include <string.h>

#include "cells.h"

static size_t
slot_of(const struct cells *cs, uint64_t key)
{
	/* Fibonacci hashing: the high bits are the well mixed ones */
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
	    (cs->nslots - 1);
}

void
cells_free(struct cells *cs)
{
	for (size_t i = 0; i < cs->n; i++)
		kp_hist_free(&cs->v[i].hist);
	free(cs->v);
	free(cs->key);
	free(cs->slot);
	*cs = (struct cells){ 0 };
}

struct kp_cell *
cells_find(const struct cells *cs, uint64_t key)
{
	size_t s;

	if (cs->nslots == 0)
		return NULL;
	for (s = slot_of(cs, key); cs->slot[s] != 0;
	    s = (s + 1) & (cs->nslots - 1)) {
		if (cs->key[cs->slot[s] - 1] == key)
			return &cs->v[cs->slot[s] - 1];
	}
	return NULL;
}

static void
slot_put(struct cells *cs, size_t i)
{
	size_t s = slot_of(cs, cs->key[i]);

	while (cs->slot[s] != 0)
		s = (s + 1) & (cs->nslots - 1);
	cs->slot[s] = (uint32_t)i + 1;
}

static bool
grow_slots(struct cells *cs)
{
	size_t n = cs->nslots > 0 ? cs->nslots * 2 : 256;
	uint32_t *slot = calloc(n, sizeof(*slot));

	if (slot == NULL)
		return false;
	free(cs->slot);
	cs->slot = slot;
	cs->nslots = n;
	for (size_t i = 0; i < cs->n; i++)
		slot_put(cs, i);
	return true;
}

static bool
grow_cells(struct cells *cs)
{
	size_t cap = cs->cap > 0 ? cs->cap * 2 : 64;
	struct kp_cell *v;
	uint64_t *key;

	v = realloc(cs->v, cap * sizeof(*v));
	if (v == NULL)
		return false;
	cs->v = v;
	key = realloc(cs->key, cap * sizeof(*key));
	if (key == NULL)
		return false;
	cs->key = key;
	cs->cap = cap;
	return true;
}

struct kp_cell *
cells_add(struct cells *cs, uint64_t key)
{
	if (cs->n == cs->cap && !grow_cells(cs))
		return NULL;
	if (2 * (cs->n + 1) > cs->nslots && !grow_slots(cs))
		return NULL;
	cs->v[cs->n] = (struct kp_cell){ .min = -1 };
	cs->key[cs->n] = key;
	slot_put(cs, cs->n);
	return &cs->v[cs->n++];
}

struct kp_cell *
cells_take(struct cells *cs)
{
	struct kp_cell *v = cs->v;

	free(cs->key);
	cs->v = NULL;
	cs->key = NULL;
	cs->n = cs->cap = 0;
	if (cs->nslots > 0)
		memset(cs->slot, 0, cs->nslots * sizeof(*cs->slot));
	return v;
}
