/*
 * clock_constraints.h - finds causes and effects between the events of several
 * nodes, and corrects the offsets of their clocks by them.
 */
#ifndef KPROFD_PROFILE_TRACE_CLOCK_CONSTRAINTS_H
#define KPROFD_PROFILE_TRACE_CLOCK_CONSTRAINTS_H

#include "kprofd/calls_merge.h"

#define TIE_NONE UINT32_MAX

/* An event that is a cause or has one, in the order of the file by node. */
struct constraint {
	uint64_t seq;		/* of all events, from 0 on */
	kp_target_ns ts;	/* by its node's clock */
	uint32_t node;
	uint32_t request, from, serial;	/* from, serial: of a message */
	uint32_t cause;		/* its index; TIE_NONE: it has none */
	enum kp_call_kind kind;
	bool done;		/* put in order, at: */
	kp_target_ns at;
};

struct tied_request {
	uint32_t same;		/* is this one; 0: itself */
	uint32_t node;		/* that it began on */
	bool begun;
	bool seen;		/* its first event there was, at: */
	kp_target_ns at;
};

/* Zeroed but for the names is empty. */
struct constraints {
	const struct kp_call_names *names;
	struct constraint *v;
	uint32_t n;
	struct tied_request *requests;
	uint32_t nrequests;
	kp_dur_ns shifts[KP_CALLS_NODES_MAX];	/* beside the offsets */
	enum kp_err err;	/* KP_ENOMEM sticks */
};

void constraints_free(struct constraints *t);
void constraints_begun(struct constraints *t, uint32_t request, uint32_t node);
void constraints_same(struct constraints *t, uint32_t request, uint32_t as);
void constraints_add(struct constraints *t, const struct kp_call_event *ev, uint64_t seq);
/* When all was added: finds causes, and what to move the nodes by. */
void constraints_settle(struct constraints *t);

/* From then on: */
uint32_t constraints_root(const struct constraints *t, uint32_t request);
/* By the clock of node 0, moved. */
kp_target_ns constraints_time(const struct constraints *t, uint32_t node, kp_target_ns ts);
/* From *first up to *end are a node's. */
void constraints_of(const struct constraints *t, uint32_t node, uint32_t *first,
    uint32_t *end);
/* To be freed: of each request in the file, its number, or 0. */
uint32_t *constraints_numbers(const struct constraints *t, uint32_t *n);

#endif
