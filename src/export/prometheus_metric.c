/* prometheus_metric.c - counts a histogram's values below each bound. */
#include <math.h>

#include "prometheus_metric.h"

#define BOUNDS_PER_OCTAVE 2
#define BOUND_LOWEST (-14 * BOUNDS_PER_OCTAVE)
#define BUCKETS_PER_BOUND (KP_HIST_PER_OCTAVE / BOUNDS_PER_OCTAVE)

double
prom_bound(size_t i)
{
	return exp2(((double)i + BOUND_LOWEST) / BOUNDS_PER_OCTAVE);
}

/* Bucket j ends at 2^((j+1)/32): it is below bound k if j + 1 <= 16 k. */
void
prom_cumulate(const struct kp_hist *h, uint64_t n[PROM_BOUNDS])
{
	uint64_t seen = 0;
	uint32_t j = 0;

	for (int i = 0; i < PROM_BOUNDS; i++) {
		while (j < h->len && h->lo + (int32_t)j + 1 <=
		    (i + BOUND_LOWEST) * BUCKETS_PER_BOUND)
			seen += h->n[j++];
		n[i] = seen;
	}
}
