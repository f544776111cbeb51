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

/* Each says more than the one before it. */
enum prom_format { PROM_TEXT, PROM_OPENMETRICS, PROM_PROTOBUF };

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

#define METRIC_LABELS_MAX 3

/* A family.  Its unit is the last word of its name, if that is one. */
struct metric {
	const char *name;	/* of a counter without its _total */
	enum metric_type type;
	const char *help;
	const char *labels[METRIC_LABELS_MAX];	/* NULL behind the last */
};

/* Fields are private. */
struct prom {
	struct kp_buf *out;
	enum prom_format format;
	const struct metric *m;		/* the family that is open */
	struct kp_buf family, metric, part;	/* messages that grow inside out */
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

/* ---- for the writers of the forms, and their tests ---- */

#define PROM_BOUNDS 41
/* Bound i in seconds; PROM_BOUNDS of them, then there is infinity. */
double prom_bound(size_t i);
/* How many are at or below each bound. */
void prom_cumulate(const struct kp_hist *h, uint64_t n[PROM_BOUNDS]);
/* The fewest digits that are the same double, as a text. */
#define PROM_NUMBER_MAX 32
const char *prom_double(char text[PROM_NUMBER_MAX], double v);

/* prometheus_proto.c */
void proto_family(struct prom *x);
void proto_number(struct prom *x, const char *const *values, double v);
void proto_hist(struct prom *x, const char *const *values,
    const struct kp_hist *h, double sum);
/* What is open goes out. */
void proto_flush(struct prom *x);

#endif
