/*
 * request.h - builds calls from trace events, and requests from calls.  Pure.
 *
 * One kp_requests takes the events of all targets, since tokens travel with
 * messages and the calls of one request may run on several nodes.  A node is
 * known by its index.  A request is measured, or counted as lost, at the node
 * of its entry; a call at the node that it ran on.
 *
 * Every node has its own clock.  Times stay on it until a request closes: then
 * its calls are converted to the clock of its entry's node (clock_align.c),
 * with the offsets that are known at that time.
 *
 * Events of one process come in order; those of different processes are ordered
 * only by time stamps.  Calls pair with returns on a stack for each process.  A
 * request closes KP_HORIZON after its end, or after KP_REQUEST_AGE_MAX, and is
 * then handed to on_request with all its calls.  A request that
 * kprof:set_token/0 began goes on after that call's return; its calls[0] lasts
 * until its end.  Calls that begin later are async: while a tombstone remembers
 * the label they are handed to on_late one by one.  So are calls that began
 * inside and are open when the request closes, once they end; the request
 * itself has them as far as they ran inside.
 *
 * Messages, if the configuration asks for them, pair by label, sender and
 * number; kp_requests_waits() has the waits of a request.
 */
#ifndef KPROFD_REQUEST_H
#define KPROFD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/config.h"
#include "kprofd/loss.h"
#include "kprofd/trace.h"

#define KP_HORIZON (200 * KP_NS_PER_MS)		/* wait for stragglers */
/* An uncertain entry counts as over when its process is silent this long. */
#define KP_TAIL_WAIT (1 * KP_NS_PER_S)
#define KP_REQUEST_AGE_MAX (60 * KP_NS_PER_S)	/* then it expires */
#define KP_TOMBSTONE_AGE (30 * KP_NS_PER_S)
/*
 * Events of one node may come later than another's of the same time.  A request
 * waits at most this long for a node that lags.
 */
#define KP_NODE_LAG_MAX (2 * KP_NS_PER_S)
#define KP_NODES_MAX 64				/* at one time */
#define KP_NONE UINT32_MAX			/* no index */

/* The request types that every table starts with, by id. */
#define KP_IDENT_TOTAL 0	/* "_total": all of them */
#define KP_IDENT_NONE 1		/* "undefined" */
#define KP_IDENT_OTHER 2	/* "_other": the rest, past a cap or bound */

enum kp_outcome {
	KP_OPEN,	/* still running: never in on_request or on_late */
	KP_RETURNED,
	KP_RAISED,
	KP_UNFINISHED,	/* no end seen; no duration */
	KP_AMBIGUOUS,	/* end seen, time unsure: not in any sum of times */
	KP_UNKNOWN,	/* end seen and timed; it may have raised */
	KP_OUTCOMES
};

const char *kp_outcome_name(enum kp_outcome o);

/* Returns whether a call with this outcome has a duration that may count. */
static inline bool
kp_outcome_timed(enum kp_outcome o)
{
	return o == KP_RETURNED || o == KP_RAISED || o == KP_UNKNOWN;
}

/*
 * The span of the application's own trace that a request is a child of, by
 * {trace_id, fun ... end}, as a traceparent of version 00: "" if none is known.
 */
#define KP_TRACEPARENT 56	/* with a NUL: 00-TRACE-SPAN-FLAGS */
#define KP_TRACE_ID_AT 3	/* 32 hexadecimal digits */
#define KP_TRACE_ID_LEN 32
#define KP_TRACE_SPAN_AT 36	/* 16 of them */

/*
 * Reads n bytes, which are untrusted, as W3C Trace Context says ("traceparent Header
 * Field Values"): later versions by the fields that they have in common with version 00.
 * Of the flags only `sampled` is kept.  False: it is invalid, and out is "".
 */
bool kp_traceparent_parse(char out[KP_TRACEPARENT], const void *p, size_t n);
/* Is it the id of a trace, as a traceparent has it? */
bool kp_is_trace_id(const char *s);
/* Is it known, and did the caller sample the trace? */
bool kp_traceparent_sampled(const char *traceparent);

/* A function that events name. */
struct kp_fn {
	const char *text;	/* "db:query/2"; lives as long as kp_requests */
	uint64_t tiers;		/* bit t: it belongs to conf->tiers[t] */
	/*
	 * Calls that have a label are of a function of their own in the table, with
	 * the text "db:query/2 [users]".  base: its number without the label.
	 */
	uint32_t base;
	uint32_t part;		/* of its first tier: kp_requests_part(), plus one; 0 */
	bool other;		/* the label is _other */
	bool finish;
	enum kp_mark mark;
	uint64_t runaway;	/* bit n: reported as a server loop on node n */
	uint32_t left;		/* number of calls in a row without an end */
};

struct kp_call {
	kp_target_ns start;
	kp_target_ns end;	/* none if UNFINISHED; outlasts: the request's */
	uint64_t proc;		/* the process: kp_proc_text() */
	uint32_t fn;		/* index into the function table */
	uint32_t parent;	/* a lower index into the calls, or KP_NONE */
	uint8_t outcome;	/* enum kp_outcome */
	uint8_t node;		/* it ran there */
	bool async : 1;		/* started after the request had ended */
	bool lost : 1;		/* in flight: it may have been another request's,
				   and is not handed on (crossed) */
	bool placed : 1;	/* start and end are by the request's clock */
	bool strayed : 1;	/* its token was another request's, or that of a
				   request inside this one */
	uint32_t outlasts;	/* not 0: UNFINISHED, and goes on; on_late has
				   its end, with this number */
};

/* Why a process did not run its code. */
enum kp_pause_kind {
	KP_PAUSE_OUT,	/* scheduled out: it waited, or others ran */
	KP_PAUSE_GC	/* collecting garbage, and not scheduled out */
};

/*
 * A pause of `ns` in the span [from, to) since the start of a call.  ns is less
 * than the span if several pauses were merged.
 */
struct kp_pause {
	uint32_t call;		/* index of the innermost call then */
	uint8_t kind;		/* enum kp_pause_kind */
	kp_dur_ns from, to, ns;
};

/*
 * How long a call's process was scheduled out, or collected garbage, in its self time, in
 * ns.  Of stored calls -1: it was not measured.
 */
struct kp_call_pauses {
	kp_dur_ns out, gc;
};

/*
 * All times are by the clock of `node`.  Those of calls on other nodes are as
 * exact as the offsets; durations are as measured there.
 */
struct kp_request {
	uint64_t label;
	uint64_t nodes;		/* bit n: it may have calls on node n */
	kp_target_ns start;
	uint32_t identity;	/* KP_IDENT_NONE if nothing named it */
	/*
	 * Requests it stands for.  0: none, one that began between slices of time, of
	 * which only the entry was seen; it may be handed on in the middle of others.
	 */
	uint32_t weight;
	uint8_t outcome;	/* of the request: its entry call's, or finish's */
	uint8_t node;		/* of its entry */
	bool expired;		/* no end came: it counts as lost */
	bool outlasts;		/* some of its calls outlast it */
	uint32_t ncalls;
	kp_target_ns end;
	const struct kp_call *calls;	/* by start time; calls[0] is the entry */
	uint64_t parent_label;	/* the request it began inside; 0: none */
	kp_dur_ns queued;	/* how long it had waited to begin, if it was_queued:
				   its identity says so */
	bool was_queued;
	uint64_t id;		/* unique among those of its kp_requests */
	char traceparent[KP_TRACEPARENT];	/* its own, or of the request that it began in */
	const struct kp_pause *pauses;	/* by process in order of time */
	uint32_t npauses;
};

/* The octave of its duration as the histogram of its type has it (hist.h); 0: none. */
uint8_t kp_request_octave(const struct kp_request *rq);

/*
 * A call that began after its request closed, or outlasts it; or one that nobody can
 * tell the request of, which is lost (crossed).  Its times are by its node's clock.
 */
struct kp_late_call {
	uint32_t identity, weight, fn;
	bool crossed;		/* no end, no identity; its token's request's weight */
	uint8_t outcome, node;
	uint32_t outlasts;	/* as in struct kp_call: its request has it, too,
				   up to limit; 0: it began later */
	kp_target_ns start, end;
	kp_target_ns limit;	/* outlasts: its request's end, or its own start
				   if that is later */
	kp_dur_ns waited;	/* after limit, for calls in its process */
};

/*
 * How long a message waited: from its send to when its receiver took it out of
 * its mailbox.  If it came from another node that includes the network, and is
 * as exact as the offsets of the two.
 */
struct kp_wait {
	uint64_t proc;		/* the receiver: kp_proc_text() */
	kp_dur_ns wait;		/* never negative */
	uint32_t receiver;	/* its name: kp_requests_receiver() */
	uint8_t node;		/* its node */
	uint8_t from;		/* the sender's */
};

struct kp_requests_opts {
	const struct kp_conf *conf;
	size_t max_requests;		/* in flight; default 100000 */
	uint32_t max_calls;		/* in one request; default 10000 */
	uint64_t max_calls_in_flight;	/* of all requests; default 4000000 */
	uint32_t max_stack;		/* open in one process; default 1000 */
	uint32_t max_identities;	/* default 1000 */
	/*
	 * For nodes whose release is not known yet.  True of OTP 26 and older:
	 * exceptions pass without an event, and a chain of calls that one event
	 * ends may be a retry loop (stack.c).
	 */
	bool chain_is_ambiguous;
	/* Borrowed request and calls: good during the call only. */
	void (*on_request)(void *ctx, const struct kp_request *rq);
	void (*on_late)(void *ctx, const struct kp_late_call *c);
	/*
	 * A process whose name is not known received a message: request its
	 * name, and pass that to kp_requests_name_receiver().  Called once for
	 * each process, or again after the table of processes was full; may be
	 * NULL.
	 */
	void (*on_receiver)(void *ctx, uint32_t node, uint64_t proc);
	/*
	 * This function is a traced server loop: a process has max_stack calls
	 * open, most of them of it, or max_stack of its calls in a row had no
	 * end when another request came.  Called once for a function and node;
	 * may be NULL.
	 */
	void (*on_runaway)(void *ctx, uint32_t node, const struct kp_fn *fn);
	/*
	 * The result of a clause of the identity or label fun was not copied, because of
	 * its size or type, for a request of this node.  Called once for a line
	 * of tiers.conf; may be NULL.
	 */
	void (*on_unbounded)(void *ctx, uint32_t node, uint32_t line, bool label);
	/*
	 * This process answers requests while it carries the tokens of others,
	 * and calls this function (request/reconcile.c).  Called once for a
	 * process; may be NULL.
	 */
	void (*on_crossed)(void *ctx, uint32_t node, uint64_t proc,
	    const struct kp_fn *fn);
	void *ctx;
};

struct kp_requests;

/* NULL when out of memory.  Zeros in opts mean the defaults. */
struct kp_requests *kp_requests_new(const struct kp_requests_opts *opts);
void kp_requests_free(struct kp_requests *rs);

/*
 * Adds a node by the name that its pids carry; copied.  Returns its index,
 * below KP_NODES_MAX, for the functions below; KP_NONE when out of memory or of
 * indices.  Its losses and entries start from zero.
 *
 * Most functions take KP_NONE too: with it kp_requests_events(), _pass(),
 * _expire() and _abandon() do nothing, and _running(), _undecided(), _oldest(),
 * _entries() and _strayed() return 0.
 */
uint32_t kp_requests_node(struct kp_requests *rs, const char *name);
/*
 * Abandons it with this cause and gives its index back.  Another node may get
 * the index, and the losses are lost, once no request in flight has calls here.
 */
void kp_requests_remove(struct kp_requests *rs, uint32_t node,
    enum kp_loss cause);
/* The node's release (27): it determines which ends of calls the relay sees. */
void kp_requests_set_otp(struct kp_requests *rs, uint32_t node, int otp);
/*
 * From now on its events are the native probe's, which reports every exception.
 * all_exact: each call has its own return or exception; return_to is ignored.
 */
void kp_requests_native(struct kp_requests *rs, uint32_t node,
    bool all_exact);
/*
 * Sets what to add to the node's time to get that of the clock that all nodes
 * have in common, exact to error ns (see offset.h).  It may change at any time:
 * a request closes with the offsets of that moment.  As long as it is not
 * known, calls of the node are placed only by who called whom.  A node whose
 * clock starts again needs its offset before its first event.
 */
void kp_requests_offset(struct kp_requests *rs, uint32_t node,
    kp_dur_ns offset, kp_dur_ns error);

/*
 * Takes events, in their order, many at once: that is faster when many requests are in
 * flight.  What cannot be kept is counted in the losses.
 */
void kp_requests_events(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n);
/*
 * Only counts an event, during an overload: an entry as KP_LOSS_TRIPPED, a call
 * as lost with its request.
 */
void kp_requests_pass(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev);
/*
 * Closes requests that began on the node and are due at this time of its clock
 * (a batch's SentAt).
 */
void kp_requests_close_due(struct kp_requests *rs, uint32_t node,
    kp_target_ns now);
/*
 * Ends all that is in flight on the node, because of an overload, a lost
 * connection, or the end of profiling.  A request that began there is closed
 * and handed on as usual if its end was seen, otherwise counted as this loss.
 * Requests that began on other nodes go on; their calls that are open here are
 * unfinished, and count as KP_LOSS_LEFT.
 */
void kp_requests_abandon(struct kp_requests *rs, uint32_t node,
    enum kp_loss cause);

/* Requests that began on this node, including those that wait for stragglers. */
size_t kp_requests_in_flight(const struct kp_requests *rs, uint32_t node);
/*
 * Of these, the number whose end was not seen and that do not seem to be over,
 * as kp_requests_oldest() lists them.
 */
size_t kp_requests_running(struct kp_requests *rs, uint32_t node);
/* Of those in flight, the number that do not count as lost yet. */
size_t kp_requests_undecided(const struct kp_requests *rs, uint32_t node);

#define KP_FLIGHT_MAX 1000	/* of one kp_requests_oldest() */

#define KP_FLIGHT_PATH_MAX 16	/* calls of its path */

/* A request in flight whose end was not seen yet. */
struct kp_flight {
	uint64_t label;
	uint32_t identity;	/* KP_IDENT_NONE: none, or not known yet */
	uint32_t weight, ncalls;
	kp_dur_ns age;
	/*
	 * The call that it is in: the last that began and has not ended.  fn
	 * KP_NONE: in none; node is its entry's.
	 */
	uint32_t fn;
	uint8_t node;
	uint64_t proc;
	kp_dur_ns in_call;
	kp_target_ns began;	/* this call, by the clock of its node */
	/*
	 * The functions of the calls that have not ended, in all its processes,
	 * in the order in which they began, so that the last is fn; the first
	 * ones are left out where there are more.
	 */
	uint32_t path[KP_FLIGHT_PATH_MAX];
	uint8_t npath;
};

/*
 * Lists the requests that began on this node, the oldest first, at most max and
 * KP_FLIGHT_MAX; returns their number.  now: the node's time; the last time
 * that it sent is used if that is later.
 */
size_t kp_requests_oldest(struct kp_requests *rs, uint32_t node,
    kp_target_ns now, struct kp_flight *v, size_t max);
/*
 * Was the call that f names under way from `from` to `to`, by the clock of its
 * node?  As far as events have come; false where that is not known any more.
 */
bool kp_requests_in_call(const struct kp_requests *rs,
    const struct kp_flight *f, kp_target_ns from, kp_target_ns to);
/* Adds the node's losses since the last kp_requests_losses_take() to *to. */
void kp_requests_losses_add(const struct kp_requests *rs, uint32_t node,
    struct kp_losses *to);
/* The same; from now on they count from zero. */
void kp_requests_losses_take(struct kp_requests *rs, uint32_t node,
    struct kp_losses *to);
/* The number of its entry events, for the balance of losses. */
uint64_t kp_requests_entries(const struct kp_requests *rs, uint32_t node);
/*
 * Its calls that had the token of another request, since an answer was set off by
 * that one, or came with a token on an unknown way.
 */
uint64_t kp_requests_strayed(const struct kp_requests *rs, uint32_t node);
/* Its calls with a token of no request (label.h) that were found to be of none. */
uint64_t kp_requests_outside(const struct kp_requests *rs, uint32_t node);

/* ---- for what else is known of requests, such as samples of stacks ---- */

enum kp_request_is {
	KP_REQUEST_UNKNOWN,	/* it was lost, or closed long ago */
	KP_REQUEST_IN_FLIGHT,
	KP_REQUEST_CLOSED,	/* within KP_TOMBSTONE_AGE */
	KP_REQUEST_ABANDONED	/* when its node was last abandoned */
};

/* An abandoned one has no identity, and its end is when that was. */
struct kp_closed_request {
	uint32_t identity, weight;
	uint32_t node;		/* of its entry */
	kp_target_ns end;	/* by the clock of that */
	uint8_t octave;		/* of its duration (hist.h) */
};

/* Finds a request by its label; *c is set if it has closed or was abandoned. */
enum kp_request_is kp_requests_find(const struct kp_requests *rs,
    uint64_t label, struct kp_closed_request *c);
/*
 * Was its token met in the work of another request?  Then it does not tell which
 * one a process works for.
 */
bool kp_requests_spread(const struct kp_requests *rs, uint64_t label);
/*
 * The label of the innermost request in flight that the process has a call open
 * in, as far as events have come; 0: none.
 */
uint64_t kp_requests_label(const struct kp_requests *rs, uint64_t proc);
/*
 * Only in on_request: what was added to the times of its call i by the clock of
 * the call's node.
 */
kp_dur_ns kp_requests_moved(const struct kp_requests *rs,
    const struct kp_request *rq, uint32_t i);
/*
 * Converts a time of one node to the clock of another; false: the offset of one
 * is not known.
 */
bool kp_requests_convert(const struct kp_requests *rs, uint32_t from,
    uint32_t to, kp_target_ns *at);

/* Valid until the next event, which may move the table. */
const struct kp_fn *kp_requests_fn(const struct kp_requests *rs, uint32_t fn);
/* The type's text, valid as long as rs lives; and how many there are, from 0 on. */
const char *kp_requests_identity(const struct kp_requests *rs, uint32_t id);
uint32_t kp_requests_identities(const struct kp_requests *rs);
/*
 * The parts of tiers that calls with a label are of, numbered from 0 as they are seen,
 * and their names, "db: users".  KP_LABELS_MAX of them; the rest is "db: _other".
 */
uint32_t kp_requests_parts(const struct kp_requests *rs);
const char *kp_requests_part(const struct kp_requests *rs, uint32_t part);
/*
 * Messages, if conf->messages is set.  Receivers have names that many may
 * share: the registered name, or the function that the process began with.
 * These names are fixed; the last is of requests that waited, with no message:
 */
#define KP_RECEIVER_OTHER 0	/* "_other": past the cap of names */
#define KP_RECEIVER_GONE 1	/* "_gone": it ended before its name was read */
#define KP_RECEIVER_ENTRY 2	/* "_entry": the same, and it began the
				   request */
#define KP_RECEIVERS_MAX 1000	/* names, with these three */
#define KP_RECEIVER_QUEUE UINT32_MAX
#define KP_QUEUE "_queue"	/* its name */

/* Only in on_request: the waits of its request. */
const struct kp_wait *kp_requests_waits(const struct kp_requests *rs,
    uint32_t *n);
/* The name's text, valid as long as rs lives. */
const char *kp_requests_receiver(const struct kp_requests *rs, uint32_t id);
/*
 * The answer to on_receiver, a raw term: the registered name (an atom) or the
 * function that the process began with ({M,F,A}).  Any other term: it is gone.
 */
void kp_requests_name_receiver(struct kp_requests *rs, uint64_t proc,
    struct kp_span name);

/*
 * "<0.123.0>", as its own node prints it: unique together with the call's node.
 * buf needs 32 bytes; returns buf.
 */
const char *kp_proc_text(uint64_t proc, char *buf, size_t n);
/* The process on its own node: serial << 32 | number. */
uint64_t kp_proc_pid(uint64_t proc);
/* The process of this node; 0: it serves no request, or is impossible. */
uint64_t kp_proc_on(uint32_t node, uint64_t pid);

#endif
