/*
 * daemon.h - the parts of kprofd, which daemon.c owns and wires together.
 */
#ifndef KPROFD_DAEMON_DAEMON_H
#define KPROFD_DAEMON_DAEMON_H

#include "daemon/conf_file.h"
#include "daemon/options.h"
#include "conn/handshake.h"
#include "agent/agent.h"

struct daemon;
struct kp_request;
struct kp_window;

/* What targets and the commands of the control socket share. */
struct parts {
	const struct options *o;
	struct daemon *daemon;
	kp_mono_ns started;
	char cookie[NODE_COOKIE_MAX + 1];
	struct conf_file conf;		/* in force */
	struct targets *targets;
	struct kp_store *store;		/* NULL, as all below: -check */
	struct control *control;
	struct commands *commands;
	struct flight_asks *flights;
	struct reload *reload;
	struct checks *checks;	/* for clients */
	struct traces *traces;
	struct deferred *deferred;	/* configurations no longer in force */
	struct push *push[PUSH_TO];	/* NULL: without its option */
	struct web *web;		/* NULL: no -http */
	struct totals *totals;		/* for exporters; NULL: there are none */
};

/* Runs until a signal or a command ends it, or it fails; returns the exit status. */
int daemon_run(const struct options *o);

/*
 * The targets call these (src/daemon/nodes); they reach the daemon by
 * t->p->daemon.  What is passed is borrowed during the call.
 */

/* A request that began at t closed: for -print-calls and -requests. */
void daemon_on_request(struct target *t, const struct kp_request *rq);
/* A window of t closed; it goes to the store after this. */
void daemon_on_window(struct target *t, const struct kp_window *w);
/* The time until windows end next. */
kp_dur_ns daemon_window_left(const struct daemon *d);
/* Called once a second. */
void daemon_on_tick(struct daemon *d);
/* As AGENT_ON_STATE and so on of agent/agent.h. */
void daemon_on_state(struct target *t, enum agent_state s, const char *text);
void daemon_on_plan(struct target *t, const struct kp_plan *plan);
void daemon_on_diags(struct target *t, const struct kp_diags *diags);
/* Counts a warning that was logged and is not about tiers.conf. */
void daemon_on_warning(struct target *t);
/* All targets have ended as they were told to, or none can go on. */
void daemon_on_over(struct daemon *d, int status);

#endif
