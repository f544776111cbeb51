/*
 * stack.c - the open calls of each process, and how returns pair with them.
 *
 * Of a return the VM reports only where control goes back to: return_to X
 * closes the topmost open call whose caller is X.  What lies above that call
 * was left by an exception.  An X that is nobody's caller is a function that
 * caught one: the top call was left by it.
 *
 * Where the next call down has caller X too, two programs look alike:
 *
 *	X calls F, F calls G as its last act	one return_to X ends both
 *	X calls F, F calls X, X calls G		(a wrapper such as
 *						telemetry:span/3 around both)
 *						F's own return_to X is to come
 *
 * So F is doubted: it ended at that moment, unless another return_to X finds
 * it on top, and then it ended there.  Likewise an exception that was caught
 * in between: it passed the call on top, and may have passed those below.
 * A doubt is settled by whatever shows which: a call that F itself makes (F
 * runs); the end of a call further down, another label, the same function
 * called from the same place again, the end of its request (F was over).  An
 * entry in doubt is over when its process falls silent (request.c).  A chain
 * never crosses labels, but for those of requests inside each other: an
 * entry may tail-call another one.
 *
 * A return_to shows when a call ended and not how: an exception that its direct
 * caller catches looks like a return.  So its outcome is `unknown`, but where
 * an exception is seen to have passed it, or the function reports its own
 * returns (`exact`, the native probe) or ends in a tail call to one that does.
 *
 * From OTP 27 on every exception that leaves a traced call is reported, so
 * calls found open and not in doubt above the one that an event names were
 * left just now, and it with them.  OTP 26 and older give no event when an
 * exception passes an untraced function.  There a call that is still open may
 * have been left long ago, so what an event closes besides the call it names
 * is `ambiguous`.  But X's call of F and then one of another function G, with
 * nothing in between, is taken for a tail call, which nearly all such are: F
 * is timed to G's end.  It is wrong where F raised past X, and X, called again,
 * called G instead; the same function twice is as likely another try.
 */
#include <stdlib.h>
#include <string.h>

#include "request/life.h"

void
open_end(struct kp_requests *rs, const struct proc *p, const struct open *o,
    enum kp_outcome how, kp_target_ns at)
{
	struct kp_fn *fn = &rs->fns.v[o->fn];
	struct kp_call *c;

	if (how != KP_UNFINISHED)
		fn->left = 0;
	if (o->kind == OPEN_LATE) {
		rs->o.on_late(rs->o.ctx, &(struct kp_late_call){
		    .identity = o->identity, .weight = o->weight, .fn = o->fn,
		    .outcome = (uint8_t)how, .node = (uint8_t)p->node->index,
		    .start = o->start, .end = at });
		return;
	}
	if (o->kind == OPEN_OUTLAST) {
		outlast_end(rs, p, o, how, at);
		return;
	}
	if (o->kind != OPEN_REQUEST)
		return;
	c = &o->rq->calls[o->idx].c;
	c->end = at;
	c->outcome = (uint8_t)how;
	if (o->rq->early)
		return;	/* what has no beginning yet has no end */
	if (o->rq->ended ||
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

/* Of a call that an event closes besides the one it names. */
static enum kp_outcome
outcome_besides(const struct proc *p, enum kp_outcome how)
{
	return p->node->chain_is_ambiguous ? KP_AMBIGUOUS : how;
}

/* What ended, with calls below that it may have been the last act of. */
struct ending {
	uint32_t fn, to;	/* fn KP_NONE: its own returns are seen */
	uint64_t label;
	enum kp_outcome how;
	kp_target_ns at;
};

/* Of o, where its caller called `in` next, so that o ended in that. */
static enum kp_outcome
outcome_in_chain(const struct proc *p, const struct open *o, uint32_t in,
    enum kp_outcome how)
{
	return o->fn != in ? how : outcome_besides(p, how);
}

/* Ends the topmost call as `how` at `at`, unless it ended before unseen. */
void
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
 * A server loop that works for many requests is met here: each new label
 * finds the loop's call for the last one open.
 */
void
proc_leave(struct kp_requests *rs, struct proc *p, uint32_t down_to,
    kp_target_ns at)
{
	struct kp_fn *fn;

	while (p->n > down_to) {
		fn = &rs->fns.v[p->v[p->n - 1].fn];
		if (p->v[p->n - 1].doubt == DOUBT_NONE &&
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

/* A stack of one function that only grows is a loop that never returns. */
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
		p->node->lost.n[KP_LOSS_STACK_CAP] +=
		    p->v[i].kind != OPEN_IGNORED;
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

/* The topmost call of fn, counted from 1, or 0. */
static uint32_t
proc_find_fn(const struct proc *p, uint32_t fn)
{
	uint32_t i = p->n;

	while (i > 0 && p->v[i - 1].fn != fn)
		i--;
	return i;
}

/*
 * Control is back in `to`.  Where that is an open call itself, all that it
 * called is over; else the calls below that went back there may be.
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
 * The call at position i runs, whatever seemed since it began; so do those
 * below that were not in doubt before.
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
proc_meet_caller(struct kp_requests *rs, struct proc *p, uint32_t fn)
{
	uint32_t runs = p->n, keep;
	struct open o;

	for (uint32_t i = p->n; i > 0; i--) {
		if (p->v[i - 1].fn != fn)
			continue;
		if (runs < p->n)
			return;	/* any of them may be the one that runs */
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
 * exception, as it did where anything above was still open.
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
 * An exception that left a call made by `from` was caught in `to`, which is
 * nobody's caller.  It passed all above an open call of `to`, and open calls
 * of whoever made the last one, since that would have been named instead.
 * It may have passed the rest.
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

/* An exception was caught by nobody's caller: one call at least is over. */
static void
proc_caught(struct kp_requests *rs, struct proc *p, uint32_t to,
    kp_target_ns at)
{
	uint32_t i = p->n, from;

	if (p->v[p->n - 1].fn == to)
		return;	/* of a call that we took for over */
	while (i > 0 && p->v[i - 1].doubt == DOUBT_TAIL)
		i--;
	/* Were they all over, there would be nothing left to leave. */
	while (i > 0 && p->n > i)
		proc_pop_left(rs, p, KP_RAISED, at);
	from = p->v[p->n - 1].caller;
	proc_pop(rs, p, outcome_besides(p, KP_RAISED), at);
	proc_pass(rs, p, from, to, at);
}

/*
 * The topmost call made by `to`, counted from 1, or 0.  One in doubt below one
 * that is not is probably over: another `to` may have made the upper one.
 * sure: the upper one has just been closed.
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
 * Control is back in `to`, nobody's caller.  Returns true if it came from a call
 * that was ended before: what is open has been so since before those.
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
	 * The call that this event is about is closed already.  It says
	 * something new only of calls around that one: a tail chain that
	 * ends here, or calls that the exception passed.
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
	/* No exception passed what it ended in without passing it, too. */
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
