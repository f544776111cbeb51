/*
 * requests.h - writes slow requests: the list, and the trace of one as a tree of
 * calls; and how long messages waited in mailboxes, by receiver.  Pure: into a kp_buf,
 * whose error sticks.
 */
#ifndef KPROFD_REPORT_REQUESTS_H
#define KPROFD_REPORT_REQUESTS_H

#include "kprofd/buf.h"
#include "text/json.h"
#include "store/query.h"

/*
 * The list, and below it what was lost in the windows of `cover`, which needs no
 * cells.  width: columns of the terminal; 0: no limit
 */
void requests_table(struct kp_buf *b, const struct kp_query_requests *rs,
    const struct kp_query_sum *cover, unsigned width);
/* The list alone: two lines of heads, and one for each request. */
void requests_rows(struct kp_buf *b, const struct kp_query_requests *rs,
    unsigned width);
/* One line of JSON. */
void requests_json(struct kp_buf *b, const struct kp_query_requests *rs,
    const struct kp_query_sum *cover);

/*
 * The tree, and below it the calls that began after the end of the request.
 * cover: the windows that may have counted it.
 */
void tree_text(struct kp_buf *b, const struct kp_query_tree *t,
    const struct kp_query_sum *cover, unsigned width);
void tree_json(struct kp_buf *b, const struct kp_query_tree *t,
    const struct kp_query_sum *cover);

/*
 * A table of receivers by total wait, the longest first, and below it what was lost
 * in the windows of `cover`.  KP_ENOMEM.  width: columns of the terminal; 0: no
 * limit
 */
enum kp_err messages_table(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover, unsigned width);
/* How long requests waited in a queue before they began, by type; nothing if w is empty. */
void queues_table(struct kp_buf *b, const struct kp_query_waits *w,
    unsigned width);
/* One line of JSON, each receiver with its identities. */
enum kp_err messages_json(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover);

/* The part of a call after the end of its request; -1: none, or not known. */
static inline kp_dur_ns
request_time_after(const struct kp_query_request *q, const struct kp_query_call *c)
{
	if (q->total < 0 || c->total < 0 || c->start > INT64_MAX - c->total)
		return -1;
	if (c->async)
		return c->total;
	return c->start + c->total > q->total ? c->start + c->total - q->total :
	    -1;
}

#endif
