/*
 * compare.h - compares two reports: the figures now, the figures then, and the
 * change.
 *
 * A change is uncertain if fewer than COMPARE_FEW were measured on one side, or if
 * it is within two standard errors of the difference.  The error of a mean is
 * estimated as for independent requests, from the spread of single calls' times
 * and from the share of requests that came through the tier.  Numbers of requests
 * are compared per second of the time covered, since ranges can differ in length.
 *
 * Pure: into a kp_buf, whose error sticks.
 */
#ifndef KPROFD_REPORT_COMPARE_COMPARE_H
#define KPROFD_REPORT_COMPARE_COMPARE_H

#include "report/report.h"

#define COMPARE_FEW 30u		/* requests measured */

struct compare;

/*
 * Borrows both reports, which are sorted and outlive *out.  Identities come in
 * now's order, followed by those that are gone, in then's.  On error *out is not
 * set.
 */
enum kp_err compare_make(struct compare **out, const struct report *now,
    const struct report *then);
void compare_free(struct compare *v);

/* Sorts by the change of the time that requests take per second, growth first. */
void compare_sort_change(struct compare *v);

void compare_table(struct kp_buf *b, const struct compare *v,
    const struct report_opts *o);
/* One line: both reports as a whole, and "changes". */
void compare_json(struct kp_buf *b, const struct compare *v,
    enum report_what what);
/* A line of names, and one for each figure of each identity. */
void compare_csv(struct kp_buf *b, const struct compare *v,
    enum report_what what);

#endif
