/*
 * deferred_free.c - frees an object when the store has completed a sync that
 * began after the object was put into the list.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/deferred_free.h"

struct entry {
	void *what;
	void (*free_fn)(void *);
};

struct deferred {
	struct kp_store *store;
	struct event *synced;
	struct entry v[DEFERRED_MAX];	/* oldest first */
	size_t n;
	size_t covered;		/* by the running sync; 0: none runs */
	bool ok;		/* that sync succeeded */
};

/* Runs on the writer's thread, or within kp_store_sync(). */
static void
sync_done(void *ctx, bool ok)
{
	struct deferred *p = ctx;

	p->ok = ok;
	event_active(p->synced, EV_TIMEOUT, 0);
}

void
deferred_tick(struct deferred *p)
{
	if (p->n == 0 || p->covered > 0)
		return;
	p->covered = p->n;
	kp_store_sync(p->store, sync_done, p);
}

static void
on_synced(evutil_socket_t fd, short what, void *ctx)
{
	struct deferred *p = ctx;
	size_t n = p->covered;

	(void)fd, (void)what;
	p->covered = 0;
	if (!p->ok)
		return;		/* deferred_tick() tries again */
	for (size_t i = 0; i < n; i++)
		p->v[i].free_fn(p->v[i].what);
	p->n -= n;
	memmove(p->v, p->v + n, p->n * sizeof(p->v[0]));
	deferred_tick(p);
}

struct deferred *
deferred_new(struct event_base *base, struct kp_store *store)
{
	struct deferred *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->store = store;
	p->synced = event_new(base, -1, 0, on_synced, p);
	if (p->synced == NULL) {
		free(p);
		return NULL;
	}
	return p;
}

void
deferred_free(struct deferred *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < p->n; i++)
		p->v[i].free_fn(p->v[i].what);
	event_free(p->synced);
	free(p);
}

bool
deferred_room(const struct deferred *p, size_t n)
{
	return p->n + n <= DEFERRED_MAX;
}

void
deferred_put(struct deferred *p, void *what, void (*free_fn)(void *))
{
	p->v[p->n++] = (struct entry){ what, free_fn };
	deferred_tick(p);
}
