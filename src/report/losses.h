/*
 * losses.h - what is known about the measurement itself: what was lost, as it
 * stands below every table, and the daemon's runs and events.  Pure: into a
 * kp_buf, whose error sticks.
 */
#ifndef KPROFD_REPORT_LOSSES_H
#define KPROFD_REPORT_LOSSES_H

#include "text/json.h"
#include "kprofd/loss.h"
#include "store/query.h"

/*
 * "losses: none", or a line for each cause, as losses_put() but in columns.
 * width: columns of the terminal; 0: no limit
 */
void losses_text(struct kp_buf *b, const struct kp_losses *l, unsigned width);
/* Appends "7 requests not traced: tracing was off (unseen)". */
void losses_put(struct kp_buf *b, enum kp_loss cause, uint64_t n);
/* An array "losses" of the causes that are not 0. */
void losses_json(struct json *j, const struct kp_losses *l);

/*
 * The lines below a table: `title`, the time that it covers, and what was lost in
 * it.  In JSON it is an object "windows".
 */
void losses_cover_text(struct kp_buf *b, const char *title,
    const struct kp_query_sum *cover, unsigned width);
void losses_cover_json(struct json *j, const struct kp_query_sum *cover);

/* How a run ended, for people: "ended well". */
const char *run_state_text(const struct kp_query_run *r);
/* An array "runs". */
void runs_json(struct json *j, const struct kp_query_runs *runs);
/* An array "events". */
void events_json(struct json *j, const struct kp_query_events *events);

#endif
