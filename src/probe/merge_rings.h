/* merge_rings.h - finds the oldest events of several rings. */
#ifndef KPROFD_PROBE_MERGE_RINGS_H
#define KPROFD_PROBE_MERGE_RINGS_H

#include "probe/ring.h"

/*
 * Takes into the parts, each of another ring and empty till now, the oldest of
 * all events, none younger than `until`: `max` records, or one event with its
 * definitions, and those of the same time as the last.  The parts change their
 * places.  True: there are more.
 */
bool merge_oldest(struct ring_part *part, unsigned n, uint64_t max,
    int64_t until);

#endif
