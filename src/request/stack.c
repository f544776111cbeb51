/*
 * stack.c - keeps the open calls of each process, and pairs returns with them.
 *
 * For a return the VM reports only the function that control goes back to.
 * return_to X ends the topmost open call whose caller is X; an exception ended
 * the calls above it.  If X is not the caller of any open call, X caught an
 * exception, and that ended the topmost call.
 *
 * Where the next call down has caller X too, two programs look alike:
 *
 *	X calls F, F calls G as its last act	one return_to X ends both
 *	X calls F, F calls X, X calls G		(a wrapper such as
 *						telemetry:span/3 around both)
 *						F's own return_to X will follow
 *
 * So F is in doubt: it ended at that moment, unless another return_to X finds
 * it on top; then it ends there.  In the same way, an exception that was caught
 * further down ended the topmost call, and may have ended those below it.
 * Later events settle a doubt.  If F itself makes a call, F still runs.  If a
 * call further down ends, the process gets another label, the same function is
 * called from the same place again, or the request ends, F was over.  An entry
 * in doubt is over when its process has been silent for KP_TAIL_WAIT.  A tail
 * chain stays within one label, or labels of requests inside each other, since
 * an entry may tail-call another one.
 *
 * A return_to shows when a call ended but not how: an exception that the direct
 * caller catches looks like a return.  So the outcome is `unknown`, unless an
 * exception is known to have passed the call, or the function reports its own
 * returns (`exact`, the native probe) or ends in a tail call to one that does.
 *
 * From OTP 27 on, every exception that leaves a traced call is reported.  So
 * the calls that are open and not in doubt above the one that an event names
 * were ended just now, by the same exception.  OTP 26 and older send no event
 * when an exception passes an untraced function.  There an open call may have
 * been ended long ago, so whatever an event ends besides the call that it names
 * is `ambiguous`.  One case is still taken for a tail call, as nearly all such
 * are: X calls F and then another function G with nothing in between.  F is
 * timed to G's end, which is wrong if F raised past X and X, called again,
 * called G instead.  If F and G are the same function, a retry is as likely.
 */
#include <stdlib.h>
#include <string.h>

#include "request/life.h"

/* -------------------------------------- calls that outlast their request ---- */

/*
 * Keeps calls that began inside their request and are still open
 * when it is handed on: they outlast it.
 *
 * The request has them as far as they ran inside, up to its end.  They stay on
 * the stack of their process, and when they end they are handed to on_late.  One
 * that does not end within KP_TOMBSTONE_AGE is given up, and counted as lost.
 */

#define OUTLAST_MAX 100000u	/* at one time: 6 MB, and their processes */

/* An open call does not use its `end` yet: the request's end is kept there. */
void
call_set_limit(struct kp_requests *rs, struct req *rq, uint32_t i,
    struct kp_call *out)
{
	struct kp_call *c = &rq->calls[i].c;

	if (++rs->numbers == 0)
		rs->numbers = 1;
	c->outlasts = out->outlasts = rs->numbers;
	out->end = rq->r.end;
	c->end = c->start + (rq->r.end > out->start ? rq->r.end - out->start :
	    0);
	rq->r.outlasts = true;
}

static void
late(struct kp_requests *rs, const struct proc *p, const struct open *o,
    const struct outlast *x, enum kp_outcome how, kp_target_ns at)
{
	rs->o.on_late(rs->o.ctx, &(struct kp_late_call){
	    .identity = x->identity, .weight = x->weight, .fn = o->idx,
	    .outcome = (uint8_t)how, .node = (uint8_t)p->node->index,
	    .start = o->start, .end = at, .outlasts = x->number,
	    .limit = x->limit, .waited = x->waited });
}

/* Makes *o outlast its request, which was handed on; false: it is given up. */
static bool
outlast_begin(struct kp_requests *rs, const struct proc *p, struct open *o)
{
	const struct req *rq = o->rq;
	struct outlast x = { .identity = rq->r.identity,
		.weight = rq->r.weight,
		.number = rq->calls[o->idx].c.outlasts,
		.limit = rq->calls[o->idx].c.end };
	size_t bytes = sizeof(x);
	struct outlast *v = NULL;

	o->idx = rq->calls[o->idx].c.fn;
	if (rs->noutlast < OUTLAST_MAX)
		v = pool_get(&rs->pool, &bytes);
	if (v == NULL) {
		p->node->lost.n[KP_LOSS_OUTLASTED_CUT]++;
		late(rs, p, o, &x, KP_UNFINISHED, x.limit);
		return false;
	}
	rs->noutlast++;
	*v = x;
	o->kind = OPEN_OUTLAST;
	o->out = v;
	return true;
}

/* It ended, or is given up (KP_UNFINISHED); *o may not be used after that. */
static void
outlast_end(struct kp_requests *rs, const struct proc *p,
    const struct open *o, enum kp_outcome how, kp_target_ns at)
{
	late(rs, p, o, o->out, how, at);
	pool_put(&rs->pool, o->out, sizeof(*o->out));
	rs->noutlast--;
}

/* *o, just taken off the stack, ended: the call around it waited that long. */
static void
outlast_wait(struct proc *p, const struct open *o, kp_target_ns at)
{
	struct open *around;

	for (uint32_t i = p->n; i > 0; i--) {
		around = &p->v[i - 1];
		if (around->kind != OPEN_OUTLAST || around->label != o->label)
			continue;
		if (at > around->out->limit)
			around->out->waited += at - around->out->limit;
		return;
	}
}

/* Is its end no longer waited for? */
static bool
outlast_is_old(const struct open *o, kp_target_ns now)
{
	return now - o->out->limit >= KP_TOMBSTONE_AGE;
}

/* Hands on the entry that ended: a request of weight 0, which stands for none. */
static void
timed_end(struct kp_requests *rs, const struct proc *p, const struct open *o,
    enum kp_outcome how, kp_target_ns at)
{
	uint8_t node = (uint8_t)p->node->index;
	struct kp_call c = { .start = o->start, .end = at, .proc = p->id, .fn = o->idx,
		.parent = KP_NONE, .outcome = (uint8_t)how, .node = node, .placed = true };
	struct kp_request r = { .label = TIMED | ++rs->next_id, .start = o->start,
		.end = at, .identity = o->out->identity, .id = rs->next_id, .ncalls = 1,
		.calls = &c, .outcome = (uint8_t)how, .node = node,
		.nodes = UINT64_C(1) << node };

	memcpy(r.traceparent, o->out->traceparent, sizeof(r.traceparent));
	p->node->lost.n[KP_LOSS_TIMED]++;
	rs->o.on_request(rs->o.ctx, &r);
}

/* Records the end of *o, which the caller takes off the stack. */
static void
open_end(struct kp_requests *rs, const struct proc *p, const struct open *o,
    enum kp_outcome how, kp_target_ns at)
{
	struct kp_fn *fn = &rs->fns.v[o->fn];
	struct kp_call *c;

	if (how != KP_UNFINISHED)
		fn->left = 0;
	if (o->kind == OPEN_LATE) {
		rs->o.on_late(rs->o.ctx, &(struct kp_late_call){
		    .identity = o->identity, .weight = o->weight, .fn = o->idx,
		    .outcome = (uint8_t)how, .node = (uint8_t)p->node->index,
		    .start = o->start, .end = at });
		return;
	}
	if (o->kind == OPEN_OUTLAST) {
		outlast_end(rs, p, o, how, at);
		return;
	}
	if (o->kind == OPEN_TIMED && how != KP_UNFINISHED)
		timed_end(rs, p, o, how, at);
	if (o->kind == OPEN_TIMED)
		pool_put(&rs->pool, o->out, sizeof(*o->out));
	if (o->kind != OPEN_REQUEST)
		return;
	c = &o->rq->calls[o->idx].c;
	c->end = at;
	c->outcome = (uint8_t)how;
	if (o->rq->state == REQ_EARLY)
		return;	/* it cannot end before its entry is here */
	if (o->rq->state == REQ_ENDED ||
	    !(fn->finish || (o->idx == 0 && rs->o.conf->nfinishes == 0)))
		return;
	o->rq->ended_by = o->idx;
	req_end(rs, o->rq, how, req_time(rs, o->rq, c->node, at));
}

static void
proc_pop(struct kp_requests *rs, struct proc *p, enum kp_outcome how,
    kp_target_ns at)
{
	struct open o = p->v[--p->n];

	if (o.kind == OPEN_OUTLAST && how != KP_UNFINISHED)
		outlast_wait(p, &o, at);
	open_end(rs, p, &o, how, at);
}

/* The outcome of a call that an event ends besides the one it names. */
static enum kp_outcome
outcome_besides(const struct proc *p, enum kp_outcome how)
{
	return p->node->chain_is_ambiguous ? KP_AMBIGUOUS : how;
}

/* The end of a call that calls below it may have made as their last act. */
struct ending {
	uint32_t fn, to;	/* fn KP_NONE: it reports its own returns */
	uint64_t label;
	enum kp_outcome how;
	kp_target_ns at;
};

/* The outcome of o if its last act was the call of `in`, which ended as `how`. */
static enum kp_outcome
outcome_in_chain(const struct proc *p, const struct open *o, uint32_t in,
    enum kp_outcome how)
{
	return o->fn != in ? how : outcome_besides(p, how);
}

/*
 * Takes the topmost call off the stack: it ends as `how` at `at`, or, if it is
 * in doubt, as it may have ended before.
 */
static void
proc_pop_left(struct kp_requests *rs, struct proc *p, enum kp_outcome how,
    kp_target_ns at)
{
	const struct open *top = &p->v[p->n - 1];

	if (top->doubt != DOUBT_NONE)
		proc_pop(rs, p, top->maybe_how, top->maybe);
	else
		proc_pop(rs, p, how, at);
}

static void
fn_runaway(struct kp_requests *rs, const struct proc *p, struct kp_fn *fn)
{
	uint64_t node = UINT64_C(1) << p->node->index;

	if ((fn->runaway & node) != 0 || rs->o.on_runaway == NULL)
		return;
	fn->runaway |= node;
	rs->o.on_runaway(rs->o.ctx, p->node->index, fn);
}

/*
 * This is where a traced server loop shows: for each new label, the loop's call
 * for the label before is still open.  Of calls of no request labels tell nothing.
 */
void
proc_leave(struct kp_requests *rs, struct proc *p, uint32_t down_to,
    kp_target_ns at)
{
	struct kp_fn *fn;

	while (p->n > down_to) {
		fn = &rs->fns.v[p->v[p->n - 1].fn];
		if (p->v[p->n - 1].doubt == DOUBT_NONE &&
		    p->v[p->n - 1].kind < OPEN_TIMED &&
		    ++fn->left >= rs->o.max_stack) {
			fn->left = 0;	/* no evidence against other nodes */
			fn_runaway(rs, p, fn);
		}
		proc_pop_left(rs, p, KP_UNFINISHED, at);
	}
}

void
proc_settle_at(struct kp_requests *rs, struct proc *p, uint32_t i,
    kp_target_ns at)
{
	kp_target_ns over = p->v[i].maybe;
	uint32_t keep = i;
	struct open o;

	for (; i < p->n; i++) {
		o = p->v[i];
		if (o.doubt != DOUBT_NONE && o.maybe <= over)
			open_end(rs, p, &o, o.maybe_how, o.maybe);
		else if (o.start < over)
			open_end(rs, p, &o, KP_UNFINISHED, at);
		else
			p->v[keep++] = o;
	}
	p->n = keep;
}

/* A stack that is full of calls of one function is a loop that never returns. */
static void
proc_overflow(struct kp_requests *rs, struct proc *p, kp_target_ns at)
{
	struct kp_fn *fn = &rs->fns.v[p->v[p->n - 1].fn];
	uint32_t same = 0;

	for (uint32_t i = 0; i < p->n; i++)
		same += p->v[i].fn == p->v[p->n - 1].fn;
	if (same > p->n / 2)
		fn_runaway(rs, p, fn);
	for (uint32_t i = 0; i < p->n; i++)
		p->node->lost.n[KP_LOSS_STACK_CAP] += p->v[i].kind < OPEN_TIMED;
	proc_leave(rs, p, 0, at);
}

void
proc_push(struct kp_requests *rs, struct proc *p, const struct open *o)
{
	if (p->n == rs->o.max_stack)
		proc_overflow(rs, p, o->start);
	if (p->n == p->cap && !proc_grow(rs, p)) {
		open_end(rs, p, o, KP_UNFINISHED, o->start);
		return;
	}
	p->v[p->n++] = *o;
}

static void
open_doubt(struct kp_requests *rs, struct proc *p, struct open *o,
    enum doubt why, enum kp_outcome how, kp_target_ns at)
{
	p->doubts = true;
	if (o->doubt == DOUBT_NONE) {
		o->doubt = (uint8_t)why;
		o->maybe_how = (uint8_t)how;
		o->maybe = at;
	}
	if (o->kind == OPEN_REQUEST && call_may_end(rs, o->rq, o->idx))
		req_pend(rs, o->rq, req_time(rs, o->rq, p->node->index, at));
}

/* The position of the topmost call of fn, from 1; 0: none. */
static uint32_t
proc_find_fn(const struct proc *p, uint32_t fn)
{
	uint32_t i = p->n;

	while (i > 0 && p->v[i - 1].fn != fn)
		i--;
	return i;
}

/*
 * Control is back in `to`.  If that is an open call itself, all that it called
 * is over; otherwise the calls below that were made by `to` may be over.
 */
static void
proc_doubt_chain(struct kp_requests *rs, struct proc *p,
    const struct ending *e)
{
	uint32_t i = proc_find_fn(p, e->to), in = e->fn;
	struct open *o;

	while (i > 0 && p->n > i) {
		o = &p->v[p->n - 1];
		proc_pop_left(rs, p, o->caller != e->to ?
		    outcome_besides(p, e->how) :
		    outcome_in_chain(p, o, in, e->how), e->at);
		in = p->v[p->n].fn;
	}
	for (i = p->n; i > 0; i--) {
		o = &p->v[i - 1];
		if (o->caller == e->to && label_inside(rs, e->label, o->label))
			open_doubt(rs, p, o, DOUBT_TAIL,
			    outcome_in_chain(p, o, in, e->how), e->at);
		else if (o->doubt == DOUBT_NONE)
			return;
		in = o->fn;
	}
}

/*
 * The call at position i still runs: clears doubts that arose since it began,
 * of this call and of those below.
 */
static void
proc_runs(struct proc *p, uint32_t i)
{
	kp_target_ns since = p->v[i].start;

	for (uint32_t j = 0; j <= i && p->doubts; j++)
		if (p->v[j].maybe >= since)
			p->v[j].doubt = DOUBT_NONE;
}

void
proc_caller_runs(struct kp_requests *rs, struct proc *p, uint32_t fn)
{
	uint32_t runs = p->n, keep;
	struct open o;

	for (uint32_t i = p->n; i > 0; i--) {
		if (p->v[i - 1].fn != fn)
			continue;
		if (runs < p->n)
			return;	/* either may be the one that runs */
		runs = i - 1;
		if (p->v[runs].doubt == DOUBT_NONE)
			break;
	}
	if (runs == p->n)
		return;
	proc_runs(p, runs);
	keep = runs + 1;
	for (uint32_t i = keep; i < p->n; i++) {
		o = p->v[i];
		if (o.doubt != DOUBT_NONE)
			open_end(rs, p, &o, o.maybe_how, o.maybe);
		else
			p->v[keep++] = o;
	}
	p->n = keep;
}

/*
 * Control went back from the call at position i to its caller; raised: by an
 * exception, which is also the case if a call above was still open.
 */
static void
proc_close_at(struct kp_requests *rs, struct proc *p, uint32_t i, bool raised,
    kp_target_ns at)
{
	const struct open *o = &p->v[i];
	struct ending e = { .fn = o->fn, .to = o->caller, .label = o->label,
		.at = at };

	while (p->n > i + 1) {
		raised |= p->v[p->n - 1].doubt == DOUBT_NONE;
		proc_pop_left(rs, p, outcome_besides(p, KP_RAISED), at);
	}
	raised &= !p->node->chain_is_ambiguous;
	e.how = raised ? KP_RAISED : KP_UNKNOWN;
	proc_runs(p, i);
	proc_pop(rs, p, e.how, at);
	proc_doubt_chain(rs, p, &e);
}

/*
 * An exception that left a call made by `from` was caught in `to`, which is not
 * the caller of any open call.  It ended all calls above an open call of `to`.
 * If there is none, it ended the topmost call if that is `from` (otherwise the
 * event would name `from`), then the next if that is its caller, and so on; it
 * may have ended the rest.
 */
static void
proc_pass(struct kp_requests *rs, struct proc *p, uint32_t from, uint32_t to,
    kp_target_ns at)
{
	uint32_t keep = proc_find_fn(p, to);

	while (p->n > keep && (keep > 0 || p->v[p->n - 1].fn == from)) {
		from = p->v[p->n - 1].caller;
		proc_pop_left(rs, p, outcome_besides(p, KP_RAISED), at);
	}
	for (uint32_t i = keep > 0 ? p->n : 0; i < p->n; i++)
		open_doubt(rs, p, &p->v[i], p->v[i].caller == from ?
		    DOUBT_TAIL : DOUBT_PASSED,
		    outcome_besides(p, KP_RAISED), at);
}

/* `to`, not the caller of any open call, caught an exception from one of them. */
static void
proc_caught(struct kp_requests *rs, struct proc *p, uint32_t to,
    kp_target_ns at)
{
	uint32_t i = p->n, from;

	if (p->v[p->n - 1].fn == to)
		return;	/* it came from a call that was ended before */
	while (i > 0 && p->v[i - 1].doubt == DOUBT_TAIL)
		i--;
	/* At least one call was not over, for the exception to leave it. */
	while (i > 0 && p->n > i)
		proc_pop_left(rs, p, KP_RAISED, at);
	from = p->v[p->n - 1].caller;
	proc_pop(rs, p, outcome_besides(p, KP_RAISED), at);
	proc_pass(rs, p, from, to, at);
}

/*
 * The position of the topmost call made by `to`, from 1; 0: none.  Calls in
 * doubt are passed over if a call above them is not in doubt: they are probably
 * over, and another `to` may have made the one above.  sure: such a call has
 * just been ended.
 */
static uint32_t
proc_find_caller(const struct proc *p, uint32_t to, bool sure)
{
	uint32_t i;

	for (i = p->n; i > 0; i--) {
		if (p->v[i - 1].caller == to &&
		    (!sure || p->v[i - 1].doubt == DOUBT_NONE))
			break;
		sure |= p->v[i - 1].doubt == DOUBT_NONE;
	}
	return i;
}

void
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

/*
 * Control is back in `to`, not the caller of any open call.  Returns true if it
 * came from a call that was ended before: all that is open began before those.
 */
static bool
proc_was_over(struct proc *p, uint32_t to)
{
	if (p->over == 0 || p->over_caller != to ||
	    p->v[p->n - 1].start >= p->over_since)
		return false;
	p->over--;
	return true;
}

void
proc_return_to(struct kp_requests *rs, struct proc *p, uint32_t to,
    kp_target_ns at)
{
	bool after_exact = p->exact_seen;
	uint32_t i = proc_find_caller(p, to, after_exact);

	p->exact_seen = false;
	/*
	 * The exact return has ended its call already.  This event adds only
	 * what happened to calls around that one: a tail chain ended with it,
	 * or the exception passed them.
	 */
	if (after_exact && (i == 0 || to == p->exact_caller)) {
		if (p->exact_raised && to != p->exact_caller)
			proc_pass(rs, p, p->exact_caller, to, at);
		else if (p->n > 0)
			proc_doubt_chain(rs, p, &(struct ending){ .fn = KP_NONE,
			    .to = to, .label = p->v[p->n - 1].label,
			    .how = p->exact_raised ? KP_RAISED : KP_RETURNED,
			    .at = at });
		return;
	}
	if (i > 0)
		proc_close_at(rs, p, i - 1, after_exact && p->exact_raised,
		    at);
	else if (p->n > 0 && !proc_was_over(p, to))
		proc_caught(rs, p, to, at);
}

void
proc_return_exact(struct kp_requests *rs, struct proc *p, uint32_t fn,
    bool raised, kp_target_ns at)
{
	enum kp_outcome how = raised ? KP_RAISED : KP_RETURNED;
	uint32_t i = proc_find_fn(p, fn), caller;
	const struct open *top;

	if (i == 0)
		return;
	caller = p->v[i - 1].caller;
	proc_runs(p, i - 1);
	/* An exception would have passed this call, too; it returned itself. */
	for (uint32_t j = i; j < p->n && p->v[j].caller == caller; j++)
		if (p->v[j].doubt == DOUBT_PASSED)
			p->v[j].doubt = DOUBT_NONE;
	while (p->n > i) {
		top = &p->v[p->n - 1];
		if (top->caller != caller)
			proc_pop_left(rs, p, outcome_besides(p, KP_RAISED), at);
		else
			proc_pop_left(rs, p,
			    outcome_in_chain(p, top, fn, how), at);
	}
	proc_pop(rs, p, how, at);
	p->exact_seen = !p->node->all_exact;
	p->exact_raised = raised;
	p->exact_caller = caller;
}

/* ----------------------------------------------- calls that see no event ---- */

/*
 * Ends or removes open calls that will see no event of their
 * own: their request closes, their process died, or their node goes.
 */

void
proc_ignore(struct kp_requests *rs, uint64_t id, const struct req *rq)
{
	struct proc *p = proc_get(rs, id);

	for (uint32_t i = 0; p != NULL && i < p->n; i++)
		if (p->v[i].kind == OPEN_REQUEST && p->v[i].rq == rq)
			p->v[i] = (struct open){ .kind = OPEN_IGNORED,
				.fn = p->v[i].fn, .caller = p->v[i].caller,
				.label = p->v[i].label,
				.start = p->v[i].start };
}

/* If *o, of a request that goes, stays open, changes what it belongs to. */
static bool
open_stays(struct kp_requests *rs, const struct proc *p, struct open *o)
{
	const struct req *rq = o->rq;

	if (rq->state != REQ_ENDED || rq->collided || rq->calls[o->idx].c.lost)
		return false;
	/* The entry is never an async call, even if a finish ended the request
	 * in the moment that it began. */
	if (o->idx == 0 ||
	    req_time(rs, rq, p->node->index, o->start) < rq->r.end)
		return rq->r.outlasts && call_outlasts(rs, rq, o->idx) &&
		    outlast_begin(rs, p, o);
	*o = (struct open){ .kind = OPEN_LATE, .fn = o->fn,
		.idx = rq->calls[o->idx].c.fn, .caller = o->caller,
		.label = o->label, .start = o->start, .identity = rq->r.identity, .weight = rq->r.weight };
	return true;
}

void
proc_forget(struct kp_requests *rs, uint64_t id, struct req *rq)
{
	struct proc *p = proc_get(rs, id);
	struct open *o;
	uint32_t keep = 0;

	if (p == NULL)
		return;
	for (uint32_t i = 0; i < p->n; i++) {
		o = &p->v[i];
		if (o->kind == OPEN_REQUEST && o->rq == rq &&
		    !open_stays(rs, p, o))
			continue;
		p->v[keep++] = *o;
	}
	p->n = keep;
	proc_drop_if_empty(rs, p);
}

void
proc_settle(struct kp_requests *rs, uint64_t id, const struct req *rq)
{
	struct proc *p = proc_get(rs, id);
	struct open o;
	uint32_t keep = 0;

	if (p == NULL)
		return;
	for (uint32_t i = 0; i < p->n; i++) {
		o = p->v[i];
		if (o.doubt != DOUBT_NONE && o.kind == OPEN_REQUEST &&
		    o.rq == rq)
			open_end(rs, p, &o, o.maybe_how, o.maybe);
		else
			p->v[keep++] = o;
	}
	p->n = keep;
	proc_drop_if_empty(rs, p);
}

bool
proc_doubts_entry(struct kp_requests *rs, const struct req *rq,
    kp_target_ns at)
{
	const struct proc *p = proc_get(rs, rq->calls[0].c.proc);

	/* at: by the clock of rq, which is that of p */
	for (uint32_t i = 0; p != NULL && i < p->n; i++)
		if (p->v[i].kind == OPEN_REQUEST && p->v[i].rq == rq &&
		    p->v[i].idx == 0)
			return p->v[i].doubt != DOUBT_NONE &&
			    p->v[i].maybe <= at;
	return false;
}

static void
proc_sweep(struct kp_requests *rs, struct proc *p, kp_target_ns now)
{
	kp_target_ns before = now - KP_REQUEST_AGE_MAX;
	uint32_t keep = 0;
	struct open *o;
	bool old;

	for (uint32_t i = 0; i < p->n; i++) {
		o = &p->v[i];
		old = o->kind == OPEN_OUTLAST ? outlast_is_old(o, now) :
		    o->kind != OPEN_REQUEST && o->start < before;
		if (o->kind != OPEN_REQUEST && o->kind != OPEN_IGNORED &&
		    o->doubt != DOUBT_NONE) {
			open_end(rs, p, o, o->maybe_how, o->maybe);
		} else if (old) {
			if (o->kind == OPEN_TIMED && p->node->all_exact)
				timed_end(rs, p, o, KP_UNFINISHED, now);
			p->node->lost.n[KP_LOSS_OUTLASTED] += o->kind < OPEN_TIMED;
			open_end(rs, p, o, KP_UNFINISHED, before);
		} else {
			p->v[keep++] = *o;
		}
	}
	p->n = keep;
	if (p->n == 0)
		p->exact_seen = false;
}

/*
 * A process that died leaves its open calls behind.  Those of requests go when
 * the request does; this looks for late ones, every 10 s.
 */
void
procs_sweep(struct kp_requests *rs, struct rnode *nd, kp_target_ns now)
{
	struct proc *p;

	if (now - nd->swept < KP_REQUEST_AGE_MAX / 6)
		return;
	nd->swept = now;
	/* Removal shifts later entries back: look at a slot until it stays. */
	for (size_t i = 0; i < rs->procs.cap;) {
		if (rs->procs.slots[i].key == 0) {
			i++;
			continue;
		}
		p = (struct proc *)(uintptr_t)rs->procs.slots[i].val;
		if (p->node == nd)
			proc_sweep(rs, p, now);
		if (p->node == nd && p->n == 0)
			proc_free(rs, p);
		else
			i++;
	}
}

/* The loss that *o counts as; KP_LOSS_COUNT: none, or it was counted before. */
static enum kp_loss
abandoned_as(const struct open *o, enum kp_loss cause)
{
	if (o->doubt != DOUBT_NONE || o->kind >= OPEN_TIMED ||
	    (o->kind == OPEN_REQUEST && o->rq->collided))
		return KP_LOSS_COUNT;
	if (cause == KP_LOSS_RUNNING)
		return KP_LOSS_RUNNING_CALLS;
	return o->kind == OPEN_REQUEST ? KP_LOSS_LEFT : KP_LOSS_OUTLASTED_CUT;
}

/* Entries that began before a slice of time go on behind it.  True: p has no calls now. */
static bool
proc_abandon(struct kp_requests *rs, struct proc *p, enum kp_loss cause)
{
	uint32_t keep = 0;
	enum kp_loss as;
	struct open o;

	for (uint32_t i = 0; cause == KP_LOSS_SLICE && i < p->n; i++) {
		if (p->v[i].kind != OPEN_TIMED)
			continue;
		o = p->v[i];
		memmove(&p->v[keep + 1], &p->v[keep], (i - keep) * sizeof(o));
		p->v[keep++] = o;
	}
	while (p->n > keep) {
		as = abandoned_as(&p->v[p->n - 1], cause);
		if (as != KP_LOSS_COUNT)
			p->node->lost.n[as]++;
		proc_pop_left(rs, p, KP_UNFINISHED, p->last);
	}
	if (keep == 0)
		proc_free(rs, p);
	return keep == 0;
}

void
procs_abandon(struct kp_requests *rs, struct rnode *nd, enum kp_loss cause)
{
	struct proc *p;

	for (size_t i = 0; i < rs->procs.cap;) {
		p = rs->procs.slots[i].key != 0 ?
		    (struct proc *)(uintptr_t)rs->procs.slots[i].val : NULL;
		if (p == NULL || p->node != nd || !proc_abandon(rs, p, cause))
			i++;
	}
}
