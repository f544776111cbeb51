/*
 * ahead.c - many events at once: while one is put where it belongs, the memory
 * that later ones will touch is on its way.
 *
 * With thousands of requests in flight each event is of another one, whose
 * memory is in no cache.  To get there takes some steps, each from what the
 * one before has fetched: the slots of the two tables, the process and the
 * request that they name, and the call.  So there are some distances at which
 * events are looked at before it is their turn.  They say only what to fetch:
 * whatever is read is looked up anew, since the events in between may change
 * all of it.
 */
#include "request/internal.h"

#define FAR 12		/* events ahead: slots */
#define NEAR 8		/* processes and requests */
#define NEXT 5		/* what these point to */
#define LAST 2		/* what that points to */

#define LINES_MAX 16	/* of a request's calls: the rest follows by itself */

/* Fewer processes than this are in the cache anyhow: 256 bytes each. */
#define PROCS_MIN 256

static bool
opens(const struct kp_event *ev)
{
	return ev->kind == KP_EV_ENTRY || ev->kind == KP_EV_CALL ||
	    ev->kind == KP_EV_CLEAR;
}

static void
fetch_lines(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		__builtin_prefetch((const char *)p + i * POOL_LINE, 1);
}

static void
fetch_slots(const struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev)
{
	map_fetch(&rs->procs, pid_key(node, &ev->pid));
	if (opens(ev))
		map_fetch(&rs->by_label, ev->label);
}

/* The head of a process, and the top of its stack. */
static void
fetch_nodes(const struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev)
{
	const struct proc *p = proc_get(rs, pid_key(node, &ev->pid));

	if (p != NULL)
		fetch_lines(p, 2);
	if (opens(ev))
		fetch_lines(req_get(rs, ev->label), 1);
}

/* It may begin in one line and end in the next. */
static void
fetch_piece(const void *p, size_t n)
{
	__builtin_prefetch(p, 1);
	__builtin_prefetch((const char *)p + n - 1, 1);
}

/* Where the call is, or will be, in its request and on the stack. */
static void
fetch_call(const struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev)
{
	const struct proc *p = proc_get(rs, pid_key(node, &ev->pid));
	const struct req *rq;
	const struct open *top;

	if (opens(ev)) {
		rq = req_get(rs, ev->label);
		if (rq != NULL)
			fetch_piece(rq->calls + rq->ncalls,
			    sizeof(*rq->calls));
		if (p != NULL && p->n > 0)
			fetch_piece(p->v + p->n, sizeof(*p->v));
		return;
	}
	if (p == NULL || p->n == 0)
		return;
	top = &p->v[p->n - 1];
	if (top->kind == OPEN_REQUEST) {
		fetch_lines(top->rq, 1);
		if (p->n > 1)
			fetch_piece(top - 1, sizeof(*top));
	}
}

/* The call that a return ends, when its request is known. */
static void
fetch_end(const struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev)
{
	const struct proc *p;
	const struct open *top;

	if (opens(ev))
		return;
	p = proc_get(rs, pid_key(node, &ev->pid));
	if (p == NULL || p->n == 0)
		return;
	top = &p->v[p->n - 1];
	if (top->kind == OPEN_REQUEST)
		fetch_piece(&top->rq->calls[top->idx], sizeof(struct rcall));
}

/* Those that nothing was before, each step for all of them at once. */
static void
fetch_first(const struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n)
{
	for (size_t i = 0; i < FAR && i < n; i++)
		fetch_slots(rs, node, &ev[i]);
	for (size_t i = 0; i < NEAR && i < n; i++)
		fetch_nodes(rs, node, &ev[i]);
	for (size_t i = 0; i < NEXT && i < n; i++)
		fetch_call(rs, node, &ev[i]);
	for (size_t i = 0; i < LAST && i < n; i++)
		fetch_end(rs, node, &ev[i]);
}

void
kp_requests_events(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n)
{
	bool ahead = rs->procs.len >= PROCS_MIN;

	if (ahead)
		fetch_first(rs, node, ev, n);
	for (size_t i = 0; i < n; i++) {
		if (ahead) {
			if (i + FAR < n)
				fetch_slots(rs, node, &ev[i + FAR]);
			if (i + NEAR < n)
				fetch_nodes(rs, node, &ev[i + NEAR]);
			if (i + NEXT < n)
				fetch_call(rs, node, &ev[i + NEXT]);
			if (i + LAST < n)
				fetch_end(rs, node, &ev[i + LAST]);
		}
		kp_requests_event(rs, node, &ev[i]);
	}
}

/*
 * Before one is closed: the next in its list, and the one after that.  Closing
 * touches all that there is of a request.
 */
void
req_fetch_next(const struct kp_requests *rs, const struct req *rq)
{
	const struct req *next = rq->next;
	size_t lines;

	if (next == NULL || rs->procs.len < PROCS_MIN)
		return;
	map_fetch(&rs->by_label, next->r.label);
	map_fetch(&rs->buried, next->r.label);
	lines = (next->ncalls * sizeof(*next->calls) + POOL_LINE - 1) /
	    POOL_LINE;
	fetch_lines(next->calls, lines < LINES_MAX ? lines : LINES_MAX);
	if (next->next != NULL)
		fetch_lines(next->next, 2);
}
