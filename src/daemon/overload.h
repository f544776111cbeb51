/*
 * overload.h - feeds the overload guard with what kprofd uses and how far it is
 * behind, and words its trips and what they cost.
 */
#ifndef KPROFD_DAEMON_OVERLOAD_H
#define KPROFD_DAEMON_OVERLOAD_H

#include "kprofd/guard.h"
#include "store/store.h"
#include "target/agent.h"

struct overload {
	struct kp_guard guard;
	struct kp_lag lag;
	struct kp_load load;
	kp_mono_ns looked;	/* at memory and backlog */
	/* the last trip */
	kp_mono_ns tripped;
	struct agent_status before;	/* the last one before it */
	size_t in_flight;	/* requests lost with it */
	bool untold;		/* what it cost is not known yet */
};

void overload_init(struct overload *w, const struct kp_overload *limits);
/*
 * What the target sent at `sent` is handled now.  store may be NULL.  Returns
 * which of kprofd's own limits is passed.
 */
enum kp_trip overload_look(struct overload *w, struct kp_store *store,
    kp_target_ns sent, kp_mono_ns now);
/* Has kprofd more memory than it may, by the last look?  Armed or not. */
bool overload_full(const struct overload *w);
/* Which limit that was, in words. */
void overload_words(const struct overload *w, enum kp_trip cause, char *text,
    size_t n);
/* Returns for how long to rest; st: the last status. */
kp_dur_ns overload_trip(struct overload *w, enum kp_trip cause,
    const struct agent_status *st, size_t in_flight, kp_mono_ns now);
/* Returns for how much longer to rest; 0: go on. */
kp_dur_ns overload_rested(struct overload *w, struct kp_store *store,
    kp_mono_ns now);
/* The connection was lost: what came of the trip will not be known. */
void overload_forget(struct overload *w);
/*
 * A status, while armed.  True once after each trip: text says how long it
 * was, and what was lost.
 */
bool overload_after(struct overload *w, const struct agent_status *st,
    kp_mono_ns now, char *text, size_t n);

#endif
