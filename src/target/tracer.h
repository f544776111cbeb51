/*
 * tracer.h - has a node trace calls, and takes the events as they come:
 * kprof_tracer.erl is loaded there, does what it is told, and is gone when this
 * is.  Blocking, for the client.
 */
#ifndef KP_TARGET_TRACER_H
#define KP_TARGET_TRACER_H

#include "kprofd/calls.h"
#include "target/guest.h"

/*
 * Who is told of events: a process there, which sends them on, or native code,
 * which writes them into memory.
 */
enum tracer_probe { TRACER_RELAY, TRACER_NATIVE, TRACER_AUTO };
#define TRACER_PROBES "relay,native,auto"

struct tracer_opts {
	struct guest_opts g;
	uint64_t max_events;
	uint64_t max_queue;	/* events that the node has not sent yet */
	/* By request: what begins one, and how many; or NULL and 0. */
	const struct kp_mfa_pat *entry;
	uint64_t requests;
	enum tracer_probe probe;	/* AUTO: native where it can be loaded,
					   and nobody asks by request */
	const char *probe_library;	/* the node's */
};

/* How a trace ended, and what was said of it. */
struct tracer_end {
	enum kp_calls_end end;
	uint64_t lost;			/* events that made no sense, or did
					   not fit */
	uint32_t begun, ended;		/* requests */
	char text[GUEST_TEXT_MAX + 64];	/* of the call, or the connection */
};

/* What is done with an event; anything but KP_OK ends the trace. */
typedef enum kp_err tracer_sink(void *ctx, const struct kp_call_event *ev);

struct tracer;

/*
 * Connects, checks, sets patterns; names, the caller's, gets what events speak
 * of.  Errors as guest_start().
 */
enum kp_err tracer_start(struct tracer **t, const struct tracer_opts *o,
    struct kp_call_names *names, struct guest_hello *h, char *why, size_t n);
/* When this returns KP_OK it traces, and a call is made; else it has ended. */
enum kp_err tracer_go(struct tracer *t);
/*
 * Takes events until it ends by itself (KP_OK), until the deadline
 * (KP_ETIMEOUT) or until woken (KP_END); or what sink returned.
 */
enum kp_err tracer_run(struct tracer *t, kp_mono_ns deadline,
    tracer_sink *sink, void *ctx, struct tracer_end *end);
/*
 * Ends it, and takes what is still under way; woken, no longer.  KP_OK, or
 * what sink returned.
 */
enum kp_err tracer_end(struct tracer *t, tracer_sink *sink, void *ctx,
    struct tracer_end *end);
/* Takes everything back.  NULL is let pass. */
void tracer_stop(struct tracer *t);

#endif
