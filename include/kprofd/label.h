/*
 * label.h - defines the bits of the integer that names a request in the VM.
 *
 *   bits 0..30   a number from the trace control word
 *   bits 31..41  0, or if no number was free: KP_LABEL_SPARE and ten bits more
 *   bits 42..51  a constant of this arming (agent/agent.h), never 0;
 *                the two last are of no arming
 *   bit  52      0: a kprofd's; 1: of kprof trace, where bits 32..51 are an
 *                epoch (erlang/kprof_tracer.erl), or as above
 *   bits 53..58  the signature: a token with it is ours, of any kprofd, even
 *                one that was killed long ago
 *
 * spec_label.c explains how no two requests get the same number.  59 bits are an
 * immediate in every VM of 64 bits; a boxed label crashes the VM.  The labels
 * of an application's own traces have no signature: counts, hashes and times in
 * us are below 2^52, and a time in ns is above 2^59.
 *
 * The word also shows the age of a token, since it moves with time: each agent
 * keeps its own from falling behind a schedule of KP_WORD_HZ a second, which is
 * the same for all targets of a kprofd, by the clock of kprofd's host.  Thus
 * labels of several nodes and of several kprofds can be compared.  The schedule
 * is faster than any node begins requests, and wraps around after 68 min.
 */
#ifndef KPROFD_LABEL_H
#define KPROFD_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#define KP_LABEL_SPARE (UINT64_C(1) << 41)
#define KP_LABEL_EPOCH_SHIFT 32
#define KP_LABEL_CONST_SHIFT 42
#define KP_LABEL_KIND_SHIFT 52
#define KP_LABEL_SIGN_SHIFT 53
#define KP_LABEL_SIGN UINT64_C(0x2D)
#define KP_LABEL_KPROFD (KP_LABEL_SIGN << 1)	/* from KIND_SHIFT on */
#define KP_LABEL_TRACE (KP_LABEL_SIGN << 1 | 1)
#define KP_LABEL_END (UINT64_C(1) << 59)

#define KP_LABEL_CONSTS 1023			/* constants: 1 to this */
/* This one marks the agent's own calls, which measure tracing (cost.h). */
#define KP_LABEL_MEASURES (KP_LABEL_CONSTS - 1)
/*
 * This one marks tokens of no request (kp_spec_params.gives_tokens).  It is the last
 * one, by which spec_label.c recognises it.
 */
#define KP_LABEL_UNOWNED KP_LABEL_CONSTS
#define KP_LABEL_EPOCHS ((UINT32_C(1) << 20) - 1) /* epochs: 1 to this */

#define KP_WORD_MASK INT64_C(0x7FFFFFFF)	/* the number in the word */
#define KP_WORD_FREE INT64_C(0x80000000)	/* that can be taken */
#define KP_WORD_HZ (INT64_C(1) << 19)
/*
 * A token may be as old as a request that is still followed, which is a minute
 * (KP_REQUEST_AGE_MAX), plus the 2 s that words may be apart.  An older one
 * makes no event and is removed.  A token may seem to be from the future by the
 * rest of KP_WORD_WINDOW, 66 s: a node may be that far ahead of the schedule.
 */
#define KP_TOKEN_AGE_S 62
#define KP_WORD_WINDOW (INT64_C(1) << 26)
#define KP_WORD_AHEAD (KP_WORD_WINDOW - 1 - KP_TOKEN_AGE_S * KP_WORD_HZ)

/* Of a call that measures tracing (cost.h). */
static inline bool
kp_label_measures(uint64_t label)
{
	return label >> KP_LABEL_CONST_SHIFT == (KP_LABEL_KPROFD <<
	    (KP_LABEL_KIND_SHIFT - KP_LABEL_CONST_SHIFT) | KP_LABEL_MEASURES);
}

/* Of a token of no request: it shows who has sent a message, and nothing else. */
static inline bool
kp_label_is_unowned(uint64_t label)
{
	return label >> KP_LABEL_CONST_SHIFT == (KP_LABEL_KPROFD <<
	    (KP_LABEL_KIND_SHIFT - KP_LABEL_CONST_SHIFT) | KP_LABEL_UNOWNED);
}

#endif
