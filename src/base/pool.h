/*
 * pool.h - allocates memory for the data of each request: pieces of a few
 * sizes, cut from large blocks.
 *
 * The piece that was freed last is handed out first, so that a steady load
 * allocates nothing.  For each size the pool keeps one empty block, or as many
 * as are in use: otherwise load that comes in waves would free and allocate up
 * to half of the memory with each wave.  It frees the other empty blocks.
 * Pieces begin at cache lines.
 */
#ifndef KPROFD_BASE_POOL_H
#define KPROFD_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#define POOL_LINE 64	/* bytes of a cache line */
#define POOL_SIZES 6

/*
 * With the address sanitizer there are no blocks: it finds a use after free
 * only if the piece went to free().
 */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_PLAIN 1	/* gcc */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_PLAIN 1	/* clang, which builds the fuzzers */
#endif
#endif
#if !defined(POOL_PLAIN)
#define POOL_PLAIN 0
#endif

struct pool_block;

/* The blocks of one size.  All zero is empty. */
struct pool_class {
	struct pool_block *some;	/* in use, with room; doubly linked */
	struct pool_block *none;	/* empty; doubly linked */
	size_t empty;			/* number of blocks in none */
	size_t blocks;			/* number of all blocks */
};

struct pool {
	struct pool_class class[POOL_SIZES];
};

/*
 * Returns at least *bytes, and sets *bytes to the size; not cleared.  NULL: out
 * of memory.  Sizes above the largest class come from malloc().
 */
void *pool_get(struct pool *p, size_t *bytes);
/* Frees a piece; bytes: as pool_get() set it.  Ignores NULL. */
void pool_put(struct pool *p, void *piece, size_t bytes);
/*
 * Requests huge pages for memory that was not touched yet, and of which most
 * will be, in no order.
 */
void pool_huge(void *p, size_t bytes);
/* Frees the blocks.  All pieces must have been put back. */
void pool_free(struct pool *p);

#endif
