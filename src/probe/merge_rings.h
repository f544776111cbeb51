/* merge_rings.h - finds the oldest events of several rings. */
#ifndef KPROFD_PROBE_MERGE_RINGS_H
#define KPROFD_PROBE_MERGE_RINGS_H

#include "probe/ring.h"

/*
 * Takes the oldest of all events into the parts, which are of different rings
 * and empty: no event younger than `until`, and at most `max` records, or one
 * event with its definitions; events of the same time as the last come along.
 * Changes the order of the parts.  Returns true if more events are left.
 */
bool merge_oldest(struct ring_part *part, unsigned n, uint64_t max,
    int64_t until);

#endif
