/*
 * clock_constraints.c - pairs events with their causes on other nodes, and shifts
 * the clocks, within their errors, so that causes come first.
 */
#include <stdlib.h>
#include <string.h>

#include "clock_constraints.h"
#include "base/map.h"
#include "base/vec.h"

#define AMBIGUOUS UINT64_MAX
/* Leaves room after the last event for events that are moved behind it. */
#define TIME_MAX (KP_CALLS_TIME_MAX - (INT64_C(1) << 32))

void
constraints_free(struct constraints *t)
{
	free(t->v);
	free(t->requests);
}

/* ---- while it is read ---- */

static struct tied_request *
request_of(struct constraints *t, uint32_t request)
{
	if (vec_reach(&t->requests, &t->nrequests, request) == KP_OK)
		return &t->requests[request];
	t->err = KP_ENOMEM;
	return NULL;
}

void
constraints_begun(struct constraints *t, uint32_t request, uint32_t node)
{
	struct tied_request *r = request_of(t, request);

	if (r != NULL && !r->begun) {
		r->begun = true;
		r->node = node;
	}
}

uint32_t
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
void
constraints_same(struct constraints *t, uint32_t request, uint32_t as)
{
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

void
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

uint64_t
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

kp_target_ns
constraints_time(const struct constraints *t, uint32_t node, kp_target_ns ts)
{
	ts += t->names->nodes[node].offset + t->shifts[node];
	return ts > TIME_MAX ? TIME_MAX : ts < -TIME_MAX ? -TIME_MAX : ts;
}

static kp_dur_ns
least(kp_dur_ns a, kp_dur_ns b)
{
	return a < b ? a : b;
}

/* So much is missing: the later is moved, or else the earlier, if it may be. */
static void
move_apart(struct constraints *t, uint32_t earlier, uint32_t later, kp_dur_ns by)
{
	kp_dur_ns *e = &t->shifts[earlier], *l = &t->shifts[later], may;

	may = later > 0 ? t->names->nodes[later].error - *l : 0;
	*l += least(by, may);
	by -= least(by, may);
	may = earlier > 0 ? t->names->nodes[earlier].error + *e : 0;
	*e -= least(by, may);
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

void
constraints_settle(struct constraints *t)
{
	for (uint32_t i = 0; i < t->nrequests; i++)
		if (t->requests[i].same > 0)
			t->requests[i].same = root_of(t, i);
	for (uint32_t i = 0; i < t->n; i++)
		t->v[i].request = constraints_root(t, t->v[i].request);
	for (uint32_t i = 0; i < t->nrequests; i++)
		if (t->requests[i].begun)
			constraints_begun(t, constraints_root(t, i), t->requests[i].node);
	if (t->n > 0)
		qsort(t->v, t->n, sizeof(*t->v), tie_order);
	find_causes(t);
	if (t->err == KP_OK)
		drop_loose(t);
	if (t->err == KP_OK)
		find_shifts(t);
}

void
constraints_of(const struct constraints *t, uint32_t node, uint32_t *first, uint32_t *end)
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

uint32_t *
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
