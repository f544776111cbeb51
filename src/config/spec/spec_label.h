/*
 * spec_label.h - parts of match specs: labels, and tests of tokens.
 *
 * Each writes one expression.  None of them fails, whatever token a process
 * carries.
 */
#ifndef KPROFD_CONFIG_SPEC_SPEC_LABEL_H
#define KPROFD_CONFIG_SPEC_SPEC_LABEL_H

#include "kprofd/etf.h"

#define HASH_BITS 24

/* {Name, ...arity terms...}: these follow. */
static inline void
call(struct kp_buf *b, const char *name, uint32_t arity)
{
	kp_etf_tuple(b, arity + 1);
	kp_etf_atom(b, name);
}

/* Counts one more request in the trace control word. */
void step_put(struct kp_buf *b);
/* Takes the token that the process has; true. */
void clear_put(struct kp_buf *b);
/* The label for another token, having taken the one there is. */
void label_put(struct kp_buf *b, uint64_t constant);
/* HASH_BITS bits of the trace control word, for sampling. */
void hash_put(struct kp_buf *b);

/* Has the process a token that is ours, and `more` expressions that follow? */
void carries_ours_put(struct kp_buf *b, uint32_t more);
/* The same of one that is a kprofd's, and not of kprof trace. */
void carries_kprofds_put(struct kp_buf *b, uint32_t more);
/* Has it one of ours, or none? */
void carries_no_others_put(struct kp_buf *b);
/*
 * Is the token, which it has, a kprofd's and young?  One that is too old is
 * taken away.
 */
void live_put(struct kp_buf *b);

/* {map_get, X, {const, #{true => 1, false => 2}}} opens an if; X follows. */
void pick_begin(struct kp_buf *b);
void pick_end(struct kp_buf *b);

#endif
