/*
 * vmfeed.h - feeds the events of vmsim.h's programs to the requests stage, in
 * an order in which they may come.
 */
#ifndef TEST_VMFEED_H
#define TEST_VMFEED_H

#include "feed.h"
#include "vmsim.h"

struct vmfeed_opts {
	kp_dur_ns skew;		/* how late an event may come */
	bool entries_first;	/* no call comes before its entry */
	/* percent of events; very late: as much as two seconds */
	unsigned drop, twice, very_late;
	unsigned abandons;	/* of 10000 events */
	/* How much later the events of each node come than it is there. */
	kp_dur_ns delay[SIM_NODES];
	/*
	 * Percent of events before which set_token or clear_token is called in
	 * the same process, whose calls then are of that request.  The programs
	 * know nothing of it: their truth is none then.
	 */
	unsigned marks;
};

/* What was fed. */
struct vmfed {
	uint64_t entries[SIM_NODES], calls[SIM_NODES];
	uint64_t abandoned;	/* how often */
	/* The last expiry's, for who is called back: true, and of each node. */
	kp_target_ns now, node_now[SIM_NODES];
};

/* In order of time within each process; calls the stage's callbacks. */
void vmfeed(struct feed *f, const struct vmfeed_opts *o, struct vmfed *fed);
/* Till everything that can end has ended, and is forgotten. */
void vmfeed_expire_all(struct feed *f, struct vmfed *fed);

#endif
