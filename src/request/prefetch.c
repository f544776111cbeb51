/*
 * prefetch.c - prefetches the memory that a run of events will touch before the
 * first of them is handled.
 *
 * With thousands of requests in flight, the memory of each event's request is in
 * no cache.  Reaching it takes steps, each from what the one before fetched: the
 * slots of the tables, the process and the request that they name, and the call.
 * So all events of a run take the first step, then all take the second, and so
 * on: the processor waits for many cache lines at once.  Nothing is freed in
 * between, so a step may use what the step before found.  Handling an event
 * changes all of it, so that looks everything up again.
 */
#include "request/life.h"

#define LINES_MAX 16	/* of a request's calls: the processor fetches the rest */

/* Fewer processes than this, of 256 bytes each, stay in the cache. */
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

/* For what may begin in one line and end in the next. */
static void
fetch_piece(const void *p, size_t n)
{
	__builtin_prefetch(p, 1);
	__builtin_prefetch((const char *)p + n - 1, 1);
}

/* What was found for an event. */
struct found {
	struct proc *p;		/* NULL: has no call open */
	struct req *rq;		/* NULL: none, or not found yet */
};

/* The request to which the event adds a call, or whose call it ends. */
static struct req *
req_on_top(const struct proc *p, const struct kp_event *ev)
{
	const struct open *top = p->n > 0 ? &p->v[p->n - 1] : NULL;

	return top != NULL && top->kind == OPEN_REQUEST &&
	    (!opens(ev) || top->label == ev->label) ? top->rq : NULL;
}

/* Fetches the process's stack, and its request or the slot that names it. */
static void
fetch_by_proc(const struct kp_requests *rs, const struct kp_event *ev,
    struct found *f)
{
	const struct proc *p = f->p;

	if (p != NULL) {
		f->rq = req_on_top(p, ev);
		if (opens(ev) && p->n > 0)
			fetch_piece(p->v + p->n, sizeof(*p->v));
		else if (p->n > 1)
			fetch_piece(&p->v[p->n - 2], sizeof(*p->v));
	}
	if (f->rq != NULL)
		__builtin_prefetch(f->rq, 1);
	else if (opens(ev))
		map_fetch(&rs->by_label, ev->label);
}

/* Fetches the call that begins, or the one that ends. */
static void
fetch_call(const struct kp_event *ev, const struct found *f)
{
	const struct req *rq = f->rq;

	if (rq != NULL)
		fetch_piece(&rq->calls[opens(ev) ? rq->ncalls :
		    f->p->v[f->p->n - 1].idx], sizeof(*rq->calls));
}

void
prefetch_events(const struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n)
{
	struct found v[PREFETCH_MAX];

	if (rs->procs.len < PROCS_MIN)
		return;
	for (size_t i = 0; i < n; i++)
		map_fetch(&rs->procs, pid_key(node, &ev[i].pid));
	for (size_t i = 0; i < n; i++) {
		v[i] = (struct found){
			.p = proc_get(rs, pid_key(node, &ev[i].pid)) };
		if (v[i].p != NULL)
			fetch_lines(v[i].p, 2);
	}
	for (size_t i = 0; i < n; i++)
		fetch_by_proc(rs, &ev[i], &v[i]);
	for (size_t i = 0; i < n; i++)
		if (v[i].rq == NULL && opens(&ev[i])) {
			v[i].rq = req_get(rs, ev[i].label);
			__builtin_prefetch(v[i].rq, 1);
		}
	for (size_t i = 0; i < n; i++)
		fetch_call(&ev[i], &v[i]);
}

/* Closing touches all memory of a request. */
void
prefetch_close(const struct kp_requests *rs, const struct req *rq)
{
	const struct req *next = TAILQ_NEXT(rq, link);
	size_t lines;

	if (next == NULL || rs->procs.len < PROCS_MIN)
		return;
	map_fetch(&rs->by_label, next->r.label);
	map_fetch(&rs->buried, next->r.label);
	lines = (next->ncalls * sizeof(*next->calls) + POOL_LINE - 1) /
	    POOL_LINE;
	fetch_lines(next->calls, lines < LINES_MAX ? lines : LINES_MAX);
	if (TAILQ_NEXT(next, link) != NULL)
		fetch_lines(TAILQ_NEXT(next, link), 2);
}
