/*
 * map.c - tables with open addressing: of numbers, which probes, grows and deletes with
 * backward shifts, and of byte strings, which owns copies of its keys and doubles when half
 * full.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/pool.h"

#define MAP_MIN 64
#define INTERN_MIN 16

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

/* ---- byte strings ---- */

static inline uint64_t
mix(uint64_t h, uint64_t w)
{
	h = (h ^ w) * UINT64_C(0xFF51AFD7ED558CCD);
	return h ^ (h >> 32);
}

/*
 * Uses two lanes, because a multiplication need not end before the next starts.
 * The last words overlap those before, so no byte is read by itself.
 */
uint64_t
intern_hash(const void *p, size_t n)
{
	const unsigned char *s = p, *end = s + n;
	uint64_t a = UINT64_C(0x9E3779B97F4A7C15) ^ n, b = n, w = 0;

	if (n >= 16) {
		for (; end - s > 16; s += 16) {
			a = mix(a, read64(s));
			b = mix(b, read64(s + 8));
		}
		a = mix(a, read64(end - 16));
		b = mix(b, read64(end - 8));
		return mix(a, b);
	}
	if (n >= 8) {
		a = mix(a, read64(s));
		return mix(a, read64(end - 8));
	}
	/* no key's bytes may be nowhere */
	if (n > 0)
		memcpy(&w, s, n);
	return mix(a, w);
}

void
intern_free(struct intern *t)
{
	for (size_t i = 0; i < t->cap; i++)
		free(t->slots[i].key);
	free(t->slots);
	*t = (struct intern){ 0 };
}

static struct interned *
intern_slot(const struct intern *t, const void *key, size_t n, uint64_t hash)
{
	size_t i = (size_t)hash & (t->cap - 1);
	struct interned *s;

	for (;; i = (i + 1) & (t->cap - 1)) {
		s = &t->slots[i];
		if (s->key == NULL)
			return s;
		if (s->hash == hash && s->keylen == n &&
		    (n == 0 || memcmp(s->key, key, n) == 0))
			return s;
	}
}

const struct interned *
intern_get(const struct intern *t, const void *key, size_t n)
{
	struct interned *s;

	if (t->cap == 0)
		return NULL;
	s = intern_slot(t, key, n, intern_hash(key, n));
	return s->key != NULL ? s : NULL;
}

static bool
intern_grow(struct intern *t)
{
	struct intern bigger = { .cap = t->cap > 0 ? t->cap * 2 : INTERN_MIN,
		.len = t->len };
	struct interned *s;

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (bigger.slots == NULL)
		return false;
	for (size_t i = 0; i < t->cap; i++) {
		s = &t->slots[i];
		if (s->key != NULL)
			*intern_slot(&bigger, s->key, s->keylen, s->hash) = *s;
	}
	free(t->slots);
	*t = bigger;
	return true;
}

const struct interned *
intern_put(struct intern *t, const void *key, size_t n, uint32_t val)
{
	uint64_t hash = intern_hash(key, n);
	struct interned *s;
	uint8_t *copy;

	if (t->len * 2 >= t->cap && !intern_grow(t))
		return NULL;
	copy = malloc(n > 0 ? n : 1);
	if (copy == NULL)
		return NULL;
	if (n > 0)
		memcpy(copy, key, n);
	s = intern_slot(t, key, n, hash);
	*s = (struct interned){ copy, (uint32_t)n, val, hash };
	t->len++;
	return s;
}
