/*
 * union.h - sums the time in which at least one of some calls ran.
 *
 * Calls are sorted by start, so a union is one pass that remembers how far it
 * has come.  Calls that outlast the request add to it when they end: each holds
 * the time from its own start to that of the next one, or to the request's end,
 * in which no call that ended was busy.  Together they add up to the union.
 */
#ifndef KPROFD_STATS_UNION_H
#define KPROFD_STATS_UNION_H

#include "base/sat.h"
#include "kprofd/request.h"

struct busy_union {
	kp_target_ns reach;	/* the time up to here is accounted for */
	kp_dur_ns *holder;	/* gets the idle time after that; or NULL */
};

/* Gives the idle time up to `to` to the holder. */
static inline void
union_idle(struct busy_union *u, kp_target_ns to)
{
	if (u->holder == NULL || to <= u->reach)
		return;
	*u->holder = sat_add(*u->holder, sat_span(u->reach, to));
	u->reach = to;
}

/* Adds a call that outlasts the request; *sum gets its part; or NULL. */
static inline void
union_hold(struct busy_union *u, kp_target_ns start, kp_dur_ns *sum)
{
	union_idle(u, start);
	u->holder = sum;
	if (start > u->reach)
		u->reach = start;
}

/* Adds a call that ended; returns its part, clipped. */
static inline kp_dur_ns
union_add(struct busy_union *u, const struct kp_call *c, kp_target_ns limit)
{
	kp_target_ns from, to = c->end < limit ? c->end : limit;

	union_idle(u, c->start < limit ? c->start : limit);
	from = c->start > u->reach ? c->start : u->reach;
	if (to <= from)
		return 0;
	u->reach = to;
	return sat_span(from, to);
}

#endif
