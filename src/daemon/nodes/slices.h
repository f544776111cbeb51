/*
 * slices.h - measures all requests of some slices of time, and nothing between them,
 * where {sampling, auto} would cost more than the budget otherwise.
 *
 * A request of a slice stands for all that begin from the end of the slice before to the
 * end of its own.  Slices of all targets fall together, since requests go from node to
 * node.  What a target pays between them is the counters of its entries.
 */
#ifndef KPROFD_DAEMON_NODES_SLICES_H
#define KPROFD_DAEMON_NODES_SLICES_H

#include "daemon/nodes/target.h"

struct slices;

/* NULL when out of memory.  ts is borrowed. */
struct slices *slices_new(struct event_base *base, const struct targets *ts,
    kp_dur_ns interval);
void slices_free(struct slices *s);
/* A target's sampling rate has changed. */
void slices_look(struct slices *s);
/* AGENT_ON_SLICE, or another state of the target: it takes no step any more. */
void slices_on_step(struct slices *s, struct target *t);
void slices_on_state(struct slices *s, struct target *t);
/* Are requests measured in slices? */
bool slices_in_force(const struct slices *s);

#endif
