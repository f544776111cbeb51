/*
 * targets_internal.h - the set of targets, for the files that it is made of.
 * targets.c calls targets_events.c, and both call targets_set.c.
 */
#ifndef KPROFD_DAEMON_TARGET_TARGETS_INTERNAL_H
#define KPROFD_DAEMON_TARGET_TARGETS_INTERNAL_H

#include "daemon/target/cluster.h"
#include "daemon/target/targets.h"

struct targets {
	struct event_base *base;
	struct targets_parts p;
	struct commands *commands;
	struct reload *reload;
	struct target *v[TARGETS_MAX];
	unsigned n;
	struct label_epochs labels;
	struct assembly *assembly;
	struct cluster *cluster;	/* NULL: none is followed */
	struct event *tick, *sweep;
	size_t more_file, more_cluster;	/* without room, at the last count */
	bool starting, stopping, frozen, paused;
	bool armed_ever;		/* any of them */
	bool waits;			/* it began with nobody: goes on so */
	bool over;			/* on_over was called */
	bool drop_counts_told;			/* the seed is */
	bool more_told;			/* those of the cluster, since it is full */
	bool ready_told;		/* to the service manager */
};

/* NULL: there is none of that name. */
struct target *targets_find(const struct targets *ts, const char *name);

/* Something is known that was not: who waited for it, and is anybody left? */
void targets_settle(struct targets *ts);
/* It is over. */
void targets_end(struct targets *ts, int status);

#endif
