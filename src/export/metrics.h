/*
 * metrics.h - what a scraper gets: totals of all windows that this daemon
 * wrote, its health, and the process's own figures.
 */
#ifndef KP_EXPORT_METRICS_H
#define KP_EXPORT_METRICS_H

#include "kprofd/buf.h"
#include "totals.h"

#define METRICS_OUTPUT_MAX (64u << 20)	/* bytes of one answer */

/*
 * In the form that the Accept header asks for, which *type names then; accept
 * may be NULL.  health: what the daemon answered (health.h), or NULL when it
 * did not.  Errors stick in b.
 */
void metrics_answer(struct totals *t, const char *accept, const char *health,
    size_t n, struct kp_buf *b, const char **type);

#endif
