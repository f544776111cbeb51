/*
 * assembly.h - from events to requests to windows and trees: what is between
 * a target's decoded events and the store.
 *
 * It knows nothing of connections, so that whose events come in is its
 * owner's business.  A configuration goes with it: another one is made ready
 * beside the one in force, and takes its place at once.
 */
#ifndef KP_KPROFD_ASSEMBLY_H
#define KP_KPROFD_ASSEMBLY_H

#include "kprofd/stats.h"
#include "kprofd/tail.h"
#include "store/store.h"

/* Slow requests kept as trees in one window; the rest is counted. */
#define ASSEMBLY_TREES_MAX 200
/*
 * Requests, calls in flight and identities are capped for the whole daemon
 * (kprofd/request.h), and divided among its targets: of n a target has a part
 * of 1/n, n rounded up to a power of two, and 1/16 at least of requests and
 * calls, 1/4 of identities, which nodes of a cluster have in common.  Who came
 * first keeps the larger part until the next reload, so that 64 targets have
 * six times what one has at most, not 64 times; and max_kprofd_mb of
 * tiers.conf holds for all together.
 */
#define ASSEMBLY_SHARES_MAX 16
#define ASSEMBLY_NAMES_SHARES_MAX 4

/* The only node of its kp_requests. */
#define ASSEMBLY_NODE 0

struct assembly_ops {
	/* Borrowed until it returns. */
	void (*on_request)(void *ctx, const struct kp_request *rq);
	void (*on_runaway)(void *ctx, const struct kp_fn *fn);
	/* The line of tiers.conf. */
	void (*on_unbounded)(void *ctx, uint32_t line);
};

struct assembly_parts {
	const char *node;		/* whose events; borrowed */
	struct kp_store *store;		/* NULL: nothing is kept (-check) */
	const struct assembly_ops *ops;
	void *ctx;
};

struct assembly {
	struct assembly_parts p;
	const struct kp_conf *conf;	/* in force; borrowed */
	struct kp_requests *requests;
	struct kp_stats *stats;
	struct {		/* while a reload is under way */
		const struct kp_conf *conf;
		struct kp_requests *requests;
		struct kp_stats *stats;
	} next;
	struct kp_tail tail;	/* the slowest, however fast */
	uint32_t trees;		/* slow, kept in this window */
	uint64_t trees_lost;	/* in this window */
	uint64_t requests_ever;
	int otp;		/* the target's release; 0: not known yet */
	kp_dur_ns time_offset;	/* target time + this = wall time */
	kp_wall_ns window_start;
	kp_dur_ns *self;	/* scratch for trees */
	uint32_t selfcap;
};

/* shares: of so many targets this is one.  KP_ENOMEM: nothing to free. */
enum kp_err assembly_init(struct assembly *a, const struct kp_conf *conf,
    const struct assembly_parts *parts, unsigned shares);
void assembly_free(struct assembly *a);

/* The target's release and clock, when they are known. */
void assembly_release(struct assembly *a, int otp);
/* Events go to a->requests itself: see kprofd/request.h. */

/*
 * The running window, closed at `now`: the caller adds its losses and hands it
 * to the store.  Trees have gone there.  NULL: no memory, the window goes on.
 */
struct kp_window *assembly_rotate(struct assembly *a, kp_wall_ns now);

/* Makes another configuration ready.  On KP_ENOMEM nothing has changed. */
enum kp_err assembly_prepare(struct assembly *a, const struct kp_conf *conf,
    unsigned shares);
/* It will not be used. */
void assembly_discard(struct assembly *a);
/*
 * It is in force from now on; what was in flight is to be ended and the window
 * closed before.  The result holds texts that windows and trees so far borrow:
 * the caller's, to be freed when the store has written them.
 */
struct kp_requests *assembly_switch(struct assembly *a);

#endif
