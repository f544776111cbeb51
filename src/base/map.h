/*
 * map.h - hash tables with open addressing: from u64 keys to u64 values, and one copy of
 * each byte string with the caller's number.
 *
 * The first uses linear probing with backward-shift deletion: without tombstones the
 * cost of a look-up does not grow as entries come and go.  Key 0 marks an empty
 * slot and is never stored: map_get() does not find it, map_put() fails.
 * Labels and processes are never 0; a caller that makes a key of data from a
 * node checks for 0 first, to distinguish it from other failures of map_put().
 */
#ifndef KPROFD_BASE_MAP_H
#define KPROFD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct map_slot {
	uint64_t key, val;
};

struct map {
	struct map_slot *slots;	/* owned; power of two, or NULL */
	size_t cap, len;
	int shift;		/* 64 minus the bits of an index */
};

/* Returns the slot where the search for a key starts; not if cap is 0. */
static inline size_t
map_home(const struct map *m, uint64_t key)
{
	/* The golden ratio's fraction spreads dense keys (labels count up). */
	return (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> m->shift);
}

/* Prefetches the slot of a key that will be looked up soon. */
static inline void
map_fetch(const struct map *m, uint64_t key)
{
	if (m->cap > 0)
		__builtin_prefetch(&m->slots[map_home(m, key)]);
}

void map_free(struct map *m);
/* Removes all entries, and keeps the memory. */
void map_clear(struct map *m);
/*
 * Returns the first entry at or after *i, and moves *i past it; NULL after the
 * last.  Begin with *i = 0, and neither put nor remove meanwhile.
 */
static inline const struct map_slot *
map_next(const struct map *m, size_t *i)
{
	while (*i < m->cap)
		if (m->slots[(*i)++].key != 0)
			return &m->slots[*i - 1];
	return NULL;
}

/* Returns the value, or NULL.  Valid until the next put or remove. */
uint64_t *map_get(const struct map *m, uint64_t key);
/* Adds or replaces.  False: no memory, or key is 0; the map is unchanged. */
bool map_put(struct map *m, uint64_t key, uint64_t val);
void map_remove(struct map *m, uint64_t key);

/*
 * ---- byte strings ----
 *
 * The hash is fast, and does not resist hostile keys: callers limit the number
 * of strings that a node can add.
 */

struct interned {
	uint8_t *key;		/* stays where it is until the table is freed */
	uint32_t keylen;
	uint32_t val;
	uint64_t hash;
};

struct intern {
	struct interned *slots;	/* open addressing, power of two */
	size_t cap, len;
};

/* Reads eight bytes, at any alignment. */
static inline uint64_t
read64(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

/* The hash that the table uses. */
uint64_t intern_hash(const void *p, size_t n);
void intern_free(struct intern *t);
/* NULL: it is not there.  Valid until the next intern_put(). */
const struct interned *intern_get(const struct intern *t, const void *key,
    size_t n);
/* Adds a key that must not be there yet.  NULL: out of memory; no change. */
const struct interned *intern_put(struct intern *t, const void *key, size_t n,
    uint32_t val);

#endif
