/*
 * trace.h - decodes the bytes of one agent message into trace events
 * (decode/trace_event.c).  Full traces (kprof trace) have events of their own:
 * calls/call_trace.h.
 *
 * The agent sends
 *   {kprof_events, Seq, SentAt, QueueLen, Dropped, Events}
 * where Events is a list of trace messages as the VM made them, or without
 * values ('exact' tiers):
 *   {trace_ts, Pid, call, {M,F,A}, X, Ts}
 *       X = {Identity, Token, Caller}                       tier call
 *       X = {Identity, Caller, Weight, New, true, [], Old}  entry call; New is
 *           false if the process carries a foreign token, which stays
 *       X = {[], Token, Caller, []}                 call that took the token
 *   {trace_ts, Pid, return_to, {M,F,A} | undefined, Ts}
 *   {trace_ts, Pid, return_from, {M,F,A}, Ts}
 *   {trace_ts, Pid, exception_from, {M,F,A}, Ts}
 *   {trace_ts, Pid, in | out, {M,F,A} | 0, Ts}
 *   {trace_ts, Pid, gc_minor_start | gc_minor_end | gc_major_start |
 *       gc_major_end, Any, Ts}
 * and the native probe, which has its own records (native_record.h), reports messages
 * too.  Token and New are {Flags, Label, Serial, From, LastSerial}, the result
 * of seq_trace:get_token/0; so is Old, or false if there was none of ours ([]
 * from older agents); Identity is [] if no clause of the identity fun matched,
 * {'_other', Line} if the result of one is too large to be copied; Caller is
 * {M,F,A} or undefined.  A label that is not a positive 59-bit integer becomes
 * label 0.
 *
 * The decoder allocates and copies nothing: events point into the frame, and
 * are valid until the caller reuses it.
 */
#ifndef KPROFD_TRACE_H
#define KPROFD_TRACE_H

#include "kprofd/clock.h"
#include "kprofd/term.h"

/*
 * A target's clock starts at -2^59 ns.  No real time is past this limit, and
 * the difference of any two below it fits.
 */
#define KP_TARGET_TIME_MAX (INT64_C(1) << 62)
/* No count of a target gets there: a million a second for eight years. */
#define KP_TARGET_COUNT_MAX (INT64_C(1) << 48)

enum kp_event_kind {
	KP_EV_ENTRY,
	KP_EV_CALL,
	KP_EV_RETURN_TO,
	KP_EV_RETURN_FROM,
	KP_EV_EXCEPTION_FROM,
	KP_EV_CLEAR,	/* a call that removed this token from its process */
	/* the process was scheduled in or out; collects garbage, or did */
	KP_EV_IN,
	KP_EV_OUT,
	KP_EV_GC_START,
	KP_EV_GC_END,
	/* for a message with a token; only from the native probe */
	KP_EV_SEND,
	KP_EV_RECEIVE	/* taken from the mailbox of its process */
};

struct kp_event {
	enum kp_event_kind kind;
	struct kp_pid pid;	/* its process */
	kp_target_ns ts;
	struct kp_span mfa;	/* raw term {M,F,A}: function called or left,
				   or returned to; empty for undefined, and from
				   IN on; its parts are two atoms and an
				   arity <= 255 */
	/* ENTRY, CALL, CLEAR; label and from of messages, too; else zero */
	struct kp_span caller;	/* raw term {M,F,A}, or empty */
	struct kp_span identity; /* raw term, or empty for [] and undefined */
	uint64_t label;		/* the token in force after the call (CLEAR:
				   before it); 0: none */
	bool has_from;
	struct kp_pid from;	/* sender of the token (ENTRY: of the one before);
				   SEND: receiver of the message, if a pid */
	/*
	 * Every process counts the messages that it sends with a token, and what
	 * it receives sets its count forward.  serial: of the message that brought
	 * the token, or, if its process has sent one since, of that.  last: of the
	 * one that the sender had taken last when it sent it.  Both are of the
	 * token that `from` is of; of ENTRY without one before, `last` is of the
	 * last message that its process took.
	 */
	uint32_t serial, last;	/* serial: of SEND and RECEIVE, too */
	/* ENTRY only */
	uint64_t old_label;	/* the token before, 0: none */
	bool foreign;		/* that was foreign: it began no request */
	uint32_t weight;	/* requests this one stands for, >= 1 */
};

/*
 * Zeroes all members except kind, pid and ts, which every event has.  It does
 * so one by one, because the compiler zeroes a struct by `rep stos`, which is
 * slower.
 */
static inline void
kp_event_clear(struct kp_event *ev)
{
	const struct kp_span none = { NULL, 0 };

	ev->mfa = ev->caller = ev->identity = ev->from.node = none;
	ev->from.id = ev->from.serial = ev->from.creation = 0;
	ev->has_from = ev->foreign = false;
	ev->label = ev->old_label = 0;
	ev->weight = ev->serial = ev->last = 0;
}

struct kp_batch {
	uint64_t seq;
	kp_target_ns sent_at;
	uint64_t queue_len;
	uint64_t dropped;	/* events dropped by the agent since its start */
	struct kp_term r;	/* is at the next event */
	uint32_t left;		/* events not yet read */
	bool tail;		/* the list's [] is not yet read either */
};

/*
 * Starts on one message; KP_ENOENT if it is a good term but not a kprof_events
 * tuple, else KP_ESHORT, KP_EFORMAT (also for impossible times and counts) or
 * KP_ELIMIT.
 */
enum kp_err kp_batch_begin(struct kp_batch *b, const void *p, size_t n);
/*
 * Gets the next event: KP_OK, KP_END after the last, KP_ENOENT for a
 * well-formed element that is not a known trace message (skipped; go on), and
 * KP_ESHORT, KP_EFORMAT or KP_ELIMIT if the rest cannot be read; that error
 * sticks.  *ev is all zero unless it returns KP_OK.
 */
enum kp_err kp_batch_next(struct kp_batch *b, struct kp_event *ev);

#endif
