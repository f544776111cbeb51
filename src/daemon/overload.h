/*
 * overload.h - measures kprofd's memory, lag and backlog for the overload guard,
 * and describes overloads in words.
 */
#ifndef KPROFD_DAEMON_OVERLOAD_H
#define KPROFD_DAEMON_OVERLOAD_H

#include "kprofd/guard.h"
#include "store/store.h"
#include "agent/agent.h"

#define OVERLOAD_REASON 300	/* bytes kept of a reason */

/* Why tracing pauses; the texts are borrowed, usual for ever. */
struct overload_cause {
	enum kp_trip trip;
	const char *reason, *usual;
};

struct overload {
	struct kp_guard guard;
	struct kp_lag lag;
	struct kp_load load;
	kp_mono_ns measured;	/* memory and backlog, last */
	/* of the last overload: */
	kp_mono_ns tripped;
	struct agent_status before;	/* the last status before it */
	size_t in_flight;	/* requests that it lost */
	char reason[OVERLOAD_REASON];	/* in words */
	const char *usual;	/* what is usually behind it; or "" */
	bool unreported;	/* its losses are not known yet */
};

void overload_init(struct overload *w, const struct kp_overload *limits);
/*
 * Call it when a message that the target sent at `sent` is handled.  store may
 * be NULL.  Returns which of kprofd's own limits is exceeded.
 */
enum kp_trip overload_check(struct overload *w, struct kp_store *store,
    kp_target_ns sent, kp_mono_ns now);
/* Did kprofd exceed its limit of memory when it was last measured? */
bool overload_full(const struct overload *w);
/* Writes which limit was exceeded. */
void overload_text(const struct overload *w, enum kp_trip cause, char *text,
    size_t n);
/* Returns how long tracing is to be off; st: the last status. */
kp_dur_ns overload_trip(struct overload *w, const struct overload_cause *c,
    const struct agent_status *st, size_t in_flight, kp_mono_ns now);
/* Returns how much longer tracing is to be off; 0: it may be on again. */
kp_dur_ns overload_rested(struct overload *w, struct kp_store *store,
    kp_mono_ns now);
/* The connection was lost, and with it what the overload cost. */
void overload_forget(struct overload *w);
/*
 * Call it with each status while tracing is on.  True once after each overload:
 * text says how long it lasted, why, that one request in one_in is sampled now,
 * and what was lost.
 */
bool overload_after(struct overload *w, const struct agent_status *st,
    uint32_t one_in, kp_mono_ns now, char *text, size_t n);

#endif
