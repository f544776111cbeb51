/*
 * map.h - an open-addressing table from u64 keys to u64 values.
 *
 * Linear probing with backward-shift deletion: no tombstones, so the cost
 * of a look-up stays flat however many entries come and go.  Key 0 is not
 * allowed (labels and processes are never 0).
 */
#ifndef KP_REQUEST_MAP_H
#define KP_REQUEST_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
	uint64_t key, val;
};

struct map {
	struct map_slot *slots;	/* owned; power of two, or NULL */
	size_t cap, len;
};

void map_free(struct map *m);
/* The value, or NULL.  Good until the next put or remove. */
uint64_t *map_get(const struct map *m, uint64_t key);
/* Sets; false when out of memory (the map is unchanged). */
bool map_put(struct map *m, uint64_t key, uint64_t val);
void map_remove(struct map *m, uint64_t key);

/* A fast hash of bytes, for the intern tables; not for hostile keys alone:
 * the tables it serves are capped and compare whole keys. */
uint64_t hash_bytes(const void *p, size_t n);

#endif
