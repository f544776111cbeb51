/*
 * otlp_json.h - requests as traces and totals as metrics, as an OpenTelemetry
 * collector takes them: OTLP in JSON.  Pure.
 *
 * A request is a trace: its root span is the request itself, with a span for
 * each call of a tier below it.  A request that ran on several nodes is one
 * trace of several resources.  A request that began inside another one is a
 * trace of its own, with a link.  Ids are made from the run and the labels, so
 * a link can be made without remembering what it points to.
 *
 * Histograms are exponential ones of scale 5, bucket for bucket, cumulative
 * since the node's first window: one that did not arrive is in the next.
 *
 * Source: opentelemetry-proto 1.x; OTLP specification, "JSON Protobuf
 * Encoding": ids in hex, 64 bits as text, enums as numbers.
 */
#ifndef KP_EXPORT_OTLP_JSON_H
#define KP_EXPORT_OTLP_JSON_H

#include "kprofd/buf.h"
#include "store/read/query.h"
#include "totals.h"

#define OTLP_TRACE_ID 33	/* hex digits and a NUL */
#define OTLP_SPAN_ID 17

void otlp_trace_id(char id[OTLP_TRACE_ID], kp_wall_ns run, uint64_t label);
/* span: 0 the request itself, then its calls' index and one. */
void otlp_span_id(char id[OTLP_SPAN_ID], kp_wall_ns run, uint64_t label,
    uint32_t span);

/* run: its start.  Returns how many spans there are. */
size_t otlp_traces(struct kp_buf *b, kp_wall_ns run,
    const struct kp_query_tree *trees, size_t n);
/* Of one node.  Returns how many data points; 0: there is nothing to say. */
size_t otlp_metrics(struct kp_buf *b, const struct totals *t, size_t node);

/*
 * How many of `sent` a collector that took the rest says that it did not take;
 * its answer can be anything.
 */
uint64_t otlp_refused(const char *answer, size_t n, bool traces,
    uint64_t sent);

#endif
