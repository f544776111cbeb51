/*
 * pool.c - hands out pieces from a list of blocks for each size, and returns
 * blocks that are empty.
 *
 * A block is aligned to its own size, so the address of a piece gives its
 * block.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/pool.h"

#define BLOCK ((size_t)1 << 21)	/* a huge page; touched bit by bit */

/* All are multiples of a cache line. */
static const uint32_t sizes[POOL_SIZES] = { 192, 256, 512, 1024, 2048, 4096 };

struct range_piece {
	struct range_piece *next;
};

struct pool_block {
	struct pool_block *prev, *next;
	struct range_piece *back;	/* free list */
	uint32_t used;		/* number of pieces */
	uint32_t fresh;		/* offset of the part that was never used */
};

static unsigned
class_of(size_t bytes)
{
	unsigned i = 0;

	while (i < POOL_SIZES && sizes[i] < bytes)
		i++;
	return i;
}

static bool
block_full(const struct pool_block *b, uint32_t size)
{
	return b->back == NULL && b->fresh + size > BLOCK;
}

static void
block_add(struct pool_block **list, struct pool_block *b)
{
	b->prev = NULL;
	b->next = *list;
	if (*list != NULL)
		(*list)->prev = b;
	*list = b;
}

static void
block_remove(struct pool_block **list, struct pool_block *b)
{
	if (b->prev != NULL)
		b->prev->next = b->next;
	else
		*list = b->next;
	if (b->next != NULL)
		b->next->prev = b->prev;
}

static struct pool_block *
block_new(struct pool_class *c)
{
	struct pool_block *b = aligned_alloc(BLOCK, BLOCK);

	if (b == NULL)
		return NULL;
	if (c->blocks++ > 0)
		pool_huge(b, BLOCK);
	*b = (struct pool_block){ .fresh = POOL_LINE };
	block_add(&c->some, b);
	return b;
}

/* Returns a block that has room, listed in c->some; NULL: out of memory. */
static struct pool_block *
block_with_room(struct pool_class *c)
{
	struct pool_block *b = c->none;

	if (c->some != NULL)
		return c->some;
	if (b == NULL)
		return block_new(c);
	block_remove(&c->none, b);
	block_add(&c->some, b);
	c->empty--;
	return b;
}

/* Moves a block without used pieces to c->none; frees surplus ones. */
static void
block_rest(struct pool_class *c, struct pool_block *b)
{
	block_remove(&c->some, b);
	block_add(&c->none, b);
	c->empty++;
	while (c->empty > 1 && c->empty > c->blocks - c->empty) {
		b = c->none;
		block_remove(&c->none, b);
		free(b);
		c->empty--;
		c->blocks--;
	}
}

void
pool_huge(void *p, size_t bytes)
{
	uintptr_t from = ((uintptr_t)p + BLOCK - 1) & ~(uintptr_t)(BLOCK - 1);
	uintptr_t to = ((uintptr_t)p + bytes) & ~(uintptr_t)(BLOCK - 1);

	/* It is only a hint for speed, so failure does not matter. */
	if (from < to)
		madvise((void *)from, to - from, MADV_HUGEPAGE);
}

static void *
block_take(struct pool_block *b, uint32_t size)
{
	struct range_piece *p = b->back;

	if (p != NULL) {
		b->back = p->next;
		/* The next call reads the next piece's link. */
		__builtin_prefetch(b->back, 1);
	} else {
		p = (struct range_piece *)(void *)((char *)b + b->fresh);
		b->fresh += size;
	}
	b->used++;
	return p;
}

void *
pool_get(struct pool *p, size_t *bytes)
{
	unsigned i = class_of(*bytes);
	struct pool_class *c;
	struct pool_block *b;
	void *piece;

	if (i == POOL_SIZES)
		return malloc(*bytes);
	*bytes = sizes[i];
	if (POOL_PLAIN)
		return malloc(*bytes);
	c = &p->class[i];
	b = block_with_room(c);
	if (b == NULL)
		return NULL;
	piece = block_take(b, sizes[i]);
	if (block_full(b, sizes[i]))
		block_remove(&c->some, b);
	return piece;
}

void
pool_put(struct pool *p, void *piece, size_t bytes)
{
	unsigned i = class_of(bytes);
	struct pool_block *b;
	struct pool_class *c;

	if (i == POOL_SIZES || POOL_PLAIN || piece == NULL) {
		free(piece);
		return;
	}
	b = (struct pool_block *)((uintptr_t)piece & ~(uintptr_t)(BLOCK - 1));
	c = &p->class[i];
	if (block_full(b, sizes[i]))
		block_add(&c->some, b);
	*(struct range_piece *)piece = (struct range_piece){ b->back };
	b->back = piece;
	if (--b->used == 0)
		block_rest(c, b);
}

void
pool_free(struct pool *p)
{
	struct pool_block *b;

	for (unsigned i = 0; i < POOL_SIZES; i++)
		while ((b = p->class[i].none) != NULL) {
			block_remove(&p->class[i].none, b);
			free(b);
		}
	*p = (struct pool){ 0 };
}
