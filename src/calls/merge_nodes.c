/*
 * merge_nodes.c - reads the file twice: once for constraints between the clocks of
 * the nodes, once to return the events in order.
 *
 * The first reading collects messages between nodes, and the first event of each
 * request.  In the second one each node has a reader of its own, which skips the
 * events of other nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "calls/merge_nodes.h"

/* ---- constraints: events and their causes on other nodes ---- */

#define TIE_NONE UINT32_MAX

/*
 * An event that is a cause or has one (a "tie"); by node, in the order of the
 * file.
 */
struct constraint {
	uint64_t seq;		/* number in the file, from 0 on */
	kp_target_ns ts;	/* by its node's clock */
	uint32_t node;
	/* The last two identify a message; of a SEND, what it was sent for. */
	uint32_t request, from, serial;
	uint32_t cause;		/* index, or TIE_NONE */
	enum kp_call_kind kind;
	bool unsent;		/* RECEIVE: of a request that was not traced */
	bool done;		/* its place in the order is known: */
	kp_target_ns at;
};

struct tied_request {
	uint32_t same;		/* another number of this request, or 0 */
	uint32_t node;		/* where it began, if `begun` */
	bool begun;
	bool seen;		/* its first event there is known: */
	kp_target_ns at;
};

/* Zeroed, and then names set, is empty. */
struct constraints {
	const struct kp_call_names *names;
	struct constraint *v;
	uint32_t n;
	struct tied_request *requests;
	uint32_t nrequests;
	kp_dur_ns shifts[KP_CALLS_NODES_MAX];	/* added to the offsets */
	bool sends[KP_CALLS_NODES_MAX];	/* messages sent there were seen */
	bool begun;		/* of the requests, only some were asked for */
	enum kp_err err;	/* KP_ENOMEM sticks */
};

#define AMBIGUOUS UINT64_MAX
/* Leaves room after the last event for events that are moved behind it. */
#define TIME_MAX (KP_CALLS_TIME_MAX - (INT64_C(1) << 32))

/* ---- while it is read ---- */

static struct tied_request *
request_of(struct constraints *t, uint32_t request)
{
	if (vec_reach(&t->requests, &t->nrequests, request) == KP_OK)
		return &t->requests[request];
	t->err = KP_ENOMEM;
	return NULL;
}

static void
on_begun(void *ctx, uint32_t request, uint32_t node)
{
	struct constraints *t = ctx;
	struct tied_request *r = request_of(t, request);

	t->begun = true;
	if (r != NULL && !r->begun) {
		r->begun = true;
		r->node = node;
	}
}

/* The number that stands for all numbers of a request. */
static uint32_t
constraints_root(const struct constraints *t, uint32_t request)
{
	while (request < t->nrequests && t->requests[request].same > 0)
		request = t->requests[request].same;
	return request;
}

/* The same, and halves the path there. */
static uint32_t
root_of(struct constraints *t, uint32_t request)
{
	struct tied_request *v = t->requests;

	while (request < t->nrequests && v[request].same > 0) {
		if (v[v[request].same].same > 0)
			v[request].same = v[v[request].same].same;
		request = v[request].same;
	}
	return request;
}

/* Numbers that a damaged file makes a ring of do not close it. */
static void
on_same(void *ctx, uint32_t request, uint32_t as)
{
	struct constraints *t = ctx;
	uint32_t a = root_of(t, request), b = root_of(t, as);
	struct tied_request *r = request_of(t, a > b ? a : b);

	if (r != NULL && a != b)
		t->requests[a].same = b;
}

static bool
may_tie(const struct constraints *t, const struct kp_call_event *ev)
{
	switch (ev->kind) {
	case KP_CALL_SEND:
		return true;
	case KP_CALL_RECEIVE:
		return t->names->procs[ev->proc].node !=
		    t->names->procs[ev->other].node;
	case KP_CALL_REQUEST:
		return ev->other > 0;
	default:
		return false;
	}
}

static void
constraints_add(struct constraints *t, const struct kp_call_event *ev, uint64_t seq)
{
	enum kp_err e;

	if (ev->kind == KP_CALL_REQUEST && ev->other > 0)
		request_of(t, ev->other);
	else if (ev->request > 0)
		request_of(t, ev->request);
	if (!may_tie(t, ev))
		return;
	e = vec_room_by_len(&t->v, t->n, KP_MERGE_TIES_MAX);
	if (e == KP_ENOMEM)
		t->err = e;
	if (e != KP_OK)
		return;
	t->v[t->n++] = (struct constraint){ .seq = seq, .ts = ev->ts,
		.node = t->names->procs[ev->proc].node,
		.kind = ev->kind, .serial = ev->serial, .cause = TIE_NONE,
		.request = ev->kind == KP_CALL_REQUEST ? ev->other :
		    ev->request,
		.from = ev->kind == KP_CALL_RECEIVE ? ev->other : ev->proc };
}

/* ---- causes ---- */

static int
tie_order(const void *a, const void *b)
{
	const struct constraint *x = a, *y = b;

	if (x->node != y->node)
		return (x->node > y->node) - (x->node < y->node);
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static uint64_t
message_key(const struct constraint *v)
{
	return ((uint64_t)v->request << 40 | (uint64_t)v->from << 20 |
	    (v->serial & 0xfffff)) + 1;
}

/* Identifies a message, by 20 bits of a process and 32 of a serial. */
static uint64_t
constraints_message(uint32_t from, uint32_t serial)
{
	return ((uint64_t)from << 32 | serial) + 1;
}

static void
remember(struct constraints *t, struct map *m, uint64_t key, uint64_t val)
{
	if (!map_put(m, key, val))
		t->err = KP_ENOMEM;
}

static void
remember_once(struct constraints *t, struct map *m, uint64_t key, uint64_t val)
{
	uint64_t *known = map_get(m, key);

	if (known != NULL)
		*known = AMBIGUOUS;
	else
		remember(t, m, key, val);
}

/*
 * A key that two messages share identifies neither.  What a process sends may
 * be of another request than its receiver's node knows by the label: `any` is
 * without the request.
 */
static void
find_senders(struct constraints *t, struct map *sends, struct map *any)
{
	const struct constraint *v;

	for (uint32_t i = 0; i < t->n; i++) {
		v = &t->v[i];
		if (v->kind != KP_CALL_SEND)
			continue;
		t->sends[v->node] = true;
		remember_once(t, sends, message_key(v), i);
		remember_once(t, any, constraints_message(v->from, v->serial),
		    i);
	}
}

/* Finds the first event of each request, on the node where it began. */
static void
find_first(struct constraints *t, struct map *firsts)
{
	struct tied_request *r;
	const struct constraint *v;

	for (uint32_t i = 0; i < t->n; i++) {
		v = &t->v[i];
		r = &t->requests[v->request];
		if (v->kind != KP_CALL_REQUEST || !r->begun || r->seen ||
		    r->node != v->node)
			continue;
		r->seen = true;
		r->at = v->ts;
		remember(t, firsts, (uint64_t)v->request + 1, i);
	}
}

static void
find_causes(struct constraints *t)
{
	struct map sends = { 0 }, any = { 0 }, firsts = { 0 };
	bool all = t->n < KP_MERGE_TIES_MAX;
	uint64_t *cause;
	struct constraint *v;

	find_senders(t, &sends, &any);
	find_first(t, &firsts);
	for (uint32_t i = 0; i < t->n; i++) {
		v = &t->v[i];
		cause = v->kind == KP_CALL_RECEIVE ?
		    map_get(&sends, message_key(v)) :
		    v->kind == KP_CALL_REQUEST ?
		    map_get(&firsts, (uint64_t)v->request + 1) : NULL;
		if (cause == NULL && v->kind == KP_CALL_RECEIVE) {
			cause = map_get(&any, constraints_message(v->from,
			    v->serial));
			v->unsent = cause == NULL && all &&
			    t->sends[t->names->procs[v->from].node];
		}
		if (cause == NULL || *cause == AMBIGUOUS ||
		    t->v[*cause].node == v->node ||
		    t->v[*cause].serial != v->serial)
			continue;
		v->cause = (uint32_t)*cause;
		t->v[*cause].done = true;
	}
	map_free(&sends);
	map_free(&any);
	map_free(&firsts);
}

/* Keeps only events that are a cause or have one. */
static void
drop_loose(struct constraints *t)
{
	uint32_t n = 0, *moved = calloc(t->n + 1, sizeof(*moved));

	if (moved == NULL) {
		t->err = KP_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		moved[i] = n;
		if (t->v[i].done || t->v[i].unsent ||
		    t->v[i].cause != TIE_NONE)
			t->v[n++] = t->v[i];
	}
	t->n = n;
	for (uint32_t i = 0; i < n; i++) {
		t->v[i].done = false;
		if (t->v[i].cause != TIE_NONE)
			t->v[i].cause = moved[t->v[i].cause];
	}
	free(moved);
}

/* ---- clocks ---- */

/* A node's time by the clock of node 0, with the shift. */
static kp_target_ns
constraints_time(const struct constraints *t, uint32_t node, kp_target_ns ts)
{
	ts += t->names->nodes[node].offset + t->shifts[node];
	return ts > TIME_MAX ? TIME_MAX : ts < -TIME_MAX ? -TIME_MAX : ts;
}

/* So much is missing: the later is moved, or else the earlier, if it may be. */
static void
move_apart(struct constraints *t, uint32_t earlier, uint32_t later, kp_dur_ns by)
{
	kp_dur_ns *e = &t->shifts[earlier], *l = &t->shifts[later], may;

	may = later > 0 ? t->names->nodes[later].error - *l : 0;
	may = by < may ? by : may;
	*l += may;
	by -= may;
	may = earlier > 0 ? t->names->nodes[earlier].error + *e : 0;
	*e -= by < may ? by : may;
}

/*
 * The longest path where that exists; where it does not, clocks have drifted,
 * and it ends somewhere.
 */
static void
find_shifts(struct constraints *t)
{
	static const kp_dur_ns none = INT64_MIN;
	uint32_t nodes = t->names->nnodes;
	kp_dur_ns *most = malloc((size_t)nodes * nodes * sizeof(*most)), by;
	const struct constraint *v, *c;

	if (most == NULL) {
		t->err = KP_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < nodes * nodes; i++)
		most[i] = none;
	for (uint32_t i = 0; i < t->n; i++) {
		v = &t->v[i];
		if (v->cause == TIE_NONE)
			continue;
		c = &t->v[v->cause];
		by = constraints_time(t, c->node, c->ts) + 1 -
		    constraints_time(t, v->node, v->ts);
		if (by > most[c->node * nodes + v->node])
			most[c->node * nodes + v->node] = by;
	}
	for (uint32_t round = 0; round < 2 * nodes; round++)
		for (uint32_t i = 0; i < nodes * nodes; i++) {
			by = most[i] == none ? 0 : most[i] +
			    t->shifts[i / nodes] - t->shifts[i % nodes];
			if (by > 0)
				move_apart(t, i / nodes, i % nodes, by);
		}
	free(most);
}

/* After the last event: finds causes, and by how much to shift each node. */
static void
constraints_settle(struct constraints *t)
{
	for (uint32_t i = 0; i < t->nrequests; i++)
		if (t->requests[i].same > 0)
			t->requests[i].same = root_of(t, i);
	for (uint32_t i = 0; i < t->n; i++)
		t->v[i].request = constraints_root(t, t->v[i].request);
	for (uint32_t i = 0; i < t->nrequests; i++)
		if (t->requests[i].begun)
			on_begun(t, constraints_root(t, i),
			    t->requests[i].node);
	if (t->n > 0)
		qsort(t->v, t->n, sizeof(*t->v), tie_order);
	find_causes(t);
	if (t->err == KP_OK)
		drop_loose(t);
	if (t->err == KP_OK)
		find_shifts(t);
}

/* The constraints of a node are those from *first up to *end. */
static void
constraints_of(const struct constraints *t, uint32_t node, uint32_t *first,
    uint32_t *end)
{
	uint32_t i = 0;

	while (i < t->n && t->v[i].node < node)
		i++;
	for (*first = i; i < t->n && t->v[i].node == node;)
		i++;
	*end = i;
}

/* ---- requests ---- */

struct begun {
	uint32_t request;
	kp_target_ns at;
};

static int
begun_order(const void *a, const void *b)
{
	const struct begun *x = a, *y = b;

	if (x->at != y->at)
		return (x->at > y->at) - (x->at < y->at);
	return (x->request > y->request) - (x->request < y->request);
}

/*
 * For each request in the file its number in the order of beginnings, or 0.  The
 * caller frees it; NULL when out of memory.
 */
static uint32_t *
constraints_numbers(const struct constraints *t, uint32_t *n)
{
	uint32_t *numbers = calloc((size_t)t->nrequests + 1, sizeof(*numbers));
	struct begun *v = malloc(((size_t)t->nrequests + 1) * sizeof(*v));
	const struct tied_request *r;
	uint32_t begun = 0;

	*n = t->nrequests;
	for (uint32_t i = 0; numbers != NULL && v != NULL && i < *n; i++) {
		r = &t->requests[i];
		if (r->begun && r->seen && r->same == 0)
			v[begun++] = (struct begun){ i,
				constraints_time(t, r->node, r->at) };
	}
	if (begun > 0)
		qsort(v, begun, sizeof(*v), begun_order);
	for (uint32_t i = 0; i < begun; i++)
		numbers[v[i].request] = i + 1;
	if (v == NULL) {
		free(numbers);
		numbers = NULL;
	}
	free(v);
	return numbers;
}

/* ---- the merge ---- */

/* The reader of one node's events. */
struct cursor {
	struct kp_calls_reader r;
	uint64_t seq;		/* number of the next event in the file */
	struct kp_call_event ev;
	bool any;		/* ev is the node's next event */
	uint32_t tie, ties_end;	/* its constraints that are still to come */
	kp_target_ns floor;	/* no later event comes before this */
};

/* What a process works for, by the numbers of the file, without a `same`. */
struct owner {
	uint32_t label, got;	/* by its node, and by its last message */
	uint32_t from, to;	/* that label stands for this request; or 0, 0 */
	uint32_t told;		/* what the last REQUEST said to the caller */
};

struct kp_merge_state {
	struct kp_call_names *names;
	struct constraints ties;
	struct cursor *cursors;	/* by node */
	uint32_t ncursors;
	uint32_t *numbers;	/* request in the file -> in order, or 0 */
	uint32_t nnumbers;
	uint32_t *at;		/* by process, its request: see keeps() */
	struct owner *owners;	/* by process */
	uint32_t *began;	/* by request, the process that began it + 1 */
	struct map moved;	/* messages within a node -> their request */
	struct kp_call_event held;	/* follows a REQUEST that was added */
	bool holds;
};

/* ---- the first reading ---- */

static enum kp_err
read_once(struct kp_calls_merge *m, const void *p, size_t n,
    struct kp_call_names *names)
{
	struct kp_merge_state *t = m->state;
	struct kp_calls_request_ops ops = { on_begun, on_same, &t->ties };
	struct kp_calls_reader r;
	struct kp_call_event ev;
	enum kp_err e = kp_calls_read_begin(&r, p, n, names, false);
	uint64_t seq = 0;

	m->begun = e == KP_OK;
	r.ops = &ops;
	while (e == KP_OK) {
		e = kp_calls_read(&r, &ev);
		if (e == KP_OK)
			constraints_add(&t->ties, &ev, seq++);
	}
	m->info = r.info;
	return e == KP_END ? t->ties.err : e;
}

/* ---- the second ---- */

/*
 * Keeps events of requests that the user asked for, and of processes that have
 * not worked for any request.  0 in `at`: the process never did; 1: it works for
 * another request now; else it is the number of its request + 1.
 */
static bool
keeps(struct kp_merge_state *t, struct kp_call_event *ev)
{
	uint32_t *at = &t->at[ev->proc], n, was = *at;

	if (ev->kind == KP_CALL_SEND || ev->kind == KP_CALL_RECEIVE) {
		ev->request = ev->request < t->nnumbers ?
		    t->numbers[constraints_root(&t->ties, ev->request)] : 0;
		return ev->request > 0;
	}
	if (ev->kind != KP_CALL_REQUEST)
		return was != 1;
	n = ev->other < t->nnumbers ?
	    t->numbers[constraints_root(&t->ties, ev->other)] : 0;
	*at = n + 1;
	ev->other = n;
	return n > 0 || was > 1;
}

static void
cursor_next(struct kp_merge_state *t, struct cursor *c)
{
	uint32_t node = (uint32_t)(c - t->cursors);

	do
		c->any = kp_calls_read(&c->r, &c->ev) == KP_OK;
	while (c->any && (c->seq++,
	    t->names->procs[c->ev.proc].node != node));
	if (c->any)
		c->ev.ts = constraints_time(&t->ties, node, c->ev.ts);
}

/* The constraint of the next event, if it has one. */
static struct constraint *
cursor_tie(struct kp_merge_state *t, struct cursor *c)
{
	struct constraint *v = t->ties.v;

	while (c->tie < c->ties_end && v[c->tie].seq < c->seq - 1)
		c->tie++;
	return c->tie < c->ties_end && v[c->tie].seq == c->seq - 1 ?
	    &v[c->tie] : NULL;
}

/* The time of the next event; false: its cause is still to come. */
static bool
cursor_time(struct kp_merge_state *t, struct cursor *c, kp_target_ns *ts)
{
	const struct constraint *tie = cursor_tie(t, c);
	const struct constraint *cause = tie != NULL && tie->cause != TIE_NONE ?
	    &t->ties.v[tie->cause] : NULL;

	*ts = c->ev.ts > c->floor ? c->ev.ts : c->floor;
	if (cause != NULL && cause->done && *ts <= cause->at)
		*ts = cause->at + 1;
	return cause == NULL || cause->done;
}

/*
 * The node whose event is next.  In a damaged file every cause may be missing:
 * then the earliest event is next.
 */
static struct cursor *
earliest(struct kp_merge_state *t, kp_target_ns *ts)
{
	struct cursor *best = NULL, *c;
	bool best_free = false, free_now;
	kp_target_ns at;

	for (uint32_t i = 0; i < t->ncursors; i++) {
		c = &t->cursors[i];
		if (!c->any)
			continue;
		free_now = cursor_time(t, c, &at);
		if (best == NULL || (free_now && !best_free) ||
		    (free_now == best_free && at < *ts)) {
			best = c;
			best_free = free_now;
			*ts = at;
		}
	}
	return best;
}

static struct constraint *
take(struct kp_calls_merge *m, struct cursor *c, kp_target_ns ts,
    struct kp_call_event *ev)
{
	struct constraint *tie = cursor_tie(m->state, c);
	kp_dur_ns by = ts - c->ev.ts;

	if (by > 0) {
		c->floor = ts;
		m->moved++;
		if (by > m->moved_most)
			m->moved_most = by;
	}
	if (tie != NULL) {
		tie->at = ts;
		tie->done = true;
	}
	*ev = c->ev;
	ev->ts = ts;
	cursor_next(m->state, c);
	return tie;
}

/* ---- messages that were sent for another request than their label's ---- */

/* The request that this message was sent for. */
static uint32_t
sent_for(struct kp_merge_state *t, const struct kp_call_event *ev,
    const struct constraint *tie, uint32_t label)
{
	uint64_t key = constraints_message(ev->other, ev->serial);
	const uint64_t *moved;
	uint32_t request = label;

	if (label < t->nnumbers && t->began[label] == ev->proc + 1)
		return label;
	if (tie != NULL && tie->cause != TIE_NONE)
		return t->ties.v[tie->cause].request;
	if (tie != NULL && tie->unsent)
		return 0;
	moved = map_get(&t->moved, key);
	if (moved != NULL) {
		request = (uint32_t)*moved;
		map_remove(&t->moved, key);
	}
	return request;
}

static enum kp_err
own_message(struct kp_merge_state *t, struct kp_call_event *ev,
    struct constraint *tie)
{
	struct owner *o = &t->owners[ev->proc];
	uint32_t label = constraints_root(&t->ties, ev->request);
	bool send = ev->kind == KP_CALL_SEND;

	if (!send) {
		o->got = label;
		ev->request = sent_for(t, ev, tie, label);
		o->from = o->to = 0;
		if (ev->request != label) {
			o->from = label;
			o->to = ev->request;
		}
	} else if (label == o->from && o->to != o->from) {
		ev->request = o->to;
		if (!map_put(&t->moved, constraints_message(ev->proc,
		    ev->serial), o->to))
			return KP_ENOMEM;
	}
	if (send && tie != NULL)
		tie->request = constraints_root(&t->ties, ev->request);
	return KP_OK;
}

/* A process that works for a request without a message of it has begun it. */
static void
note_began(struct kp_merge_state *t, uint32_t request, uint32_t proc)
{
	if (request > 0 && request < t->nnumbers && t->began[request] == 0 &&
	    t->owners[proc].got != request)
		t->began[request] = proc + 1;
}

/* Says first what the process works for, if that has changed. */
static void
own_work(struct kp_merge_state *t, struct kp_call_event *ev)
{
	struct owner *o = &t->owners[ev->proc];
	uint32_t now;

	if (ev->kind == KP_CALL_REQUEST) {
		o->label = constraints_root(&t->ties, ev->other);
		note_began(t, o->label, ev->proc);
	}
	now = o->label > 0 && o->label == o->from ? o->to : o->label;
	if (ev->kind == KP_CALL_REQUEST) {
		ev->other = o->told = now;
	} else if (ev->kind == KP_CALL_CALL && now != o->told) {
		t->held = *ev;
		t->holds = true;
		o->told = now;
		*ev = (struct kp_call_event){ .kind = KP_CALL_REQUEST,
			.proc = ev->proc, .ts = ev->ts, .other = now };
	}
}

static bool
cursors_make(struct kp_merge_state *t, const void *p, size_t n)
{
	struct cursor *c;

	t->ncursors = t->names->nnodes;
	t->cursors = calloc(t->ncursors, sizeof(*t->cursors));
	t->at = calloc(t->names->nprocs + 1, sizeof(*t->at));
	t->numbers = constraints_numbers(&t->ties, &t->nnumbers);
	t->owners = calloc(t->names->nprocs + 1, sizeof(*t->owners));
	t->began = calloc((size_t)t->nnumbers + 1, sizeof(*t->began));
	if (t->cursors == NULL || t->at == NULL || t->numbers == NULL ||
	    t->owners == NULL || t->began == NULL)
		return false;
	for (uint32_t i = 0; i < t->ncursors; i++) {
		c = &t->cursors[i];
		c->floor = -KP_CALLS_TIME_MAX + 1;
		constraints_of(&t->ties, i, &c->tie, &c->ties_end);
		if (kp_calls_read_begin(&c->r, p, n, t->names, true) == KP_OK)
			cursor_next(t, c);
	}
	return true;
}

enum kp_err
kp_calls_merge_begin(struct kp_calls_merge *m, const void *p, size_t n,
    struct kp_call_names *names)
{
	struct kp_merge_state *t = calloc(1, sizeof(*t));
	enum kp_err e;
	bool some;

	*m = (struct kp_calls_merge){ .state = t };
	if (t == NULL)
		return KP_ENOMEM;
	t->names = names;
	t->ties.names = names;
	e = read_once(m, p, n, names);
	/* Of one node, requests are marked if only some are asked for. */
	some = t->ties.begun || (m->info.requests > 0 && m->info.begun == 0);
	if (e == KP_OK && (kp_calls_several(names) || some)) {
		constraints_settle(&t->ties);
		e = t->ties.err;
		if (e == KP_OK && !cursors_make(t, p, n))
			e = KP_ENOMEM;
	} else if (e == KP_OK) {
		kp_calls_merge_free(m);
		e = kp_calls_read_begin(&m->plain, p, n, names, true);
	}
	return e;
}

enum kp_err
kp_calls_merge_next(struct kp_calls_merge *m, struct kp_call_event *ev)
{
	struct kp_merge_state *t = m->state;
	struct constraint *tie;
	struct cursor *c;
	kp_target_ns ts = 0;
	enum kp_err e;

	if (t == NULL) {
		e = kp_calls_read(&m->plain, ev);
		m->info = m->plain.info;
		return e;
	}
	do {
		if (t->holds) {
			*ev = t->held;
			t->holds = false;
			continue;
		}
		c = earliest(t, &ts);
		if (c == NULL) {
			*ev = (struct kp_call_event){ 0 };
			return KP_END;
		}
		tie = take(m, c, ts, ev);
		if (ev->kind != KP_CALL_SEND && ev->kind != KP_CALL_RECEIVE)
			own_work(t, ev);
		else if ((e = own_message(t, ev, tie)) != KP_OK)
			return e;
	} while (!keeps(t, ev));
	return KP_OK;
}

void
kp_calls_merge_free(struct kp_calls_merge *m)
{
	struct kp_merge_state *t = m->state;

	m->state = NULL;
	if (t == NULL)
		return;
	free(t->ties.v);
	free(t->ties.requests);
	free(t->cursors);
	free(t->numbers);
	free(t->at);
	free(t->owners);
	free(t->began);
	map_free(&t->moved);
	free(t);
}
