/*
 * reconcile.c - closes open calls of a process that makes another call, where
 * its token shows that they are over.
 *
 * The token may be another request's, and then the calls it left open are over;
 * or that of a request that began inside the one it works for, and then none
 * is.
 */
#include "request/internal.h"

bool
label_inside(const struct kp_requests *rs, uint64_t label, uint64_t outer)
{
	const struct tombstone *t;
	const struct req *rq;

	for (int i = 0; i < NEST_MAX && label != outer; i++) {
		if (label == 0)
			return false;
		rq = req_get(rs, label);
		t = rq == NULL ? tombs_get(rs, label) : NULL;
		label = rq != NULL ? rq->outer : t != NULL ? t->outer : 0;
	}
	return label == outer;
}

/* Is it at work in the entry of a request? */
static bool
proc_in_entry(const struct proc *p)
{
	const struct open *o;

	for (uint32_t i = p->n; i > 0; i--) {
		o = &p->v[i - 1];
		if (o->kind == OPEN_REQUEST && o->idx == 0)
			return o->doubt == DOUBT_NONE && !o->rq->ended;
	}
	return false;
}

/*
 * The process works for this label now.  What other labels left open on its
 * stack is over, unless the label's request began inside theirs: then the
 * token came back with an answer, or stayed behind, and whatever the process
 * calls it calls for the one that is still open.  Returns that one's label.
 *
 * An answer may also come with a stranger's token: who waits for a worker of
 * a pool is answered when another request gives one back.  So a process
 * whose own request has not returned still works for that.
 */
uint64_t
proc_meet_label(struct kp_requests *rs, struct proc *p, uint64_t label,
    kp_target_ns at)
{
	uint32_t keep = 0, i;
	bool sure = false, inside = true;
	uint64_t of = label;	/* inside it, or not: mostly one has many */
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

/* The call at position i is taken for over, and may not be. */
static void
proc_note_over(struct proc *p, uint32_t i)
{
	const struct open *o = &p->v[i];

	if (p->over == 0 || p->over_caller != o->caller ||
	    (i > 0 && p->v[i - 1].start >= p->over_since)) {
		p->over = 0;
		p->over_caller = o->caller;
		p->over_since = o->start;
	}
	p->over++;
}

/* Of those one has returned if what is open has been so since before them. */
bool
proc_was_over(struct proc *p, uint32_t to)
{
	if (p->over == 0 || p->over_caller != to ||
	    p->v[p->n - 1].start >= p->over_since)
		return false;
	p->over--;
	return true;
}

/*
 * The same function from the same place again, while the last time is in
 * doubt.  Either that one is over, or it called that place again:
 *
 *	X calls F, which ends in a tail call to G; X calls F
 *	X calls F, F calls X, X calls G; X calls F	(a walk through a tree)
 *
 * Which of the two shows when all is over: in the second each F returns to X.
 * So `keep` of them stay as they are; beyond that the first is over, or else
 * its return will find it gone (proc_return_to).
 */
void
proc_meet_again(struct kp_requests *rs, struct proc *p, uint32_t fn,
    uint32_t caller, uint32_t keep, kp_target_ns at)
{
	uint32_t n = 0, first = 0;

	/* One that calls itself may be calling from within the first. */
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
 * An entry inside a request of the same process: the calls of that one are
 * still under way.  An entry after a request that ended in a tail call (its
 * token stays in the process) looks alike; but then the same function is
 * called from the same place again, and the last time is over.  Up to OTP 26
 * that also goes for a request that an exception ended unseen; and where the
 * process has no token any more (a message without one came, or a request
 * that was not sampled), only OTP 27 and later report all that ends.
 */
void
proc_meet_entry(struct kp_requests *rs, struct proc *p,
    const struct kp_event *ev, uint32_t fn, uint32_t caller)
{
	kp_target_ns at = ev->ts;
	uint32_t i;

	proc_meet_again(rs, p, fn, caller, 0, at);
	/* One that it was called by itself, through others, still runs. */
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
 * The token met at an entry names the request it was called inside, if that
 * one is still open: idle servers and keep-alive connections keep old ones.
 * One that waits for a finish is open, but its entry's process is out of it
 * when that has returned.  One that nobody has heard of may be on its way from
 * another process or node: parent_holds() decides when this one closes.
 */
static uint64_t
open_label(struct kp_requests *rs, const struct proc *p, uint64_t label,
    kp_target_ns at)
{
	struct req *rq = label != 0 ? req_get(rs, label) : NULL;

	if (rq == NULL)
		return tombs_get(rs, label) == NULL ? label : 0;
	at = req_time(rs, rq, p->node->index, at);
	if ((rq->ended && at >= rq->r.end) ||
	    (rq->pending && !rq->ended && proc_doubts_entry(rs, rq, at)) ||
	    (rq->calls[0].c.proc == p->id &&
	    rq->calls[0].c.outcome != KP_OPEN))
		return 0;
	return label;
}

/*
 * The request that a new one begins inside; *outer is what its process is at
 * work for, which may have ended.
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
		parent = top->rq->set && top->rq->ended ? 0 : top->label;
	if (parent == ev->label)
		parent = 0;
	*outer = mark == NULL && top != NULL ? top->label : parent;
	return parent;
}
