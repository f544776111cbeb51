/*
 * vmsim.c - what the VM sends, and what is true: see the header.
 *
 * By experiment with the releases.  A traced call puts a return_to frame
 * below its own, unless there is one, as after a tail call; an exact one puts
 * a frame of its own there each time.  A frame that is left by a return gives
 * return_from for its exact calls, the last one first, and then return_to.
 * An exception gives exception_from for all exact calls that it passes, and
 * then one return_to that names the catcher: on OTP 27 if it passed a traced
 * frame, on 25 only if the frame next to the catcher's is traced.  Uncaught,
 * or by a kill, there is no return_to.
 */
#include <stdlib.h>
#include <string.h>

#include "vmsim.h"
#include "feed.h"

#define GRAIN 65536	/* ns; time modulo this is the process's number */

struct sim sim;

static uint64_t rnd_state;

void
rnd_seed(uint64_t seed)
{
	rnd_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

uint64_t
rnd(uint64_t below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 11) % below;
}

bool
chance(unsigned percent)
{
	return rnd(100) < percent;
}

bool
is_entry(const char *fn)
{
	return fn[0] == 'e';
}

bool
is_exact(const char *fn)
{
	return sim.t.exact && (fn[0] == 'x' || fn[0] == 'y');
}

bool
is_traced(const char *fn)
{
	return fn[0] != 'u';
}

/* Room for one more of size bytes in an array. */
static void *
room(void *v, int n, int *cap, size_t size)
{
	if (n < *cap)
		return v;
	*cap = *cap > 0 ? *cap * 2 : 1024;
	v = realloc(v, (size_t)*cap * size);
	if (v == NULL)
		abort();
	return v;
}

/* ---- processes and their clocks ---- */

static kp_target_ns
vm_tick(struct sim_proc *p)
{
	return p->now += GRAIN * (kp_target_ns)(1 + rnd(6));
}

/* No two events have the same time. */
void
vm_wait(struct sim_proc *p, kp_target_ns until)
{
	if (until > p->now)
		p->now = FEED_T0 + ((until - FEED_T0) / GRAIN + 1) * GRAIN +
		    p->id;
}

void
vm_hear(struct sim_proc *p, const struct sim_proc *from)
{
	vm_wait(p, from->now + (p->node != from->node ?
	    20 * KP_NS_PER_US + (kp_dur_ns)rnd(500 * KP_NS_PER_US) : 0));
}

kp_target_ns
sim_clock(uint32_t node, kp_target_ns at)
{
	kp_dur_ns since = at - FEED_T0;

	return at + sim.clock[node].skew +
	    since / 1000000 * sim.clock[node].ppm;
}

uint32_t
sim_node(uint32_t proc)
{
	return proc > 0 ? sim.procs[proc - 1]->node : 0;
}

static struct kp_pid
pid_of(uint32_t proc)
{
	return feed_pid(AT(sim_node(proc), proc));
}

struct sim_proc *
vm_spawn(const struct sim_proc *by, uint32_t node)
{
	struct sim_proc *p = calloc(1, sizeof(*p));
	int cap = (int)sim.procscap;

	sim.procs = room(sim.procs, (int)sim.nprocs, &cap,
	    sizeof(struct sim_proc *));
	sim.procscap = (uint32_t)cap;
	if (p == NULL || sim.nprocs + 1 >= GRAIN)
		abort();
	sim.procs[sim.nprocs++] = p;
	p->id = sim.nprocs;
	p->node = node;
	p->now = FEED_T0 + p->id;
	if (by != NULL) {
		vm_hear(p, by);
		vm_message(p, by);
		p->unwaited = true;
	}
	return p;
}

void
vm_message(struct sim_proc *to, const struct sim_proc *from)
{
	to->token = from->token;
	to->from = from->id;
}

/* ---- what is open ---- */

int
vm_innermost(const struct sim_proc *p)
{
	for (int i = p->n; i > 0; i--)
		if (p->st[i - 1].ncalls > 0)
			return p->st[i - 1].calls[p->st[i - 1].ncalls - 1];
	return -1;
}

static bool
label_within(uint64_t label, uint64_t outer)
{
	while (label != outer && label != 0)
		label = sim.labels[label].outer;
	return label == outer;
}

/* A server's loop waits for any request. */
uint64_t
vm_owner(const struct sim_proc *p)
{
	int i = p->loops ? -1 : vm_innermost(p);

	return i >= 0 ? sim.v[i].label : p->token;
}

/* All calls since the process left its loop, and what was in doubt then. */
static void
all_loose(const struct sim_proc *p)
{
	for (int i = 0; i < sim.n; i++)
		sim.v[i].loose |= sim.v[i].proc == p->id &&
		    (i >= p->first || sim.v[i].tail);
}

/* What is open here is taken for over, from here on till it is in its loop. */
static void
vm_mistaken(struct sim_proc *p)
{
	for (int f = 0; f < p->n; f++)
		p->st[f].ncalls = 0;
	p->mistaken = true;
	for (int i = p->first; i < sim.n; i++)
		sim.v[i].loose |= sim.v[i].proc == p->id;
}

/*
 * It has the token of a request that has nothing to do with what it works
 * on: what it calls is taken for a part of that one.
 */
static void
vm_swap(struct sim_proc *p)
{
	int i = vm_innermost(p);

	if (i < 0 || p->loops)
		return;
	/* What began inside something that seemed over seems to be apart. */
	if (label_within(p->token, sim.v[i].label) &&
	    (!p->dirty || p->token == sim.v[i].label))
		return;
	vm_mistaken(p);
	sim.labels[p->token].parallel = true;
}

/* ---- events ---- */

static int
emit(struct sim_proc *p, struct sim_event e)
{
	sim.ev = room(sim.ev, sim.nev, &sim.evcap, sizeof(*sim.ev));
	e.ev.pid = pid_of(p->id);
	e.ev.ts = vm_tick(p);
	sim.ev[sim.nev] = e;
	return sim.nev++;
}

static int
emit_return(struct sim_proc *p, enum kp_event_kind kind, const char *fn)
{
	return emit(p, (struct sim_event){ .fn = fn, .call = -1,
	    .ev.kind = kind });
}

static int
call_add(struct sim_proc *p, const char *fn)
{
	int i = vm_innermost(p);
	struct sim_call c = { .fn = fn, .proc = p->id, .from = p->from,
		.parent = i, .end_event = -1, .label = vm_owner(p),
		.outcome = KP_OPEN };

	/* After a doubt that nothing has settled, nothing is sure. */
	c.loose = p->mistaken ||
	    (p->dirty && (sim.t.otp25 || sim.t.nested || sim.t.finish));
	if (i >= 0 && sim.v[i].label != c.label)
		c.parent = -1;
	sim.v = room(sim.v, sim.n, &sim.cap, sizeof(*sim.v));
	sim.v[sim.n] = c;
	return sim.n++;
}

static const char *
pick_name(void)
{
	static const char *const names[] = { "create", "read", "update",
		"delete", "k\xC3\xB6ln", "list", NULL, NULL };

	return names[rnd(8)];
}

/* The entry's call begins a request. */
static void
label_make(struct sim_proc *p, int call)
{
	struct sim_label *l = &sim.labels[++sim.label];

	if (sim.label >= SIM_LABELS)
		abort();
	*l = (struct sim_label){ .entry = call, .finish = -1,
		.outer = vm_owner(p), .name = pick_name(),
		.entry_name = chance(60) ? pick_name() : NULL,
		.weight = chance(50) ? 1 : 1 + (uint32_t)rnd(50) };
	if (sim.labels[l->outer].over)
		l->outer = 0;
	sim.v[call].label = p->token = sim.label;
	sim.v[call].parent = -1;
	p->from = p->id;
}

/* Was there an event of the call of what runs in it? */
static bool
frame_traced(const struct sim_frame *fr)
{
	return fr->ncalls > 0 &&
	    strcmp(sim.v[fr->calls[fr->ncalls - 1]].fn, fr->fn) == 0;
}

void
vm_enter(struct sim_proc *p)
{
	struct sim_frame *top = &p->st[p->n - 1];
	struct sim_event e = { .fn = top->fn, .ev.kind = KP_EV_CALL,
		.caller = p->n > 1 ? p->st[p->n - 2].fn : NULL };
	struct sim_call *c;
	int event;

	if (is_entry(top->fn)) {
		if (vm_innermost(p) >= 0 && (p->token == 0 ? sim.t.otp25 :
		    !label_within(p->token, vm_owner(p))))
			vm_mistaken(p);
		e.ev.kind = KP_EV_ENTRY;
		e.ev.old_label = p->token;
		e.call = call_add(p, top->fn);
		label_make(p, e.call);
		e.identity = sim.labels[p->token].entry_name;
		e.ev.weight = sim.labels[p->token].weight;
	} else if (p->token != 0) {
		vm_swap(p);
		e.call = call_add(p, top->fn);
		e.identity = chance(50) ?
		    sim.labels[vm_owner(p)].name : NULL;
		e.ev.has_from = true;
		e.ev.from = pid_of(p->from);
	} else {
		return;
	}
	/* Called when there was no token: an earlier call of it seems to run. */
	if (p->n > 1 && !p->loops && is_traced(e.caller) &&
	    !frame_traced(&p->st[p->n - 2])) {
		all_loose(p);
		p->mistaken = true;
		sim.v[e.call].loose = true;
	}
	c = &sim.v[e.call];
	e.ev.label = p->token;
	if (strcmp(top->fn, "fin") == 0)
		sim.labels[c->label].finish = e.call;
	event = emit(p, e);
	c->start = sim.ev[event].ev.ts;
	top->marked = true;
	/* The loop's last call never ends, but for another request. */
	if (p->loops && (p->n == 2 || (p->st[1].ncalls > 0 &&
	    sim.v[p->st[1].calls[0]].label != c->label)))
		p->st[1].ncalls = 0;
	top->calls[top->ncalls++] = e.call;
}

/* ---- ends ---- */

static void
call_end(int i, enum kp_outcome how, int event)
{
	sim.v[i].outcome = (uint8_t)how;
	sim.v[i].end = sim.ev[event].ev.ts;
	sim.v[i].end_event = event;
	if (is_entry(sim.v[i].fn))
		sim.labels[sim.v[i].label].over = true;
}

/* One that ends beside the one that an event names. */
static void
call_end_besides(int i, enum kp_outcome how, int event)
{
	call_end(i, sim.t.otp25 ? KP_AMBIGUOUS : how, event);
	sim.v[i].or_how = (uint8_t)how;
}

/*
 * The exact calls of frame f tell of their ends, and with them end those that
 * they ended in, and what was above.  left: how many calls of each frame are
 * still open.  Returns whether there were any.
 */
static bool
exact_ends(struct sim_proc *p, int f, int *left, enum kp_event_kind kind,
    enum kp_outcome how)
{
	struct sim_frame *fr = &p->st[f];
	bool any = false;
	int event;

	left[f] = fr->ncalls;
	for (int i = fr->ncalls; i > 0; i--) {
		if (!is_exact(sim.v[fr->calls[i - 1]].fn))
			continue;
		event = emit_return(p, kind, sim.v[fr->calls[i - 1]].fn);
		for (int g = p->n - 1; g > f; g--)
			while (left[g] > 0)
				call_end_besides(p->st[g].calls[--left[g]],
				    how, event);
		while (left[f] > i)
			call_end_besides(fr->calls[--left[f]], how, event);
		call_end(fr->calls[--left[f]], how, event);
		any = true;
	}
	return any;
}

/*
 * What ended in a tail call, but may have been passed before; and with an
 * exact one, whose return then seems to be of nothing, what it ended in.
 */
static void
chain_loose(const struct sim_proc *p, const struct sim_frame *fr)
{
	bool exact = false;

	for (int i = 0; i < fr->ncalls - 1; i++) {
		sim.v[fr->calls[i]].tail = true;
		sim.v[fr->calls[i]].loose |= p->dirty;
		exact |= is_exact(sim.v[fr->calls[i]].fn);
	}
	if (exact)
		sim.v[fr->calls[fr->ncalls - 1]].loose |= p->dirty;
}

void
vm_leave(struct sim_proc *p)
{
	struct sim_frame *top = &p->st[p->n - 1];
	int left[SIM_DEPTH], event, n;
	enum kp_outcome how;

	if (top->marked) {
		exact_ends(p, p->n - 1, left, KP_EV_RETURN_FROM, KP_RETURNED);
		event = emit_return(p, KP_EV_RETURN_TO,
		    p->n > 1 ? p->st[p->n - 2].fn : NULL);
		/* What they ended in told how it ended, or nothing did. */
		n = left[p->n - 1];
		how = n < top->ncalls ? KP_RETURNED : KP_UNKNOWN;
		for (int i = 0; i < n; i++) {
			if (i == top->ncalls - 1)
				call_end(top->calls[i], how, event);
			else
				call_end_besides(top->calls[i], how, event);
		}
		chain_loose(p, top);
	}
	p->n--;
}

/* What is left open of frames above `keep` ends with this event. */
static void
passed_end(const struct sim_proc *p, int keep, const int *left, bool exact,
    int marked, int event)
{
	const struct sim_frame *fr;
	bool last;

	for (int f = keep; f < p->n; f++) {
		fr = &p->st[f];
		for (int i = 0; i < left[f]; i++) {
			last = f == keep && i == fr->ncalls - 1;
			/* To its caller: nobody can tell it from a return. */
			if (last && (sim.t.otp25 || (marked == 1 && !exact)))
				call_end(fr->calls[i], KP_UNKNOWN, event);
			else
				call_end_besides(fr->calls[i], f == keep &&
				    !exact && marked == 1 ? KP_UNKNOWN :
				    KP_RAISED, event);
		}
		chain_loose(p, fr);
	}
}

void
vm_unwind(struct sim_proc *p, int keep)
{
	const char *to = p->st[keep - 1].fn;
	bool closest = p->st[keep].marked, hidden, again = false, exact = false;
	int left[SIM_DEPTH], open = 0, marked = 0, event;

	for (int f = p->n - 1; f >= keep; f--) {
		marked += p->st[f].marked;
		again |= strcmp(p->st[f].fn, to) == 0;
		exact |= exact_ends(p, f, left, KP_EV_EXCEPTION_FROM,
		    KP_RAISED);
	}
	for (int f = keep; f < p->n; f++)
		open += left[f];
	hidden = marked > 0 && !closest;
	if (marked > 0 && (!sim.t.otp25 || !hidden)) {
		event = emit_return(p, KP_EV_RETURN_TO, to);
		passed_end(p, keep, left, exact, marked, event);
	}
	if (marked > 0 && (again || (hidden && sim.t.otp25 && open > 0) ||
	    (p->dirty && (hidden || marked > 1)))) {
		all_loose(p);
		p->mistaken = true;
	}
	for (int f = 0; f < keep && (hidden || again); f++)
		for (int i = 0; i < p->st[f].ncalls; i++)
			sim.v[p->st[f].calls[i]].passed = true;
	p->dirty |= hidden || again;
	p->n = keep;
}

void
vm_die(struct sim_proc *p, bool raised)
{
	int left[SIM_DEPTH];

	for (int f = p->n - 1; f >= 0 && raised; f--)
		exact_ends(p, f, left, KP_EV_EXCEPTION_FROM, KP_RAISED);
	/* What seemed to have ended before may have ended now. */
	if (p->dirty || sim.t.recursive)
		all_loose(p);
	p->n = 0;
	p->dead = true;
}
