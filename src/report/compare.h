/*
 * compare.h - compares two reports: the figures now, the figures then, and the
 * change.
 *
 * A change is uncertain if fewer than COMPARE_FEW were measured on one side, or if
 * the interval of the difference holds 0.  It is made of where each figure may be by
 * chance: percentiles by the counts of their histograms, shares of errors by
 * Wilson's interval, means as those of independent requests, from the spread of single calls'
 * times and from the share of requests that came through the tier; and all of them by how
 * tenths of their range differ (interval.c).
 * Numbers of requests are compared per second of the time in which agents counted them,
 * since ranges can differ in it.
 *
 * Pure: into a kp_buf, whose error sticks.
 */
#ifndef KPROFD_REPORT_COMPARE_H
#define KPROFD_REPORT_COMPARE_H

#include "report.h"

#define COMPARE_FEW 30u		/* requests measured */

/* An identity's rows; NULL: it has no requests there. */
struct compare_row {
	const struct report_row *now, *then;
};

/* A tier, or its calls with one label, and its index in each report or REPORT_NO_TIER. */
struct compare_tier {
	const char *name, *label;	/* NULL: of all its calls */
	size_t now, then;
};

struct compare {
	const struct report *now, *then;
	struct compare_row *rows;	/* all requests first */
	size_t nrows;
	struct compare_tier *tiers;	/* [0]: the request itself */
	size_t ntiers;			/* including that */
	size_t nlabels;			/* of calls: these follow, by tier */
	bool async;			/* some row has async time */
	bool reverse;			/* growth comes last */
};

/*
 * Borrows both reports, which are sorted and outlive *out.  Identities come in
 * now's order, followed by those that are gone, in then's.  On error *out is not
 * set.
 */
enum kp_err compare_make(struct compare **out, const struct report *now,
    const struct report *then);
void compare_free(struct compare *v);

/*
 * Sorts by the change of the time that requests take per second, growth first, or
 * last.
 */
void compare_sort_change(struct compare *v, bool reverse);

/* A figure of one identity and tier; negative: there is none. */
struct compare_figure {
	double now, then;
	bool uncertain;
	/* 95 % intervals of now - then, and of compare_change(); NAN: not known */
	struct report_interval difference, change;
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
/* report_of_call() */
struct compare_figure compare_call(const struct compare_row *row,
    const struct compare_tier *tier, enum report_of of);
/* An estimate of the number of calls, without intervals. */
struct compare_figure compare_calls(const struct compare_row *row,
    const struct compare_tier *tier);

void compare_table(struct kp_buf *b, const struct compare *v,
    const struct report_opts *o);
/* One line: both reports as a whole, and "changes". */
void compare_json(struct kp_buf *b, const struct compare *v,
    enum report_what what);
/* A line of names, and one for each figure of each identity. */
void compare_csv(struct kp_buf *b, const struct compare *v,
    enum report_what what);

#endif
