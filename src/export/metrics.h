/*
 * metrics.h - the answer to a scraper: totals of all windows that this daemon
 * wrote, its health, and the process's own figures.
 */
#ifndef KPROFD_EXPORT_METRICS_H
#define KPROFD_EXPORT_METRICS_H

#include "prometheus.h"
#include "totals.h"

#define METRICS_OUTPUT_MAX (64u << 20)	/* bytes of one answer */

/*
 * Writes the answer in the format that the Accept header asks for (accept may be
 * NULL), and its content type to *type.  health: the daemon's answer (health.h),
 * or NULL if it gave none.  Errors stick in b.
 */
void metrics_answer(struct totals *t, const char *accept, const char *health,
    size_t n, struct kp_buf *b, const char **type);

/*
 * Writes the totals, which the caller has locked.  Pure.  All counts and times
 * are estimates for all requests: those of sampled ones times their weight, as in
 * reports.
 */
void families_write(struct prom *x, const struct totals *t);

#endif
