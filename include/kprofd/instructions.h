/*
 * instructions.h - functions of OTP whose calls are instructions.  Pure.
 *
 * The compiler makes instructions of calls of guard BIFs, operators and some
 * functions of maps, and the loader of a few others.  The VM neither traces nor
 * counts these; it sees only calls by apply or of a fun such as fun maps:get/2.
 *
 * Source: what the compilers and loaders of OTP 25, 27 and 29 make of a call with
 * variables of each exported function of erlang, maps, math, lists, binary, ets
 * and os, and whether call_count then counts it.  erl_internal:guard_bif/2,
 * arith_op/2, bool_op/2, comp_op/2 and send_op/2 name most of them.
 */
#ifndef KPROFD_INSTRUCTIONS_H
#define KPROFD_INSTRUCTIONS_H

#include "kprofd/config.h"

#define KP_INSTRUCTIONS_MAX 96u
/* In texts the first few of many are named. */
#define KP_INSTRUCTIONS_NAMED 3u

struct kp_instruction {
	const char *mod, *fun;
	uint8_t arity;
	uint8_t from, until;	/* releases of OTP; 0: of all that there are */
};

/* Some of them, in the order of the table; pointers stay valid. */
struct kp_instructions {
	const struct kp_instruction *v[KP_INSTRUCTIONS_MAX];
	size_t n;
};

bool kp_is_instruction(const struct kp_mfa *f);
/*
 * Those that a pattern covers and none of the excluded ones does.  The module "_"
 * covers all.  otp: the release of the node; 0: not known.
 */
struct kp_instructions kp_instructions(const struct kp_mfa_pat *pats, size_t n,
    const struct kp_mfa_pat *exclude, size_t nexclude, int otp);
/*
 * Writes "the compiler makes instructions of calls of maps:get/2 and 3 other
 * functions: only those by apply or of a fun are VERB".
 */
void kp_instructions_put(struct kp_buf *b, const struct kp_instructions *s,
    const char *verb);

#endif
