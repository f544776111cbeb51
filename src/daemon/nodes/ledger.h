/*
 * ledger.h - the balance of a target's requests.
 *
 * The VM counts every call of an entry; the daemon sees the events of some.
 * The ledger explains the difference: sampled out, dropped by the agent, not
 * armed.  It turns the counters in the agent's status, cumulative since the
 * agent started, into losses of the running window.  Loading code again resets
 * the VM's counters, so a call whose event was seen always counts as made.
 */
#ifndef KPROFD_DAEMON_NODES_LEDGER_H
#define KPROFD_DAEMON_NODES_LEDGER_H

#include "kprofd/loss.h"
#include "agent/agent.h"

struct ledger {
	struct agent_status last;
	uint64_t forgotten;	/* calls seen that the VM's counters lost */
	uint64_t lag_last;	/* calls seen that they may count yet */
	uint64_t last_seq;	/* of the last batch */
	uint64_t entries_base;	/* events of entries before this agent */
	uint64_t missing_last;	/* armed calls without an event, last time */
	uint64_t reported;	/* of them, already counted as lost */
	bool sampling;		/* one_in was above 1 at some time */
	bool slices;		/* unarmed is between slices of time, and no loss */
	kp_mono_ns unarmed_since; /* 0: armed, or never was */
	kp_mono_ns hot_since;	/* 0: no function is too hot to be armed */
	kp_mono_ns left_since;	/* 0: an agent is there, or never was */
	kp_mono_ns counted_to;	/* time before that is counted already */
	/* for the running window */
	uint64_t entry_calls;
	int64_t held;		/* calls made before, for later windows */
	struct kp_losses lost;
};

/* For a new agent, whose counters start from zero. */
void ledger_restart(struct ledger *l, uint64_t entries);
/* A batch came; counts batches that are missing before it. */
void ledger_batch(struct ledger *l, uint64_t seq);
/*
 * A status came.  entries: all entry events taken so far.  last: no event can
 * follow (the agent's goodbye, or the connection is gone).
 */
void ledger_status(struct ledger *l, const struct agent_status *st,
    uint64_t entries, bool last);
/*
 * From now on requests are sampled out; calls that are missing by now were not.
 * No event may be in transit.
 */
void ledger_sampling(struct ledger *l);
/* The connection is gone: calls that the last status left open are lost. */
void ledger_lost(struct ledger *l, uint64_t entries);
/* `entries` starts from zero again, while the agent goes on. */
void ledger_recount(struct ledger *l, uint64_t entries);
/*
 * Nothing is armed since then, until ledger_armed(): that time is a loss.  Of
 * several calls the earliest time counts.
 */
void ledger_unarmed(struct ledger *l, kp_mono_ns since);
/*
 * The same without an agent, so that calls are not counted: that is another loss
 * of the same time.
 */
void ledger_left(struct ledger *l, kp_mono_ns since);
void ledger_armed(struct ledger *l, kp_mono_ns now);
/* For this time before now, not everything was armed. */
void ledger_gap(struct ledger *l, kp_dur_ns gap, kp_mono_ns now);
/* Whether functions of tiers are too hot to be armed, from now on. */
void ledger_hot(struct ledger *l, bool hot, kp_mono_ns now);
/*
 * Adds entry calls and losses to the window that closes.  entries: as above;
 * open: how many of them are neither assembled nor lost.  A call belongs to the
 * window in which its request is assembled, or in which it is counted as lost.
 * So no window has more requests than calls, whenever it closes and whenever
 * kprofd is killed.
 */
void ledger_take(struct ledger *l, kp_mono_ns now, uint64_t entries,
    uint64_t open, uint64_t *entry_calls, struct kp_losses *lost);

#endif
