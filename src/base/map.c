/* map.c - probes, grows and deletes with backward shifts. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/pool.h"

#define MAP_MIN 64

void
map_free(struct map *m)
{
	free(m->slots);
	*m = (struct map){ 0 };
}

void
map_clear(struct map *m)
{
	if (m->len > 0)
		memset(m->slots, 0, m->cap * sizeof(*m->slots));
	m->len = 0;
}

uint64_t *
map_get(const struct map *m, uint64_t key)
{
	size_t i;

	if (m->len == 0)
		return NULL;
	for (i = map_home(m, key); m->slots[i].key != 0;
	     i = (i + 1) & (m->cap - 1))
		if (m->slots[i].key == key)
			return &m->slots[i].val;
	return NULL;
}

static void
map_place(struct map *m, uint64_t key, uint64_t val)
{
	size_t i = map_home(m, key);

	while (m->slots[i].key != 0)
		i = (i + 1) & (m->cap - 1);
	m->slots[i] = (struct map_slot){ key, val };
	m->len++;
}

static bool
map_grow(struct map *m)
{
	struct map bigger = { .cap = m->cap > 0 ? m->cap * 2 : MAP_MIN };
	size_t bytes = bigger.cap * sizeof(*bigger.slots);

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (bigger.slots == NULL)
		return false;
	bigger.shift = 64 - __builtin_ctzll(bigger.cap);
	pool_huge(bigger.slots, bytes);
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].key != 0)
			map_place(&bigger, m->slots[i].key, m->slots[i].val);
	free(m->slots);
	*m = bigger;
	return true;
}

bool
map_put(struct map *m, uint64_t key, uint64_t val)
{
	uint64_t *at = map_get(m, key);

	if (key == 0)
		return false;	/* its slot would count as empty */
	if (at != NULL) {
		*at = val;
		return true;
	}
	if (m->len * 4 >= m->cap * 3 && !map_grow(m))
		return false;
	map_place(m, key, val);
	return true;
}

void
map_remove(struct map *m, uint64_t key)
{
	uint64_t *at = map_get(m, key);
	size_t hole, i, home;

	if (at == NULL)
		return;
	hole = (size_t)((struct map_slot *)(void *)((char *)at -
	    offsetof(struct map_slot, val)) - m->slots);
	for (i = (hole + 1) & (m->cap - 1); m->slots[i].key != 0;
	     i = (i + 1) & (m->cap - 1)) {
		home = map_home(m, m->slots[i].key);
		/* The entry at i may move to the hole if its home allows it. */
		if (((i - home) & (m->cap - 1)) >= ((i - hole) & (m->cap - 1))) {
			m->slots[hole] = m->slots[i];
			hole = i;
		}
	}
	m->slots[hole].key = 0;
	m->len--;
}
