/*
 * close.c - closes a request: orders its calls, finds their parents, hands it
 * on, and leaves a tombstone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "kprofd/hist.h"
#include "request/life.h"

#define LINES_MAX 16	/* of a request's calls: the processor fetches the rest */

static bool
scratch_room(struct kp_requests *rs, uint32_t n)
{
	struct kp_call *out;
	struct place *place;
	uint32_t *order;

	if (n <= rs->outcap)
		return true;
	out = realloc(rs->out, n * sizeof(*out));
	if (out == NULL)
		return false;
	rs->out = out;
	place = realloc(rs->place, n * sizeof(*place));
	if (place == NULL)
		return false;
	rs->place = place;
	order = realloc(rs->order, 2 * n * sizeof(*order));
	if (order == NULL)
		return false;
	rs->order = order;
	rs->outcap = n;
	return true;
}

/*
 * Sorts by start.  Events come nearly in order, so insertion is linear; only a
 * request that is far out of order costs more, up to its cap of calls.  The
 * entry stays first: nothing of a request starts before it.
 */
static void
order_calls(const struct req *rq, uint32_t *order, uint32_t n)
{
	uint32_t j, x;

	for (uint32_t i = 2; i < n; i++) {
		x = order[i];
		for (j = i; j > 1 && rq->calls[order[j - 1]].c.start >
		    rq->calls[x].c.start; j--)
			order[j] = order[j - 1];
		order[j] = x;
	}
}

/*
 * Finds the parent of the first call of a process: the innermost call that was
 * open in the process that sent the token, and made before it did, otherwise the
 * innermost one open anywhere whose end is known.  (A call without an end is
 * mostly of a process that died.)  A process that was spawned with its token
 * names itself as the sender, so from is 0; often several are spawned at once to
 * do the same, so a call of the same function is taken for a sibling.
 */
static uint32_t
find_parent(const struct kp_requests *rs, const struct req *rq, uint32_t i)
{
	const struct rcall *first = &rq->calls[rs->order[i]];
	const struct kp_call *calls = rs->out;
	uint64_t from = first->from;
	uint32_t by_time = KP_NONE;
	uint32_t stop = i > PARENT_SCAN_MAX ? i - PARENT_SCAN_MAX : 0;

	for (uint32_t j = i; j > stop; j--) {
		if (calls[j - 1].proc == calls[i].proc ||
		    !call_covers(&calls[j - 1], calls[i].start) ||
		    call_is_after_send(&rq->calls[rs->order[j - 1]], first))
			continue;
		if (from == 0 && same_fn(rs, &calls[j - 1], &calls[i]))
			continue;
		if (calls[j - 1].proc == from)
			return j - 1;
		if (by_time == KP_NONE && calls[j - 1].outcome != KP_UNFINISHED)
			by_time = j - 1;
	}
	if (by_time == KP_NONE && call_covers(&calls[0], calls[i].start))
		by_time = 0;
	return by_time;
}

/*
 * Fills rs->out with the request's calls, final; returns their number.  place: by
 * the index of a call in flight, its index in rs->out (not struct place).
 */
static uint32_t
lay_out(struct kp_requests *rs, const struct req *rq)
{
	uint32_t *order = rs->order, *place = rs->order + rs->outcap;
	uint32_t n = 0, at;
	struct kp_call *c;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		place[i] = KP_NONE;
		if (call_stays_out(rs, rq, i))
			continue;
		order[n++] = i;
	}
	order_calls(rq, order, n);
	for (uint32_t i = 0; i < n; i++)
		place[order[i]] = i;
	for (uint32_t i = 0; i < n; i++) {
		c = &rs->out[i];
		*c = rq->calls[order[i]].c;
		c->outlasts = call_outlasts(rs, rq, order[i]);
		if (c->outcome == KP_OPEN)
			c->outcome = KP_UNFINISHED;
		c->async = i > 0 && c->start >= rq->r.end;
		c->placed = true;
		if (c->parent != KP_NONE)
			c->parent = place[c->parent];
	}
	for (uint32_t i = 1; i < n; i++) {
		c = &rs->out[i];
		/* A parent that seemed open had ended: see stack.c. */
		while ((at = c->parent) != KP_NONE &&
		    !call_covers(&rs->out[at], c->start))
			c->parent = rs->out[at].proc == c->proc ?
			    rs->out[at].parent : KP_NONE;
		if (at == KP_NONE || rs->out[at].proc != c->proc)
			c->parent = find_parent(rs, rq, i);
	}
	return n;
}

/* Sets the limits of calls that outlast it, by the end that align_calls() set. */
static void
keep_limits(struct kp_requests *rs, struct req *rq, bool here)
{
	for (uint32_t i = 0; i < rq->r.ncalls; i++)
		if (rs->out[i].outlasts)
			call_set_limit(rs, rq, here ? rs->order[i] :
			    rs->place[i].source, &rs->out[i]);
}

/* open: some of its calls may be open. */
static void
hand_on(struct kp_requests *rs, struct req *rq, bool open)
{
	struct rnode *nd = &rs->nodes[rq->r.node];
	kp_target_ns end = rq->r.end;
	bool here;

	if (!scratch_room(rs, rq->ncalls)) {
		nd->lost.n[KP_LOSS_REQUEST_CAP]++;
		for (uint32_t i = 1; i < rq->ncalls; i++)
			rs->nodes[rq->calls[i].c.node].lost.n[
			    KP_LOSS_WITH_REQUEST] += !call_stays_out(rs, rq, i);
		return;
	}
	nd->lost.n[KP_LOSS_IDENTITY_CAP] += rq->overflow;
	if (rq->again && rq->r.parent_label != 0)
		nd->lost.n[KP_LOSS_TWICE] += rq->r.weight;
	if (rq->inherits && rq->r.parent_label == 0)
		rq->r.traceparent[0] = '\0';
	here = rq->r.nodes == UINT64_C(1) << rq->r.node;
	rq->r.ncalls = here ? lay_out(rs, rq) : align_calls(rs, rq);
	rq->r.calls = rs->out;
	if (open)
		keep_limits(rs, rq, here);
	if (rs->pauses != NULL)
		pauses_hand_on(rs, rq, here ? rs->order : &rs->place->source,
		    here ? 1 : sizeof(*rs->place) / sizeof(uint32_t));
	if (rs->messages != NULL)
		messages_hand_on(rs, rq);
	rs->o.on_request(rs->o.ctx, &rq->r);
	tombs_add(rs, nd, &(struct tombstone){ .label = rq->r.label,
	    .outer = rq->outer, .proc = rq->calls[0].c.proc, .at = rq->r.end,
	    .identity = rq->r.identity,
	    .weight = rq->r.weight & 0xFFFFFF,
	    .octave = kp_request_octave(&rq->r) & 0x7Fu, .spread = rq->spread });
	/* req_drop() decides by this end which calls go on, as was done above. */
	rq->r.end = end;
}

/*
 * Did rq begin inside the request that its entry's token named?  Not if that had
 * ended by then, which is known only now, since events of processes are not in
 * order.  (Clocks of different nodes are not compared for this.)  Not if its
 * entry never came either: a token from before an overload, whose request was
 * dropped, still has calls.  *node: where that request began.
 */
static bool
parent_holds(const struct kp_requests *rs, const struct req *rq,
    uint32_t *node)
{
	const struct req *p = req_get(rs, rq->r.parent_label);
	const struct tombstone *t;

	*node = rq->r.node;
	if (p != NULL) {
		*node = p->r.node;
		return p->state != REQ_EARLY && !(p->state == REQ_ENDED &&
		    p->r.node == rq->r.node && p->r.end <= rq->r.start);
	}
	t = tombs_get(rs, rq->r.parent_label);
	if (t == NULL)
		return !rq->outer_early;
	*node = tombs_node(rs, rq->r.parent_label);
	return *node != rq->r.node || t->at > rq->r.start;
}

/*
 * A client's next request may come before the end of its last one, whose token it
 * takes.  Only that end shows that it is not inside the other.
 */
static bool
parent_has_ended(const struct kp_requests *rs, const struct req *rq)
{
	const struct req *p = req_get(rs, rq->r.parent_label);

	return p != NULL ? p->state == REQ_ENDED :
	    tombs_get(rs, rq->r.parent_label) != NULL;
}

/*
 * Decides, once, whether it is inside the request that it seemed to begin in, and
 * counts the requests that unsampled ones like it have cut.
 *
 * An entry that is not sampled removes the token of the request that it is
 * called inside, without an event: most such tokens are old, and a message about
 * each would cost what sampling saves.  But an inner request that is sampled
 * stands for `weight` requests, so weight - 1 others have each cut an outer
 * request like its own.  They count where that began; not where no end comes any
 * more, since nobody knows then whether it was inside.
 */
static void
req_decide_parent(struct kp_requests *rs, struct req *rq)
{
	uint32_t node;

	if (rq->r.parent_label == 0)
		return;
	if (!parent_holds(rs, rq, &node))
		rq->r.parent_label = 0;
	else if (rq->takes_token && rq->r.weight > 1 &&
	    kp_sampling_mixes(&rs->o.conf->sampling) &&
	    (!rs->abandons || parent_has_ended(rs, rq)))
		rs->nodes[node].lost.n[KP_LOSS_CUT] += rq->r.weight - 1;
}

void
req_drop(struct kp_requests *rs, struct req *rq)
{
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN)
			proc_forget(rs, rq->calls[i].c.proc, rq);
	req_unlink(rs, rq);
	own_end(rs, rq);
	if (rs->pauses != NULL)
		pauses_forget(rs, rq->r.label);
	if (rs->messages != NULL)
		messages_forget(rs, rq->r.label);
	req_free(rs, rq);
}

/* rq will be closed, which touches all of its memory: fetches the next one's. */
static void
prefetch_next(const struct kp_requests *rs, const struct req *rq)
{
	const struct req *next = TAILQ_NEXT(rq, link);
	size_t lines;

	if (next == NULL || rs->procs.len < PREFETCH_PROCS_MIN)
		return;
	map_fetch(&rs->by_label, next->r.label);
	map_fetch(&rs->buried, next->r.label);
	lines = (next->ncalls * sizeof(*next->calls) + POOL_LINE - 1) /
	    POOL_LINE;
	fetch_lines(next->calls, lines < LINES_MAX ? lines : LINES_MAX);
	if (TAILQ_NEXT(next, link) != NULL)
		fetch_lines(TAILQ_NEXT(next, link), 2);
}

uint8_t
kp_request_octave(const struct kp_request *rq)
{
	return kp_outcome_timed((enum kp_outcome)rq->outcome) ?
	    kp_hist_octave(sat_span(rq->start, rq->end)) : 0;
}

/* Hands it on, leaves a tombstone and frees it. */
static void
req_close(struct kp_requests *rs, struct req *rq)
{
	bool open = false;

	req_decide_parent(rs, rq);
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN) {
			proc_settle(rs, rq->calls[i].c.proc, rq);
			open |= rq->calls[i].c.outcome == KP_OPEN;
		}
	if (!rq->collided)
		hand_on(rs, rq, open);
	else
		req_lose_calls(rs, rq, 1, KP_LOSS_WITH_REQUEST);
	req_drop(rs, rq);
}

/* ------------------------------------------------- when requests are due ---- */

/*
 * Settles, closes or drops requests when they are due, or all of a
 * node's at once.
 */

#define ORPHAN_WALK 256		/* early requests that are passed over */
#define ABANDONED_MAX (1u << 16)	/* of a node: 2 MB */

/* Gives its calls to the request that they are of; last: or counts them as lost. */
static void
orphan_place(struct kp_requests *rs, struct req *orphan, bool last)
{
	enum kp_loss cause;

	if (orphan_adopt(rs, orphan, &cause) || !last)
		return;
	for (uint32_t i = 1; i < orphan->ncalls && cause == KP_LOSS_CALL_CAP; i++)
		orphan->calls[i].c.lost = false;	/* it was found */
	if (cause != KP_LOSS_CROSSED)
		req_lose_calls(rs, orphan, 1, cause);
	for (uint32_t i = 1; i < orphan->ncalls; i++) {
		if (cause == KP_LOSS_CROSSED && !orphan->calls[i].c.lost)
			call_crossed(rs, &orphan->calls[i].c,
			    orphan->held.label);
		rs->nodes[orphan->calls[1].c.node].strayed +=
		    !orphan->calls[i].c.lost;
		rs->nodes[orphan->calls[1].c.node].outside +=
		    orphan->calls[i].c.lost;
		if (orphan->calls[i].c.outcome == KP_OPEN)
			proc_ignore(rs, orphan->calls[i].c.proc, orphan);
	}
	req_drop(rs, orphan);
}

/* No entry came: the token is older than the tombstones. */
static void
req_drop_early(struct kp_requests *rs, struct req *rq)
{
	if (rq->r.label >= ORPHAN) {
		orphan_place(rs, rq, true);
		return;
	}
	req_lose_calls(rs, rq, 1, KP_LOSS_STALE);
	for (uint32_t i = 1; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN)
			proc_ignore(rs, rq->calls[i].c.proc, rq);
	req_drop(rs, rq);
}

/*
 * Its process is silent: an entry or a finish that is in doubt did end where it
 * seemed to.
 */
static void
req_settle(struct kp_requests *rs, struct req *rq)
{
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].c.outcome == KP_OPEN &&
		    call_may_end(rs, rq, i))
			proc_settle(rs, rq->calls[i].c.proc, rq);
	if (rq->state != REQ_ENDED)
		req_unpend(rs, rq);
}

/*
 * No end came within a minute.  If only a finish is missing, the entry's own
 * return is the end.
 */
static void
req_expire(struct kp_requests *rs, struct req *rq, kp_target_ns now)
{
	const struct kp_call *entry = &rq->calls[0].c;

	if (rq->ncalls > 0 && entry->outcome != KP_OPEN &&
	    entry->outcome != KP_UNFINISHED) {
		req_end(rs, rq, entry->outcome, entry->end);
	} else {
		rs->nodes[rq->r.node].lost.n[KP_LOSS_EXPIRED] += !rq->collided;
		rq->r.expired = true;
		req_end(rs, rq, KP_UNFINISHED, now);
	}
	req_close(rs, rq);
}

/* Between them there may be early requests, of which some are passed over. */
static void
node_settle_orphans(struct kp_requests *rs, struct rnode *nd, kp_target_ns due)
{
	struct req *rq = TAILQ_FIRST(&nd->lists[REQ_EARLY]), *next;

	for (unsigned n = 0; n < ORPHAN_WALK && rq != NULL &&
	    due - rq->touched >= KP_HORIZON / 2; rq = next) {
		next = TAILQ_NEXT(rq, link);
		if (rq->r.label >= ORPHAN)
			orphan_place(rs, rq, due - rq->touched >=
			    KP_HORIZON / 4 * 3);
		else
			n++;
	}
}

/* Requests of nd are about to close: orphans of all nodes may be theirs. */
static void
orphans_place_all(struct kp_requests *rs, const struct rnode *nd, kp_target_ns due)
{
	for (uint32_t i = 0; i < KP_NODES_MAX && rs->n_early > 0; i++)
		if (rs->nodes[i].name != NULL)
			node_settle_orphans(rs, &rs->nodes[i],
			    node_time(rs, nd->index, i, due));
}

void
kp_requests_close_due(struct kp_requests *rs, uint32_t node, kp_target_ns now)
{
	struct rnode *nd;
	kp_target_ns due;
	struct req *rq;

	if (node == KP_NONE || now >= KP_TARGET_TIME_MAX ||
	    now <= -KP_TARGET_TIME_MAX)
		return;
	nd = &rs->nodes[node];
	if (now < nd->now - KP_NS_PER_S) {
		/* The target restarted, and its clock with it. */
		tombs_free(rs, nd);
		map_clear(&nd->abandoned);
		/* Not of the first time, which is less than none (0) as well. */
		nd->has_met &= !nd->has_now;
		nd->swept = now;
	}
	nd->has_now = true;
	nd->now = now;
	due = node_due(rs, nd, now);
	if (rs->next_orphan > 0)
		orphans_place_all(rs, nd, due);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_EARLY])) != NULL &&
	    due - rq->touched >= KP_HORIZON)
		req_drop_early(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_PENDING])) != NULL &&
	    due - rq->touched >= KP_TAIL_WAIT)
		req_settle(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_ENDED])) != NULL &&
	    due - rq->r.end >= KP_HORIZON) {
		prefetch_next(rs, rq);
		req_close(rs, rq);
	}
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_LIVE])) != NULL &&
	    now - rq->r.start >= KP_REQUEST_AGE_MAX)
		req_expire(rs, rq, now);
	tombs_expire(rs, nd, now - KP_TOMBSTONE_AGE);
	procs_sweep(rs, nd, now);
	if (rs->messages != NULL)
		messages_expire(rs, nd, now);
}

/*
 * The node's clock may start again, or another node get its index.  So calls
 * that ran there are converted to the clock of their request now, and requests
 * whose entry has not come are dropped.
 */
static void
list_detach(struct kp_requests *rs, struct req_list *l, uint32_t node)
{
	struct req *rq = TAILQ_FIRST(l), *next;

	for (; rq != NULL; rq = next) {
		next = TAILQ_NEXT(rq, link);
		if ((rq->r.nodes >> node & 1) == 0)
			continue;
		if (rq->state == REQ_EARLY)
			req_drop_early(rs, rq);
		else
			calls_detach(rs, rq, node);
	}
}

static void
node_detach(struct kp_requests *rs, struct rnode *gone)
{
	struct rnode *nd;

	for (uint32_t i = 0; gone->touched > 0 && i < KP_NODES_MAX; i++) {
		nd = &rs->nodes[i];
		for (uint32_t j = 0; j < REQ_STATES; j++)
			list_detach(rs, &nd->lists[j], gone->index);
	}
}

/*
 * Their samples are lost, and not those of idle processes with an old token.  Where
 * memory is short, or there are too many, it is not known which they were.
 */
static void
abandoned_note(struct rnode *nd)
{
	const struct req *rq;

	map_clear(&nd->abandoned);
	nd->abandoned_at = nd->now;
	if (!nd->has_now)
		return;
	TAILQ_FOREACH(rq, &nd->lists[REQ_LIVE], link)
		if (nd->abandoned.len == ABANDONED_MAX ||
		    !map_put(&nd->abandoned, rq->r.label, 1))
			return;
}

void
kp_requests_abandon(struct kp_requests *rs, uint32_t node, enum kp_loss cause)
{
	struct rnode *nd;
	struct req *rq;

	if (node == KP_NONE)
		return;
	nd = &rs->nodes[node];
	rs->abandons = true;
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_EARLY])) != NULL)
		req_drop_early(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_PENDING])) != NULL)
		req_settle(rs, rq);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_ENDED])) != NULL)
		req_close(rs, rq);
	abandoned_note(nd);
	while ((rq = TAILQ_FIRST(&nd->lists[REQ_LIVE])) != NULL) {
		req_decide_parent(rs, rq);
		nd->lost.n[cause] += !rq->collided;
		req_lose_calls(rs, rq, 1, KP_LOSS_WITH_REQUEST);
		req_drop(rs, rq);
	}
	rs->abandons = false;
	procs_abandon(rs, nd, cause);
	if (rs->pauses != NULL)
		pauses_detach(rs, nd);
	node_detach(rs, nd);
	if (rs->messages != NULL)
		messages_detach(rs, nd);
	crossed_detach(&rs->crossed, node);
	nd->has_now = false;
}

void
kp_requests_remove(struct kp_requests *rs, uint32_t node, enum kp_loss cause)
{
	struct rnode *nd = &rs->nodes[node];

	kp_requests_abandon(rs, node, cause);
	tombs_free(rs, nd);
	map_free(&nd->abandoned);
	free(nd->name);
	nd->name = NULL;
	nd->timed = false;
	rs->nnodes--;
}
