/*
 * labels.h - the constants in the labels of a kprofd's targets.
 *
 * Tokens travel between nodes, so labels of different targets must never be
 * equal: bits 48 to 57 of a label are a constant that one target of this
 * kprofd has and no other.  Every arming takes another one.  They come in an
 * order shuffled anew in each kprofd, and none comes again before all others
 * have: what a target's earlier armings, or a target that went, have left in
 * tokens stays apart for some 960 armings.  With the tokens of an earlier
 * kprofd a constant agrees in one case of 1023, and then the other 48 bits of
 * a label, counted from a random start, have to be the same, too.
 */
#ifndef KP_TARGET_LABELS_H
#define KP_TARGET_LABELS_H

#include <stdbool.h>
#include <stdint.h>

#define LABELS_MAX 1023		/* constants: 1 to so many, never 0 */

struct labels {
	uint16_t order[LABELS_MAX];
	uint16_t next;			/* place in order */
	bool held[LABELS_MAX + 1];
};

/* seed: any random number. */
void labels_init(struct labels *l, uint64_t seed);
/*
 * Another constant, in place of `old` (0: there was none); fewer than all may
 * be held at once.
 */
uint16_t labels_take(struct labels *l, uint16_t old);
void labels_give(struct labels *l, uint16_t old);

#endif
