/*
 * targets.h - the set of nodes that are profiled.
 *
 * A node is profiled while -target names it, -target-file lists it, or it is
 * found in the cluster.  Targets do not depend on each other: one that fails
 * for good is shown and recorded as failed, and kprofd ends only when all have
 * failed.  One that cannot be reached is tried again, unless none can be
 * reached when kprofd starts.  Functions that tiers.conf names may be missing
 * on some targets, but not on all.
 *
 * All connections use the same node name, the first that is free on each node,
 * so that every node gets one atom for it.
 */
#ifndef KPROFD_DAEMON_NODES_TARGETS_H
#define KPROFD_DAEMON_NODES_TARGETS_H

#include "daemon/conf_file.h"
#include "kprofd/nodes.h"
#include "daemon/options.h"
#include "daemon/nodes/target.h"

#define EXIT_KEPT_OUT 3		/* the service manager must not restart it */

struct targets;

/* NULL when out of memory.  p is borrowed. */
struct targets *targets_new(struct event_base *base,
    const struct parts *p);
/* To be called after the store was closed: windows borrow names of nodes. */
void targets_free(struct targets *ts);
/*
 * Reads the file of targets and starts all.  False: the reason was logged.
 * daemon_on_over() may be called before it returns.
 */
bool targets_start(struct targets *ts);
/* Ends all: daemon_on_over(), with 0, when it is done. */
void targets_stop(struct targets *ts);
bool targets_stopping(const struct targets *ts);
/* At the end: counts what is in flight as lost, and closes the windows. */
void targets_drain(struct targets *ts);

/* Failed targets included; the set changes only in the event loop. */
unsigned targets_count(const struct targets *ts);
struct target *targets_at(const struct targets *ts, unsigned i);
/* True: there may be more than one target, now or later. */
bool targets_several(const struct targets *ts);
/* The target's name, if there are several, to be shown; else NULL. */
const char *targets_node_name(const struct target *t);
unsigned targets_armed(const struct targets *ts);
/* Nodes that are named or match, and for which there is no room. */
size_t targets_more(const struct targets *ts);
/* True: one was armed, or none was found yet and kprofd waits for some. */
bool targets_began(const struct targets *ts);
/* As targets_began().  If not, it logs what each target waits for. */
bool targets_reached(const struct targets *ts);
/* After `kprof pause` of all: targets that are added later start paused. */
void targets_pause_new(struct targets *ts, bool paused);

/* Records an event of kprofd, or of its only target, in the store. */
void targets_record(struct targets *ts, const char *kind, const char *text);

/* ---- a reload ---- */

/* During a reload the set does not change. */
void targets_freeze(struct targets *ts, bool frozen);
/*
 * To make another configuration ready for all, and then discard it, or call
 * target_switch() for each target and then node_runs_switch().
 */
struct node_runs *targets_runs(const struct targets *ts);
struct slices *targets_slices(const struct targets *ts);
/* How many targets; moved: they have another port from their next connection on. */
struct targets_change {
	unsigned added, removed, moved;
};

/* Adds and removes targets so that the set has those of the list. */
struct targets_change targets_file_apply(struct targets *ts,
    const struct kp_node_list *list);
/*
 * Failed targets of these names try again; globs NULL: all but those whose operator does
 * not want it, whom nobody has named.  Returns how many.
 */
unsigned targets_again(struct targets *ts, const char *globs);

/* ---- what the agent of one target reports to all of them ---- */

/* As AGENT_ON_STATE and so on (agent/agent.h).  Without AGENT_STOPPED why is logged. */
void targets_on_state(struct target *t, enum agent_state s);
void targets_on_ended(struct target *t, enum agent_end end, const char *why);
bool targets_on_unreached(struct target *t);
enum agent_verdict targets_on_missing(struct target *t,
    const struct kp_diags *diags);

#endif
