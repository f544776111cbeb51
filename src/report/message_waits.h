/*
 * message_waits.h - writes how long messages waited in mailboxes, by receiver.
 * Pure: into a kp_buf, whose error sticks.
 */
#ifndef KPROFD_REPORT_MESSAGE_WAITS_H
#define KPROFD_REPORT_MESSAGE_WAITS_H

#include "text/json.h"
#include "store/query.h"

/*
 * A table of receivers by total wait, the longest first, and below it what was lost
 * in the windows of `cover`.  KP_ENOMEM.  width: columns of the terminal; 0: no
 * limit
 */
enum kp_err messages_table(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover, unsigned width);
/* One line of JSON, each receiver with its identities. */
enum kp_err messages_json(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover);

/* The waits of one request; nothing if it has none. */
void messages_tree_text(struct kp_buf *b, const struct kp_query_tree *t,
    unsigned width);
void messages_tree_json(struct json *j, const struct kp_query_tree *t);

#endif
