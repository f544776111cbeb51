/*
 * life.h - the life of a request: how calls and returns pair, when it ends, and
 * how it is closed.  state.h lists the files in order.
 */
#ifndef KPROFD_REQUEST_LIFE_H
#define KPROFD_REQUEST_LIFE_H

#include "request/state.h"

/* Call i, still open, began after the end: it goes on as a late call. */
static inline bool
call_goes_on(const struct kp_requests *rs, const struct req *rq, uint32_t i)
{
	const struct kp_call *c = &rq->calls[i].c;

	return c->outcome == KP_OPEN && i > 0 &&
	    req_time(rs, rq, c->node, c->start) >= rq->r.end;
}

/* Call i is not handed on: it goes on as a late call, or is lost. */
static inline bool
call_stays_out(const struct kp_requests *rs, const struct req *rq, uint32_t i)
{
	return rq->calls[i].c.lost || call_goes_on(rs, rq, i);
}

/* Call i, still open, began inside a request that ended: it goes on, too. */
static inline bool
call_outlasts(const struct kp_requests *rs, const struct req *rq, uint32_t i)
{
	const struct kp_call *c = &rq->calls[i].c;

	return c->outcome == KP_OPEN && rq->state == REQ_ENDED &&
	    rq->r.outcome != KP_UNFINISHED && rs->fns.v[c->fn].tiers != 0;
}

/* Fewer processes than this, of 256 bytes each, stay in the cache. */
#define PREFETCH_PROCS_MIN 256

static inline void
fetch_lines(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		__builtin_prefetch((const char *)p + i * POOL_LINE, 1);
}

/* Numbers such a call, and sets how much of it was inside its request. */
void call_set_limit(struct kp_requests *rs, struct req *rq, uint32_t i,
    struct kp_call *out);

/* ---- stack.c ---- */

/* Ends all open calls if the stack is full, or this one if out of memory. */
void proc_push(struct kp_requests *rs, struct proc *p, const struct open *o);
/*
 * Takes all calls above position down_to off the stack: unfinished, or, where they
 * are in doubt, as they may have ended before.
 */
void proc_leave(struct kp_requests *rs, struct proc *p, uint32_t down_to,
    kp_target_ns at);
/* Are they of one function?  Their labels may differ. */
static inline bool
same_fn(const struct kp_requests *rs, const struct kp_call *a, const struct kp_call *b)
{
	return rs->fns.v[a->fn].base == rs->fns.v[b->fn].base;
}

/* A call made by fn: if that is open, it runs, and nothing above it does. */
void proc_caller_runs(struct kp_requests *rs, struct proc *p, uint32_t fn);
/* The call in doubt at position i is over, with what was open above it. */
void proc_settle_at(struct kp_requests *rs, struct proc *p, uint32_t i,
    kp_target_ns at);
/* The call at position i is about to be ended, though it may still run. */
void proc_note_over(struct proc *p, uint32_t i);
void proc_return_to(struct kp_requests *rs, struct proc *p, uint32_t to,
    kp_target_ns at);
void proc_return_exact(struct kp_requests *rs, struct proc *p, uint32_t fn,
    bool raised, kp_target_ns at);

/*
 * Removes the calls of rq; those begun after its end stay, as OPEN_LATE, and
 * those that outlast it, once it was handed on, as OPEN_OUTLAST.
 */
void proc_forget(struct kp_requests *rs, uint64_t id, struct req *rq);
/* Keeps the calls of rq as OPEN_IGNORED. */
void proc_ignore(struct kp_requests *rs, uint64_t id, const struct req *rq);
/* The calls of rq that are in doubt ended where they may have ended. */
void proc_settle(struct kp_requests *rs, uint64_t id, const struct req *rq);
/* Is rq's entry call in doubt, and may it have ended by then? */
bool proc_doubts_entry(struct kp_requests *rs, const struct req *rq,
    kp_target_ns at);
void procs_sweep(struct kp_requests *rs, struct rnode *nd, kp_target_ns now);
/*
 * Ends all calls that are open on this node: late ones are handed on as
 * unfinished, others stay in their requests as such; cause: why.
 */
void procs_abandon(struct kp_requests *rs, struct rnode *nd,
    enum kp_loss cause);

/* ---- reconcile.c ---- */

/*
 * The label of the request that a process works for, by the token that it has at
 * this time of node nd; 0: it has none, or nobody knows.
 */
uint64_t proc_works_for(const struct kp_requests *rs, const struct rnode *nd,
    uint64_t proc, const struct token *t, kp_target_ns at);
/*
 * That which a message was sent for, by the token it was sent with at this time of
 * its sender's node nd; 0: it cannot be known.  Notes that its receiver works for
 * that once it has taken the message.
 */
uint64_t message_works_for(struct kp_requests *rs, const struct rnode *nd,
    uint64_t receiver, const struct token *t, kp_target_ns sent);
/* The label of the innermost open call that is not in doubt; 0: none. */
uint64_t proc_innermost_label(const struct proc *p);
/* The process works for the request `of` with this token from now on. */
void proc_note_work(struct kp_requests *rs, uint64_t proc,
    const struct token *t, uint64_t of);
/*
 * Is the token of a request that is known, from a process of another node whose
 * events of then may not have come yet?
 */
bool sender_is_behind(const struct kp_requests *rs, const struct rnode *nd,
    const struct token *t, kp_target_ns at);
/* An early request for calls with this token, until what it is of is known. */
struct req *orphan_make(struct kp_requests *rs, const struct token *t,
    uint32_t node, kp_target_ns at);
/* That whose call p is in, with this token still; NULL: none. */
struct req *orphan_around(const struct proc *p, const struct token *t);
/*
 * Gives its calls to the request that they are of.  False: that is not known, or has
 * no room for them; *cause is what they are lost for if it stays so.
 */
bool orphan_adopt(struct kp_requests *rs, struct req *orphan, enum kp_loss *cause);
/*
 * p begins rq: what other processes are sent from now on is of rq.  t: the token
 * that it had, when it worked for the request `of`.
 */
void own_begin(struct kp_requests *rs, const struct proc *p, struct req *rq,
    const struct token *t, uint64_t of);
/* rq goes. */
void own_end(struct kp_requests *rs, const struct req *rq);
/*
 * These three are called when a process makes a call, before that is put on its
 * stack, and end open calls that are over by then.
 */
/* Returns the label of the request that the call is made for. */
uint64_t proc_reconcile_label(struct kp_requests *rs, struct proc *p,
    uint64_t label, kp_target_ns at);
/* Of calls of fn from the same place at most `keep` stay in doubt. */
void proc_reconcile_again(struct kp_requests *rs, struct proc *p, uint32_t fn,
    uint32_t caller, uint32_t keep, kp_target_ns at);
/* The same for the call of an entry. */
void proc_reconcile_entry(struct kp_requests *rs, struct proc *p,
    uint64_t old_label, uint32_t fn, uint32_t caller, kp_target_ns at);
/* Returns the label of the request that a new one begins inside; see there. */
uint64_t proc_reconcile_parent(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev, uint64_t old_label, uint64_t *outer);
/* Is the process inside an entry of which nothing more is measured (OPEN_TIMED)? */
bool proc_in_timed(const struct kp_requests *rs, const struct proc *p);
/* Counts a call of which nobody can tell the request; label: its token's. */
void call_crossed(struct kp_requests *rs, const struct kp_call *c, uint64_t label);
/*
 * A process inside its own entry, for the request `label`, has a token that its
 * sender was found to have for the request `of`: notes that sender, a server, and
 * loses its last call for `of`, which was for one of the two.
 */
void crossed_token(struct kp_requests *rs, const struct proc *p,
    const struct token *t, uint64_t label, uint64_t of);
/* A call of fn, only if rs->crossed.n > 0: reports such a server, once. */
void crossed_report(struct kp_requests *rs, const struct proc *p, uint32_t fn);
/* proc gave an answer with a token that is not the asker's. */
void crossed_answer(struct crossed *d, uint64_t proc);
/*
 * A traced call in any process.  Returns true, once for each server, if proc is
 * one that answers with tokens of others.
 */
bool crossed_call(struct crossed *d, uint64_t proc);
/* The node goes: its servers are reported again when they are met again. */
void crossed_detach(struct crossed *d, uint32_t node);

/*
 * The innermost open request that set_token began in this process and that the
 * label is of, or inside; NULL: none.
 */
struct req *mark_here(const struct kp_requests *rs, const struct proc *p,
    uint64_t label);

/* How far back a parent is looked for by time in a large request. */
#define PARENT_SCAN_MAX 1000

/* Did it run at this time?  One whose end was not seen may have, ever since. */
static inline bool
call_covers(const struct kp_call *c, kp_target_ns at)
{
	return c->start <= at &&
	    (c->outcome == KP_UNFINISHED || c->end >= at);
}

/* ---- clock_align.c ---- */

enum place_state { PLACE_NEW, PLACE_BUSY, PLACE_DONE };

/*
 * Where a call goes.  Calls that are tied to each other by events of one node
 * move together: they have one root.
 */
struct place {
	uint64_t from;		/* process that sent the token; 0: itself */
	kp_dur_ns shift;	/* of a root: by this much they are moved */
	kp_dur_ns moved;	/* for good: from the clock of its node */
	uint32_t source;	/* index of the call in the request in flight */
	uint32_t root;		/* the first of those that move with it */
	uint32_t depth;
	uint8_t state;		/* of a root: enum place_state */
};

/* Converts a request's calls on this node to its clock, for good. */
void calls_detach(struct kp_requests *rs, struct req *rq, uint32_t node);
/*
 * Fills rs->out with the calls of a request of several nodes, final, and
 * rs->place with the source of each; sets its end; returns their number.
 */
uint32_t align_calls(struct kp_requests *rs, struct req *rq);

/* ---- close.c ---- */

/* Frees it without handing it on. */
void req_drop(struct kp_requests *rs, struct req *rq);

#endif
