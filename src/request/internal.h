/*
 * internal.h - what the files of src/request share.
 *
 *   intern, ident   names                      (intern.c, ident.c)
 *   stack           open calls of a process    (stack.c)
 *   meet            what a call says of others (meet.c)
 *   mark            requests set and cleared   (mark.c)
 *   tomb            labels of closed requests  (tomb.c)
 *   list            requests in flight         (list.c)
 *   request         events in                  (request.c)
 *   expire          time passes                (expire.c)
 *   close           requests out               (close.c)
 */
#ifndef KP_REQUEST_INTERNAL_H
#define KP_REQUEST_INTERNAL_H

#include "kprofd/request.h"
#include "request/intern.h"
#include "request/map.h"

/*
 * A target's clock starts at -2^59 ns.  No time past this is real, and the
 * difference of any two that are fits.
 */
#define TIME_MAX (INT64_C(1) << 62)

#define NEST_MAX 8	/* requests inside requests that are told apart */

/* A call while its request is being put together. */
struct rcall {
	struct kp_call c;
	uint64_t from;		/* who sent the token; 0: nobody or ourselves */
};

/* A request while it is being put together. */
struct req {
	struct kp_request r;	/* r.calls and r.ncalls are set at the close */
	struct rcall *calls;
	uint32_t ncalls, cap;
	uint64_t outer;		/* label of the request it began inside; 0 */
	bool ended;		/* its end was seen: r.end, r.outcome hold */
	bool collided;		/* counted as lost; eats its events till closed */
	bool overflow;		/* its name came past the cap of names */
	bool set;		/* begun by set_token: see mark.c */
	bool cleared;		/* early: and ended then */
	kp_target_ns cleared_at;
	/*
	 * Calls came before the entry's event: between processes events are
	 * not in order.  calls[0] is kept free for it.
	 */
	bool early;
	bool pending;		/* its entry or finish is in doubt */
	kp_target_ns touched;	/* was last heard of then; early: began then */
	struct req *prev, *next; /* in one of the lists of rs */
};

struct req_list {
	struct req *head, *tail;
};

/* What an open call on a stack belongs to. */
enum open_kind {
	OPEN_REQUEST,	/* call number idx of a request */
	OPEN_LATE,	/* its request has closed: async */
	OPEN_IGNORED	/* lost; kept so that returns still pair */
};

/* Why an open call may be over without an event of its own (stack.c). */
enum doubt {
	DOUBT_NONE,
	DOUBT_TAIL,	/* it may have ended in a tail call that is over */
	DOUBT_PASSED	/* an exception may have passed it */
};

struct open {
	uint8_t kind;		/* enum open_kind */
	uint8_t doubt;		/* enum doubt; if it is over, then */
	uint8_t maybe_how;	/* so: enum kp_outcome, */
	kp_target_ns maybe;	/* and then */
	uint32_t idx;
	uint32_t fn, caller;	/* KP_NONE: unknown */
	uint32_t identity, weight;	/* OPEN_LATE */
	uint64_t label;
	struct req *rq;		/* OPEN_REQUEST */
	kp_target_ns start;
};

/* A process with open calls. */
struct proc {
	uint64_t id;
	kp_target_ns last;	/* its last event: its time never runs back */
	struct open *v;
	uint32_t n, cap;
	bool doubts;		/* some of them may be in doubt */
	/*
	 * So many that over_caller called, from over_since on, were taken for
	 * over though they may not be: their returns may be to come.
	 */
	uint32_t over, over_caller;
	kp_target_ns over_since;
	/* A value-carrying return was just seen: its return_to is no news. */
	bool exact_seen;
	bool exact_raised;
	uint32_t exact_caller;
};

struct tomb {
	uint64_t label, outer;	/* as in struct req */
	kp_target_ns at;
	uint32_t identity, weight;
};

/* Ring of closed requests' labels, oldest at head. */
struct tombs {
	struct tomb *v;
	uint32_t cap, head, n;
	struct map by_label;	/* label -> index into v, plus one */
};

struct kp_requests {
	struct kp_requests_opts o;
	struct fns fns;
	struct idents idents;
	struct map by_label;	/* label -> struct req * */
	struct map procs;	/* process -> struct proc * */
	struct req_list early;	/* by touched: for their entries */
	struct req_list live;	/* by start: for expiry */
	struct req_list pending; /* by touched: to be settled */
	struct req_list ended;	/* by end: for closing */
	size_t in_flight;	/* without the early ones */
	size_t nearly;		/* of those */
	uint64_t calls;		/* of all of them */
	struct tombs tombs;
	struct kp_losses lost;
	uint64_t entries, next_id;
	bool all_exact;		/* no return_to comes */
	bool marks;		/* set_token was met: looking for it may pay */
	kp_target_ns now, swept;
	/* scratch of close.c, kept between requests */
	struct kp_call *out;
	uint32_t *order;
	uint32_t outcap;
};

/* stack.c */
struct proc *proc_get(struct kp_requests *rs, uint64_t id);
struct proc *proc_make(struct kp_requests *rs, uint64_t id);
void proc_drop_if_empty(struct kp_requests *rs, struct proc *p);
/* Where the stack is full, all that is on it ends; out of memory, this one. */
void proc_push(struct kp_requests *rs, struct proc *p, const struct open *o);
/* Removes what belongs to rq; calls begun after its end stay, as OPEN_LATE. */
void proc_forget(struct kp_requests *rs, uint64_t id, struct req *rq);
/* What belongs to rq stays, as OPEN_IGNORED. */
void proc_ignore(struct kp_requests *rs, uint64_t id, const struct req *rq);
/* Ends the topmost open call. */
void proc_pop(struct kp_requests *rs, struct proc *p, enum kp_outcome how,
    kp_target_ns at);
/* Ends all above position down_to: their ends were not seen, or doubted. */
void proc_leave(struct kp_requests *rs, struct proc *p, uint32_t down_to,
    kp_target_ns at);
/* The call in doubt at position i is over, with what was open above it. */
void proc_settle_at(struct kp_requests *rs, struct proc *p, uint32_t i,
    kp_target_ns at);
void proc_return_to(struct kp_requests *rs, struct proc *p, uint32_t to,
    kp_target_ns at);
void proc_return_exact(struct kp_requests *rs, struct proc *p, uint32_t fn,
    bool raised, kp_target_ns at);
/* What is in doubt of rq in this process ended where it may have ended. */
void proc_settle(struct kp_requests *rs, uint64_t id, const struct req *rq);
/* A call made by fn: so that one runs, if open, and nothing above it. */
void proc_meet_caller(struct kp_requests *rs, struct proc *p, uint32_t fn);
/* Had rq's entry call, in doubt now, perhaps ended by then? */
bool proc_doubts_entry(struct kp_requests *rs, const struct req *rq,
    kp_target_ns at);
void procs_sweep(struct kp_requests *rs, kp_target_ns now);
/* Late calls still open are handed on as unfinished. */
void procs_abandon(struct kp_requests *rs);
void procs_free(struct kp_requests *rs);

/* meet.c */
/* Is it the same, or of a request that began inside outer's? */
bool label_inside(const struct kp_requests *rs, uint64_t label,
    uint64_t outer);
/* The label of the request that the next call is made for. */
uint64_t proc_meet_label(struct kp_requests *rs, struct proc *p,
    uint64_t label, kp_target_ns at);
void proc_meet_again(struct kp_requests *rs, struct proc *p, uint32_t fn,
    uint32_t caller, uint32_t keep, kp_target_ns at);
/* Back in `to`, nobody's caller: from a call that was taken for over? */
bool proc_was_over(struct proc *p, uint32_t to);
void proc_meet_entry(struct kp_requests *rs, struct proc *p,
    const struct kp_event *ev, uint32_t fn, uint32_t caller);
/* The label of the request that a new one begins inside; see there. */
uint64_t proc_meet_parent(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev, uint64_t *outer);

/* mark.c */
/*
 * The innermost open request that set_token began in this process and that
 * the label is of, or of a request inside; NULL: none.
 */
struct req *mark_here(const struct kp_requests *rs, const struct proc *p,
    uint64_t label);
/* The same, if the process has no call open that began since. */
struct req *mark_on_top(const struct kp_requests *rs, const struct proc *p,
    uint64_t label);
/* The process called set_token again: that ends the request it had set. */
void mark_again(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev);
/* The entry of rq is a call of set_token. */
void mark_set(struct kp_requests *rs, struct req *rq);
/* fn, which took the token with this label from the process, was called. */
void mark_clear(struct kp_requests *rs, const struct proc *p,
    const struct kp_fn *fn, uint64_t label, kp_target_ns at);

/* tomb.c */
void tombs_free(struct tombs *t);
void tombs_add(struct tombs *t, const struct tomb *tomb);
const struct tomb *tombs_get(const struct tombs *t, uint64_t label);
void tombs_expire(struct tombs *t, kp_target_ns before);

/* list.c */
void list_add(struct req_list *l, struct req *rq);
/* Among the live ones, which are in the order of their starts. */
void list_add_by_start(struct req_list *l, struct req *rq);
void list_remove(struct req_list *l, struct req *rq);

struct req *req_get(const struct kp_requests *rs, uint64_t label);
/* request.c: one whose entry may be on its way; NULL: cannot be kept */
struct req *req_make_early(struct kp_requests *rs, uint64_t label,
    kp_target_ns at);
/* request.c: the end of a request was seen */
void req_end(struct kp_requests *rs, struct req *rq, enum kp_outcome how,
    kp_target_ns at);
/* request.c: is this the entry's call, or one of a finish? */
bool call_may_end(const struct kp_requests *rs, const struct req *rq,
    uint32_t idx);
/* request.c: such a call may have ended, or is still at work */
void req_pend(struct kp_requests *rs, struct req *rq, kp_target_ns at);

/* close.c: hands it on, buries and frees it */
void req_close(struct kp_requests *rs, struct req *rq);
/* Frees it, handing nothing on. */
void req_drop(struct kp_requests *rs, struct req *rq);

#endif
