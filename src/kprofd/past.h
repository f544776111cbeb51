/*
 * past.h - what is no longer in force, kept until the store has written the
 * windows and trees that borrow its texts.
 */
#ifndef KP_KPROFD_PAST_H
#define KP_KPROFD_PAST_H

#include <event2/event.h>

#include "store/store.h"

/*
 * Weights: some megabytes each.  While the database takes nothing, no more
 * than this is kept, and who has more has to wait with it.
 */
#define PAST_MAX 1024
#define PAST_RELOAD 128		/* a configuration and what was made of it */
#define PAST_TARGET 2		/* a target that went */

struct past;

/* NULL when out of memory. */
struct past *past_new(struct event_base *base, struct kp_store *store);
/* After the store was closed; frees what it holds. */
void past_free(struct past *p);
/* Is there room for so much? */
bool past_room(const struct past *p, unsigned weight);
/*
 * Takes what: free_fn(what) later.  Never fails: without memory for its place
 * it is leaked, since it may be read from still.
 */
void past_put(struct past *p, void *what, void (*free_fn)(void *),
    unsigned weight);
/* Now and then: what the store could not write may be written now. */
void past_tick(struct past *p);

#endif
