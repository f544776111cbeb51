/*
 * sampling.h - sets one-in-n: one sampled request stands for n.  Pure.
 *
 * {per_second, N} keeps the sampled rate at N a second at most: once a second,
 * one-in-n is set from the true rate of entry calls, which the VM counts.  In
 * between, the entries that arrive show a sudden load: to wait for the next
 * second would be too late, as the load rises again each time that tracing
 * lets it.
 *
 * The overload guard's cut and the budget apply on top of any kind.
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
	uint32_t rated;		/* from conf and rate */
	uint32_t cut;		/* factor set by the guard */
	uint32_t frugal;	/* minimum set by the budget */
	double peak;		/* decaying maximum for frugal */
	uint32_t one_in;	/* in force */
	/* since the last kp_sampler_quick() */
	uint32_t seen;
	uint64_t weight;
	kp_target_ns since;	/* time of that; 0: none yet */
};

void kp_sampler_init(struct kp_sampler *s, const struct kp_sampling *conf);

/* True: requests are measured in slices of time, unless all are. */
static inline bool
kp_sampler_slices(const struct kp_sampler *s)
{
	return s->conf.kind == KP_SAMPLE_SLICES;
}

/* These return true if one_in has changed. */

/*
 * Sets it by `calls` entry calls during `over`.  one_in rises at once, and
 * falls by half at most: too many events harm the target, too few only make the
 * figures less exact.
 */
bool kp_sampler_rate(struct kp_sampler *s, uint64_t calls, kp_dur_ns over);
/* now: the target's time.  one_in only rises, and only by half or more. */
bool kp_sampler_quick(struct kp_sampler *s, kp_target_ns now);
/* The guard's cut; 1: none. */
bool kp_sampler_cut(struct kp_sampler *s, uint32_t cut);
/*
 * Applies the budget, once a second, or once a slice of time.  percent: the share of
 * one scheduler that is spent; `fixed` of it does not depend on sampling.  budget 0: no limit.
 */
bool kp_sampler_spent(struct kp_sampler *s, double percent, double fixed,
    double budget);

/* Counts an entry's event, which stands for `weight` requests. */
void kp_sampler_seen(struct kp_sampler *s, uint32_t weight);

#endif
