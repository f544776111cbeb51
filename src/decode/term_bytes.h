/*
 * term_bytes.h - the steps of the reader: what is left, the tag ahead, numbers,
 * spans, and how it fails.
 *
 * A failed reader needs no test on the way: p == end, so that every read finds
 * too few bytes and comes to term_fail() again, which keeps the first error.
 */
#ifndef KPROFD_DECODE_TERM_BYTES_H
#define KPROFD_DECODE_TERM_BYTES_H

#include <endian.h>
#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/term.h"

#define kp_likely(x) __builtin_expect(!!(x), 1)

static inline size_t
term_left(const struct kp_term *r)
{
	return (size_t)(r->end - r->p);
}

static inline void
term_fail(struct kp_term *r, enum kp_err e)
{
	if (r->err == KP_OK)
		r->err = e;
	r->p = r->end;
}

/* The first byte of the term ahead; 0, which is not a tag, at the end. */
static inline uint8_t
term_tag(const struct kp_term *r)
{
	return kp_likely(r->p < r->end) ? r->p[0] : 0;
}

static inline uint32_t
term_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

/* Least significant byte first. */
static inline uint64_t
term_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* The bytes from p on that the reader has passed since it stood there. */
static inline struct kp_span
term_since(const struct kp_term *r, const uint8_t *p)
{
	if (r->err != KP_OK)
		return (struct kp_span){ NULL, 0 };
	return (struct kp_span){ p, (uint32_t)(r->p - p) };
}

static inline bool
term_span_is(struct kp_span s, const char *lit, size_t n)
{
	return s.n == n && (n == 0 || memcmp(s.p, lit, n) == 0);
}

/* lit must be a string literal, so that the compiler knows its length. */
#define TERM_IS(s, lit) term_span_is((s), (lit), sizeof(lit) - 1)

#endif
