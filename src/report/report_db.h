/*
 * report_db.h - a report from a range of stored windows, and the hints that
 * their figures give about tiers.conf.
 */
#ifndef KPROFD_REPORT_REPORT_DB_H
#define KPROFD_REPORT_REPORT_DB_H

#include "report.h"
#include "store/query.h"
#include "store/running.h"

/*
 * The tiers are those of the last tiers.conf, followed by others that have figures
 * in the range.  On error kp_query_why() says what happened, unless it is
 * KP_ENOMEM or KP_ELIMIT (identities).
 */
enum kp_err report_from_db(struct kp_query *q, const struct kp_query_range *r,
    bool hints, struct report **out);

/*
 * For a comparison: if *then does not overlap r, takes a window that both have a
 * part of out of *then, unless nothing is left.  now: the report of r.
 */
void report_apart(const struct kp_query_range *r, const struct report *now,
    struct kp_query_range *then);

/*
 * As report_from_db(), of running windows; the database has the tiers, and what
 * hints need.
 */
enum kp_err report_from_running(struct kp_query *q,
    const struct kp_query_range *r, const struct running *running, bool hints,
    struct report **out);

/* Sampled requests that are enough to say that a clause never matched. */
#define HINT_REQUESTS 100

/*
 * Adds the hints to the report of this range: clauses of the identity fun that
 * name nothing, entries that never end.  all: the sum of the range's cells,
 * borrowed.  If something cannot be read there are none, and hinted stays false.
 */
void report_hints(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_query_sum *all, struct report *report);

#endif
