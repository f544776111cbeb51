/*
 * sampling.h - how many requests one sampled request stands for.  Pure.
 *
 * {per_second, N} keeps the sampled rate at N a second at most: once a
 * second, one-in-n is set from the true rate of entry calls, which the VM
 * counts.  In between, the entries that arrive show when load sets in: to wait
 * for the next second would be too late, as the load rises again each time
 * that tracing lets it.
 *
 * A cut by the overload guard and a budget come on top, whatever the kind.
 */
#ifndef KPROFD_SAMPLING_H
#define KPROFD_SAMPLING_H

#include "kprofd/config.h"

#define KP_ONE_IN_MAX 65536	/* by rate */
#define KP_ONE_IN_LIMIT (1u << 20) /* in all; the hash has 2^24 steps */
#define KP_QUICK_LOOK (100 * KP_NS_PER_MS)
#define KP_QUICK_LEAST 32	/* entries: fewer are no evidence */

struct kp_sampler {
	struct kp_sampling conf;
	uint32_t rated;		/* by conf and rate */
	uint32_t cut;		/* by the guard: times that */
	uint32_t frugal;	/* by the budget: at least that */
	double peak;		/* one_in that it lately took */
	uint32_t one_in;	/* in force */
	/* since the last quick look */
	uint32_t seen;
	uint64_t weight;
	kp_target_ns since;	/* 0: not yet */
};

void kp_sampler_init(struct kp_sampler *s, const struct kp_sampling *conf);

/* These return true if one_in has changed. */

/*
 * calls entry calls were counted during `over`.  It rises at once, and falls
 * by half at most: too many events harm the target, too few only blur the
 * figures.
 */
bool kp_sampler_rate(struct kp_sampler *s, uint64_t calls, kp_dur_ns over);
/* By the time of the target; only rises, and only by half or more. */
bool kp_sampler_quick(struct kp_sampler *s, kp_target_ns now);
/* The guard's cut; 1: none. */
bool kp_sampler_cut(struct kp_sampler *s, uint32_t cut);
/*
 * The budget: the percentage of one scheduler that is spent; `fixed` of it does
 * not depend on sampling; budget 0: no limit.  Like the rate: once a second.
 */
bool kp_sampler_spent(struct kp_sampler *s, double percent, double fixed,
    double budget);

/* An entry's event came, which stands for `weight` requests. */
void kp_sampler_seen(struct kp_sampler *s, uint32_t weight);

#endif
