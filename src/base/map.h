/*
 * map.h - an open-addressing table from u64 keys to u64 values.
 *
 * Linear probing with backward-shift deletion: no tombstones, so the cost
 * of a look-up stays flat however many entries come and go.  Key 0 marks an
 * empty slot and is never stored: it is not found, and cannot be put.  Labels
 * and processes are never 0; a caller that makes a key of what a node sent
 * checks for 0 first, to keep it apart from the other failures of map_put().
 */
#ifndef KPROFD_BASE_MAP_H
#define KPROFD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
	uint64_t key, val;
};

struct map {
	struct map_slot *slots;	/* owned; power of two, or NULL */
	size_t cap, len;
	int shift;		/* 64 less the bits of an index */
};

/* Where a key is, or is looked for first; only if there is anything. */
static inline size_t
map_home(const struct map *m, uint64_t key)
{
	/* The golden ratio's fraction spreads dense keys (labels count up). */
	return (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> m->shift);
}

/* The key will be looked for soon: its slot may be fetched meanwhile. */
static inline void
map_fetch(const struct map *m, uint64_t key)
{
	if (m->cap > 0)
		__builtin_prefetch(&m->slots[map_home(m, key)]);
}

void map_free(struct map *m);
/* Removes all, and keeps the room. */
void map_clear(struct map *m);
/*
 * The first entry at or after *i, which is moved past it; NULL after the last.
 * Begin with *i = 0, and neither put nor remove meanwhile.
 */
static inline const struct map_slot *
map_next(const struct map *m, size_t *i)
{
	while (*i < m->cap)
		if (m->slots[(*i)++].key != 0)
			return &m->slots[*i - 1];
	return NULL;
}

/* The value, or NULL.  Good until the next put or remove. */
uint64_t *map_get(const struct map *m, uint64_t key);
/* Sets; false when out of memory, or key is 0 (the map is unchanged). */
bool map_put(struct map *m, uint64_t key, uint64_t val);
void map_remove(struct map *m, uint64_t key);

#endif
