/* sampling.c - from the rate of entry calls to one-in-n; see the header. */
#include "kprofd/sampling.h"

/* Falling needs this much room, so that noise changes nothing. */
#define FALL_PERCENT 70

void
kp_sampler_init(struct kp_sampler *s, const struct kp_sampling *conf)
{
	s->conf = *conf;
	s->one_in = conf->kind == KP_SAMPLE_ONE_IN ? conf->n : 1;
}

bool
kp_sampler_rate(struct kp_sampler *s, uint64_t calls, kp_dur_ns over)
{
	uint32_t was = s->one_in;
	double rate, want;

	if (s->conf.kind != KP_SAMPLE_PER_SECOND || over <= 0 ||
	    s->conf.n == 0)
		return false;
	rate = (double)calls * (double)KP_NS_PER_S / (double)over;
	want = rate / (double)s->conf.n;
	if (want > KP_ONE_IN_MAX)
		want = KP_ONE_IN_MAX;
	if (want > s->one_in)
		s->one_in = (uint32_t)want + (want > (uint32_t)want);
	else if (want < s->one_in * FALL_PERCENT / 100.0)
		s->one_in = want < 1 ? 1 : (uint32_t)(want + 1);
	return s->one_in != was;
}
