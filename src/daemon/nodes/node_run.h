/*
 * node_run.h - the requests of all targets, and each target's share of them: its
 * statistics, running window and slow requests.
 *
 * A *configuration run* (struct conf_run) has the requests of all nodes under one
 * tiers.conf, so that a request that goes from node to node is one request.  A *node
 * run* is one target's share.  Its *slot* is the node's number there
 * (kprofd/request.h): a target gives its events to run->conf_run->rs, with run->slot.
 * There are KP_NODES_MAX, and a node that has left keeps its slot while requests in
 * flight have calls on it.
 *
 * A reload prepares another configuration run beside the one in force; node runs
 * switch one by one, each when its target has armed it.  Meanwhile requests do not
 * cross between nodes that have switched and nodes that have not.
 */
#ifndef KPROFD_DAEMON_NODES_NODE_RUN_H
#define KPROFD_DAEMON_NODES_NODE_RUN_H

#include "kprofd/stats.h"
#include "kprofd/tail.h"
#include "stacks/join.h"
#include "store/store.h"

/* Slow requests of one node kept in one window; more are counted as lost. */
#define NODE_RUN_TREES_MAX 200

struct node_runs;
struct node_run;
struct target;

/* What belongs to one configuration. */
struct conf_run {
	struct node_runs *all;
	const struct kp_conf *conf;	/* in force for its nodes; borrowed */
	struct kp_requests *rs;
	/* by slot; names also of nodes that have left */
	struct node_run *runs[KP_NODES_MAX];
	struct kp_stats *stats[KP_NODES_MAX];
	const char *names[KP_NODES_MAX];
};

/* The share of one target. */
struct node_run {
	struct node_runs *all;
	struct target *target;
	const char *node;		/* its name; immortal */
	struct conf_run *conf_run;	/* of the configuration in force */
	uint32_t slot;			/* there; KP_NONE: no room */
	struct kp_stats *stats;
	struct {			/* while a reload is under way */
		uint32_t slot;
		struct kp_stats *stats;
	} next;
	struct stack_join *stacks;	/* NULL: no sample came yet */
	struct kp_tail tail;	/* the slowest, however fast */
	uint32_t trees;		/* slow or of sampled traces, kept in this window */
	uint32_t trees_sampled;	/* of these, the fast ones: {keep_sampled, N} */
	uint64_t trees_lost;	/* in this window */
	uint64_t requests_ever, ended_ever;	/* closed; their end was seen */
	int otp;		/* the target's release; 0: not known yet */
	bool gc_shared;		/* as of kp_conf_gc() */
	bool native, all_exact;	/* as of kp_requests_native() */
	bool timed;		/* its clock is known: */
	kp_dur_ns offset, error;	/* as of kp_requests_offset() */
	kp_dur_ns time_offset;	/* target time + this = wall time */
	struct kp_moment window_began;	/* the running one */
};

/* For callbacks of kp_requests: the target of a node; ctx as passed. */
static inline struct target *
node_run_target(void *ctx, uint32_t node)
{
	const struct conf_run *cr = ctx;

	return cr->runs[node]->target;
}

/*
 * store, borrowed; NULL: nothing is kept (-check).  Returns NULL when out of
 * memory.
 */
struct node_runs *node_runs_new(struct kp_store *store,
    const struct kp_conf *conf);
/* To be called after the runs have ended and the store was closed. */
void node_runs_free(struct node_runs *all);

/*
 * Begins the run of the node of this name.  KP_ENOMEM: there is nothing to end.
 * If there is no room for another node, node_run_join() may find some later.
 */
enum kp_err node_run_begin(struct node_run *r, struct node_runs *all,
    const char *node, struct target *target);
/*
 * The node is not a target any more: counts what is in flight as this loss, and
 * frees its slot.  node_run_rotate() may follow, events may not.
 */
void node_run_leave(struct node_run *r, enum kp_loss cause);
void node_run_end(struct node_run *r);
/* Looks for a slot, if the run has none; false: there is no room. */
bool node_run_join(struct node_run *r);

/*
 * Gives the node another name, while nothing is in flight.  What was
 * lost so far is added to *lost.  During a reload, and without memory, it
 * keeps its name.
 */
void node_run_rename(struct node_run *r, const char *node,
    struct kp_losses *lost);

/*
 * What the events of the target can show; gc_shared: as of kp_conf_gc(); native,
 * all_exact: as of kp_requests_native().
 */
void node_run_probe(struct node_run *r, int otp, bool gc_shared,
    bool native, bool all_exact);
/* Its clock, as of kp_requests_offset(). */
void node_run_offset(struct node_run *r, kp_dur_ns offset,
    kp_dur_ns error);
/*
 * A message of the node's sampler of stacks; errors as of kp_stacks_decode().
 * Without a slot, or without memory, it is not followed.  *usage: as of
 * stack_join_message().
 */
enum kp_err node_run_stacks(struct node_run *r, struct kp_span message,
    struct kp_usage **usage);
/* now: by the node's clock; for samples whose request was lost. */
void node_run_stacks_expire(struct node_run *r, kp_target_ns now);
/* The connection is lost or tracing ends: samples that wait are lost. */
void node_run_stacks_drop(struct node_run *r);
/* Another agent, whose sampler counts from zero. */
void node_run_stacks_restart(struct node_run *r);
/* All zero if there are none. */
struct stack_totals node_run_stacks_totals(const struct node_run *r);
/* As kp_requests_oldest(), by the time of now. */
size_t node_run_oldest(const struct node_run *r, struct kp_flight *v,
    size_t max);
/* The name of the first tier of a function; "": none. */
const char *node_run_tier(const struct kp_conf *conf,
    const struct kp_fn *fn);

/*
 * Closes the running window at that moment and begins the next.  Its end is as of
 * kp_wall_end(), where the clock was set meanwhile.  The caller adds losses and
 * hands the window to the store, which has its slow requests already.  NULL: it
 * began after that moment, or there is no memory; the window goes on.
 */
struct kp_window *node_run_rotate(struct node_run *r,
    struct kp_moment at);
/* Copies the running window as of that moment; NULL as above. */
struct kp_window *node_run_copy(const struct node_run *r,
    struct kp_moment at);

/*
 * Makes another configuration ready for all nodes; none may begin or leave
 * until it is in force or discarded.  On KP_ENOMEM nothing has changed.
 */
enum kp_err node_runs_prepare(struct node_runs *all, const struct kp_conf *conf);
/* Discards it; no node may have switched. */
void node_runs_discard(struct node_runs *all);
/*
 * Puts it in force for one node.  Before, the caller abandons what is in flight
 * and closes the window.
 */
void node_run_switch(struct node_run *r);
/*
 * Call when all nodes have switched.  Returns the old requests, whose texts
 * windows and trees borrow: the caller frees them when the store has written
 * those.
 */
struct kp_requests *node_runs_switch(struct node_runs *all);

#endif
