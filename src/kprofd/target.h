/*
 * target.h - one target's way of the data: agent -> decode -> requests ->
 * stats, and out to the store as closed windows and slow trees.
 */
#ifndef KP_KPROFD_TARGET_H
#define KP_KPROFD_TARGET_H

#include "kprofd/ledger.h"
#include "kprofd/sampling.h"
#include "kprofd/spending.h"
#include "kprofd/stats.h"
#include "kprofd/tail.h"
#include "kprofd/watch.h"
#include "store/store.h"
#include "target/agent.h"

/* Slow requests kept as trees in one window; the rest is counted. */
#define TARGET_TREES_MAX 200

struct target;

struct target_ops {
	/* A request closed: for -print-calls and -requests. */
	void (*on_request)(void *ctx, struct target *t,
	    const struct kp_request *rq);
	void (*on_plan)(void *ctx, struct target *t,
	    const struct kp_plan *plan);
	void (*on_diags)(void *ctx, const struct kp_diags *diags);
	/* As of agent.h. */
	void (*on_cleared)(void *ctx, uint64_t number);
	/*
	 * As of agent.h.  Unless refused, target_switch() is to be called,
	 * if the configuration was another one.
	 */
	void (*on_reloaded)(void *ctx, struct target *t,
	    const struct agent_reloaded *r);
	/* As of agent.h; the first ones come before target_new() returns. */
	void (*on_state)(void *ctx, enum agent_state s, const char *text);
	void (*on_failed)(void *ctx, struct target *t, enum agent_failure f,
	    const char *why);
	void (*on_stopped)(void *ctx, struct target *t);
	/* Borrowed until the call returns, before it goes to the store. */
	void (*on_window)(void *ctx, struct target *t,
	    const struct kp_window *w);
};

struct kp_native;

struct target {
	struct agent_opts opts;
	const struct kp_conf *conf;
	struct kp_store *store;		/* NULL: nothing is kept (-check) */
	const struct target_ops *ops;
	void *ctx;
	struct agent *agent;
	struct kp_requests *requests;
	struct kp_stats *stats;
	struct {		/* while a reload is under way */
		const struct kp_conf *conf;
		struct kp_requests *requests;
		struct kp_stats *stats;
	} next;
	struct kp_sampler sampler;
	struct watch watch;
	struct spending spending;
	struct ledger ledger;
	struct kp_losses lost;		/* of this window, found here */
	struct kp_losses lost_ever;	/* of all closed windows, for status */
	char *node;			/* as the target names itself */
	struct agent_hello hello;
	struct kp_native *names;	/* of its native probe's slots */
	bool native;			/* its probe, now */
	struct agent_status status;
	uint64_t events, batches, requests_ever, windows;
	uint32_t trees;			/* slow, kept in this window */
	struct kp_tail tail;		/* the slowest, however fast */
	kp_wall_ns window_start;
	kp_mono_ns status_at;
	kp_dur_ns *self;		/* scratch for trees */
	uint32_t selfcap;
	char state_text[512];
	char lost_text[512];		/* told last; "": attached since */
};

struct target *target_new(struct event_base *base,
    const struct agent_opts *o, struct kp_store *store,
    const struct target_ops *ops, void *ctx);
void target_free(struct target *t);
void target_stop(struct target *t);
/* Closes the running window at `now` and hands it to the store. */
void target_rotate(struct target *t, kp_wall_ns now);
/*
 * Another configuration, borrowed from then on; on_reloaded tells how it went,
 * and may do so before this returns.  On an error nothing has changed, and it
 * does not.
 */
enum kp_err target_reload(struct target *t, const struct kp_conf *conf);
/*
 * It is in force: ends what is in flight as lost, closes the window, and
 * starts anew.  The result holds the texts that the windows and trees so far
 * borrow; the caller's, to be freed when the store has written them.
 */
struct kp_requests *target_switch(struct target *t);
/* Recorded among the events of this target. */
void target_happened(struct target *t, const char *kind, const char *text);
/* Nothing more will come: what is in flight is lost, the rest is closed. */
void target_drain(struct target *t, enum kp_loss cause);

#endif
