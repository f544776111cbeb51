/*
 * loose.h - samples whose request is not known by their label.
 *
 * A process that runs shows its token when it answers, and may have another
 * request then; one that is not seen shows none; and where requests meet, tokens
 * are in the work of others.  Each sample belongs to the call that
 * its process had open when it was asked, whose request takes it when it closes.
 */
#ifndef KPROFD_STACKS_LOOSE_H
#define KPROFD_STACKS_LOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/stacks.h"

/*
 * 1000 samples a second wait 200 ms after the end of their requests, which take
 * some seconds.  Each request that closes looks at all.
 */
#define LOOSE_SAMPLES_MAX 4096

struct loose_samples {
	struct kp_stack_sample *v;
	size_t n, room;
};

void loose_samples_free(struct loose_samples *l);
/* false: there are too many, or no memory. */
bool loose_samples_put(struct loose_samples *l,
    const struct kp_stack_sample *s);
/* Removes one; the last takes its place. */
void loose_samples_drop(struct loose_samples *l, size_t i);

#endif
