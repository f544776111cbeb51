/*
 * sampling.c - sets one-in-n from measured rates, cuts and costs, with margins
 * against noise.
 */
#include "kprofd/sampling.h"

/* It falls only to less than this, so that noise changes nothing. */
#define FALL_PERCENT 70
/* It aims at this much of the budget, so that noise does not exceed it. */
#define AIM_PERCENT 80
/*
 * A past peak may return: it decays by a tenth each time.  Of slices what was spent on one
 * of them and the rest behind it is some seconds' already.
 */
#define FORGET 0.9
#define FORGET_SLICES 0.5

void
kp_sampler_init(struct kp_sampler *s, const struct kp_sampling *conf)
{
	*s = (struct kp_sampler){ .conf = *conf, .cut = 1, .frugal = 1 };
	s->rated = conf->kind == KP_SAMPLE_ONE_IN ||
	    conf->kind == KP_SAMPLE_SLICES ? conf->n : 1;
	s->one_in = s->rated;
}

static bool
settle(struct kp_sampler *s)
{
	uint64_t most = s->conf.kind == KP_SAMPLE_SLICES ? KP_SLICES_MAX :
	    KP_ONE_IN_LIMIT;
	uint64_t want = (uint64_t)s->rated * s->cut;
	uint32_t was = s->one_in;

	if (want < s->frugal)
		want = s->frugal;
	if (want > most)
		want = most;
	s->one_in = (uint32_t)want;
	return s->one_in != was;
}

static uint32_t
round_up(double want, uint32_t max)
{
	if (want >= max)
		return max;
	return want <= 1 ? 1 : (uint32_t)want + (want > (uint32_t)want);
}

static bool
follows_rate(const struct kp_sampler *s)
{
	return s->conf.kind == KP_SAMPLE_PER_SECOND && s->conf.n > 0;
}

static double
wanted(const struct kp_sampler *s, uint64_t calls, kp_dur_ns over)
{
	return (double)calls * (double)KP_NS_PER_S / (double)over /
	    (double)s->conf.n;
}

/* Rises at once; falls only with room to spare, and by half at most. */
static uint32_t
follow(uint32_t from, double want, uint32_t max)
{
	if (want > from)
		return round_up(want, max);
	if (want >= from * FALL_PERCENT / 100.0)
		return from;
	return round_up(want > from / 2.0 ? want : from / 2.0, max);
}

bool
kp_sampler_rate(struct kp_sampler *s, uint64_t calls, kp_dur_ns over)
{
	if (!follows_rate(s) || over <= 0)
		return false;
	s->rated = follow(s->rated, wanted(s, calls, over), KP_ONE_IN_MAX);
	return settle(s);
}

void
kp_sampler_seen(struct kp_sampler *s, uint32_t weight)
{
	s->seen++;
	s->weight += weight;
}

bool
kp_sampler_quick(struct kp_sampler *s, kp_target_ns now)
{
	kp_dur_ns over = s->since != 0 ? now - s->since : 0;
	double want;

	if (s->since != 0 && over >= 0 && over < KP_QUICK_LOOK)
		return false;
	/* Without a time span - the first time, or the clock ran back - there
	   is no rate. */
	if (over > 0 && s->seen >= KP_QUICK_LEAST && follows_rate(s)) {
		want = wanted(s, s->weight, over);
		if (want >= 1.5 * s->rated)
			s->rated = round_up(want, KP_ONE_IN_MAX);
	}
	s->since = now;
	s->seen = 0;
	s->weight = 0;
	return settle(s);
}

bool
kp_sampler_cut(struct kp_sampler *s, uint32_t cut)
{
	s->cut = cut;
	return settle(s);
}

/*
 * The cost that depends on sampling is in proportion to 1 / one_in.  If the
 * fixed part alone exceeds the budget, the budget cannot be kept: the rest is
 * then held to a tenth of it.
 */
bool
kp_sampler_spent(struct kp_sampler *s, double percent, double fixed,
    double budget)
{
	double left = budget * AIM_PERCENT / 100 - fixed;
	double want;

	if (budget <= 0) {
		s->frugal = 1;
		return settle(s);
	}
	if (left < budget / 10)
		left = budget / 10;
	want = (percent > fixed ? percent - fixed : 0) * s->one_in / left;
	s->peak *= kp_sampler_slices(s) ? FORGET_SLICES : FORGET;
	if (want > s->peak)
		s->peak = want;
	s->frugal = follow(s->frugal, s->peak, KP_ONE_IN_MAX);
	return settle(s);
}
