/*
 * scrape.c - asks the daemon for its metrics, and answers with the totals once
 * it has replied, or has not in DAEMON_SECONDS.
 */
#include <stdlib.h>

#include "export/metrics.h"
#include "reply.h"
#include "scrape.h"

/* Prometheus gives up after 10 s, and would take us for dead. */
#define DAEMON_SECONDS 5

struct scrape {
	struct totals *totals;
	struct evhttp_request *req;
};

/* Without a word of the daemon's there is the rest, which says so. */
static void
on_vitals(void *ctx, int status, const char *text, size_t n)
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
scrape_run(struct totals *t, struct ctl_async *relays,
    struct evhttp_request *req)
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
	ctl_ask_within(relays, DAEMON_SECONDS, "metrics", on_vitals, s);
}
