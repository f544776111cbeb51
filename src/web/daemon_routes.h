/*
 * daemon_routes.h - the paths that the daemon answers: of the API, and /metrics.
 *
 * Besides the daemon's control socket and the database the web server shares nothing
 * with it: so it cannot slow the daemon down, and can serve a saved database.
 */
#ifndef KPROFD_WEB_DAEMON_ROUTES_H
#define KPROFD_WEB_DAEMON_ROUTES_H

#include <event2/http.h>

#include "export/totals.h"
#include "params.h"

struct ctl_async;

/* status: 200, 409 refused by the daemon, 503 too slow or too many at once. */
typedef void ctl_fn(void *ctx, int status, const char *text, size_t n);

/* Borrows base, and path, the control socket.  NULL when out of memory. */
struct ctl_async *ctl_async_new(struct event_base *base, const char *path);
/* Answers the commands that wait. */
void ctl_async_free(struct ctl_async *all);

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
