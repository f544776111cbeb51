/*
 * vmprog.c - random programs: see vmsim.h.
 *
 * A lane is a client and two servers; the client makes requests one after the
 * other.  What is to happen later (casts, timers, the lanes' next requests)
 * waits in a list of jobs and happens in the order of its times.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/clock.h"
#include "vmsim.h"

enum { JOBS = 64, SERVERS = 2, HOPS = 3 };

enum how { RETURNS, RAISES, DIES };

struct lane {
	struct sim_proc *client, *servers[SERVERS];
	kp_target_ns next;	/* request */
	int requests;		/* to make */
};

/* A message under way; token_too: else a timer, which leaves it alone. */
struct job {
	kp_target_ns at;
	struct sim_proc *to;
	bool token_too;
	uint64_t token;
	uint32_t from;
	int hops;		/* casts that led here */
};

static struct lane lanes[SIM_LANES];
static struct lane *lane;	/* at work */
static struct sim_proc *pool;
static struct job jobs[JOBS];
static int njobs, hops;
static int budget;		/* calls left in this request */

static enum how run_body(struct sim_proc *p);

/* ---- calls ---- */

static bool
on_stack(const struct sim_proc *p, const char *fn, int depth)
{
	for (int i = 0; i < depth; i++)
		if (strcmp(p->st[i].fn, fn) == 0)
			return true;
	return false;
}

/* For the frame at this depth, by which untraced functions are told apart. */
static const char *
pick_fn(const struct sim_proc *p, int depth)
{
	static const char *const untraced[SIM_DEPTH] = { "u0", "u1", "u2",
		"u3", "u4", "u5", "u6", "u7", "u8", "u9", "u10", "u11", "u12",
		"u13", "u14", "u15", "u16", "u17", "u18", "u19", "u20",
		"u21", "u22", "u23" };
	static const char *const traced[] = { "a", "b", "c", "d", "f", "x",
		"y" };
	const char *fn = traced[rnd(7)];
	const struct sim_label *l = &sim.labels[vm_owner(p)];

	if (chance(40))
		return untraced[depth];
	if (sim.t.finish && l->finish < 0 && chance(15) && vm_owner(p) != 0)
		return "fin";
	if (sim.t.nested && chance(10) && (sim.t.anything ||
	    (!p->unwaited && !l->over)))
		fn = chance(50) ? "e" : "e2";
	if (!sim.t.recursive && on_stack(p, fn, depth))
		return untraced[depth];
	return fn;
}

static enum how
call_fn(struct sim_proc *p, const char *fn)
{
	enum how how;

	p->st[p->n++] = (struct sim_frame){ .fn = fn };
	if (is_traced(fn)) {
		vm_enter(p);
		budget--;
	}
	how = run_body(p);
	if (how == RETURNS)
		vm_leave(p);
	return how;
}

/* What a loop that is a tier's function does after each message. */
static void
loop_again(struct sim_proc *p)
{
	p->st[1].fn = "loop";
	p->n = 2;
	vm_enter(p);
}

/* A process takes a message: from its loop, which catches everything. */
static enum how
serve(struct sim_proc *p, const char *fn)
{
	enum how how;

	p->busy = true;
	/* Work for a request inside one whose end here was not seen. */
	if (!p->dirty || !(sim.t.nested || sim.t.finish)) {
		p->dirty = false;
		p->first = sim.n;
	}
	p->mistaken = false;
	p->st[0] = (struct sim_frame){ .fn = "u0" };
	if (p->loops && p->n == 0)
		loop_again(p);
	else if (!p->loops)
		p->n = 1;
	how = call_fn(p, fn);
	if (how == RAISES)
		vm_unwind(p, p->loops ? 2 : 1);
	if (how == DIES)
		return how;
	if (p->loops)
		loop_again(p);
	else
		p->n = 0;
	p->busy = false;
	return how;
}

/* ---- other processes ---- */

static void
job_add(struct job j)
{
	if (njobs < JOBS && hops < HOPS)
		jobs[njobs++] = j;
}

static uint32_t
pick_node(void)
{
	return sim.t.nodes > 1 ? (uint32_t)rnd(sim.t.nodes) : 0;
}

/* Mostly soon; else late enough to meet a closed request, or none at all. */
static kp_dur_ns
pick_delay(void)
{
	switch (rnd(8)) {
	case 0:
		return 1 * KP_NS_PER_S + (kp_dur_ns)rnd(5 * KP_NS_PER_S);
	case 1:
		return 40 * KP_NS_PER_S + (kp_dur_ns)rnd(60 * KP_NS_PER_S);
	default:
		return (kp_dur_ns)rnd(100 * KP_NS_PER_MS);
	}
}

static struct sim_proc *
pick_server(void)
{
	struct sim_proc **s = &lane->servers[rnd(SERVERS)];

	if (pool != NULL && !pool->dead && chance(50))
		return pool;
	if ((*s)->dead) {	/* its supervisor starts another one */
		*s = vm_spawn(NULL, (*s)->node);
		(*s)->loops = sim.t.loops && chance(50);
	}
	return *s;
}

static void
cast(struct sim_proc *p)
{
	job_add((struct job){ .at = p->now + pick_delay(),
	    .to = pick_server(), .token_too = true, .token = p->token,
	    .from = p->id, .hops = hops + 1 });
}

/*
 * gen_server:reply/2 comes later, when the server has seen to other things:
 * a timer, or messages without a token or with another one.
 */
static void
defer_reply(struct sim_proc *s)
{
	uint64_t label = 1 + rnd(sim.label);

	s->now += (kp_dur_ns)rnd(16) * 65536;
	if (chance(50))
		serve(s, "a");
	else if (chance(60) || !sim.t.anything)
		s->token = 0;
	else
		s->token = label;
}

/* A call to a server and back. */
static enum how
call_server(struct sim_proc *p)
{
	struct sim_proc *s = pick_server();
	enum how how;

	if (s->busy)
		return RETURNS;	/* at work for us already */
	vm_hear(s, p);
	vm_message(s, p);
	s->unwaited = p->unwaited;
	how = serve(s, chance(30) ? "u1" : "a");
	vm_wait(p, s->now);
	if (how == DIES)
		return chance(50) ? RAISES : RETURNS;
	if (chance(sim.t.defer))
		defer_reply(s);
	vm_hear(p, s);
	if (s->dead)
		return RETURNS;
	vm_message(p, s);
	if (s->node != p->node && chance(sim.t.rpc) && sim.t.otp25)
		p->token = 0;
	return how == RAISES && chance(50) ? RAISES : RETURNS;
}

/*
 * Children that work at the same time as we do.  A task's result comes as a
 * message with its token; a monitor's or a link's word of its end does not
 * touch ours, and a link to one that raised takes us along.
 */
static enum how
run_children(struct sim_proc *p)
{
	struct sim_proc *child[3];
	enum how how[3], ours = RETURNS;
	int n = 1 + (int)rnd(3);

	sim.labels[vm_owner(p)].parallel = true;
	sim.labels[p->token].parallel = true;
	for (int i = 0; i < n; i++) {
		child[i] = vm_spawn(p, sim.t.nodes > 1 && chance(50) ?
		    pick_node() : p->node);
		child[i]->first = sim.n;
		child[i]->st[0] = (struct sim_frame){ .fn = "u0" };
		child[i]->n = chance(50);
		how[i] = call_fn(child[i], "a");
		if (how[i] == RAISES)
			vm_die(child[i], true);
	}
	if (chance(70))
		ours = call_fn(p, pick_fn(p, p->n));
	for (int i = 0; i < n && ours == RETURNS; i++) {
		switch (rnd(4)) {
		case 0:		/* neither waited for */
			break;
		case 1:
			vm_hear(p, child[i]);
			break;
		case 2:
			if (how[i] != RETURNS && sim.t.die > 0) {
				vm_hear(p, child[i]);
				vm_die(p, false);
				return DIES;
			}
			break;
		default:
			vm_hear(p, child[i]);
			if (how[i] != RETURNS)
				return RAISES;
			vm_message(p, child[i]);
		}
	}
	return ours;
}

/* ---- functions ---- */

static enum how
run_op(struct sim_proc *p)
{
	int keep = p->n;
	enum how how;

	if (chance(sim.t.cast)) {
		cast(p);
		return RETURNS;
	}
	if (chance(sim.t.die)) {
		vm_die(p, chance(50));
		return DIES;
	}
	if (chance(sim.t.cut)) {	/* a request that is not sampled */
		p->token = 0;
		return RETURNS;
	}
	if (chance(sim.t.spawn))
		how = run_children(p);
	else if (chance(25))
		how = call_server(p);
	else
		how = call_fn(p, pick_fn(p, p->n));
	if (how == RAISES && chance(50)) {
		/* Also where nothing is on the stack: the server raised. */
		if (p->n > keep)
			vm_unwind(p, keep);
		return RETURNS;
	}
	return how;
}

/* May what is on top end in a call of fn? */
static bool
may_end_in(const struct sim_frame *top, const char *fn)
{
	for (int i = 0; i < top->ncalls && is_entry(fn); i++)
		if (strcmp(sim.v[top->calls[i]].fn, fn) == 0)
			return false;
	return true;
}

/* Runs what is on top of the stack, which is still there if it raises. */
static enum how
run_body(struct sim_proc *p)
{
	struct sim_frame *top = &p->st[p->n - 1];
	const char *fn;
	enum how how;

	for (;;) {
		for (uint64_t ops = rnd(4); ops > 0; ops--)
			if (budget > 0 && p->n < SIM_DEPTH - 2 &&
			    (how = run_op(p)) != RETURNS)
				return how;
		if (chance(sim.t.raise))
			return RAISES;
		if (budget <= 0 || top->ncalls == SIM_CHAIN ||
		    !chance(sim.t.tail))
			return RETURNS;
		fn = pick_fn(p, p->n - 1);
		if (!may_end_in(top, fn))
			return RETURNS;
		top->fn = fn;
		if (is_traced(fn)) {
			vm_enter(p);
			budget--;
		}
	}
}

/* ---- lanes ---- */

static struct sim_proc *
server_new(void)
{
	struct sim_proc *p = vm_spawn(NULL, pick_node());

	p->loops = sim.t.loops && chance(50);
	p->unwaited = false;
	return p;
}

/* What the client does with the token that stays behind when e is over. */
static void
client_goes_on(struct sim_proc *p)
{
	budget = 4;
	for (uint64_t n = rnd(3); n > 0 && !p->dead; n--)
		serve(p, "a");
}

static void
lane_request(struct lane *l)
{
	struct sim_proc *p = l->client;

	if (p->dead)
		p = l->client = vm_spawn(NULL, l->client->node);
	budget = 1 + (int)rnd(30);
	vm_wait(p, l->next);
	p->token = chance(50) ? p->token : 0;
	serve(p, "e");
	if (!p->dead && chance(sim.t.cast))
		client_goes_on(p);
	for (int i = 0; i < SERVERS; i++)
		if (chance(sim.t.timer))
			job_add((struct job){ .to = l->servers[i],
			    .at = l->servers[i]->now + pick_delay() });
	l->next = p->now + (kp_dur_ns)rnd(50 * KP_NS_PER_MS);
	l->requests--;
}

static void
job_run(struct job j)
{
	if (j.to->dead)
		return;
	budget = 5;
	hops = j.hops;
	vm_wait(j.to, j.at);
	if (j.token_too) {
		j.to->token = j.token;
		j.to->from = j.from;
	}
	j.to->unwaited = true;
	sim.labels[j.to->token].parallel = true;
	serve(j.to, sim.t.finish && chance(50) &&
	    sim.labels[j.to->token].finish < 0 ? "fin" : "a");
}

/* The first of all that is to happen; false when nothing is. */
static bool
step(void)
{
	struct job *first = NULL, j;

	lane = NULL;
	for (int i = 0; i < SIM_LANES; i++)
		if (lanes[i].requests > 0 &&
		    (lane == NULL || lanes[i].next < lane->next))
			lane = &lanes[i];
	for (int i = 0; i < njobs; i++)
		if (first == NULL || jobs[i].at < first->at)
			first = &jobs[i];
	if (first != NULL && (lane == NULL || first->at < lane->next)) {
		j = *first;
		*first = jobs[--njobs];
		lane = &lanes[rnd(SIM_LANES)];
		job_run(j);
		return true;
	}
	if (lane == NULL)
		return false;
	hops = 0;
	lane_request(lane);
	return true;
}

static void
sim_reset(const struct sim_traits *t)
{
	for (uint32_t i = 0; i < sim.nprocs; i++)
		free(sim.procs[i]);
	sim.nprocs = 0;
	sim.n = sim.nev = 0;
	sim.label = 0;
	sim.t = *t;
	if (sim.labels == NULL)
		sim.labels = calloc(SIM_LABELS, sizeof(*sim.labels));
	if (sim.labels == NULL)
		abort();
	sim.labels[0] = (struct sim_label){ .entry = -1, .finish = -1 };
	memset(sim.clock, 0, sizeof(sim.clock));
	njobs = 0;
}

void
sim_make(const struct sim_traits *t, int requests)
{
	sim_reset(t);
	for (int i = 0; i < SIM_LANES; i++) {
		lanes[i] = (struct lane){ .client = vm_spawn(NULL,
			pick_node()),
			.requests = requests / SIM_LANES };
		for (int s = 0; s < SERVERS; s++)
			lanes[i].servers[s] = server_new();
		lanes[i].next = lanes[i].client->now +
		    (kp_dur_ns)rnd(KP_NS_PER_MS);
	}
	pool = t->pool ? server_new() : NULL;
	while (step())
		;
}

void
sim_free(void)
{
	sim_reset(&(struct sim_traits){ 0 });
	free(sim.v);
	free(sim.ev);
	free(sim.labels);
	free(sim.procs);
	sim = (struct sim){ .n = 0 };
}
