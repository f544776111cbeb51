/*
 * agent_spec.c - gives out the constants in labels, and changes match specs that are
 * armed: for another sampling rate, for tokens, and to disarm a function for good.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/label.h"
#include "agent/agent_internal.h"

/* ---- the constants in labels ---- */

/* splitmix64 */
static uint64_t
next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void
label_epochs_init(struct label_epochs *l, uint64_t seed, kp_wall_ns wall,
    kp_mono_ns now)
{
	uint16_t swap;
	unsigned j;

	*l = (struct label_epochs){ .wall = wall - now };
	for (unsigned i = 0; i < LABEL_EPOCHS_MAX; i++)
		l->order[i] = (uint16_t)(i + 1);
	for (unsigned i = LABEL_EPOCHS_MAX - 1; i > 0; i--) {
		j = (unsigned)(next_random(&seed) % (i + 1));
		swap = l->order[i];
		l->order[i] = l->order[j];
		l->order[j] = swap;
	}
}

/* No product overflows before the year 2500. */
uint32_t
label_epochs_word(const struct label_epochs *l, kp_mono_ns now)
{
	uint64_t at = (uint64_t)(now + l->wall);

	return (at / KP_NS_PER_S * KP_WORD_HZ +
	    at % KP_NS_PER_S * KP_WORD_HZ / KP_NS_PER_S) & KP_WORD_MASK;
}

uint16_t
label_epochs_take(struct label_epochs *l, uint16_t old)
{
	uint16_t c;

	do {
		c = l->order[l->next];
		l->next = (uint16_t)((l->next + 1) % LABEL_EPOCHS_MAX);
	} while (l->held[c]);
	l->held[c] = true;
	label_epochs_give(l, old);
	return c;
}

void
label_epochs_give(struct label_epochs *l, uint16_t old)
{
	if (old != 0)
		l->held[old] = false;
}

/* ---- match specs ---- */

const struct kp_plan *
agent_plan(const struct agent *a)
{
	return &a->now.plan;
}

/* True: the agent has a plan, or one is on its way to it; armed or not. */
static bool
has_plan(const struct agent *a)
{
	return a->state >= AGENT_ARMING && a->state <= AGENT_TRIPPED;
}

/* spec NULL: disarms it. */
static void
send_spec(struct agent *a, const struct kp_plan_item *item,
    const struct kp_buf *spec)
{
	struct kp_buf b;

	agent_ask_begin(a, &b);
	msg_spec(&b, item, spec);
	agent_tell(a, &b);
}

void
agent_entry_respec(struct agent *a, const struct kp_plan_item *item)
{
	struct kp_mfa mfa = { item->mod, item->fun, item->arity };
	struct kp_buf spec;

	kp_buf_init(&spec, MESSAGE_MAX);
	a->params.exact = item->exact;
	if (kp_spec_entry(a->now.conf, &mfa, &a->params, &spec) == KP_OK)
		send_spec(a, item, &spec);
	kp_buf_free(&spec);
}

void
agent_sample(struct agent *a, uint32_t one_in)
{
	const struct kp_plan_item *p = a->now.plan.v, *end = p + a->now.plan.n;

	if (one_in == a->params.one_in)
		return;
	a->params.one_in = one_in;
	/* Arming uses the new rate; after a change it is sent. */
	if (!has_plan(a) || a->next.step == RUN_APPLYING)
		return;
	for (; p < end; p++)
		if (p->entry && !p->disarmed)
			agent_entry_respec(a, p);
}

bool
agent_gives_tokens(const struct agent *a)
{
	return a->params.gives_tokens;
}

void
agent_give_tokens(struct agent *a, bool give)
{
	struct kp_spec_params p = a->params;
	struct kp_buf b;

	if ((give == a->params.gives_tokens && (give || !a->tiers_give)) ||
	    a->next.step == RUN_APPLYING)
		return;
	p.gives_tokens = give;
	if (has_plan(a)) {	/* otherwise arming uses it */
		agent_ask_begin(a, &b);
		if (msg_tiers(&b, a->now.conf, &a->now.plan, &p) != KP_OK) {
			kp_buf_free(&b);
			return;
		}
		agent_tell(a, &b);
	}
	a->params.gives_tokens = a->tiers_give = give;
}

void
agent_disarm(struct agent *a, const char *text)
{
	struct kp_plan_item *p = a->now.plan.v, *end = p + a->now.plan.n;
	char name[600];

	for (; p < end; p++) {
		snprintf(name, sizeof(name), "%s:%s/%u", p->mod, p->fun, p->arity);
		if (strcmp(name, text) != 0)
			continue;
		p->disarmed = true;
		if (has_plan(a))
			send_spec(a, p, NULL);
		return;
	}
}
