/*
 * mark.c - requests that an application marks by calling kprof:set_token/0
 * and kprof:clear_token/0, two functions that do nothing and return at once.
 *
 * Such a request is on no stack: it goes on after the return of the function
 * that began it, and after that of its caller.  It ends with
 *
 *	a call of clear_token in a process that carries its token;
 *	a call of set_token in its own process, if that still carries it,
 *	whether the call is sampled (an entry) or not (KP_EV_CLEAR)
 *
 * or not at all, and then it expires.  Requests are told apart by token, not by
 * process, so that one process may hold several, as a connection with many
 * streams does (kprof_cowboy_stream.erl).
 */
#include "request/life.h"

/*
 * The innermost open request that set_token began in this process and that the
 * label is of, or inside; NULL: none.
 */
static struct req *
mark_here(const struct kp_requests *rs, const struct proc *p, uint64_t label)
{
	struct req *rq;

	if (!rs->marks)
		return NULL;
	for (int i = 0; i < NEST_MAX && label != 0; i++) {
		rq = req_get(rs, label);
		if (rq != NULL && rq->set && rq->state != REQ_ENDED &&
		    rq->calls[0].c.proc == p->id)
			return rq;
		label = rq != NULL ? rq->outer : label_outer(rs, label);
	}
	return NULL;
}

struct req *
mark_on_top(const struct kp_requests *rs, const struct proc *p, uint64_t label)
{
	struct req *rq = mark_here(rs, p, label);

	return rq != NULL && (p->n == 0 ||
	    p->v[p->n - 1].start <= rq->r.start) ? rq : NULL;
}

void
mark_again(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev)
{
	struct req *rq = mark_here(rs, p, ev->old_label);

	if (rq != NULL)
		req_end(rs, rq, KP_RETURNED, ev->ts);	/* by its own clock */
}

void
mark_set(struct kp_requests *rs, struct req *rq)
{
	rs->marks = true;
	rq->set = true;
	if (rq->cleared)
		req_end(rs, rq, KP_RETURNED, rq->cleared_at);
}

void
mark_clear(struct kp_requests *rs, const struct proc *p,
    const struct kp_fn *fn, uint64_t label, kp_target_ns at)
{
	struct req *rq = mark_here(rs, p, label);

	if (rq == NULL && fn->mark == KP_MARK_CLEAR) {
		rq = req_get(rs, label);
		/* Events of processes are not in order: its entry may come. */
		if (rq == NULL && tombs_get(rs, label) == NULL)
			rq = req_make_early(rs, label, p->node->index, at);
	}
	if (rq == NULL)
		return;
	at = req_time(rs, rq, p->node->index, at);
	if (rq->state == REQ_EARLY && !rq->cleared) {
		rq->cleared = true;
		rq->cleared_at = at;
	} else if (rq->set) {
		req_end(rs, rq, KP_RETURNED, at);
	}
}
