/*
 * intern.c - implements an open-addressing hash table that owns copies of its
 * keys; it doubles when half full.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/intern.h"

#define INTERN_MIN 16

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
		    memcmp(s->key, key, n) == 0)
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
	memcpy(copy, key, n);
	s = intern_slot(t, key, n, hash);
	*s = (struct interned){ copy, (uint32_t)n, val, hash };
	t->len++;
	return s;
}
