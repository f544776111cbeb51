/*
 * otlp_json.h - writes requests as traces and totals as metrics for an
 * OpenTelemetry collector: OTLP in JSON.  Pure.
 *
 * A request is a trace: its root span is the request itself, with a span for
 * each call of a tier below it.  A request that ran on several nodes is one
 * trace of several resources.  A request that began inside another one is a
 * trace of its own, with a link.  Ids are hashes of the run and the labels, so a
 * link needs no memory of the trace that it points to.
 *
 * Histograms are exponential ones of scale 5, with the buckets of struct kp_hist,
 * and cumulative since the node's first window.
 *
 * Source: opentelemetry-proto 1.x; OTLP specification, "JSON Protobuf
 * Encoding": ids in hex, 64 bits as text, enums as numbers.
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

/* run: when it started.  Returns the number of spans. */
size_t otlp_traces(struct kp_buf *b, kp_wall_ns run,
    const struct kp_query_tree *trees, size_t n);
/* The metrics of one node.  Returns the number of data points. */
size_t otlp_metrics(struct kp_buf *b, const struct totals *t, size_t node);

/*
 * How many of `sent` the collector's answer says that it rejected.  The answer
 * can be any bytes.
 */
uint64_t otlp_refused(const char *answer, size_t n, bool traces,
    uint64_t sent);

#endif
