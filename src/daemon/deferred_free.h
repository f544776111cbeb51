/*
 * deferred_free.h - keeps configurations that are no longer in force until the
 * store has written the windows and trees that borrow their texts.
 */
#ifndef KPROFD_DAEMON_DEFERRED_FREE_H
#define KPROFD_DAEMON_DEFERRED_FREE_H

#include <event2/event.h>

#include "store/store.h"

#define DEFERRED_MAX 16		/* objects, of some megabytes each */
#define DEFERRED_RELOAD 2	/* of one reload: a configuration and its requests */

struct deferred;

/* NULL when out of memory. */
struct deferred *deferred_new(struct event_base *base, struct kp_store *store);
/* Call it after the store is closed.  Frees what it holds. */
void deferred_free(struct deferred *p);
/* Is there room for n more?  If the database takes nothing, there may not be. */
bool deferred_room(const struct deferred *p, size_t n);
/* Calls free_fn(what) later.  The caller has checked deferred_room(). */
void deferred_put(struct deferred *p, void *what, void (*free_fn)(void *));
/* Call it from time to time: repeats a sync that has failed. */
void deferred_tick(struct deferred *p);

#endif
