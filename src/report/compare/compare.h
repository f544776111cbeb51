/*
 * compare.h - two reports side by side: the figures now, the figures then, and
 * the change.
 *
 * A change is marked as uncertain where fewer than COMPARE_FEW were measured on
 * one side, or where it is within two standard errors of the difference, which
 * chance alone makes.  The error of a mean is estimated as if requests were
 * drawn one by one: from the spread of single calls' times, and how many of the
 * requests came through the tier.  Requests are compared by the second of the
 * time that was measured, since ranges need not be equally long.
 *
 * Pure: into a kp_buf, whose error sticks.
 */
#ifndef KPROFD_REPORT_COMPARE_COMPARE_H
#define KPROFD_REPORT_COMPARE_COMPARE_H

#include "report/report.h"

#define COMPARE_FEW 30u		/* measured */

struct compare;

/*
 * Both reports are borrowed, sorted already, and outlive it.  Identities come
 * in now's order, and behind them those that are gone, in then's.  On error
 * nothing is made.
 */
enum kp_err compare_make(struct compare **out, const struct report *now,
    const struct report *then);
void compare_free(struct compare *v);

/* Those first that cost so much more than they did, by the second. */
void compare_sort_change(struct compare *v);

void compare_table(struct kp_buf *b, const struct compare *v,
    const struct report_opts *o);
/* One line: both reports whole, and "changes". */
void compare_json(struct kp_buf *b, const struct compare *v,
    enum report_what what);
/* A line of names, and one for each figure of each identity. */
void compare_csv(struct kp_buf *b, const struct compare *v,
    enum report_what what);

#endif
