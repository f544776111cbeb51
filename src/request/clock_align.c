/*
 * clock_align.c - puts the calls of a request that ran on several nodes on one
 * clock, as one trace.
 *
 * Each node times its calls by its own clock.  Adding the offset gives the time
 * by the clock of the entry's node.  But offsets are estimates: with them alone
 * a call may seem to begin before its caller, or to end after the answer, and
 * time would be counted twice or not at all.  These facts are exact:
 *
 *	- on one node: durations, and which calls were open when one began;
 *	- between nodes: which process sent the token, and that nothing begins
 *	  before its cause.
 *
 * So calls of one node that are tied to each other, by the stack of a process or
 * a message on that node, keep their distances and move together, at most as far
 * as the errors of the offsets allow.  The first of them goes where there is
 * room for it in a call of the process that sent the token: inside that call,
 * and at a time when that did not wait for anything else.  Mostly a process that
 * asks another node waits for the answer, so this is what happened.  Then, as
 * long as nothing runs in parallel, each moment belongs to one call: self times
 * add up to the total.  If there is no such room (the sender did not wait, or
 * the clocks drifted apart), the call only may not begin before its parent, the
 * innermost call that the sender had open.
 *
 * If an offset is not known its error is taken to be KP_REQUEST_AGE_MAX.
 */
#include <string.h>

#include "request/life.h"

#define SIBLINGS_MAX 256	/* calls looked at before and after one */

struct busy {
	kp_target_ns from, to;
};

/* A request while it is laid out: rs->out and rs->place, n of each. */
struct layout {
	struct kp_requests *rs;
	struct req *rq;
	struct kp_call *calls;
	struct place *places;
	uint32_t n;
	kp_dur_ns add[KP_NODES_MAX];	/* to get the request's clock, by node */
	uint32_t tries;		/* that are left */
	uint32_t nbusy;		/* see find_busy() */
	struct busy busy[2 * SIBLINGS_MAX];
};

/* By how much call i is moved. */
static inline kp_dur_ns
shift_of(const struct layout *l, uint32_t i)
{
	return l->places[l->places[i].root].shift;
}

/* Did a process of another node send the token of call i? */
static inline bool
crosses(const struct layout *l, uint32_t i)
{
	return l->places[i].from != 0 &&
	    l->places[i].from >> PID_NODE != l->calls[i].node;
}

/* ----------------------------------------------------- where a call goes ---- */

/*
 * Finds where calls of one node go among those of the others,
 * and which call made them; clock_align.c says by what rules.
 */

#define FITS_MAX 8	/* calls of the sender that are tried */
#define STEPS_MAX 8	/* other calls that are stepped over */
#define TRIES_MAX 16	/* roots that are placed first for one */

struct spot {
	uint32_t parent;	/* KP_NONE: none was found */
	kp_target_ns at;
	kp_dur_ns off;		/* how far that is from its converted time */
};

static kp_target_ns
start_of(const struct layout *l, uint32_t i)
{
	return l->calls[i].start + shift_of(l, i);
}

static kp_target_ns
end_of(const struct layout *l, uint32_t i)
{
	return l->calls[i].outcome == KP_UNFINISHED ? KP_TARGET_TIME_MAX :
	    l->calls[i].end + shift_of(l, i);
}

static bool
is_placed(const struct layout *l, uint32_t i)
{
	return l->places[l->places[i].root].state == PLACE_DONE;
}

static kp_dur_ns
node_error(const struct layout *l, uint32_t node)
{
	const struct rnode *nd = &l->rs->nodes[node];

	return nd->timed ? nd->error : KP_REQUEST_AGE_MAX;
}

/* Is `parent` not free while j runs: is j in its process, or made by it? */
static bool
keeps_busy(const struct layout *l, uint32_t parent, uint32_t j)
{
	const struct kp_call *c = &l->calls[j];

	if (!is_placed(l, j))
		return false;
	return (c->proc == l->calls[parent].proc && j > parent) ||
	    (c->parent == parent && c->outcome != KP_UNFINISHED);
}

static kp_dur_ns
call_dur(const struct kp_call *c)
{
	return c->outcome == KP_UNFINISHED ? 0 : c->end - c->start;
}

/* Collects what keeps `parent` busy where i may go within the error. */
static void
find_busy(struct layout *l, uint32_t i, uint32_t parent, kp_dur_ns error)
{
	uint32_t j = i > SIBLINGS_MAX ? i - SIBLINGS_MAX : 0;
	kp_target_ns first = l->calls[i].start - error;
	kp_target_ns last = l->calls[i].start + error + call_dur(&l->calls[i]);
	struct busy b;

	l->nbusy = 0;
	for (; j < l->n && j < i + SIBLINGS_MAX; j++) {
		if (j == i || !keeps_busy(l, parent, j))
			continue;
		b = (struct busy){ start_of(l, j), end_of(l, j) };
		if (b.to > first && b.from < last)
			l->busy[l->nbusy++] = b;
	}
}

/*
 * Is some of the span [at, at + dur] taken?  Then *next is the next time to try:
 * where that ends, or, going back, where a call that ends before it begins.
 */
static bool
is_taken(const struct layout *l, kp_target_ns at, kp_dur_ns dur, bool back,
    kp_target_ns *next)
{
	const struct busy *b = l->busy;
	bool taken = false;

	*next = at;
	for (; b < l->busy + l->nbusy; b++) {
		if (b->to <= at || b->from >= at + dur)
			continue;
		taken = true;
		if (back && b->from - dur < *next)
			*next = b->from - dur;
		if (!back && b->to > *next)
			*next = b->to;
	}
	return taken;
}

/* Looks for the nearest room for i in `parent`, forward or back in time. */
static void
look_for_room(const struct layout *l, uint32_t i, uint32_t parent,
    bool back, kp_dur_ns error, struct spot *best)
{
	const struct kp_call *c = &l->calls[i];
	kp_dur_ns dur = call_dur(c);
	kp_target_ns from = start_of(l, parent), to = end_of(l, parent) - dur;
	kp_target_ns at = c->start < from ? from : c->start > to ? to :
	    c->start, next;
	kp_dur_ns off;

	for (int step = 0; step < STEPS_MAX && at >= from && at <= to; step++) {
		off = at > c->start ? at - c->start : c->start - at;
		if (off > error)
			return;
		if (!is_taken(l, at, dur, back, &next)) {
			if (best->parent == KP_NONE || off <= best->off)
				*best = (struct spot){ parent, at, off };
			return;
		}
		at = next;
	}
}

static bool place_root_for(struct layout *l, uint32_t i, bool for_another);

/* May i, within the error, and j, where it is now, overlap? */
static bool
overlaps(const struct layout *l, uint32_t i, uint32_t j, kp_dur_ns error)
{
	return start_of(l, j) <= l->calls[i].start + error &&
	    end_of(l, j) >= l->calls[i].start - error;
}

/*
 * May call j of the sender have been open when it sent the message that began i?
 * Not if j is being placed and waits for i: then sets *blocked.
 */
static bool
may_be_parent(struct layout *l, uint32_t i, uint32_t j, kp_dur_ns error,
    bool *blocked)
{
	uint32_t root = l->places[j].root;

	if (l->calls[j].proc != l->places[i].from ||
	    call_is_after_send(&l->rq->calls[l->places[j].source],
	    &l->rq->calls[l->places[i].source]) ||
	    !overlaps(l, i, j, error))
		return false;
	*blocked |= l->places[root].state == PLACE_BUSY;
	return place_root_for(l, root, true) && overlaps(l, i, j, error);
}

/*
 * Finds where i goes: in the call of its sender that has room for it, or else in
 * one that was open.
 */
static struct spot
find_spot(struct layout *l, uint32_t i, bool *blocked)
{
	struct spot best = { KP_NONE, 0, 0 }, open = best;
	kp_target_ns seems = l->calls[i].start, at;
	kp_dur_ns error = node_error(l, l->calls[i].node) +
	    node_error(l, (uint32_t)(l->places[i].from >> PID_NODE));
	uint32_t from = i > PARENT_SCAN_MAX ? i - PARENT_SCAN_MAX : 0;
	int fits = 0;

	for (uint32_t j = from; j < l->n && j < i + PARENT_SCAN_MAX &&
	    l->calls[j].start <= seems + 2 * error; j++) {
		if (j == i || !may_be_parent(l, i, j, error, blocked))
			continue;
		at = seems < start_of(l, j) ? start_of(l, j) :
		    seems > end_of(l, j) ? end_of(l, j) : seems;
		open = (struct spot){ j, at, 0 };
		if (fits++ >= FITS_MAX)
			continue;
		find_busy(l, i, j, error);
		look_for_room(l, i, j, false, error, &best);
		look_for_room(l, i, j, true, error, &best);
	}
	return best.parent != KP_NONE ? best : open;
}

/* Did j run when i began?  On one node this is exact, wherever j is moved. */
static bool
ran_then(const struct layout *l, uint32_t j, uint32_t i)
{
	kp_target_ns at = l->calls[i].start;

	if (l->calls[j].node == l->calls[i].node)
		return call_covers(&l->calls[j], at);
	return start_of(l, j) <= at && end_of(l, j) >= at;
}

/*
 * The sender of i is not known: its parent is the innermost call that ran then,
 * as for any request (close.c).  If that is on the same node they move together.
 */
static struct spot
spot_by_time(const struct layout *l, uint32_t i)
{
	uint32_t stop = i > PARENT_SCAN_MAX ? i - PARENT_SCAN_MAX : 0;
	struct spot s = { KP_NONE, l->calls[i].start, 0 };
	const struct kp_call *c;

	for (uint32_t j = i; j > stop && s.parent == KP_NONE; j--) {
		c = &l->calls[j - 1];
		if (c->proc != l->calls[i].proc && is_placed(l, j - 1) &&
		    c->outcome != KP_UNFINISHED &&
		    (l->places[i].from != 0 ||
		    !same_fn(l->rs, c, &l->calls[i])) &&
		    ran_then(l, j - 1, i))
			s.parent = j - 1;
	}
	if (s.parent == KP_NONE && ran_then(l, 0, i))
		s.parent = 0;
	if (s.parent != KP_NONE && l->calls[s.parent].node == l->calls[i].node)
		s.at += shift_of(l, s.parent);
	return s;
}

/*
 * Returns false if root i cannot be placed now: a call that is being placed may
 * have made it, or TRIES_MAX others were tried for the same call.  The limit is
 * needed since processes that ask each other in turn, with clocks too inexact to
 * show which was first, could be placed in exponentially many orders.
 */
static bool
place_root_for(struct layout *l, uint32_t i, bool for_another)
{
	struct place *p = &l->places[i];
	struct spot s = { KP_NONE, 0, 0 };
	bool blocked = false;

	if (p->state != PLACE_NEW)
		return p->state == PLACE_DONE;
	if (!for_another)
		l->tries = TRIES_MAX;
	else if (l->tries == 0)
		return false;
	else
		l->tries--;
	p->state = PLACE_BUSY;
	if (crosses(l, i))
		s = find_spot(l, i, &blocked);
	if (blocked && for_another) {
		p->state = PLACE_NEW;
		return false;
	}
	if (s.parent == KP_NONE)
		s = spot_by_time(l, i);
	/* No call starts before its request. */
	if (s.at < l->calls[0].start)
		s.at = l->calls[0].start;
	l->calls[i].parent = s.parent;
	p->shift = s.at - l->calls[i].start;
	p->state = PLACE_DONE;
	return true;
}

/* ----------------------------------------------------- the whole request ---- */

/* With these, no sum of a time, a duration and a shift overflows. */
#define PLACE_TIME_MAX (KP_TARGET_TIME_MAX / 2)
#define PLACE_DUR_MAX (KP_TARGET_TIME_MAX / 4)

/* ---- convert to the clock of the request, and sort ---- */

/*
 * What to add to the times of its calls on this node.  If the offset is not
 * known, the first of them is taken to begin when the request does.
 */
static kp_dur_ns
node_add(const struct kp_requests *rs, const struct req *rq, uint32_t node)
{
	const struct rnode *own = &rs->nodes[rq->r.node];
	const struct rnode *nd = &rs->nodes[node];
	kp_target_ns first = KP_TARGET_TIME_MAX;
	const struct kp_call *c;

	if (nd == own)
		return 0;
	if (nd->timed && own->timed)
		return nd->offset - own->offset;
	for (uint32_t i = 1; i < rq->ncalls; i++) {
		c = &rq->calls[i].c;
		if (c->node == node && !c->placed && c->start < first)
			first = c->start;
	}
	return rq->r.start - first;
}

static kp_target_ns
time_add(kp_target_ns at, kp_dur_ns by)
{
	if (__builtin_add_overflow(at, by, &at))
		return by > 0 ? PLACE_TIME_MAX : -PLACE_TIME_MAX;
	return at > PLACE_TIME_MAX ? PLACE_TIME_MAX :
	    at < -PLACE_TIME_MAX ? -PLACE_TIME_MAX : at;
}

void
calls_detach(struct kp_requests *rs, struct req *rq, uint32_t node)
{
	kp_dur_ns by = node_add(rs, rq, node);
	struct kp_call *c;

	for (uint32_t i = 0; i < rq->ncalls && node != rq->r.node; i++) {
		c = &rq->calls[i].c;
		if (c->node != node || c->placed)
			continue;
		c->placed = true;
		c->start = time_add(c->start, by);
		c->end = time_add(c->end, by);
	}
}

static void
find_offsets(struct layout *l)
{
	uint32_t n;

	for (uint64_t rest = l->rq->r.nodes; rest != 0; rest &= rest - 1) {
		n = (uint32_t)__builtin_ctzll(rest);
		l->add[n] = node_add(l->rs, l->rq, n);
	}
}

static kp_target_ns
call_start(const struct layout *l, uint32_t i)
{
	const struct kp_call *c = &l->rq->calls[i].c;

	return time_add(c->start, c->placed ? 0 : l->add[c->node]);
}

static uint32_t
order_calls(const struct layout *l)
{
	uint32_t *order = l->rs->order, n = 0, j;
	kp_target_ns start;

	for (uint32_t i = 0; i < l->rq->ncalls; i++) {
		if (call_stays_out(l->rs, l->rq, i))
			continue;
		start = call_start(l, i);
		for (j = n++; j > 1 && call_start(l, order[j - 1]) > start; j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
	return n;
}

static void
copy_calls(struct layout *l)
{
	uint32_t *order = l->rs->order, *where = order + l->rs->outcap;
	struct kp_call *c;
	kp_dur_ns dur;

	for (uint32_t i = 0; i < l->rq->ncalls; i++)
		where[i] = KP_NONE;
	for (uint32_t i = 0; i < l->n; i++)
		where[order[i]] = i;
	for (uint32_t i = 0; i < l->n; i++) {
		c = &l->calls[i];
		*c = l->rq->calls[order[i]].c;
		c->outlasts = call_outlasts(l->rs, l->rq, order[i]);
		if (c->outcome == KP_OPEN || c->outcome == KP_UNFINISHED) {
			c->outcome = KP_UNFINISHED;
			c->end = c->start;
		}
		dur = c->end - c->start;
		c->start = call_start(l, order[i]);
		c->end = c->start + (dur < PLACE_DUR_MAX ? dur :
		    PLACE_DUR_MAX);
		if (c->parent != KP_NONE)
			c->parent = where[c->parent];
		l->places[i] = (struct place){ .source = order[i],
			.from = l->rq->calls[order[i]].from };
	}
}

/* ---- parents on the same node ---- */

/* The innermost call that the sender, on the same node, had open. */
static uint32_t
open_in_sender(const struct layout *l, uint32_t i)
{
	uint32_t stop = i > PARENT_SCAN_MAX ? i - PARENT_SCAN_MAX : 0;

	if (l->places[i].from == 0)
		return KP_NONE;
	for (uint32_t j = i; j > stop; j--)
		if (l->calls[j - 1].proc == l->places[i].from &&
		    call_covers(&l->calls[j - 1], l->calls[i].start) &&
		    !call_is_after_send(&l->rq->calls[l->places[j - 1].source],
		    &l->rq->calls[l->places[i].source]))
			return j - 1;
	return KP_NONE;
}

/* Finds parents as close.c does, and ties calls that move together. */
static void
tie_calls(struct layout *l)
{
	struct kp_call *c;
	uint32_t at;

	for (uint32_t i = 0; i < l->n; i++) {
		c = &l->calls[i];
		while ((at = c->parent) != KP_NONE &&
		    !call_covers(&l->calls[at], c->start))
			c->parent = l->calls[at].proc == c->proc ?
			    l->calls[at].parent : KP_NONE;
		if (at != KP_NONE && l->calls[at].proc != c->proc)
			c->parent = KP_NONE;
		if (c->parent == KP_NONE && i > 0 && !crosses(l, i))
			c->parent = open_in_sender(l, i);
		l->places[i].root = c->parent != KP_NONE ?
		    l->places[c->parent].root : i;
	}
}

/* ---- sort again ---- */

static void
find_depths(struct layout *l)
{
	uint32_t up, n;

	for (uint32_t i = 1; i < l->n; i++) {
		n = 0;
		for (up = i; up != 0 && up != KP_NONE &&
		    l->places[up].depth == 0; up = l->calls[up].parent)
			n++;
		n += up != KP_NONE ? l->places[up].depth : 0;
		for (up = i; up != 0 && up != KP_NONE &&
		    l->places[up].depth == 0; up = l->calls[up].parent)
			l->places[up].depth = n--;
	}
}

static bool
comes_before(const struct layout *l, uint32_t a, uint32_t b)
{
	if (l->calls[a].start != l->calls[b].start)
		return l->calls[a].start < l->calls[b].start;
	return l->places[a].depth < l->places[b].depth;
}

static void
swap_calls(struct layout *l, uint32_t a, uint32_t b)
{
	struct kp_call c = l->calls[a];
	struct place p = l->places[a];

	l->calls[a] = l->calls[b];
	l->places[a] = l->places[b];
	l->calls[b] = c;
	l->places[b] = p;
}

/* Sorts by start, then parents first; the entry stays first. */
static void
sort_again(struct layout *l)
{
	uint32_t *was = l->rs->order, *where = was + l->rs->outcap, x;

	for (uint32_t i = 0; i < l->n; i++) {
		was[i] = i;
		for (uint32_t j = i; j > 1 && comes_before(l, j, j - 1); j--) {
			swap_calls(l, j, j - 1);
			x = was[j];
			was[j] = was[j - 1];
			was[j - 1] = x;
		}
	}
	for (uint32_t i = 0; i < l->n; i++)
		where[was[i]] = i;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->calls[i].parent != KP_NONE)
			l->calls[i].parent = where[l->calls[i].parent];
}

/* If a call on another node ended it, the request ends where that is placed. */
static void
find_end(struct layout *l)
{
	struct req *rq = l->rq;

	for (uint32_t i = 1; rq->ended_by != KP_NONE && i < l->n; i++)
		if (l->places[i].source == rq->ended_by &&
		    l->calls[i].node != rq->r.node)
			rq->r.end = l->calls[i].end > rq->r.start ?
			    l->calls[i].end : rq->r.start;
}

uint32_t
align_calls(struct kp_requests *rs, struct req *rq)
{
	struct layout l = { .rs = rs, .rq = rq, .calls = rs->out,
		.places = rs->place };
	kp_dur_ns by;

	find_offsets(&l);
	l.n = order_calls(&l);
	copy_calls(&l);
	tie_calls(&l);
	l.places[0].state = PLACE_DONE;
	for (uint32_t i = 1; i < l.n; i++)
		if (l.places[i].root == i)
			place_root_for(&l, i, false);
	for (uint32_t i = 1; i < l.n; i++) {
		by = shift_of(&l, i);
		l.calls[i].start += by;
		l.calls[i].end += by;
		l.places[i].moved = time_add(l.add[l.calls[i].node], by);
	}
	find_depths(&l);
	sort_again(&l);
	find_end(&l);
	for (uint32_t i = 0; i < l.n; i++) {
		l.calls[i].async = i > 0 && l.calls[i].start >= rq->r.end;
		l.calls[i].placed = true;
	}
	return l.n;
}

kp_dur_ns
kp_requests_moved(const struct kp_requests *rs, const struct kp_request *rq,
    uint32_t i)
{
	return rq->nodes == UINT64_C(1) << rq->node ? 0 : rs->place[i].moved;
}
