/*
 * calls_merge.h - the events of a kept trace in one order, by one clock: those
 * of several nodes are in the file as they came, timed by clocks of their own.
 * Pure.
 *
 * Offsets between clocks are estimates.  What is sure: no message is taken
 * before it was sent, and no process works for a request before it began.  A
 * node's times are moved, all together, by as little as that takes, and by no
 * more than the error of its offset; so durations and the order on one node
 * stay as they are.  Where that is not enough, since clocks drifted apart, an
 * event that comes too early is moved to right after its cause, and those that
 * follow it on its node to no earlier than that: such events are counted.
 *
 * Events of requests that were not asked for are left out, and the others
 * numbered from 1 on in the order of their beginnings.  Which they are is
 * known only at the end of the file, so it is read twice.
 */
#ifndef KPROFD_CALLS_MERGE_H
#define KPROFD_CALLS_MERGE_H

#include "kprofd/calls_file.h"

/* Messages and beginnings that nodes are timed by: more are let pass. */
#define KP_MERGE_TIES_MAX (1u << 22)

struct kp_merge_state;

/* Fields but these are private. */
struct kp_calls_merge {
	struct kp_calls_info info;	/* whole when KP_END was returned */
	bool begun;		/* it is a trace, damaged or not */
	uint64_t moved;		/* events, apart from their node */
	kp_dur_ns moved_most;
	struct kp_calls_reader plain;	/* of one node: as it is in the file */
	struct kp_merge_state *state;	/* of several; else NULL */
};

/*
 * As kp_calls_read_begin() and kp_calls_read(), and KP_ENOMEM; what a damaged
 * file has to be refused for may come here already.  To be freed in any case.
 */
enum kp_err kp_calls_merge_begin(struct kp_calls_merge *m, const void *p,
    size_t n, struct kp_call_names *names);
enum kp_err kp_calls_merge_next(struct kp_calls_merge *m,
    struct kp_call_event *ev);
void kp_calls_merge_free(struct kp_calls_merge *m);

#endif
