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

#include "request/clock_align.h"

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
		    call_covers(&l->calls[j - 1], l->calls[i].start))
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
			place_root(&l, i);
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
