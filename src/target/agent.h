/*
 * agent.h - one target from the daemon's side: connects, loads the agent, finds
 * out what can be armed, arms it, renews the lease, and starts over when the
 * connection is lost.
 *
 * A state machine over one link.  Everything it learns goes to the owner
 * through the callbacks below; it keeps no statistics.
 */
#ifndef KP_TARGET_AGENT_H
#define KP_TARGET_AGENT_H

#include <event2/event.h>

#include "kprofd/plan.h"
#include "target/label_epochs.h"
#include "dist/handshake.h"

#define AGENT_PROTOCOL 4	/* of kprof_agent.erl */
/*
 * Renewed every second.  The agent looks twice a second whether it has ended,
 * and is gone within five, of whatever happened.
 */
#define AGENT_LEASE_MS 4000

enum agent_state {
	AGENT_CONNECTING,
	AGENT_LOOKING,		/* is an agent there already? */
	AGENT_STARTING,		/* the agent is loaded and started */
	AGENT_CHECKING,		/* which of our functions exist? */
	AGENT_RATING,		/* how often are they called? */
	AGENT_ARMING,
	AGENT_ARMED,
	AGENT_PAUSING,
	AGENT_PAUSED,		/* by the user */
	AGENT_TRIPPED,		/* something was too much; rests */
	AGENT_STOPPING,
	AGENT_LOST,		/* the connection is; waits to try again */
	AGENT_ENDED
};

const char *agent_state_name(enum agent_state s);

/* What the agent said of itself when it started. */
struct agent_hello {
	char node[256];
	int otp;
	int64_t protocol;
	bool session;		/* OTP 27+: a trace session of our own */
	bool gc_shared;		/* see kp_conf_gc() */
	kp_dur_ns time_offset;	/* target time + this = wall time */
};

/* Once a second, in answer to the lease; counters since its start. */
struct agent_status {
	kp_target_ns now;
	kp_dur_ns time_offset;
	uint64_t seq;		/* batches sent */
	uint64_t queue, memory;	/* messages, bytes */
	uint64_t sent, dropped;	/* events */
	uint64_t dropped_entries;	/* requests among dropped */
	uint64_t entry_calls;	/* counted by the VM */
	uint64_t unarmed_calls;	/* of those, while nothing was armed */
	kp_dur_ns busy;		/* the agent's own time for batches */
	uint64_t tier_calls;	/* of armed functions of tiers, by the VM */
	uint64_t lease;		/* the number of the one it answers */
	uint64_t foreign;	/* events of others' patterns, dropped */
	uint64_t ceded;		/* processes not traced because of those */
};

/* How events get from the VM to us. */
enum agent_probe {
	AGENT_RELAY,		/* as messages, through the agent */
	AGENT_NATIVE,		/* through rings in memory, or not at all */
	AGENT_AUTO		/* native where it can be had, else relay */
};

enum agent_failure {
	AGENT_FAILED,		/* and another time it will be the same */
	AGENT_KEPT_OUT		/* the target's operator does not want us */
};

/* Where it lacks something of tiers.conf: is it to be armed with the rest? */
enum agent_verdict {
	AGENT_REFUSE,
	AGENT_GO_ON,
	AGENT_WAIT		/* agent_judge() will say */
};

/* What the target says to another configuration. */
struct agent_checked {
	enum {
		AGENT_CHECKED_DONE,	/* diags: what it says, errors too */
		AGENT_CHECKED_AWAY,	/* it is not attached, or ends: nothing */
		AGENT_CHECKED_REFUSED	/* it cannot have it: why */
	} how;
	const struct kp_diags *diags;	/* borrowed during the call */
	const char *why;		/* in words */
};

/* How agent_reload() went. */
struct agent_reloaded {
	enum {
		AGENT_RELOAD_DONE,	/* in force, and armed if anything is */
		AGENT_RELOAD_KEPT	/* in force once it is attached, if ever */
	} how;
	struct kp_plan_change n;	/* done */
};

struct agent;

/*
 * The owner of an agent, which gets all its callbacks.  Each program defines it:
 * the daemon in daemon/target/target.h; record and the fuzzer have their own.
 */
struct target;

struct agent_ops {
	void (*on_state)(struct target *t, enum agent_state s,
	    const char *text);
	void (*on_hello)(struct target *t, const struct agent_hello *h);
	/*
	 * Which of the two it is, if relay was not asked for: before anything
	 * is armed, after each on_hello.  why: why not native, or NULL.
	 */
	void (*on_probe)(struct target *t, bool native, const char *why);
	/*
	 * What is armed is now agent_plan(): with the native probe other code
	 * is there, or a function was too hot.
	 */
	void (*on_looked)(struct target *t);
	/* What will be armed, or in a check would be, with call rates. */
	void (*on_plan)(struct target *t, const struct kp_plan *plan);
	/* A whole {kprof_events, ...} message; good during the call. */
	void (*on_batch)(struct target *t, const uint8_t *p, size_t n);
	/*
	 * A round trip: sent and received by our clock, the target's time in
	 * between.  Before on_status, and a few times more at first.
	 */
	void (*on_clock)(struct target *t, kp_mono_ns sent, kp_target_ns there,
	    kp_mono_ns received);
	/* last: its goodbye; nothing follows. */
	void (*on_status)(struct target *t, const struct agent_status *st,
	    bool last);
	/* Something to be told and recorded: kind is a short static word. */
	void (*on_notice)(struct target *t, const char *kind, const char *text);
	/*
	 * Somebody took what is ours, which was put back: for up to this long
	 * not everything was seen.
	 */
	void (*on_taken)(struct target *t, kp_dur_ns gap, const char *text);
	/*
	 * The agent passed a limit and has disarmed by itself.  Returns for how
	 * long it is to rest.
	 */
	kp_dur_ns (*on_trip)(struct target *t, const char *text);
	/* It has rested.  Returns for how much longer; 0: arm it again. */
	kp_dur_ns (*on_rested)(struct target *t);
	/* agent_clear_tokens() number so and so was done. */
	void (*on_cleared)(struct target *t, uint64_t number);
	/* What agent_reload() asked for. */
	void (*on_checked)(struct target *t, const struct agent_checked *c);
	/*
	 * What agent_reload_apply() asked for has come to its end.  Every
	 * event before was of the old configuration.
	 */
	void (*on_reloaded)(struct target *t, const struct agent_reloaded *r);
	/* It could not be attached to, and never was: try again later? */
	bool (*on_unreached)(struct target *t);
	/*
	 * Before it was ever armed: what it says to tiers.conf; its errors are
	 * what it lacks.
	 */
	enum agent_verdict (*on_missing)(struct target *t,
	    const struct kp_diags *diags);
	/* Once a second, if wanted: a list of atoms, the target's own first. */
	void (*on_nodes)(struct target *t, const struct kp_term *list);
	/*
	 * What agent_ask_names() asked for: a list, in its order, of each a name
	 * (an atom), the function that it began with ({M,F,A}), or []: it is
	 * gone.
	 */
	void (*on_names)(struct target *t, const struct kp_term *list);
	/*
	 * Wherever tiers.conf asks for messages: timed, or why not.  Told when
	 * armed, and when it changes.
	 */
	void (*on_messages)(struct target *t, bool timed, const char *why);
	/* diags of tiers.conf against this target */
	void (*on_diags)(struct target *t, const struct kp_diags *diags);
	/* No way on (not to be attached to, kept out): the agent has ended. */
	void (*on_failed)(struct target *t, enum agent_failure f,
	    const char *why);
	/* The end that agent_stop() asked for; a last status came before. */
	void (*on_stopped)(struct target *t);
};

struct agent_opts {
	const char *target, *name, *cookie;	/* borrowed */
	const struct kp_conf *conf;		/* borrowed */
	enum agent_probe probe;
	const char *probe_library;	/* where targets find it; borrowed */
	struct label_epochs *labels;	/* of all targets; borrowed */
	bool check_only;	/* stop after on_plan */
	bool nodes;		/* on_nodes is wanted */
	kp_dur_ns connect_limit;
};

/* NULL when out of memory. */
struct agent *agent_new(struct event_base *base, const struct agent_opts *o,
    const struct agent_ops *ops, struct target *owner);
/* Starts to connect; what comes of it may come before this returns. */
void agent_start(struct agent *a);
void agent_free(struct agent *a);

enum agent_state agent_state(const struct agent *a);
/* What is armed, or will be, as of now. */
const struct kp_plan *agent_plan(const struct agent *a);
/*
 * It sent what cannot be read, "a batch of events" say: told by on_notice,
 * once for a connection.  What was in it is missing, and counted so.
 */
void agent_nonsense(struct agent *a, const char *what);
/* Disarms, hands over what is queued, and detaches: then on_stopped. */
void agent_stop(struct agent *a);
/*
 * What the user wants from now on, over a lost connection too: on_state tells
 * when the target has come to it.  KP_ESTATE: it is ending.
 */
enum kp_err agent_pause(struct agent *a);
enum kp_err agent_resume(struct agent *a);
/*
 * Disarms for this time, whatever the user wants meanwhile (agent_resume ends
 * it).  Entry calls stay counted.  KP_ESTATE: it is not armed.
 */
enum kp_err agent_rest(struct agent *a, kp_dur_ns rest, const char *text);
/*
 * on_cleared tells when it is done, with *number.  KP_ESTATE when it is not
 * attached, or about to be.
 */
enum kp_err agent_clear_tokens(struct agent *a, uint64_t *number);
#define AGENT_NAMES_MAX 200	/* asked for at once */

/*
 * Which processes are these, each as serial << 32 | number?  on_names tells,
 * unless the connection is lost.  KP_ESTATE: it is not attached.
 */
enum kp_err agent_ask_names(struct agent *a, const uint64_t *procs, size_t n);
/* Another sampling rate for all entries: one request in n. */
enum kp_err agent_sample(struct agent *a, uint32_t one_in);
/* The answer to on_missing, where that was AGENT_WAIT. */
void agent_judge(struct agent *a, enum agent_verdict v);
/*
 * Another configuration in place of the one given to agent_new(), borrowed
 * from now on, in two steps, so that several targets have it or none: the
 * target is asked about it, and on_checked tells once, maybe before this
 * returns, what it says; nothing has changed then.  A target that does not
 * answer is lost, as in any other step.
 */
void agent_reload(struct agent *a, const struct kp_conf *conf);
/*
 * After on_checked: puts it in force, on_reloaded tells when, once, maybe
 * before this returns.  Where it cannot be armed after all the connection is
 * given up, and made again with it, as if it had been lost.
 */
void agent_reload_apply(struct agent *a);
/* Or not; at any time since agent_reload(). */
void agent_reload_cancel(struct agent *a);
/*
 * Disarms one function for good, whatever comes: a pause, another connection
 * ("mod:fun/arity" as interned).
 */
enum kp_err agent_disarm(struct agent *a, const char *mfa);

#endif
