/*
 * internal.h - what the files of src/request share.
 *
 *   proc.c           processes of the targets
 *   stack.c          open calls of a process: calls paired with returns
 *   naming.c         the request type ("identity") of a request
 *   request.c        events in
 *   reconcile.c      what a call's token shows about other requests
 *   mark.c           requests that an application sets and clears by itself
 *   list.c           requests in flight
 *   prefetch.c       prefetches memory that the next events will touch
 *   node.c           nodes and their clocks
 *   clock_align.c    calls of several nodes on one clock
 *   sched_gc.c       scheduling and garbage collection during calls
 *   messages.c       messages and their waits
 *   receiver.c       the processes that take them
 *   expire.c         requests end as time passes
 *   outlast.c        calls that go on after their request
 *   close.c          requests out
 *   tombstone.c      labels of closed requests, for calls that come late
 *   drains.c         servers that answer with another request's token
 *   flight.c         what is in flight now
 */
#ifndef KP_REQUEST_INTERNAL_H
#define KP_REQUEST_INTERNAL_H

#include "kprofd/request.h"
#include "request/drains.h"
#include "request/fns.h"
#include "request/naming.h"
#include "base/map.h"
#include "base/pool.h"

/* A process of any node as one number: node, serial, number. */
#define PID_NODE 58
#define PID_KEY_END (UINT64_C(1) << PID_NODE)
#define PID_SERIAL_END (UINT32_C(1) << (PID_NODE - 32))

#define NEST_MAX 8	/* requests inside requests that are told apart */

/* A call while its request is being put together. */
struct rcall {
	struct kp_call c;
	uint64_t from;		/* who sent the token; 0: nobody or ourselves */
};

/*
 * A request while it is being put together.  All that a call or a return of it
 * looks at is in the first cache line.
 */
struct req {
	struct rcall *calls;	/* from the pool: bytes of them */
	uint32_t ncalls;
	uint32_t bytes;
	bool ended;		/* its end was seen: r.end, r.outcome hold */
	bool pending;		/* its entry or finish is in doubt */
	bool collided;		/* counted as lost; eats its events till closed */
	bool set;		/* begun by set_token: see mark.c */
	bool overflow;		/* its name came past the cap of names */
	bool outer_early;	/* of outer: its entry had not come by then */
	bool takes_token;	/* its entry took one from the process */
	/*
	 * Calls came before the entry's event: between processes events are
	 * not in order.  calls[0] is kept free for it.
	 */
	bool early;
	/*
	 * r.calls and r.ncalls are set at the close.  While it is early r.node
	 * is that of its first call.  All times here are by the clock of that
	 * node; those of a call by that of its own, unless it is `placed`.
	 */
	struct kp_request r;
	uint64_t outer;		/* label of the request it began inside; 0 */
	uint32_t ender;		/* the call that ended it, or KP_NONE */
	bool cleared;		/* early: and ended then */
	bool handed_on;		/* with calls that outlast it: outlast.c */
	kp_target_ns cleared_at;
	kp_target_ns touched;	/* was last heard of then; early: began then */
	struct req *prev, *next; /* in one of the lists of its node */
};

_Static_assert(offsetof(struct req, r.end) == POOL_LINE,
    "what is before the end is in one line");

struct req_list {
	struct req *head, *tail;
};

/* What an open call on a stack belongs to. */
enum open_kind {
	OPEN_REQUEST,	/* call number idx of a request */
	OPEN_LATE,	/* its request has closed: async */
	OPEN_OUTLAST,	/* it has, and the call began inside: outlast.c */
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
	uint8_t maybe_how;	/* so: enum kp_outcome; maybe: then */
	uint32_t idx;
	kp_target_ns maybe;
	uint32_t fn, caller;	/* KP_NONE: unknown */
	uint64_t label;
	kp_target_ns start;
	union {
		struct req *rq;		/* OPEN_REQUEST */
		struct {		/* OPEN_LATE */
			uint32_t identity, weight;
		};
		struct outlast *out;	/* OPEN_OUTLAST; from the pool */
	};
};

struct tombstone {
	uint64_t label, outer;	/* as in struct req */
	kp_target_ns at;	/* its end, by the clock of its node */
	uint32_t identity, weight;
};

/* Ring of closed requests' labels, oldest at head. */
struct tombs {
	struct tombstone *v;
	uint32_t cap, head, n;
};

/* A node, and what began there. */
struct rnode {
	char *name;		/* owned; NULL: nobody has this index */
	uint32_t namelen;
	uint32_t index;
	bool chain_is_ambiguous; /* see struct kp_requests_opts */
	bool all_exact;		/* no return_to is to be heeded */
	bool heard;		/* now is its time */
	bool timed;		/* offset and error are known */
	kp_dur_ns offset, error;
	kp_target_ns now, swept;
	struct req_list early;	/* by touched: for their entries */
	struct req_list live;	/* by start: for expiry */
	struct req_list pending; /* by touched: to be settled */
	struct req_list ended;	/* by end: for closing */
	size_t in_flight;	/* that began here, without the early ones */
	size_t over;		/* of these, ended: they wait for stragglers */
	size_t collided;	/* of these, too: they count as lost */
	size_t touched;		/* requests with calls here, early ones too */
	struct tombs tombs;	/* of those that closed */
	uint64_t entries;
	struct kp_losses lost;
};

#define PROC_FIRST 4	/* calls open in a process without more memory */

/* A process with open calls. */
struct proc {
	uint64_t id;		/* node, serial and number: pid_key() */
	struct rnode *node;
	kp_target_ns last;	/* its last event: its time never runs back */
	struct open *v;		/* n calls, in room for cap */
	uint32_t n, cap;
	/* A value-carrying return was just seen: its return_to is no news. */
	bool exact_seen;
	bool exact_raised;
	bool doubts;		/* some of its calls may be in doubt */
	uint32_t exact_caller;
	/*
	 * So many that over_caller called, from over_since on, were taken for
	 * over though they may not be: their returns may be to come.
	 */
	uint32_t over, over_caller;
	kp_target_ns over_since;
	struct open first[PROC_FIRST];	/* v, as long as they do */
};

_Static_assert(offsetof(struct proc, first) == POOL_LINE &&
    sizeof(struct proc) == 4 * POOL_LINE, "a process is what its pool gives");

struct kp_requests {
	struct kp_requests_opts o;
	struct fns fns;
	struct idents idents;
	struct pool pool;	/* of requests, calls, processes and stacks */
	struct map by_label;	/* label -> struct req * */
	struct map procs;	/* process -> struct proc * */
	struct rnode nodes[KP_NODES_MAX];
	uint32_t nnodes;	/* that have a name */
	size_t in_flight;	/* of all nodes, without the early ones */
	size_t nearly;		/* of those */
	uint64_t calls;		/* of all of them */
	struct map buried;	/* label -> where its tomb is: tombstone.c */
	uint32_t ntombs, tombs_room;	/* of all nodes */
	uint32_t noutlast;	/* calls that outlast closed requests */
	uint32_t numbers;	/* of these, the last one's */
	uint64_t next_id;
	bool marks;		/* set_token was met: looking for it may pay */
	struct drains drains;
	struct pauses *pauses;	/* sched_gc.c; NULL: there were none */
	struct mails *mails;	/* NULL: messages are not asked for */
	/* scratch of close.c and clock_align.c, kept between requests */
	struct kp_call *out;
	struct place *place;	/* as many */
	uint32_t *order;	/* twice as many */
	uint32_t outcap;
};

/* node.c */
/* Its place in the table, or NULL: no node that is profiled. */
const struct rnode *node_find(const struct kp_requests *rs,
    struct kp_span name);
/*
 * A time of one node by the clock of another.  Where their offset is not known
 * that is the latest time heard of; if none was, a time before all.
 */
kp_target_ns node_time(const struct kp_requests *rs, uint32_t from,
    uint32_t to, kp_target_ns at);
/* By the clock of rq. */
static inline kp_target_ns
req_time(const struct kp_requests *rs, const struct req *rq, uint32_t node,
    kp_target_ns at)
{
	return node == rq->r.node ? at : node_time(rs, node, rq->r.node, at);
}
/* What its node said up to this time is known, and what others did. */
kp_target_ns node_due(const struct kp_requests *rs, const struct rnode *nd,
    kp_target_ns now);

/*
 * 0 is no key: <0.0.0>, the node's init process, which serves nobody, or a pid
 * that no VM makes (serials count rounds of 2^28 processes).
 */
static inline uint64_t
pid_key(uint32_t node, const struct kp_pid *pid)
{
	uint64_t key = (uint64_t)pid->serial << 32 | pid->id;

	return key - 1 < PID_KEY_END - 1 ? key | (uint64_t)node << PID_NODE :
	    0;
}

/* proc.c */
struct proc *proc_get(const struct kp_requests *rs, uint64_t id);
struct proc *proc_make(struct kp_requests *rs, uint64_t id,
    struct rnode *node);
bool proc_grow(struct kp_requests *rs, struct proc *p);
void proc_drop_if_empty(struct kp_requests *rs, struct proc *p);
void proc_free(struct kp_requests *rs, struct proc *p);
void procs_free(struct kp_requests *rs);

/* stack.c */
/* Where the stack is full, all that is on it ends; out of memory, this one. */
void proc_push(struct kp_requests *rs, struct proc *p, const struct open *o);
/*
 * Removes what belongs to rq; calls begun after its end stay, as OPEN_LATE, and
 * those that outlast it, once it was handed on, as OPEN_OUTLAST.
 */
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
void procs_sweep(struct kp_requests *rs, struct rnode *nd, kp_target_ns now);
/*
 * What is open on this node is handed on as unfinished, if late, or left in
 * other nodes' requests; cause: why.
 */
void procs_abandon(struct kp_requests *rs, struct rnode *nd,
    enum kp_loss cause);

/* outlast.c */
/* Its request, whose end was seen, is handed on, and it is open: it goes on. */
bool call_outlasts(const struct kp_requests *rs, const struct req *rq,
    uint32_t i);
/* Numbers it; as it is handed on it says how much of it was inside. */
void call_set_limit(struct kp_requests *rs, struct req *rq, uint32_t i,
    struct kp_call *out);
/* An open call of a request that was handed on; false: it is given up. */
bool outlast_begin(struct kp_requests *rs, const struct proc *p,
    struct open *o);
/* Its end, or how = KP_UNFINISHED; *o is no longer to be used. */
void outlast_end(struct kp_requests *rs, const struct proc *p,
    const struct open *o, enum kp_outcome how, kp_target_ns at);
/* Its memory goes with the requests; no callback is called. */
void outlast_free(struct kp_requests *rs, const struct open *o);
/* This one, just taken off the stack, ended: what is around waited for it. */
void outlast_wait(struct proc *p, const struct open *o, kp_target_ns at);
/* Is its end not waited for any more? */
bool outlast_is_old(const struct open *o, kp_target_ns now);

/* reconcile.c */
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

/* tombstone.c */
void tombs_free(struct kp_requests *rs, struct rnode *nd);
void tombs_add(struct kp_requests *rs, struct rnode *nd,
    const struct tombstone *tomb);
const struct tombstone *tombs_get(const struct kp_requests *rs, uint64_t label);
/* Where that one began. */
uint32_t tombs_node(const struct kp_requests *rs, uint64_t label);
void tombs_expire(struct kp_requests *rs, struct rnode *nd,
    kp_target_ns before);

/* messages.c; but for the first two where rs->mails is there */
/* False: out of memory. */
bool mails_init(struct kp_requests *rs);
void mails_free(struct kp_requests *rs);
/* A send or a receive. */
void mail_event(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev);
/* The request is handed on: its waits are those of kp_requests_waits(). */
void mail_hand_on(struct kp_requests *rs, const struct req *rq);
/* It goes, handed on or not. */
void mail_forget(struct kp_requests *rs, uint64_t label);
/* What the node said up to this time is known: what nobody asks for goes. */
void mails_expire(struct kp_requests *rs, const struct rnode *nd,
    kp_target_ns now);
/* The node goes, or its clock starts again: drop what waits for its events. */
void mails_detach(struct kp_requests *rs, const struct rnode *nd);

/* prefetch.c: rq, of a list, will be closed: what the next one needs */
void req_fetch_next(const struct kp_requests *rs, const struct req *rq);

/* list.c */
/* All zero, or NULL. */
struct req *req_new(struct kp_requests *rs);
/* Of a request on no list. */
void req_free(struct kp_requests *rs, struct req *rq);
/* Room for another call at least, or false. */
bool req_grow(struct kp_requests *rs, struct req *rq);
void list_add(struct req_list *l, struct req *rq);
/* Among the live ones, which are nearly in the order of their starts. */
void list_add_by_start(struct req_list *l, struct req *rq);
void list_remove(struct req_list *l, struct req *rq);

struct req *req_get(const struct kp_requests *rs, uint64_t label);
/* request.c: one whose entry may be on its way; NULL: cannot be kept */
struct req *req_make_early(struct kp_requests *rs, uint64_t label,
    uint32_t node, kp_target_ns at);
/* request.c: the end of a request was seen, at a time of its own clock */
void req_end(struct kp_requests *rs, struct req *rq, enum kp_outcome how,
    kp_target_ns at);
/* request.c: is this the entry's call, or one of a finish? */
bool call_may_end(const struct kp_requests *rs, const struct req *rq,
    uint32_t idx);
/* request.c: such a call may have ended, or is still at work; then */
void req_pend(struct kp_requests *rs, struct req *rq, kp_target_ns at);

/* Calls from this one on, each counted as lost for this cause on its node. */
void req_lose_calls(struct kp_requests *rs, const struct req *rq,
    uint32_t from, enum kp_loss cause);

/*
 * A call while a request of several nodes is laid out.  Those that are tied to
 * each other by events of one node move together: see clock_align.c.
 */
struct place {
	uint64_t from;		/* who sent the token; 0: nobody, or ourselves */
	kp_dur_ns shift;	/* of a root: so far were they moved */
	uint32_t source;	/* its index in the request */
	uint32_t root;		/* the first of those that move with it */
	uint32_t depth;
	uint8_t state;		/* of a root: enum align_state */
};

/* Did it run at this time?  One whose end was not seen may have, ever since. */
static inline bool
call_covers(const struct kp_call *c, kp_target_ns at)
{
	return c->start <= at &&
	    (c->outcome == KP_UNFINISHED || c->end >= at);
}

/* How far back a parent is looked for by time in a large request. */
#define PARENT_SCAN_MAX 1000

/* close.c: still open and begun after the end: goes on as a late one */
bool call_goes_on(const struct kp_requests *rs, const struct req *rq,
    uint32_t i);
/* clock_align.c: brings a request's calls on this node to its clock. */
void calls_detach(struct kp_requests *rs, struct req *rq, uint32_t node);
/*
 * clock_align.c: fills rs->out with the calls of a request of several nodes, final,
 * and sets its end; returns their number.
 */
uint32_t align_calls(struct kp_requests *rs, struct req *rq);

/*
 * close.c: is it inside the one that it seemed to begin in?  Once, when it is
 * known; counts what the likes of it have cut.
 */
void req_settle_parent(struct kp_requests *rs, struct req *rq);
/* close.c: hands it on, buries and frees it */
void req_close(struct kp_requests *rs, struct req *rq);
/* Frees it, handing nothing on. */
void req_drop(struct kp_requests *rs, struct req *rq);

#endif
