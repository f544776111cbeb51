/*
 * put.h - puts an event into its thread's ring.
 *
 * The event is written with the definitions that it needs, or not at all: then
 * the slots that it would have defined are forgotten.
 */
#ifndef KPROFD_PROBE_PUT_H
#define KPROFD_PROBE_PUT_H

#include "probe/probe.h"

#define EVENT_NEEDS_MAX 4	/* definitions of one event */

struct event {
	struct thread *t;
	ErlNifEnv *env;
	struct kp_native_record rec;
	uint32_t weight;
	struct kp_native_record held;	/* written first, unless it is empty */
	bool full;		/* the ring is full; sticks */
	unsigned nfresh;
	struct {
		struct names *names;
		uint16_t slot;
	} fresh[EVENT_NEEDS_MAX];
};

/* Defines the slot as this term of n bytes. */
void event_define(struct event *e, struct names *names,
    enum kp_native_kind kind, uint16_t slot, const uint8_t *term, uint32_t n);
/* Returns the slot of {M,F,A}, or 0 for undefined; keep: see names_slot(). */
uint16_t event_fn(struct event *e, ERL_NIF_TERM mfa, uint16_t keep);
/* The same for the parts M, F and A; the arity is a small integer. */
uint16_t event_fn_of(struct event *e, const ERL_NIF_TERM mfa[3],
    uint16_t keep);
/* Returns false, and counts the event as dropped, if the ring is full. */
bool event_put(struct probe *p, struct event *e);

/*
 * Writes a term of the VM in the external format, without a version byte; returns the
 * number of bytes, or 0 if more than cap would be needed.
 *
 * The terms that match specs build are written without an allocation: atoms in
 * Latin-1, integers of 64 bits, floats, binaries, lists and tuples of them.
 * Anything else is encoded by the VM, which allocates.
 */
uint32_t term_put(ErlNifEnv *env, ERL_NIF_TERM term, uint8_t *p, uint32_t cap);

#endif
