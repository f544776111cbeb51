/*
 * otlp_json.h - writes requests as traces and totals as metrics for an
 * OpenTelemetry collector: OTLP in JSON.  Pure.
 *
 * A request is a trace: its root span is the request and the call of its entry, with a
 * span for each other call of a tier below it.  A request that ran on several nodes is one
 * trace of several resources.  A request that began inside another one is a
 * trace of its own, with a link.  Ids are hashes of the run and the labels, so a
 * link needs no memory of the trace that it points to.  But a request whose
 * traceparent is known is in the application's trace, and its root span is a child of
 * the application's span.
 *
 * Histograms are exponential ones of scale 5, with the buckets of struct kp_hist,
 * and cumulative since the node's first window.
 *
 * A resource is a node.  Its service is the node's name without a number at its end:
 * app1@a and app2@b are instances of app.
 *
 * Source: opentelemetry-proto 1.x; OTLP specification, "JSON Protobuf
 * Encoding": ids in hex, 64 bits as text, enums as numbers; semantic conventions 1.x for
 * the names of attributes, and for the form of a list of them ("Specifying resource
 * information via an environment variable").
 */
#ifndef KPROFD_EXPORT_OTLP_JSON_H
#define KPROFD_EXPORT_OTLP_JSON_H

#include "kprofd/buf.h"
#include "store/query.h"
#include "totals.h"

#define OTLP_TRACE_ID 33	/* hex digits and a NUL */
#define OTLP_SPAN_ID 17

void otlp_trace_id(char id[OTLP_TRACE_ID], kp_wall_ns run, uint64_t label);
/* span: 0 for the request itself, index + 1 for a call. */
void otlp_span_id(char id[OTLP_SPAN_ID], kp_wall_ns run, uint64_t label,
    uint32_t span);

#define OTLP_SERVICE_MAX 256	/* bytes, with a NUL */
/* The service of a node: service.name of the attributes, which may be NULL, or as above. */
const char *otlp_service(char buf[OTLP_SERVICE_MAX], const char *attributes,
    const char *node);

/* Is this "name=value,...", with %XX in values for what is not plain, as above? */
bool otlp_attributes_valid(const char *list);

/* What resources say beside their node's name.  All borrowed. */
struct otlp_about {
	const char *attributes;	/* a valid list for all of them, which may replace those of
				   a node; NULL: none */
	struct totals *totals;	/* knows nodes' releases; NULL: they are not known */
};

/* Returns the number of spans.  about: NULL or filled in. */
size_t otlp_traces(struct kp_buf *b, const struct otlp_about *about,
    const struct kp_query_tree *trees, size_t n);
/* The metrics of one node.  Returns the number of data points. */
size_t otlp_metrics(struct kp_buf *b, const char *attributes,
    const struct totals *t, size_t node);
/* A node's Resource, as a protobuf message. */
void otlp_resource(struct kp_buf *b, const struct otlp_about *about, const char *node);

/*
 * How many of `sent` the collector's answer says that it rejected.  The answer
 * can be any bytes.
 */
uint64_t otlp_refused(const char *answer, size_t n, bool traces,
    uint64_t sent);
/*
 * The same of profiles, whose answer is a protobuf message: as it says.  *why is its text,
 * of a refusal (Status of google.rpc), too; in the answer, and not a C string.
 */
uint64_t otlp_refused_profiles(const char *answer, size_t n, const char **why,
    size_t *nwhy);

#endif
