/* compare_internal.h - what is compared, for those that write it. */
#ifndef KPROFD_REPORT_COMPARE_COMPARE_INTERNAL_H
#define KPROFD_REPORT_COMPARE_COMPARE_INTERNAL_H

#include "compare.h"

/* An identity; NULL where it has no requests. */
struct versus_row {
	const struct report_row *now, *then;
};

/* Where a tier stands in each report: as in report_value(), or NO_TIER. */
#define NO_TIER SIZE_MAX
struct versus_tier {
	const char *name;
	size_t now, then;
};

struct versus {
	const struct report *now, *then;
	struct versus_row *rows;	/* all requests first */
	size_t nrows;
	struct versus_tier *tiers;	/* [0]: the request */
	size_t ntiers;			/* with that one */
	bool async;			/* is there any? */
};

/* Figures of one identity and tier; less than 0: none. */
struct versus_figure {
	double now, then;
	bool uncertain;
};

/* A part of what it was; NAN: there is none. */
double versus_change(const struct versus_figure *f);
/* "_total", or the identity. */
const char *versus_name(const struct versus_row *row);
/* "both", "new" or "gone" */
const char *versus_state(const struct versus_row *row);

/* Estimated requests, and by the second. */
struct versus_figure versus_requests(const struct versus_row *row);
struct versus_figure versus_rate(const struct versus *v,
    const struct versus_row *row);
/* As report_value() says; ns, or calls. */
struct versus_figure versus_value(const struct versus *v,
    const struct versus_row *row, const struct versus_tier *tier,
    enum report_what what);
/* Of one call: the mean (0), or percentile 50, 90 or 99, in ns. */
struct versus_figure versus_call(const struct versus_row *row,
    const struct versus_tier *tier, int percentile);
/* How many calls, estimated. */
struct versus_figure versus_calls(const struct versus_row *row,
    const struct versus_tier *tier);

#endif
