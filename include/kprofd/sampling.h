/*
 * sampling.h - how many requests one sampled request stands for.  Pure.
 *
 * {per_second, N} keeps the sampled rate at N a second at most: once a
 * second the true rate of entry calls, counted by the VM, says which
 * one-in-n that takes.
 */
#ifndef KPROFD_SAMPLING_H
#define KPROFD_SAMPLING_H

#include "kprofd/config.h"

#define KP_ONE_IN_MAX 65536

struct kp_sampler {
	struct kp_sampling conf;
	uint32_t one_in;	/* in force */
};

void kp_sampler_init(struct kp_sampler *s, const struct kp_sampling *conf);
/*
 * calls entry calls were counted during `over`.  True if one_in changed.
 * It rises at once and falls slowly: too many events harm the target, too
 * few only blur the figures.
 */
bool kp_sampler_rate(struct kp_sampler *s, uint64_t calls, kp_dur_ns over);

#endif
