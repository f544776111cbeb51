/*
 * compare_internal.h - the compared rows, tiers and figures: what compare.c
 * computes and compare_text.c and compare_figures.c write.
 */
#ifndef KPROFD_REPORT_COMPARE_COMPARE_INTERNAL_H
#define KPROFD_REPORT_COMPARE_COMPARE_INTERNAL_H

#include "compare.h"

/* An identity; NULL where it has no requests. */
struct compare_row {
	const struct report_row *now, *then;
};

/* Where a tier stands in each report: as in report_value(), or NO_TIER. */
#define NO_TIER SIZE_MAX
struct compare_tier {
	const char *name;
	size_t now, then;
};

struct compare {
	const struct report *now, *then;
	struct compare_row *rows;	/* all requests first */
	size_t nrows;
	struct compare_tier *tiers;	/* [0]: the request */
	size_t ntiers;			/* with that one */
	bool async;			/* is there any? */
};

/* Figures of one identity and tier; less than 0: none. */
struct compare_figure {
	double now, then;
	bool uncertain;
};

/* A part of what it was; NAN: there is none. */
double compare_change(const struct compare_figure *f);
/* "_total", or the identity. */
const char *compare_name(const struct compare_row *row);
/* "both", "new" or "gone" */
const char *compare_state(const struct compare_row *row);

/* As report_requests() says, now and then known or not; and by the second. */
struct compare_requests {
	struct compare_figure n;
	bool now_known, then_known;
};
struct compare_requests compare_requests(const struct compare *v,
    const struct compare_row *row);
struct compare_figure compare_rate(const struct compare *v,
    const struct compare_row *row);
/* As report_value() says; ns, or calls. */
struct compare_figure compare_value(const struct compare *v,
    const struct compare_row *row, const struct compare_tier *tier,
    enum report_what what);
/* Of one call: the mean (0), or percentile 50, 90 or 99, in ns. */
struct compare_figure compare_call(const struct compare_row *row,
    const struct compare_tier *tier, int percentile);
/* How many calls, estimated. */
struct compare_figure compare_calls(const struct compare_row *row,
    const struct compare_tier *tier);

#endif
