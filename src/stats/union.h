/*
 * union.h - for how long at least one of some calls ran.
 *
 * Calls come by their start, so a union is one pass that remembers how far it
 * has come.  Calls that outlast the request add to it with their ends, which
 * come later: each is given the time from its own start to that of the next
 * one, or to the request's end, as far as no call that ended was busy then.  So
 * all of them together add up to the union.
 */
#ifndef KPROFD_STATS_UNION_H
#define KPROFD_STATS_UNION_H

#include "base/sat.h"
#include "kprofd/request.h"

struct busy_union {
	kp_target_ns reach;	/* busy, or given away, up to here */
	kp_dur_ns *holder;	/* gets what is idle after that; or NULL */
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

/* A call that outlasts the request; sum: what it adds, or NULL. */
static inline void
union_hold(struct busy_union *u, kp_target_ns start, kp_dur_ns *sum)
{
	union_idle(u, start);
	u->holder = sum;
	if (start > u->reach)
		u->reach = start;
}

/* Returns what a call that ended adds, clipped. */
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
