/*
 * losses.h - what was not measured, as it stands below every table.  Pure: into
 * a kp_buf, whose error sticks.
 */
#ifndef KP_REPORT_LOSSES_H
#define KP_REPORT_LOSSES_H

#include "text/json.h"
#include "kprofd/loss.h"
#include "store/read/query.h"

/*
 * "losses: none", or a line for each cause: count, unit, what it means.
 * width: columns of the terminal; 0: no limit
 */
void losses_text(struct kp_buf *b, const struct kp_losses *l, unsigned width);
/* An array "losses", of the causes that there were. */
void losses_json(struct json *j, const struct kp_losses *l);

/*
 * What stands below a table: `title`, the time that it covers, and what was
 * lost in it.  As JSON it is an object "windows".
 */
void losses_cover_text(struct kp_buf *b, const char *title,
    const struct kp_query_sum *cover, unsigned width);
void losses_cover_json(struct json *j, const struct kp_query_sum *cover);

#endif
