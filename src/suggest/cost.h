/*
 * cost.h - what kprof suggest takes of a node's processor time, by its parts.  Pure.
 *
 * Sampling measures itself in the node.  The rest cannot be measured there beside the
 * node's own work, so it is estimated from what was counted, each part by the highest
 * of the figures that were measured with OTP 25, 27 and 29.
 */
#ifndef KPROFD_SUGGEST_COST_H
#define KPROFD_SUGGEST_COST_H

#include <stdint.h>

#include "kprofd/clock.h"

/* To load a module of kprof's, start it, and purge it. */
#define SUGGEST_COST_LOAD (10 * KP_NS_PER_MS)
/* To answer a question over rex, which makes a process. */
#define SUGGEST_COST_QUESTION (100 * KP_NS_PER_US)
/* To set a pattern, and to take it back. */
#define SUGGEST_COST_PATTERN (320 * KP_NS_PER_US)
/* To set a process's flags, and to take them back. */
#define SUGGEST_COST_FLAGS (2 * KP_NS_PER_US)
/* A call that the VM counts; and one that it may trace, of 250 to 600 ns. */
#define SUGGEST_COST_COUNTED INT64_C(100)	/* ns */
#define SUGGEST_COST_ARMED INT64_C(600)
/* An event, until it is sent. */
#define SUGGEST_COST_EVENT INT64_C(1700)	/* ns */

/* What was done in one way. */
struct suggest_work {
	uint64_t loads, questions, patterns;
	uint64_t processes;	/* whose flags were set */
	double counted, armed;	/* calls */
	double events;
};

struct suggest_cost {
	kp_dur_ns sampling;	/* measured */
	struct suggest_work asked, counts, traces, checks;
};

/* An upper estimate. */
kp_dur_ns suggest_work_time(const struct suggest_work *w);
kp_dur_ns suggest_cost_time(const struct suggest_cost *c);

#endif
