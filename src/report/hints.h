/*
 * hints.h - hints that the figures give about tiers.conf: clauses of the
 * identity fun that name nothing, entries that never end.
 */
#ifndef KP_REPORT_HINTS_H
#define KP_REPORT_HINTS_H

#include "report.h"
#include "store/read/query.h"

#define HINT_REQUESTS 100	/* fewer are not enough to say of any that it
				   does not come */

/*
 * Adds to the report of this range what there is to say; all: the sum of the
 * range's cells, borrowed.  Where something cannot be read the report goes
 * without, and hinted stays false.
 */
void report_hints(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_query_sum *all, struct report *report);

#endif
