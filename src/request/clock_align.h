/*
 * clock_align.h - a request of several nodes while its calls are put on one
 * clock; clock_align.c says how.
 */
#ifndef KPROFD_REQUEST_CLOCK_ALIGN_H
#define KPROFD_REQUEST_CLOCK_ALIGN_H

#include "request/life.h"

#define SIBLINGS_MAX 256	/* calls looked at before and after one */

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

struct busy {
	kp_target_ns from, to;
};

/* A request while it is laid out: rs->out and rs->place, n of each. */
struct layout {
	struct kp_requests *rs;
	struct req *rq;
	struct kp_call *calls;
	struct place *places;
	uint32_t n;
	kp_dur_ns add[KP_NODES_MAX];	/* to get the request's clock, by node */
	uint32_t tries;		/* that are left */
	uint32_t nbusy;		/* see find_busy() */
	struct busy busy[2 * SIBLINGS_MAX];
};

/* By how much call i is moved. */
static inline kp_dur_ns
shift_of(const struct layout *l, uint32_t i)
{
	return l->places[l->places[i].root].shift;
}

/* Did a process of another node send the token of call i? */
static inline bool
crosses(const struct layout *l, uint32_t i)
{
	return l->places[i].from != 0 &&
	    l->places[i].from >> PID_NODE != l->calls[i].node;
}

/* ---- clock_place.c ---- */

/* Places root i, after those roots that it depends on. */
void place_root(struct layout *l, uint32_t i);

/* ---- clock_align.c ---- */

/* Converts a request's calls on this node to its clock, for good. */
void calls_detach(struct kp_requests *rs, struct req *rq, uint32_t node);
/*
 * Fills rs->out with the calls of a request of several nodes, final, and
 * rs->place with the source of each; sets its end; returns their number.
 */
uint32_t align_calls(struct kp_requests *rs, struct req *rq);

#endif
