/*
 * source.h - shared by what makes reports and series of cells.  Private to
 * src/report.
 */
#ifndef KP_REPORT_SOURCE_H
#define KP_REPORT_SOURCE_H

#include "report.h"

struct report_source {
	const char *const *nodes, *const *tiers;
	size_t nnodes, ntiers;	/* cells of other tiers are left out */
	const struct kp_cell *cells;
	size_t ncells;
	const char *identity;	/* glob; NULL: all */
	kp_dur_ns traced_call, traced_caller;	/* as of struct kp_cost */
};

/* Texts and figures are copied.  Range and losses are the caller's to fill. */
enum kp_err report_make(const struct report_source *s, struct report **out);

/*
 * The figures of one cell, into what has no times yet (report_no_times), but
 * for busy_per_request, which is of a row.
 */
void report_take_cell(struct report_cell *to, const struct kp_cell *c,
    bool request);
void report_no_times(struct report_cell *c);
/* What of each mean is tracing's, of a report whose cells are there. */
void report_tracing(struct report *r);
/* Of one call of the cell on average; -1: not known. */
kp_dur_ns report_tracing_of(const struct report *r,
    const struct report_cell *c);
/* Each row's part of the cost. */
void report_shares(struct report *r);

#endif
