/*
 * agent_internal.h - what the files of one target's agent share.
 *
 *   agent.c        the connection's life, timers, what the owner asks for
 *   agent_attach.c from a new connection to an agent that runs, with its probe
 *   agent_steps.c  from there to being armed; all messages of the agent
 *   agent_notice.c what the agent reports without being asked
 *   agent_reload.c arms the plan of another tiers.conf, or of changed code
 *   agent_check.c  checks the plan of another tiers.conf, and arms nothing
 *   agent_msg.c    the messages as bytes; keeps no state
 */
#ifndef KPROFD_AGENT_AGENT_INTERNAL_H
#define KPROFD_AGENT_AGENT_INTERNAL_H

#include "kprofd/backoff.h"
#include "agent/agent_msg.h"
#include "agent/headroom.h"
#include "conn/connect.h"
#include "conn/conn.h"

#define MESSAGE_MAX (8u << 20)	/* bytes of one message to the target */
#define STEP_MS 10000		/* the longest wait for an answer, */
#define STEP_EACH_MS 100	/* and for each function of a busy node; */
#define STEP_FLAGS_MS 20000	/* and for flags of processes: see FLAGS_MS */
#define PROBE_MS 200		/* how long calls are counted for a rate */
#define LEASES 8		/* whose send times are remembered */
#define LEASES_QUICK 8		/* after attaching, to learn its clock */
/* References above this are of clear_tokens, which no step waits for. */
#define CLEAR_REFS (UINT64_C(1) << 40)
#define RELOAD_REFS (UINT64_C(1) << 41)	/* above this, of agent_reload() */
#define CHECK_REFS (UINT64_C(1) << 42)	/* above this, of agent_check() */
#define STACKS_REFS (UINT64_C(1) << 43)	/* above this, of agent_ask_stacks() */

enum reload_step {
	RELOAD_NONE,
	RELOAD_WAITING,		/* for a state that lasts */
	RELOAD_CHECKING,	/* which of its functions exist */
	RELOAD_RATING,		/* how often the new ones are called */
	RELOAD_ASKING,		/* whether they may be armed */
	RELOAD_CHECKED,		/* on_checked was called */
	RELOAD_APPLYING		/* the difference was sent */
};

enum check_step {
	CHECK_NONE,
	CHECK_WAITING,		/* for a state that lasts, or a recheck's end */
	CHECK_LOOKING,		/* which of its functions exist */
	CHECK_LOOKED,		/* on_looked was called */
	CHECK_COUNTING,		/* calls of the functions */
	CHECK_DONE		/* the last answer was given, or will be: away */
};

enum probe_step {
	PROBE_NONE,
	PROBE_FILE,		/* loads a file of the target's */
	PROBE_ACCEPTS,		/* whether it takes a library of ours */
	PROBE_SENT		/* loads what was sent */
};
#define NODES_REF (CLEAR_REFS - 1)	/* of the nodes that it sees */
#define NAMES_REF (CLEAR_REFS - 2)	/* of names of processes */
#define WAITS_REF (CLEAR_REFS - 3)	/* of what processes wait for */

struct agent {
	struct event_base *base;
	struct agent_opts o;
	const struct agent_ops *ops;
	struct target *owner;
	enum agent_state state;
	struct connect *connect;
	struct dist_conn *link;
	const struct channel *channel;	/* of link; NULL: there is none */
	struct dist_ids ids;
	struct agent_hello hello;
	struct kp_plan plan;
	struct kp_spec_params params;
	bool tiers_give;	/* some may have been armed with gives_tokens */
	struct event *lease;	/* every second while attached */
	uint64_t leases;	/* sent so far: the number of the last, */
	kp_mono_ns lease_sent[LEASES];	/* when; by number */
	unsigned quick;		/* of LEASES_QUICK, still to be sent */
	struct event *timer;	/* limit of the step, pause, or backoff */
	uint64_t ref;		/* of the command that the step waits for */
	uint64_t clears;	/* number of the last clear_tokens */
	uint64_t stack_asks;	/* requests of agent_ask_stacks() */
	uint64_t reloads;	/* number of the last question of a reload */
	struct {
		enum reload_step step;
		const struct kp_conf *wanted;	/* the next one; borrowed */
		const struct kp_conf *conf;	/* to be in force; borrowed */
		bool recheck;	/* of changed code; conf is in force */
		unsigned waited;	/* seconds, for the answer */
		struct kp_plan plan;
		struct kp_diags diags;	/* of the plan */
		bool planned;		/* the plan fits this connection */
		struct kp_plan_change n;
		uint32_t one_in;	/* sampling rate in the change */
	} reload;
	uint64_t checks;	/* number of the last question of a check */
	struct {
		enum check_step step;
		const struct kp_conf *conf;	/* borrowed */
		kp_dur_ns time;		/* to count */
		unsigned waited;	/* seconds, for the answer */
		struct kp_plan plan;
		struct kp_diags diags;	/* of the step */
	} check;
	struct kp_diags diags;	/* of the plan, until agent_judge() */
	uint16_t label;		/* constant of its labels; 0: none yet */
	unsigned leftover_tries;
	unsigned silent;	/* leases sent since the last frame came */
	struct kp_backoff backoff;
	bool asked_whereis;
	bool asking_room;	/* after that: `room` */
	struct headroom room;
	bool recheck_due;	/* code was changed */
	bool attached_once, user_paused, stopping;
	enum probe_step probing; /* AGENT_CHECKING is for the native probe */
	char probe_why[1600];	/* what the target did not load, and why */
	bool native;		/* the probe in use */
	bool malformed;		/* reported since the connection was made */
	char node[NODE_NAME_MAX + 1];	/* our own name */
};

/* agent.c */
void agent_set_state(struct agent *a, enum agent_state s, const char *text);
/* Sets the limit of the step, pause, or backoff. */
void agent_timer(struct agent *a, unsigned ms);
/* Ends it with on_failed. */
void agent_fail(struct agent *a, enum agent_failure f, const char *why);
/* Fails if it was never attached; else tries again later. */
void agent_fail_or_retry(struct agent *a, const char *why);
/* Closes the connection; makes another one later, or ends. */
void agent_lost(struct agent *a, const char *why);
/* Ends it with on_stopped. */
void agent_gone(struct agent *a, const char *text);
/* Renews the match spec of an entry, for the rate and outcomes of now. */
enum kp_err agent_entry_respec(struct agent *a,
    const struct kp_plan_item *item);
/* In a state that lasts: starts to change to the one that the user wants. */
void agent_settle(struct agent *a);
/* It is disarmed; resumes after this time. */
void agent_set_pause(struct agent *a, kp_dur_ns pause, const char *text);
/* Starts to renew the lease. */
void agent_lease_start(struct agent *a);
/*
 * Takes the time of a status that answers a lease.  True: the lease was sent
 * only for the clock, and the status is not to be used.
 */
bool agent_lease_answer(struct agent *a, const struct agent_status *st);

/* agent_attach.c */
/* The first step after the connection is made. */
void agent_step_look(struct agent *a);
/* {rex, Answer}: the term Answer. */
void agent_on_rex(struct agent *a, struct kp_term *r);

/* agent_steps.c */
/* As on_frame of struct dist_conn_ops; ctx is the agent. */
void agent_on_frame(void *ctx, const struct kp_frame *f);
/* Sends an external term to the target's rex, or to the agent. */
void agent_send(struct agent *a, const struct kp_buf *message, bool to_rex);
/* A command that the step waits for: begun, filled in, sent and freed. */
void agent_command_begin(struct agent *a, struct kp_buf *b);
/*
 * The same for a command that no step waits for.  ref 0: its answer is not used.
 */
void agent_aside_begin(struct agent *a, struct kp_buf *b, uint64_t ref);
void agent_command_end(struct agent *a, struct kp_buf *b);
/* One that the step waits for, with a fresh reference. */
void agent_command(struct agent *a, const char *cmd);
/* A step that waits for an answer of the target. */
void agent_set_step(struct agent *a, enum agent_state s);

/* Asks which functions of tiers.conf exist. */
void agent_step_check(struct agent *a);

/* While the native probe is loaded. */
void agent_answer_probe(struct agent *a, struct kp_term *r);

/* agent_reload.c */
void agent_reload_answer(struct agent *a, uint64_t ref, struct kp_term *r);
/* Code was changed: asks which functions exist, and arms new ones. */
void agent_recheck(struct agent *a);
/* After a change of state: goes on with a reload that waits, or ends it. */
void agent_reload_state(struct agent *a);
/* Once a second, while attached: limits the wait for an answer. */
void agent_reload_tick(struct agent *a);
/* A check has ended: goes on with a reload or recheck that waited for that. */
void agent_reload_next(struct agent *a);

/* agent_check.c: the same for a check. */
void agent_check_answer(struct agent *a, uint64_t ref, struct kp_term *r);
void agent_check_state(struct agent *a);
void agent_check_tick(struct agent *a);
bool agent_check_runs(const struct agent *a);
/* True: armed, paused or tripped, which only an event ends. */
bool agent_state_lasts(const struct agent *a);
/* agent_notice.c: the terms behind {kprof_notice, .. */
void agent_on_notice(struct agent *a, struct kp_term *r);
/* How to take patterns that a tool like eflambe has left on every function. */
#define AGENT_CLEAR_ALL "erlang:trace_pattern({'_','_','_'}, false, [local]), " \
	"erlang:trace_pattern(on_load, false, [local])."

#endif
