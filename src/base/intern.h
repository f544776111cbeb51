/*
 * intern.h - a table of byte strings: a copy of each, once, and a number that
 * the caller gives it.
 *
 * The hash is fast, not for hostile keys alone: what a node can fill is capped.
 */
#ifndef KPROFD_BASE_INTERN_H
#define KPROFD_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Eight bytes, wherever they are. */
static inline uint64_t
read64(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

void intern_free(struct intern *t);
/* NULL: it is not there.  Good until the next intern_put(). */
const struct interned *intern_get(const struct intern *t, const void *key,
    size_t n);
/* A key that is not there yet.  NULL: out of memory, and nothing is added. */
const struct interned *intern_put(struct intern *t, const void *key, size_t n,
    uint32_t val);

#endif
