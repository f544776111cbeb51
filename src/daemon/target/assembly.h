/*
 * assembly.h - from events to requests to windows and trees: everything between
 * the targets' decoded events and the store.
 *
 * There is one assembly for all targets, so that a request that goes from node
 * to node is one request: they share the requests, and the limit of those in
 * flight.  Each target has a part of its own in it, with the figures of its
 * node.  The assembly does not know connections: its owner brings it the
 * events.
 *
 * All this belongs to a configuration.  A reload prepares another one beside
 * the one in force; parts switch over one by one, each when its target has
 * armed it.  Meanwhile requests do not cross between parts that have switched
 * and parts that have not.
 */
#ifndef KPROFD_DAEMON_TARGET_ASSEMBLY_H
#define KPROFD_DAEMON_TARGET_ASSEMBLY_H

#include "kprofd/stats.h"
#include "kprofd/tail.h"
#include "store/store.h"

/* Slow requests of one node kept as trees in one window; the rest counts. */
#define ASSEMBLY_TREES_MAX 200

struct assembly;
struct assembly_part;
struct target;

/* All that one configuration has. */
struct assembly_requests {
	struct assembly *a;
	const struct kp_conf *conf;	/* in force for its parts; borrowed */
	struct kp_requests *rs;
	/* by index; names also of those that have gone */
	struct assembly_part *parts[KP_NODES_MAX];
	struct kp_stats *stats[KP_NODES_MAX];
	const char *names[KP_NODES_MAX];
};

/* One target's. */
struct assembly_part {
	struct assembly *a;
	struct target *target;		/* that it is of */
	const char *node;		/* whose events; immortal */
	struct assembly_requests *in;	/* what it takes part in */
	uint32_t index;			/* there; KP_NONE: no room for it */
	struct kp_stats *stats;
	struct {			/* while a reload is under way */
		uint32_t index;
		struct kp_stats *stats;
	} next;
	struct kp_tail tail;	/* the slowest, however fast */
	uint32_t trees;		/* slow, kept in this window */
	uint64_t trees_lost;	/* in this window */
	uint64_t requests_ever;
	int otp;		/* the target's release; 0: not known yet */
	bool gc_shared;		/* as of kp_conf_gc() */
	bool native, all_exact;	/* as of kp_requests_native() */
	bool timed;		/* its clock is known: */
	kp_dur_ns offset, error;	/* as of kp_requests_offset() */
	kp_dur_ns time_offset;	/* target time + this = wall time */
	kp_wall_ns window_start;	/* by both clocks */
	kp_mono_ns window_begun;
};

/* The target of a node, from a callback of kp_requests: ctx is what it has. */
static inline struct target *
assembly_target(void *ctx, uint32_t node)
{
	const struct assembly_requests *in = ctx;

	return in->parts[node]->target;
}

/* store, borrowed: NULL: nothing is kept (-check).  NULL when out of memory. */
struct assembly *assembly_new(struct kp_store *store,
    const struct kp_conf *conf);
/* After its parts, and after the store was closed. */
void assembly_free(struct assembly *a);

/*
 * A part of what is in force, for the node of this name.  KP_ENOMEM: nothing
 * to end.  There may be no room, which assembly_join() may find later.
 */
enum kp_err assembly_part_begin(struct assembly_part *p, struct assembly *a,
    const char *node, struct target *target);
/*
 * The node is not a target any more: ends what is in flight as this loss, and
 * gives its place to another.  assembly_rotate() may follow, events may not.
 */
void assembly_part_leave(struct assembly_part *p, enum kp_loss cause);
void assembly_part_end(struct assembly_part *p);
/* Has it a place?  If not, one may have become free. */
bool assembly_join(struct assembly_part *p);

/*
 * The node's own name is another than that which it was given: nothing of it is
 * in flight.  What was lost so far is added to *lost.  Not while a reload is
 * under way, nor without memory: then it keeps the one that it has.
 */
void assembly_part_rename(struct assembly_part *p, const char *node,
    struct kp_losses *lost);

/*
 * What the target's events can tell, and its clock, when they are known.
 * gc_shared: as of kp_conf_gc(); native, all_exact: as of kp_requests_native().
 */
void assembly_told(struct assembly_part *p, int otp, bool gc_shared,
    bool native, bool all_exact);
void assembly_offset(struct assembly_part *p, kp_dur_ns offset,
    kp_dur_ns error);
/* As of kp_requests_oldest(), now. */
size_t assembly_oldest(const struct assembly_part *p, struct kp_flight *v,
    size_t max);
/* The name of the first tier that the function belongs to; "": none. */
const char *assembly_tier(const struct kp_conf *conf,
    const struct kp_fn *fn);

/*
 * The running window, closed at that moment; where the clock was set meanwhile
 * its end is as kp_wall_end() says, and the next one begins at the moment.  The
 * caller adds its losses and hands it to the store.  Trees have gone there.
 * NULL: it began after that moment, or there is no memory; the window goes on.
 */
struct kp_window *assembly_rotate(struct assembly_part *p,
    struct kp_moment at);

/*
 * Makes another configuration ready, for all parts; none may come or go until
 * it is in force or discarded.  On KP_ENOMEM nothing has changed.
 */
enum kp_err assembly_prepare(struct assembly *a, const struct kp_conf *conf);
/* It will not be used; no part has changed over. */
void assembly_discard(struct assembly *a);
/*
 * In force from now on for this one; what was in flight is to be ended and the
 * window closed before.
 */
void assembly_part_switch(struct assembly_part *p);
/*
 * All parts have.  The result holds texts that windows and trees so far
 * borrow: the caller's, to be freed when the store has written them.
 */
struct kp_requests *assembly_switch(struct assembly *a);

#endif
