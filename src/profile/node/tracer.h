/*
 * tracer.h - has one node trace calls, and takes the events as they come.  It
 * loads kprof_tracer.erl there, which obeys commands, and leaves the node with this
 * connection.  Used by tracers.c alone.  Blocking, for the client.
 */
#ifndef KPROFD_PROFILE_NODE_TRACER_H
#define KPROFD_PROFILE_NODE_TRACER_H

#include "calls/call_trace.h"
#include "kprofd/label.h"
#include "kprofd/offset.h"
#include "profile/node/injected.h"

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
	/* At most so many bytes of text for a call's arguments; 0: none. */
	uint64_t args;
	enum tracer_probe probe;
	const char *probe_library;	/* path in the node */
	struct tracer_limit limit;
	/*
	 * The epoch of labels that this node makes, and then those of the other
	 * nodes (tracers.h).  With several nodes a function may be missing in
	 * some: the hello lists them, the entry as 0, patterns from 1 on.
	 */
	const uint32_t *epochs;
	uint32_t nepochs;
	uint32_t node;		/* its number in the names */
};

#define TRACER_EPOCHS KP_LABEL_EPOCHS	/* epochs: 1 to this */

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

/* Takes an event; anything but KP_OK ends the trace. */
typedef enum kp_err tracer_sink(void *ctx, const struct kp_call_event *ev);

struct tracer;

/*
 * Connects, checks, and sets trace patterns.  names stays the caller's, and gets
 * the names in events.  Errors as injected_start().
 */
enum kp_err tracer_start(struct tracer **t, const struct tracer_opts *o,
    struct kp_call_names *names, struct injected_hello *h, char *why, size_t n);
/* Starts tracing, and the call of -apply.  On error it has ended. */
enum kp_err tracer_go(struct tracer *t);
/* As injected_leave(). */
void tracer_leave(struct tracer *t);
/* As injected_stop(); frees t.  NULL is allowed. */
bool tracer_stop(struct tracer *t, kp_dur_ns wait);

/* ---- requests of several nodes ---- */

/*
 * The node's notices about requests.  A request has a number of the node's own,
 * and one label or more.
 */
struct tracer_news {
	void (*label)(void *ctx, uint32_t request, int64_t label);
	void (*begins)(void *ctx, uint32_t request);	/* there */
	void (*ends)(void *ctx, uint32_t request);
	void *ctx;
};
/* Both stay the caller's.  Without this, notices are ignored. */
void tracer_listen(struct tracer *t, const struct tracer_news *news);
/*
 * Sends a command.  "entries": all nodes trace, so requests may begin;
 * "full": enough requests have begun; "read": end, and send what is left.
 */
enum kp_err tracer_command(struct tracer *t, const char *word);
/* True once the node has confirmed "entries". */
bool tracer_is_open(const struct tracer *t);
/* Tells the node that a request of another node has ended. */
enum kp_err tracer_request_ended(struct tracer *t, int64_t label);
/* Measures the node's clock by one round trip, while no events come. */
enum kp_err tracer_clock(struct tracer *t, struct kp_offset *o);
/*
 * Takes messages that have come.  KP_OK: the trace has ended; KP_ETIMEOUT: there
 * are no more for now; KP_EBUSY: there are; KP_END: woken; or what the sink
 * returned.
 */
enum kp_err tracer_take(struct tracer *t, tracer_sink *sink, void *ctx,
    struct tracer_end *end);
/* Readable when a message has come. */
int tracer_fd(const struct tracer *t);
/* Renews the lease, for a caller that waits for something else. */
enum kp_err tracer_lease(struct tracer *t);

#endif
