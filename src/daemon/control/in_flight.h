/*
 * in_flight.h - `kprof flight`: the oldest requests in flight; with
 * -stacks it asks the targets for the stacks of the processes that they are in.
 */
#ifndef KPROFD_DAEMON_CONTROL_IN_FLIGHT_H
#define KPROFD_DAEMON_CONTROL_IN_FLIGHT_H

#include <event2/event.h>

#include "daemon/control/control.h"

struct parts;
struct target;
struct flight_asks;

/* NULL when out of memory. */
struct flight_asks *flight_asks_new(struct event_base *base,
    const struct parts *p);
void flight_asks_free(struct flight_asks *fa);
struct flight_opts {
	const char *glob;	/* of the nodes that the requests began on, several with
				   blanks between them; NULL: all */
	size_t rows;		/* the oldest; 0: all, up to KP_FLIGHT_MAX */
	bool json, stacks;
};

#define FLIGHT_ROWS 100		/* unless another number is asked for */

/* Answers the client, now or later. */
void flight_answer(struct flight_asks *fa, struct control_client *c,
    const struct flight_opts *o);
/* Answers all who wait, with what has come: the lists are about to go stale. */
void flight_asks_end(struct flight_asks *fa);
/* The target is about to be freed: it answers nobody. */
void flight_asks_gone(struct flight_asks *fa, const struct target *t);

#endif
