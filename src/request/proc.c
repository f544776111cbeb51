/* proc.c - a table of the processes that have calls open, of all nodes. */
#include <stdio.h>
#include <string.h>

#include "request/state.h"

static void
proc_free_stack(struct kp_requests *rs, struct proc *p)
{
	if (p->v != p->first)
		pool_put(&rs->pool, p->v, p->cap * sizeof(*p->v));
}

struct proc *
proc_new(struct kp_requests *rs, uint64_t id, struct rnode *node)
{
	size_t bytes = sizeof(struct proc);
	struct proc *p = pool_get(&rs->pool, &bytes);

	if (p == NULL)
		return NULL;
	memset(p, 0, offsetof(struct proc, first));
	p->id = id;
	p->node = node;
	p->last = INT64_MIN;
	p->v = p->first;
	p->cap = PROC_FIRST;
	if (!map_put(&rs->procs, id, (uint64_t)(uintptr_t)p)) {
		pool_put(&rs->pool, p, sizeof(*p));
		return NULL;
	}
	return p;
}

bool
proc_grow(struct kp_requests *rs, struct proc *p)
{
	size_t bytes = 2 * p->cap * sizeof(*p->v);
	struct open *v = pool_get(&rs->pool, &bytes);

	if (v == NULL)
		return false;
	memcpy(v, p->v, p->n * sizeof(*v));
	proc_free_stack(rs, p);
	p->v = v;
	p->cap = (uint32_t)(bytes / sizeof(*v));
	return true;
}

void
proc_free(struct kp_requests *rs, struct proc *p)
{
	map_remove(&rs->procs, p->id);
	proc_free_stack(rs, p);
	pool_put(&rs->pool, p, sizeof(*p));
}

void
proc_drop_if_empty(struct kp_requests *rs, struct proc *p)
{
	/* After an exact return its return_to may still come. */
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
			for (uint32_t j = 0; j < p->n; j++)
				if (p->v[j].kind == OPEN_OUTLAST)
					pool_put(&rs->pool, p->v[j].out,
					    sizeof(*p->v[j].out));
			proc_free_stack(rs, p);
			pool_put(&rs->pool, p, sizeof(*p));
		}
	map_free(&rs->procs);
}

const char *
kp_proc_text(uint64_t proc, char *buf, size_t n)
{
	snprintf(buf, n, "<0.%u.%u>", (uint32_t)proc,
	    (uint32_t)(proc >> 32) & (PID_SERIAL_END - 1));
	return buf;
}

uint64_t
kp_proc_pid(uint64_t proc)
{
	return proc & (PID_KEY_END - 1);
}

uint64_t
kp_proc_on(uint32_t node, uint64_t pid)
{
	const struct kp_pid p = { .serial = (uint32_t)(pid >> 32),
		.id = (uint32_t)pid };

	return pid_key(node, &p);
}
