/*
 * series.h - writes figures over time as JSON for charts: an array of numbers for
 * each figure, null where nothing was measured.
 * Pure: into a kp_buf, whose error sticks.
 */
#ifndef KPROFD_REPORT_SERIES_H
#define KPROFD_REPORT_SERIES_H

#include "kprofd/buf.h"
#include "store/query.h"
#include "text/json.h"

#define SERIES_PER_OCTAVE 4	/* rows of a heatmap in a doubling of time */

/* The array bucket, count, bucket, count, ... of the heatmap's rows. */
void series_buckets_json(struct json *j, const char *key, const struct kp_hist *h);

/*
 * Requests and errors of the identity, and the times of calls of a tier; NULL: of
 * the request itself.  KP_ENOENT: there is no such tier.
 */
enum kp_err series_json(struct kp_buf *b, const struct kp_series *s,
    const char *identity, const char *tier);
/* The histograms of the same tier. */
enum kp_err series_heatmap_json(struct kp_buf *b, const struct kp_series *s,
    const char *identity, const char *tier);
/* Sampling, losses and cost. */
void series_load_json(struct kp_buf *b, const struct kp_series *s);

#endif
