/*
 * target.h - the data path of one target: agent -> decode -> assembly, and from
 * there closed windows and slow trees to the store.
 */
#ifndef KPROFD_DAEMON_TARGET_TARGET_H
#define KPROFD_DAEMON_TARGET_TARGET_H

#include "daemon/target/assembly.h"
#include "base/rate_limit.h"
#include "daemon/target/ledger.h"
#include "daemon/target/messages.h"
#include "daemon/target/unresolved.h"
#include "kprofd/sampling.h"
#include "daemon/target/overhead.h"
#include "guard/tracing_cost.h"
#include "daemon/overload.h"
#include "kprofd/offset.h"
#include "target/agent.h"

struct commands;
struct daemon;
struct kp_native;
struct reload;
struct targets;

/* All borrowed. */
struct target_parts {
	struct kp_store *store;		/* NULL: nothing is kept (-check) */
	struct assembly *assembly;
	struct targets *set;		/* that it is one of */
	struct daemon *daemon;
	struct commands *commands;	/* NULL, as reload: only a check */
	struct reload *reload;
};

struct target {
	struct agent_opts opts;
	struct target_parts p;
	struct agent *agent;
	struct assembly_part part;
	struct kp_offset offset;	/* of its clock to ours */
	struct kp_sampler sampler;
	struct overload watch;
	struct overhead spending;
	struct tracing_cost traced;
	char crossed[512];		/* the last server of on_crossed;
					   "": none */
	struct ledger ledger;
	struct rate_limit hush;
	struct kp_losses lost;		/* of this window, found here */
	struct kp_losses lost_ever;	/* of all closed windows, for status */
	const char *node;		/* as it names itself; till then as typed */
	struct agent_hello hello;
	struct kp_native *names;	/* of its native probe's slots */
	bool native;			/* its probe, now, */
	char relay_why[1200];		/* ... and why not; "": as wished */
	struct mail_watch mail;
	struct agent_status status;
	uint64_t events, batches, windows;
	kp_target_ns heard;		/* when its last word was sent; 0: none */
	bool armed_ever;
	size_t hot;			/* functions that are too hot, as told */
	bool unplaced;			/* see assembly_join() */
	char state_text[512];
	char lost_text[512];		/* told last; "": attached since */
	/* for the set that it is one of: see targets.h */
	struct {
		unsigned sources;	/* who wants it; 0: it is to go */
		bool tried;		/* the first attempt came to its end, */
		bool unreached;		/* in vain */
		bool over;		/* no agent any more, for good */
		bool failed;		/* ... and why */
		enum agent_failure failure;
		bool judging;		/* waits for what the others have */
		struct unresolved missing;
		kp_mono_ns seen;	/* in the cluster, last */
	} in_set;
};

/*
 * NULL when out of memory.  Callbacks begin with agent_start().  Before it is
 * freed it gives up its place, by assembly_part_leave(), and is rotated once
 * more.
 */
struct target *target_new(struct event_base *base,
    const struct agent_opts *o, const struct target_parts *parts);
void target_free(struct target *t);
/*
 * Closes the running window, as of that moment, and hands it to the store; one
 * that began after it, as by a dump since, goes on.
 */
void target_rotate(struct target *t, struct kp_moment at);
/*
 * Another configuration is in force: ends what is in flight as lost, closes the
 * window, and starts anew, with what assembly_prepare() made ready.
 */
void target_switch(struct target *t);

#endif
