/*
 * range.h - serves the queries that sum the windows of a range.  Private to
 * src/store.
 */
#ifndef KPROFD_STORE_READ_RANGE_H
#define KPROFD_STORE_READ_RANGE_H

#include "range_plan.h"
#include "read.h"

/* Restricts `time_window w`; range_bind() binds its three values. */
#define IN_RANGE " where w.start_ns >= ?1 and w.start_ns < ?2" \
	" and (?3 is null or w.node_id in" \
	" (select id from node where one_of(name, ?3)))"

/*
 * Sets *out to the range from the first to the last of the windows that r has a
 * part of, which is exact.
 */
enum kp_err range_whole(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_range *out);
void range_bind(struct read *rd, const struct kp_query_range *r);
/* Finds out whether the exact range has windows of more than one node. */
enum kp_err range_several(struct kp_query *q, const struct kp_query_range *r,
    bool *several);

/* The pieces of a range in one file, and the statements that read cells. */
struct range_cells {
	struct range_plan pieces;
	size_t at;
	struct read windows, sums;	/* the two statements */
};

struct range_use {
	kp_dur_ns step;		/* see struct range_wanted */
	bool by_node;		/* without sums of all nodes */
};

/*
 * Prepares the two statements: for the cells of one window, and of one sum,
 * whose id is the first value.  Call range_cells_end() even after an error.
 */
enum kp_err range_cells_start(struct range_cells *rc, struct kp_query *q,
    size_t file, const struct kp_query_range *r, struct range_use use,
    const char *windows, const char *sums);
/*
 * Returns the next piece's statement, with its first value bound, and the start
 * of the piece.  NULL: there is none, or an error.
 */
struct read *range_cells_next(struct range_cells *rc, kp_wall_ns *start);
enum kp_err range_cells_end(struct range_cells *rc);

/* Makes empty cells: for _total, and then for each tier; NULL: no memory. */
struct kp_cell *range_blank(const struct kp_query_tiers *tiers);

/* Replaces figures that cannot be summed over nodes by their shares. */
void range_shares(struct kp_cell *c);

/* The place of a tier in a sum: 0 is that of _total, the request itself. */
size_t range_place(const struct kp_query_tiers *tiers, const char *tier);
/* Orders cells by place, then by identity, with _total before all others. */
int range_cell_cmp(size_t place_a, const struct kp_cell *a, size_t place_b,
    const struct kp_cell *b);

#endif
