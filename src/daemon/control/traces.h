/*
 * traces.h - traces every function of the next request of one type, whole, for the
 * dashboard and POST /api/v1/traces.
 *
 * kprof trace does it, as a child (with -tiers, the text in force, and -identity), so it
 * obeys the limits of that command, and takes everything back however kprofd or it ends.
 * Up to OTP 26 a process has one tracer, and a node has one trace control word: so for
 * that time kprofd is away from the targets, its agents too.  That is in the losses of
 * their windows (unarmed, uncounted) and among their events.
 *
 * One runs at a time.  The results of the last ones are kept.
 */
#ifndef KPROFD_DAEMON_CONTROL_TRACES_H
#define KPROFD_DAEMON_CONTROL_TRACES_H

#include "daemon/control/control.h"
#include "daemon/daemon.h"

#define TRACES_KEPT 4
#define TRACE_FOR (10 * KP_NS_PER_S)	/* to wait for the request */
#define TRACE_EVENTS 200000	/* of the request, and others until its type is known */

struct traces;

struct trace_opts {
	const char *identity;
	const char *globs;	/* of targets, blanks between them; NULL: all */
	kp_dur_ns time;		/* to wait for such a request */
	size_t events;
};

/* NULL when out of memory.  traces_free() ends the one that runs. */
struct traces *traces_new(struct event_base *base, const struct parts *p);
void traces_free(struct traces *ts);
/* Answers c with what traces_show() shows of it, or why there will be none. */
void traces_begin(struct traces *ts, struct control_client *c,
    const struct trace_opts *o);
/* Answers c with the state of a trace, and its result: JSON. */
void traces_show(struct traces *ts, struct control_client *c, uint64_t id);
/* As AGENT_ON_STATE of agent/agent.h. */
void traces_on_state(struct traces *ts, struct target *t, enum agent_state s);
/* The target is about to be freed. */
void traces_gone(struct traces *ts, const struct target *t);

#endif
