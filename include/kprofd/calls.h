/*
 * calls.h - full traces: every call of the functions that are traced, every
 * return, and when processes ran, waited or collected garbage.  Pure.
 *
 * Events hold functions and processes as numbers; names are kept once for a
 * trace.
 */
#ifndef KPROFD_CALLS_H
#define KPROFD_CALLS_H

#include <stdbool.h>

#include "kprofd/clock.h"
#include "kprofd/err.h"
#include "kprofd/term.h"

/* Three numbers make up the key of a sum: 20 bits each. */
#define KP_CALLS_FNS_MAX (1u << 20)	/* functions of one trace */
#define KP_CALLS_PROCS_MAX (1u << 20)	/* processes of one trace */
#define KP_CALLS_REQUESTS_MAX (1u << 20)	/* requests of one trace */
#define KP_CALLS_NODES_MAX 64u	/* of one trace, those that are not traced too */
#define KP_CALLS_NAME_MAX 1024u		/* bytes: an atom has 255 characters */
#define KP_CALLS_ARGS_MAX 4096u		/* bytes: of one call, as text */
/* No difference of two times that are less than this overflows. */
#define KP_CALLS_TIME_MAX (INT64_C(1) << 61)

/* The numbers that every trace gives to what is not a function of its. */
enum { KP_FN_UNDEFINED, KP_FN_SUSPEND, KP_FN_GC, KP_FN_FIRST };

enum kp_call_kind {
	KP_CALL_CALL = 1,
	KP_CALL_RETURN_TO,
	KP_CALL_IN,		/* scheduled in */
	KP_CALL_OUT,
	KP_CALL_GC_START,
	KP_CALL_GC_END,
	KP_CALL_SPAWN,
	KP_CALL_EXIT,
	KP_CALL_REQUEST,	/* from now on its calls are of this request */
	KP_CALL_SEND,		/* a message of a request, or a spawn */
	KP_CALL_RECEIVE		/* is taken from the mailbox, or begins */
};
#define KP_CALL_KINDS (KP_CALL_RECEIVE + 1)

struct kp_call_event {
	enum kp_call_kind kind;
	uint32_t proc;
	kp_target_ns ts;
	/*
	 * Called, returned to, or where the process was when it was scheduled;
	 * SPAWN: what the child begins with.  0 for the other kinds.
	 */
	uint32_t fn;
	/*
	 * CALL: the function that it returns to; SPAWN: the child; REQUEST:
	 * its number, from 1 on, or 0: for none of them; RECEIVE: who sent it;
	 * else 0
	 */
	uint32_t other;
	/* SEND, RECEIVE: these and who sent it name a message; else 0 */
	uint32_t request, serial;
	/*
	 * CALL: its arguments as text, where they were asked for; else empty.
	 * Who made the event says how long they are there.
	 */
	struct kp_span args;
};

struct kp_call_fn {
	char *mod, *fun;	/* as the target has them; mod "": a pseudo
				   function */
	uint32_t arity;
};

struct kp_call_proc {
	uint32_t id, serial;	/* <0.id.serial> */
	uint32_t node;		/* that it runs on */
	char *name;		/* registered as, or NULL */
};

/* Why a trace ended. */
enum kp_calls_end {
	KP_CALLS_CUT,		/* the file has no end */
	KP_CALLS_DONE,		/* all that was asked for */
	KP_CALLS_EVENTS,	/* as many events as were allowed */
	KP_CALLS_QUEUE,		/* the target made more than it could send */
	KP_CALLS_MEMORY,	/* the target grew too much */
	KP_CALLS_GONE,		/* the connection, or the tracer in the target */
	KP_CALLS_SILENT		/* nobody came to fetch the events */
};
#define KP_CALLS_ENDS (KP_CALLS_SILENT + 1)

/*
 * Node 0 is the (first) target; others are targets too, or nodes that a
 * message came from.
 */
struct kp_call_node {
	char *name;
	uint32_t otp;		/* its release; 0: it was not traced */
	/* What to add to its times for those of node 0: +- error. */
	kp_dur_ns offset, error;
	enum kp_calls_end end;	/* why it was traced no longer */
};

struct kp_call_names;

/* NULL when out of memory. */
struct kp_call_names *kp_call_names_new(void);
void kp_call_names_free(struct kp_call_names *t);
uint32_t kp_call_fns(const struct kp_call_names *t);	/* how many */
uint32_t kp_call_procs(const struct kp_call_names *t);
/* Good until the next is added. */
const struct kp_call_fn *kp_call_fn(const struct kp_call_names *t,
    uint32_t fn);
const struct kp_call_proc *kp_call_proc(const struct kp_call_names *t,
    uint32_t proc);

/*
 * The number of a function or process, which is a new one where it was not
 * known: then *added.  KP_EFORMAT for what is no such name, KP_ELIMIT when
 * there are too many.
 */
enum kp_err kp_call_fn_put(struct kp_call_names *t, struct kp_span mod,
    struct kp_span fun, uint32_t arity, uint32_t *fn, bool *added);
enum kp_err kp_call_proc_put(struct kp_call_names *t, uint32_t id,
    uint32_t serial, uint32_t *proc, bool *added);
/* The same of another node than 0; KP_EFORMAT where there is no such node. */
enum kp_err kp_call_proc_put_at(struct kp_call_names *t, uint32_t node,
    uint32_t id, uint32_t serial, uint32_t *proc, bool *added);
/* Likewise; a name is at most KP_NODE_NAME_MAX bytes. */
enum kp_err kp_call_node_put(struct kp_call_names *t, struct kp_span name,
    uint32_t *node, bool *added);
uint32_t kp_call_nodes(const struct kp_call_names *t);
const struct kp_call_node *kp_call_node(const struct kp_call_names *t,
    uint32_t node);
/* All but its name is to be filled in. */
struct kp_call_node *kp_call_node_edit(struct kp_call_names *t,
    uint32_t node);
/* Were several nodes traced? */
bool kp_calls_several(const struct kp_call_names *t);
/* Registered as that; replaces another name. */
enum kp_err kp_call_proc_name(struct kp_call_names *t, uint32_t proc,
    struct kp_span name);

/* What is known of a trace besides its events. */
struct kp_calls_info {
	char target[256];	/* the node's name */
	uint32_t otp;		/* its release; 0: unknown */
	kp_dur_ns offset;	/* its clock + offset is wall time */
	enum kp_calls_end end;
	uint64_t lost;		/* events that made no sense */
	/* By request: the number asked for (else 0), begun, and ended. */
	uint32_t requests, begun, ended;
};

#endif
