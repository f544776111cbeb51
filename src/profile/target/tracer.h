/*
 * tracer.h - has a node trace calls, and takes the events as they come:
 * kprof_tracer.erl is loaded there, obeys commands, and is gone when this is.
 * Blocking, for the client.
 */
#ifndef KPROFD_PROFILE_TARGET_TRACER_H
#define KPROFD_PROFILE_TARGET_TRACER_H

#include "kprofd/calls.h"
#include "kprofd/label.h"
#include "kprofd/offset.h"
#include "profile/target/injected.h"

/*
 * Where events go: to a process there, which sends them on, or to native code,
 * which writes them into memory.
 */
enum tracer_probe { TRACER_RELAY, TRACER_NATIVE, TRACER_AUTO };
#define TRACER_PROBES "relay,native,auto"

/*
 * Of which requests, beside what begins them; zeroed: of all.  Pointers are
 * borrowed.
 */
struct tracer_limit {
	/* A kprofd that is attached there begins them: no entry, no number. */
	bool attached;
	/*
	 * Those of some identities, which conf's fun knows by calls of entries
	 * and of `marks`.  is_wanted is asked about each identity once;
	 * on_wanted is told the number of every request that is to be looked
	 * at: all else is to be let pass.
	 */
	const struct kp_conf *conf;	/* NULL: of whichever */
	const struct kp_mfa_pat *marks;
	bool (*is_wanted)(void *ctx, struct kp_span identity);
	enum kp_err (*on_wanted)(void *ctx, uint32_t request);
	/*
	 * Traced as well, and each that is there is told by its number: only
	 * what happens in calls of these is wanted.
	 */
	const struct kp_mfa_pat *inside;
	enum kp_err (*on_inside)(void *ctx, uint32_t fn);
	size_t nmarks, ninside;
	void *ctx;
};

struct tracer_opts {
	struct injected_opts g;
	uint64_t max_events;
	uint64_t max_queue;	/* events that the node has not sent yet */
	/* By request: what begins one, and how many; or NULL and 0. */
	const struct kp_mfa_pat *entry;
	size_t nentries;
	uint64_t requests;
	/* The most bytes of text for a call's arguments; 0: none. */
	uint64_t args;
	enum tracer_probe probe;	/* AUTO: native where it can be loaded,
					   and nobody asks by request */
	const char *probe_library;	/* the node's */
	struct tracer_limit limit;
	/*
	 * Of several nodes (tracers.h): the epoch of the labels made there, and
	 * then those of the others.  What of the functions is not there is in
	 * the hello, the entry at place 0, patterns from 1 on.
	 */
	const uint32_t *epochs;
	uint32_t nepochs;
	uint32_t node;		/* its number among the names */
};

#define TRACER_EPOCHS KP_LABEL_EPOCHS	/* epochs: 1 to this */

/* How a trace ended, and what was said of it. */
struct tracer_end {
	enum kp_calls_end end;
	uint64_t lost;			/* events that made no sense, or did
					   not fit */
	uint32_t begun, ended;		/* requests */
	/* Modules that were loaded meanwhile: armed again, armed as new ones,
	   and not armed. */
	uint32_t again, came, missed;
	char text[INJECTED_TEXT_MAX + 64];	/* of the call, or the connection */
};

/* What is done with an event; anything but KP_OK ends the trace. */
typedef enum kp_err tracer_sink(void *ctx, const struct kp_call_event *ev);

struct tracer;

/*
 * Connects, checks, sets patterns; names, the caller's, gets what events speak
 * of.  Errors as injected_start().
 */
enum kp_err tracer_start(struct tracer **t, const struct tracer_opts *o,
    struct kp_call_names *names, struct injected_hello *h, char *why, size_t n);
/* When this returns KP_OK it traces, and a call is made; else it has ended. */
enum kp_err tracer_go(struct tracer *t);
/* Takes everything back.  NULL is let pass. */
void tracer_stop(struct tracer *t);

/* ---- one of several nodes ---- */

/*
 * What it says of requests, each of which has a number there, by which it
 * speaks of it from then on, and a label or more.
 */
struct tracer_news {
	void (*label)(void *ctx, uint32_t request, int64_t label);
	void (*begins)(void *ctx, uint32_t request);	/* there */
	void (*ends)(void *ctx, uint32_t request);
	void *ctx;
};
/* Both stay the caller's; without this, news is let pass. */
void tracer_listen(struct tracer *t, const struct tracer_news *news);
/*
 * Sends a command.  "entries": all nodes trace, so requests may begin;
 * "full": enough requests have begun; "read": end, and send what is left.
 */
enum kp_err tracer_command(struct tracer *t, const char *word);
/* True once the node has confirmed "entries". */
bool tracer_is_open(const struct tracer *t);
/* A request that began elsewhere has ended. */
enum kp_err tracer_request_ended(struct tracer *t, int64_t label);
/* A round trip to the node's clock, while no events come. */
enum kp_err tracer_clock(struct tracer *t, struct kp_offset *o);
/*
 * Takes what is there.  KP_OK: it has ended; KP_ETIMEOUT: there is no more for
 * now; KP_EBUSY: there is; KP_END: woken; or what the sink returned.
 */
enum kp_err tracer_take(struct tracer *t, tracer_sink *sink, void *ctx,
    struct tracer_end *end);
/* To be polled for input. */
int tracer_fd(const struct tracer *t);
/* Where something else is waited for meanwhile. */
enum kp_err tracer_lease(struct tracer *t);

#endif
