/*
 * tail.c - scans a few slots for each request: most requests are faster than
 * those in the slots, and change nothing.
 */
#include <stdlib.h>

#include "kprofd/tail.h"

#define NOWHERE KP_TAIL_MAX

/* Returns the slot it would take; t->n: a new one; NOWHERE: none. */
static uint32_t
place(const struct kp_tail *t, uint32_t identity, kp_dur_ns total,
    uint32_t ncalls)
{
	uint32_t least = NOWHERE, own = NOWHERE, same = 0, at;

	for (uint32_t i = 0; i < t->n; i++) {
		if (least == NOWHERE || t->v[i].total < t->v[least].total)
			least = i;
		if (t->v[i].identity != identity)
			continue;
		same++;
		if (own == NOWHERE || t->v[i].total < t->v[own].total)
			own = i;
	}
	if (t->per_identity == 0)
		return NOWHERE;
	at = same >= t->per_identity ? own : t->n < KP_TAIL_MAX ? t->n : least;
	if (at < t->n && t->v[at].total >= total)
		return NOWHERE;
	if (t->ncalls - (at < t->n ? t->v[at].ncalls : 0) + ncalls >
	    KP_TAIL_CALLS_MAX)
		return NOWHERE;
	return at;
}

bool
kp_tail_wants(const struct kp_tail *t, uint32_t identity, kp_dur_ns total,
    uint32_t ncalls)
{
	return place(t, identity, total, ncalls) != NOWHERE;
}

void
kp_tail_put(struct kp_tail *t, uint32_t identity, kp_dur_ns total,
    uint32_t ncalls, void *tree)
{
	uint32_t held = tree != NULL ? ncalls : 0;
	uint32_t at = place(t, identity, total, held);

	if (at == NOWHERE) {
		free(tree);
		return;
	}
	if (at < t->n) {
		free(t->v[at].tree);
		t->ncalls -= t->v[at].ncalls;
	} else {
		t->n++;
	}
	t->v[at] = (struct kp_tail_slot){ identity, held, total, tree };
	t->ncalls += held;
}

void
kp_tail_take(struct kp_tail *t, void (*fn)(void *ctx, void *tree), void *ctx)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->v[i].tree != NULL)
			fn(ctx, t->v[i].tree);
	t->n = 0;
	t->ncalls = 0;
}

static void
drop(void *ctx, void *tree)
{
	(void)ctx;
	free(tree);
}

void
kp_tail_free(struct kp_tail *t)
{
	kp_tail_take(t, drop, NULL);
}
