/*
 * label_epochs.h - the constants in the labels of a kprofd's targets.
 *
 * Tokens travel between nodes, so labels of different targets must never be
 * equal: bits 42 to 51 of a label are a constant that one target of this
 * kprofd has and no other.  Every arming takes another one.  Each kprofd
 * shuffles their order when it starts, and reuses none before all others were
 * used: labels that earlier armings, or a target that is gone, left in tokens
 * stay distinct for some 960 armings.  With the tokens of an earlier kprofd a
 * constant agrees in one case of 1022, and then the other 48 bits of a label,
 * counted from a random start, have to be the same, too.
 */
#ifndef KPROFD_TARGET_LABEL_EPOCHS_H
#define KPROFD_TARGET_LABEL_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/label.h"

#define LABEL_EPOCHS_MAX (KP_LABEL_CONSTS - 1)	/* constants: 1 to this */

struct label_epochs {
	uint16_t order[LABEL_EPOCHS_MAX];
	uint16_t next;			/* place in order */
	bool held[LABEL_EPOCHS_MAX + 1];
	int64_t wall;			/* ns from our clock to that of others */
};

/*
 * seed: any random number.  The time by both clocks, at this moment: words go
 * by the first, which is set when the host's is, only here.
 */
void label_epochs_init(struct label_epochs *l, uint64_t seed, kp_wall_ns wall,
    kp_mono_ns now);
/* Where the trace control words are to be now (label.h). */
uint32_t label_epochs_word(const struct label_epochs *l, kp_mono_ns now);
/*
 * Another constant, in place of `old` (0: there was none); fewer than all may
 * be held at once.
 */
uint16_t label_epochs_take(struct label_epochs *l, uint16_t old);
void label_epochs_give(struct label_epochs *l, uint16_t old);

#endif
