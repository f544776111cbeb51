/*
 * hist.h - keeps a histogram of durations.  Pure.
 *
 * It is base-2 exponential in seconds, with 32 buckets an octave: bucket i
 * holds the durations in (2^(i/32), 2^((i+1)/32)] s.  These are the buckets of
 * an OpenTelemetry exponential histogram of scale 5 and of a Prometheus native
 * histogram of schema 5 (whose index is one higher, since it names the upper
 * bound), so both are exported without re-bucketing.  Durations are integer ns;
 * 0 ns counts as 1 ns.  Any quantile of any merge is right to about 1.1 %.
 *
 * Source: OpenTelemetry metrics data model, "ExponentialHistogram";
 * Prometheus, "native histograms".
 *
 * Stored form (version 1): byte 1, then LEB128 varints: zig-zag of the lowest
 * index, the number of buckets n, then n counts.  An empty histogram is the
 * version byte and two zeros.
 */
#ifndef KPROFD_HIST_H
#define KPROFD_HIST_H

#include <stddef.h>
#include <stdint.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/err.h"

#define KP_HIST_VERSION 1	/* first byte of the stored form */
/* Bytes of the stored form: every bucket at ten bytes fits. */
#define KP_HIST_BYTES_MAX (32u << 10)
#define KP_HIST_PER_OCTAVE 32
#define KP_HIST_MIN (-960)	/* 1 ns falls into -957 */
#define KP_HIST_MAX 1059	/* INT64_MAX ns falls here */

struct kp_hist {
	uint64_t *n;	/* owned; counts of buckets lo .. lo + len - 1;
			   those at the ends may be 0 */
	int32_t lo;
	uint32_t len;
	uint64_t count;	/* sum of all */
};

void kp_hist_init(struct kp_hist *h);
void kp_hist_free(struct kp_hist *h);
/* Returns the exact bucket; negative durations count as 0. */
int32_t kp_hist_bucket(kp_dur_ns d);
/* Return the exact bounds of bucket i in seconds: (lower, upper]. */
double kp_hist_lower(int32_t i);
double kp_hist_upper(int32_t i);
/*
 * Octaves, for what needs no finer classes: number n > 0 has the durations in
 * (2^(n-31), 2^(n-30)] s, those of KP_HIST_PER_OCTAVE buckets; 0 stands for a duration
 * that is not known.
 */
#define KP_HIST_OCTAVES 64	/* the last one, of INT64_MAX ns */
uint8_t kp_hist_octave(kp_dur_ns d);
/* Returns its longest duration; 0 of number 0. */
kp_dur_ns kp_hist_octave_end(unsigned octave);
/* Returns how many durations are in these octaves, with both. */
uint64_t kp_hist_octaves(const struct kp_hist *h, unsigned from, unsigned to);
/*
 * Add a duration `weight` times, or another histogram.  KP_ENOMEM, or KP_ELIMIT
 * if the count would exceed 2^64 - 1: h is unchanged.
 */
enum kp_err kp_hist_add(struct kp_hist *h, kp_dur_ns d, uint64_t weight);
enum kp_err kp_hist_merge(struct kp_hist *h, const struct kp_hist *from);
/* Subtracts one that was merged before; else KP_EFORMAT, h unchanged. */
enum kp_err kp_hist_take(struct kp_hist *h, const struct kp_hist *from);
/*
 * Returns how many durations are at most d.  Where d is inside a bucket, this is an
 * estimate: there are at least *low of them, and at most *high.
 */
double kp_hist_within(const struct kp_hist *h, kp_dur_ns d, uint64_t *low,
    uint64_t *high);
/* Returns the q-quantile (0 <= q <= 1, nearest rank) in ns; 0 when empty. */
kp_dur_ns kp_hist_quantile(const struct kp_hist *h, double q);
/*
 * The same, clamped to the measured min and max: a bucket's middle may lie
 * outside.
 */
kp_dur_ns kp_hist_quantile_within(const struct kp_hist *h, double q,
    kp_dur_ns min, kp_dur_ns max);
/*
 * Returns the standard deviation in ns, right to about 1 % of the mean, and sets that; 0
 * when empty.
 */
double kp_hist_deviation(const struct kp_hist *h, double *mean);
/* Appends the stored form, without zeros at either end. */
void kp_hist_write(const struct kp_hist *h, struct kp_buf *out);
/* Replaces h by the stored form of all n bytes.  On error h is unchanged. */
enum kp_err kp_hist_read(struct kp_hist *h, const void *p, size_t n);

#endif
