/*
 * sat.h - saturating arithmetic on ns: results stop at the ends of int64_t.
 *
 * Targets send the time stamps, and weights multiply them.  A saturated sum is
 * wrong in one cell; an overflow is undefined behaviour.
 */
#ifndef KPROFD_BASE_SAT_H
#define KPROFD_BASE_SAT_H

#include <stdint.h>

#include "kprofd/clock.h"

static inline int64_t
sat_add(int64_t a, int64_t b)
{
	int64_t r;

	if (__builtin_add_overflow(a, b, &r))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return r;
}

static inline int64_t
sat_mul(int64_t a, uint32_t weight)
{
	int64_t r;

	if (__builtin_mul_overflow(a, (int64_t)weight, &r))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return r;
}

/* Returns the time between two; 0 if the second is not later. */
static inline kp_dur_ns
sat_span(int64_t from, int64_t to)
{
	kp_dur_ns d;

	if (to <= from)
		return 0;
	return __builtin_sub_overflow(to, from, &d) ? INT64_MAX : d;
}

#endif
