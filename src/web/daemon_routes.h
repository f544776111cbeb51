/*
 * daemon_routes.h - the questions and orders of the API that the daemon
 * answers.
 */
#ifndef KPROFD_WEB_DAEMON_ROUTES_H
#define KPROFD_WEB_DAEMON_ROUTES_H

#include <event2/http.h>

#include "params.h"
#include "ctl_async.h"

struct daemon_route {
	const char *name;	/* behind /api/v1/ */
	const char *line;	/* the daemon's word for it */
	ctl_fn *done;		/* whose ctx is the request */
	bool post;
	unsigned params;
};

/* NULL: there is none. */
const struct daemon_route *daemon_route_find(const char *name);
/* Sees to the answer. */
void daemon_route_run(const struct daemon_route *e, struct ctl_async *relays,
    struct evhttp_request *req, const struct web_params *p);

#endif
