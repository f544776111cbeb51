/*
 * clock_place.c - finds where calls of one node go among those of the others,
 * and which call made them; clock_align.c says by what rules.
 */
#include "request/clock_align.h"

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
		    (l->places[i].from != 0 || c->fn != l->calls[i].fn) &&
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

void
place_root(struct layout *l, uint32_t i)
{
	place_root_for(l, i, false);
}
