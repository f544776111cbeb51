/*
 * target.h - the data path of one target: agent -> decode -> assembly, and from
 * there closed windows and slow trees to the store.
 */
#ifndef KPROFD_DAEMON_NODES_TARGET_H
#define KPROFD_DAEMON_NODES_TARGET_H

#include "daemon/daemon.h"
#include "daemon/nodes/assembly.h"
#include "daemon/nodes/rate_limit.h"
#include "daemon/nodes/ledger.h"
#include "daemon/nodes/messages.h"
#include "daemon/nodes/unresolved.h"
#include "daemon/nodes/waits.h"
#include "kprofd/sampling.h"
#include "daemon/nodes/target_guard.h"
#include "guard/tracing_cost.h"
#include "daemon/overload.h"
#include "kprofd/nodes.h"
#include "kprofd/offset.h"
#include "agent/agent.h"

struct check;
struct kp_native;
struct targets;

struct target {
	struct agent_opts opts;
	char typed[KP_NODE_TYPED_MAX + 1];	/* opts.target: perhaps with a
						   port */
	const struct parts *p;
	struct targets *set;		/* that it is one of */
	struct agent *agent;
	struct assembly_part part;
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
	struct overload overload;
	struct overhead overhead;
	struct tracing_cost tracing_cost;
	struct waits waits;
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
	struct messages messages;
	struct agent_status status;	/* the last one */
	uint64_t events, batches, windows;
	kp_target_ns last_sent;		/* when it sent its last batch or
					   status; 0: none yet */
	bool was_armed;
	const char *doubt;		/* channel_doubt(), as logged last */
	bool unfit;			/* a check found errors of tiers.conf */
	struct check *check;		/* NULL: profiles */
	kp_mono_ns endless_since;	/* calls of entries, but no return; 0:
					   there are returns, or no calls */
	bool logged_endless;		/* that was logged */
	size_t hot;			/* functions reported as too hot */
	bool unplaced;			/* see assembly_join() */
	char state_text[512];
	char lost_reported[512];	/* why it was lost, as last reported;
					   "": attached since */
	/* for the set that it is one of: see targets.h */
	struct {
		unsigned sources;	/* what asks for it; 0: to be removed */
		bool tried;		/* the first attempt has ended, */
		bool unreached;		/* without success */
		bool over;		/* its agent has ended, for good */
		bool failed;		/* ... with this failure */
		enum agent_failure failure;
		bool awaits_verdict;	/* depends on what others have */
		struct unresolved unresolved;
		kp_mono_ns seen;	/* in the cluster, last */
	} in_set;
};

/*
 * NULL when out of memory.  Callbacks begin with agent_start().  Before
 * target_free() call assembly_part_leave() and then target_rotate().
 */
struct target *target_new(struct event_base *base,
    const struct agent_opts *o, const struct parts *p, struct assembly *a,
    struct targets *set);
void target_free(struct target *t);
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
 * Puts the configuration of assembly_prepare() in force: counts what is in
 * flight as lost, closes the window, and starts from zero.
 */
void target_switch(struct target *t);

#endif
