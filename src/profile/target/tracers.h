/*
 * tracers.h - one trace, in one or several nodes at a time: a tracer in each of
 * them (tracer.h), which end together.  Blocking, for the client.
 *
 * Where there are several, requests get numbers here: events of a request may
 * come from one node before the node where it began reports its begin.
 */
#ifndef KPROFD_PROFILE_TARGET_TRACERS_H
#define KPROFD_PROFILE_TARGET_TRACERS_H

#include "profile/target/tracer.h"

#define TRACERS_MAX 32u

/* What is done with what comes: as of struct tracer_sink. */
struct tracers_sink {
	enum kp_err (*event)(void *ctx, const struct kp_call_event *ev);
	/* Of several nodes: it is one of those that were asked for. */
	void (*begun)(void *ctx, uint32_t request, uint32_t node);
	void (*same)(void *ctx, uint32_t request, uint32_t as);
	/* Once, when all of them trace; may be NULL. */
	void (*tracing)(void *ctx);
	void *ctx;
};

struct tracers;

/*
 * As tracer_start() in each of n targets, which become the first nodes in
 * names, with what is known of them.  o->g.talk.target and epochs are of no
 * account.
 */
enum kp_err tracers_start(struct tracers **ts, const struct tracer_opts *o,
    const char *const *targets, uint32_t n, struct kp_call_names *names,
    char *why, size_t whylen);
/* What node i said of itself when it was started. */
const struct injected_hello *tracers_hello(const struct tracers *ts, uint32_t i);
/* When this returns KP_OK all of them trace; else `why` says what is wrong. */
enum kp_err tracers_go(struct tracers *ts, char *why, size_t whylen);
/*
 * Takes events until one ends by itself, or enough requests have ended
 * (KP_OK), until the deadline (KP_ETIMEOUT) or until woken (KP_END); or what
 * the sink returned.
 */
enum kp_err tracers_run(struct tracers *ts, kp_mono_ns deadline,
    const struct tracers_sink *sink);
/*
 * Ends all of them, and takes what is still under way; woken, no longer.
 * KP_OK, or what the sink returned.  The names then say how each ended, and
 * what their clocks are.
 */
enum kp_err tracers_end(struct tracers *ts, const struct tracers_sink *sink);
/* Of a node; begun and ended of all together. */
const struct tracer_end *tracers_ended(const struct tracers *ts, uint32_t i);
uint32_t tracers_begun(const struct tracers *ts, uint32_t *ended);
/* Takes everything back; what is known of each stays. */
void tracers_leave(struct tracers *ts);
/* The same, and frees it.  NULL is let pass. */
void tracers_stop(struct tracers *ts);

#endif
