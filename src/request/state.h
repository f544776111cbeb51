/*
 * state.h - what src/request keeps, and the lower half of its files.
 *
 * The files, from the bottom up.  Each calls only files above it in this list:
 *
 *   names.h     tables of names; they know nothing of requests
 *     names.c          functions, request types, receivers of messages
 *   state.h     data structures
 *     node.c           nodes and the offsets of their clocks; processes that have
 *                      calls open
 *     req.c            requests in flight: their memory, lists and states; labels of
 *                      closed ones, for calls that come late
 *     sched_gc.c       scheduling and garbage collection during calls
 *   life.h      the life of a request
 *     stack.c          pairs calls with returns on the stack of a process; calls that
 *                      go on after their request, or see no event of their own
 *     reconcile.c      decides which request a call or a message is of, whatever
 *                      its token says
 *     messages.c       messages and their waits
 *     clock_align.c    puts calls of several nodes on one clock
 *     close.c          ends requests as time passes, or all of a node; hands them on
 *     in_flight.c      reports what is in flight now
 *     request.c        takes events in: begins, calls, returns; requests that an
 *                      application sets and clears itself
 */
#ifndef KPROFD_REQUEST_STATE_H
#define KPROFD_REQUEST_STATE_H

#include <sys/queue.h>

#include "kprofd/request.h"
#include "request/names.h"
#include "base/pool.h"

/* A process of any node as one number: node, serial, number. */
#define PID_NODE 58
#define PID_KEY_END (UINT64_C(1) << PID_NODE)
#define PID_SERIAL_END (UINT32_C(1) << (PID_NODE - 32))

/* A token, as the process that sent it had it: see struct kp_event. */
struct token {
	uint64_t label;
	uint64_t from;		/* a process's key; 0: none that is known */
	uint32_t serial, last;
};

/*
 * An orphan is an early request that no entry comes for.  It has a call whose
 * request is not known yet (reconcile.c).  No token has its label, this or above.
 */
#define ORPHAN (UINT64_C(1) << 62)
/* From here on labels of requests that had no token: see OPEN_TIMED. */
#define TIMED (UINT64_C(1) << 61)
#define NOBODYS UINT64_MAX	/* the label of a call of no request */
#define NEST_MAX 8	/* requests inside each other that are told apart */

/* A call of a request in flight. */
struct rcall {
	struct kp_call c;
	uint64_t from;		/* process that sent the token; 0: itself, or one
				   that is not known */
	uint32_t serial;	/* of the token; 0: of an entry */
};

/*
 * Had the process of c sent, when it made c, the message that began `first`?  Its
 * count was as high then, and only grows.
 */
static inline bool
call_is_after_send(const struct rcall *c, const struct rcall *first)
{
	return first->serial != 0 && c->serial != 0 && c->c.proc == first->from &&
	    (int32_t)(c->serial - first->serial) >= 0;
}

/* Each node has a list of its requests in each state: see req.c. */
enum req_state {
	/*
	 * Calls came before the entry's event, since events of different
	 * processes are not in order.  calls[0] is kept free for the entry.
	 */
	REQ_EARLY,
	REQ_LIVE,	/* its end was not seen */
	REQ_PENDING,	/* neither, but its entry or finish is in doubt (stack.c) */
	REQ_ENDED,	/* its end was seen: r.end and r.outcome are valid */
	REQ_STATES
};

/*
 * A request in flight.  All that a call or a return looks at is in the first
 * cache line.
 */
struct req {
	struct rcall *calls;	/* from the pool: bytes of them */
	uint32_t ncalls;
	uint32_t bytes;
	uint8_t state;		/* enum req_state: only req.c changes it */
	bool collided;		/* its label is ambiguous: counted as lost */
	bool set;		/* begun by set_token: see request.c */
	bool overflow;		/* its name came past the cap of names */
	bool outer_early;	/* the entry of `outer` had not come when it began */
	bool takes_token;	/* its entry replaced a token of the process */
	bool spread : 1;	/* other requests have its token: reconcile.c */
	bool superseded : 1;	/* its process has begun another one since */
	bool bounded : 1;	/* `since` is the last serial before it */
	bool again : 1;		/* its entry was called inside itself, if it is inside
				   another request */
	bool inherits : 1;	/* the traceparent of the request that it is inside */
	/*
	 * r.calls and r.ncalls are set when it closes.  While it is early
	 * r.node is that of its first call.  All times here are by the clock of
	 * r.node; those of a call by that of its own node, unless it is `placed`.
	 */
	struct kp_request r;
	uint64_t outer;		/* label of the request it began inside; 0: none */
	uint64_t before, after;	/* of those that its process began before it and
				   after it, and that are in flight; 0: none */
	union {
		/* Its process sent what has a higher serial, and had taken
		 * `took` last. */
		struct {
			uint32_t since, took;
		};
		struct token held;	/* orphans: reconcile.c */
	};
	uint32_t ended_by;	/* index of the call that ended it, or KP_NONE */
	bool cleared;		/* early: clear_token came already, at cleared_at */
	kp_target_ns cleared_at;
	kp_target_ns touched;	/* pending: its last event; early: its first */
	TAILQ_ENTRY(req) link;	/* in the list of its node and state */
};

_Static_assert(offsetof(struct req, r.end) == POOL_LINE,
    "what is before the end is in one line");

TAILQ_HEAD(req_list, req);

/* What an open call on a stack belongs to. */
enum open_kind {
	OPEN_REQUEST,	/* call number idx of a request */
	OPEN_LATE,	/* a closed request; the call began after its end */
	OPEN_OUTLAST,	/* a closed request; the call began inside: stack.c */
	OPEN_TIMED,	/* an entry between slices: a request of one call */
	OPEN_IGNORED	/* none: lost, and kept so that returns still pair */
};

/* Why an open call may be over without an event of its own (stack.c). */
enum doubt {
	DOUBT_NONE,
	DOUBT_TAIL,	/* it may have ended in a tail call that is over */
	DOUBT_PASSED	/* an exception may have passed it */
};

/*
 * A call that outlasts its request, or an entry between slices; its place on the stack
 * has the rest.
 */
struct outlast {
	uint32_t identity, weight, number;
	kp_target_ns limit;	/* its request's end, by its own node's clock */
	kp_dur_ns waited;	/* since then, for calls that outlast it too */
	char traceparent[KP_TRACEPARENT];	/* of the entry */
};

struct open {
	uint8_t kind;		/* enum open_kind */
	uint8_t doubt;		/* enum doubt */
	uint8_t maybe_how;	/* in doubt: how (enum kp_outcome) and when it */
	uint32_t idx;		/* OPEN_LATE, _OUTLAST, _TIMED: its function, with its label */
	kp_target_ns maybe;	/* ended, if it did */
	uint32_t fn, caller;	/* KP_NONE: unknown */
	uint64_t label;
	kp_target_ns start;
	union {
		struct req *rq;		/* OPEN_REQUEST */
		struct {		/* OPEN_LATE */
			uint32_t identity, weight;
		};
		struct outlast *out;	/* OPEN_OUTLAST, OPEN_TIMED; from the pool */
	};
};

#define PROC_FIRST 4	/* calls open in a process without more memory */

/* A process with open calls. */
struct proc {
	uint64_t id;		/* node, serial and number: pid_key() */
	struct rnode *node;
	kp_target_ns last;	/* of its last event: its time never runs back */
	struct open *v;		/* n calls, in room for cap */
	uint32_t n, cap;
	/* The last event was an exact return; its return_to may follow. */
	bool exact_seen;
	bool exact_raised;
	bool doubts;		/* some of its calls may be in doubt */
	uint32_t exact_caller;
	/*
	 * `over` calls that over_caller made, from over_since on, were ended
	 * though they may still run: their returns may yet come.
	 */
	uint32_t over, over_caller;
	kp_target_ns over_since;
	struct open first[PROC_FIRST];	/* v, while that is room enough */
};

_Static_assert(offsetof(struct proc, first) == POOL_LINE &&
    sizeof(struct proc) == 4 * POOL_LINE, "a process is what its pool gives");

struct tombstone {
	uint64_t label, outer;	/* as in struct req */
	uint64_t proc;		/* of its entry */
	kp_target_ns at;	/* its end, by the clock of its node */
	uint32_t identity;
	uint32_t weight : 24, octave : 7, spread : 1;	/* octave: of its duration */
};

/* Ring of closed requests' labels, oldest at head. */
struct tombs {
	struct tombstone *v;
	uint32_t cap, head, n;
};

/* A node, and the requests that began there. */
struct rnode {
	char *name;		/* owned; NULL: the index is free */
	uint32_t namelen;
	uint32_t index;
	bool chain_is_ambiguous; /* see struct kp_requests_opts */
	bool all_exact;		/* ignore return_to: see kp_requests_native() */
	bool has_now;		/* now is its time */
	bool timed;		/* offset and error are known */
	kp_dur_ns offset, error;
	kp_target_ns now, swept;
	struct req_list lists[REQ_STATES];	/* nearly in order of time: by
				   touched (EARLY, PENDING), start or end */
	size_t in_flight;	/* began here, without the early ones */
	size_t over;		/* of these, ended: they wait for stragglers */
	size_t collided;	/* of these, too: they count as lost */
	size_t touched;		/* requests with calls here, early ones too */
	struct tombs tombs;	/* of those that closed */
	struct map abandoned;	/* labels, of the last time; each has value 1 */
	kp_target_ns abandoned_at;
	uint64_t entries;
	uint64_t strayed;	/* calls with another request's token */
	uint64_t outside;	/* calls with a token of no request, and of none */
	kp_target_ns met;	/* when requests last met here */
	bool has_met;
	struct kp_losses lost;
};

/*
 * A process took a message with this token and serial, and works since then for
 * the request `of`, though that may be another's token (reconcile.c).
 */
struct worked {
	uint64_t proc;		/* 0: whichever took it */
	uint64_t label, of;	/* of 0: several processes took such messages */
	uint32_t serial;
};

#define WORKED_MAX (1u << 14)	/* those that are remembered: 512 KB */
#define WORKED_WAYS 4	/* the places that one may have */

#define CROSSED_MAX 16	/* servers that are watched at a time */

/* A server that may answer with another request's token (reconcile.c). */
struct crossed_server {
	uint64_t proc;
	uint32_t answers;	/* with the token of another request */
	uint32_t calls;		/* of its own since the first of these */
	uint8_t keep;		/* answers, less those that found no room */
	bool reported;
};

struct crossed {
	struct crossed_server v[CROSSED_MAX];
	unsigned n;
};

struct kp_requests {
	struct kp_requests_opts o;
	struct fns fns;
	struct idents idents;
	struct pool pool;	/* of requests, calls, processes and stacks */
	struct map by_label;	/* label -> struct req * */
	struct map procs;	/* process -> struct proc * */
	struct map own;		/* process -> label of the last request in
				   flight that it has begun itself */
	struct worked *worked;	/* WORKED_MAX of them, by hash; NULL: no request
				   has worked with another's token */
	struct rnode nodes[KP_NODES_MAX];
	uint32_t nnodes;	/* that have a name */
	size_t in_flight;	/* of all nodes, without the early ones */
	size_t n_early;		/* early ones of all nodes */
	uint64_t calls;		/* of all requests in flight */
	struct map buried;	/* label -> index of its tombstone: req.c */
	uint32_t ntombs, tombs_room;	/* of all nodes */
	uint32_t noutlast;	/* calls that outlast closed requests */
	uint32_t numbers;	/* the number of the last of these */
	uint64_t next_id;
	uint64_t next_orphan;	/* its label, less ORPHAN; they are numbered */
	bool marks;		/* set_token was called at least once */
	bool abandons;		/* within kp_requests_abandon() */
	struct crossed crossed;
	struct pauses *pauses;	/* sched_gc.c; NULL: there were none */
	struct messages *messages;	/* messages.c; NULL: messages are not asked for */
	/* scratch of close.c and clock_align.c, kept between requests */
	struct kp_call *out;
	struct place *place;	/* as many */
	uint32_t *order;	/* twice as many */
	uint32_t outcap;
};

/* The pointer that a table has for this key, or NULL. */
static inline void *
map_find(const struct map *m, uint64_t key)
{
	const uint64_t *at = map_get(m, key);

	return at != NULL ? (void *)(uintptr_t)*at : NULL;
}

/* ---- node.c ---- */

/*
 * The pid that an event of nd names as its sender, as a number; 0 if its node
 * is not profiled.
 */
uint64_t node_sender(const struct kp_requests *rs, const struct rnode *nd,
    const struct kp_event *ev);
/*
 * Converts a time of one node to the clock of another.  Where their offset is
 * not known, returns the latest time known there, or a time before all.
 */
kp_target_ns node_time(const struct kp_requests *rs, uint32_t from,
    uint32_t to, kp_target_ns at);
/* Converts a time of a node to the clock of rq. */
static inline kp_target_ns
req_time(const struct kp_requests *rs, const struct req *rq, uint32_t node,
    kp_target_ns at)
{
	return node == rq->r.node ? at : node_time(rs, node, rq->r.node, at);
}
/*
 * The time of nd, at most `now`, up to which all nodes have sent their events
 * or are not waited for any longer.
 */
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

/* ---- req.c ---- */

/* The request in flight with this label, or NULL. */
static inline struct req *
req_get(const struct kp_requests *rs, uint64_t label)
{
	return map_find(&rs->by_label, label);
}
/* All zero; NULL when out of memory. */
struct req *req_new(struct kp_requests *rs);
/* Enters it under its label; false when out of memory. */
bool req_enter(struct kp_requests *rs, struct req *rq);
/* Takes it off its list and out of the table. */
void req_unlink(struct kp_requests *rs, struct req *rq);
/* Frees a request that is on no list. */
void req_free(struct kp_requests *rs, struct req *rq);
void reqs_free(struct kp_requests *rs);
/* Returns the index of the new call, or KP_NONE if there is no room. */
uint32_t req_add_call(struct kp_requests *rs, struct req *rq,
    const struct rcall *c);
/* Counts calls from index `from` on, each as lost on its own node. */
void req_lose_calls(struct kp_requests *rs, const struct req *rq,
    uint32_t from, enum kp_loss cause);
/* Makes a request whose entry has not come yet; NULL if there is no room. */
struct req *req_make_early(struct kp_requests *rs, uint64_t label,
    uint32_t node, kp_target_ns at);
/* Notes that it has calls on this node. */
void req_touch_node(struct kp_requests *rs, struct req *rq, uint32_t node);
/* The entry of an early request is there: takes it off its list. */
void req_leave_early(struct kp_requests *rs, struct req *rq);
/* Its entry is there: puts it, on no list as yet, among the live ones. */
void req_go_live(struct kp_requests *rs, struct req *rq);
/* Its end was seen, at a time of its own clock; later ends do not count. */
void req_end(struct kp_requests *rs, struct req *rq, enum kp_outcome how,
    kp_target_ns at);
/* Is this the entry's call, or one of a finish? */
bool call_may_end(const struct kp_requests *rs, const struct req *rq,
    uint32_t idx);
/* Such a call may have ended then: later events of its process decide. */
void req_pend(struct kp_requests *rs, struct req *rq, kp_target_ns at);
/* Calls that it has may be its finish, and came before it was known. */
void req_end_by_finish(struct kp_requests *rs, struct req *rq);
/* Takes what calls that came before the entry have said; the entry's own goes before. */
void early_said(struct req *rq, const struct kp_request *said);
/* It did not end after all, or a finish is awaited. */
void req_unpend(struct kp_requests *rs, struct req *rq);

void tombs_free(struct kp_requests *rs, struct rnode *nd);
void tombs_add(struct kp_requests *rs, struct rnode *nd,
    const struct tombstone *tomb);
/* That of a request that closed lately, or NULL. */
const struct tombstone *tombs_get(const struct kp_requests *rs, uint64_t label);
/* Other requests have its token. */
void tombs_spread(struct kp_requests *rs, uint64_t label);
/* The node on which that one began, or KP_NONE. */
uint32_t tombs_node(const struct kp_requests *rs, uint64_t label);
void tombs_expire(struct kp_requests *rs, struct rnode *nd,
    kp_target_ns before);
/* The label of the request that this one began inside; 0: none is known. */
uint64_t label_outer(const struct kp_requests *rs, uint64_t label);
/* Is it the same label, or of a request that began inside outer's? */
bool label_inside(const struct kp_requests *rs, uint64_t label,
    uint64_t outer);

/* ---- node.c: processes ---- */

/* The process, or NULL: it has no open call. */
static inline struct proc *
proc_get(const struct kp_requests *rs, uint64_t id)
{
	return map_find(&rs->procs, id);
}

/* Adds a process that is not there yet; NULL when out of memory, or id is 0. */
struct proc *proc_new(struct kp_requests *rs, uint64_t id,
    struct rnode *node);
/* Doubles the room of its stack; false when out of memory. */
bool proc_grow(struct kp_requests *rs, struct proc *p);
/* Frees it if it has no open call and none of its returns is awaited. */
void proc_drop_if_empty(struct kp_requests *rs, struct proc *p);
void proc_free(struct kp_requests *rs, struct proc *p);
void procs_free(struct kp_requests *rs);

/*
 * ---- sched_gc.c ----
 *
 * When processes were scheduled out or collected garbage during calls.  Its
 * tables are empty, and cost nothing, unless the configuration asks for them.
 */

#define PAUSES_MAX 1000000	/* of all requests in flight: 40 MB, and room to
				   grow of as much again */
#define PAUSES_OF_MAX 10000	/* of one request */
#define PAUSES_APART 256	/* of one; from then on some are merged */

/* IN, OUT, GC_START, GC_END */
void pauses_event(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev);
/*
 * Sets rq->r.pauses, good until the next call of this; source[i * step] is the
 * index in the request in flight of r.calls[i].
 */
void pauses_hand_on(struct kp_requests *rs, struct req *rq,
    const uint32_t *source, size_t step);
/*
 * Those of `from`, of this node, are of the request with the label, and `by` calls
 * further.
 */
void pauses_give(struct kp_requests *rs, struct rnode *nd, uint64_t from,
    uint64_t label, uint32_t by);
/* The request with this label goes. */
void pauses_forget(struct kp_requests *rs, uint64_t label);
/* The node goes: pauses that have begun there will have no end. */
void pauses_detach(struct kp_requests *rs, const struct rnode *nd);
void pauses_free(struct kp_requests *rs);

/* ---- messages.c; except for the first two only if rs->messages is not NULL ---- */

/* False: out of memory. */
bool messages_init(struct kp_requests *rs);
void messages_free(struct kp_requests *rs);
/* SEND or RECEIVE */
void messages_event(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev);
/* The request is handed on: its waits are those of kp_requests_waits(). */
void messages_hand_on(struct kp_requests *rs, const struct req *rq);
/* The request with this label goes, handed on or not. */
void messages_forget(struct kp_requests *rs, uint64_t label);
/* Drops messages of this node that have waited too long for their request. */
void messages_expire(struct kp_requests *rs, const struct rnode *nd,
    kp_target_ns now);
/* The node goes, or its clock starts again: drop what waits for its events. */
void messages_detach(struct kp_requests *rs, const struct rnode *nd);

#endif
