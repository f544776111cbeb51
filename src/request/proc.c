/* proc.c - the processes that have calls open, of all nodes. */
#include <stdlib.h>

#include "request/internal.h"

struct proc *
proc_get(struct kp_requests *rs, uint64_t id)
{
	uint64_t *at = map_get(&rs->procs, id);

	return at != NULL ? (struct proc *)(uintptr_t)*at : NULL;
}

struct proc *
proc_make(struct kp_requests *rs, uint64_t id, struct rnode *node)
{
	struct proc *p = proc_get(rs, id);

	if (p != NULL)
		return p;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return NULL;
	p->id = id;
	p->node = node;
	p->last = INT64_MIN;
	if (!map_put(&rs->procs, id, (uint64_t)(uintptr_t)p)) {
		free(p);
		return NULL;
	}
	return p;
}

void
proc_free(struct kp_requests *rs, struct proc *p)
{
	map_remove(&rs->procs, p->id);
	free(p->v);
	free(p);
}

void
proc_drop_if_empty(struct kp_requests *rs, struct proc *p)
{
	/* An exact return's return_to is still to come: remember that. */
	if (p->n == 0 && !p->exact_seen)
		proc_free(rs, p);
}

void
procs_free(struct kp_requests *rs)
{
	struct proc *p;

	for (size_t i = 0; i < rs->procs.cap; i++)
		if (rs->procs.slots[i].key != 0) {
			p = (struct proc *)(uintptr_t)rs->procs.slots[i].val;
			free(p->v);
			free(p);
		}
	map_free(&rs->procs);
}
