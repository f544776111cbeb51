/*
 * push.h - sends what is stored to another program, on a thread of its own: slow
 * requests as traces and totals as metrics to an OpenTelemetry collector, or stacks as
 * profiles to Pyroscope or to a collector.
 *
 * It reads the database as any reader does, and shares no memory with the event loop.
 * The database is its queue: in memory there is one body, of PUSH_BODY_MAX at most.
 * Requests more than PUSH_WAITING_MAX behind are skipped and counted, as are those deleted
 * before they were sent; metrics are cumulative, so the next ones make up for those that
 * did not arrive; of profiles see profiles.h.
 *
 * After an answer that means "later" (none, 429, 502, 503, 504, and to profiles 408, 409
 * and any other that begins with 5, which Pyroscope gives to what it could not store) it
 * retries with exponential backoff, from half a second to 30 s, or as Retry-After says;
 * any other answer is final.
 */
#ifndef KPROFD_EXPORT_PUSH_H
#define KPROFD_EXPORT_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/err.h"
#include "store/retain.h"

#define PUSH_BODY_MAX (32u << 20)	/* bytes */
#define PUSH_WAITING_MAX 10000		/* requests */

struct totals;

enum push_to { PUSH_OTLP, PUSH_OTLP_PROFILES, PUSH_PYROSCOPE, PUSH_TO };
/* For people, the log and JSON: "pyroscope". */
const char *push_name(enum push_to to);
/* Whose value is the URL: "-pyroscope"; that of header_file is "-pyroscope-header-file". */
const char *push_option(enum push_to to);

struct push_opts {
	enum push_to to;
	const char *url;	/* http://HOST:4318, https too */
	const char *header_file;	/* NULL: none; see http_post.h */
	const char *attributes;		/* NULL: none; see otlp_json.h */
	const char *db;
	struct totals *totals;	/* of OTLP; all of these are borrowed and outlive it */
	/* Of profiles, as of profiles_init(). */
	kp_wall_ns since;
	kp_dur_ns interval;
	const struct kp_retain *retain;
};

enum push_kind { PUSH_SPANS, PUSH_POINTS, PUSH_PROFILES, PUSH_KINDS };

struct push_status {
	uint64_t taken[PUSH_KINDS];	/* by the other side */
	uint64_t refused[PUSH_KINDS];	/* not sent again */
	uint64_t lost;		/* slow requests that were never sent: too far behind, or
				   deleted; or seconds of nodes' windows: too far behind,
				   too large or not to be read */
	uint64_t waiting;	/* slow requests, or seconds of nodes' windows */
	uint64_t failures;	/* attempts that are retried */
	bool failing;		/* the last attempt failed */
	char why[256];		/* the last failure or refusal, or "" */
};

struct push;

/* On error `why` is one line for the user. */
enum kp_err push_start(struct push **out, const struct push_opts *o, char *why,
    size_t n);
void push_status(struct push *x, struct push_status *out);
/* Ends the thread, between two steps of a transfer.  NULL: nothing. */
void push_stop(struct push *x);
/*
 * Call this after push_stop(), when everything is in the database: sends what
 * waits there, for three seconds at most, and frees x.  Returns how many slow
 * requests, or seconds of windows, were not sent.
 */
uint64_t push_finish(struct push *x);

#endif
