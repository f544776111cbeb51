/*
 * reconcile.c - decides which request a new call is made for, and ends open calls
 * of its process that its token shows to be over.  The functions proc_meet_*()
 * are called for each new call or entry, before it is put on the stack.
 *
 * If the token is another request's, the calls that are still open are over.
 * If it is that of a request which began inside the open one, none is.
 *
 * The second half finds servers that answer with the token of another request.
 */
#include "request/life.h"

/* Is the process inside the entry of a request? */
static bool
proc_in_entry(const struct proc *p)
{
	const struct open *o;

	for (uint32_t i = p->n; i > 0; i--) {
		o = &p->v[i - 1];
		if (o->kind == OPEN_REQUEST && o->idx == 0)
			return o->doubt == DOUBT_NONE && o->rq->state != REQ_ENDED;
	}
	return false;
}

/*
 * The process works for this label now.  Open calls of other labels are over,
 * unless this label's request began inside theirs: then the token came back
 * with an answer, or stayed behind, and the process still works for the request
 * whose call is open.  Returns the label that it works for.
 *
 * An answer may also carry the token of an unrelated request: a process that
 * waits for a worker of a pool is answered when another request gives one back.
 * So a process that is inside an entry still works for that request.
 */
uint64_t
proc_meet_label(struct kp_requests *rs, struct proc *p, uint64_t label,
    kp_target_ns at)
{
	uint32_t keep = 0, i;
	bool sure = false, inside = true;
	uint64_t of = label;	/* the label that `inside` is about */
	const struct open *o;
	const struct req *mark;

	for (i = p->n; i > 0 && !sure; i--) {
		o = &p->v[i - 1];
		if (o->label != of) {
			of = o->label;
			inside = label_inside(rs, label, of);
		}
		if (!inside)
			continue;
		keep = keep > 0 ? keep : i;
		sure = o->label == label || o->doubt != DOUBT_TAIL;
	}
	if (sure || !proc_in_entry(p))
		proc_leave(rs, p, sure ? keep : 0, at);
	mark = mark_on_top(rs, p, label);
	if (mark != NULL)
		return mark->r.label;
	return p->n > 0 ? p->v[p->n - 1].label : label;
}

/*
 * The same function is called from the same place again, while an earlier such
 * call is in doubt.  Either that one is over, or it led to this call:
 *
 *	X calls F, which ends in a tail call to G; X calls F
 *	X calls F, F calls X, X calls G; X calls F	(a walk through a tree)
 *
 * Only later events tell them apart: in the second, each F returns to X.  So
 * `keep` of them stay in doubt.  Beyond that the first is ended; should it
 * return after all, proc_return_to() ignores that.
 */
void
proc_meet_again(struct kp_requests *rs, struct proc *p, uint32_t fn,
    uint32_t caller, uint32_t keep, kp_target_ns at)
{
	uint32_t n = 0, first = 0;

	/* A recursive function may be calling from within the first. */
	if (!p->doubts || fn == caller)
		return;
	p->doubts = false;
	for (uint32_t i = p->n; i > 0; i--) {
		if (p->v[i - 1].doubt == DOUBT_NONE)
			continue;
		p->doubts = true;
		if (p->v[i - 1].fn == fn && p->v[i - 1].caller == caller) {
			first = i - 1;
			n++;
		}
	}
	if (n <= keep)
		return;
	if (keep > 0)
		proc_note_over(p, first);
	proc_settle_at(rs, p, first, at);
}

/*
 * An entry inside a request of the same process leaves the calls of that one
 * open.  An entry after a request that ended in a tail call looks alike, since
 * its token stays in the process; but then the same function is called from the
 * same place again, and the earlier call is over.  Up to OTP 26 that also holds
 * for a request that an exception ended without an event.  And if the process
 * has no token any more (a message without one came, or a request that was not
 * sampled), all open calls are over there: only OTP 27 and later report every
 * end.
 */
void
proc_meet_entry(struct kp_requests *rs, struct proc *p,
    const struct kp_event *ev, uint32_t fn, uint32_t caller)
{
	kp_target_ns at = ev->ts;
	uint32_t i;

	proc_meet_again(rs, p, fn, caller, 0, at);
	/* A call below the caller still runs: fn called itself through others. */
	for (i = p->n; p->node->chain_is_ambiguous && i > 0 &&
	    p->v[i - 1].fn != caller; i--)
		if (p->v[i - 1].fn == fn && p->v[i - 1].caller == caller) {
			proc_leave(rs, p, i - 1, at);
			break;
		}
	for (i = p->n; i > 0 && p->v[i - 1].doubt == DOUBT_TAIL; i--)
		;
	if (i == 0 || (ev->old_label == 0 && p->node->chain_is_ambiguous))
		proc_leave(rs, p, 0, at);
	else if (ev->old_label != 0)
		proc_meet_label(rs, p, ev->old_label, at);
}

/*
 * The token that an entry finds names the request that it was called inside, if
 * that is still open: idle servers and keep-alive connections keep old tokens.
 * A request that waits for a finish is open, but its entry's process has left
 * it once the entry has returned.  The events of an unknown request may be on
 * their way from another process or node: parent_holds() decides when the inner
 * one closes.  Returns the label, or 0 if its request is over.
 */
static uint64_t
open_label(struct kp_requests *rs, const struct proc *p, uint64_t label,
    kp_target_ns at)
{
	struct req *rq = label != 0 ? req_get(rs, label) : NULL;

	if (rq == NULL)
		return tombs_get(rs, label) == NULL ? label : 0;
	at = req_time(rs, rq, p->node->index, at);
	if ((rq->state == REQ_ENDED && at >= rq->r.end) ||
	    (rq->state == REQ_PENDING && proc_doubts_entry(rs, rq, at)) ||
	    (rq->calls[0].c.proc == p->id &&
	    rq->calls[0].c.outcome != KP_OPEN))
		return 0;
	return label;
}

/*
 * Returns the label of the request that a new one begins inside; *outer is that
 * which its process works for, even if it has ended.
 */
uint64_t
proc_meet_parent(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev, uint64_t *outer)
{
	const struct open *top = p->n > 0 ? &p->v[p->n - 1] : NULL;
	const struct req *mark = mark_on_top(rs, p, ev->old_label);
	uint64_t parent = open_label(rs, p, ev->old_label, ev->ts);

	if (mark != NULL)
		parent = mark->r.label;
	else if (top != NULL && top->kind == OPEN_REQUEST)
		parent = top->rq->set && top->rq->state == REQ_ENDED ? 0 : top->label;
	if (parent == ev->label)
		parent = 0;
	*outer = mark == NULL && top != NULL ? top->label : parent;
	return parent;
}

/*
 * ---- servers that answer a request with another request's token ----
 *
 * A server that drains its mailbox into a queue of its own carries the token of
 * the message that it took last while it handles an earlier one (RabbitMQ's
 * gen_server2, priority queues, batchers).  Its calls count for the wrong
 * request, and no event is lost, so a single event cannot show it.  But its
 * answer carries that token too: the process that asked goes on with its own
 * request, and with a token of another request that this server sent.
 *
 * An answer that waits for another request looks the same (gen_server:reply/2).
 * Servers without traced calls are not reported.  An answer from the process of
 * a request inside a request does not count.
 *
 * Many processes may answer so now and then.  The list of servers is short: an
 * answer from one that has no place takes one answer off each that has, and a
 * server with none left loses its place.  So one that sends more than one in
 * CROSSED_MAX + 1 of all such answers keeps it.
 */

#define CROSSED_LEAST 10	/* fewer answers may be an accident */
#define CROSSED_PART 10		/* at least one answer for ten of its calls */
#define CROSSED_KEEP 100	/* answers that count for keeping its place */

static struct crossed_server *
crossed_find(struct crossed *d, uint64_t proc)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->v[i].proc == proc)
			return &d->v[i];
	return NULL;
}

static void
crossed_age(struct crossed *d)
{
	for (unsigned i = d->n; i-- > 0;)
		if (--d->v[i].keep == 0)
			d->v[i] = d->v[--d->n];
}

void
crossed_answer(struct crossed *d, uint64_t proc)
{
	struct crossed_server *v = crossed_find(d, proc);

	if (v == NULL && d->n == CROSSED_MAX) {
		crossed_age(d);
		return;
	}
	if (v == NULL) {
		v = &d->v[d->n++];
		*v = (struct crossed_server){ .proc = proc };
	}
	if (v->keep < CROSSED_KEEP)
		v->keep++;
	if (v->answers < UINT32_MAX)
		v->answers++;
}

bool
crossed_call(struct crossed *d, uint64_t proc, uint32_t fn)
{
	struct crossed_server *v = crossed_find(d, proc);

	if (v == NULL || v->reported || v->calls == UINT32_MAX)
		return false;
	v->calls++;
	v->fn = fn;
	v->reported = v->answers >= CROSSED_LEAST &&
	    v->calls >= CROSSED_LEAST &&
	    v->answers >= v->calls / CROSSED_PART;
	return v->reported;
}

void
crossed_detach(struct crossed *d, uint32_t node)
{
	for (unsigned i = d->n; i-- > 0;)
		if (d->v[i].proc >> PID_NODE == node)
			d->v[i] = d->v[--d->n];
}

void
crossed_token(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev, uint64_t label)
{
	const struct req *other = req_get(rs, ev->label);
	uint64_t from = node_sender(rs, p->node, ev);

	if (from == 0 || from == p->id || other == NULL || other->state == REQ_EARLY ||
	    other->collided || other->ncalls == 0 ||
	    other->r.parent_label == label ||
	    other->calls[0].c.proc == from || other->calls[0].c.proc == p->id)
		return;
	crossed_answer(&rs->crossed, from);
}

void
crossed_report(struct kp_requests *rs, const struct proc *p, uint32_t fn)
{
	if (crossed_call(&rs->crossed, p->id, fn) && rs->o.on_crossed != NULL)
		rs->o.on_crossed(rs->o.ctx, p->node->index, p->id,
		    &rs->fns.v[fn]);
}
