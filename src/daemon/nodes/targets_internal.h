/*
 * targets_internal.h - the set of targets, for the files that implement it.
 * targets.c calls targets_cluster.c and targets_events.c; all call targets_set.c.
 */
#ifndef KPROFD_DAEMON_NODES_TARGETS_INTERNAL_H
#define KPROFD_DAEMON_NODES_TARGETS_INTERNAL_H

#include "daemon/nodes/targets.h"
#include "conn/discovery.h"

#define CONNECT_LIMIT (7 * KP_NS_PER_S)

/* What asks for a target. */
#define BY_NAME 0x1u
#define BY_FILE 0x2u
#define BY_CLUSTER 0x4u

struct targets {
	struct event_base *base;
	const struct parts *p;
	struct target *v[TARGETS_MAX];
	unsigned n;
	struct label_epochs labels;
	struct assembly *assembly;
	struct {			/* with -seed */
		struct discovery *seed;	/* NULL: it is a target, or not
					   needed */
		kp_mono_ns answered;	/* last, by any node; 0: never */
		bool failed;		/* the seed, since then */
	} cluster;
	struct event *tick, *sweep;
	size_t more_file, more_cluster;	/* for which there is no room */
	bool starting, stopping, frozen, paused;
	bool armed_ever;		/* any of them */
	bool waits;			/* none at the start: waits for some */
	bool over;			/* daemon_on_over() was called */
	bool seed_lost;			/* that was logged */
	bool no_room;			/* that was logged, since it is full */
	bool ready;			/* systemd was notified */
};

/* Asks for a target.  False: there is no room or no memory. */
bool targets_add(struct targets *ts, const char *name, unsigned source);
/* The same while kprofd runs, logged with the reason if it is new. */
bool targets_join(struct targets *ts, const char *name, unsigned source,
    const char *why);
/* Stops asking for it.  Its agent ends before it is removed. */
void targets_leave(struct targets *ts, struct target *t, unsigned source,
    const char *why);
/* For `more` nodes there is no room. */
void targets_report_no_room(struct targets *ts, size_t more);
/* targets_cluster.c, with -seed only: at the start, and once a second. */
void targets_cluster_start(struct targets *ts);
void targets_cluster_tick(struct targets *ts);

/* NULL: no target has that name. */
struct target *targets_find(const struct targets *ts, const char *name);

/* After a change: decides for targets that wait for others, and ends if due. */
void targets_settle(struct targets *ts);
/* Ends kprofd with this exit status. */
void targets_end(struct targets *ts, int status);

#endif
