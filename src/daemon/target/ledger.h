/*
 * ledger.h - the balance of a target's requests.
 *
 * The VM counts every call of an entry; the daemon sees the events of some.
 * The difference must be explained: sampled out, dropped by the agent, not
 * armed.  Counters come from the agent's status, cumulative since it started;
 * the ledger turns them into losses of the running window.  Loading code again
 * resets its counters, so a call whose event was seen always counts as made.
 */
#ifndef KPROFD_DAEMON_TARGET_LEDGER_H
#define KPROFD_DAEMON_TARGET_LEDGER_H

#include "kprofd/loss.h"
#include "target/agent.h"

struct ledger {
	struct agent_status last;
	uint64_t forgotten;	/* calls seen that its counters lost */
	uint64_t lag_last;	/* more of them, if they are not counted soon */
	uint64_t last_seq;	/* of the batches that came */
	uint64_t entries_base;	/* events of entries before this agent */
	uint64_t missing_last;	/* armed calls without an event, last time */
	uint64_t reported;	/* of them, already counted as lost */
	bool sampling;		/* one-in-n was above 1 at some time */
	kp_mono_ns unarmed_since; /* 0: armed, or never was */
	kp_mono_ns hot_since;	/* 0: no function is too hot to be armed */
	kp_mono_ns left_since;	/* 0: an agent is there, or never was */
	kp_mono_ns told_to;	/* until then it is known what was armed */
	/* for the running window */
	uint64_t entry_calls;
	int64_t held;		/* calls of earlier windows, for later ones */
	struct kp_losses lost;
};

/* A new agent: its counters start from zero. */
void ledger_restart(struct ledger *l, uint64_t entries);
/* A batch; those missing before it are counted. */
void ledger_batch(struct ledger *l, uint64_t seq);
/*
 * A status; entries: all entry events taken so far.  last: no event can
 * follow (the agent's goodbye, or the connection is gone).
 */
void ledger_status(struct ledger *l, const struct agent_status *st,
    uint64_t entries, bool last);
/*
 * Nothing is on its way, and from now on some requests are sampled out: what is
 * missing so far was not.
 */
void ledger_sampling(struct ledger *l);
/* The connection is gone: what the last status left open is lost. */
void ledger_lost(struct ledger *l, uint64_t entries);
/* Entries are counted from zero again; the agent goes on. */
void ledger_recount(struct ledger *l, uint64_t entries);
/*
 * Nothing is armed since then, or it is again: time in between is a loss.  Of
 * several times before it is armed the earliest is meant.
 */
void ledger_unarmed(struct ledger *l, kp_mono_ns since);
/*
 * The same, and there is no agent since then: nobody counts the calls, and that
 * is another loss of the same time.
 */
void ledger_left(struct ledger *l, kp_mono_ns since);
void ledger_armed(struct ledger *l, kp_mono_ns now);
/* Armed all the while, but for some of the time before now not all of it was. */
void ledger_gap(struct ledger *l, kp_dur_ns gap, kp_mono_ns now);
/* Functions of tiers are too hot to be armed from now on, or are not. */
void ledger_hot(struct ledger *l, bool hot, kp_mono_ns now);
/*
 * Hands over what belongs to the window that closes.  entries: as above;
 * open: how many of them are neither assembled nor lost.  A call is of the
 * window in which it is known what became of it: that in which its request is
 * assembled, or in which it is counted as lost.  So no window has more
 * requests than calls, whenever it closes and whenever we are killed.
 */
void ledger_take(struct ledger *l, kp_mono_ns now, uint64_t entries,
    uint64_t open, uint64_t *entry_calls, struct kp_losses *lost);

#endif
