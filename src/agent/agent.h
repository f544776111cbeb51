/*
 * agent.h - the daemon's side of the agent in one target: connects, loads the
 * agent, finds out which functions can be armed, arms them, renews the lease, and
 * starts over when the connection is lost.
 *
 * To arm a function is to set its trace pattern; a target is armed while tracing
 * is on.
 *
 * It is a state machine over one connection, and reports everything to its owner, as
 * events (struct agent_event).  The owner is the struct target of the program: the
 * daemon's is in daemon/nodes/target.h.  It keeps no statistics.
 */
#ifndef KPROFD_AGENT_AGENT_H
#define KPROFD_AGENT_AGENT_H

#include <event2/event.h>

#include "kprofd/guard.h"
#include "kprofd/label.h"
#include "kprofd/plan.h"
#include "conn/handshake.h"

#define AGENT_PROTOCOL 9	/* of kprof_agent.erl */
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
	AGENT_AWAY,		/* has detached, until agent_come_back() */
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

/* Why it has ended. */
enum agent_end {
	AGENT_STOPPED,		/* by agent_stop() */
	AGENT_FAILED,		/* trying again would not help */
	AGENT_KEPT_OUT		/* the target's operator forbids it */
};

/* Whether to arm a target that lacks functions of tiers.conf. */
enum agent_verdict {
	AGENT_REFUSE,
	AGENT_GO_ON,
	AGENT_WAIT		/* agent_judge() follows */
};

/* The target's answer to another configuration; borrowed during the call. */
struct agent_checked {
	enum agent_checked_how {
		AGENT_CHECKED_DONE,	/* see diags, which may have errors */
		AGENT_CHECKED_AWAY,	/* it is not attached, or is ending */
		AGENT_CHECKED_REFUSED	/* the node cannot arm it; see why */
	} how;
	const struct kp_plan *plan;
	const struct kp_diags *diags;
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

/* The steps of a slice of time (agent_slice()), in their order. */
enum agent_slice {
	AGENT_SLICE_READY,	/* tiers are armed */
	AGENT_SLICE_OPEN,	/* requests begin */
	AGENT_SLICE_CLOSE,	/* no request begins any more */
	AGENT_SLICE_REST	/* nothing is armed */
};

/*
 * What the agent reports to its owner.  Behind each kind are the fields that it has;
 * what they point to is good during the call.
 */
struct agent_event {
	enum agent_event_kind {
		/* state, text; with AGENT_ENDED also end: no other report follows */
		AGENT_ON_STATE,
		AGENT_ON_HELLO,		/* hello */
		/*
		 * native: the probe in use, unless relay was asked for; after each
		 * hello, before anything is armed.  text: the reason for relay, or
		 * for sending the native one's library, or NULL.
		 */
		AGENT_ON_PROBE,
		/* It could not be attached to, and never was; answer 1: try again later. */
		AGENT_ON_UNREACHED,
		/*
		 * Before it is armed for the first time: errors of diags are functions
		 * of tiers.conf that it lacks; the answer is an agent_verdict.
		 */
		AGENT_ON_MISSING,
		AGENT_ON_DIAGS,		/* diags, of tiers.conf for this target */
		AGENT_ON_PLAN,		/* agent_plan() will be armed, with call rates */
		/*
		 * agent_plan() has changed: with the native probe because code was
		 * loaded, with either because a function was too hot.
		 */
		AGENT_ON_REPLANNED,
		/*
		 * agent_reload_apply() has ended: reloaded.  All events before were of
		 * the old configuration.
		 */
		AGENT_ON_RELOADED,
		AGENT_ON_BATCH,		/* message: a whole {kprof_events, ...} */
		/* message: {kprof_stacks | kprof_groups, ...} (kprofd/stacks.h) */
		AGENT_ON_STACKS,
		/*
		 * A round trip for the clock offset: sent and received by our clock,
		 * `there` by the target's, in between.  Before each status, and a few
		 * times more after attaching.
		 */
		AGENT_ON_CLOCK,
		/* status; last: the agent's goodbye; no event follows */
		AGENT_ON_STATUS,
		/*
		 * The VM has counted more calls while armed: of entries, and of the
		 * functions of each of KP_TIER_MAX tiers.
		 */
		AGENT_ON_CALLS,
		/* If tiers.conf asks for messages: timed, or why not (text); on changes. */
		AGENT_ON_MESSAGES,
		/*
		 * text is to be logged as word, a short static one.  gap: for up to this
		 * time not everything was traced.  ago: time since it began.
		 */
		AGENT_ON_REPORT,
		AGENT_ON_CONNECTED,	/* the target has connected to the node text */
		/*
		 * The agent was over a limit and has disarmed.  word: the reason's name, a
		 * string constant; limit: which; NULL where text says what to do.  The answer
		 * is for how long tracing is to pause.
		 */
		AGENT_ON_TRIP,
		AGENT_ON_SLICE,		/* slice: this step is done */
		/* The pause is over; the answer is how much longer to wait; 0: resume. */
		AGENT_ON_PAUSE_OVER
	} kind;
	enum agent_state state;
	enum agent_end end;
	enum agent_slice slice;
	const char *word, *text;
	bool native, timed, last;
	const struct agent_hello *hello;
	const struct kp_diags *diags;
	const struct agent_reloaded *reloaded;
	const struct agent_status *status;
	const struct kp_trip_limit *limit;
	struct kp_span message;
	kp_mono_ns sent, received;
	kp_target_ns there;
	kp_dur_ns gap, ago;
	uint64_t entries;
	const uint64_t *tiers;
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
struct target;		/* the owner */

/* Returns the answer of the kinds that have one, in ns where it is a time; else 0. */
typedef int64_t agent_event_fn(struct target *t, const struct agent_event *e);

/* It comes once for each question, maybe before the function that asks returns. */
typedef void agent_checked_fn(struct target *t, const struct agent_checked *c);

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
	 * identities (kp_spec_params).  The owner ends it by agent_stop(), at
	 * AGENT_ON_PLAN if nothing is to be armed.
	 */
	bool check_only;
	kp_dur_ns check_time;	/* how long a check counts calls */
	enum kp_shape shape;	/* of calls, in a check */
	kp_dur_ns connect_limit;
	/* What a check can do where a kprofd is attached; NULL: nothing. */
	const char *occupied_hint;
};

/* NULL when out of memory. */
struct agent *agent_new(struct event_base *base, const struct agent_opts *o,
    agent_event_fn *on_event, struct target *owner);
/* Starts to connect.  Reports may come before it returns. */
void agent_start(struct agent *a);
void agent_free(struct agent *a);

enum agent_state agent_state(const struct agent *a);
/* The connection, for status; NULL: there is none. */
const struct channel *agent_channel(const struct agent *a);
/* What is armed, or will be. */
const struct kp_plan *agent_plan(const struct agent *a);
/*
 * The target sent something that cannot be read, such as "a batch of events":
 * reported once for a connection.
 */
void agent_malformed(struct agent *a, const char *what);
/* Disarms, has queued events sent, and detaches; then it has ended. */
void agent_stop(struct agent *a);
/*
 * The same, but then it is away: the node is as if kprofd had never been there, until
 * it attaches again.  agent_come_back() is for AGENT_AWAY.  why: in words, copied.
 */
void agent_go_away(struct agent *a, const char *why);
void agent_come_back(struct agent *a);
/* It is away, or on its way there. */
bool agent_goes_away(const struct agent *a);
/*
 * The state that the user wants, which survives a lost connection; AGENT_ON_STATE
 * comes when the target is in it, unless it is ending.
 */
void agent_pause(struct agent *a);
void agent_resume(struct agent *a);
/*
 * Pauses tracing for this time because of an overload, if it is armed;
 * agent_resume() ends that.  Entry calls are counted.
 */
void agent_pause_for(struct agent *a, kp_dur_ns pause, const char *text);

/* ---- questions ---- */

#define AGENT_NAMES_MAX 200	/* processes in one question, */
#define AGENT_STACKS_MAX 200	/* likewise */
#define AGENT_ANSWER_S 10	/* the usual limit, in seconds of a process that runs */

/*
 * The answer to the question of this number: a term, good during the call.  NULL: none
 * will come, since the connection is lost or the limit has passed.
 */
typedef void agent_answer_fn(void *ctx, uint64_t number, struct kp_term *answer);

/* Opens a message in b, which the caller completes with a command (agent_msg.h). */
void agent_ask_begin(struct agent *a, struct kp_buf *b);
/*
 * Sends the command, frees b, and returns the question's number; on_answer comes once,
 * and not before this returns, unless the agent is freed.  0: it is not attached, or
 * too many questions are open.  Seconds are counted by answered leases, so that time
 * in which kprofd is stopped does not count.
 */
uint64_t agent_ask(struct agent *a, struct kp_buf *b, agent_answer_fn *on_answer,
    void *ctx, unsigned seconds);

/* ---- what is armed ---- */

/* Another sampling rate for all entries: one request in n. */
void agent_sample(struct agent *a, uint32_t one_in);
/*
 * From now on requests are measured in slices of time, or all again: the target rests
 * after it is armed, or resumed, until a slice begins.  What is armed now stays so.
 */
void agent_sliced(struct agent *a, bool sliced);
/*
 * Takes a step of a slice: AGENT_ON_SLICE follows, unless the state changes before, or
 * another step is taken, which the target takes after this one.
 * one_in: with AGENT_SLICE_OPEN, how many requests each of this slice stands for.
 * False: it is not armed, or another tiers.conf is on its way into force, or calls are
 * counted.
 */
bool agent_slice(struct agent *a, enum agent_slice step, uint32_t one_in);
/* It counts calls, of a check or a reload, beside what is armed. */
bool agent_counts(const struct agent *a);
/*
 * From now on tiers give tokens to processes that have none, or not: see
 * kp_spec_params.  Nothing happens while a reload is put in force, after which not
 * all of them give any: call it again.
 */
void agent_give_tokens(struct agent *a, bool give);
bool agent_gives_tokens(const struct agent *a);	/* all tiers do */
/* The answer to AGENT_ON_MISSING, where that was AGENT_WAIT. */
void agent_judge(struct agent *a, enum agent_verdict v);
/*
 * Replaces the configuration in two steps, so that all targets take it or none.
 * First the target checks it, and answers `checked`; nothing has changed then.  conf is
 * borrowed from now on.  A target that does not answer is lost, as in any other step.
 */
void agent_reload(struct agent *a, const struct kp_conf *conf,
    agent_checked_fn *checked);
/*
 * Then puts it in force: AGENT_ON_RELOADED comes once, maybe before this returns.
 * If arming fails after all, the agent closes the connection and makes it again, as
 * if it had been lost.
 */
void agent_reload_apply(struct agent *a);
/* Discards it, at any time after agent_reload(). */
void agent_reload_cancel(struct agent *a);
/*
 * Checks another configuration beside the one in force: nothing that is armed
 * changes.  First it looks which functions there are.  conf is borrowed until
 * agent_check_end().  A reload, and arming what new code has, wait for that end.
 */
void agent_check(struct agent *a, const struct kp_conf *conf,
    agent_checked_fn *looked);
/*
 * After AGENT_CHECKED_DONE of that: counts the calls of the functions for this time.
 */
void agent_check_count(struct agent *a, kp_dur_ns time,
    agent_checked_fn *counted);
/* Ends it, at any time; nothing is counted any more, and no answer comes. */
void agent_check_end(struct agent *a);
/*
 * Disarms one function for good, over pauses and lost connections; mfa is
 * "mod:fun/arity" as interned.
 */
void agent_disarm(struct agent *a, const char *mfa);

#endif
