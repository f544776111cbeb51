/*
 * spots.h - grows the call tree of calls.h, of a trace (calls.c) or of samples
 * (stacks.c).  Pure.
 */
#ifndef KPROFD_SUGGEST_SPOTS_H
#define KPROFD_SUGGEST_SPOTS_H

#include "suggest/calls.h"

#define SUGGEST_SPOT_NONE UINT32_MAX

/* Begins with the root, which is around all tops.  False: out of memory. */
bool suggest_spots_begin(struct suggest_calls *c);
/*
 * Returns the spot for fn below another, or that one itself where there can be no
 * more; SUGGEST_SPOT_NONE: out of memory.  children: (spot, function) -> spot, of the
 * caller's, for the whole tree.
 */
uint32_t suggest_spot_child(struct suggest_calls *c, struct map *children,
    uint32_t parent, uint32_t fn);
/* Does a function by what is known of it only wait for work, or serve others? */
bool suggest_is_around(const struct suggest_calls *c,
    const struct suggest_fn *fns, uint32_t fn);
/* Adds up all totals, once. */
void suggest_spots_total(struct suggest_calls *c);

#endif
