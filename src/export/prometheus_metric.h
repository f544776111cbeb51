/*
 * prometheus_metric.h - a family of metrics, and the bounds of its buckets, in
 * whichever form it is written.  Pure.
 *
 * For scrapers that cannot take native histograms there are two buckets an
 * octave, from 2^-14 s (61 us) to 64 s.  Their bounds are bounds of the
 * histogram's buckets too (hist.h), so each count is exact.
 */
#ifndef KPROFD_EXPORT_PROMETHEUS_METRIC_H
#define KPROFD_EXPORT_PROMETHEUS_METRIC_H

#include "kprofd/hist.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

#define METRIC_LABELS_MAX 3

/* A family.  Its unit is the last word of its name, if that is one. */
struct metric {
	const char *name;	/* of a counter without its _total */
	enum metric_type type;
	const char *help;
	const char *labels[METRIC_LABELS_MAX];	/* NULL behind the last */
};

#define PROM_BOUNDS 41
/* Bound i in seconds; PROM_BOUNDS of them, then there is infinity. */
double prom_bound(size_t i);
/* How many are at or below each bound. */
void prom_cumulate(const struct kp_hist *h, uint64_t n[PROM_BOUNDS]);

#endif
