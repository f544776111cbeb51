/*
 * agent.h - the daemon's side of the agent in one target: connects, loads the
 * agent, finds out which functions can be armed, arms them, renews the lease, and
 * starts over when the connection is lost.
 *
 * To arm a function is to set its trace pattern; a target is armed while tracing
 * is on.
 *
 * It is a state machine over one connection, and reports everything to its owner
 * through the callbacks below; it keeps no statistics.
 */
#ifndef KPROFD_AGENT_AGENT_H
#define KPROFD_AGENT_AGENT_H

#include <event2/event.h>

#include "kprofd/guard.h"
#include "kprofd/label.h"
#include "kprofd/plan.h"
#include "conn/handshake.h"

#define AGENT_PROTOCOL 8	/* of kprof_agent.erl */
/*
 * kprofd renews it every second.  The agent checks it twice a second, and has
 * removed itself within five seconds.  Where it can do nothing any more, its
 * sentry ends it after two leases.
 */
#define AGENT_LEASE_MS 4000

enum agent_state {
	AGENT_CONNECTING,
	AGENT_LOOKING,		/* for an agent that is there already */
	AGENT_STARTING,		/* loading the agent */
	AGENT_CHECKING,		/* which functions of the plan exist */
	AGENT_RATING,		/* how often they are called */
	AGENT_ARMING,
	AGENT_ARMED,
	AGENT_PAUSING,
	AGENT_PAUSED,		/* by the user */
	AGENT_TRIPPED,		/* paused by an overload */
	AGENT_STOPPING,
	AGENT_LOST,		/* the connection; waits to try again */
	AGENT_ENDED
};

const char *agent_state_name(enum agent_state s);

/* What the agent reports when it starts. */
struct agent_hello {
	char node[256];
	int otp;
	int64_t protocol;
	bool session;		/* OTP 27+: a trace session of our own */
	bool gc_shared;		/* see kp_conf_gc() */
	kp_dur_ns time_offset;	/* target time + this = wall time */
};

/* Comes once a second, in answer to the lease; counters since its start. */
struct agent_status {
	kp_target_ns now;
	kp_dur_ns time_offset;
	uint64_t seq;		/* batches sent */
	uint64_t queue, memory;	/* messages, bytes */
	uint64_t sent, dropped;	/* events */
	uint64_t dropped_entries;	/* requests among dropped */
	uint64_t entry_calls;	/* counted by the VM; never falls */
	uint64_t unarmed_calls;	/* ... while nothing was armed */
	kp_dur_ns busy;		/* what the agent's own work has cost */
	kp_dur_ns held;		/* that others had the processors meanwhile */
	uint64_t switches;	/* of processes with our flags, in or out */
	uint64_t tier_calls;	/* of armed functions of tiers, by the VM */
	uint64_t lease;		/* the number of the one it answers */
	uint64_t foreign;	/* events of other tools' patterns, dropped */
	uint64_t ceded;		/* processes not traced because of those */
};

/* How events come from the VM. */
enum agent_probe {
	AGENT_RELAY,		/* as messages to the agent */
	AGENT_NATIVE,		/* in memory rings of the native probe, or fail */
	AGENT_AUTO		/* native where it can be loaded, else relay */
};

enum agent_failure {
	AGENT_FAILED,		/* trying again would not help */
	AGENT_KEPT_OUT		/* the target's operator forbids it */
};

/* Whether to arm a target that lacks functions of tiers.conf. */
enum agent_verdict {
	AGENT_REFUSE,
	AGENT_GO_ON,
	AGENT_WAIT		/* agent_judge() follows */
};

/* The target's answer to another configuration. */
struct agent_checked {
	enum {
		AGENT_CHECKED_DONE,	/* see diags, which may have errors */
		AGENT_CHECKED_AWAY,	/* it is not attached, or is ending */
		AGENT_CHECKED_REFUSED	/* it cannot be armed; see why */
	} how;
	const struct kp_diags *diags;	/* borrowed during the call */
	const char *why;		/* in words */
};

/* How agent_reload() went. */
struct agent_reloaded {
	enum {
		AGENT_RELOAD_DONE,	/* in force */
		AGENT_RELOAD_KEPT	/* in force when it is attached again */
	} how;
	struct kp_plan_change n;	/* with AGENT_RELOAD_DONE */
};

/*
 * The constants in the labels of a kprofd's targets.  Tokens travel between nodes, so
 * labels of different targets must never be equal: bits 42 to 51 of a label are a
 * constant that only one target of this kprofd holds.  Every arming takes a new one.
 * Each kprofd shuffles their order when it starts and uses all before it uses one
 * again, so labels that earlier armings, or a target that has left, put into tokens
 * stay distinct for some 960 armings.  A token of an earlier kprofd has the same
 * constant in one case of 1021; then its number must be equal, too.
 */
#define LABEL_EPOCHS_MAX (KP_LABEL_MEASURES - 1)	/* constants: 1 to this */

struct label_epochs {
	uint16_t order[LABEL_EPOCHS_MAX];
	uint16_t next;			/* place in order */
	bool held[LABEL_EPOCHS_MAX + 1];
	int64_t wall;			/* ns to add to kp_mono_ns for wall time */
};

/*
 * seed: any random number.  wall, now: this moment by both clocks.  Later changes
 * of the wall clock do not matter.
 */
void label_epochs_init(struct label_epochs *l, uint64_t seed, kp_wall_ns wall,
    kp_mono_ns now);
/* The number that must be in trace control words now (label.h). */
uint32_t label_epochs_word(const struct label_epochs *l, kp_mono_ns now);
/*
 * Takes a constant and gives back `old` (0: none).  At least one must be free.
 */
uint16_t label_epochs_take(struct label_epochs *l, uint16_t old);
void label_epochs_give(struct label_epochs *l, uint16_t old);

struct agent;

/*
 * The owner of an agent, which gets all callbacks.  Each program has its own: the
 * daemon's is in daemon/nodes/target.h.
 */
struct target;

struct agent_ops {
	void (*on_state)(struct target *t, enum agent_state s,
	    const char *text);
	void (*on_hello)(struct target *t, const struct agent_hello *h);
	/*
	 * Which probe is used, unless relay was asked for; after each on_hello,
	 * before anything is armed.  why: the reason for relay, or for sending
	 * the native one's library, or NULL.
	 */
	void (*on_probe)(struct target *t, bool native, const char *why);
	/*
	 * agent_plan() has changed: with the native probe because code was
	 * loaded, with either because a function was too hot.
	 */
	void (*on_replanned)(struct target *t);
	/* What will be armed, with call rates. */
	void (*on_plan)(struct target *t, const struct kp_plan *plan);
	/* A whole {kprof_events, ...} message; good during the call. */
	void (*on_batch)(struct target *t, const uint8_t *p, size_t n);
	/*
	 * A round trip for the clock offset: sent and received by our clock,
	 * `there` by the target's, in between.  Before each on_status, and a
	 * few times more after attaching.
	 */
	void (*on_clock)(struct target *t, kp_mono_ns sent, kp_target_ns there,
	    kp_mono_ns received);
	/* last: the agent's goodbye; no event follows. */
	void (*on_status)(struct target *t, const struct agent_status *st,
	    bool last);
	/* Something to be logged; kind is a short static word. */
	void (*on_notice)(struct target *t, const char *kind, const char *text);
	/*
	 * Another tool removed something that the agent had set up; it is in
	 * place again, but for up to `gap` not everything was traced.
	 */
	void (*on_taken)(struct target *t, kp_dur_ns gap, const char *text);
	/* The target has connected to this node; NULL: not of interest. */
	void (*on_connected)(struct target *t, const char *node);
	/*
	 * The VM has counted more calls while armed: of entries, and of the
	 * functions of each of KP_TIER_MAX tiers.
	 */
	void (*on_calls)(struct target *t, uint64_t entries,
	    const uint64_t *tiers);
	/*
	 * The agent was over a limit and has disarmed.  limit: which; NULL where
	 * text says what to do.  Returns for how long tracing is to pause.
	 */
	kp_dur_ns (*on_trip)(struct target *t, const char *text,
	    const struct kp_trip_limit *limit);
	/* The pause is over.  Returns for how much longer to wait; 0: resume. */
	kp_dur_ns (*on_pause_over)(struct target *t);
	/* agent_clear_tokens() with this number is done. */
	void (*on_cleared)(struct target *t, uint64_t number);
	/* The answer to agent_reload(). */
	void (*on_checked)(struct target *t, const struct agent_checked *c);
	/* The answers to agent_check() and agent_check_count(). */
	void (*on_looked)(struct target *t, const struct agent_checked *c,
	    const struct kp_plan *plan);
	void (*on_counted)(struct target *t, const struct agent_checked *c,
	    const struct kp_plan *plan);
	/*
	 * agent_reload_apply() has ended.  All events before this were of the
	 * old configuration.
	 */
	void (*on_reloaded)(struct target *t, const struct agent_reloaded *r);
	/* It could not be attached to, and never was.  True: try again later. */
	bool (*on_unreached)(struct target *t);
	/*
	 * Before it is armed for the first time: errors of diags are functions
	 * of tiers.conf that it lacks.
	 */
	enum agent_verdict (*on_missing)(struct target *t,
	    const struct kp_diags *diags);
	/* Once a second, with opts.nodes: a list of atoms, its own name first. */
	void (*on_nodes)(struct target *t, const struct kp_term *list);
	/*
	 * The answer to agent_ask_names(): a list in the same order; for each
	 * process its name (an atom), the function that it began with
	 * ({M,F,A}), or [] if it has ended.
	 */
	void (*on_names)(struct target *t, const struct kp_term *list);
	/*
	 * The answer to agent_ask_waits(): {Found, Names}, as kprof_waits.erl has
	 * them; Names are those of the servers, in the same order.
	 */
	void (*on_waits)(struct target *t, const struct kp_term *answer);
	/*
	 * A whole {kprof_stacks, ...} or {kprof_groups, ...} (kprofd/stacks.h),
	 * with tiers.conf's stacks; good during the call.  NULL: dropped.
	 */
	void (*on_stacks)(struct target *t, struct kp_span message);
	/*
	 * The answer to agent_ask_stacks() with this number: a kprof_stacks, without
	 * its version byte, of those that live.  NULL: dropped.
	 */
	void (*on_stacks_of)(struct target *t, uint64_t number,
	    struct kp_span message);
	/*
	 * If tiers.conf asks for messages: whether they are timed, or why not;
	 * when armed, and after a change.
	 */
	void (*on_messages)(struct target *t, bool timed, const char *why);
	/* Diagnostics of tiers.conf for this target. */
	void (*on_diags)(struct target *t, const struct kp_diags *diags);
	/* It cannot be attached to, or is kept out: the agent has ended. */
	void (*on_failed)(struct target *t, enum agent_failure f,
	    const char *why);
	/* agent_stop() is done; the last status came before. */
	void (*on_stopped)(struct target *t);
};

struct agent_opts {
	const char *target, *cookie;	/* borrowed */
	const struct reach *reach;	/* borrowed; NULL: all its defaults */
	const struct kp_conf *conf;		/* borrowed */
	const char *conf_path;		/* for messages; borrowed */
	enum agent_probe probe;
	const char *probe_library;	/* where targets find it; borrowed */
	const char *probe_send;	/* our file of it, sent where they do not, or NULL */
	struct label_epochs *labels;	/* shared by all targets; borrowed */
	/*
	 * Count calls of all functions, and trace with numbers of clauses for
	 * identities (kp_spec_params).  The owner ends it by agent_stop(), in
	 * on_plan if nothing is to be armed.
	 */
	bool check_only;
	kp_dur_ns check_time;	/* how long a check counts calls */
	enum kp_shape shape;	/* of calls, in a check */
	bool nodes;		/* call on_nodes */
	kp_dur_ns connect_limit;
	/* What a check can do where a kprofd is attached; NULL: nothing. */
	const char *occupied_hint;
};

/* NULL when out of memory. */
struct agent *agent_new(struct event_base *base, const struct agent_opts *o,
    const struct agent_ops *ops, struct target *owner);
/* Starts to connect.  Callbacks may come before it returns. */
void agent_start(struct agent *a);
void agent_free(struct agent *a);

enum agent_state agent_state(const struct agent *a);
/* The connection, for status; NULL: there is none. */
const struct channel *agent_channel(const struct agent *a);
/* What is armed, or will be. */
const struct kp_plan *agent_plan(const struct agent *a);
/*
 * The target sent something that cannot be read, such as "a batch of events":
 * reported by on_notice, once for a connection.
 */
void agent_malformed(struct agent *a, const char *what);
/* Disarms, has queued events sent, and detaches; then on_stopped comes. */
void agent_stop(struct agent *a);
/*
 * The state that the user wants, which survives a lost connection; on_state
 * reports when the target is in it.  KP_ESTATE: it is ending.
 */
enum kp_err agent_pause(struct agent *a);
enum kp_err agent_resume(struct agent *a);
/*
 * Pauses tracing for this time because of an overload; agent_resume() ends that.
 * Entry calls are counted.  KP_ESTATE: it is not armed.
 */
enum kp_err agent_pause_for(struct agent *a, kp_dur_ns pause, const char *text);
/*
 * on_cleared comes with *number when it is done.  KP_ESTATE: it is not attached.
 */
enum kp_err agent_clear_tokens(struct agent *a, uint64_t *number);
#define AGENT_NAMES_MAX 200	/* in one request */

/*
 * Requests the names of processes, each given as serial << 32 | number; on_names
 * has them, unless the connection is lost.  KP_ESTATE: it is not attached.
 */
enum kp_err agent_ask_names(struct agent *a, const uint64_t *procs, size_t n);
/*
 * Requests which servers that answer later some of n processes wait for, and the
 * names of m servers; likewise.  on_waits has them.
 */
enum kp_err agent_ask_waits(struct agent *a, const uint64_t *procs, size_t n,
    const uint64_t *servers, size_t m);
#define AGENT_STACKS_MAX 200	/* processes in one request */

/*
 * Requests the stacks of processes, likewise; on_stacks_of has them, with
 * *number, unless the connection is lost.  It works while tracing is off.
 * KP_ESTATE: it is not attached.
 */
enum kp_err agent_ask_stacks(struct agent *a, const uint64_t *procs, size_t n,
    uint64_t *number);
/* Another sampling rate for all entries: one request in n. */
enum kp_err agent_sample(struct agent *a, uint32_t one_in);
/*
 * From now on tiers give tokens to processes that have none, or not: see
 * kp_spec_params.  Nothing happens while a reload is put in force, after which not
 * all of them give any: call it again.
 */
void agent_give_tokens(struct agent *a, bool give);
bool agent_gives_tokens(const struct agent *a);	/* all tiers do */
/* The answer to on_missing, where that was AGENT_WAIT. */
void agent_judge(struct agent *a, enum agent_verdict v);
/*
 * Replaces the configuration in two steps, so that all targets take it or none.
 * First the target checks it: on_checked comes once, maybe before this returns;
 * nothing has changed then.  conf is borrowed from now on.  A target that does
 * not answer is lost, as in any other step.
 */
void agent_reload(struct agent *a, const struct kp_conf *conf);
/*
 * After on_checked: puts it in force; then on_reloaded comes once, maybe before
 * this returns.  If it cannot be armed after all, the connection is closed and
 * made again, as if it had been lost.
 */
void agent_reload_apply(struct agent *a);
/* Discards it, at any time after agent_reload(). */
void agent_reload_cancel(struct agent *a);
/*
 * Checks another configuration beside the one in force: nothing that is armed
 * changes.  First it looks which functions there are: on_looked comes once, maybe
 * before this returns.  conf is borrowed until agent_check_end().  A reload, and
 * arming what new code has, wait for that end.
 */
void agent_check(struct agent *a, const struct kp_conf *conf);
/*
 * After on_looked with AGENT_CHECKED_DONE: counts the calls of the functions for
 * this time; then on_counted comes once, maybe before this returns.
 */
void agent_check_count(struct agent *a, kp_dur_ns time);
/* Ends it, at any time; nothing is counted any more.  No callback comes. */
void agent_check_end(struct agent *a);
/*
 * Disarms one function for good, over pauses and lost connections; mfa is
 * "mod:fun/arity" as interned.
 */
enum kp_err agent_disarm(struct agent *a, const char *mfa);

#endif
