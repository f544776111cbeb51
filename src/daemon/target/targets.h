/*
 * targets.h - the nodes that are profiled at once: which they are, and what the
 * state of one means for the others.
 *
 * They are named by -target, by the lines of -target-file, or found in a
 * cluster; a node is profiled for as long as any of these wants it.  Targets do
 * not depend on each other: one that fails for good is shown and recorded as
 * failed, and kprofd ends only when all have failed.  One that cannot be
 * reached is tried again, unless none can be reached when kprofd starts.  What
 * tiers.conf names may be missing on some of them, but not on all.
 *
 * All connections use one node name, the first that is free on each node, so
 * that a node gets one atom of it, however many are profiled.
 */
#ifndef KPROFD_DAEMON_TARGET_TARGETS_H
#define KPROFD_DAEMON_TARGET_TARGETS_H

#include "daemon/conf_file.h"
#include "kprofd/nodes.h"
#include "daemon/options.h"
#include "daemon/target/target.h"

#define EXIT_KEPT_OUT 3		/* and not to be started again by itself */

struct targets;

/* All borrowed. */
struct targets_parts {
	const struct options *o;
	const struct conf_file *conf;	/* the one in force */
	const char *cookie;
	struct kp_store *store;		/* NULL: only a check */
	struct daemon *daemon;		/* gets what they report: daemon.h */
};

/* NULL when out of memory. */
struct targets *targets_new(struct event_base *base,
    const struct targets_parts *parts);
/* After the store was closed: windows borrow names of nodes. */
void targets_free(struct targets *ts);
/*
 * Reads the file of targets and starts all.  commands, reload, borrowed: who
 * gets the targets' answers; NULL: only a check.  False: the reason was logged.
 * daemon_on_over() may be called before it returns.
 */
bool targets_start(struct targets *ts, struct commands *commands,
    struct reload *reload);
/* Ends all: daemon_on_over(), with 0, when it is done. */
void targets_stop(struct targets *ts);
bool targets_stopping(const struct targets *ts);
void targets_rotate(struct targets *ts, struct kp_moment at);
/* Nothing more will come: what is in flight is lost, windows are closed. */
void targets_drain(struct targets *ts);

/* Those there are, also failed ones; the set changes only from the loop. */
unsigned targets_count(const struct targets *ts);
struct target *targets_at(const struct targets *ts, unsigned i);
/* Can there ever be more than one? */
bool targets_several(const struct targets *ts);
unsigned targets_armed(const struct targets *ts);
/* Nodes that match or are named and had no room. */
size_t targets_more(const struct targets *ts);
/* Was any of them armed, or is there nobody to be, as yet? */
bool targets_began(const struct targets *ts);
/* One that comes later starts so: `kprof pause` of all. */
void targets_pause_new(struct targets *ts, bool paused);

/* Recorded among the events: of kprofd itself, or of its only target. */
void targets_happened(struct targets *ts, const char *kind, const char *text);

/* ---- a reload ---- */

/* While it goes on the set does not change. */
void targets_freeze(struct targets *ts, bool frozen);
/*
 * Makes another configuration ready for all of them (assembly.h): then it is
 * discarded, or each is target_switch()ed and then the set.
 */
enum kp_err targets_prepare(struct targets *ts, const struct kp_conf *conf);
void targets_discard(struct targets *ts);
/* The result: as of assembly_switch(). */
struct kp_requests *targets_switch(struct targets *ts);
/* Its path; NULL: there is none. */
const char *targets_file(const struct targets *ts);
/*
 * The file of targets as it is now: nothing where there is none.  False: why,
 * one line for people.
 */
bool targets_file_read(const struct targets *ts, struct kp_node_list *list,
    char *why, size_t n);
/* That is what is wanted now; says how many came and went. */
void targets_file_apply(struct targets *ts, const struct kp_node_list *list,
    unsigned *added, unsigned *removed);
/* Another configuration: those that failed with the last one try again. */
void targets_again(struct targets *ts);

#endif
