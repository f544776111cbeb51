/*
 * otlp.h - sends slow requests as traces and totals as metrics to an
 * OpenTelemetry collector, on a thread of its own.
 *
 * It reads requests from the database as any reader does, and shares no memory
 * with the event loop.  The database is its queue: in memory there is one body,
 * of OTLP_BODY_MAX at most.  Requests more than OTLP_WAITING_MAX behind are
 * skipped and counted, as are those deleted before they were sent; metrics are
 * cumulative, so the next ones make up for those that did not arrive.
 *
 * After an answer that means "later" (429, 502, 503, 504, or none) it retries
 * with exponential backoff, from half a second to 30 s, or as Retry-After says;
 * any other answer is final.
 */
#ifndef KPROFD_EXPORT_OTLP_H
#define KPROFD_EXPORT_OTLP_H

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
	struct totals *totals;	/* all of these are borrowed and outlive it */
};

struct otlp_status {
	uint64_t spans, points;		/* the collector accepted */
	uint64_t spans_refused, points_refused;	/* not sent again */
	uint64_t requests_lost;		/* never sent: too far behind, or deleted */
	uint64_t requests_waiting;
	uint64_t failures;		/* attempts that are retried */
	bool failing;			/* the last attempt failed */
	char why[256];			/* the last failure or refusal, or "" */
};

struct otlp;

/* On error `why` is one line for the user. */
enum kp_err otlp_start(struct otlp **out, const struct otlp_opts *o, char *why,
    size_t n);
void otlp_status(struct otlp *x, struct otlp_status *out);
/* Ends the thread, between two steps of a transfer. */
void otlp_stop(struct otlp *x);
/*
 * Call this after otlp_stop(), when everything is in the database: sends what
 * waits there, for three seconds at most, and frees x.  Returns how many slow
 * requests were not sent.
 */
uint64_t otlp_finish(struct otlp *x);

#endif
