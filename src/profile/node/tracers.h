/*
 * tracers.h - one trace, in one or several nodes: a tracer in each (tracer.h), which
 * end together.  Blocking, for the client.
 *
 * With several nodes, requests get their numbers here: events of a request may
 * come from one node before the node where it began reports that.
 */
#ifndef KPROFD_PROFILE_NODE_TRACERS_H
#define KPROFD_PROFILE_NODE_TRACERS_H

#include "profile/node/tracer.h"

#define TRACERS_MAX 32u

/* Called while events are taken; event() is a tracer_sink. */
struct tracers_sink {
	enum kp_err (*event)(void *ctx, const struct kp_call_event *ev);
	/*
	 * Of several nodes: the request counts as one the user asked for, and
	 * began on this node.
	 */
	void (*begun)(void *ctx, uint32_t request, uint32_t node);
	/* Of several nodes: both numbers are of the same request. */
	void (*same)(void *ctx, uint32_t request, uint32_t as);
	/* Once, when all nodes trace; may be NULL. */
	void (*tracing)(void *ctx);
	void *ctx;
};

struct tracers;

/*
 * Starts a tracer in each of n targets, which become the first nodes of names.
 * o->g.talk.target and o->epochs are ignored.  Errors as tracer_start().
 */
enum kp_err tracers_start(struct tracers **ts, const struct tracer_opts *o,
    const char *const *targets, uint32_t n, struct kp_call_names *names,
    char *why, size_t whylen);
/* What node i reported when its tracer started. */
const struct injected_hello *tracers_hello(const struct tracers *ts, uint32_t i);
/* Starts tracing in all nodes.  On error `why` is one line for the user. */
enum kp_err tracers_go(struct tracers *ts, char *why, size_t whylen);
/*
 * Takes events until a node ends by itself or enough requests have ended (KP_OK),
 * until the deadline (KP_ETIMEOUT) or until woken (KP_END); or returns what the
 * sink did.
 */
enum kp_err tracers_run(struct tracers *ts, kp_mono_ns deadline,
    const struct tracers_sink *sink);
/*
 * Ends all tracers, and takes events that are still under way, until woken.
 * KP_OK, or what the sink returned.  The names then have each node's end and
 * clock.
 */
enum kp_err tracers_end(struct tracers *ts, const struct tracers_sink *sink);
/* How node i ended; and how many requests began and ended in all nodes. */
const struct tracer_end *tracers_ended(const struct tracers *ts, uint32_t i);
uint32_t tracers_begun(const struct tracers *ts, uint32_t *ended);
/*
 * Takes everything back, and waits for the nodes that still answer, 10 s for all of
 * them; the functions above may still be called.  False: one was waited for in vain.
 */
bool tracers_leave(struct tracers *ts);
/* The same, and frees ts.  NULL is allowed. */
void tracers_stop(struct tracers *ts);

#endif
