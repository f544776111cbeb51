/*
 * pool.h - memory for what comes and goes with every request: pieces of a few
 * sizes, cut from large blocks.
 *
 * The piece that was freed last is the first to be handed out again, so that a
 * steady load allocates nothing.  Of each size one empty block is kept, or as
 * many as are in use: otherwise load that comes in waves would free up to half
 * of the memory, and allocate it again, with each of them.  The other empty
 * blocks are freed.  Pieces begin at cache lines.
 */
#ifndef KPROFD_BASE_POOL_H
#define KPROFD_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#define POOL_LINE 64	/* bytes of a cache line */
#define POOL_SIZES 6

/*
 * Where the address sanitizer looks on there are no blocks: it finds what is
 * used after it was given back only if that went to free().
 */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_PLAIN 1	/* gcc says so */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_PLAIN 1	/* and clang so, which the fuzzers are built with */
#endif
#endif
#if !defined(POOL_PLAIN)
#define POOL_PLAIN 0
#endif

struct pool_block;

/* One size.  All zero is empty. */
struct pool_class {
	struct pool_block *some;	/* in use, with room; doubly linked */
	struct pool_block *none;	/* nothing is in use; so are these */
	size_t empty;			/* these */
	size_t blocks;			/* in all */
};

struct pool {
	struct pool_class class[POOL_SIZES];
};

/*
 * At least *bytes, which is set to what there is; not cleared.
 * NULL when out of memory.  More than a block is for comes from malloc().
 */
void *pool_get(struct pool *p, size_t *bytes);
/* With the number that pool_get() set; NULL is nothing. */
void pool_put(struct pool *p, void *piece, size_t bytes);
/*
 * Nothing of this memory was touched yet and most will be, here and there:
 * pages as large as can be had, where there are whole ones in it.
 */
void pool_huge(void *p, size_t bytes);
/* Everything was put back: so are the blocks. */
void pool_free(struct pool *p);

#endif
