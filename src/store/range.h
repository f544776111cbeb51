/*
 * range.h - what the queries share that add up the windows of a range.
 * Private to src/store.
 */
#ifndef KPROFD_STORE_RANGE_H
#define KPROFD_STORE_RANGE_H

#include "read.h"

/* Of `time_window w`; range_bind() binds its three. */
#define IN_RANGE " where w.start_ns >= ?1 and w.start_ns < ?2" \
	" and (?3 is null or w.node_id in" \
	" (select id from node where one_of(name, ?3)))"

void range_bind(struct read *rd, const struct kp_query_range *r);

/* Are there windows of more than one node? */
enum kp_err range_several(struct kp_query *q, const struct kp_query_range *r,
    bool *several);

/* Cells without figures: of _total, and then of each tier; NULL: no memory. */
struct kp_cell *range_cells(const struct kp_query_tiers *tiers);

/* The only figures that do not add up over nodes as they are. */
void range_shares(struct kp_cell *c);

#endif
