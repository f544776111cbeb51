/*
 * source.h - makes reports from cells.  Private to src/report.
 */
#ifndef KPROFD_REPORT_SOURCE_H
#define KPROFD_REPORT_SOURCE_H

#include "report.h"

struct report_source {
	const char *const *nodes, *const *tiers;
	size_t nnodes, ntiers;	/* cells of other tiers are ignored */
	const struct kp_cell *cells;
	size_t ncells;
	const char *identity;	/* glob; NULL: all */
	kp_dur_ns traced_call, traced_caller;	/* as of struct kp_cost */
};

/* Copies texts and figures.  The caller fills in the range and the losses. */
enum kp_err report_make(const struct report_source *s, struct report **out);

/*
 * Computes the figures of one cell, which report_no_times() has initialised, but
 * for those per request, which need its row.
 */
void report_take_cell(struct report_cell *to, const struct kp_cell *c,
    bool request);
void report_no_times(struct report_cell *c);
/* Fills in `tracing` of all cells. */
void report_tracing(struct report *r);
/* What tracing adds to one call of the cell on average; -1: not known. */
kp_dur_ns report_tracing_of(const struct report *r,
    const struct report_cell *c);
/* Fills in `share` of all rows. */
void report_shares(struct report *r);

#endif
