/*
 * call_trace.h - full traces: every call of the functions that are traced, every
 * return, and when processes ran, waited or collected garbage.  Pure.
 *
 * Events refer to functions, processes and nodes by number; struct kp_call_names
 * has their names.
 */
#ifndef KPROFD_CALLS_CALL_TRACE_H
#define KPROFD_CALLS_CALL_TRACE_H

#include <stdbool.h>

#include "kprofd/clock.h"
#include "kprofd/err.h"
#include "kprofd/term.h"
#include "base/map.h"

/* A key of a sum is made of three numbers of 20 bits each. */
#define KP_CALLS_FNS_MAX (1u << 20)	/* functions of one trace */
#define KP_CALLS_PROCS_MAX (1u << 20)	/* processes of one trace */
#define KP_CALLS_REQUESTS_MAX (1u << 20)	/* requests of one trace */
#define KP_CALLS_NODES_MAX 64u	/* of one trace, with nodes that are not traced */
#define KP_CALLS_NAME_MAX 1024u		/* bytes: an atom has 255 characters */
#define KP_CALLS_ARGS_MAX 4096u		/* bytes: of one call, as text */
/* Differences of times within +-this do not overflow. */
#define KP_CALLS_TIME_MAX (INT64_C(1) << 61)

/* Numbers of the pseudo functions, the same in every trace. */
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
	KP_CALL_REQUEST,	/* the process works for this request from now on */
	KP_CALL_SEND,		/* of a request: a message, or a spawn */
	KP_CALL_RECEIVE		/* it takes the message, or has begun */
};
#define KP_CALL_KINDS (KP_CALL_RECEIVE + 1)

struct kp_call_event {
	enum kp_call_kind kind;
	uint32_t proc;
	kp_target_ns ts;
	/*
	 * CALL: called; RETURN_TO: returned to; IN, OUT: current function;
	 * SPAWN: the child's first one; else 0.
	 */
	uint32_t fn;
	/*
	 * CALL: the function that it returns to; SPAWN: the child; REQUEST:
	 * its number, from 1 on, or 0 for none; RECEIVE: the sender; else 0.
	 */
	uint32_t other;
	/* SEND, RECEIVE: with the sender these identify the message; else 0 */
	uint32_t request, serial;
	/*
	 * CALL: its arguments as text, if the trace has them.  What returns the
	 * event says how long they are valid.
	 */
	struct kp_span args;
};

struct kp_call_fn {
	char *mod, *fun;	/* raw; mod is "" for a pseudo function */
	uint32_t arity;
};

struct kp_call_proc {
	uint32_t id, serial;	/* <0.id.serial> */
	uint32_t node;
	char *name;		/* registered as, or NULL */
};

/* Why a trace ended. */
enum kp_calls_end {
	KP_CALLS_CUT,		/* the file has no end */
	KP_CALLS_DONE,		/* the user or the call ended it */
	KP_CALLS_EVENTS,	/* -max-events was reached */
	KP_CALLS_QUEUE,		/* too many events waited in the target */
	KP_CALLS_MEMORY,	/* the target grew too much */
	KP_CALLS_GONE,		/* the connection or the tracer was lost */
	KP_CALLS_SILENT		/* kprof did not fetch the events in time */
};
#define KP_CALLS_ENDS (KP_CALLS_SILENT + 1)

/* Node 0 is the first target; the others are targets, or senders of messages. */
struct kp_call_node {
	char *name;
	uint32_t otp;		/* its release; 0: it was not traced */
	/* Its times + offset are times of node 0, to within +-error. */
	kp_dur_ns offset, error;
	enum kp_calls_end end;	/* why its tracing ended */
};

/*
 * The functions, processes and nodes of a trace or of counters.  The number of
 * each is its place here.  To be read; only the functions below add to it, but
 * all of a node except its name may be set.
 */
struct kp_call_names {
	struct kp_call_fn *fns;
	struct kp_call_proc *procs;
	uint32_t nfns, nprocs, nnodes;
	struct kp_call_node nodes[KP_CALLS_NODES_MAX];
	struct intern by_mfa;			/* private */
	struct map by_pid[KP_CALLS_NODES_MAX];	/* private */
};

/* NULL when out of memory. */
struct kp_call_names *kp_call_names_new(void);
void kp_call_names_free(struct kp_call_names *t);

/*
 * Finds the number of a function, process or node, or adds it and sets *added.
 * KP_EFORMAT if the name is not valid, KP_ELIMIT when there are too many; a
 * node's name has at most KP_NODE_NAME_MAX bytes.
 */
enum kp_err kp_call_fn_put(struct kp_call_names *t, struct kp_span mod,
    struct kp_span fun, uint32_t arity, uint32_t *fn, bool *added);
enum kp_err kp_call_proc_put(struct kp_call_names *t, uint32_t node,
    uint32_t id, uint32_t serial, uint32_t *proc, bool *added);
enum kp_err kp_call_node_put(struct kp_call_names *t, struct kp_span name,
    uint32_t *node, bool *added);
/* Sets or replaces the name that a process is registered by. */
enum kp_err kp_call_proc_name(struct kp_call_names *t, uint32_t proc,
    struct kp_span name);
/* Compares by module, function and arity, as qsort() does. */
int kp_call_fn_order(const struct kp_call_names *t, uint32_t a, uint32_t b);
/* True if more than one node was traced. */
bool kp_calls_several(const struct kp_call_names *t);

/* A trace as a whole. */
struct kp_calls_info {
	char target[256];	/* the node's name */
	uint32_t otp;		/* its release; 0: unknown */
	kp_dur_ns offset;	/* its clock + offset is wall time */
	enum kp_calls_end end;
	uint64_t lost;		/* events that could not be decoded or kept */
	/* By request: number asked for (else 0), begun, and ended. */
	uint32_t requests, begun, ended;
};

#endif
