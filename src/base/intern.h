/*
 * intern.h - keeps one copy of each byte string, with the caller's number.
 *
 * The hash is fast, and does not resist hostile keys: callers limit the number
 * of strings that a node can add.
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
