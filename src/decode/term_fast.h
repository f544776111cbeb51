/*
 * term_fast.h - the reader's common cases, inlined for trace_event.c.
 *
 * Each function here does what its kp_term_ namesake does: it looks for the
 * one encoding that the VM uses nearly always, and leaves the rest to that.
 */
#ifndef KPROFD_DECODE_TERM_FAST_H
#define KPROFD_DECODE_TERM_FAST_H

#include "decode/term_bytes.h"

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

#endif
