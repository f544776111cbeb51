/*
 * cells.h - finds the running window's cells by tier and request type.
 */
#ifndef KPROFD_STATS_CELLS_H
#define KPROFD_STATS_CELLS_H

#include "base/map.h"
#include "kprofd/stats.h"

struct cells {
	struct kp_cell *v;	/* owned, in the order of their addition */
	size_t n, room;
	struct map at;		/* cell_key() -> index into v */
};

/* Never 0, which is not a key: type _total is made when a window closes. */
static inline uint64_t
cell_key(uint32_t identity, uint32_t tier)
{
	return (uint64_t)identity << 8 | tier;
}

static inline uint32_t
cell_key_tier(uint64_t key)
{
	return key & 0xff;
}

void cells_free(struct cells *cs);
/* Returns the cell, or NULL. */
struct kp_cell *cells_find(const struct cells *cs, uint64_t key);
/*
 * Adds an empty cell; the key must not be there yet.  NULL: out of memory.
 * It invalidates pointers to other cells.
 */
struct kp_cell *cells_add(struct cells *cs, uint64_t key);
/* Hands over v; the caller frees it and its histograms.  Starts empty. */
struct kp_cell *cells_take(struct cells *cs);

#endif
