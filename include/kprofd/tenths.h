/*
 * tenths.h - how far chance may have moved a ratio of sums over windows in which a part
 * of the requests was measured.  Pure.
 *
 * Requests of one slice of time are alike, and so are those of a burst, so the number of
 * requests does not say how sure a figure is.  The windows are put into ten groups, each
 * of which has some of all of the time, and a figure's error is how these differ: the
 * method of random groups, with ratios made linear.
 *
 * Source: K. M. Wolter, "Introduction to Variance Estimation", 2007, chapters 2 and 6.
 */
#ifndef KPROFD_TENTHS_H
#define KPROFD_TENTHS_H

#include <stddef.h>

#include "kprofd/clock.h"

#define KP_TENTHS 10
#define KP_TENTHS_MIN 3		/* with figures; of fewer nothing is said */

/*
 * The tenth of a window or sum; unit: ns, no window is longer.  Each row of ten units has
 * one of each, and begins with another one, so that what comes back regularly is not
 * always in the same tenth.
 */
size_t kp_tenth(kp_wall_ns start, kp_dur_ns unit);
/* Tenths in which there is anything. */
size_t kp_tenths_filled(const double v[KP_TENTHS]);

/* A ratio of sums, and its standard error by how tenths differ. */
struct kp_ratio {
	double v, error;
	double t;	/* quantile of Student's t: an interval is v - t * error to v + t * error */
};
/* Of y / x in n tenths, `with` of which have some of y; n is 2 at least.  v 0: none. */
struct kp_ratio kp_ratio_of(const double y[KP_TENTHS], const double x[KP_TENTHS], size_t n,
    size_t with);

#endif
