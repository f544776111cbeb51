/*
 * merge_nodes.h - reads a trace file in one order, by one clock.  The file has
 * the events of several nodes as they arrived, timed by their own clocks.  Pure.
 *
 * Offsets between clocks are estimates.  Two things are certain: no message is
 * received before it was sent, and no process works for a request before the
 * request began.  To make this true, all times of a node are shifted by the
 * least that suffices, within the error of its offset; so durations and the
 * order on one node stay as they are.  Where clocks drifted and a shift is not
 * enough, an event that comes too early is moved to right after its cause, and
 * later events of its node to no earlier than that: such events are counted.
 *
 * A node knows requests by the labels of their tokens.  A message may have been
 * sent for another request than its label says, as by a client that waited for a
 * pool's worker (kprof_tracer_owner.erl): its sender's node knows.  So work for a
 * message from another node counts for the request that it was sent for, from hop
 * to hop, unless its process began the request that its own node says.
 *
 * Events of requests that the user did not ask for are left out, of several nodes and of
 * one type of requests, and the other requests are numbered from 1 on in the order in
 * which they began.  Which these are is known only at the end of the file, so it is
 * read twice.
 */
#ifndef KPROFD_CALLS_MERGE_NODES_H
#define KPROFD_CALLS_MERGE_NODES_H

#include "calls/trace_file.h"

/* Events by which clocks are corrected; more are not looked at. */
#define KP_MERGE_TIES_MAX (1u << 22)

struct kp_merge_state;

struct kp_calls_merge {
	struct kp_calls_info info;	/* complete after KP_END */
	bool begun;		/* this is a trace, damaged or not */
	uint64_t moved;		/* events that a shift of their node did not place */
	kp_dur_ns moved_most;
	/* private: */
	struct kp_calls_reader plain;	/* of one node */
	struct kp_merge_state *state;	/* of several nodes; else NULL */
};

/*
 * Return what kp_calls_read_begin() and kp_calls_read() do, and KP_ENOMEM.  The
 * first one may already find that a file is damaged.  Free m in any case.
 */
enum kp_err kp_calls_merge_begin(struct kp_calls_merge *m, const void *p,
    size_t n, struct kp_call_names *names);
enum kp_err kp_calls_merge_next(struct kp_calls_merge *m,
    struct kp_call_event *ev);
void kp_calls_merge_free(struct kp_calls_merge *m);

#endif
