/*
 * request.h - from trace events to calls to request trees.  Pure.
 *
 * Events of one process come in order; between processes only time stamps
 * order them.  Calls pair with returns on a stack for each process.  A
 * request closes at its end plus KP_HORIZON, or after KP_REQUEST_AGE_MAX, and
 * is then handed to the on_request callback together with all its calls.
 * One that kprof:set_token/0 began goes on after that call's return; its
 * calls[0] lasts from there to its end.
 * Calls that come later count as async while a tombstone remembers the
 * label, and go to on_late one by one.
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
/* An entry that may be over is, when its process is silent for so long. */
#define KP_TAIL_WAIT (1 * KP_NS_PER_S)
#define KP_REQUEST_AGE_MAX (60 * KP_NS_PER_S)	/* then it is expired */
#define KP_TOMBSTONE_AGE (30 * KP_NS_PER_S)
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
	KP_AMBIGUOUS	/* end seen, time unsure; kept out of times */
};

const char *kp_outcome_name(enum kp_outcome o);

/*
 * What calls one function has to do with: filled in by whoever interns it.
 * tiers: bit t set: belongs to conf->tiers[t].
 */
struct kp_fn {
	const char *text;	/* "db:query/2"; immortal */
	uint64_t tiers;
	bool finish;
	enum kp_mark mark;
	bool runaway;		/* was reported as a server loop */
	uint32_t left;		/* calls in a row whose end was not seen */
};

struct kp_call {
	kp_target_ns start;
	kp_target_ns end;	/* valid for RETURNED, RAISED and AMBIGUOUS */
	uint64_t proc;		/* the process: see kp_proc_text() */
	uint32_t fn;		/* index into the function table */
	uint32_t parent;	/* a lower index into the calls, or KP_NONE */
	uint8_t outcome;	/* enum kp_outcome */
	bool async;		/* started after the request had ended */
};

struct kp_request {
	uint64_t label;
	uint64_t parent_label;	/* the request it was started inside; 0: none */
	uint64_t id;		/* unique among those of its kp_requests */
	kp_target_ns start, end;
	uint32_t identity;	/* KP_IDENT_NONE if nothing named it */
	uint32_t weight;	/* requests it stands for, >= 1 */
	uint8_t outcome;	/* of the request: its entry call's, or finish's */
	bool expired;		/* no end came: it counts among the losses */
	uint32_t ncalls;
	const struct kp_call *calls;	/* by start time; calls[0] is the entry */
};

/* One call that came after its request had closed. */
struct kp_late_call {
	uint32_t identity, weight, fn;
	uint8_t outcome;
	kp_target_ns start, end;
};

struct kp_requests_opts {
	const struct kp_conf *conf;
	size_t max_requests;		/* in flight; default 100000 */
	uint32_t max_calls;		/* in one request; default 10000 */
	uint64_t max_calls_in_flight;	/* of all requests; default 4000000 */
	uint32_t max_stack;		/* open in one process; default 1000 */
	uint32_t max_identities;	/* default 1000 */
	/* OTP 26 and older: a chain closed by one event may be a retry loop. */
	bool chain_is_ambiguous;
	/* Borrowed request and calls: good during the call only. */
	void (*on_request)(void *ctx, const struct kp_request *rq);
	void (*on_late)(void *ctx, const struct kp_late_call *c);
	/*
	 * A process has max_stack calls open, most of them of this function,
	 * or as many of its calls in a row had no end when another request
	 * came: a traced server loop.  Called once for a function.
	 */
	void (*on_runaway)(void *ctx, const struct kp_fn *fn);
	/*
	 * What a clause of the identity fun answered was not copied, for its
	 * size or kind.  Called once for a line of tiers.conf; may be NULL.
	 */
	void (*on_unbounded)(void *ctx, uint32_t line);
	void *ctx;
};

struct kp_requests;

/* NULL when out of memory.  Zeros in opts mean the defaults. */
struct kp_requests *kp_requests_new(const struct kp_requests_opts *opts);
void kp_requests_free(struct kp_requests *rs);

/* The target's release (27), which says what the relay can tell of. */
void kp_requests_release(struct kp_requests *rs, int otp);
/*
 * Events are the native probe's, after that: no exception passes unseen.
 * all_exact: each call has its own return or exception, and none a return_to.
 */
void kp_requests_native(struct kp_requests *rs, bool all_exact);

/* One event.  Never fails: what cannot be kept is counted in the losses. */
void kp_requests_event(struct kp_requests *rs, const struct kp_event *ev);
/* Closes what is due at this time of the target (a batch's SentAt). */
void kp_requests_expire(struct kp_requests *rs, kp_target_ns now);
/*
 * Ends everything in flight, each request counted as this loss: for a trip,
 * a lost connection, or the end.  Requests whose end was seen are closed
 * and handed on as always.
 */
void kp_requests_abandon(struct kp_requests *rs, enum kp_loss cause);

size_t kp_requests_in_flight(const struct kp_requests *rs);
/* Adds what was lost since the last call to *to and starts from zero. */
void kp_requests_losses(struct kp_requests *rs, struct kp_losses *to);
/* The number of entry events taken, for the balance of losses. */
uint64_t kp_requests_entries(const struct kp_requests *rs);

const struct kp_fn *kp_requests_fn(const struct kp_requests *rs, uint32_t fn);
/* The identity's text, immortal as long as rs lives. */
const char *kp_requests_identity(const struct kp_requests *rs, uint32_t id);
/* "<0.123.0>", as the target itself prints it; 32 bytes do; returns buf. */
const char *kp_proc_text(uint64_t proc, char *buf, size_t n);

#endif
