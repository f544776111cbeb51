/*
 * prometheus.h - writes metrics in the formats that scrapers read.  Pure.
 *
 * There are three formats: Prometheus text (0.0.4), OpenMetrics text (1.0.0) and
 * Prometheus protobuf, delimited.  The last one has each histogram twice: as a
 * classic one, and as a native one (schema 5) with the buckets of struct
 * kp_hist, so that every quantile is as exact as in the database.
 *
 * A classic histogram has round bounds, seven a decade from 100 us to 75 s.
 *
 * Source: OpenMetrics 1.0; Prometheus, "exposition formats"; client_model's
 * metrics.proto.
 */
#ifndef KPROFD_EXPORT_PROMETHEUS_H
#define KPROFD_EXPORT_PROMETHEUS_H

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/hist.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

#define METRIC_LABELS_MAX 3

/* A metric family.  If its name ends in a unit, that is its unit. */
struct metric {
	const char *name;	/* a counter's lacks the suffix _total */
	enum metric_type type;
	const char *help;
	const char *labels[METRIC_LABELS_MAX];	/* unused ones: NULL */
};

/* From the least to the most expressive. */
enum prom_format { PROM_TEXT, PROM_OPENMETRICS, PROM_PROTOBUF };

/* Fields are private. */
struct prom {
	struct kp_buf *out;
	enum prom_format format;
	const struct metric *m;		/* the current family, or NULL */
	struct kp_buf family, metric, part;	/* of protobuf: by depth */
};

/* The format that an Accept header prefers; of NULL PROM_TEXT. */
enum prom_format prom_choose(const char *accept);
const char *prom_content_type(enum prom_format f);

/* Errors stick in `out`. */
void prom_begin(struct prom *x, struct kp_buf *out, enum prom_format f);
/* Starts a family.  Borrows m until the next one. */
void prom_family(struct prom *x, const struct metric *m);
/* values: of the labels, in their order; valid UTF-8. */
void prom_number(struct prom *x, const char *const *values, double v);

struct prom_label {
	const char *name, *value;
};

/* One of the values, and what is known of it. */
struct prom_exemplar {
	struct prom_label labels[2];
	size_t nlabels;
	double v;		/* seconds */
	kp_wall_ns at;
};

/*
 * sum: in seconds.  e: beside its bucket, unless the format is PROM_TEXT, which has no
 * exemplars; NULL: none.
 */
void prom_hist(struct prom *x, const char *const *values,
    const struct kp_hist *h, double sum, const struct prom_exemplar *e);
void prom_end(struct prom *x);

/* Bounds of a classic histogram, but for the last, which is infinity. */
#define PROM_BOUNDS 42
/* Bound i in seconds. */
double prom_bound(size_t i);
/*
 * Counts the values at or below each bound; those of a stored bucket, 2.2 % wide, that has
 * the bound inside it in proportion.
 */
void prom_cumulate(const struct kp_hist *h, uint64_t n[PROM_BOUNDS]);

/* The shortest text that reads back as the same double. */
#define PROM_NUMBER_MAX 32
const char *prom_double(char text[PROM_NUMBER_MAX], double v);

#endif
