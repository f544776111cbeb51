/*
 * history.h - the daemon's runs and events, as a database holds them.  Pure:
 * into a kp_buf, whose error sticks.
 */
#ifndef KP_REPORT_HISTORY_H
#define KP_REPORT_HISTORY_H

#include "text/json.h"
#include "store/read/query.h"

/* In words: "ended well". */
const char *run_state_text(const struct kp_query_run *r);
/* An array "runs". */
void runs_json(struct json *j, const struct kp_query_runs *runs);
/* An array "events". */
void events_json(struct json *j, const struct kp_query_events *events);

#endif
