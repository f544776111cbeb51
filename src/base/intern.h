/* intern.h - a table of byte strings, each kept once, and a number for each. */
#ifndef KPROFD_BASE_INTERN_H
#define KPROFD_BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys by bytes, values by number; the bytes are copied. */
struct interned {
	uint8_t *key;
	uint32_t keylen;
	uint32_t val;
	uint64_t hash;
};

struct intern {
	struct interned *slots;	/* open addressing, power of two */
	size_t cap, len;
};

void intern_free(struct intern *t);
/* Points into the table until the next intern_put(); NULL: it is not there. */
struct interned *intern_find(const struct intern *t, const void *key, size_t n,
    uint64_t hash);
/* Its value, as long as that. */
uint32_t *intern_get(const struct intern *t, const void *key, size_t n,
    uint64_t hash);
bool intern_put(struct intern *t, const void *key, size_t n, uint64_t hash,
    uint32_t val);

#endif
