/*
 * overhead.c - subtracts one agent status from the next, and adds the
 * difference to the window's cost.
 */
#include "daemon/target/overhead.h"

static uint64_t
grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void
overhead_status(struct overhead *s, const struct agent_status *before,
    const struct agent_status *st)
{
	struct kp_cost c = {
		.events = grown(st->sent + st->dropped,
		    before->sent + before->dropped),
		.armed_calls = grown(st->tier_calls, before->tier_calls) +
		    grown(grown(st->entry_calls, st->unarmed_calls),
		    grown(before->entry_calls, before->unarmed_calls)),
		.agent = st->busy > before->busy ? st->busy - before->busy : 0,
	};

	c.ring_events = s->native ? c.events : 0;
	kp_cost_add(&s->window, &c);
	s->last = c;
	s->over = before->now != 0 && st->now > before->now ?
	    st->now - before->now : 0;
}

struct kp_cost
overhead_take(struct overhead *s)
{
	struct kp_cost c = s->window;

	s->window = (struct kp_cost){ 0 };
	return c;
}

double
overhead_percent(const struct overhead *s, kp_dur_ns part)
{
	return s->over > 0 ? 100 * (double)part / (double)s->over : 0;
}

uint64_t
overhead_rate(const struct overhead *s, uint64_t n)
{
	return s->over > 0 ? (uint64_t)((double)n * (double)KP_NS_PER_S /
	    (double)s->over) : 0;
}
