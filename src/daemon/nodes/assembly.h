/*
 * assembly.h - the requests of all targets, and each target's part of them: its
 * statistics, running window and slow requests.
 *
 * There is one assembly, so that a request that goes from node to node is one
 * request.  A target gives its events to part->in->rs, with part->index as the
 * node (kprofd/request.h).  That index is the part's place: there are
 * KP_NODES_MAX, and a node that has left keeps its own while requests in flight
 * have calls on it.
 *
 * All this belongs to a configuration.  A reload prepares another one beside
 * the one in force; parts switch one by one, each when its target has armed it.
 * Meanwhile requests do not cross between parts that have switched and parts
 * that have not.
 */
#ifndef KPROFD_DAEMON_NODES_ASSEMBLY_H
#define KPROFD_DAEMON_NODES_ASSEMBLY_H

#include "kprofd/stats.h"
#include "kprofd/tail.h"
#include "stacks/join.h"
#include "store/store.h"

/* Slow requests of one node kept in one window; more are counted as lost. */
#define ASSEMBLY_TREES_MAX 200

struct assembly;
struct assembly_part;
struct target;

/* What belongs to one configuration. */
struct assembly_requests {
	struct assembly *a;
	const struct kp_conf *conf;	/* in force for its parts; borrowed */
	struct kp_requests *rs;
	/* by index; names also of nodes that have left */
	struct assembly_part *parts[KP_NODES_MAX];
	struct kp_stats *stats[KP_NODES_MAX];
	const char *names[KP_NODES_MAX];
};

/* The part of one target. */
struct assembly_part {
	struct assembly *a;
	struct target *target;
	const char *node;		/* its name; immortal */
	struct assembly_requests *in;	/* of the configuration in force */
	uint32_t index;			/* in those; KP_NONE: no room */
	struct kp_stats *stats;
	struct {			/* while a reload is under way */
		uint32_t index;
		struct kp_stats *stats;
	} next;
	struct stack_join *stacks;	/* NULL: no sample came yet */
	struct kp_tail tail;	/* the slowest, however fast */
	uint32_t trees;		/* slow, kept in this window */
	uint64_t trees_lost;	/* in this window */
	uint64_t requests_ever, ended_ever;	/* closed; their end was seen */
	int otp;		/* the target's release; 0: not known yet */
	bool gc_shared;		/* as of kp_conf_gc() */
	bool native, all_exact;	/* as of kp_requests_native() */
	bool timed;		/* its clock is known: */
	kp_dur_ns offset, error;	/* as of kp_requests_offset() */
	kp_dur_ns time_offset;	/* target time + this = wall time */
	struct kp_moment window;	/* when the running one began */
};

/* For callbacks of kp_requests: the target of a node; ctx as passed. */
static inline struct target *
assembly_target(void *ctx, uint32_t node)
{
	const struct assembly_requests *in = ctx;

	return in->parts[node]->target;
}

/*
 * store, borrowed; NULL: nothing is kept (-check).  Returns NULL when out of
 * memory.
 */
struct assembly *assembly_new(struct kp_store *store,
    const struct kp_conf *conf);
/* To be called after the parts have ended and the store was closed. */
void assembly_free(struct assembly *a);

/*
 * Begins a part for the node of this name.  KP_ENOMEM: there is nothing to end.
 * If there is no room for another node, assembly_join() may find some later.
 */
enum kp_err assembly_part_begin(struct assembly_part *p, struct assembly *a,
    const char *node, struct target *target);
/*
 * The node is not a target any more: counts what is in flight as this loss, and
 * frees its place.  assembly_rotate() may follow, events may not.
 */
void assembly_part_leave(struct assembly_part *p, enum kp_loss cause);
void assembly_part_end(struct assembly_part *p);
/* Looks for a place, if the part has none; false: there is no room. */
bool assembly_join(struct assembly_part *p);

/*
 * Gives the part another name of its node, while nothing is in flight.  What was
 * lost so far is added to *lost.  During a reload, and without memory, the part
 * keeps its name.
 */
void assembly_part_rename(struct assembly_part *p, const char *node,
    struct kp_losses *lost);

/*
 * What the events of the target can show; gc_shared: as of kp_conf_gc(); native,
 * all_exact: as of kp_requests_native().
 */
void assembly_set_probe(struct assembly_part *p, int otp, bool gc_shared,
    bool native, bool all_exact);
/* Its clock, as of kp_requests_offset(). */
void assembly_offset(struct assembly_part *p, kp_dur_ns offset,
    kp_dur_ns error);
/*
 * A message of the node's sampler of stacks; errors as of kp_stacks_decode().
 * Without a place, or without memory, it is not followed.
 */
enum kp_err assembly_stacks(struct assembly_part *p, struct kp_span message);
/* now: by the node's clock; for samples whose request was lost. */
void assembly_stacks_expire(struct assembly_part *p, kp_target_ns now);
/* The connection is lost or tracing ends: samples that wait are lost. */
void assembly_stacks_drop(struct assembly_part *p);
/* Another agent, whose sampler counts from zero. */
void assembly_stacks_restart(struct assembly_part *p);
/* All zero if there are none. */
struct stack_totals assembly_stacks_totals(const struct assembly_part *p);
/* As kp_requests_oldest(), by the time of now. */
size_t assembly_oldest(const struct assembly_part *p, struct kp_flight *v,
    size_t max);
/* The name of the first tier of a function; "": none. */
const char *assembly_tier(const struct kp_conf *conf,
    const struct kp_fn *fn);

/*
 * Closes the running window at that moment and begins the next.  Its end is as of
 * kp_wall_end(), where the clock was set meanwhile.  The caller adds losses and
 * hands the window to the store, which has its slow requests already.  NULL: it
 * began after that moment, or there is no memory; the window goes on.
 */
struct kp_window *assembly_rotate(struct assembly_part *p,
    struct kp_moment at);
/* Copies the running window as of that moment; NULL as above. */
struct kp_window *assembly_running(const struct assembly_part *p,
    struct kp_moment at);

/*
 * Makes another configuration ready for all parts; no part may begin or leave
 * until it is in force or discarded.  On KP_ENOMEM nothing has changed.
 */
enum kp_err assembly_prepare(struct assembly *a, const struct kp_conf *conf);
/* Discards it; no part may have switched. */
void assembly_discard(struct assembly *a);
/*
 * Puts it in force for one part.  Before, the caller abandons what is in flight
 * and closes the window.
 */
void assembly_part_switch(struct assembly_part *p);
/*
 * Call when all parts have switched.  Returns the old requests, whose texts
 * windows and trees borrow: the caller frees them when the store has written
 * those.
 */
struct kp_requests *assembly_switch(struct assembly *a);

#endif
