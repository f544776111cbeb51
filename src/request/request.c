/*
 * request.c - takes events in: begins requests, adds calls to the request that
 * each event's token names (or to another: reconcile.c), and passes returns to
 * the stack.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/label.h"
#include "request/life.h"

/* ------------------------------------ requests that an application marks ---- */

/*
 * Requests that an application marks by calling kprof:set_token/0
 * and kprof:clear_token/0, two functions that do nothing and return at once.
 *
 * Such a request is on no stack: it goes on after the return of the function
 * that began it, and after that of its caller.  It ends with
 *
 *	a call of clear_token in a process that carries its token;
 *	a call of set_token in its own process, if that still carries it,
 *	whether the call is sampled (an entry) or not (KP_EV_CLEAR)
 *
 * or not at all, and then it expires.  Requests are told apart by token, not by
 * process, so that one process may hold several, as a connection with many
 * streams does (kprof_cowboy_stream.erl).
 */

/* The process called set_token again: that ends the request it had set. */
static void
mark_again(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev)
{
	struct req *rq = mark_here(rs, p, ev->old_label);

	if (rq != NULL)
		req_end(rs, rq, KP_RETURNED, ev->ts);	/* by its own clock */
}

/* The entry of rq is a call of set_token. */
static void
mark_set(struct kp_requests *rs, struct req *rq)
{
	rs->marks = true;
	rq->set = true;
	if (rq->cleared)
		req_end(rs, rq, KP_RETURNED, rq->cleared_at);
}

/* fn, which took the token with this label from the process, was called. */
static void
mark_clear(struct kp_requests *rs, const struct proc *p,
    const struct kp_fn *fn, uint64_t label, kp_target_ns at)
{
	struct req *rq = mark_here(rs, p, label);

	if (rq == NULL && fn->mark == KP_MARK_CLEAR) {
		rq = req_get(rs, label);
		/* Events of processes are not in order: its entry may come. */
		if (rq == NULL && tombs_get(rs, label) == NULL)
			rq = req_make_early(rs, label, p->node->index, at);
	}
	if (rq == NULL)
		return;
	at = req_time(rs, rq, p->node->index, at);
	if (rq->state == REQ_EARLY && !rq->cleared) {
		rq->cleared = true;
		rq->cleared_at = at;
	} else if (rq->set) {
		req_end(rs, rq, KP_RETURNED, at);
	}
}

/* ----------------------------------------------------------- prefetching ---- */

/*
 * Prefetches the memory that a run of events will touch before the
 * first of them is handled.
 *
 * With thousands of requests in flight, the memory of each event's request is in
 * no cache.  Reaching it takes steps, each from what the one before fetched: the
 * slots of the tables, the process and the request that they name, and the call.
 * So all events of a run take the first step, then all take the second, and so
 * on: the processor waits for many cache lines at once.  Nothing is freed in
 * between, so a step may use what the step before found.  Handling an event
 * changes all of it, so that looks everything up again.
 */

#define PREFETCH_MAX 64	/* events: what they touch fits in a cache */

static bool
opens(const struct kp_event *ev)
{
	return ev->kind == KP_EV_ENTRY || ev->kind == KP_EV_CALL ||
	    ev->kind == KP_EV_CLEAR;
}

/* For what may begin in one line and end in the next. */
static void
fetch_piece(const void *p, size_t n)
{
	__builtin_prefetch(p, 1);
	__builtin_prefetch((const char *)p + n - 1, 1);
}

/* What an event is about. */
struct found {
	struct proc *p;		/* NULL: has no call open */
	struct req *rq;		/* NULL: none, or not found yet */
};

/* The request to which the event adds a call, or whose call it ends. */
static struct req *
req_on_top(const struct proc *p, const struct kp_event *ev)
{
	const struct open *top = p->n > 0 ? &p->v[p->n - 1] : NULL;

	return top != NULL && top->kind == OPEN_REQUEST &&
	    (!opens(ev) || top->label == ev->label) ? top->rq : NULL;
}

/* Fetches the process's stack, and its request or the slot that names it. */
static void
fetch_by_proc(const struct kp_requests *rs, const struct kp_event *ev,
    struct found *f)
{
	const struct proc *p = f->p;

	if (p != NULL) {
		f->rq = req_on_top(p, ev);
		if (opens(ev) && p->n > 0)
			fetch_piece(p->v + p->n, sizeof(*p->v));
		else if (p->n > 1)
			fetch_piece(&p->v[p->n - 2], sizeof(*p->v));
	}
	if (f->rq != NULL)
		__builtin_prefetch(f->rq, 1);
	else if (opens(ev))
		map_fetch(&rs->by_label, ev->label);
}

/* Fetches the call that begins, or the one that ends. */
static void
fetch_call(const struct kp_event *ev, const struct found *f)
{
	const struct req *rq = f->rq;

	if (rq != NULL)
		fetch_piece(&rq->calls[opens(ev) ? rq->ncalls :
		    f->p->v[f->p->n - 1].idx], sizeof(*rq->calls));
}

/* These events of a node will be handled next: fetches what they touch. */
static void
prefetch_events(const struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n)
{
	struct found v[PREFETCH_MAX];

	if (rs->procs.len < PREFETCH_PROCS_MIN)
		return;
	for (size_t i = 0; i < n; i++)
		map_fetch(&rs->procs, pid_key(node, &ev[i].pid));
	for (size_t i = 0; i < n; i++) {
		v[i] = (struct found){
			.p = proc_get(rs, pid_key(node, &ev[i].pid)) };
		if (v[i].p != NULL)
			fetch_lines(v[i].p, 2);
	}
	for (size_t i = 0; i < n; i++)
		fetch_by_proc(rs, &ev[i], &v[i]);
	for (size_t i = 0; i < n; i++)
		if (v[i].rq == NULL && opens(&ev[i])) {
			v[i].rq = req_get(rs, ev[i].label);
			__builtin_prefetch(v[i].rq, 1);
		}
	for (size_t i = 0; i < n; i++)
		fetch_call(&ev[i], &v[i]);
}

#define MAX_REQUESTS 100000
#define MAX_CALLS 10000
#define MAX_CALLS_IN_FLIGHT 4000000	/* 56 bytes each: 224 MB */
#define MAX_STACK 1000
#define MAX_IDENTITIES 1000
/* From this many early requests on, a call with a token of no request begins none. */
#define UNOWNED_MAX 2500
#define AGAIN_MAX 64	/* calls of one function in doubt, on one stack */

const char *
kp_outcome_name(enum kp_outcome o)
{
	static const char *const names[] = { "open", "returned", "raised",
		"unfinished", "ambiguous", "unknown" };

	return names[o];
}

struct kp_requests *
kp_requests_new(const struct kp_requests_opts *opts)
{
	struct kp_requests *rs = calloc(1, sizeof(*rs));

	if (rs == NULL)
		return NULL;
	rs->o = *opts;
	if (rs->o.max_requests == 0)
		rs->o.max_requests = MAX_REQUESTS;
	if (rs->o.max_calls == 0)
		rs->o.max_calls = MAX_CALLS;
	if (rs->o.max_calls_in_flight == 0)
		rs->o.max_calls_in_flight = MAX_CALLS_IN_FLIGHT;
	if (rs->o.max_stack == 0)
		rs->o.max_stack = MAX_STACK;
	if (rs->o.max_identities == 0)
		rs->o.max_identities = MAX_IDENTITIES;
	if (!fns_init(&rs->fns, opts->conf) ||
	    !idents_init(&rs->idents, opts->conf, rs->o.max_identities) ||
	    (opts->conf != NULL && opts->conf->messages && !messages_init(rs))) {
		kp_requests_free(rs);
		return NULL;
	}
	return rs;
}

void
kp_requests_free(struct kp_requests *rs)
{
	if (rs == NULL)
		return;
	for (uint32_t i = 0; i < KP_NODES_MAX; i++) {
		tombs_free(rs, &rs->nodes[i]);
		map_free(&rs->nodes[i].abandoned);
		free(rs->nodes[i].name);
	}
	reqs_free(rs);
	messages_free(rs);
	procs_free(rs);
	map_free(&rs->own);
	free(rs->worked);
	pauses_free(rs);
	pool_free(&rs->pool);
	map_free(&rs->buried);
	fns_free(&rs->fns);
	idents_free(&rs->idents);
	free(rs->out);
	free(rs->place);
	free(rs->order);
	free(rs);
}

/* The entry has come, perhaps on another node than the calls that came before. */
static void
early_begin(struct kp_requests *rs, struct req *rq, const struct rcall *entry)
{
	req_leave_early(rs, rq);
	req_touch_node(rs, rq, entry->c.node);
	rq->calls[0] = *entry;
	if (rq->cleared)
		rq->cleared_at = node_time(rs, rq->r.node, entry->c.node,
		    rq->cleared_at);
}

/*
 * Begins a request, new or early.  Returns NULL, and counts it, if there is no room.
 * old_label: of the request that its process worked for; 0: none is known.
 */
static struct req *
req_make(struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev, const struct rcall *entry, uint64_t old_label)
{
	struct req *rq = req_get(rs, ev->label), *early = rq;
	uint64_t outer, parent = proc_reconcile_parent(rs, p, ev, old_label, &outer);
	struct rnode *nd = p->node;
	const struct req *in = parent != 0 ? req_get(rs, parent) : NULL;

	if (rs->in_flight == rs->o.max_requests)
		goto full;
	if (rq == NULL && (rq = req_new(rs)) == NULL)
		goto full;
	if (early != NULL)
		early_begin(rs, rq, entry);
	rq->r = (struct kp_request){ .label = ev->label, .start = ev->ts,
		.parent_label = parent, .identity = rq->r.identity,
		.weight = ev->weight, .id = ++rs->next_id,
		.node = (uint8_t)nd->index, .nodes = rq->r.nodes };
	rq->outer = outer;
	rq->inherits = in != NULL && in->r.traceparent[0] != '\0';
	if (rq->inherits)
		memcpy(rq->r.traceparent, in->r.traceparent, KP_TRACEPARENT);
	rq->again = in != NULL && in->ncalls > 0 && in->calls[0].c.proc == p->id &&
	    same_fn(rs, &in->calls[0].c, &entry->c);
	rq->outer_early = parent != 0 && (in == NULL || in->state == REQ_EARLY);
	rq->takes_token = ev->old_label != 0 &&
	    !kp_label_is_unowned(ev->old_label);
	if (early == NULL) {
		rq->ended_by = KP_NONE;
		rq->r.identity = KP_IDENT_NONE;
		if (req_add_call(rs, rq, entry) == KP_NONE ||
		    !req_enter(rs, rq)) {
			if (rs->messages != NULL)
				messages_forget(rs, ev->label);
			req_free(rs, rq);
			goto full;
		}
	}
	req_go_live(rs, rq);
	return rq;
full:
	nd->lost.n[KP_LOSS_REQUEST_CAP]++;
	return NULL;
}

/* The number, in idents or labels, of a term that a clause returned for a call. */
static uint32_t
term_number(struct kp_requests *rs, struct idents *t, struct kp_span term,
    uint32_t node, bool *overflow)
{
	uint32_t id = idents_known(t, term), line;

	*overflow = false;
	if (id != KP_NONE)
		return id;
	line = ident_unbounded(term);
	if (line == 0)
		return idents_intern(t, term, overflow);
	if (rs->o.on_unbounded != NULL && idents_report_once(t, line))
		rs->o.on_unbounded(rs->o.ctx, node, line, t == &rs->fns.labels);
	return KP_IDENT_OTHER;
}

#define QUEUED_MAX 4096		/* bytes of such an identity; more is shown as it is */

/*
 * {'_queued', Microseconds, ...}: the request had waited that long before it began,
 * and the rest is its name, which is put together in buf.
 */
static struct kp_span
queued_take(struct kp_request *r, struct kp_span identity, uint8_t buf[QUEUED_MAX])
{
	struct kp_term t;
	uint32_t n, rest;
	int64_t us;

	kp_term_begin_raw(&t, identity.p, identity.n);
	if (kp_term_peek(&t) != KP_TERM_TUPLE || (n = kp_term_tuple(&t)) < 3 ||
	    n > UINT8_MAX || !kp_span_is(kp_term_atom(&t), "_queued"))
		return identity;
	us = kp_term_int(&t);
	rest = (uint32_t)(identity.p + identity.n - t.p);
	if (t.err != KP_OK || rest > QUEUED_MAX - 2)
		return identity;
	/* less than 0 where clocks differ: it is not known */
	r->was_queued = us >= 0 && us < INT64_MAX / KP_NS_PER_US;
	r->queued = r->was_queued ? us * KP_NS_PER_US : 0;
	buf[0] = ETF_SMALL_TUPLE;
	buf[1] = (uint8_t)(n - 2);
	memcpy(buf + 2, t.p, rest);
	return n == 3 ? (struct kp_span){ t.p, rest } :
	    (struct kp_span){ buf, rest + 2 };
}

static void
req_name(struct kp_requests *rs, struct req *rq, struct kp_span identity)
{
	uint8_t buf[QUEUED_MAX];

	if (rq->r.identity != KP_IDENT_NONE || identity.n == 0)
		return;
	identity = queued_take(&rq->r, identity, buf);
	rq->r.identity = term_number(rs, &rs->idents, identity, rq->r.node,
	    &rq->overflow);
}

/* Its own traceparent: the first that a call has, and the entry's goes before. */
static void
req_trace(struct req *rq, struct kp_span trace)
{
	char own[KP_TRACEPARENT];

	if (trace.n == 0 || (rq->r.traceparent[0] != '\0' && !rq->inherits))
		return;
	ident_traceparent(trace, own);
	if (own[0] == '\0')
		return;
	memcpy(rq->r.traceparent, own, sizeof(own));
	rq->inherits = false;
}

/* Two requests have one label: both are lost, each where it began. */
static void
request_collide(struct kp_requests *rs, struct req *rq, struct rnode *nd)
{
	rs->nodes[rq->r.node].lost.n[KP_LOSS_COLLIDED] += !rq->collided;
	rs->nodes[rq->r.node].collided += !rq->collided;
	nd->lost.n[KP_LOSS_COLLIDED]++;
	rq->collided = true;
}

/* The token of the event's process, with this label of its own or before. */
static struct token
token_of(const struct kp_requests *rs, const struct proc *p,
    const struct kp_event *ev, uint64_t label)
{
	return (struct token){ .label = label,
		.from = ev->has_from ? node_sender(rs, p->node, ev) : p->id,
		.serial = ev->serial, .last = ev->last };
}

/* An entry between slices: no token marks what is done for it. */
static void
on_timed(struct kp_requests *rs, struct proc *p, const struct kp_event *ev,
    struct open *o, struct kp_span trace)
{
	struct kp_request r = { .weight = 0 };
	size_t bytes = sizeof(*o->out);
	uint8_t buf[QUEUED_MAX];
	bool overflow;

	proc_caller_runs(rs, p, o->caller);
	proc_reconcile_entry(rs, p, 0, o->fn, o->caller, ev->ts);
	o->kind = OPEN_TIMED;
	o->out = pool_get(&rs->pool, &bytes);
	if (o->out == NULL) {
		o->kind = OPEN_IGNORED;
		p->node->lost.n[KP_LOSS_REQUEST_CAP]++;
	} else {
		o->out->identity = ev->identity.n == 0 ? KP_IDENT_NONE :
		    term_number(rs, &rs->idents, queued_take(&r, ev->identity, buf),
		    p->node->index, &overflow);
		ident_traceparent(trace, o->out->traceparent);
	}
	proc_push(rs, p, o);
}

/* labelled: fn, or fn with the call's label; trace: a traceparent's term, or empty. */
void
early_said(struct req *rq, const struct kp_request *said)
{
	if (said->was_queued && !rq->r.was_queued) {
		rq->r.was_queued = true;
		rq->r.queued = said->queued;
	}
	if (said->traceparent[0] != '\0' && (rq->r.traceparent[0] == '\0' || rq->inherits)) {
		memcpy(rq->r.traceparent, said->traceparent, KP_TRACEPARENT);
		rq->inherits = false;
	}
}

static void
on_entry(struct kp_requests *rs, struct proc *p, const struct kp_event *ev,
    uint32_t fn, uint32_t labelled, uint32_t caller, struct kp_span trace)
{
	struct rcall c = { .c = { .start = ev->ts, .proc = p->id, .fn = labelled,
	    .parent = KP_NONE, .outcome = KP_OPEN,
	    .node = (uint8_t)p->node->index } };
	struct open o = { .kind = OPEN_REQUEST, .fn = fn, .caller = caller,
		.label = ev->label, .start = ev->ts };
	struct token held = token_of(rs, p, ev, ev->old_label);
	const struct req *orphan = orphan_around(p, &held);
	uint64_t old_label = orphan != NULL ? orphan->r.label :
	    proc_works_for(rs, p->node, p->id, &held, ev->ts);
	bool set = rs->fns.v[fn].mark == KP_MARK_SET;
	const struct req *early;
	struct kp_request said;

	if (ev->label == 0 && !ev->foreign && rs->o.conf->slow_always) {
		o.idx = labelled;
		on_timed(rs, p, ev, &o, trace);
		return;
	}
	p->node->entries++;
	proc_caller_runs(rs, p, caller);
	if (set)
		mark_again(rs, p, ev);
	proc_reconcile_entry(rs, p, old_label != 0 ? old_label : ev->old_label, fn,
	    caller, ev->ts);
	o.rq = req_get(rs, ev->label);
	early = o.rq;
	if (early != NULL)
		said = early->r;
	if (ev->foreign) {
		p->node->lost.n[KP_LOSS_FOREIGN_TOKEN]++;
		o.kind = OPEN_IGNORED;
	} else if (ev->label == 0) {
		p->node->lost.n[KP_LOSS_BAD_EVENT]++;
		o.kind = OPEN_IGNORED;
	} else if (o.rq != NULL && o.rq->state != REQ_EARLY) {
		request_collide(rs, o.rq, p->node);
		o.kind = OPEN_IGNORED;
	} else if ((o.rq = req_make(rs, p, ev, &c, old_label)) == NULL) {
		o.kind = OPEN_IGNORED;
	} else {
		/* The entry's own name replaces those of its calls. */
		if (ev->identity.n > 0)
			o.rq->r.identity = KP_IDENT_NONE;
		req_name(rs, o.rq, ev->identity);
		req_trace(o.rq, trace);
		if (early != NULL)
			early_said(o.rq, &said);
		req_end_by_finish(rs, o.rq);
		if (set) {
			o.kind = OPEN_IGNORED;
			mark_set(rs, o.rq);
		} else {
			own_begin(rs, p, o.rq, &held, old_label);
		}
	}
	proc_push(rs, p, &o);
}

static uint32_t
stack_parent(const struct proc *p, const struct req *rq)
{
	const struct open *o;

	for (uint32_t i = p->n; i > 0; i--) {
		o = &p->v[i - 1];
		if (o->kind == OPEN_REQUEST && o->rq == rq)
			return o->idx;
	}
	/* A request that set_token began is on no stack. */
	return rq->set && rq->state != REQ_ENDED && rq->calls[0].c.proc == p->id ? 0 :
	    KP_NONE;
}

/* Looks at the topmost open call first: mostly that is of the same request. */
static struct req *
call_req(const struct kp_requests *rs, const struct proc *p, uint64_t label)
{
	const struct open *top = p->n > 0 ? &p->v[p->n - 1] : NULL;

	return top != NULL && top->kind == OPEN_REQUEST &&
	    top->label == label ? top->rq : req_get(rs, label);
}

/*
 * Sets o->label and o->rq: a call is of the request that its token names, unless
 * reconcile.c finds another, or its process is inside an entry.  What it is of may
 * show later: then it waits as an orphan.  False: it is of none, and counted.
 */
static bool
call_find_request(struct kp_requests *rs, struct proc *p, const struct kp_event *ev,
    const struct token *held, struct open *o, struct kp_call *c)
{
	const struct req *orphan = orphan_around(p, held);
	uint64_t of = orphan != NULL ? orphan->r.label :
	    proc_works_for(rs, p->node, p->id, held, ev->ts);
	bool unsure, unowned;

	if (proc_in_timed(rs, p)) {
		p->node->outside++;
		o->label = NOBODYS;
		return false;
	}
	if (of == 0)
		of = proc_innermost_label(p);
	unsure = ev->label != 0 && (of == 0 || (proc_innermost_label(p) == 0 &&
	    sender_is_behind(rs, p->node, held, ev->ts)));
	o->label = proc_reconcile_label(rs, p, unsure ? ev->label : of, ev->ts);
	if (o->label != of && ev->label != 0 && !unsure)
		crossed_token(rs, p, held, o->label, of);
	c->strayed = o->label != ev->label && ev->label != 0;
	p->node->strayed += c->strayed && o->label < ORPHAN;
	if (rs->crossed.n > 0)
		crossed_report(rs, p, o->fn);
	proc_reconcile_again(rs, p, o->fn, o->caller, AGAIN_MAX, ev->ts);
	if (unsure && o->label == ev->label) {
		unowned = kp_label_is_unowned(ev->label);
		if (!unowned || (held->from != 0 && held->from != p->id &&
		    rs->n_early < UNOWNED_MAX))
			o->rq = orphan_make(rs, held, c->node, ev->ts);
		if (o->rq == NULL) {
			if (!unowned)
				call_crossed(rs, c, ev->label);
			p->node->outside += unowned;
			o->label = unowned ? NOBODYS : o->label;
			return false;
		}
		o->label = o->rq->r.label;
	} else {
		o->rq = call_req(rs, p, o->label);
		if (o->label < ORPHAN && (o->label != ev->label ||
		    (o->rq != NULL && o->rq->spread)))
			proc_note_work(rs, p->id, held, o->label);
	}
	return true;
}

static void
on_call(struct kp_requests *rs, struct proc *p, const struct kp_event *ev,
    uint32_t fn, uint32_t labelled, uint32_t caller, struct kp_span trace)
{
	struct open o = { .kind = OPEN_IGNORED, .fn = fn, .caller = caller,
		.start = ev->ts };
	struct rcall c = { .c = { .start = ev->ts, .proc = p->id, .fn = labelled,
	    .outcome = KP_OPEN, .node = (uint8_t)p->node->index } };
	struct token held = token_of(rs, p, ev, ev->label);
	const struct tombstone *t;

	proc_caller_runs(rs, p, caller);
	if (!call_find_request(rs, p, ev, &held, &o, &c.c)) {
		proc_push(rs, p, &o);
		return;
	}
	if (o.rq != NULL && o.rq->state == REQ_PENDING &&
	    (o.rq->calls[0].c.proc == p->id || rs->o.conf->nfinishes > 0))
		req_pend(rs, o.rq, req_time(rs, o.rq, c.c.node, ev->ts));
	t = o.rq == NULL ? tombs_get(rs, o.label) : NULL;
	if (o.rq == NULL && t == NULL)
		o.rq = req_make_early(rs, o.label, c.c.node, ev->ts);
	if (rs->fns.v[fn].mark == KP_MARK_TRACE) {
		/* it does nothing, and counts for nothing */
		if (o.rq != NULL)
			req_trace(o.rq, trace);
	} else if (o.rq != NULL && !o.rq->collided) {
		req_name(rs, o.rq, ev->identity);
		c.c.parent = stack_parent(p, o.rq);
		c.from = held.from != p->id ? held.from : 0;
		c.serial = held.serial;
		c.c.lost = o.label >= ORPHAN && kp_label_is_unowned(ev->label);
		o.idx = req_add_call(rs, o.rq, &c);
		if (o.idx != KP_NONE)
			o.kind = OPEN_REQUEST;
		else
			p->node->lost.n[KP_LOSS_CALL_CAP]++;
		if (o.label >= ORPHAN && o.rq->ncalls == 1)
			req_drop(rs, o.rq);
	} else if (o.rq != NULL) {
		p->node->lost.n[KP_LOSS_WITH_REQUEST]++;
	} else if (t != NULL) {
		o.kind = OPEN_LATE;
		o.idx = labelled;
		o.identity = t->identity;
		o.weight = t->weight;
	} else if (o.label == 0 && ev->label != 0) {
		/* inside an entry that began no request */
		p->node->lost.n[KP_LOSS_WITH_REQUEST]++;
	} else {
		p->node->lost.n[KP_LOSS_STALE]++;
	}
	proc_push(rs, p, &o);
}

/* Its return is paired like any call's, since others may end together with it. */
static void
on_clear(struct kp_requests *rs, struct proc *p, const struct kp_event *ev,
    uint32_t fn, uint32_t caller)
{
	struct open o = { .kind = OPEN_IGNORED, .fn = fn, .caller = caller,
		.start = ev->ts };
	struct token held = token_of(rs, p, ev, ev->label);
	const struct req *orphan = orphan_around(p, &held);
	uint64_t label = kp_label_is_unowned(ev->label) ?
	    proc_works_for(rs, p->node, p->id, &held, ev->ts) : ev->label;

	proc_caller_runs(rs, p, caller);
	o.label = proc_reconcile_label(rs, p, orphan != NULL ? orphan->r.label :
	    label, ev->ts);
	if (label != 0)
		mark_clear(rs, p, &rs->fns.v[fn], label, ev->ts);
	proc_push(rs, p, &o);
}

static uint32_t
span_caller(struct kp_requests *rs, struct kp_span raw)
{
	return raw.n > 0 ? fns_of_caller(&rs->fns, raw) : KP_NONE;
}

/* Keeps the time of a process from running back, so that its calls nest. */
static kp_target_ns
proc_time(struct proc *p, kp_target_ns ts)
{
	if (ts > p->last)
		p->last = ts;
	return p->last;
}

/* The number of fn for calls with this label. */
static uint32_t
call_label(struct kp_requests *rs, struct rnode *nd, uint32_t fn,
    struct kp_span label)
{
	bool overflow;
	uint32_t id = term_number(rs, &rs->fns.labels, label, nd->index, &overflow);
	uint32_t labelled = fns_labelled(&rs->fns, fn, id);

	nd->lost.n[KP_LOSS_LABEL_CAP] += overflow || (id != KP_IDENT_OTHER &&
	    rs->fns.v[labelled].other);
	return labelled;
}

static void
on_opening(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev)
{
	uint32_t fn = ev->mfa.n > 0 ? fns_of_call(&rs->fns, ev->mfa) : KP_NONE;
	uint32_t caller = span_caller(rs, ev->caller), labelled = fn;
	uint64_t id = pid_key(nd->index, &ev->pid);
	struct proc *p = proc_get(rs, id);
	struct kp_span label = ev->identity;
	struct kp_span trace = { NULL, 0 };
	struct kp_event own;

	if (p == NULL)
		p = proc_new(rs, id, nd);
	if (p == NULL || fn == KP_NONE || ev->ts >= KP_TARGET_TIME_MAX ||
	    ev->ts <= -KP_TARGET_TIME_MAX) {
		nd->entries += ev->kind == KP_EV_ENTRY;
		nd->lost.n[KP_LOSS_BAD_EVENT]++;
	} else {
		/* The return_to of an exact return comes before this. */
		p->exact_seen = false;
		if (ident_is_tuple(label) && ident_trace(&label, &trace)) {
			own = *ev;
			own.identity = label;
			ev = &own;
		}
		if (ident_is_tuple(label) && ident_label(&label)) {
			labelled = call_label(rs, nd, fn, label);
			own = *ev;
			own.identity.n = 0;
			ev = &own;
		}
		if (proc_time(p, ev->ts) != ev->ts) {
			own = *ev;
			own.ts = p->last;
			ev = &own;
		}
		if (ev->kind == KP_EV_ENTRY)
			on_entry(rs, p, ev, fn, labelled, caller, trace);
		else if (ev->kind == KP_EV_CLEAR)
			on_clear(rs, p, ev, fn, caller);
		else
			on_call(rs, p, ev, fn, labelled, caller, trace);
	}
	if (p != NULL)
		proc_drop_if_empty(rs, p);
}

static void
on_return(struct kp_requests *rs, struct rnode *nd, const struct kp_event *ev)
{
	struct proc *p = proc_get(rs, pid_key(nd->index, &ev->pid));
	kp_target_ns at;
	uint32_t fn;

	if (p == NULL)
		return;	/* of a call that is not known */
	if (ev->kind == KP_EV_RETURN_TO && nd->all_exact)
		return;	/* the process has a flag from an earlier plan */
	if (ev->ts >= KP_TARGET_TIME_MAX || ev->ts <= -KP_TARGET_TIME_MAX) {
		nd->lost.n[KP_LOSS_BAD_EVENT]++;
		return;
	}
	fn = span_caller(rs, ev->mfa);
	at = proc_time(p, ev->ts);
	if (ev->kind == KP_EV_RETURN_TO)
		proc_return_to(rs, p, fn, at);
	else
		proc_return_exact(rs, p, fn, ev->kind == KP_EV_EXCEPTION_FROM,
		    at);
	proc_drop_if_empty(rs, p);
}

void
kp_requests_events(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n)
{
	const struct kp_event *end;
	struct rnode *nd;

	if (node == KP_NONE)
		return;
	nd = &rs->nodes[node];
	while (n > 0) {
		end = ev + (n < PREFETCH_MAX ? n : PREFETCH_MAX);
		n -= (size_t)(end - ev);
		prefetch_events(rs, node, ev, (size_t)(end - ev));
		for (; ev < end; ev++) {
			if (opens(ev))
				on_opening(rs, nd, ev);
			else if (ev->kind < KP_EV_IN)
				on_return(rs, nd, ev);
			else if (ev->kind < KP_EV_SEND)
				pauses_event(rs, nd, ev);
			else if (rs->messages != NULL)
				messages_event(rs, nd, ev);
		}
	}
}

void
kp_requests_pass(struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev)
{
	struct rnode *nd;

	if (node == KP_NONE)
		return;
	nd = &rs->nodes[node];
	if (ev->kind == KP_EV_ENTRY) {
		/* the VM's count has those that are only timed, as in on_entry() */
		if (ev->label == 0 && !ev->foreign && rs->o.conf->slow_always)
			return;
		nd->entries++;
		nd->lost.n[KP_LOSS_TRIPPED]++;
	} else if (ev->kind == KP_EV_CALL && !kp_label_is_unowned(ev->label)) {
		nd->lost.n[KP_LOSS_WITH_REQUEST]++;
	} else if (ev->kind == KP_EV_SEND && rs->messages != NULL) {
		nd->lost.n[KP_LOSS_MAIL_GONE]++;
	}
}

const struct kp_fn *
kp_requests_fn(const struct kp_requests *rs, uint32_t fn)
{
	return &rs->fns.v[fn];
}

uint32_t
kp_requests_parts(const struct kp_requests *rs)
{
	return rs->fns.parts.len;
}

const char *
kp_requests_part(const struct kp_requests *rs, uint32_t part)
{
	return rs->fns.parts.text[part];
}

uint32_t
kp_requests_identities(const struct kp_requests *rs)
{
	return rs->idents.len;
}

const char *
kp_requests_identity(const struct kp_requests *rs, uint32_t id)
{
	return rs->idents.text[id];
}
