/*
 * requests.h - reads one slow request with all that is known of it, and writes slow
 * requests: the list, and the trace of one as a tree of calls; and how long messages
 * waited in mailboxes, by receiver.  What writes is pure: into a kp_buf, whose error
 * sticks.
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

/* Where a request stands among the measured times of its type in some windows. */
struct request_place {
	kp_wall_ns start, end;	/* of the windows */
	struct kp_hist hist;	/* the times; of none it has no place */
	bool known;		/* all were measured: they are not estimated from samples */
	bool slowest;		/* none is longer */
	/* of them: shorter ones, in lower buckets, whose width is 2.2 % */
	uint64_t faster;
};

struct request_report {
	struct kp_query_tree tree;
	struct kp_query_sum cover;	/* the windows that may have counted it */
	struct request_place place;
};

/*
 * Reads it.  r: the range whose requests it is compared with; NULL: its windows.
 * KP_ENOENT: there is no such request.
 */
enum kp_err request_from_db(struct kp_query *q, int64_t id,
    const struct kp_query_range *r, struct request_report *out);
void request_free(struct request_report *rr);
/* The tree, and below it the calls that began after the end of the request. */
void tree_text(struct kp_buf *b, const struct request_report *rr,
    unsigned width);
void tree_json(struct kp_buf *b, const struct request_report *rr);

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
