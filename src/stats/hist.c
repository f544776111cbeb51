/*
 * hist.c - finds buckets, adds, merges and subtracts histograms, estimates
 * quantiles, and reads and writes the stored form.
 *
 * The bucket is found with integers alone.  The duration is shifted up until
 * its top bit is bit 63: between 2^63 and 2^64 lie 32 borders, the same for
 * every shift, since the borders of one octave are twice those of the octave
 * below.  An integer is <= a border if and only if it is <= the border rounded
 * down, so the table is exact at the borders too.
 *
 * Counts are an array from the lowest to the highest bucket used.  It grows in
 * steps of HIST_STEP, so that a new cell does not reallocate for each bucket.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/hist.h"

#define HIST_STEP 16

/* floor(10^9 * 2^((4 + j) / 32) * 2^33), by integer roots. */
static const uint64_t borders[KP_HIST_PER_OCTAVE + 1] = {
	UINT64_C(0x81ffa7a9549ca6e3), UINT64_C(0x84d8626d3118d396),
	UINT64_C(0x87c11235836d16a3), UINT64_C(0x8aba10758e1ea3cf),
	UINT64_C(0x8dc3b8960164a7d9), UINT64_C(0x90de67fff600044c),
	UINT64_C(0x940a7e28259fb382), UINT64_C(0x97485c9a622adb60),
	UINT64_C(0x9a9867054d512391), UINT64_C(0x9dfb034651c99c68),
	UINT64_C(0xa1709975dfb06757), UINT64_C(0xa4f993f3ed7b61ca),
	UINT64_C(0xa8965f74bf065071), UINT64_C(0xac476b0df43f745f),
	UINT64_C(0xb00d2843e1060dc2), UINT64_C(0xb3e80b172fd51af7),
	UINT64_C(0xb7d88a12d0dd9ea0), UINT64_C(0xbbdf1e5a373ce5c6),
	UINT64_C(0xbffc43b7e604a922), UINT64_C(0xc43078ac4ed47ae7),
	UINT64_C(0xc87c3e7d03cdbec3), UINT64_C(0xcce019443eb56ce4),
	UINT64_C(0xd15c9000bf211c1f), UINT64_C(0xd5f22ca6019743e0),
	UINT64_C(0xdaa17c2cd19555db), UINT64_C(0xdf6b0ea438793a89),
	UINT64_C(0xe44f7742cb56e3dd), UINT64_C(0xe94f4c7859ce1066),
	UINT64_C(0xee6b280000000000), UINT64_C(0xf3a3a6f29dd0c333),
	UINT64_C(0xf8f969d9b5abf948), UINT64_C(0xfe6d14c2b5114024),
	UINT64_MAX,
};

/* The number of borders below each 64th of the octave; each has one at most. */
static const uint8_t borders_below[2 * KP_HIST_PER_OCTAVE] = {
	0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 6, 7, 8, 8, 9, 10,
	10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 16, 16, 17, 17, 18, 18,
	19, 19, 19, 20, 20, 21, 21, 22, 22, 23, 23, 24, 24, 24, 25, 25,
	26, 26, 26, 27, 27, 28, 28, 28, 29, 29, 30, 30, 30, 31, 31, 31,
};

void
kp_hist_init(struct kp_hist *h)
{
	*h = (struct kp_hist){ 0 };
}

void
kp_hist_free(struct kp_hist *h)
{
	free(h->n);
	kp_hist_init(h);
}

int32_t
kp_hist_bucket(kp_dur_ns d)
{
	uint64_t x = d < 1 ? 1 : (uint64_t)d;
	int top = 63 - __builtin_clzll(x);
	uint32_t below;

	x <<= 63 - top;
	below = borders_below[x >> 57 & 63];
	below += x > borders[below];
	return 3 + (int32_t)below + KP_HIST_PER_OCTAVE * (top - 30);
}

static unsigned
octave_of(int32_t bucket)
{
	return (unsigned)(bucket + 31 * KP_HIST_PER_OCTAVE) / KP_HIST_PER_OCTAVE;
}

uint8_t
kp_hist_octave(kp_dur_ns d)
{
	return (uint8_t)octave_of(kp_hist_bucket(d));
}

kp_dur_ns
kp_hist_octave_end(unsigned octave)
{
	if (octave >= KP_HIST_OCTAVES)
		return INT64_MAX;
	return (kp_dur_ns)(exp2((double)octave - 30) * 1e9);
}

uint64_t
kp_hist_octaves(const struct kp_hist *h, unsigned from, unsigned to)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < h->len; i++)
		if (octave_of(h->lo + (int32_t)i) - from <= to - from)
			n += h->n[i];
	return n;
}

double
kp_hist_lower(int32_t i)
{
	return exp2((double)i / KP_HIST_PER_OCTAVE);
}

double
kp_hist_upper(int32_t i)
{
	return kp_hist_lower(i + 1);
}

static int32_t
step_down(int32_t i)
{
	return i >= 0 ? i / HIST_STEP * HIST_STEP :
	    -((HIST_STEP - 1 - i) / HIST_STEP * HIST_STEP);
}

/* Returns whether the array has bucket i. */
static inline bool
has_bucket(const struct kp_hist *h, int32_t i)
{
	return i >= h->lo && i < h->lo + (int32_t)h->len;
}

/* Makes room for the buckets lo .. hi. */
static enum kp_err
hist_cover(struct kp_hist *h, int32_t lo, int32_t hi)
{
	uint64_t *n;
	uint32_t len;

	if (h->len > 0) {
		if (has_bucket(h, lo) && has_bucket(h, hi))
			return KP_OK;
		if (lo > h->lo)
			lo = h->lo;
		if (hi < h->lo + (int32_t)h->len - 1)
			hi = h->lo + (int32_t)h->len - 1;
	}
	lo = step_down(lo);
	len = (uint32_t)(step_down(hi) + HIST_STEP - lo);
	n = calloc(len, sizeof(*n));
	if (n == NULL)
		return KP_ENOMEM;
	if (h->len > 0)
		memcpy(n + (h->lo - lo), h->n, h->len * sizeof(*n));
	free(h->n);
	h->n = n;
	h->lo = lo;
	h->len = len;
	return KP_OK;
}

enum kp_err
kp_hist_add(struct kp_hist *h, kp_dur_ns d, uint64_t weight)
{
	int32_t i = kp_hist_bucket(d);
	enum kp_err err;

	if (weight > UINT64_MAX - h->count)
		return KP_ELIMIT;
	if (!has_bucket(h, i) && (err = hist_cover(h, i, i)) != KP_OK)
		return err;
	h->n[i - h->lo] += weight;
	h->count += weight;
	return KP_OK;
}

enum kp_err
kp_hist_merge(struct kp_hist *h, const struct kp_hist *from)
{
	enum kp_err err;
	uint64_t *n;

	if (from->len == 0)
		return KP_OK;
	if (from->count > UINT64_MAX - h->count)
		return KP_ELIMIT;
	err = hist_cover(h, from->lo, from->lo + (int32_t)from->len - 1);
	if (err != KP_OK)
		return err;
	n = h->n + (from->lo - h->lo);
	for (uint32_t i = 0, len = from->len; i < len; i++)
		n[i] += from->n[i];
	h->count += from->count;
	return KP_OK;
}

/* Returns the count of bucket i; 0 outside the array. */
static uint64_t
count_at(const struct kp_hist *h, int32_t i)
{
	return has_bucket(h, i) ? h->n[i - h->lo] : 0;
}

enum kp_err
kp_hist_take(struct kp_hist *h, const struct kp_hist *from)
{
	for (uint32_t i = 0; i < from->len; i++) {
		if (from->n[i] > count_at(h, from->lo + (int32_t)i))
			return KP_EFORMAT;
	}
	for (uint32_t i = 0; i < from->len; i++) {
		if (from->n[i] > 0)
			h->n[from->lo - h->lo + (int32_t)i] -= from->n[i];
	}
	h->count -= from->count;
	return KP_OK;
}

double
kp_hist_within(const struct kp_hist *h, kp_dur_ns d, uint64_t *low, uint64_t *high)
{
	int32_t at = kp_hist_bucket(d);
	double from = kp_hist_lower(at) * 1e9, to = kp_hist_upper(at) * 1e9;
	uint64_t below = 0, n = count_at(h, at);

	for (uint32_t i = 0; i < h->len && h->lo + (int32_t)i < at; i++)
		below += h->n[i];
	/* durations are whole ns: does one fit between d and the bucket's end? */
	*low = to < (double)d + 1 ? below + n : below;
	*high = below + n;
	return *low == *high ? (double)*high : (double)below +
	    (double)n * ((double)d - from) / (to - from);
}

/* Returns the geometric middle of a bucket in ns: at most 2^(1/64) off. */
static double
middle(int32_t i)
{
	return exp2(((double)i + 0.5) / KP_HIST_PER_OCTAVE) * 1e9;
}

double
kp_hist_deviation(const struct kp_hist *h, double *mean)
{
	double sum = 0, squares = 0, n = (double)h->count, ms;

	*mean = 0;
	if (h->count == 0)
		return 0;
	for (uint32_t i = 0; i < h->len; i++) {
		if (h->n[i] == 0)
			continue;
		/* ms, so that squares times counts fit in a double */
		ms = middle(h->lo + (int32_t)i) / 1e6;
		sum += (double)h->n[i] * ms;
		squares += (double)h->n[i] * ms * ms;
	}
	*mean = 1e6 * sum / n;
	return 1e6 * sqrt(fmax(squares / n - sum / n * sum / n, 0));
}

kp_dur_ns
kp_hist_quantile(const struct kp_hist *h, double q)
{
	double rank, ns;
	uint64_t seen = 0;
	uint32_t i, last = 0;

	if (h->count == 0)
		return 0;
	/* nearest rank; the small term compensates for the rounding of q */
	rank = ceil(q * (double)h->count - 1e-9);
	for (i = 0; i < h->len; i++) {
		if (h->n[i] == 0)
			continue;
		last = i;
		seen += h->n[i];
		if ((double)seen >= rank)
			break;
	}
	ns = middle(h->lo + (int32_t)last);
	if (ns >= 9.2e18)
		return INT64_MAX;
	return ns < 1 ? 1 : llround(ns);
}

kp_dur_ns
kp_hist_quantile_within(const struct kp_hist *h, double q, kp_dur_ns min,
    kp_dur_ns max)
{
	kp_dur_ns d = kp_hist_quantile(h, q);

	return d < min ? min : d > max ? max : d;
}

void
kp_hist_write(const struct kp_hist *h, struct kp_buf *out)
{
	uint32_t first = 0, end = h->len;
	int32_t lo;

	while (first < end && h->n[first] == 0)
		first++;
	while (end > first && h->n[end - 1] == 0)
		end--;
	lo = first < end ? h->lo + (int32_t)first : 0;
	kp_buf_u8(out, KP_HIST_VERSION);
	kp_buf_zigzag(out, lo);
	kp_buf_varint(out, end - first);
	while (first < end)
		kp_buf_varint(out, h->n[first++]);
}

/* Reads the counts into new memory, which is freed on error. */
static enum kp_err
read_counts(struct kp_bytes *in, struct kp_hist *h)
{
	h->n = calloc(h->len > 0 ? h->len : 1, sizeof(*h->n));
	if (h->n == NULL)
		return KP_ENOMEM;
	for (uint32_t i = 0; i < h->len; i++) {
		h->n[i] = kp_bytes_varint(in);
		if (in->err == KP_OK &&
		    __builtin_add_overflow(h->count, h->n[i], &h->count))
			in->err = KP_EFORMAT;
	}
	if (in->err == KP_OK && in->p != in->end)
		in->err = KP_EFORMAT;
	if (in->err != KP_OK)
		kp_hist_free(h);
	return in->err;
}

enum kp_err
kp_hist_read(struct kp_hist *h, const void *p, size_t n)
{
	struct kp_bytes in = { .p = p, .end = (const uint8_t *)p + n };
	struct kp_hist new = { 0 };
	uint64_t zigzag, len;
	int64_t lo;
	enum kp_err err;

	if (n == 0)
		return KP_ESHORT;
	if (*in.p++ != KP_HIST_VERSION)
		return KP_EFORMAT;
	zigzag = kp_bytes_varint(&in);
	len = kp_bytes_varint(&in);
	if (in.err != KP_OK)
		return in.err;
	if (zigzag > 2 * KP_HIST_MAX || len > KP_HIST_MAX - KP_HIST_MIN + 1)
		return KP_EFORMAT;
	lo = zigzag & 1 ? -(int64_t)(zigzag / 2) - 1 : (int64_t)(zigzag / 2);
	if (lo < KP_HIST_MIN || lo + (int64_t)len - 1 > KP_HIST_MAX)
		return KP_EFORMAT;
	new.lo = (int32_t)lo;
	new.len = (uint32_t)len;
	err = read_counts(&in, &new);
	if (err != KP_OK)
		return err;
	kp_hist_free(h);
	*h = new;
	return KP_OK;
}
