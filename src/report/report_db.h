/* report_db.h - a report from a range of stored windows. */
#ifndef KP_REPORT_REPORT_DB_H
#define KP_REPORT_REPORT_DB_H

#include "report.h"
#include "store/read/query.h"

/*
 * The tiers are those of the last tiers.conf, and behind them others that
 * have figures in the range.  On error kp_query_why() says what happened,
 * unless it is KP_ENOMEM or KP_ELIMIT (identities).
 */
enum kp_err report_from_db(struct kp_query *q, const struct kp_query_range *r,
    struct report **out);
/* The same, with hints. */
enum kp_err report_with_hints(struct kp_query *q,
    const struct kp_query_range *r, struct report **out);

#endif
