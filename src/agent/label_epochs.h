/*
 * label_epochs.h - the constants in the labels of a kprofd's targets.
 *
 * Tokens travel between nodes, so labels of different targets must never be
 * equal: bits 42 to 51 of a label are a constant that only one target of this
 * kprofd holds.  Every arming takes a new one.  Each kprofd shuffles their order
 * when it starts and uses all before it uses one again, so labels that earlier
 * armings, or a target that has left, put into tokens stay distinct for some 960
 * armings.  A token of an earlier kprofd has the same constant in one case of
 * 1021; then its number must be equal, too.
 */
#ifndef KPROFD_AGENT_LABEL_EPOCHS_H
#define KPROFD_AGENT_LABEL_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "kprofd/label.h"

#define LABEL_EPOCHS_MAX (KP_LABEL_MEASURES - 1)	/* constants: 1 to this */

struct label_epochs {
	uint16_t order[LABEL_EPOCHS_MAX];
	uint16_t next;			/* place in order */
	bool held[LABEL_EPOCHS_MAX + 1];
	int64_t wall;			/* ns to add to kp_mono_ns for wall time */
};

/*
 * seed: any random number.  wall, now: this moment by both clocks.  Later changes
 * of the wall clock do not matter.
 */
void label_epochs_init(struct label_epochs *l, uint64_t seed, kp_wall_ns wall,
    kp_mono_ns now);
/* The number that must be in trace control words now (label.h). */
uint32_t label_epochs_word(const struct label_epochs *l, kp_mono_ns now);
/*
 * Takes a constant and gives back `old` (0: none).  At least one must be free.
 */
uint16_t label_epochs_take(struct label_epochs *l, uint16_t old);
void label_epochs_give(struct label_epochs *l, uint16_t old);

#endif
