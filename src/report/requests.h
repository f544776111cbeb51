/*
 * requests.h - slow requests: the list of them, and one as a tree of calls.
 * Pure: into a kp_buf, whose error sticks.
 */
#ifndef KP_REPORT_REQUESTS_H
#define KP_REPORT_REQUESTS_H

#include "kprofd/buf.h"
#include "text/json.h"
#include "store/read/query.h"

/*
 * Each says below what was lost in the windows of `cover`, without cells.
 * width: columns of the terminal; 0: no limit
 */
void requests_table(struct kp_buf *b, const struct kp_query_requests *rs,
    const struct kp_query_sum *cover, unsigned width);
/* The list alone: two lines of heads, and one for each. */
void requests_rows(struct kp_buf *b, const struct kp_query_requests *rs,
    unsigned width);
/* One line of JSON. */
void requests_json(struct kp_buf *b, const struct kp_query_requests *rs,
    const struct kp_query_sum *cover);

/* What is below: the span of the windows, and what was lost in them. */
void requests_cover(struct kp_buf *b, const struct kp_query_sum *cover,
    unsigned width);
void requests_json_cover(struct json *j, const struct kp_query_sum *cover);

/*
 * Calls that began after the request had ended stand apart, below.  cover:
 * the windows that may have counted it.
 */
void tree_text(struct kp_buf *b, const struct kp_query_tree *t,
    const struct kp_query_sum *cover, unsigned width);
void tree_json(struct kp_buf *b, const struct kp_query_tree *t,
    const struct kp_query_sum *cover);

#endif
