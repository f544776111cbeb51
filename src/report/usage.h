/*
 * usage.h - mailboxes and memory of processes, ETS tables and nodes, for people and
 * programs.
 */
#ifndef KPROFD_REPORT_USAGE_H
#define KPROFD_REPORT_USAGE_H

#include "store/query.h"
#include "text/json.h"

/*
 * Appends tables for each node: processes by group, memory, ETS tables; at most `rows`
 * of each (0: all).  Long queues come first, and have a line of their own below.
 */
enum kp_err usage_tables(struct kp_buf *b, const struct kp_query_usage *u,
    size_t rows, unsigned width);
/*
 * Appends a sentence on the longest queue of a group, if it has `least` messages; false:
 * it has not, or it is no group of processes.
 */
bool usage_mailbox(struct kp_buf *b, const struct kp_query_used *u, uint64_t least);
/* Appends "usage":[...] to an object. */
void usage_json(struct json *j, const struct kp_query_usage *u);

#endif
