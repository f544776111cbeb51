/*
 * otlp.h - sends slow requests as traces and totals as metrics to an
 * OpenTelemetry collector, on a thread of its own.
 *
 * It reads requests from the database as any reader does, and shares nothing
 * with what takes in events.  What waits to be sent waits in the database:
 * there is one body in memory, of OTLP_BODY_MAX at most.  Requests more than
 * OTLP_WAITING_MAX behind are passed over and counted, as are those that were
 * deleted before they were sent; metrics are cumulative, so the next ones make
 * up for those that did not arrive.
 *
 * After an answer that means "later" (429, 502, 503, 504, or none) it tries
 * again, half a second later and then twice as long each time, 30 s at most, or
 * as Retry-After says; any other answer is final.
 */
#ifndef KP_EXPORT_OTLP_H
#define KP_EXPORT_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/err.h"

#define OTLP_BODY_MAX (32u << 20)	/* bytes */
#define OTLP_WAITING_MAX 10000		/* requests */

struct totals;

struct otlp_opts {
	const char *url;	/* http://HOST:4318, https too */
	const char *header_file;	/* NULL: none; see http_post.h */
	const char *db;
	struct totals *totals;	/* all borrowed; outlive it */
};

struct otlp_status {
	uint64_t spans, points;		/* taken by the collector */
	uint64_t spans_refused, points_refused;	/* for good */
	uint64_t requests_lost;		/* never sent: too far behind, or deleted */
	uint64_t requests_waiting;
	uint64_t failures;		/* attempts that will be made again */
	bool failing;			/* the last attempt was one */
	char why[256];			/* the last failure or refusal; "": none */
};

struct otlp;

/* On error `why` is one line for the user. */
enum kp_err otlp_start(struct otlp **out, const struct otlp_opts *o, char *why,
    size_t n);
void otlp_status(struct otlp *x, struct otlp_status *out);
/* Ends the thread; what is under way waits. */
void otlp_stop(struct otlp *x);
/*
 * After that, and when all is in the database: sends what waits there, as far
 * as the collector takes it, for three seconds at most, and frees it.  Returns
 * how many slow requests were not sent.
 */
uint64_t otlp_finish(struct otlp *x);

#endif
