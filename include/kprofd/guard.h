/*
 * guard.h - detects overload, and decides for how long tracing pauses.  Pure.
 *
 * The agent watches its own queue, memory and lag in the target, and switches
 * tracing off by itself.  This watches kprofd: how far it is behind, its memory,
 * and its queue to the disk.  When any limit is passed (a trip), tracing is off
 * for a time (the rest).  Each further trip before a quiet minute has passed
 * doubles the rest.  Then requests are sampled at a quarter of the former rate
 * (the cut is 4), which doubles step by step.
 */
#ifndef KPROFD_GUARD_H
#define KPROFD_GUARD_H

#include <stdbool.h>

#include "kprofd/config.h"

#define KP_REST_MAX (300 * KP_NS_PER_S)	/* or {pause_s, N}, if that is more */
#define KP_REST_QUIET (60 * KP_NS_PER_S)	/* armed: the rest is short again */
#define KP_LATE_GRACE (500 * KP_NS_PER_MS)	/* longer is not a hiccup */
#define KP_CUT_FACTOR 4
#define KP_CUT_MAX 4096
#define KP_CUT_QUIET (10 * KP_NS_PER_S)	/* armed: the cut is halved */

enum kp_trip {
	KP_TRIP_NONE,
	KP_TRIP_AGENT,	/* the agent: its queue, memory, lag or connection */
	KP_TRIP_MEMORY,	/* kprofd's */
	KP_TRIP_LATE,	/* kprofd is behind */
	KP_TRIP_STORE	/* too much waits to be written */
};

/* A word, as in JSON: "kprofd_memory". */
const char *kp_trip_name(enum kp_trip cause);

/* The load at one moment. */
struct kp_load {
	kp_dur_ns lag;		/* of what was handled last */
	uint64_t memory;	/* bytes that kprofd has */
	uint32_t backlog;	/* percent of the store's queue that is taken */
};

struct kp_guard {
	struct kp_overload limits;
	bool resting, late;
	kp_dur_ns rest;		/* of the next trip; 0: pause */
	uint32_t cut;		/* sampling is one request in `cut`, times what
				   it would be; 1: not cut */
	kp_mono_ns since;	/* tripped or resumed */
	kp_mono_ns cut_at;	/* the cut was changed */
	kp_mono_ns late_since;
	enum kp_trip cause;	/* of the last trip */
	uint64_t trips;
};

void kp_guard_init(struct kp_guard *g, const struct kp_overload *limits);
/* Which limit is passed, while armed.  Lag has to last KP_LATE_GRACE. */
enum kp_trip kp_guard_look(struct kp_guard *g, const struct kp_load *l,
    kp_mono_ns now);
/* A limit is passed.  Returns for how long to rest. */
kp_dur_ns kp_guard_trip(struct kp_guard *g, enum kp_trip cause,
    kp_mono_ns now);
/*
 * The rest is over.  0: go on; else rest for so much longer, since the limit
 * that kprofd itself was over is passed still.
 */
kp_dur_ns kp_guard_rested(struct kp_guard *g, const struct kp_load *l);
/* Tracing is on again, for whatever reason. */
void kp_guard_resumed(struct kp_guard *g, kp_mono_ns now);
/* To be called now and then while armed.  True if the cut has changed. */
bool kp_guard_tick(struct kp_guard *g, kp_mono_ns now);

/*
 * How old what a target sends is when it is handled, over two clocks of which
 * neither knows the other: the least difference between them is taken for no
 * delay at all.
 */
struct kp_lag {
	bool known;
	kp_dur_ns base;		/* ours - theirs */
	kp_mono_ns at;
};

/* Sent at `sent`, handled at `now`; returns its age, 0 the first time. */
kp_dur_ns kp_lag_see(struct kp_lag *g, kp_target_ns sent, kp_mono_ns now);
/* The clocks may have drifted apart, or one of the hosts have slept. */
void kp_lag_reset(struct kp_lag *g);

#endif
