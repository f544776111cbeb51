/*
 * request.h - builds calls from trace events, and request trees from calls.
 * Pure.
 *
 * One kp_requests takes the events of all targets: tokens travel with
 * messages, so the calls of one request may run on several nodes.  A node is
 * known by its index; whatever is measured or lost is so at one node: a
 * request at that of its entry, a call at the one it ran on.
 *
 * Every node has a clock of its own.  Time stamps stay on it, and so do
 * durations, until a request closes: then its calls are brought to the clock of
 * its entry's node (clock_align.c) with the offsets that are known at that
 * time.
 *
 * Events of one process come in order; between processes only time stamps
 * order them.  Calls pair with returns on a stack for each process.  A
 * request closes at its end plus KP_HORIZON, or after KP_REQUEST_AGE_MAX, and
 * is then handed to the on_request callback together with all its calls.
 * One that kprof:set_token/0 began goes on after that call's return; its
 * calls[0] lasts from there to its end.
 * Calls that come later count as async while a tombstone remembers the
 * label, and go to on_late one by one.  So do those that began inside and are
 * open when it closes, when they end: the request has them as far as they ran
 * inside.
 *
 * Messages, where the configuration asks for them, pair by label, sender and
 * number; the waits of a request go with it (kp_requests_waits).
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
/* An entry that may be over is, when its process is silent for this time. */
#define KP_TAIL_WAIT (1 * KP_NS_PER_S)
#define KP_REQUEST_AGE_MAX (60 * KP_NS_PER_S)	/* then it is expired */
#define KP_TOMBSTONE_AGE (30 * KP_NS_PER_S)
/*
 * Events of one node may come later than another's of the same time: what
 * could still be added to by a node that lags is kept for this time at most.
 */
#define KP_NODE_LAG_MAX (2 * KP_NS_PER_S)
#define KP_NODES_MAX 64				/* at one time */
#define KP_NONE UINT32_MAX			/* no index */

/* Identities every intern table starts with, by id. */
#define KP_IDENT_TOTAL 0	/* "_total": all of them */
#define KP_IDENT_NONE 1		/* "undefined" */
#define KP_IDENT_OTHER 2	/* "_other": the rest, past a cap or bound */

enum kp_outcome {
	KP_OPEN,	/* still running: never handed on */
	KP_RETURNED,
	KP_RAISED,
	KP_UNFINISHED,	/* no end seen; no duration */
	KP_AMBIGUOUS,	/* end seen, time unsure; kept out of times */
	KP_UNKNOWN,	/* end seen and timed, not whether it raised */
	KP_OUTCOMES
};

const char *kp_outcome_name(enum kp_outcome o);

/* Has a call that ended so a duration that may be counted? */
static inline bool
kp_outcome_timed(enum kp_outcome o)
{
	return o == KP_RETURNED || o == KP_RAISED || o == KP_UNKNOWN;
}

/*
 * What calls one function has to do with: filled in by the caller of intern.
 * tiers: bit t set: belongs to conf->tiers[t].
 */
struct kp_fn {
	const char *text;	/* "db:query/2"; immortal */
	uint64_t tiers;
	bool finish;
	enum kp_mark mark;
	uint64_t runaway;	/* bit n: reported as a server loop on node n */
	uint32_t left;		/* calls in a row whose end was not seen */
};

struct kp_call {
	kp_target_ns start;
	kp_target_ns end;	/* not of UNFINISHED; outlasts: the request's */
	uint64_t proc;		/* the process, of all nodes': kp_proc_text() */
	uint32_t fn;		/* index into the function table */
	uint32_t parent;	/* a lower index into the calls, or KP_NONE */
	uint8_t outcome;	/* enum kp_outcome */
	uint8_t node;		/* it ran there */
	bool async;		/* started after the request had ended */
	bool placed;		/* start and end are by the request's clock */
	uint32_t outlasts;	/* UNFINISHED as yet: it goes on, and to
				   on_late with this number; 0: it does not */
};

/* What a process did besides working. */
enum kp_pause_kind {
	KP_PAUSE_OUT,	/* scheduled out: it waited, or others ran */
	KP_PAUSE_GC	/* collecting garbage, and not scheduled out */
};

/*
 * So many ns in the span [from, to) since the start of a call: several pauses
 * may have been put together.
 */
struct kp_pause {
	uint32_t call;		/* index into the calls: the innermost then */
	uint8_t kind;		/* enum kp_pause_kind */
	kp_dur_ns from, to, ns;
};

/*
 * All times are by the clock of `node`.  Those of calls on other nodes are as
 * good as the offsets; durations are as measured there.
 */
struct kp_request {
	uint64_t label;
	uint64_t nodes;		/* bit n: it may have calls on node n */
	kp_target_ns start;
	uint32_t identity;	/* KP_IDENT_NONE if nothing named it */
	uint32_t weight;	/* requests it stands for, >= 1 */
	uint8_t outcome;	/* of the request: its entry call's, or finish's */
	uint8_t node;		/* of its entry */
	bool expired;		/* no end came: it counts among the losses */
	bool outlasts;		/* some of its calls do */
	uint32_t ncalls;
	kp_target_ns end;
	const struct kp_call *calls;	/* by start time; calls[0] is the entry */
	uint64_t parent_label;	/* the request it was started inside; 0: none */
	uint64_t id;		/* unique among those of its kp_requests */
	const struct kp_pause *pauses;	/* by process in order of time */
	uint32_t npauses;
};

/*
 * One call that came after its request had closed, or that outlasts it; by its
 * node's clock.
 */
struct kp_late_call {
	uint32_t identity, weight, fn;
	uint8_t outcome, node;
	uint32_t outlasts;	/* its number: the request had it, too, up to
				   limit; 0: it came later */
	kp_target_ns start, end;
	kp_target_ns limit;	/* outlasts: its request's end, or its start if
				   that is later */
	kp_dur_ns waited;	/* after that, for calls in its process */
};

/*
 * How long a message was in a mailbox: from its send to when its receiver took
 * it.  Of one that came from another node the way is in it, and it is as good
 * as the offsets of the two.
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
	 * OTP 26 and older: exceptions pass unseen, and a chain closed by one
	 * event may be a retry loop (stack.c).
	 * Of nodes whose release is not known yet.
	 */
	bool chain_is_ambiguous;
	/* Borrowed request and calls: good during the call only. */
	void (*on_request)(void *ctx, const struct kp_request *rq);
	void (*on_late)(void *ctx, const struct kp_late_call *c);
	/*
	 * A process received a message, and its name is not known: once for
	 * each, as far as that is kept in mind.  The answer is for
	 * kp_requests_name_receiver().  NULL: names are not asked for.
	 */
	void (*on_receiver)(void *ctx, uint32_t node, uint64_t proc);
	/*
	 * A process has max_stack calls open, most of them of this function,
	 * or as many of its calls in a row had no end when another request
	 * came: a traced server loop.  Called once for a function and node.
	 */
	void (*on_runaway)(void *ctx, uint32_t node, const struct kp_fn *fn);
	/*
	 * What a clause of the identity fun answered was not copied, for its
	 * size or kind, first of a request of this node.  Called once for a
	 * line of tiers.conf; may be NULL.
	 */
	void (*on_unbounded)(void *ctx, uint32_t node, uint32_t line);
	/*
	 * This process answers requests while it carries the tokens of others,
	 * and makes calls of this function (request/reconcile.c).  Called once for
	 * a process; may be NULL.
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
 * Another node, by the name that pids of it carry; copied.  Returns its index,
 * below KP_NODES_MAX, for all that follows; KP_NONE when out of memory or of
 * indices.  Its losses and entries start from zero.
 *
 * Most functions take KP_NONE too: with it kp_requests_events(), _pass(),
 * _expire() and _abandon() do nothing, and _running(), _undecided(), _oldest()
 * and _entries() return 0.
 */
uint32_t kp_requests_node(struct kp_requests *rs, const char *name);
/*
 * Abandons it with this cause and gives its index back; another node gets that
 * one once no request in flight has calls on this.  Till then its losses may
 * still be asked for.
 */
void kp_requests_remove(struct kp_requests *rs, uint32_t node,
    enum kp_loss cause);
/* The node's release (27): it determines which ends the relay can see. */
void kp_requests_release(struct kp_requests *rs, uint32_t node, int otp);
/*
 * Its events are the native probe's, after that: no exception passes unseen.
 * all_exact: each call has its own return or exception; a return_to that comes
 * all the same says nothing.
 */
void kp_requests_native(struct kp_requests *rs, uint32_t node,
    bool all_exact);
/*
 * What is added to the node's time to get that of the clock that all nodes
 * have in common, right to error ns (see offset.h).  May change at any time:
 * a request is laid out with the offsets of when it closes.  Where one is not
 * known, calls of that node are placed by what calls what alone.  A node whose
 * clock starts again needs its offset before its first event.
 */
void kp_requests_offset(struct kp_requests *rs, uint32_t node,
    kp_dur_ns offset, kp_dur_ns error);

/* One event.  Never fails: what cannot be kept is counted in the losses. */
void kp_requests_event(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev);
/* Many, in their order: with many requests in flight that takes less time. */
void kp_requests_events(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n);
/*
 * One that is not to be followed: an entry counts as lost by a trip, a call as
 * lost with its request.
 */
void kp_requests_pass(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev);
/*
 * Closes what is due at this time of the node (a batch's SentAt), of requests
 * that began there.
 */
void kp_requests_expire(struct kp_requests *rs, uint32_t node,
    kp_target_ns now);
/*
 * Ends all that is in flight on the node: for a trip, a lost connection, or
 * the end.  Requests that began there are each counted as this loss, or, where
 * their end was seen, closed and handed on as always.  Requests that began on
 * other nodes go on; their calls that are open here are unfinished, and
 * counted as such (KP_LOSS_LEFT).
 */
void kp_requests_abandon(struct kp_requests *rs, uint32_t node,
    enum kp_loss cause);

/* That began on this node, those that are over and wait for stragglers too. */
size_t kp_requests_in_flight(const struct kp_requests *rs, uint32_t node);
/*
 * Of these, whose end was not seen, and that do not seem to be over: what
 * kp_requests_oldest() lists.
 */
size_t kp_requests_running(struct kp_requests *rs, uint32_t node);
/* Of those in flight, that do not count as lost: they may be handed on yet. */
size_t kp_requests_undecided(const struct kp_requests *rs, uint32_t node);

#define KP_FLIGHT_MAX 100	/* asked for at once */

/* One of them whose end was not seen yet. */
struct kp_flight {
	uint64_t label;
	uint32_t identity;	/* KP_IDENT_NONE: not known yet, or none */
	uint32_t weight, ncalls;
	kp_dur_ns age;
	/*
	 * The call that it is in: the last that began and has no end.  fn
	 * KP_NONE: in none, and node is its entry's.
	 */
	uint32_t fn;
	uint8_t node;
	uint64_t proc;
	kp_dur_ns in_call;
};

/*
 * The oldest that began on this node, by its time `now` (or the last that it
 * told), the oldest first: at most max, up to KP_FLIGHT_MAX.  Returns how many.
 */
size_t kp_requests_oldest(struct kp_requests *rs, uint32_t node,
    kp_target_ns now, struct kp_flight *v, size_t max);
/* Adds what the node lost since the last call to *to and starts from zero. */
void kp_requests_losses(struct kp_requests *rs, uint32_t node,
    struct kp_losses *to);
/* The number of entry events taken from it, for the balance of losses. */
uint64_t kp_requests_entries(const struct kp_requests *rs, uint32_t node);

/* In an array of all functions, which the next event may move. */
const struct kp_fn *kp_requests_fn(const struct kp_requests *rs, uint32_t fn);
/* The identity's text, immortal as long as rs lives. */
const char *kp_requests_identity(const struct kp_requests *rs, uint32_t id);
/*
 * Messages, where conf->messages is set.  Receivers are known by what names
 * many of them: their registered names, or the functions that they began with.
 * A few names are made here:
 */
#define KP_RECEIVER_OTHER 0	/* "_other": past the cap of names */
#define KP_RECEIVER_GONE 1	/* "_gone": ended before it could be asked */
#define KP_RECEIVER_ENTRY 2	/* "_entry": the same, where it began the
				   request */
#define KP_RECEIVERS_MAX 1000	/* names, with those */

/* The waits of the request that on_request has, while it is called. */
const struct kp_wait *kp_requests_waits(const struct kp_requests *rs,
    uint32_t *n);
/* The name's text, immortal as long as rs lives. */
const char *kp_requests_receiver(const struct kp_requests *rs, uint32_t id);
/*
 * What on_receiver asked for: a raw term, its registered name (an atom), or the
 * function that it began with ({M,F,A}); of anything else, it is gone.
 */
void kp_requests_name_receiver(struct kp_requests *rs, uint64_t proc,
    struct kp_span name);

/*
 * "<0.123.0>", as its own node prints it: unique together with the call's
 * node.  32 bytes do; returns buf.
 */
const char *kp_proc_text(uint64_t proc, char *buf, size_t n);
/* Its serial << 32 | number, on its own node. */
uint64_t kp_proc_pid(uint64_t proc);

#endif
