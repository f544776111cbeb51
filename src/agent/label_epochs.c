/*
 * label_epochs.c - shuffles the constants, hands out those that are free, and
 * computes the scheduled control word.
 */
#include "agent/label_epochs.h"

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
