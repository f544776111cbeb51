/*
 * range.h - shared by the queries that add up the windows of a range.  Private
 * to src/store.
 */
#ifndef KPROFD_STORE_READ_RANGE_H
#define KPROFD_STORE_READ_RANGE_H

#include "range_plan.h"
#include "read.h"

/* Of `time_window w`; range_bind() binds its three. */
#define IN_RANGE " where w.start_ns >= ?1 and w.start_ns < ?2" \
	" and (?3 is null or w.node_id in" \
	" (select id from node where one_of(name, ?3)))"

void range_bind(struct read *rd, const struct kp_query_range *r);
/* Whether the range has windows of more than one node. */
enum kp_err range_several(struct kp_query *q, const struct kp_query_range *r,
    bool *several);

/* What the cells of a range are read from, in one file. */
struct range_cells {
	struct range_plan pieces;
	size_t at;
	struct read windows, sums;	/* the two statements */
};

/*
 * The two statements: the cells of one window, and of one sum, whose id is the
 * first value.  step: as of struct range_wanted.  Call range_cells_end()
 * even after an error.
 */
enum kp_err range_cells_start(struct range_cells *rc, struct kp_query *q,
    size_t file, const struct kp_query_range *r, kp_dur_ns step,
    const char *windows, const char *sums);
/*
 * The next piece's statement, its first value bound, and when the piece
 * starts.  NULL: there is none, or an error.
 */
struct read *range_cells_next(struct range_cells *rc, kp_wall_ns *start);
enum kp_err range_cells_end(struct range_cells *rc);

/* Cells without figures: of _total, and then of each tier; NULL: no memory. */
struct kp_cell *range_blank(const struct kp_query_tiers *tiers);

/* Replaces the figures that do not add up over nodes by the shares. */
void range_shares(struct kp_cell *c);

#endif
