/*
 * node.c - the nodes that send events, and the offsets between their clocks.
 *
 * A node's clock is erlang:monotonic_time/0: it starts at any value, with its
 * VM, and runs nearly as fast as others.  Adding its offset gives the time of a
 * clock that all nodes have in common.  Offsets are estimates, so no duration is
 * measured with them: they only decide what is due, and where calls go in a
 * trace (clock_align.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "request/state.h"

/* A node that had this index before may have had server loops. */
static void
runaways_forget(struct fns *fns, uint32_t node)
{
	for (uint32_t i = 0; i < fns->len; i++)
		fns->v[i].runaway &= ~(UINT64_C(1) << node);
}

uint32_t
kp_requests_node(struct kp_requests *rs, const char *name)
{
	struct rnode *nd = rs->nodes;
	uint32_t i = 0;
	char *copy;

	while (i < KP_NODES_MAX &&
	    (rs->nodes[i].name != NULL || rs->nodes[i].touched > 0))
		i++;
	if (i == KP_NODES_MAX || (copy = strdup(name)) == NULL)
		return KP_NONE;
	nd = &rs->nodes[i];
	*nd = (struct rnode){ .name = copy, .index = i,
		.namelen = (uint32_t)strlen(name),
		.chain_is_ambiguous = rs->o.chain_is_ambiguous };
	for (size_t k = 0; k < REQ_STATES; k++)
		TAILQ_INIT(&nd->lists[k]);
	runaways_forget(&rs->fns, i);
	rs->nnodes++;
	return i;
}

void
kp_requests_set_otp(struct kp_requests *rs, uint32_t node, int otp)
{
	rs->nodes[node].chain_is_ambiguous = otp <= 26;
	rs->nodes[node].all_exact = false;
}

void
kp_requests_native(struct kp_requests *rs, uint32_t node, bool all_exact)
{
	rs->nodes[node].chain_is_ambiguous = false;
	rs->nodes[node].all_exact = all_exact;
}

void
kp_requests_offset(struct kp_requests *rs, uint32_t node, kp_dur_ns offset,
    kp_dur_ns error)
{
	struct rnode *nd = &rs->nodes[node];

	/* Sums of two offsets, or of an offset and a time, must not overflow. */
	if (offset >= KP_TARGET_TIME_MAX / 2 || offset <= -KP_TARGET_TIME_MAX / 2)
		return;
	nd->timed = true;
	nd->offset = offset;
	nd->error = error < 0 ? 0 : error < KP_REQUEST_AGE_MAX ? error :
	    KP_REQUEST_AGE_MAX;
}

size_t
kp_requests_in_flight(const struct kp_requests *rs, uint32_t node)
{
	return rs->nodes[node].in_flight;
}

size_t
kp_requests_undecided(const struct kp_requests *rs, uint32_t node)
{
	return node == KP_NONE ? 0 :
	    rs->nodes[node].in_flight - rs->nodes[node].collided;
}

void
kp_requests_losses_add(const struct kp_requests *rs, uint32_t node,
    struct kp_losses *to)
{
	for (size_t i = 0; i < KP_LOSS_COUNT; i++)
		to->n[i] += rs->nodes[node].lost.n[i];
}

void
kp_requests_losses_take(struct kp_requests *rs, uint32_t node, struct kp_losses *to)
{
	kp_requests_losses_add(rs, node, to);
	rs->nodes[node].lost = (struct kp_losses){ 0 };
}

uint64_t
kp_requests_entries(const struct kp_requests *rs, uint32_t node)
{
	return node == KP_NONE ? 0 : rs->nodes[node].entries;
}

uint64_t
kp_requests_strayed(const struct kp_requests *rs, uint32_t node)
{
	return node == KP_NONE ? 0 : rs->nodes[node].strayed;
}

uint64_t
kp_requests_outside(const struct kp_requests *rs, uint32_t node)
{
	return node == KP_NONE ? 0 : rs->nodes[node].outside;
}

/* The node of this name, or NULL if it is not profiled. */
static const struct rnode *
node_find(const struct kp_requests *rs, struct kp_span name)
{
	const struct rnode *nd;

	for (uint32_t i = 0; i < KP_NODES_MAX; i++) {
		nd = &rs->nodes[i];
		if (nd->name != NULL && nd->namelen == name.n &&
		    memcmp(nd->name, name.p, name.n) == 0)
			return nd;
	}
	return NULL;
}

uint64_t
node_sender(const struct kp_requests *rs, const struct rnode *nd,
    const struct kp_event *ev)
{
	if (!ev->has_from)
		return 0;
	if ((ev->from.node.n != ev->pid.node.n ||
	    memcmp(ev->from.node.p, ev->pid.node.p, ev->pid.node.n) != 0) &&
	    (nd = node_find(rs, ev->from.node)) == NULL)
		return 0;
	return pid_key(nd->index, &ev->from);
}

kp_target_ns
node_time(const struct kp_requests *rs, uint32_t from, uint32_t to,
    kp_target_ns at)
{
	const struct rnode *f = &rs->nodes[from], *t = &rs->nodes[to];
	kp_target_ns time;

	if (from == to)
		return at;
	if (!f->timed || !t->timed ||
	    __builtin_add_overflow(at, f->offset - t->offset, &time) ||
	    time >= KP_TARGET_TIME_MAX || time <= -KP_TARGET_TIME_MAX)
		return t->has_now ? t->now : -KP_TARGET_TIME_MAX + 1;
	return time;
}

bool
kp_requests_convert(const struct kp_requests *rs, uint32_t from, uint32_t to,
    kp_target_ns *at)
{
	if (from != to && (!rs->nodes[from].timed || !rs->nodes[to].timed))
		return false;
	*at = node_time(rs, from, to, *at);
	return true;
}

kp_target_ns
node_due(const struct kp_requests *rs, const struct rnode *nd,
    kp_target_ns now)
{
	kp_target_ns due = now, other;

	for (uint32_t i = 0; rs->nnodes > 1 && i < KP_NODES_MAX; i++) {
		if (i == nd->index || !rs->nodes[i].has_now ||
		    !rs->nodes[i].timed || !nd->timed)
			continue;
		other = node_time(rs, i, nd->index, rs->nodes[i].now);
		if (other < due)
			due = other;
	}
	return due > now - KP_NODE_LAG_MAX ? due : now - KP_NODE_LAG_MAX;
}

/* ------------------------------------------------------------- processes ---- */

/* A table of the processes that have calls open, of all nodes. */

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
				if (p->v[j].kind == OPEN_OUTLAST ||
				    p->v[j].kind == OPEN_TIMED)
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
