/*
 * guard.h - detects overload, and decides for how long tracing pauses.  Pure.
 *
 * The agent watches its own queue, memory and lag in the target, and disarms
 * itself.  The guard watches kprofd's lag, memory and queue to the disk.  If
 * any limit is exceeded, the target is disarmed for a pause (a rest); each
 * further overload before a quiet minute has passed doubles the rest.  Sampling
 * resumes at a quarter of its rate, and doubles step by step.
 */
#ifndef KPROFD_GUARD_H
#define KPROFD_GUARD_H

#include <stdbool.h>

#include "kprofd/config.h"

#define KP_REST_MAX (300 * KP_NS_PER_S)	/* or {pause_s, N}, if that is more */
#define KP_REST_QUIET (60 * KP_NS_PER_S)	/* armed: resets the rest */
#define KP_LATE_GRACE (500 * KP_NS_PER_MS)	/* a shorter lag is ignored */
#define KP_CUT_FACTOR 4
#define KP_CUT_MAX 4096
#define KP_CUT_QUIET (10 * KP_NS_PER_S)	/* armed: halves the cut */

enum kp_trip {
	KP_TRIP_NONE,
	KP_TRIP_AGENT,	/* the agent: its queue, memory, lag or connection */
	KP_TRIP_MEMORY,	/* kprofd's */
	KP_TRIP_LATE,	/* kprofd is behind */
	KP_TRIP_STORE	/* the queue to the disk is too long */
};

/*
 * Return the reason's name, which is that of the limit in tiers.conf where there is
 * one: "max_kprofd_mb", and for the agent's "queue" "max_queue".
 */
const char *kp_trip_name(enum kp_trip cause);
const char *kp_trip_agent_name(const char *limit);

/* The load at one moment. */
struct kp_load {
	kp_dur_ns lag;		/* of the last batch handled */
	uint64_t memory;	/* kprofd's, in bytes */
	uint32_t backlog;	/* percent of the store's queue in use */
};

struct kp_guard {
	struct kp_overload limits;
	bool resting, late;
	kp_dur_ns rest;		/* after the next trip; 0: limits.pause */
	uint32_t cut;		/* factor of one-in-n; 1: no cut */
	kp_mono_ns since;	/* time of the last trip or resume */
	kp_mono_ns cut_at;	/* time of the last change of cut */
	kp_mono_ns late_since;
	enum kp_trip cause;	/* of the last trip */
	uint64_t trips;
};

void kp_guard_init(struct kp_guard *g, const struct kp_overload *limits);
/* Returns which limit is exceeded, while armed.  Lag must last
   KP_LATE_GRACE. */
enum kp_trip kp_guard_look(struct kp_guard *g, const struct kp_load *l,
    kp_mono_ns now);
/* Starts a rest, and returns its length. */
kp_dur_ns kp_guard_trip(struct kp_guard *g, enum kp_trip cause,
    kp_mono_ns now);
/*
 * Call it when the rest is over.  0: resume; else the length of a further rest,
 * because kprofd still exceeds one of its own limits.
 */
kp_dur_ns kp_guard_rested(struct kp_guard *g, const struct kp_load *l);
/* Call it when tracing is on again, for any reason. */
void kp_guard_resumed(struct kp_guard *g, kp_mono_ns now);
/* Call it now and then while armed.  True: the cut has changed. */
bool kp_guard_tick(struct kp_guard *g, kp_mono_ns now);

/* ---- in words ---- */

/* A limit of the agent's that was passed. */
struct kp_trip_limit {
	const char *name;	/* by its own name: "queue", "nosuspend" */
	int64_t value;		/* that passed it */
	int64_t waiting;	/* events that waited then */
};

/* Write why tracing pauses, n bytes at most.  False: the limit is unknown. */
bool kp_trip_agent_text(const struct kp_trip_limit *t,
    const struct kp_overload *l, char *text, size_t n);
void kp_trip_text(enum kp_trip cause, const struct kp_load *load,
    const struct kp_overload *l, char *text, size_t n);
/* Returns what is usually behind it, and where to look; "": that depends. */
const char *kp_trip_usual(enum kp_trip cause);
/*
 * The same of the agent's limit: armed calls and requests a second, as last
 * counted, show whether a function is called far too often in each request.
 */
const char *kp_trip_agent_usual(const struct kp_trip_limit *t, uint64_t calls,
    uint64_t requests);
/* "1 request in 4 is sampled", all of some slices of time or not; returns text. */
const char *kp_one_in_text(char *text, size_t n, uint32_t one_in, bool sliced);

struct kp_paused {
	bool over;		/* it was paused; else it is from now on */
	kp_dur_ns lasts;
	uint32_t one_in;	/* after it, */
	bool sliced;		/* in slices of time */
	const char *reason, *usual;	/* usual may be "" */
};

/* Writes the whole sentence about a pause. */
void kp_paused_text(const struct kp_paused *p, char *text, size_t n);

/*
 * Estimates the age of a target's batches when they are handled, without a
 * common clock: the least difference of the two clocks counts as no delay.
 */
struct kp_lag {
	bool known;
	kp_dur_ns base;		/* ours - theirs */
	kp_mono_ns at;
};

/* Returns the age at `now` of a batch sent at `sent`; 0 the first time. */
kp_dur_ns kp_lag_see(struct kp_lag *g, kp_target_ns sent, kp_mono_ns now);
/* Forgets the base: the clocks may have drifted apart, or a host have slept. */
void kp_lag_reset(struct kp_lag *g);

#endif
