/* arena.c - memory for one file's tokens and nodes, freed all at once. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "config/lang.h"

#define CHUNK_BYTES 16384u

struct chunk {
	struct chunk *next;
	size_t used, size;
	alignas(max_align_t) unsigned char mem[];
};

void *
arena_alloc(struct arena *a, size_t n)
{
	struct chunk *c = a->head;
	size_t need = (n + alignof(max_align_t) - 1) &
	    ~(alignof(max_align_t) - 1);
	size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
	void *p;

	if (c == NULL || c->size - c->used < need) {
		c = malloc(sizeof(*c) + size);
		if (c == NULL) {
			a->failed = true;
			return NULL;
		}
		c->next = a->head;
		c->used = 0;
		c->size = size;
		a->head = c;
	}
	p = c->mem + c->used;
	c->used += need;
	memset(p, 0, need);
	return p;
}

void
arena_wipe(struct arena *a)
{
	for (struct chunk *c = a->head; c != NULL; c = c->next)
		explicit_bzero(c->mem, c->used);
}

void
arena_free(struct arena *a)
{
	struct chunk *c, *next;

	for (c = a->head; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	*a = (struct arena){ 0 };
}
