/*
 * tracers.h - one trace, in one or several nodes: a tracer in each, which end together.
 * A tracer is kprof_tracer.erl, which obeys commands and leaves the node with its
 * connection; the events are taken as they come.  Blocking, for the client.
 *
 * With several nodes, requests get their numbers here: events of a request may
 * come from one node before the node where it began reports that.
 */
#ifndef KPROFD_PROFILE_NODE_TRACERS_H
#define KPROFD_PROFILE_NODE_TRACERS_H

#include "calls/call_trace.h"
#include "profile/node/injected.h"

#define TRACERS_MAX 32u

/*
 * The relay is a process there that gets each event and sends it on; native code
 * writes events into memory.  AUTO is native if the node can load it, and not by
 * request.
 */
enum tracer_probe { TRACER_RELAY, TRACER_NATIVE, TRACER_AUTO };
#define TRACER_PROBES "relay,native,auto"

/* Limits a trace to some requests; zeroed: all.  Pointers are borrowed. */
struct tracer_limit {
	/* The requests of a kprofd that is attached there; without an entry. */
	bool attached;
	/*
	 * Only requests of some identities, which conf's fun takes from calls of
	 * entries and of `marks`.  is_wanted() is called once for each identity,
	 * on_wanted() for each request of one that is wanted; the caller ignores
	 * events of all others.
	 */
	const struct kp_conf *conf;	/* NULL: any identity */
	const struct kp_mfa_pat *marks;
	bool (*is_wanted)(void *ctx, struct kp_span identity);
	enum kp_err (*on_wanted)(void *ctx, uint32_t request);
	/*
	 * Functions that are traced as well; on_inside() is called with the number
	 * of each that exists.  The caller wants only events within their calls.
	 */
	const struct kp_mfa_pat *inside;
	enum kp_err (*on_inside)(void *ctx, uint32_t fn);
	size_t nmarks, ninside;
	void *ctx;
};

struct tracer_opts {
	struct injected_opts g;
	uint64_t max_events;
	uint64_t max_queue;	/* events that wait in the node */
	/* By request: functions that begin one, and how many; or NULL and 0. */
	const struct kp_mfa_pat *entry;
	size_t nentries;
	uint64_t requests;
	/* Bytes of text for a call's arguments, at most; 0: no arguments. */
	uint64_t args;
	enum tracer_probe probe;
	const char *probe_library;	/* path in the node */
	struct tracer_limit limit;
};

/* How a trace ended. */
struct tracer_end {
	enum kp_calls_end end;
	uint64_t lost;		/* events that could not be decoded or kept */
	uint32_t begun, ended;	/* requests */
	uint32_t unsure;	/* of all, that probably lost their token */
	/*
	 * Modules loaded meanwhile: traced again; new, and traced some time after
	 * their load, not traced, and traced from their first call on.
	 */
	uint32_t again, came, missed, whole;
	const char *why;	/* not all new ones are `whole`, or "" */
	char text[INJECTED_TEXT_MAX + 64];	/* about -apply or the connection */
};

/* Called while events are taken. */
struct tracers_sink {
	/* Anything but KP_OK ends the trace. */
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
 * Connects, checks, and sets trace patterns in each of n targets, which become the
 * first nodes of names.  o->g.talk.target is ignored.  Errors as injected_start().
 */
enum kp_err tracers_start(struct tracers **ts, const struct tracer_opts *o,
    const char *const *targets, uint32_t n, struct kp_call_names *names,
    char *why, size_t whylen);
/*
 * What node i reported when its tracer started.  With several nodes a function may be
 * missing in some: listed as absent, the entry as 0, patterns from 1 on.
 */
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
