/*
 * term_fast.h - the reader's common cases, inlined for trace_event.c.
 *
 * Each function here does what its kp_term_ namesake does: it looks for the
 * one encoding that the VM uses nearly always, and leaves the rest to
 * term.c.  Errors need no test on the way: after one, p == end, so that
 * every read finds too few bytes and comes to term_fail(), which keeps the
 * first error.
 */
#ifndef KPROFD_TERM_FAST_H
#define KPROFD_TERM_FAST_H

#include <endian.h>
#include <string.h>

#include "kprofd/term.h"
#include "base/etf_tags.h"

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

static inline struct kp_span
term_atom(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);

	if (kp_likely(
		left >= 2 && p[0] == ETF_SMALL_ATOM_UTF8 && left - 2 >= p[1])) {
		r->p = p + 2 + p[1];
		return (struct kp_span){ p + 2, p[1] };
	}
	return kp_term_atom(r);
}

static inline uint32_t
term_tuple(struct kp_term *r)
{
	const uint8_t *p = r->p;

	if (kp_likely(term_left(r) >= 2 && p[0] == ETF_SMALL_TUPLE)) {
		r->p = p + 2;
		return p[1];
	}
	return kp_term_tuple(r);
}

static inline void
term_tuple_n(struct kp_term *r, uint32_t arity)
{
	if (term_tuple(r) != arity)
		term_fail(r, KP_EFORMAT);
}

/*
 * Time stamps and labels are SMALL_BIGs of 5 to 8 bytes.  Eight bytes can
 * be loaded at once where they are there, since an event goes on after
 * them.
 */
static inline int64_t
term_int(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);
	uint64_t mag;

	if (kp_likely(left >= 2 && p[0] == ETF_SMALL_INTEGER)) {
		r->p = p + 2;
		return p[1];
	}
	if (kp_likely(left >= 11 && p[0] == ETF_SMALL_BIG && p[1] - 1u < 8)) {
		mag = term_le64(p + 3) & UINT64_MAX >> (64 - 8 * p[1]);
		if (kp_likely(mag <= INT64_MAX)) {
			r->p = p + 3 + p[1];
			return p[2] ? -(int64_t)mag : (int64_t)mag;
		}
	}
	return kp_term_int(r);
}

static inline struct kp_pid
term_pid(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);
	struct kp_pid pid;

	if (kp_likely(left >= 3 && p[0] == ETF_NEW_PID &&
		      p[1] == ETF_SMALL_ATOM_UTF8 && left - 3 >= p[2] + 12u)) {
		pid.node = (struct kp_span){ p + 3, p[2] };
		p += 3 + p[2];
		pid.id = term_be32(p);
		pid.serial = term_be32(p + 4);
		pid.creation = term_be32(p + 8);
		r->p = p + 12;
		return pid;
	}
	return kp_term_pid(r);
}

static inline void
term_skip(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);

	if (kp_likely(left >= 2)) {
		if (p[0] == ETF_SMALL_ATOM_UTF8 && left - 2 >= p[1]) {
			r->p = p + 2 + p[1];
			return;
		}
		if (p[0] == ETF_SMALL_INTEGER) {
			r->p = p + 2;
			return;
		}
		if (p[0] == ETF_INTEGER && left >= 5) {
			r->p = p + 5;
			return;
		}
	}
	kp_term_skip(r);
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
