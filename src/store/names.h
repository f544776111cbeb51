/*
 * names.h - a hash of short texts to row ids: the writer's cache of
 * dimension tables, and a reader's pool of texts.
 */
#ifndef KPROFD_STORE_NAMES_H
#define KPROFD_STORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name {
	char *text;	/* owned; NULL: free slot */
	int64_t id;
	uint32_t kind;	/* which table */
};

struct names {
	struct name *v;	/* open addressing; cap is a power of two or 0 */
	size_t n, cap;
};

/* Frees all; the table may be used again. */
void names_clear(struct names *ns);
/* NULL if not there. */
const struct name *names_find(const struct names *ns, uint32_t kind,
    const char *text);
/* Finds or adds (a copy of) the text.  NULL when out of memory. */
const struct name *names_put(struct names *ns, uint32_t kind,
    const char *text, int64_t id);

#endif
