/*
 * viewers.h - writes the trace of one request for programs that show traces: Chrome's
 * trace events, which Perfetto and chrome://tracing read, speedscope's own JSON, and
 * OTLP in JSON.
 *
 * Of Chrome's, a node is a process, a process a thread, and an arrow leads from a call to
 * one that another process made for it: what was sent between them set it off, at a time
 * that is not known.  Calls of a process that overlap, as those of nodes with other clocks
 * may seem to, are on tracks of their own, since both programs have calls nest.  A call
 * whose end was not seen has the length 0.
 *
 * Source: "Trace Event Format" of Chromium's catapult; speedscope's
 * file-format-schema.json, profiles of type "evented".
 */
#ifndef KPROFD_EXPORT_VIEWERS_H
#define KPROFD_EXPORT_VIEWERS_H

#include "kprofd/buf.h"
#include "store/query.h"

/* TRACE_TREE: that of report/requests.h. */
enum trace_form { TRACE_TREE, TRACE_CHROME, TRACE_SPEEDSCOPE, TRACE_OTLP };
#define TRACE_FORMS "tree,chrome,speedscope,otlp"

/* Writes any form but TRACE_TREE.  Errors: KP_ENOMEM, and those of b. */
enum kp_err trace_put(struct kp_buf *b, const struct kp_query_tree *t,
    enum trace_form form);
/* Reads the request, too.  KP_ENOENT: there is no such. */
enum kp_err trace_from_db(struct kp_query *q, int64_t id, enum trace_form form,
    struct kp_buf *b);

#endif
