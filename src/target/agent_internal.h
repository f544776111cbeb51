/*
 * agent_internal.h - what the files of one target's agent share.
 *
 *   agent.c        the connection's life, timers, what the owner asks for
 *   agent_steps.c  the questions on the way to being armed, their answers
 *   agent_probe.c  which probe: relay or native
 *   agent_notice.c what the agent reports without being asked
 *   agent_reload.c arms the plan of another tiers.conf, or of changed code
 *   agent_msg.c    the messages as bytes; keeps no state
 */
#ifndef KP_TARGET_AGENT_INTERNAL_H
#define KP_TARGET_AGENT_INTERNAL_H

#include "kprofd/backoff.h"
#include "target/agent_msg.h"
#include "dist/connect.h"
#include "dist/conn.h"

#define MESSAGE_MAX (8u << 20)	/* bytes of one message to the target */
#define STEP_MS 10000		/* the longest wait for an answer, */
#define STEP_EACH_MS 100	/* and for each function, in a busy node; */
#define STEP_FLAGS_MS 20000	/* and for the flags of its processes: see FLAGS_MS */
#define LEASES 8		/* whose answers may be on their way */
#define LEASES_QUICK 8		/* at first: its clock is to be known soon */
/* References from here on are of clear_tokens, which no step waits for. */
#define CLEAR_REFS (UINT64_C(1) << 40)
#define RELOAD_REFS (UINT64_C(1) << 41)	/* and of agent_reload() */

enum reload_step {
	RELOAD_NONE,
	RELOAD_WAITING,		/* for a state that lasts */
	RELOAD_CHECKING,	/* which of its functions exist? */
	RELOAD_RATING,		/* how often are the new ones called? */
	RELOAD_ASKING,		/* may they be armed? */
	RELOAD_CHECKED,		/* the owner has the answer */
	RELOAD_APPLYING		/* the difference was sent */
};
#define NODES_REF (CLEAR_REFS - 1)	/* which nodes it sees */
#define NAMES_REF (CLEAR_REFS - 2)	/* who these processes are */

struct agent {
	struct event_base *base;
	struct agent_opts o;
	const struct agent_ops *ops;
	struct target *owner;
	enum agent_state state;
	struct connect *connect;
	struct dist_conn *link;
	struct dist_ids ids;
	struct agent_hello hello;
	struct kp_plan plan;
	struct kp_spec_params params;
	struct event *lease;	/* every second while attached */
	uint64_t leases;	/* sent so far: the number of the last, */
	kp_mono_ns lease_sent[LEASES];	/* when; by number */
	unsigned quick;		/* of LEASES_QUICK, still to be sent */
	struct event *timer;	/* limit of the step, rest, or backoff */
	uint64_t ref;		/* of the command waited for */
	uint64_t clears;	/* clear_tokens asked for so far */
	uint64_t reloads;	/* questions of reloads, likewise */
	struct {
		enum reload_step step;
		const struct kp_conf *wanted;	/* when this is over; borrowed */
		const struct kp_conf *conf;	/* to be in force; borrowed */
		bool look;	/* code was changed, conf is in force */
		unsigned waited;	/* seconds, for the answer of now */
		struct kp_plan plan;
		struct kp_diags diags;	/* of that */
		bool planned;		/* plan is the target's, as it is now */
		struct kp_plan_change n;
		uint32_t one_in;	/* that the difference was sent with */
	} reload;
	struct kp_diags diags;	/* of the plan, while the owner judges them */
	uint16_t label;		/* of labels; 0: none yet */
	unsigned leftover_tries;
	unsigned silent;	/* leases sent since the last frame came */
	struct kp_backoff backoff;
	bool looked_for_process;
	bool look_again;	/* at what there is to arm now */
	bool attached_once, user_paused, stopping;
	bool probing;		/* AGENT_CHECKING: for the native probe */
	bool native;		/* that is what this agent has */
	bool nonsense;		/* reported since the connection was made */
	char node[NODE_NAME_MAX + 1];	/* our own name */
};

/* agent.c */
void agent_set_state(struct agent *a, enum agent_state s, const char *text);
/* The running step's limit, rest, or backoff. */
void agent_timer(struct agent *a, unsigned ms);
/* No way on: ends it. */
void agent_fail(struct agent *a, enum agent_failure f, const char *why);
/* The same if it was never attached; else it may be as it was again. */
void agent_hopeless(struct agent *a, const char *why);
/* The connection is no use any more: another one later, or the end. */
void agent_lost(struct agent *a, const char *why);
/* The end that was asked for, in whatever way it came. */
void agent_gone(struct agent *a, const char *text);
/* Renews the match spec of an entry, for the rate and outcomes of now. */
enum kp_err agent_entry_respec(struct agent *a,
    const struct kp_plan_item *item);
/* In a state that lasts: goes on to the one that the user wants. */
void agent_settle(struct agent *a);
/* Disarmed: armed again after that time. */
void agent_set_rest(struct agent *a, kp_dur_ns rest, const char *text);
/* The agent runs: from now on its lease is renewed. */
void agent_lease_start(struct agent *a);
/*
 * Takes the time of a status that answers a lease.  True: that was all that
 * it was asked for.
 */
bool agent_lease_answer(struct agent *a, const struct agent_status *st);

/* agent_steps.c */
void agent_step_look(struct agent *a);
/* As on_frame of struct dist_conn_ops; ctx is the agent. */
void agent_on_frame(void *ctx, const struct kp_frame *f);
/* A command that the step waits for: begun, filled in, sent and freed. */
void agent_command_begin(struct agent *a, struct kp_buf *b);
/*
 * A command that no step waits for: begun, filled in, sent and freed.  ref 0:
 * nobody waits for its answer.
 */
void agent_aside_begin(struct agent *a, struct kp_buf *b, uint64_t ref);
void agent_command_end(struct agent *a, struct kp_buf *b);
/* One that the step waits for, with a fresh reference. */
void agent_command(struct agent *a, const char *cmd);
/* A step that waits for an answer of the target. */
void agent_set_step(struct agent *a, enum agent_state s);

/* What there is to arm, of which the agent is asked. */
void agent_step_check(struct agent *a);

/* agent_probe.c */
/* The agent runs: on to agent_step_check(), by way of the native probe. */
void agent_step_probe(struct agent *a);
void agent_answer_probe(struct agent *a, struct kp_term *r);
/* A plan just made: with the native probe outcomes are exact. */
void agent_probe_plan(struct agent *a, struct kp_plan *plan,
    const struct kp_plan *before);

/* agent_reload.c */
void agent_reload_answer(struct agent *a, uint64_t ref, struct kp_term *r);
/* What there is to arm may have changed: asks, and arms what is new. */
void agent_recheck(struct agent *a);
/* The state is another one: goes on with a reload that waits, or ends it. */
void agent_reload_state(struct agent *a);
/* Once a second, while attached: an answer may not be long in coming. */
void agent_reload_tick(struct agent *a);
/* agent_notice.c: the terms behind {kprof_notice, .. */
void agent_on_notice(struct agent *a, struct kp_term *r);

#endif
