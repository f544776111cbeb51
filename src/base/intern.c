/*
 * intern.c - an open-addressing hash table that owns copies of its keys; it
 * doubles when half full.
 */
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"

#define INTERN_MIN 16

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

struct interned *
intern_find(const struct intern *t, const void *key, size_t n, uint64_t hash)
{
	struct interned *s;

	if (t->cap == 0)
		return NULL;
	s = intern_slot(t, key, n, hash);
	return s->key != NULL ? s : NULL;
}

uint32_t *
intern_get(const struct intern *t, const void *key, size_t n, uint64_t hash)
{
	struct interned *s = intern_find(t, key, n, hash);

	return s != NULL ? &s->val : NULL;
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

bool
intern_put(struct intern *t, const void *key, size_t n, uint64_t hash,
    uint32_t val)
{
	struct interned *s;
	uint8_t *copy;

	if (t->len * 2 >= t->cap && !intern_grow(t))
		return false;
	copy = malloc(n > 0 ? n : 1);
	if (copy == NULL)
		return false;
	memcpy(copy, key, n);
	s = intern_slot(t, key, n, hash);
	*s = (struct interned){ copy, (uint32_t)n, val, hash };
	t->len++;
	return true;
}
