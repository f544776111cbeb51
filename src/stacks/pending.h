/*
 * pending.h - samples that wait for their requests: by label, or unmatched.
 *
 * A request closes some 200 ms after its end, or after a minute, and only then
 * its calls are all there.  Batches of events wait up to 15 ms in the target, so
 * a sample may come before or after the events of its time.
 */
#ifndef KPROFD_STACKS_PENDING_H
#define KPROFD_STACKS_PENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "kprofd/stacks.h"

/*
 * 200 samples a second of requests that take a minute are 12 000; 64 bytes each
 * are 4 MB at most.
 */
#define PENDING_SAMPLES_MAX 65536
#define PENDING_NONE UINT32_MAX

struct pending_sample {
	struct kp_stack_sample s;
	uint32_t next;		/* of its label, or free; PENDING_NONE: last */
};

struct pending_samples {
	struct pending_sample *v;
	size_t room;
	uint32_t len;		/* used or free */
	uint32_t free;		/* PENDING_NONE if the room is 0, too */
	uint32_t n;		/* that wait */
	struct map by_label;	/* the last that came */
};

void pending_samples_init(struct pending_samples *p);
void pending_samples_free(struct pending_samples *p);
/* Removes all. */
void pending_samples_clear(struct pending_samples *p);
/* Adds a sample with a label; false: there are too many, or no memory. */
bool pending_samples_put(struct pending_samples *p,
    const struct kp_stack_sample *s);
/*
 * Takes those of a label out: a chain by `next`, PENDING_NONE if there are none.
 * Each stays where it is until it is given to pending_samples_drop().
 */
uint32_t pending_samples_take(struct pending_samples *p, uint64_t label);
/* Frees one that was taken; returns the next. */
uint32_t pending_samples_drop(struct pending_samples *p, uint32_t i);

/* ---- samples whose request is not known by their label ---- */

/*
 * A process that runs shows its token when it answers, and may have another
 * request then; one that is not seen shows none; and where requests meet, tokens
 * are in the work of others.  Each sample belongs to the call that its process had
 * open when it was asked, whose request takes it when it closes.
 *
 * 1000 samples a second wait 200 ms after the end of their requests, which take
 * some seconds.  Each request that closes looks at all.
 */
#define UNMATCHED_SAMPLES_MAX 4096

struct unmatched_samples {
	struct kp_stack_sample *v;	/* in no order */
	size_t n, room;
};

void unmatched_samples_free(struct unmatched_samples *u);
/* false: there are too many, or no memory. */
bool unmatched_samples_put(struct unmatched_samples *u,
    const struct kp_stack_sample *s);
/* Removes one; the last takes its place. */
void unmatched_samples_drop(struct unmatched_samples *u, size_t i);

#endif
