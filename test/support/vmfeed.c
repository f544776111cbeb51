/* vmfeed.c - see the header. */
#include "kprofd/clock.h"
#include "vmfeed.h"

struct turn {
	kp_target_ns key;	/* when it comes */
	int event;
};

static int
turn_cmp(const void *pa, const void *pb)
{
	const struct turn *a = pa, *b = pb;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->event < b->event ? -1 : a->event > b->event;
}

static kp_target_ns
later(kp_target_ns a, kp_target_ns b)
{
	return a > b ? a : b;
}

/*
 * Events of one process keep their order.  Where entries come first, so does
 * the entry of the token that another one met.
 */
static struct turn *
turns_make(const struct vmfeed_opts *o)
{
	struct turn *v = calloc((size_t)sim.nev + 1, sizeof(*v));
	kp_target_ns *by_proc = calloc(sim.nprocs + 1, sizeof(*by_proc));
	kp_target_ns *by_label = calloc(sim.label + 1, sizeof(*by_label));
	const struct kp_event *ev;
	kp_target_ns key;

	if (v == NULL || by_proc == NULL || by_label == NULL)
		abort();
	for (uint32_t i = 0; i <= sim.nprocs; i++)
		by_proc[i] = INT64_MIN;
	for (uint64_t i = 0; i <= sim.label; i++)
		by_label[i] = INT64_MIN;
	for (int i = 0; i < sim.nev; i++)
		v[i] = (struct turn){ sim.ev[i].ev.ts, i };
	qsort(v, (size_t)sim.nev, sizeof(*v), turn_cmp);
	for (int i = 0; i < sim.nev; i++) {
		ev = &sim.ev[v[i].event].ev;
		key = ev->ts + (o->skew > 0 ? (kp_dur_ns)rnd(o->skew) : 0);
		if (chance(o->very_late))
			key += (kp_dur_ns)rnd(2 * KP_NS_PER_S);
		key += o->delay[feed_node(&ev->pid)];
		key = later(key, by_proc[ev->pid.id] + 1);
		if (o->entries_first)
			key = later(key, later(by_label[ev->label],
			    by_label[ev->old_label]) + 1);
		by_proc[ev->pid.id] = v[i].key = key;
		if (ev->kind == KP_EV_ENTRY)
			by_label[ev->label] = key;
	}
	qsort(v, (size_t)sim.nev, sizeof(*v), turn_cmp);
	free(by_proc);
	free(by_label);
	return v;
}

static uint32_t
nodes_of(const struct sim_traits *t)
{
	return t->nodes > 1 ? t->nodes : 1;
}

/* As the daemon does at each batch and status: often, also when idle. */
static void
expire_at(struct feed *f, struct vmfed *fed, const struct vmfeed_opts *o,
    kp_target_ns now)
{
	fed->now = now;
	for (uint32_t i = 0; i < nodes_of(&sim.t); i++) {
		fed->node_now[i] = now - o->delay[i];
		kp_requests_close_due(f->rs, i, sim_clock(i, fed->node_now[i]));
	}
}

static void
expire_to(struct feed *f, struct vmfed *fed, const struct vmfeed_opts *o,
    kp_target_ns now)
{
	while (now - fed->now >= KP_NS_PER_S / 2)
		expire_at(f, fed, o, fed->now + KP_NS_PER_S / 2);
	if (now > fed->now)
		expire_at(f, fed, o, now);
}

/* Labels of set_token's requests, by process; 0: has none. */
enum { MARKED = 256 };
static uint64_t marked[MARKED];
static uint64_t last_mark;

/* Mostly a new one: one that is used again is a collision, or came late. */
static uint64_t
mark_label(void)
{
	return SIM_LABELS + (last_mark == 0 || chance(95) ? ++last_mark :
	    1 + rnd(last_mark));
}

/* A call of the library's functions, some as sampling leaves them. */
static void
mark_feed(struct feed *f, const struct kp_event *at, struct vmfed *fed)
{
	uint64_t *mark = &marked[at->pid.id % MARKED];
	struct kp_event ev = { .kind = KP_EV_CLEAR, .pid = at->pid,
		.ts = sim_clock(feed_node(&at->pid), at->ts),
		.label = *mark != 0 ? *mark : at->label };

	if (chance(60)) {
		ev = (struct kp_event){ .kind = KP_EV_ENTRY, .pid = at->pid,
			.ts = ev.ts, .label = mark_label(),
			.old_label = ev.label, .weight = 1 };
		fed->entries[feed_node(&ev.pid)]++;
		*mark = ev.label;
		feed_event(f, &ev, "set_token", "u0");
	} else {
		*mark = 0;
		feed_event(f, &ev, chance(30) ? "set_token" : "clear_token",
		    "u0");
	}
	if (chance(70))
		feed_event(f, &(struct kp_event){ .kind = KP_EV_RETURN_TO,
		    .pid = at->pid, .ts = ev.ts }, "u0", NULL);
}

static void
event_feed(struct feed *f, struct sim_event *e, struct vmfed *fed)
{
	struct kp_event ev = e->ev;
	struct sim_call *c = e->call >= 0 ? &sim.v[e->call] : NULL;
	struct sim_label *l = c != NULL ? &sim.labels[c->label] : NULL;

	fed->entries[feed_node(&ev.pid)] += ev.kind == KP_EV_ENTRY;
	fed->calls[feed_node(&ev.pid)] += ev.kind == KP_EV_CALL;
	ev.ts = sim_clock(feed_node(&ev.pid), ev.ts);
	if (ev.kind == KP_EV_CALL && marked[ev.pid.id % MARKED] != 0)
		ev.label = marked[ev.pid.id % MARKED];
	e->fed = true;
	if (c != NULL) {
		c->fed = true;
		c->after_close = l->closed;
		l->named |= ev.kind == KP_EV_CALL && !l->closed &&
		    e->identity != NULL;
	}
	f->identity = e->identity;
	feed_event(f, &ev, e->fn, e->caller);
}

void
vmfeed(struct feed *f, const struct vmfeed_opts *o, struct vmfed *fed)
{
	struct turn *v = turns_make(o);
	struct sim_event *e;
	kp_target_ns newest = FEED_T0;

	*fed = (struct vmfed){ .now = FEED_T0 };
	for (int i = 0; i < SIM_NODES; i++)
		fed->node_now[i] = FEED_T0;
	memset(marked, 0, sizeof(marked));
	last_mark = 0;
	for (int i = 0; i < sim.nev; i++) {
		e = &sim.ev[v[i].event];
		newest = later(newest, e->ev.ts +
		    o->delay[feed_node(&e->ev.pid)]);
		if (chance(2) || newest - fed->now > KP_NS_PER_S / 10)
			expire_to(f, fed, o, newest);
		if (o->abandons > 0 && rnd(10000) < o->abandons) {
			fed->abandoned++;
			kp_requests_abandon(f->rs,
			    (uint32_t)rnd(nodes_of(&sim.t)), chance(50) ?
			    KP_LOSS_TRIPPED : KP_LOSS_DISCONNECTED);
		}
		if (chance(o->marks)) {
			f->identity = NULL;
			mark_feed(f, &e->ev, fed);
		}
		if (chance(o->drop))
			continue;
		event_feed(f, e, fed);
		if (chance(o->twice))
			event_feed(f, e, fed);
	}
	free(v);
}

void
vmfeed_expire_all(struct feed *f, struct vmfed *fed)
{
	expire_to(f, fed, &(struct vmfeed_opts){ 0 },
	    fed->now + 100 * KP_NS_PER_S);
}
