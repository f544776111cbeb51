/*
 * target.h - one target: agent -> decode -> requests, and from there closed windows
 * and slow trees to the store; what profiling costs it, how many of its requests are
 * sampled, and when tracing pauses; and what it is asked beside that.
 *
 *   target.c        what its agent reports: events, states, losses, windows
 *   target_guard.c  cost, sampling, overload
 *   target_asks.c   names of processes, and what requests wait for
 */
#ifndef KPROFD_DAEMON_NODES_TARGET_H
#define KPROFD_DAEMON_NODES_TARGET_H

#include "agent/agent.h"
#include "daemon/daemon.h"
#include "daemon/nodes/node_run.h"
#include "daemon/nodes/ledger.h"
#include "kprofd/cost.h"
#include "kprofd/guard.h"
#include "kprofd/nodes.h"
#include "kprofd/offset.h"
#include "kprofd/sampling.h"
#include "kprofd/waits.h"

struct check;
struct kp_native;

#define OVERLOAD_REASON 300	/* bytes kept of a reason */

/* Why tracing pauses; the texts are borrowed, name and usual for ever. */
struct overload_cause {
	enum kp_trip trip;
	const char *name, *reason, *usual;
};

struct overload {
	struct kp_guard guard;
	struct kp_lag lag;
	struct kp_load load;
	kp_mono_ns measured;	/* memory and backlog, last */
	/* of the last overload: */
	kp_mono_ns tripped;
	struct agent_status before;	/* the last status before it */
	size_t in_flight;	/* requests that it lost */
	const char *name;	/* of its reason, as kp_trip_name() has it; NULL: none */
	char reason[OVERLOAD_REASON];	/* in words */
	const char *usual;	/* what is usually behind it; or "" */
	bool unreported;	/* its losses are not known yet */
};

/*
 * Limits the notices about one target, in the log and among the events; those above
 * the limit are only counted.  All zeros to begin with.
 */
#define RATE_LIMIT_BURST 1000
#define RATE_LIMIT_A_SECOND 2

struct rate_limit {
	kp_mono_ns at;		/* counted up to here */
	uint32_t spent;		/* of RATE_LIMIT_BURST */
	uint64_t skipped;
};

/* May one more be written?  If not, it is counted. */
bool rate_limit_may(struct rate_limit *h, kp_mono_ns now);
/* How many were not, since the last call of this. */
uint64_t rate_limit_take(struct rate_limit *h);

/* What profiling costs. */
struct overhead {
	struct kp_cost last;	/* between the last two statuses, */
	kp_dur_ns over;		/* which this time lies between; 0: unknown */
	kp_dur_ns held;		/* the agent had no processor for so much of it */
	uint64_t requests;	/* between these statuses, sampled or not */
	uint64_t sampled;	/* requests, in all, at the last status */
	struct kp_cost window;	/* of the running window */
};

/* A part of `last`, in percent of one scheduler. */
double overhead_percent(const struct overhead *s, kp_dur_ns part);
/* A count of `last`, per second. */
uint64_t overhead_rate(const struct overhead *s, uint64_t n);

#define MAILBOXES_MAX 2000

/* The processes that receive messages, whose names are asked for. */
struct mailboxes {
	uint64_t proc[MAILBOXES_MAX];	/* names of the first
						   `requested` are under way */
	uint32_t n, requested;
	bool timed;		/* the time in mailboxes is measured; */
	char why[400];		/* ... not; "": not known yet */
};

#define SERVERS_MAX 4	/* that are reported */
#define SERVERS_CROSSED_MAX 8	/* whose names are not known yet */

/*
 * The servers that answer requests while they carry the tokens of others, by name:
 * those that make traced calls, which kp_requests finds; and those that do not, such
 * as the manager of a pool, for which requests are found to wait.
 */
struct servers {
	struct kp_waits v[SERVERS_MAX];
	size_t n;
	struct server_crossed {
		uint64_t proc;
		char text[400];	/* what is said behind its name */
	} crossed[SERVERS_CROSSED_MAX];	/* the first `named` are asked for */
	unsigned ncrossed, named;
	char drains[900];	/* of the last of these; "": there was none */
	bool asked;		/* an answer is under way */
	unsigned looks;		/* so far */
	kp_mono_ns looked;	/* when it was asked last */
	uint64_t strayed;	/* kp_requests_strayed() at the last look */
};

/*
 * Functions that tiers.conf names and a target does not have.  One may be missing on
 * some targets; if all lack it, that is a mistake.  All zero: it was not asked yet.
 */
struct unresolved {
	bool known;		/* it was asked */
	bool more;		/* there are more than fit */
	size_t n;
	struct kp_pos v[KP_DIAG_MAX];	/* where tiers.conf names them */
};

/* Takes the errors, not the warnings, that the target reports. */
void unresolved_set(struct unresolved *m, const struct kp_diags *diags);
/* True: each function that m lacks is present on at least one of the others. */
bool unresolved_elsewhere(const struct unresolved *m,
    const struct unresolved *const *others, size_t n);

struct target {
	struct agent_opts opts;
	char typed[KP_NODE_TYPED_MAX + 1];	/* opts.target: perhaps with a
						   port */
	const struct parts *p;
	struct agent *agent;
	struct node_run run;
	struct kp_offset offset;	/* from its clock to ours */
	struct kp_sampler sampler;
	struct {
		uint32_t one_in;	/* the rate that was reported; 0: none */
		const char *why;	/* static */
		kp_mono_ns at;		/* when; 0: none yet */
		kp_wall_ns wall;
	} rate;
	struct {
		uint64_t outside;	/* kp_requests_outside() at the last status */
		unsigned many;		/* statuses in a row that had too many */
		bool given;		/* agent_gives_tokens(), as seen last */
		bool dear;		/* they are not given any more */
		kp_mono_ns due;		/* they are not given before then */
		kp_dur_ns wait;		/* before `due`, when last they were ended */
	} tokens;			/* see target_give_tokens() */
	struct {
		bool in;		/* it takes part in the slice under way, */
		bool asked;		/* and its answer to a step is to come */
		bool cycle_over;	/* the next slice has begun */
		uint32_t weight;	/* of the last one; 0: there was none */
		struct kp_cost cost;	/* since the last one began, */
		kp_dur_ns over;		/* which is this long ago */
		struct kp_cost last;	/* the same of the one before, */
		kp_dur_ns last_over;	/* to its next; 0: there was none */
		double idle;		/* percent of a scheduler while nothing is armed */
	} slice;			/* see slices.h */
	struct overload overload;
	struct overhead overhead;
	struct tracing_cost tracing_cost;
	struct servers servers;
	struct ledger ledger;
	struct rate_limit rate_limit;	/* of what is logged */
	struct kp_losses lost;		/* of this window, found here */
	struct kp_losses lost_ever;	/* of all closed windows, for status */
	const char *node;		/* as it names itself; until it is
					   attached, as the user named it */
	struct agent_hello hello;	/* otp 0: never attached */
	struct kp_native *decoder;	/* of events; knows the probe's names */
	bool native;			/* the probe in use; */
	char relay_why[2000];		/* why it is not; "": not wanted */
	struct mailboxes mailboxes;
	struct agent_status status;	/* the last one */
	/* what agents before this one counted, as of status */
	uint64_t entry_calls_before, foreign_before;
	struct kp_queues queues;	/* long ones in the node */
	uint64_t events, batches, windows;
	uint64_t dropped;		/* by the agent so far, as it last said */
	kp_target_ns last_sent;		/* when it sent its last batch or
					   status; 0: none yet */
	bool was_armed;
	const char *doubt;		/* of the channel, as logged last */
	bool unfit;			/* a check found errors of tiers.conf */
	struct check *check;		/* NULL: profiles */
	kp_mono_ns endless_since;	/* calls of entries, but no return; 0:
					   there are returns, or no calls */
	bool logged_endless;		/* that was logged */
	size_t hot;			/* functions reported as too hot */
	bool no_slot;			/* see node_run_join() */
	char state_text[512];
	char lost_reported[512];	/* why it was lost, as last reported;
					   "": attached since */
	/* for the set that it is one of: see targets.h */
	struct {
		unsigned sources;	/* what asks for it; 0: to be removed */
		bool tried;		/* the first attempt has ended, */
		bool unreached;		/* without success */
		bool over;		/* its agent has ended, for good */
		bool failed;		/* ... in this way */
		enum agent_end end;
		bool awaits_verdict;	/* depends on what others have */
		struct unresolved unresolved;
		kp_mono_ns seen;	/* in the cluster, last */
	} in_set;
};

/*
 * NULL when out of memory.  Callbacks begin with agent_start().  Before
 * target_free() call node_run_leave() and then target_rotate().
 */
struct target *target_new(struct event_base *base, const struct agent_opts *o,
    const struct parts *p);
void target_free(struct target *t);
/* Returns whether this names it: as itself, or as it was named; with any port. */
bool target_is(const struct target *t, const char *name);
/*
 * It was named again: from the next connection on its port is the one typed there.
 * keep: its old one stays if there is none.  True: it is another one.
 */
bool target_retype(struct target *t, const char *name, bool keep);
/*
 * Closes the running window, as of that moment, and hands it to the store.
 * Nothing happens when the window began later, as after a dump.
 */
void target_rotate(struct target *t, struct kp_moment at);
/*
 * Copies the running window as it stands, with its losses; it goes on.  NULL: the
 * node was never attached, or there is no memory.  The caller frees it.
 */
struct kp_window *target_running(const struct target *t, struct kp_moment at);
/*
 * Puts the configuration of node_runs_prepare() in force: counts what is in
 * flight as lost, closes the window, and starts from zero.
 */
void target_switch(struct target *t);

/* ---- events of a target, in the log and in the store ---- */

/*
 * To the store only.  kind: a short word, as in log.h.  Text may come from the
 * target: control characters are replaced.
 */
void target_record(struct target *t, const char *kind, const char *text);
/* Logs it, too; of too many at once the rest is only counted. */
void target_report(struct target *t, const char *kind, const char *text);
/* These are called by kp_requests (kprofd/request.h). */
void target_on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn);
void target_on_unbounded(void *ctx, uint32_t node, uint32_t line, bool label);

/* ---- target_guard.c ---- */

/*
 * whole: while processes have flags, all requests are sampled.  sampled: requests so
 * far.  before: the status before this one, all zero if there
 * was none.  The events of the native probe are cheaper.
 */
void overhead_status(struct overhead *s, bool native, bool whole,
    uint64_t sampled, const struct agent_status *before, const struct agent_status *st);
/* Are its requests measured in slices of time, or will be when it is armed? */
bool target_in_slices(const struct target *t);
/* What it costs now. */
struct overhead target_overhead(const struct target *t);
/* Why requests are sampled as they are; "": all are, or as tiers.conf says. */
const char *target_rate_why(const struct target *t);
/* Pauses tracing if kprofd is over a limit.  sent: the time of the last message. */
void target_check_overload(struct target *t, kp_target_ns sent);
/* A limit was passed: logs why; returns for how long tracing is to pause. */
kp_dur_ns target_trip(struct target *t, const struct overload_cause *c);
/* AGENT_ON_PAUSE_OVER */
kp_dur_ns target_pause_over(struct target *t);
/* Called for each status while armed: raises a rate that an overload lowered. */
void target_recover(struct target *t, const struct agent_status *st);
/* Adapt the sampling rate to the entries of a batch, or to a status. */
void target_sample_batch(struct target *t, kp_target_ns sent);
/* Before arming, with the rate of entries that was measured. */
void target_sample_plan(struct target *t, uint64_t entries);
void target_sample_status(struct target *t, const struct agent_status *st);
/*
 * Has tiers give tokens to processes without one, or stop it.  They do while all
 * requests are measured: whoever takes a message from a process without a token, as
 * a request from before has none, would be lost to its request.  They do not where
 * their calls outside of requests are many, since each of these makes an event then.
 */
void target_give_tokens(struct target *t);
/*
 * Reports functions of the plan that are too hot to trace, if there are more
 * than before; reported: that was done already.
 */
void target_hot(struct target *t, bool reported);
/* Another rule of sampling; the rate stays where the rule is the same. */
void target_sampling(struct target *t, const struct kp_sampling *now);

/* ---- target_asks.c ---- */

/* For a new connection. */
void mailboxes_restart(struct mailboxes *m);
/*
 * Called by kp_requests for a process that receives messages, so that its name
 * can be requested; when the queue is full it stays without a name.
 */
void mailboxes_add(void *ctx, uint32_t node, uint64_t proc);
/* Requests names from the agent, unless an answer is under way. */
void mailboxes_ask(struct target *t);
/* AGENT_ON_MESSAGES */
void mailboxes_timed(struct target *t, bool timed, const char *why);

/* No more answers come: reports servers that were asked for their names without. */
void servers_end(struct target *t);
/* For a new connection. */
void servers_restart(struct target *t);
/* As on_crossed of struct kp_requests_opts. */
void servers_add_crossed(void *ctx, uint32_t node, uint64_t proc,
    const struct kp_fn *fn);
/*
 * Asks the target what requests wait for while their calls come with other requests'
 * tokens, a few times at most and if the last time is this long ago.  In a check the
 * reason is the check.
 */
void servers_ask(struct target *t, kp_dur_ns every);

#endif
