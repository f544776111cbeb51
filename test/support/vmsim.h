/*
 * vmsim.h - random programs on simulated stacks, and the trace events that
 * the VM would send of them; for test_assembly.c, which says more.
 *
 * A lane is a client process and two servers with a clock of their own; its
 * client makes requests one after the other.  Functions run as frames: they
 * call (and catch, or not), end in tail calls, raise, call servers, and cast
 * work to them.  By experiment with the releases, these return_to events there
 * are: on OTP 27 one for every exception that passes a traced frame, on 25
 * only where the frame next to the catcher's is traced.
 */
#ifndef TEST_VMSIM_H
#define TEST_VMSIM_H

#include "feed.h"

enum { LANES = 6, PROCS = 3, DEPTH = 24, CHAIN = 4, LABELS = 10000 };

static uint64_t seed, rnd_state;

static uint64_t
rnd(uint64_t below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 11) % below;
}

static bool
chance(unsigned percent)
{
	return rnd(100) < percent;
}

/* ---- the truth ---- */

struct truth {
	uint64_t label;
	uint32_t proc;
	const char *fn;
	kp_target_ns start, end;
	uint8_t outcome;	/* as kprofd is to say it */
	bool tail;		/* ended in a tail call */
	bool loose;
	int parent;		/* in truths; -1: none, or not compared */
	int from;		/* first of its process: the caller's call */
	bool found;
};

struct sim_event {
	struct kp_event ev;
	const char *fn, *caller;
};

struct frame {
	const char *fn;
	bool marked;		/* the VM put a return_to frame under it */
	int calls[CHAIN];	/* traced calls of this tail chain */
	int ncalls;
};

struct process {
	uint32_t id;
	struct frame st[DEPTH];
	int n;
	uint64_t token;
	uint32_t from;		/* who sent it */
	int from_call;
	bool dirty;		/* an exception was caught out of sight */
	int first;		/* call since it left its loop */
	struct sim_event *ev;
	size_t nev, cap, next;
};

struct cast {
	int from, to;
	uint64_t token;
};

struct lane {
	struct process p[PROCS];
	kp_target_ns now;
	int budget;		/* calls left in this request */
	struct cast casts[4];
	int ncasts;
};

struct traits {
	bool otp25;
	bool nested;		/* requests inside requests */
	bool recursive;		/* traced functions call themselves */
	unsigned raise, tail;	/* percent */
};

static struct {
	struct traits t;
	struct truth *v;
	int n, cap;
	uint64_t label, entries;
	bool ended[LABELS];	/* a request's entry has */
	struct lane lanes[LANES];
} sim;

static int
truth_add(const struct truth *t)
{
	if (sim.n == sim.cap) {
		sim.cap = sim.cap > 0 ? sim.cap * 2 : 1024;
		sim.v = realloc(sim.v, (size_t)sim.cap * sizeof(*sim.v));
	}
	sim.v[sim.n] = *t;
	return sim.n++;
}

static kp_target_ns
tick(struct lane *l)
{
	return l->now += 1 + (kp_target_ns)rnd(20000);
}

static void
emit(struct process *p, const struct sim_event *e)
{
	if (p->nev == p->cap) {
		p->cap = p->cap > 0 ? p->cap * 2 : 64;
		p->ev = realloc(p->ev, p->cap * sizeof(*p->ev));
	}
	p->ev[p->nev++] = *e;
}

/* ---- programs ---- */

static bool run_body(struct lane *l, struct process *p);

static bool
is_entry(const char *fn)
{
	return fn[0] == 'e';
}

static bool
is_traced(const char *fn)
{
	return fn[0] != 'u';
}

/* The innermost call that runs in this process, of a request; or -1. */
static int
innermost(const struct process *p)
{
	for (int i = p->n; i > 0; i--)
		if (p->st[i - 1].ncalls > 0)
			return p->st[i - 1].calls[p->st[i - 1].ncalls - 1];
	return -1;
}

/* The request that its next call is of. */
static uint64_t
owner(const struct process *p)
{
	int i = innermost(p);

	return i >= 0 ? sim.v[i].label : p->token;
}

/* For the frame at this depth, by which untraced functions are told apart. */
static const char *
pick_fn(const struct process *p, int depth)
{
	static const char *const untraced[DEPTH] = { "u0", "u1", "u2", "u3",
		"u4", "u5", "u6", "u7", "u8", "u9", "u10", "u11", "u12",
		"u13", "u14", "u15", "u16", "u17", "u18", "u19", "u20",
		"u21", "u22", "u23" };
	static const char *const traced[] = { "a", "b", "c", "d", "f" };
	const char *fn = traced[rnd(5)];

	if (chance(45))
		return untraced[depth];
	if (sim.t.nested && chance(10) && !sim.ended[owner(p)])
		fn = chance(50) ? "e" : "e2";
	for (int i = 0; i < depth && !sim.t.recursive; i++)
		if (strcmp(p->st[i].fn, fn) == 0)
			return untraced[depth];
	return fn;
}

/* The frame on top enters fn: what the VM sends, and what is true. */
static void
enter(struct lane *l, struct process *p)
{
	struct frame *top = &p->st[p->n - 1];
	int parent = innermost(p);
	struct sim_event e = { .fn = top->fn, .caller = p->st[p->n - 2].fn };
	struct truth t = { .proc = p->id, .fn = top->fn, .parent = parent,
		.from = parent < 0 ? p->from_call : -1, .loose = p->dirty &&
		    sim.t.otp25, .outcome = KP_OPEN, .label = owner(p) };

	e.ev.pid = feed_pid(p->id);
	e.ev.ts = t.start = tick(l);
	if (is_entry(top->fn)) {
		e.ev.kind = KP_EV_ENTRY;
		e.ev.old_label = p->token;
		e.ev.weight = 1;
		t.label = p->token = ++sim.label;
		assert_true(t.label < LABELS);
		sim.ended[t.label] = false;
		p->from = p->id;
		t.parent = t.from = -1;
		sim.entries++;
	} else {
		e.ev.kind = KP_EV_CALL;
		e.ev.has_from = true;
		e.ev.from = feed_pid(p->from);
	}
	e.ev.label = p->token;
	emit(p, &e);
	top->marked = true;
	top->calls[top->ncalls++] = truth_add(&t);
	l->budget--;
}

static void
emit_return_to(struct process *p, const char *to, kp_target_ns at)
{
	emit(p, &(struct sim_event){ .fn = to, .ev = {
	    .kind = KP_EV_RETURN_TO, .pid = feed_pid(p->id), .ts = at } });
}

/* Closes a frame's calls; rest: all but the last, which ended in it. */
static void
frame_close(const struct frame *fr, kp_target_ns at, enum kp_outcome last,
    enum kp_outcome rest)
{
	for (int i = 0; i < fr->ncalls; i++) {
		if (is_entry(sim.v[fr->calls[i]].fn))
			sim.ended[sim.v[fr->calls[i]].label] = true;
		sim.v[fr->calls[i]].end = at;
		sim.v[fr->calls[i]].tail = i < fr->ncalls - 1;
		sim.v[fr->calls[i]].outcome = (uint8_t)
		    (i == fr->ncalls - 1 ? last : rest);
	}
}

/* All calls since the process left its loop, and what was in doubt then. */
static void
all_loose(const struct process *p)
{
	for (int i = 0; i < sim.n; i++)
		sim.v[i].loose |= sim.v[i].proc == p->id &&
		    (i >= p->first || sim.v[i].tail);
}

/* What ended in a tail call, but may have been passed before. */
static void
chain_loose(const struct process *p, const struct frame *fr)
{
	for (int i = 0; i < fr->ncalls - 1; i++)
		sim.v[fr->calls[i]].loose |= p->dirty;
}

static void
leave(struct lane *l, struct process *p)
{
	const struct frame *top = &p->st[--p->n];

	if (!top->marked)
		return;
	emit_return_to(p, p->st[p->n - 1].fn, tick(l));
	frame_close(top, l->now, KP_RETURNED,
	    sim.t.otp25 ? KP_AMBIGUOUS : KP_RETURNED);
	chain_loose(p, top);
}

/* An exception passes all frames above `keep`, whose top one catches it. */
static void
unwind(struct lane *l, struct process *p, int keep)
{
	const struct frame *closest = &p->st[keep];
	const char *to = p->st[keep - 1].fn;
	int marked = 0;
	bool hidden, again = false;
	enum kp_outcome how = sim.t.otp25 ? KP_AMBIGUOUS : KP_RAISED;

	for (int i = keep; i < p->n; i++) {
		marked += p->st[i].marked;
		again |= strcmp(p->st[i].fn, to) == 0;
	}
	hidden = marked > 0 && !closest->marked;
	tick(l);
	if (marked > 0 && (!sim.t.otp25 || !hidden))
		emit_return_to(p, to, l->now);
	for (int i = keep; i < p->n; i++) {
		frame_close(&p->st[i], l->now, how, how);
		chain_loose(p, &p->st[i]);
	}
	if (closest->marked && (sim.t.otp25 || marked == 1))
		frame_close(closest, l->now, KP_RETURNED,
		    sim.t.otp25 ? KP_AMBIGUOUS : KP_RETURNED);
	if (marked > 0 && (again || (hidden && sim.t.otp25) ||
	    (p->dirty && (hidden || marked > 1))))
		all_loose(p);
	p->dirty |= hidden || again;
	p->n = keep;
}

static bool
call_fn(struct lane *l, struct process *p, const char *fn)
{
	p->st[p->n++] = (struct frame){ .fn = fn };
	if (is_traced(fn))
		enter(l, p);
	if (run_body(l, p))
		return true;
	leave(l, p);
	return false;
}

/* A process takes a message: from its loop, which catches everything. */
static bool
serve(struct lane *l, struct process *p, const char *fn)
{
	bool raised;

	p->st[0] = (struct frame){ .fn = "u0" };
	p->n = 1;
	p->dirty = false;
	p->first = sim.n;
	raised = call_fn(l, p, fn);
	if (raised)
		unwind(l, p, 1);
	p->n = 0;
	return raised;
}

/* A call to a server and back; raises if the server did. */
static bool
call_server(struct lane *l, struct process *p)
{
	struct process *s = &l->p[1 + rnd(PROCS - 1)];
	bool raised;

	if (s->n > 0)
		return false;	/* at work for us already */
	s->token = p->token;
	s->from = p->id;
	s->from_call = innermost(p);
	raised = serve(l, s, chance(30) ? "u1" : "a");
	p->token = s->token;
	p->from = s->id;
	return raised && chance(50);
}

static bool
run_op(struct lane *l, struct process *p)
{
	int keep = p->n;
	bool raised;

	if (chance(15) && l->ncasts < 4) {
		l->casts[l->ncasts++] = (struct cast){ (int)(p - l->p),
			1 + (int)rnd(PROCS - 1), p->token };
		return false;
	}
	raised = chance(25) ? call_server(l, p) : call_fn(l, p, pick_fn(p, p->n));
	if (raised && chance(50)) {
		/* Also where nothing is on the stack: the server raised. */
		if (p->n > keep)
			unwind(l, p, keep);
		return false;
	}
	return raised;
}

/* Runs what is on top of the stack; true: it raised, and is still there. */
static bool
run_body(struct lane *l, struct process *p)
{
	struct frame *top = &p->st[p->n - 1];
	const char *fn;

	for (;;) {
		for (uint64_t ops = rnd(4); ops > 0; ops--)
			if (l->budget > 0 && p->n < DEPTH - 2 && run_op(l, p))
				return true;
		if (chance(sim.t.raise))
			return true;
		if (l->budget <= 0 || top->ncalls == CHAIN ||
		    !chance(sim.t.tail))
			return false;
		fn = pick_fn(p, p->n - 1);
		for (int i = 0; i < top->ncalls; i++)
			if (is_entry(fn) &&
			    strcmp(sim.v[top->calls[i]].fn, fn) == 0)
				return false;
		top->fn = fn;
		if (is_traced(fn))
			enter(l, p);
	}
}

static void
run_lane(struct lane *l, int requests)
{
	struct cast c;

	while (requests-- > 0) {
		l->budget = 1 + (int)rnd(30);
		l->p[0].token = chance(50) ? l->p[0].token : 0;
		serve(l, &l->p[0], "e");
		while (l->ncasts > 0) {
			c = l->casts[--l->ncasts];
			l->p[c.to].token = c.token;
			l->p[c.to].from = l->p[c.from].id;
			l->p[c.to].from_call = -1;
			l->budget = 5;
			serve(l, &l->p[c.to], "a");
		}
		l->now += (kp_target_ns)rnd(50 * KP_NS_PER_MS);
	}
}

static void
sim_make(const struct traits *t, int requests)
{
	sim.t = *t;
	sim.n = 0;
	sim.label = sim.entries = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		for (uint32_t j = 0; j < PROCS; j++) {
			free(sim.lanes[i].p[j].ev);
			sim.lanes[i].p[j] = (struct process){
				.id = 10 * i + j + 1 };
		}
		sim.lanes[i].now = FEED_T0 + (kp_target_ns)rnd(1000000);
		sim.lanes[i].ncasts = 0;
		run_lane(&sim.lanes[i], requests);
	}
}

static void
sim_free(void)
{
	for (int i = 0; i < LANES; i++)
		for (int j = 0; j < PROCS; j++) {
			free(sim.lanes[i].p[j].ev);
			sim.lanes[i].p[j] = (struct process){ 0 };
		}
	free(sim.v);
	sim.v = NULL;
	sim.n = sim.cap = 0;
}

#endif
