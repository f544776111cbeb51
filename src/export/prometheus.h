/*
 * prometheus.h - writes metrics as their scrapers read them.  Pure.
 *
 * There are three forms: Prometheus text (0.0.4), OpenMetrics text (1.0.0), and
 * Prometheus protobuf, delimited.  The last one has each histogram twice, with
 * the buckets of prometheus_metric.h and as a native one (schema 5), whose
 * buckets are the histogram's own, so every quantile is as exact as in the
 * database.
 *
 * Source: OpenMetrics 1.0; Prometheus, "exposition formats"; client_model's
 * metrics.proto.
 */
#ifndef KPROFD_EXPORT_PROMETHEUS_H
#define KPROFD_EXPORT_PROMETHEUS_H

#include <stdbool.h>

#include "kprofd/buf.h"
#include "kprofd/hist.h"
#include "prometheus_metric.h"
#include "prometheus_proto.h"

/* Each says more than the one before it. */
enum prom_format { PROM_TEXT, PROM_OPENMETRICS, PROM_PROTOBUF };

/* Fields are private. */
struct prom {
	struct kp_buf *out;
	enum prom_format format;
	const struct metric *m;		/* the family that is open */
	struct proto proto;
};

/* The form that an Accept header likes best; NULL: there is none. */
enum prom_format prom_choose(const char *accept);
const char *prom_content_type(enum prom_format f);

/* Errors stick in `out`. */
void prom_begin(struct prom *x, struct kp_buf *out, enum prom_format f);
/* m is borrowed until the next one. */
void prom_family(struct prom *x, const struct metric *m);
/* values: of the labels, in their order; valid UTF-8. */
void prom_number(struct prom *x, const char *const *values, double v);
/* sum: in seconds. */
void prom_hist(struct prom *x, const char *const *values,
    const struct kp_hist *h, double sum);
void prom_end(struct prom *x);

/* The fewest digits that are the same double, as a text. */
#define PROM_NUMBER_MAX 32
const char *prom_double(char text[PROM_NUMBER_MAX], double v);

#endif
