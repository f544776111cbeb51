/*
 * tenths.c - see the header.
 */
#include <math.h>
#include <stdint.h>

#include "kprofd/tenths.h"

/*
 * How many tenths differ alike: (sum of squares)^2 / sum of fourth powers is some 4 where
 * ten normal figures do, and 1 where a single one differs.  Times this, less one, it is
 * taken for degrees of freedom, found by trials (test_intervals).
 */
#define ALIKE 2.0

size_t
kp_tenth(kp_wall_ns start, kp_dur_ns unit)
{
	uint64_t at = (uint64_t)(start / unit), row = at / KP_TENTHS;

	return (size_t)((at + (row * UINT64_C(0x9e3779b97f4a7c15) >> 40)) % KP_TENTHS);
}

size_t
kp_tenths_filled(const double v[KP_TENTHS])
{
	size_t n = 0;

	for (size_t i = 0; i < KP_TENTHS; i++)
		n += v[i] > 0;
	return n;
}

/* Two-sided quantile of Student's t at 95 %, by degrees of freedom, from 2 to `most`. */
static double
student(double df, size_t most)
{
	static const double t[KP_TENTHS] = { 0, 12.706, 4.303, 3.182, 2.776, 2.571,
		2.447, 2.365, 2.306, 2.262 };

	df = fmax(df, 2);
	return t[df < (double)most ? (size_t)df : most];
}

/*
 * Where the difference is that of a few tenths the error is less sure, as if there were
 * fewer of them.
 */
struct kp_ratio
kp_ratio_of(const double y[KP_TENTHS], const double x[KP_TENTHS], size_t n, size_t with)
{
	double sy = 0, sx = 0, squares = 0, fourths = 0, e;
	struct kp_ratio r = { 0 };

	for (size_t i = 0; i < KP_TENTHS; i++) {
		sy += y[i];
		sx += x[i];
	}
	if (sx <= 0 || sy <= 0)
		return r;
	r.v = sy / sx;
	for (size_t i = 0; i < KP_TENTHS; i++) {
		e = y[i] / sx - r.v * (x[i] / sx);
		squares += e * e;
		fourths += e * e * e * e;
	}
	r.error = sqrt((double)n / (double)(n - 1) * squares);
	r.t = student(fourths > 0 ? ALIKE * squares * squares / fourths - 1 : KP_TENTHS,
	    with - 1);
	return r;
}
