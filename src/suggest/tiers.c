/*
 * tiers.c - groups functions into tiers, by where requests spend their time.
 *
 * A module's own time is that of its functions, and of OTP's that they call, until
 * they call another module.  The time of a helper belongs to its callers.  A helper is
 * called by modules of which one calls the other, so it is a layer of neither; and it
 * does not itself wait for others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/vec.h"
#include "suggest/propose.h"

#define HELPER_CALLERS 8	/* modules that call a helper: more are not looked at */
#define HELPER_SURE 3		/* with fewer its calls are short, too: */
#define HELPER_SHORT (50 * KP_NS_PER_US)
#define HELPER_WAITS 0.2	/* share of its time; who waits more is no helper */
#define POOL_ASKS 0.2		/* share of the way to a pool that waits for its workers */
#define SHARE 0.01		/* of the requests' time, from which it is a tier */
#define SURER 1.3		/* times that, unless it was in an earlier draft: */
#define KEPT 0.7
#define SHARE_ELSEWHERE 0.03	/* the same, in other processes */
#define FEW 4			/* tiers beside the entry's; while there are fewer, */
#define FEW_PART 0.1		/* this part of these shares is enough */
#define LATER 4			/* time in other processes counts a quarter */
#define SHARE_BIG 0.1		/* from which a module is no part of a whole */
#define SHARE_MEMBER 0.01	/* of the time of a tier's first function */
#define SHARE_SHORT 0.001	/* and a call takes this long: */
#define CALL_SHORT (5 * KP_NS_PER_US)
#define MANY_CALLS 3		/* a request: */
#define MANY_LEAST (20 * KP_NS_PER_US)	/* they are longer than this */
#define CALL_TRACED (2 * KP_NS_PER_US)	/* kprofd takes half as long for it */
#define GROUP_FNS_MAX 256u	/* more are added up in none */

struct member {
	uint32_t fn;
	uint64_t calls;
	kp_dur_ns total;
	bool local;		/* not exported, and called by a server's loop */
};

/* A function as others call it. */
struct callee {
	uint32_t callers[HELPER_CALLERS], ncallers;	/* groups */
	kp_dur_ns total;
	uint64_t calls;
};

/* A module, an application that is not the entry's, or one function. */
struct group {
	bool by_app, entry, helper;
	bool alone;		/* the function: others wait in it for a worker */
	bool pool;		/* requests reach a pool of processes by it */
	bool works;		/* the entry's module calls it, and it calls others */
	uint32_t fn;		/* one of its functions */
	kp_dur_ns called, helped;	/* in calls by others; of helping functions */
	kp_dur_ns plain, waits;	/* its own, and how much of that waits */
	kp_dur_ns here, asks;	/* in the request's process; waits for answers */
	kp_dur_ns in, out;	/* with the helpers': in the request's process */
	struct member *members;
	size_t nmembers;
};

struct work {
	const struct suggest_calls *c;
	const struct suggest_fn *fns;
	struct suggest_tiers *out;
	uint32_t entry;
	double hot;
	bool drafted;		/* there was an earlier draft */
	double part;		/* of SHARE, with which a group is a tier */
	struct intern names;	/* of groups */
	struct group *v;
	uint32_t n;
	uint32_t *of;		/* by function: group + 1; 0: none */
	bool *big;		/* by function: its module is a tier of its own */
	struct callee *callees;	/* by function */
	struct map edges;	/* (caller, callee), groups */
	uint32_t *owner;	/* by spot: group + 1 */
	bool *inside;		/* by spot: below the entry */
};

/* ---- groups ---- */

static uint32_t
group_named(struct work *w, const char *name, uint32_t fn, bool by_app)
{
	const struct interned *at;
	bool alone = w->fns[fn].waits && fn != w->entry;
	char key[2 * KP_CALLS_NAME_MAX + 3];
	int len = snprintf(key, sizeof(key), "%c%s%s%s", alone ? 'f' : by_app ?
	    'a' : 'm', alone ? w->c->names->fns[fn].mod : name, alone ? ":" : "",
	    alone ? w->c->names->fns[fn].fun : "");

	len = len < (int)sizeof(key) ? len : (int)sizeof(key) - 1;
	at = intern_get(&w->names, key, (size_t)len);
	if (at != NULL)
		return at->val;
	if (vec_room_by_len(&w->v, w->n, SUGGEST_SPOTS_MAX) != KP_OK ||
	    intern_put(&w->names, key, (size_t)len, w->n + 1) == NULL)
		return 0;
	w->v[w->n] = (struct group){ .by_app = by_app && !alone, .fn = fn,
		.alone = alone };
	return ++w->n;
}

/*
 * Modules; or, once it is known which are big, what is small of another application
 * as one.
 */
static bool
groups_make(struct work *w)
{
	const struct kp_call_names *t = w->c->names;
	const char *home = w->fns[w->entry].app, *app;
	bool by_app;

	for (uint32_t i = 1; i < w->c->nspots; i++) {
		uint32_t fn = w->c->spots[i].fn;

		if (w->of[fn] != 0)
			continue;
		app = w->fns[fn].app;
		by_app = w->big != NULL && !w->big[fn] && app[0] != '\0' &&
		    !w->fns[fn].users && strcmp(app, home) != 0;
		w->of[fn] = group_named(w, by_app ? app : t->fns[fn].mod, fn,
		    by_app);
		if (w->of[fn] == 0)
			return false;
	}
	if (w->of[w->entry] != 0)
		w->v[w->of[w->entry] - 1].entry = true;
	return true;
}

static void
groups_free(struct work *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		free(w->v[i].members);
	free(w->v);
	w->v = NULL;
	w->n = 0;
	intern_free(&w->names);
	w->names = (struct intern){ 0 };
}

/* Then groups are made again. */
static bool
big_find(struct work *w)
{
	double least = SHARE_BIG * (double)w->out->total;
	uint32_t n = w->c->names->nfns;

	w->big = calloc(n + 1, sizeof(*w->big));
	for (uint32_t i = 0; w->big != NULL && i < n; i++) {
		w->big[i] = w->of[i] != 0 &&
		    (double)w->v[w->of[i] - 1].plain >= least;
		w->of[i] = 0;
	}
	groups_free(w);
	return w->big != NULL;
}

static void
caller_add(struct callee *f, uint32_t caller, const struct suggest_spot *s)
{
	uint32_t i;

	f->total += s->total;
	f->calls += s->calls;
	for (i = 0; i < f->ncallers && f->callers[i] != caller; i++)
		;
	if (i == f->ncallers && i < HELPER_CALLERS)
		f->callers[f->ncallers++] = caller;
}

static kp_dur_ns
own_time(const struct suggest_spot *s)
{
	kp_dur_ns t = s->own;

	for (unsigned k = 0; k < SUGGEST_WAITS; k++)
		t += s->wait[k];
	return t;
}

/* Each group's own time. */
static void
plain_find(struct work *w)
{
	const struct suggest_spot *s;
	struct group *g;

	for (uint32_t i = 1; i < w->c->nspots; i++) {
		s = &w->c->spots[i];
		g = &w->v[w->of[s->fn] - 1];
		g->plain += own_time(s);
		g->waits += s->wait[SUGGEST_WAIT_CALL] +
		    s->wait[SUGGEST_WAIT_PORT] + s->wait[SUGGEST_WAIT_INPUT];
		g->here += w->inside[i] ? own_time(s) : 0;
		g->asks += w->inside[i] ? s->wait[SUGGEST_WAIT_CALL] : 0;
	}
}

static uint64_t
edge(uint32_t caller, uint32_t callee)
{
	return (uint64_t)caller << 32 | callee;
}

/* Is it called by two modules of which one calls the other? */
static bool
is_helping(const struct work *w, const struct callee *f)
{
	bool found = false;

	for (uint32_t i = 0; i < f->ncallers; i++)
		for (uint32_t k = 0; k < f->ncallers; k++)
			found |= i != k && map_get(&w->edges,
			    edge(f->callers[i], f->callers[k])) != NULL;
	return found && (f->ncallers >= HELPER_SURE ||
	    f->total / (kp_dur_ns)f->calls < HELPER_SHORT);
}

/* Does the entry's module call it directly? */
static bool
is_layer(const struct work *w, uint32_t spot)
{
	const struct suggest_spot *s = &w->c->spots[spot];

	return w->of[s->fn] != w->of[w->entry] &&
	    w->of[w->c->spots[s->parent].fn] == w->of[w->entry];
}

/* False: out of memory. */
static bool
helpers_find(struct work *w)
{
	const struct suggest_spot *s;
	uint32_t caller;
	struct group *g;

	for (uint32_t i = 1; i < w->c->nspots; i++) {
		s = &w->c->spots[i];
		caller = w->of[w->c->spots[s->parent].fn];
		if (s->parent != 0 && w->c->spots[s->parent].parent != 0 &&
		    w->inside[i] && is_layer(w, s->parent))
			w->v[caller - 1].works = true;
		if (s->parent == 0 || s->calls == 0 || s->total == 0 ||
		    caller == w->of[s->fn])
			continue;
		g = &w->v[w->of[s->fn] - 1];
		g->pool |= w->inside[i] && w->fns[s->fn].pool &&
		    (double)g->asks >= POOL_ASKS * (double)g->here;
		caller_add(&w->callees[s->fn], caller, s);
		if (!map_put(&w->edges, edge(caller, w->of[s->fn]), 1))
			return false;
	}
	for (uint32_t i = 0; i < w->c->names->nfns; i++) {
		if (w->of[i] == 0)
			continue;
		g = &w->v[w->of[i] - 1];
		g->called += w->callees[i].total;
		if (is_helping(w, &w->callees[i]))
			g->helped += w->callees[i].total;
	}
	for (g = w->v; g < w->v + w->n; g++)
		g->helper = !g->entry && !g->pool && !g->alone && g->helped > 0 &&
		    g->helped * 2 >= g->called &&
		    (double)g->waits < HELPER_WAITS * (double)g->plain;
	return true;
}

/* Is a function of the same group around it?  Then it is not the way in. */
static bool
is_within(const struct work *w, uint32_t spot)
{
	uint32_t group = w->owner[spot];

	for (uint32_t i = w->c->spots[spot].parent; i != 0;
	     i = w->c->spots[i].parent)
		if (w->owner[i] == group)
			return true;
	return false;
}

/* ---- whose time is it ---- */

static bool
member_add(struct group *g, uint32_t fn, const struct suggest_spot *s,
    bool local)
{
	for (size_t i = 0; i < g->nmembers; i++)
		if (g->members[i].fn == fn) {
			g->members[i].calls += s->calls;
			g->members[i].total += s->total;
			g->members[i].local &= local;
			return true;
		}
	if (g->nmembers == GROUP_FNS_MAX)
		return true;
	if (vec_room_by_len(&g->members, g->nmembers, GROUP_FNS_MAX) != KP_OK)
		return false;
	g->members[g->nmembers++] = (struct member){ fn, s->calls, s->total,
		local };
	return true;
}

static bool
owners_find(struct work *w)
{
	const struct suggest_spot *s;
	struct group *g;
	uint32_t up;

	for (uint32_t i = 1; i < w->c->nspots; i++) {
		s = &w->c->spots[i];
		up = s->parent == 0 ? 0 : w->owner[s->parent];
		g = &w->v[w->of[s->fn] - 1];
		w->owner[i] = g->helper ? up : w->of[s->fn];
		if (w->owner[i] == 0)
			continue;
		g = &w->v[w->owner[i] - 1];
		if (w->inside[i])
			g->in += own_time(s);
		else
			g->out += own_time(s) - s->wait[SUGGEST_WAIT_INPUT];
		if (w->owner[i] == up || s->calls == 0 || s->total == 0 ||
		    suggest_anonymous(w->c->names, s->fn) || is_within(w, i))
			continue;
		if (!member_add(g, s->fn, s, s->parent == 0 &&
		    !w->fns[s->fn].exported))
			return false;
	}
	return true;
}

static void
totals(struct work *w)
{
	const struct suggest_spot *s;

	for (uint32_t i = 1; i < w->c->nspots; i++) {
		s = &w->c->spots[i];
		w->inside[i] = s->parent == 0 ? s->fn == w->entry :
		    w->inside[s->parent];
		if (s->parent != 0)
			continue;
		if (w->inside[i]) {
			w->out->total += s->total;
			w->out->requests += s->calls;
		} else {
			w->out->elsewhere += s->total;
		}
	}
}

/* ---- which are tiers ---- */

static int
by_time(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	kp_dur_ns tx = x->helper ? x->plain : x->in + x->out / LATER;
	kp_dur_ns ty = y->helper ? y->plain : y->in + y->out / LATER;

	if (x->entry != y->entry)
		return x->entry ? -1 : 1;
	return tx < ty ? 1 : tx > ty ? -1 : x->fn < y->fn ? -1 : 1;
}

static int
by_total(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return x->total < y->total ? 1 : x->total > y->total ? -1 :
	    x->fn < y->fn ? -1 : 1;
}

static void
leave_out(struct work *w, uint32_t fn, enum suggest_why why, uint64_t calls,
    kp_dur_ns own)
{
	struct suggest_tiers *o = w->out;

	if (o->nleft < SUGGEST_LEFT_MAX)
		o->left[o->nleft++] = (struct suggest_left){ fn, why, calls,
			own };
}

static bool
is_worth_it(const struct work *w, const struct group *g)
{
	double in = (double)w->out->total, least;
	uint64_t calls = 0;
	bool chosen = false;

	for (size_t i = 0; i < g->nmembers; i++) {
		calls += g->members[i].calls;
		chosen |= w->fns[g->members[i].fn].chosen;
	}
	/* What is near the least neither comes nor goes by chance. */
	least = w->part * (chosen ? KEPT : w->drafted ? SURER : 1);
	return (g->alone && g->in > 0) || (double)g->in >= least * SHARE * in ||
	    ((g->works || g->pool) && g->nmembers > 0 && calls <=
	    MANY_CALLS * w->out->requests && calls * 2 >= w->out->requests) ||
	    (double)g->out >= least * SHARE_ELSEWHERE * in ||
	    ((double)g->in >= SHARE_SHORT * in && calls > 0 &&
	    g->in / (kp_dur_ns)calls >= CALL_SHORT);
}

/* Tracing a call takes as long as it does. */
static bool
is_short(const struct member *m)
{
	return m->total / (kp_dur_ns)m->calls < CALL_TRACED;
}

/* Many short calls. */
static bool
is_chatty(const struct work *w, const struct suggest_tier *t)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < t->nfns; i++)
		calls += t->calls[i];
	return calls > MANY_CALLS * w->out->requests &&
	    (t->own - t->elsewhere) / (kp_dur_ns)calls < MANY_LEAST;
}

/* kprofd -check warns of a function that calls itself. */
static bool
is_nameable(const struct work *w, uint32_t fn)
{
	return !w->fns[fn].loop && !w->fns[fn].recursive &&
	    !w->fns[fn].unnamed && !w->c->recursive[fn];
}

static void
tier_fill(struct work *w, struct group *g, struct suggest_tier *t)
{
	double in = (double)w->out->total;
	const struct member *m;

	for (size_t i = 0; i < g->nmembers; i++) {
		m = &g->members[i];
		/* Behind its module's way in, or too little. */
		if (!is_nameable(w, m->fn) || (m->local && g->in > 0) ||
		    (m->local && (double)m->total < SHARE_ELSEWHERE * in) ||
		    (double)m->total < SHARE_MEMBER * (double)g->members[0].total ||
		    (is_short(m) && !g->alone))
			continue;
		if ((double)m->calls > w->hot * (double)w->out->requests) {
			leave_out(w, m->fn, SUGGEST_HOT, m->calls, m->total);
		} else if (t->nfns < SUGGEST_TIER_FNS_MAX) {
			t->calls[t->nfns] = m->calls;
			t->fns[t->nfns++] = m->fn;
		} else {
			t->more++;
		}
	}
}

static void
tier_add(struct work *w, struct group *g)
{
	struct suggest_tiers *o = w->out;
	struct suggest_tier t = { .by_app = g->by_app, .entry = g->entry,
		.pool = g->pool && !g->entry && !g->alone, .waits = g->alone,
		.own = g->in + g->out, .elsewhere = g->out };
	uint64_t calls = g->nmembers > 0 ? g->members[0].calls : 0;

	if (g->nmembers > 0)
		qsort(g->members, g->nmembers, sizeof(*g->members), by_total);
	if (g->helper) {
		if ((double)g->plain >= SHARE * (double)o->total)
			leave_out(w, g->fn, SUGGEST_HELPER, calls, g->plain);
		return;
	}
	if (g->entry) {
		t.fns[0] = w->entry;
		t.calls[0] = o->requests;
		t.nfns = 1;
	} else if (!is_worth_it(w, g)) {
		if (g->nmembers > 0)
			leave_out(w, g->members[0].fn, SUGGEST_SHORT, calls,
			    t.own);
		return;
	} else {
		tier_fill(w, g, &t);
	}
	if (!g->entry && !g->alone && g->nmembers > 0 && (t.nfns == 0 ?
	    is_short(&g->members[0]) : is_chatty(w, &t))) {
		leave_out(w, g->members[0].fn, SUGGEST_QUICK, calls, t.own);
		return;
	}
	if (t.nfns > 0 && o->n == SUGGEST_TIERS_MAX)
		leave_out(w, t.fns[0], SUGGEST_ENOUGH, calls, t.own);
	else if (t.nfns > 0)
		o->v[o->n++] = t;
}

/*
 * Where one tier has nearly all of the time, as that of a few slow requests, the others
 * still tell most requests apart.
 */
static void
tiers_choose(struct work *w)
{
	struct suggest_tiers *o = w->out;

	if (w->n > 0)
		qsort(w->v, w->n, sizeof(*w->v), by_time);
	w->part = 1;
	for (uint32_t i = 0; i < w->n; i++)
		tier_add(w, &w->v[i]);
	if (o->n > FEW)
		return;
	o->n = o->nleft = 0;
	for (uint32_t i = 0; i < w->n; i++) {
		w->part = o->n > FEW ? 1 : FEW_PART;
		tier_add(w, &w->v[i]);
	}
}

static void
work_free(struct work *w)
{
	groups_free(w);
	free(w->of);
	free(w->big);
	free(w->callees);
	map_free(&w->edges);
	free(w->owner);
	free(w->inside);
}

enum kp_err
suggest_tiers(const struct suggest_calls *c, const struct suggest_fn *fns,
    uint32_t entry, double hot, struct suggest_tiers *out)
{
	struct work w = { .c = c, .fns = fns, .out = out, .entry = entry,
		.hot = hot, .drafted = fns[entry].chosen };
	bool good;

	*out = (struct suggest_tiers){ 0 };
	w.of = calloc(c->names->nfns + 1, sizeof(*w.of));
	w.callees = calloc(c->names->nfns + 1, sizeof(*w.callees));
	w.owner = calloc(c->nspots + 1, sizeof(*w.owner));
	w.inside = calloc(c->nspots + 1, sizeof(*w.inside));
	good = w.of != NULL && w.callees != NULL && w.owner != NULL &&
	    w.inside != NULL;
	if (good) {
		totals(&w);
		good = groups_make(&w);
	}
	if (good) {
		plain_find(&w);
		good = big_find(&w) && groups_make(&w);
	}
	if (good) {
		plain_find(&w);
		good = helpers_find(&w) && owners_find(&w);
	}
	if (good)
		tiers_choose(&w);
	work_free(&w);
	return good ? KP_OK : KP_ENOMEM;
}
