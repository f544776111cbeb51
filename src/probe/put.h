/*
 * put.h - puts an event into its thread's ring.
 *
 * The event goes there with the definitions that it needs, or not at all: then
 * the slots that it would have defined are forgotten.
 */
#ifndef KP_PROBE_PUT_H
#define KP_PROBE_PUT_H

#include "probe/probe.h"

#define EVENT_NEEDS_MAX 4	/* definitions of one event */

struct event {
	struct thread *t;
	ErlNifEnv *env;
	struct kp_native_record rec;
	uint32_t weight;
	bool full;		/* the ring is; sticks */
	unsigned nfresh;
	struct {
		struct names *names;
		uint16_t slot;
	} fresh[EVENT_NEEDS_MAX];
};

/* Its slot stands for this term from now on; of n bytes. */
void event_define(struct event *e, struct names *names,
    enum kp_native_kind kind, uint16_t slot, const uint8_t *term, uint32_t n);
/* Of {M,F,A}, or of undefined, which has none; keep: as of names_slot(). */
uint16_t event_fn(struct event *e, ERL_NIF_TERM mfa, uint16_t keep);
/* The same of its parts; the arity is a small integer. */
uint16_t event_fn_of(struct event *e, const ERL_NIF_TERM mfa[3],
    uint16_t keep);
/* False: the ring is full, and nothing of it is written; that is counted. */
bool event_put(struct probe *p, struct event *e);

#endif
