/*
 * stack_texts.h - deletes texts of stacks that no row refers to any more.
 * Private to src/store.
 *
 * An index of the rows by stack would double them.  Instead a pass reads all rows
 * once, a part in each turn of upkeep, and marks the stacks it meets; rows that
 * are written meanwhile mark theirs.  Then it deletes the texts that were there
 * at its start and have no mark.
 */
#ifndef KPROFD_STORE_ROLLUP_STACK_TEXTS_H
#define KPROFD_STORE_ROLLUP_STACK_TEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"

struct kp_db;

enum stack_texts_step { STACK_TEXTS_SUMS, STACK_TEXTS_WINDOWS,
	STACK_TEXTS_DELETE };

/* Zeroed: no pass is running. */
struct stack_texts {
	uint8_t *used;		/* a bit for each id; NULL: no pass */
	int64_t last;		/* it may delete ids up to this one */
	enum stack_texts_step step;
	int64_t at;		/* the last id of this step that it has seen */
	kp_wall_ns next;	/* when the next pass begins; 0: not set */
	bool swept;		/* a pass has ended since the last cut of ages */
};

void stack_texts_free(struct stack_texts *t);
/* Marks a text that a row is written for. */
void stack_texts_use(struct stack_texts *t, int64_t id);
/*
 * In the caller's transaction, does a part of the pass that is running, or begins
 * one every hour.  False: there is nothing to do now.
 */
bool stack_texts_turn(struct kp_db *db, kp_wall_ns now);
/*
 * The same without waiting for the hour, once after each cut of ages, which
 * stack_texts_cut() reports: rows were deleted, so texts may be unused.
 */
bool stack_texts_now(struct kp_db *db);
void stack_texts_cut(struct stack_texts *t);

#endif
