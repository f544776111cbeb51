/*
 * receiver.h - the names of the processes that take messages; many processes
 * may have the same name.
 *
 * Names are few (KP_RECEIVERS_MAX) and stay.  The table of processes is emptied
 * when it is full, and then they are asked for their names again.
 */
#ifndef KP_REQUEST_RECEIVER_H
#define KP_REQUEST_RECEIVER_H

#include "base/map.h"
#include "kprofd/request.h"

struct receivers {
	struct map procs;	/* process -> its name's id plus one; 0: asked */
	char *name[KP_RECEIVERS_MAX];	/* owned */
	uint32_t n;
};

/* False: out of memory. */
bool receivers_init(struct receivers *r);
void receivers_free(struct receivers *r);
/* Was the process never met?  It is from now on. */
bool receivers_meet(struct receivers *r, uint64_t proc);
/* As of kp_requests_name_receiver(). */
void receivers_name(struct receivers *r, uint64_t proc, struct kp_span name);
/* The id of its name; KP_RECEIVER_GONE where it has none, or not yet. */
uint32_t receivers_get(const struct receivers *r, uint64_t proc);

#endif
