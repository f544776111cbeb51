/*
 * targets_internal.h - the set of targets, for the files that implement it.
 * targets.c calls targets_events.c, and both call targets_set.c.
 */
#ifndef KPROFD_DAEMON_TARGET_TARGETS_INTERNAL_H
#define KPROFD_DAEMON_TARGET_TARGETS_INTERNAL_H

#include "daemon/target/cluster.h"
#include "daemon/target/targets.h"

struct targets {
	struct event_base *base;
	const struct parts *p;
	struct target *v[TARGETS_MAX];
	unsigned n;
	struct label_epochs labels;
	struct assembly *assembly;
	struct cluster *cluster;	/* NULL: no cluster is followed */
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

/* NULL: no target has that name. */
struct target *targets_find(const struct targets *ts, const char *name);

/* After a change: decides for targets that wait for others, and ends if due. */
void targets_settle(struct targets *ts);
/* Ends kprofd with this exit status. */
void targets_end(struct targets *ts, int status);

#endif
