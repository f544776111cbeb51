/*
 * sampler.h - has a node sample the stacks of its processes.  It loads
 * kprof_sampler.erl there, which asks without tracing and leaves the node with
 * this connection.  Blocking, for the client.
 */
#ifndef KPROFD_PROFILE_NODE_SAMPLER_H
#define KPROFD_PROFILE_NODE_SAMPLER_H

#include "kprofd/stacks.h"
#include "profile/node/injected.h"
#include "suggest/pools.h"

#define SAMPLER_PER_SECOND_MAX 2000u
#define SAMPLER_PPM_MAX 100000u

struct sampler_opts {
	/* Of these talk, processes and max_processes are used. */
	struct injected_opts g;
	uint64_t per_second;	/* stacks, 1 to SAMPLER_PER_SECOND_MAX */
	uint64_t ppm;		/* of one scheduler's time, at most for this:
				   1 to SAMPLER_PPM_MAX */
	bool usage;		/* also what processes and tables use */
};

/* Where samples go; ctx is that of both calls. */
struct sampler_sink {
	struct kp_stack_table *table;	/* of the caller's */
	struct kp_stack_ops ops;
	void *ctx;
	struct kp_stack_counts counts;	/* of the last message */
};

struct sampler_totals {
	kp_dur_ns elapsed;
	kp_dur_ns time;		/* of all processes together */
	/* Of this, of processes that came after the node's processes were last
	   listed: no sample stands for it. */
	kp_dur_ns young;
};

/* Connects, checks and begins to sample, as injected_start(); injected_stop() ends it. */
enum kp_err sampler_start(struct injected **out, const struct sampler_opts *o,
    struct injected_hello *h, char *why, size_t n);
/*
 * Asks which pools of processes are there, and takes samples meanwhile.  KP_ETIMEOUT at
 * the deadline: an answer that comes later is passed over; else as sampler_take().
 */
enum kp_err sampler_pools(struct injected *s, kp_mono_ns deadline,
    struct sampler_sink *sink, struct suggest_pools *pools, char *why, size_t n);
/*
 * Takes samples, which come some time after they were taken, and renews the
 * lease.  KP_ETIMEOUT at the deadline, KP_END when woken; after any other error
 * `why` says why there are no more.
 */
enum kp_err sampler_take(struct injected *s, kp_mono_ns deadline,
    struct sampler_sink *sink, char *why, size_t n);
/*
 * Ends the sampling, and takes the last samples.  last false: sampling goes on.
 * KP_END: woken.
 */
enum kp_err sampler_read(struct injected *s, bool last, struct sampler_sink *sink,
    struct sampler_totals *sums, char *why, size_t n);

#endif
