/* daemon_routes.h - the paths that the daemon answers: of the API, and /metrics. */
#ifndef KPROFD_WEB_DAEMON_ROUTES_H
#define KPROFD_WEB_DAEMON_ROUTES_H

#include <event2/http.h>

#include "ctl_async.h"
#include "export/totals.h"
#include "params.h"

struct daemon_route {
	const char *name;	/* behind /api/v1/ */
	const char *line;	/* the control command */
	ctl_fn *done;		/* whose ctx is the request */
	bool post;
	unsigned params;
};

/* NULL: there is none. */
const struct daemon_route *daemon_route_find(const char *name);
/* Asks the daemon, and answers req. */
void daemon_route_run(const struct daemon_route *route, struct ctl_async *ctl,
    struct evhttp_request *req, const struct web_params *p);
/* Answers req with t and the daemon's metrics.  t: NULL in kprof web. */
void metrics_run(struct totals *t, struct ctl_async *ctl,
    struct evhttp_request *req);

#endif
