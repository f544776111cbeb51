/*
 * compare_internal.h - the rows, tiers and figures that compare.c computes and
 * compare_text.c and compare_figures.c write.
 */
#ifndef KPROFD_REPORT_COMPARE_COMPARE_INTERNAL_H
#define KPROFD_REPORT_COMPARE_COMPARE_INTERNAL_H

#include "compare.h"

/* An identity's rows; NULL: it has no requests there. */
struct compare_row {
	const struct report_row *now, *then;
};

/* A tier, and its index in each report, or REPORT_NO_TIER. */
struct compare_tier {
	const char *name;
	size_t now, then;
};

struct compare {
	const struct report *now, *then;
	struct compare_row *rows;	/* all requests first */
	size_t nrows;
	struct compare_tier *tiers;	/* [0]: the request itself */
	size_t ntiers;			/* including that */
	bool async;			/* some row has async time */
};

/* A figure of one identity and tier; negative: there is none. */
struct compare_figure {
	double now, then;
	bool uncertain;
};

/* The change as a part of `then`; NAN: there is none. */
double compare_change(const struct compare_figure *f);
/* "_total", or the identity. */
const char *compare_name(const struct compare_row *row);
/* "both", "new" or "gone" */
const char *compare_state(const struct compare_row *row);

/* The numbers of requests, as report_requests() returns them. */
struct compare_requests {
	struct compare_figure n;
	bool now_known, then_known;
};
struct compare_requests compare_requests(const struct compare *v,
    const struct compare_row *row);
/* Requests per second. */
struct compare_figure compare_rate(const struct compare *v,
    const struct compare_row *row);
/* report_value(): ns, or calls. */
struct compare_figure compare_value(const struct compare *v,
    const struct compare_row *row, const struct compare_tier *tier,
    enum report_what what);
/* The time of one call in ns: the mean (0), or percentile 50, 90 or 99. */
struct compare_figure compare_call(const struct compare_row *row,
    const struct compare_tier *tier, int percentile);
/* An estimate of the number of calls. */
struct compare_figure compare_calls(const struct compare_row *row,
    const struct compare_tier *tier);

#endif
