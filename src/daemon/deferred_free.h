/*
 * deferred_free.h - configurations that are no longer in force, kept until the
 * store has written the windows and trees that borrow their texts.
 */
#ifndef KPROFD_DAEMON_DEFERRED_FREE_H
#define KPROFD_DAEMON_DEFERRED_FREE_H

#include <event2/event.h>

#include "store/store.h"

/*
 * Some megabytes each.  While the database takes nothing no more than this is
 * kept, and who has more has to wait with it.
 */
#define DEFERRED_MAX 16
#define DEFERRED_RELOAD 2	/* of one reload: a configuration and its requests */

struct deferred;

/* NULL when out of memory. */
struct deferred *deferred_new(struct event_base *base, struct kp_store *store);
/* After the store was closed; frees what it holds. */
void deferred_free(struct deferred *p);
/* Is there room for n more? */
bool deferred_room(const struct deferred *p, size_t n);
/* Takes what, for which there is room: free_fn(what) later. */
void deferred_put(struct deferred *p, void *what, void (*free_fn)(void *));
/* Now and then: what the store could not write may be written now. */
void deferred_tick(struct deferred *p);

#endif
