/*
 * agent_internal.h - declares what the files of one target's agent share.  A file calls
 * only those above it in this list.
 *
 *   agent_msg.c     the messages as bytes; keeps no state
 *   agent_ask.c     states, questions and their answers, the end of a connection
 *   agent_spec.c    constants in labels; match specs that change while armed: sampling
 *   agent_plan.c    what is armed: the plan of a tiers.conf, pauses
 *   agent_notice.c  what the agent reports without being asked
 *   agent_attach.c  from a new connection to an agent that runs, with its probe
 *   agent.c         connections, leases, and all messages by their first atom
 */
#ifndef KPROFD_AGENT_AGENT_INTERNAL_H
#define KPROFD_AGENT_AGENT_INTERNAL_H

#include "kprofd/clock.h"
#include "agent/agent_msg.h"
#include "agent/headroom.h"
#include "conn/connect.h"
#include "conn/conn.h"

#define MESSAGE_MAX (8u << 20)	/* bytes of one message to the target */
#define STEP_MS 10000		/* the longest wait for an answer */
#define LEASES 8		/* whose send times are remembered */
#define ASKED_MAX 64		/* questions that are open: of the owner's clients */
#define ASKED_OWN 4		/* ... and these more, of the agent's own steps */

/* The plan of one tiers.conf on its way into force: see agent_plan.c. */
struct plan_run {
	struct agent *a;
	enum run_step {
		RUN_NONE,
		RUN_WAITING,	/* for a state that lasts, and for other runs */
		RUN_LOOKING,	/* which functions exist */
		RUN_LOOKED,	/* a check: that was answered */
		RUN_RESTING,	/* waits for the end of a slice, to be rated */
		RUN_RATING,	/* how often they are called */
		RUN_ASKING,	/* a reload: whether they may be armed */
		RUN_CHECKED,	/* ... that was answered */
		RUN_APPLYING,	/* it was sent */
		RUN_PAUSING,
		RUN_SLICING,	/* a step of a slice */
		RUN_OVER	/* a check: its last answer was given, or will be: away */
	} step;
	uint64_t asked;		/* the number of the open question; 0: none */
	const struct kp_conf *conf;	/* borrowed */
	struct kp_plan plan;
	struct kp_diags diags;	/* of the plan, until they are reported */
	size_t unrated;		/* functions whose rate is to be measured */
};

struct agent {
	struct event_base *base;
	struct agent_opts o;
	agent_event_fn *on_event;
	struct target *owner;
	enum agent_state state;
	struct connect *connect;
	struct dist_conn *link;
	const struct channel *channel;	/* of link; NULL: there is none */
	struct dist_ids ids;
	char node[NODE_NAME_MAX + 1];	/* our own name */
	struct agent_hello hello;
	struct event *timer;	/* limit of the step, pause, or backoff */
	struct kp_backoff backoff;
	bool attached_once, user_paused, stopping;
	char away[200];		/* with stopping: why it will be away; "": it ends */
	bool malformed;		/* reported since the connection was made */

	struct event *lease;	/* every second while attached */
	uint64_t leases;	/* sent so far: the number of the last, */
	kp_mono_ns lease_sent[LEASES];	/* when; by number */
	unsigned quick;		/* still to be sent, to learn the clock */
	unsigned silent;	/* leases sent since the last frame came */

	uint64_t questions;	/* the number of the last */
	struct question {
		uint64_t number;
		agent_answer_fn *on_answer;
		void *ctx;
		unsigned left;	/* seconds */
	} asked[ASKED_MAX + ASKED_OWN];	/* those that are open */
	unsigned nasked;

	/* agent_attach.c */
	unsigned leftover_tries;
	bool asked_whereis;
	bool asking_room;	/* after that: `room` */
	struct headroom room;
	enum {
		PROBE_FILE,	/* loads a file of the target's */
		PROBE_ACCEPTS,	/* whether it takes a library of ours */
		PROBE_SENT	/* loads what was sent */
	} probing;
	char probe_why[1600];	/* what the target did not load, and why */
	bool native;		/* the probe in use */

	/* agent_plan.c */
	struct plan_run now;	/* its plan and conf are in force, or will be */
	struct plan_run next;	/* of a reload, or a recheck: of changed code */
	struct plan_run trial;	/* of a check */
	struct {
		const struct kp_conf *wanted;	/* the next one; borrowed */
		agent_checked_fn *checked;
		bool recheck;	/* of changed code; conf is in force */
		bool planned;	/* the plan fits this connection */
		struct kp_plan_change n;
		uint32_t one_in;	/* sampling rate in the change */
	} reload;
	agent_checked_fn *check_answer;	/* to the question of the check */
	kp_dur_ns check_time;	/* to count */
	bool recheck_due;	/* code was changed */
	/*
	 * agent_notice.c: modules of tiers that were deleted, loaded again and loaded,
	 * not reported yet.
	 */
	struct code_changes {
		uint32_t n;	/* modules; 0: none */
		char names[4096];	/* ", a, b"; those that fit */
		int64_t gap, uncounted;	/* us: the longest */
		int64_t missing;
	} changes[3];
	kp_mono_ns changes_first, changes_last;	/* when they came */
	struct kp_spec_params params;
	enum agent_slice slice;	/* the step that was taken last */
	bool tiers_give;	/* some may have been armed with gives_tokens */
	uint16_t label;		/* constant of its labels; 0: none yet */
};

/* ---- agent_ask.c ---- */

/* Reports to the owner, and returns its answer. */
static inline int64_t
agent_emit(struct agent *a, struct agent_event e)
{
	return a->on_event(a->owner, &e);
}

/* AGENT_ON_REPORT */
void agent_report(struct agent *a, const char *word, const char *text);

void agent_set_state(struct agent *a, enum agent_state s, const char *text);
/* Sets the limit of the step, pause, or backoff. */
void agent_timer(struct agent *a, unsigned ms);
/* True: our agent runs there, and is not being stopped. */
bool agent_attached(const struct agent *a);
/* Closes the connection; makes another one later, or ends. */
void agent_lost(struct agent *a, const char *why);
/* Ends it, as failed. */
void agent_fail(struct agent *a, enum agent_end end, const char *why);
/* Fails if it was never attached; else tries again later. */
void agent_fail_or_retry(struct agent *a, const char *why);
/* Ends it, as stopped. */
void agent_gone(struct agent *a, const char *text);
/* After it was set to be stopping: goes on until it is gone. */
void agent_leave(struct agent *a);
void agent_drop_connection(struct agent *a);
/* Starts to renew the lease; then once a second, which limits all questions, too. */
void agent_lease_start(struct agent *a);
void agent_lease_renew(struct agent *a);
/*
 * Takes the time of a status that answers a lease.  True: the lease was sent
 * only for the clock, and the status is not to be used.
 */
bool agent_lease_answer(struct agent *a, const struct agent_status *st);
/* Sends an external term to the target's rex, or to the agent. */
void agent_send(struct agent *a, const struct kp_buf *message, bool to_rex);
/* As agent_ask(), for one of the agent's own steps. */
uint64_t agent_ask_own(struct agent *a, struct kp_buf *b,
    agent_answer_fn *on_answer, void *ctx, kp_dur_ns limit);
/* Sends a command whose answer is not used, and frees b. */
void agent_tell(struct agent *a, struct kp_buf *b);
/* Nobody wants the answer to this question any more. */
void agent_forget(struct agent *a, uint64_t number);
/* {kprof_reply, Ref, Result}: the terms behind the atom. */
void agent_on_reply(struct agent *a, struct kp_term *r);

/* ---- agent_spec.c ---- */

/* Renews the match spec of an entry, for the rate and outcomes of now. */
void agent_entry_respec(struct agent *a, const struct kp_plan_item *item);

/* ---- agent_plan.c ---- */

/* Asks which functions of tiers.conf exist; in the end it is armed. */
void agent_plan_start(struct agent *a);
/*
 * To be called after everything that may have changed the state: goes on with a
 * reload, recheck or check that waits for that, or ends it.
 */
void agent_plan_turn(struct agent *a);
/* It is disarmed; resumes after this time. */
void agent_set_pause(struct agent *a, kp_dur_ns pause, const char *text);
/* That time is over. */
void agent_pause_over(struct agent *a);

/* ---- agent_notice.c ---- */

/* The terms behind {kprof_notice, .. */
void agent_on_notice(struct agent *a, struct kp_term *r);
/* Reports changes of code: when none came for a second, or now. */
void agent_report_changes(struct agent *a, bool now);

/* ---- agent_attach.c ---- */

/* The first step after the connection is made. */
void agent_look(struct agent *a);
/* {rex, Answer}: the term Answer. */
void agent_on_rex(struct agent *a, struct kp_term *r);

/* How to take patterns that a tool like eflambe has left on every function. */
#define AGENT_CLEAR_ALL "erlang:trace_pattern({'_','_','_'}, false, [local]), " \
	"erlang:trace_pattern(on_load, false, [local])."

#endif
