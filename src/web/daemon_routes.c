/*
 * daemon_routes.c - a table of routes with the control command for each, and the
 * callbacks that turn the daemon's answer into a reply.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl_socket.h"
#include "daemon_routes.h"
#include "export/metrics.h"
#include "reply.h"
#include "text/json.h"

#define COMMAND_SECONDS 15
#define METRICS_SECONDS 5	/* Prometheus gives up after 10 s */

/* Passes JSON on as it is, and any other text as a string in an object. */
static void
on_answer(void *ctx, int status, const char *text, size_t n)
{
	struct evhttp_request *req = ctx;
	struct json j;
	struct kp_buf b;

	if (status == CTL_NO_DAEMON)
		status = 503;
	if (status == 200 && n > 0 && text[0] == '{') {
		reply(req, status, text, n);
		return;
	}
	kp_buf_init(&b, 16 * CTL_BYTES_MAX);
	json_begin(&j, &b);
	json_object(&j, NULL);
	json_string_n(&j, status == 200 ? "done" : "error", text,
	    n > 0 && text[n - 1] == '\n' ? n - 1 : n);
	json_end(&j);
	kp_buf_u8(&b, '\n');
	reply(req, status, b.p, b.len);
	kp_buf_free(&b);
}

/* For a status it is an answer, not an error, that no daemon runs. */
static void
on_status(void *ctx, int status, const char *text, size_t n)
{
	static const char stopped[] = "{\"running\":false}\n";

	if (status == CTL_NO_DAEMON)
		reply(ctx, 200, stopped, strlen(stopped));
	else
		on_answer(ctx, status, text, n);
}

static const struct daemon_route routes[] = {
	{ "status", "status json", on_status, false, PARAM_NODE },
	{ "flight", "flight json", on_status, false, PARAM_NODE },
	{ "pause", "pause", on_answer, true, PARAM_NODE },
	{ "resume", "resume", on_answer, true, PARAM_NODE },
	{ "dump", "dump", on_answer, true, 0 },
};
#define NROUTES (sizeof(routes) / sizeof(routes[0]))

const struct daemon_route *
daemon_route_find(const char *name)
{
	for (size_t i = 0; i < NROUTES; i++)
		if (strcmp(routes[i].name, name) == 0)
			return &routes[i];
	return NULL;
}

void
daemon_route_run(const struct daemon_route *route, struct ctl_async *ctl,
    struct evhttp_request *req, const struct web_params *p)
{
	char line[CTL_LINE_MAX];

	if (!ctl_line(line, route->line, p->range.node)) {
		reply_error(req, 400, "'node' is given too often");
		return;
	}
	ctl_ask(ctl, COMMAND_SECONDS, line, route->done, req);
}

/* ---- /metrics ---- */

struct scrape {
	struct totals *totals;
	struct evhttp_request *req;
};

/* If the daemon does not answer kprof_daemon_up is 0, and the rest is written. */
static void
on_metrics(void *ctx, int status, const char *text, size_t n)
{
	struct scrape *s = ctx;
	const char *accept = evhttp_find_header(
	    evhttp_request_get_input_headers(s->req), "Accept"), *type;
	struct kp_buf b;

	kp_buf_init(&b, METRICS_OUTPUT_MAX);
	metrics_answer(s->totals, accept, status == 200 ? text : NULL, n, &b,
	    &type);
	if (b.err == KP_OK)
		reply_as(s->req, 200, type, b.p, b.len);
	else
		reply_error(s->req, 503, kp_err_str(b.err));
	kp_buf_free(&b);
	free(s);
}

void
metrics_run(struct totals *t, struct ctl_async *ctl, struct evhttp_request *req)
{
	struct scrape *s;

	if (t == NULL) {
		reply_error(req, 404, "metrics are served by a kprofd that "
		    "runs: kprofd -http");
		return;
	}
	s = malloc(sizeof(*s));
	if (s == NULL) {
		reply_error(req, 503, "out of memory");
		return;
	}
	*s = (struct scrape){ t, req };
	ctl_ask(ctl, METRICS_SECONDS, "metrics", on_metrics, s);
}
