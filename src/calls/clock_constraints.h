/*
 * clock_constraints.h - finds causes and effects between events of different
 * nodes, and uses them to correct the offsets of the nodes' clocks.
 */
#ifndef KPROFD_CALLS_CLOCK_CONSTRAINTS_H
#define KPROFD_CALLS_CLOCK_CONSTRAINTS_H

#include "calls/merge_nodes.h"

#define TIE_NONE UINT32_MAX

/*
 * An event that is a cause or has one (a "tie"); by node, in the order of the
 * file.
 */
struct constraint {
	uint64_t seq;		/* number in the file, from 0 on */
	kp_target_ns ts;	/* by its node's clock */
	uint32_t node;
	/* The last two identify a message; of a SEND, what it was sent for. */
	uint32_t request, from, serial;
	uint32_t cause;		/* index, or TIE_NONE */
	enum kp_call_kind kind;
	bool unsent;		/* RECEIVE: of a request that was not traced */
	bool done;		/* its place in the order is known: */
	kp_target_ns at;
};

struct tied_request {
	uint32_t same;		/* another number of this request, or 0 */
	uint32_t node;		/* where it began, if `begun` */
	bool begun;
	bool seen;		/* its first event there is known: */
	kp_target_ns at;
};

/* Zeroed, and then names set, is empty. */
struct constraints {
	const struct kp_call_names *names;
	struct constraint *v;
	uint32_t n;
	struct tied_request *requests;
	uint32_t nrequests;
	kp_dur_ns shifts[KP_CALLS_NODES_MAX];	/* added to the offsets */
	bool sends[KP_CALLS_NODES_MAX];	/* messages sent there were seen */
	enum kp_err err;	/* KP_ENOMEM sticks */
};

void constraints_free(struct constraints *t);
void constraints_begun(struct constraints *t, uint32_t request, uint32_t node);
void constraints_same(struct constraints *t, uint32_t request, uint32_t as);
void constraints_add(struct constraints *t, const struct kp_call_event *ev,
    uint64_t seq);
/* After the last event: finds causes, and by how much to shift each node. */
void constraints_settle(struct constraints *t);

/* After that: the number that stands for all numbers of a request. */
uint32_t constraints_root(const struct constraints *t, uint32_t request);
/* Identifies a message, by 20 bits of a process and 32 of a serial. */
uint64_t constraints_message(uint32_t from, uint32_t serial);
/* A node's time by the clock of node 0, with the shift. */
kp_target_ns constraints_time(const struct constraints *t, uint32_t node,
    kp_target_ns ts);
/* The constraints of a node are those from *first up to *end. */
void constraints_of(const struct constraints *t, uint32_t node, uint32_t *first,
    uint32_t *end);
/*
 * For each request in the file its number in the order of beginnings, or 0.  The
 * caller frees it; NULL when out of memory.
 */
uint32_t *constraints_numbers(const struct constraints *t, uint32_t *n);

#endif
