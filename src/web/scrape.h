/* scrape.h - what /metrics answers: what was measured, and how the daemon does. */
#ifndef KP_WEB_SCRAPE_H
#define KP_WEB_SCRAPE_H

#include <event2/http.h>

#include "export/totals.h"
#include "ctl_async.h"

/* Sees to the answer.  t: NULL where there is no daemon, only its database. */
void scrape_run(struct totals *t, struct ctl_async *relays,
    struct evhttp_request *req);

#endif
