/*
 * reconcile.c - decides which request a new call is made for, and ends open calls
 * of its process that its token shows to be over.
 *
 * A token names a request, but it may be the wrong one: a process that waits for
 * a worker of a pool is answered when another request gives one back, and goes
 * on with that one's token.  A process inside its own entry works for that
 * request, whatever token it has, and so does whoever works on what it sends:
 *
 *	the token of an event names the process that sent it.  If that was inside
 *	its own entry then, the call is of that request (own_request()).
 *
 *	Otherwise the sender may have worked for a request with another's token.
 *	A token has the serial of the message that its sender had taken last;
 *	so what a process was found to work for, when it had taken that, holds
 *	for all that it sent with it (struct worked).  This goes from hop to hop.
 *
 * A label that was met in another's request is `spread`.  From then on it is
 * believed only where its way is known; elsewhere the call is lost (crossed).
 * Where sampling passes requests over, these take tokens along, too, and nothing
 * shows it.  So where measured requests meet, no label of a sampled one is
 * believed without its way.
 *
 * A token of no request (KP_LABEL_UNOWNED) has nothing but its way.  It stands where
 * there would be none; a call of which its way does not tell is of no request.
 *
 * The functions proc_reconcile_*() are called for each new call or entry, before it is
 * put on the stack.  They take the request that was found for it.  If that is
 * another request, the open calls have ended, unless the process is inside an entry.
 * If it began inside the open one, no call has ended.
 * (limits.md, "Where requests meet", explains the effects to users.)
 *
 * The last part finds servers that answer with the token of another request.
 *
 * Words: a label is `spread` once it was met in another request's work.  A call is
 * `strayed` if it had another request's token, and is counted for its own; it is lost
 * as `crossed` if nobody can tell whose it is, and `crossed` servers cause that.  An
 * `orphan` holds calls until that is known.  A token is `unowned` if a tier gave it to
 * a process without one, and a call with one is NOBODYS, `outside` of requests.
 */
#include <stdlib.h>
#include <string.h>

#include "request/life.h"
#include "kprofd/label.h"

/* ---- what processes work for ---- */

/* Labels count up: did this one begin after the other?  Their words wrap. */
static bool
label_is_newer(uint64_t label, uint64_t than)
{
	return (int32_t)((uint32_t)(label - than) << 1) > 0;
}

static void
label_spread(struct kp_requests *rs, uint64_t label)
{
	struct req *rq = req_get(rs, label);

	if (rq != NULL)
		rq->spread = true;
	else
		tombs_spread(rs, label);
}

bool
kp_requests_spread(const struct kp_requests *rs, uint64_t label)
{
	const struct req *rq = req_get(rs, label);
	const struct tombstone *t = rq == NULL ? tombs_get(rs, label) : NULL;

	return rq != NULL ? rq->spread : t != NULL ? t->spread :
	    kp_label_is_unowned(label);
}

#define MET_AGE (600 * KP_NS_PER_S)	/* a pool may be busy now and then */

/*
 * May the process that has this token work for another request?  rq: the one with
 * this label in flight, or NULL.
 */
static bool
label_may_stray(const struct kp_requests *rs, const struct rnode *nd,
    const struct req *rq, uint64_t label)
{
	const struct tombstone *t = rq == NULL ? tombs_get(rs, label) : NULL;
	bool spread = rq != NULL ? rq->spread : t != NULL && t->spread;
	uint32_t weight = rq != NULL ? rq->r.weight : t != NULL ? t->weight : 0;

	return spread ||
	    (weight > 1 && kp_sampling_mixes(&rs->o.conf->sampling) &&
	    nd->has_met && nd->now - nd->met < MET_AGE);
}

/* The places for what has this key, the newest first. */
static struct worked *
worked_set(const struct kp_requests *rs, uint64_t proc, uint64_t label,
    uint32_t serial)
{
	uint64_t h = (proc ^ label * UINT64_C(0x9E3779B97F4A7C15)) +
	    serial * UINT64_C(0xD6E8FEB86659FD93);

	h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
	return &rs->worked[(h >> 40 & (WORKED_MAX / WORKED_WAYS - 1)) *
	    WORKED_WAYS];
}

/* NULL: it is not remembered. */
static struct worked *
worked_find(const struct kp_requests *rs, uint64_t proc, uint64_t label,
    uint32_t serial)
{
	struct worked *w;

	if (rs->worked == NULL)
		return NULL;
	w = worked_set(rs, proc, label, serial);
	for (int i = 0; i < WORKED_WAYS; i++)
		if (w[i].proc == proc && w[i].label == label &&
		    w[i].serial == serial)
			return &w[i];
	return NULL;
}

static uint64_t
worked_get(const struct kp_requests *rs, uint64_t proc, uint64_t label,
    uint32_t serial)
{
	const struct worked *w = worked_find(rs, proc, label, serial);

	return w != NULL ? w->of : 0;
}

static void
worked_put(struct kp_requests *rs, uint64_t proc, uint64_t label,
    uint32_t serial, uint64_t of)
{
	struct worked *w = worked_find(rs, proc, label, serial);

	if (w != NULL) {
		/* Two processes may send messages of the same number. */
		w->of = proc != 0 || w->of == of ? of : 0;
		return;
	}
	w = worked_set(rs, proc, label, serial);
	memmove(w + 1, w, (WORKED_WAYS - 1) * sizeof(*w));
	*w = (struct worked){ .proc = proc, .label = label, .of = of,
		.serial = serial };
}

/* The number of the message that the process of the token has taken last. */
static uint32_t
token_taken(uint64_t proc, const struct token *t)
{
	return t->from == proc ? t->last : t->serial;
}

/*
 * Has a token of no request come from one request to another?  That one request has
 * it says nothing: a message without a token may have taken its own.  The first that
 * has it is remembered with the number 0, which no message has.
 */
static bool
unowned_meets(struct kp_requests *rs, uint64_t label, uint64_t of)
{
	const struct worked *w = worked_find(rs, 0, label, 0);

	if (w == NULL && rs->worked != NULL)
		worked_put(rs, 0, label, 0, of);
	return w != NULL && w->of != of;
}

void
proc_note_work(struct kp_requests *rs, uint64_t proc, const struct token *t,
    uint64_t of)
{
	uint32_t taken = token_taken(proc, t);
	struct rnode *nd;

	if (taken == 0)
		return;		/* it has taken none yet: the token is its own */
	if (of != t->label) {
		if (rs->worked == NULL)
			rs->worked = calloc(WORKED_MAX, sizeof(*rs->worked));
		if (kp_label_is_unowned(t->label) ? unowned_meets(rs, t->label,
		    of) : !label_inside(rs, t->label, of)) {
			label_spread(rs, t->label);
			nd = &rs->nodes[proc >> PID_NODE];
			nd->has_met = true;
			nd->met = nd->now;
		}
	}
	if (rs->worked == NULL ||
	    worked_get(rs, proc, t->label, taken) == of)
		return;
	worked_put(rs, proc, t->label, taken, of);
	worked_put(rs, 0, t->label, taken, of);
}

void
own_begin(struct kp_requests *rs, const struct proc *p, struct req *rq,
    const struct token *t, uint64_t of)
{
	const uint64_t *at = map_get(&rs->own, p->id);
	struct req *before = at != NULL ? req_get(rs, *at) : NULL;

	rq->took = token_taken(p->id, t);
	rq->since = (int32_t)(t->serial - rq->took) > 0 ? t->serial : rq->took;
	/*
	 * A server takes a message before its next request, which says nothing of
	 * what it had sent, nor does a token that it was just given.  What is left
	 * of its last request does.  A process that has not taken a token with any
	 * message had none to send before its request.
	 */
	rq->bounded = (t->label == 0 && t->last == 0) ||
	    (t->label != 0 && ((t->from == p->id &&
	    (t->serial != 0 || !kp_label_is_unowned(t->label))) ||
	    (before != NULL && of == before->r.label)));
	if (before != NULL) {
		rq->before = before->r.label;
		before->after = rq->r.label;
		before->superseded = true;
	}
	map_put(&rs->own, p->id, rq->r.label);
}

void
own_end(struct kp_requests *rs, const struct req *rq)
{
	uint64_t proc = rq->calls[0].c.proc;
	uint64_t *at = proc != 0 ? map_get(&rs->own, proc) : NULL;
	struct req *before = rq->before != 0 ? req_get(rs, rq->before) : NULL;
	struct req *after = rq->after != 0 ? req_get(rs, rq->after) : NULL;

	if (before != NULL)
		before->after = rq->after;
	if (after != NULL)
		after->before = rq->before;
	if (at == NULL || *at != rq->r.label)
		return;
	if (before != NULL)
		*at = rq->before;
	else
		map_remove(&rs->own, proc);
}

/* The process that began the request with this label; 0: it is not known. */
static uint64_t
label_proc(const struct kp_requests *rs, uint64_t label)
{
	const struct req *rq = req_get(rs, label);
	const struct tombstone *t = rq == NULL ? tombs_get(rs, label) : NULL;

	return rq != NULL ? rq->calls[0].c.proc : t != NULL ? t->proc : 0;
}

/* Was the process that began rq inside its entry then? */
static bool
entry_covers(const struct kp_requests *rs, const struct req *rq,
    kp_target_ns at)
{
	const struct kp_call *c = &rq->calls[0].c;
	const struct open *o;
	const struct proc *p;

	if (at < c->start || rq->set || rq->collided)
		return false;
	if (c->outcome != KP_OPEN)
		return at <= c->end;
	p = proc_get(rs, c->proc);
	for (uint32_t i = 0; p != NULL && i < p->n; i++) {
		o = &p->v[i];
		if (o->kind == OPEN_REQUEST && o->rq == rq && o->idx == 0)
			return o->doubt == DOUBT_NONE || at <= o->maybe;
	}
	return false;
}

#define OWN_WALK 1000	/* requests that a process may have begun since then */

/*
 * The request inside whose entry a process was when it sent this token, or NULL.
 * Before the request took its first message its own token was there; whatever
 * has another was sent before, as was what has a lower serial.  Where serials do
 * not tell, a token of an earlier request of the process was sent during that; and
 * one of no request may have been, unless it is younger than this one.
 */
static const struct req *
own_request(const struct kp_requests *rs, const struct rnode *nd,
    const struct token *t, kp_target_ns at)
{
	const uint64_t *own = map_get(&rs->own, t->from);
	const struct req *rq = own != NULL ? req_get(rs, *own) : NULL;
	bool earlier = rq != NULL && label_proc(rs, t->label) == t->from;
	bool unowned = kp_label_is_unowned(t->label);
	int begun = 0;

	if (rq != NULL)
		at = node_time(rs, nd->index, rq->calls[0].c.node, at);
	for (int i = 0; i < OWN_WALK && begun < NEST_MAX && rq != NULL; i++) {
		if (rq->r.label == t->label)
			return rq;
		begun += rq->calls[0].c.start <= at;
		if (unowned)
			earlier = !label_is_newer(t->label, rq->r.label);
		/* The next one may have sent it, which sampling passed over. */
		if (!(unowned && rq->r.weight > 1 &&
		    kp_sampling_mixes(&rs->o.conf->sampling)) &&
		    (rq->bounded || !earlier) &&
		    (int32_t)(t->serial - rq->since) > 0 &&
		    t->last != rq->took && entry_covers(rs, rq, at))
			return rq;
		rq = rq->before != 0 ? req_get(rs, rq->before) : NULL;
	}
	return NULL;
}

uint64_t
proc_innermost_label(const struct proc *p)
{
	for (uint32_t i = p->n; i > 0; i--)
		if (p->v[i - 1].doubt == DOUBT_NONE)
			return p->v[i - 1].kind == OPEN_REQUEST ?
			    p->v[i - 1].label : 0;
	return 0;
}

uint64_t
proc_works_for(const struct kp_requests *rs, const struct rnode *nd,
    uint64_t proc, const struct token *t, kp_target_ns at)
{
	const struct req *rq = req_get(rs, t->label), *own;
	bool known = rq != NULL && rq->state != REQ_EARLY, unowned;
	const struct proc *sender;
	uint64_t of;

	if (t->label == 0 || (known && !rq->spread && !rq->superseded &&
	    rq->calls[0].c.proc == t->from))
		return t->label;
	unowned = kp_label_is_unowned(t->label);
	if (t->from == 0)
		return unowned ? 0 : t->label;
	of = worked_get(rs, proc, t->label, token_taken(proc, t));
	if (of != 0)
		return of;
	if (t->from == proc) {
		/* A process that is spawned has taken what its parent took. */
		of = worked_get(rs, 0, t->label, t->last);
		if (of != 0 || (known && rq->calls[0].c.proc == proc))
			return of != 0 ? of : t->label;
	} else {
		own = own_request(rs, nd, t, at);
		/* The entry of a new one may not have come yet. */
		if (own != NULL && (known || unowned ||
		    tombs_get(rs, t->label) != NULL ||
		    !label_is_newer(t->label, own->r.label)))
			return own->r.label;
		of = worked_get(rs, t->from, t->label, t->last);
		sender = proc_get(rs, t->from);
		if (of == 0 && sender != NULL &&
		    proc_innermost_label(sender) == t->label)
			of = t->label;
		if (of != 0 || (known && rq->calls[0].c.proc == t->from))
			return of != 0 ? of : t->label;
	}
	return unowned || label_may_stray(rs, nd, rq, t->label) ? 0 : t->label;
}

uint64_t
message_works_for(struct kp_requests *rs, const struct rnode *nd,
    uint64_t receiver, const struct token *t, kp_target_ns sent)
{
	uint64_t of = proc_works_for(rs, nd, receiver != t->from ? receiver : 0,
	    t, sent);

	if (of != 0 && of != t->label)
		proc_note_work(rs, receiver, t, of);
	return of;
}

/*
 * ---- calls whose request is not known yet ----
 *
 * The event that shows what the sender worked for may come after those of what it
 * sent, from another node above all.  So such a call waits, as that of an early
 * request with a label that no token has, which is found a request or lost while
 * that is still in flight.  With a token of no request a call may well be of none: if
 * its request is not found it is not counted (it is `lost` already).
 */
#define SENDER_LAG (KP_HORIZON / 4)	/* for batches that are being filled */

bool
sender_is_behind(const struct kp_requests *rs, const struct rnode *nd,
    const struct token *t, kp_target_ns at)
{
	uint32_t from = (uint32_t)(t->from >> PID_NODE);
	const struct req *rq;

	if (from == nd->index || t->from == 0 || t->serial == 0 ||
	    rs->nodes[from].now - SENDER_LAG >
	    node_time(rs, nd->index, from, at))
		return false;
	if (kp_label_is_unowned(t->label))
		return true;
	rq = req_get(rs, t->label);
	return rq != NULL ? rq->state != REQ_EARLY &&
	    rq->calls[0].c.proc != t->from : tombs_get(rs, t->label) != NULL;
}

struct req *
orphan_make(struct kp_requests *rs, const struct token *t, uint32_t node,
    kp_target_ns at)
{
	struct req *rq = req_make_early(rs, ORPHAN | rs->next_orphan, node, at);

	if (rq == NULL)
		return NULL;
	rs->next_orphan = (rs->next_orphan + 1) & (ORPHAN - 1);
	rq->held = *t;
	return rq;
}

struct req *
orphan_around(const struct proc *p, const struct token *t)
{
	const struct open *top = p->n > 0 ? &p->v[p->n - 1] : NULL;
	struct req *rq = top != NULL && top->kind == OPEN_REQUEST ? top->rq :
	    NULL;

	return rq != NULL && rq->r.label >= ORPHAN &&
	    rq->held.label == t->label && token_taken(p->id, &rq->held) ==
	    token_taken(p->id, t) ? rq : NULL;
}

/* Those that are open belong to `to` from now on, but for label, index and start. */
static void
orphan_move_open(struct kp_requests *rs, const struct req *orphan,
    const struct open *to, uint64_t label, uint32_t by)
{
	struct proc *p = proc_get(rs, orphan->calls[1].c.proc);
	struct open *o;

	for (uint32_t i = 0; p != NULL && i < p->n; i++) {
		o = &p->v[i];
		if (o->kind != OPEN_REQUEST || o->rq != orphan)
			continue;
		o->kind = to->kind;
		o->label = label;
		if (to->kind == OPEN_REQUEST) {
			o->idx += by;
			o->rq = to->rq;
		} else {
			o->idx = orphan->calls[o->idx].c.fn;
			o->identity = to->identity;
			o->weight = to->weight;
		}
	}
}

/* Its request has closed: what has ended is handed on as late. */
static void
orphan_hand_on_late(struct kp_requests *rs, const struct req *orphan,
    const struct tombstone *t)
{
	const struct kp_call *c;

	for (uint32_t i = 1; i < orphan->ncalls; i++) {
		c = &orphan->calls[i].c;
		if (c->outcome != KP_OPEN)
			rs->o.on_late(rs->o.ctx, &(struct kp_late_call){
			    .identity = t->identity, .weight = t->weight,
			    .fn = c->fn, .outcome = c->outcome,
			    .node = c->node, .start = c->start,
			    .end = c->end });
	}
	orphan_move_open(rs, orphan, &(struct open){ .kind = OPEN_LATE,
	    .identity = t->identity, .weight = t->weight }, t->label, 0);
}

/* Its request is in flight and takes all of them; false: there is no room. */
static bool
orphan_give(struct kp_requests *rs, const struct req *orphan, struct req *rq)
{
	uint32_t by = rq->ncalls - 1;
	struct rcall c;

	for (uint32_t i = 1; i < orphan->ncalls; i++) {
		c = orphan->calls[i];
		c.c.lost = false;
		c.c.strayed = rq->r.label != orphan->held.label;
		rs->nodes[c.c.node].strayed += c.c.strayed;
		if (c.c.parent != KP_NONE)
			c.c.parent += by;
		if (req_add_call(rs, rq, &c) != KP_NONE)
			continue;
		rs->calls -= i - 1;	/* they stay where they are */
		rq->ncalls -= i - 1;
		return false;
	}
	orphan_move_open(rs, orphan, &(struct open){ .kind = OPEN_REQUEST,
	    .rq = rq }, rq->r.label, by);
	if (rs->pauses != NULL)
		pauses_give(rs, &rs->nodes[orphan->calls[1].c.node],
		    orphan->r.label, rq->r.label, by);
	for (uint32_t i = 1; i < orphan->ncalls; i++)
		if (orphan->calls[i].c.outcome != KP_OPEN &&
		    rs->fns.v[orphan->calls[i].c.fn].finish)
			req_end_by_finish(rs, rq);
	if (rq->r.identity == KP_IDENT_NONE) {
		rq->r.identity = orphan->r.identity;
		rq->overflow = orphan->overflow;
	}
	early_said(rq, &orphan->r);
	return true;
}

bool
orphan_adopt(struct kp_requests *rs, struct req *orphan, enum kp_loss *cause)
{
	const struct rcall *first = &orphan->calls[1];
	uint64_t of = proc_works_for(rs, &rs->nodes[first->c.node],
	    first->c.proc, &orphan->held, first->c.start);
	struct req *rq = of != 0 ? req_get(rs, of) : NULL;
	const struct tombstone *t = of != 0 && rq == NULL ?
	    tombs_get(rs, of) : NULL;

	*cause = KP_LOSS_CROSSED;
	if (t == NULL && (rq == NULL || rq->state == REQ_EARLY || rq->collided))
		return false;
	if (t == NULL && !orphan_give(rs, orphan, rq)) {
		*cause = KP_LOSS_CALL_CAP;
		return false;
	}
	if (t != NULL) {
		orphan_hand_on_late(rs, orphan, t);
		if (rs->pauses != NULL)
			pauses_forget(rs, orphan->r.label);
	}
	proc_note_work(rs, first->c.proc, &orphan->held, of);
	req_unlink(rs, orphan);
	req_free(rs, orphan);
	return true;
}

/* ---- open calls that are over ---- */

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

bool
proc_in_timed(const struct kp_requests *rs, const struct proc *p)
{
	const struct open *o;

	for (uint32_t i = rs->o.conf->slow_always ? p->n : 0; i > 0; i--) {
		o = &p->v[i - 1];
		if (o->kind == OPEN_TIMED || (o->kind == OPEN_REQUEST && o->idx == 0))
			return o->kind == OPEN_TIMED && o->doubt == DOUBT_NONE;
	}
	return false;
}

struct req *
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

/* The same; NULL also where the process has begun a call since then. */
static struct req *
mark_on_top(const struct kp_requests *rs, const struct proc *p, uint64_t label)
{
	struct req *rq = mark_here(rs, p, label);

	return rq != NULL && (p->n == 0 ||
	    p->v[p->n - 1].start <= rq->r.start) ? rq : NULL;
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
proc_reconcile_label(struct kp_requests *rs, struct proc *p, uint64_t label,
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
proc_reconcile_again(struct kp_requests *rs, struct proc *p, uint32_t fn,
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
proc_reconcile_entry(struct kp_requests *rs, struct proc *p, uint64_t old_label,
    uint32_t fn, uint32_t caller, kp_target_ns at)
{
	uint32_t i;

	proc_reconcile_again(rs, p, fn, caller, 0, at);
	/* It is inside that one, whose end is reported. */
	if (p->node->all_exact && proc_in_timed(rs, p))
		return;
	/* A call below the caller still runs: fn called itself through others. */
	for (i = p->n; p->node->chain_is_ambiguous && i > 0 &&
	    p->v[i - 1].fn != caller; i--)
		if (p->v[i - 1].fn == fn && p->v[i - 1].caller == caller) {
			proc_leave(rs, p, i - 1, at);
			break;
		}
	for (i = p->n; i > 0 && p->v[i - 1].doubt == DOUBT_TAIL; i--)
		;
	if (i == 0 || (old_label == 0 && p->node->chain_is_ambiguous))
		proc_leave(rs, p, 0, at);
	else if (old_label != 0)
		proc_reconcile_label(rs, p, old_label, at);
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
proc_reconcile_parent(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev, uint64_t old_label, uint64_t *outer)
{
	const struct open *top = p->n > 0 ? &p->v[p->n - 1] : NULL;
	const struct req *mark = mark_on_top(rs, p, old_label);
	uint64_t parent = open_label(rs, p, old_label, ev->ts);

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
 * Servers without traced calls are not reported: daemon/nodes/target_asks.c asks what
 * requests wait for, since the sender of such a token may be a worker of a pool, or
 * whoever else was asked since the pool answered.  An answer from the process of
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
crossed_call(struct crossed *d, uint64_t proc)
{
	struct crossed_server *v = crossed_find(d, proc);

	if (v == NULL || v->reported || v->calls == UINT32_MAX)
		return false;
	v->calls++;
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
call_crossed(struct kp_requests *rs, const struct kp_call *c, uint64_t label)
{
	const struct req *rq = req_get(rs, label);
	const struct tombstone *t = rq == NULL ? tombs_get(rs, label) : NULL;
	uint32_t weight = rq != NULL ? rq->r.weight : t != NULL ? t->weight : 1;

	rs->nodes[c->node].lost.n[KP_LOSS_CROSSED]++;
	rs->o.on_late(rs->o.ctx, &(struct kp_late_call){ .crossed = true,
	    .identity = KP_IDENT_NONE, .weight = weight, .fn = c->fn,
	    .outcome = KP_UNFINISHED, .node = c->node, .start = c->start });
}

/*
 * The last call of this process in rq: it was for the request that was answered,
 * or for this one.
 */
static void
crossed_lose(struct kp_requests *rs, struct req *rq, uint64_t proc)
{
	uint32_t stop = rq->ncalls > PARENT_SCAN_MAX ?
	    rq->ncalls - PARENT_SCAN_MAX : 1;
	struct kp_call *c;

	for (uint32_t i = rq->ncalls; i > stop; i--) {
		c = &rq->calls[i - 1].c;
		if (c->proc != proc || c->lost)
			continue;
		if (rq->ended_by != i - 1) {
			c->lost = true;
			call_crossed(rs, c, rq->r.label);
		}
		return;
	}
}

void
crossed_token(struct kp_requests *rs, const struct proc *p,
    const struct token *t, uint64_t label, uint64_t of)
{
	struct req *other = req_get(rs, of);

	if (t->from == 0 || t->from == p->id || other == NULL ||
	    other->state == REQ_EARLY || other->collided ||
	    label_inside(rs, of, label) || other->calls[0].c.proc == t->from ||
	    other->calls[0].c.proc == p->id)
		return;
	crossed_answer(&rs->crossed, t->from);
	if (t->serial != 0)
		crossed_lose(rs, other, t->from);
}

void
crossed_report(struct kp_requests *rs, const struct proc *p, uint32_t fn)
{
	if (crossed_call(&rs->crossed, p->id) && rs->o.on_crossed != NULL)
		rs->o.on_crossed(rs->o.ctx, p->node->index, p->id,
		    &rs->fns.v[fn]);
}
