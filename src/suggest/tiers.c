/*
 * tiers.c - groups functions into tiers, by where requests spend their time.
 *
 * A module's own time is that of its functions, and of OTP's that they call, until
 * they call another module.  The time of a helper belongs to its callers.  A helper is
 * called by modules of which one calls the other, so it is a layer of neither; and it
 * does not itself wait for others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "suggest/propose.h"

#define HELPER_CALLERS 8	/* modules that call a helper: more are not looked at */
#define HELPER_SURE 3		/* with fewer its calls are short, too: */
#define HELPER_SHORT (50 * KP_NS_PER_US)
#define HELPER_WAITS 0.2	/* share of its time; a module that waits more is not a helper */
#define POOL_ASKS 0.2		/* share of the way to a pool that waits for its workers */
#define SHARE 0.01		/* of the requests' time, from which it is a tier */
#define SHARE_ELSEWHERE 0.03	/* the same, in other processes */
#define SHARE_WHOLE 0.1		/* the same, with its callees */
#define CLEAR 2			/* times a limit, or that part of it: beyond any doubt */
#define FEW 4			/* tiers beside the entry's; while there are fewer, */
#define FEW_PART 0.1		/* this part of these shares is enough */
#define LATER 4			/* time in other processes counts a quarter */
#define SHARE_BIG 0.1		/* from which a module is no part of a whole, nor chatty */
#define SHARE_FN 0.01	/* of the time of a tier's first function */
#define SHARE_SHORT 0.001	/* and a call takes this long: */
#define CALL_SHORT (5 * KP_NS_PER_US)
#define MANY_CALLS 3		/* a request: */
#define MANY_LEAST (20 * KP_NS_PER_US)	/* they are longer than this */
#define CALL_TRACED (2 * KP_NS_PER_US)	/* kprofd takes half as long for it */
#define CANDIDATE_FNS_MAX 256u	/* more are added up in none */

struct function {
	uint32_t fn;
	uint64_t calls;
	kp_dur_ns total;
	bool local;		/* not exported, and called by a server's loop */
};

/* A function as others call it. */
struct callee {
	uint32_t callers[HELPER_CALLERS], ncallers;	/* candidates */
	kp_dur_ns total;
	uint64_t calls;
};

/* A module, an application that is not the entry's, or one function. */
struct candidate {
	bool by_app, entry, helper;
	bool alone;		/* the function: others wait in it for a worker */
	bool pool;		/* requests reach a pool of processes by it */
	bool works;		/* the entry's module calls it, and it calls others */
	bool known;		/* an example has its module, or is inside it */
	bool below;		/* a module that is not known calls it */
	kp_dur_ns whole;	/* with callees, in the request's process */
	uint32_t fn;		/* one of its functions */
	kp_dur_ns called, helped;	/* in calls by others; of helping functions */
	kp_dur_ns plain, waits;	/* its own, and how much of that waits */
	kp_dur_ns here, asks;	/* in the request's process; waits for answers */
	kp_dur_ns in, out;	/* with the helpers': in the request's process */
	struct function *fns;
	size_t nfns;
};

struct tier_search {
	const struct suggest_tree *c;
	const struct suggest_fn *fns;
	struct suggest_tiers *out;
	uint32_t entry;
	struct suggest_wanted wanted;
	struct intern names;	/* of candidates */
	struct candidate *v;
	uint32_t n;
	uint32_t *candidate;	/* by function: its number + 1; 0: none */
	bool *big;		/* by function: its module is a tier of its own */
	struct callee *callees;	/* by function */
	struct map edges;	/* (caller, callee), candidates */
	uint32_t *owner;	/* by frame: candidate + 1 */
	bool *inside;		/* by frame: below the entry */
};

/* ---- candidates ---- */

static uint32_t
candidate_of(struct tier_search *ts, const char *name, uint32_t fn, bool by_app)
{
	const struct interned *at;
	bool alone = ts->fns[fn].waits && fn != ts->entry;
	char key[2 * KP_CALLS_NAME_MAX + 3];
	int len = snprintf(key, sizeof(key), "%c%s%s%s", alone ? 'f' : by_app ?
	    'a' : 'm', alone ? ts->c->names->fns[fn].mod : name, alone ? ":" : "",
	    alone ? ts->c->names->fns[fn].fun : "");

	len = len < (int)sizeof(key) ? len : (int)sizeof(key) - 1;
	at = intern_get(&ts->names, key, (size_t)len);
	if (at != NULL)
		return at->val;
	if (vec_room_by_len(&ts->v, ts->n, SUGGEST_TREE_MAX) != KP_OK ||
	    intern_put(&ts->names, key, (size_t)len, ts->n + 1) == NULL)
		return 0;
	ts->v[ts->n] = (struct candidate){ .by_app = by_app && !alone, .fn = fn,
		.alone = alone, .known = ts->fns[fn].known };
	return ++ts->n;
}

/*
 * Modules; or, once it is known which are big, what is small of another application
 * as one.
 */
static bool
candidates_make(struct tier_search *ts)
{
	const struct kp_call_names *t = ts->c->names;
	const char *home = ts->fns[ts->entry].app, *app;
	bool by_app;

	for (uint32_t i = 1; i < ts->c->nframes; i++) {
		uint32_t fn = ts->c->frames[i].fn;

		if (ts->candidate[fn] != 0)
			continue;
		app = ts->fns[fn].app;
		by_app = ts->big != NULL && !ts->big[fn] && app[0] != '\0' &&
		    !ts->fns[fn].users && strcmp(app, home) != 0;
		ts->candidate[fn] = candidate_of(ts, by_app ? app : t->fns[fn].mod, fn,
		    by_app);
		if (ts->candidate[fn] == 0)
			return false;
	}
	if (ts->candidate[ts->entry] != 0)
		ts->v[ts->candidate[ts->entry] - 1].entry = true;
	return true;
}

static void
candidates_free(struct tier_search *ts)
{
	for (uint32_t i = 0; i < ts->n; i++)
		free(ts->v[i].fns);
	free(ts->v);
	ts->v = NULL;
	ts->n = 0;
	intern_free(&ts->names);
	ts->names = (struct intern){ 0 };
}

/* Then candidates are made again. */
static bool
big_find(struct tier_search *ts)
{
	double least = SHARE_BIG * (double)ts->out->total;
	uint32_t n = ts->c->names->nfns;

	ts->big = calloc(n + 1, sizeof(*ts->big));
	for (uint32_t i = 0; ts->big != NULL && i < n; i++) {
		ts->big[i] = ts->candidate[i] != 0 &&
		    (double)ts->v[ts->candidate[i] - 1].plain >= least;
		ts->candidate[i] = 0;
	}
	candidates_free(ts);
	return ts->big != NULL;
}

static void
caller_add(struct callee *f, uint32_t caller, const struct suggest_frame *s)
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
own_time(const struct suggest_frame *s)
{
	kp_dur_ns t = s->own;

	for (unsigned k = 0; k < SUGGEST_WAITS; k++)
		t += s->wait[k];
	return t;
}

/* Each candidate's own time. */
static void
plain_find(struct tier_search *ts)
{
	const struct suggest_frame *s;
	struct candidate *g;

	for (uint32_t i = 1; i < ts->c->nframes; i++) {
		s = &ts->c->frames[i];
		g = &ts->v[ts->candidate[s->fn] - 1];
		g->plain += own_time(s);
		g->waits += s->wait[SUGGEST_WAIT_CALL] +
		    s->wait[SUGGEST_WAIT_PORT] + s->wait[SUGGEST_WAIT_INPUT];
		g->here += ts->inside[i] ? own_time(s) : 0;
		g->asks += ts->inside[i] ? s->wait[SUGGEST_WAIT_CALL] : 0;
	}
}

static uint64_t
edge(uint32_t caller, uint32_t callee)
{
	return (uint64_t)caller << 32 | callee;
}

/* Is it called by two modules of which one calls the other? */
static bool
is_helping(const struct tier_search *ts, const struct callee *f)
{
	bool found = false;

	for (uint32_t i = 0; i < f->ncallers; i++)
		for (uint32_t k = 0; k < f->ncallers; k++)
			found |= i != k && map_get(&ts->edges,
			    edge(f->callers[i], f->callers[k])) != NULL;
	return found && (f->ncallers >= HELPER_SURE ||
	    f->total / (kp_dur_ns)f->calls < HELPER_SHORT);
}

/* Does the entry's module call it directly? */
static bool
is_layer(const struct tier_search *ts, uint32_t frame)
{
	const struct suggest_frame *s = &ts->c->frames[frame];

	return ts->candidate[s->fn] != ts->candidate[ts->entry] &&
	    ts->candidate[ts->c->frames[s->parent].fn] == ts->candidate[ts->entry];
}

/* False: out of memory. */
static bool
helpers_find(struct tier_search *ts)
{
	const struct suggest_frame *s;
	uint32_t caller;
	struct candidate *g;

	for (uint32_t i = 1; i < ts->c->nframes; i++) {
		s = &ts->c->frames[i];
		caller = ts->candidate[ts->c->frames[s->parent].fn];
		if (s->parent != 0 && ts->c->frames[s->parent].parent != 0 &&
		    ts->inside[i] && is_layer(ts, s->parent))
			ts->v[caller - 1].works = true;
		if (s->parent == 0 || s->calls == 0 || s->total == 0 ||
		    caller == ts->candidate[s->fn])
			continue;
		g = &ts->v[ts->candidate[s->fn] - 1];
		g->pool |= ts->inside[i] && ts->fns[s->fn].pool &&
		    (double)g->asks >= POOL_ASKS * (double)g->here;
		caller_add(&ts->callees[s->fn], caller, s);
		if (!map_put(&ts->edges, edge(caller, ts->candidate[s->fn]), 1))
			return false;
	}
	for (uint32_t i = 0; i < ts->c->names->nfns; i++) {
		if (ts->candidate[i] == 0)
			continue;
		g = &ts->v[ts->candidate[i] - 1];
		g->called += ts->callees[i].total;
		if (is_helping(ts, &ts->callees[i]))
			g->helped += ts->callees[i].total;
	}
	for (g = ts->v; g < ts->v + ts->n; g++)
		g->helper = !g->entry && !g->pool && !g->alone && g->helped > 0 &&
		    g->helped * 2 >= g->called &&
		    (double)g->waits < HELPER_WAITS * (double)g->plain;
	return true;
}

/* Is a function of the same candidate around it?  Then it is not the way in. */
static bool
is_within(const struct tier_search *ts, uint32_t frame)
{
	uint32_t mine = ts->owner[frame];

	for (uint32_t i = ts->c->frames[frame].parent; i != 0;
	     i = ts->c->frames[i].parent)
		if (ts->owner[i] == mine)
			return true;
	return false;
}

/* ---- whose time is it ---- */

static bool
function_add(struct candidate *g, uint32_t fn, const struct suggest_frame *s,
    bool local)
{
	for (size_t i = 0; i < g->nfns; i++)
		if (g->fns[i].fn == fn) {
			g->fns[i].calls += s->calls;
			g->fns[i].total += s->total;
			g->fns[i].local &= local;
			return true;
		}
	if (g->nfns == CANDIDATE_FNS_MAX)
		return true;
	if (vec_room_by_len(&g->fns, g->nfns, CANDIDATE_FNS_MAX) != KP_OK)
		return false;
	g->fns[g->nfns++] = (struct function){ fn, s->calls, s->total,
		local };
	return true;
}

static bool
owners_find(struct tier_search *ts)
{
	const struct suggest_frame *s;
	struct candidate *g;
	uint32_t up;

	for (uint32_t i = 1; i < ts->c->nframes; i++) {
		s = &ts->c->frames[i];
		up = s->parent == 0 ? 0 : ts->owner[s->parent];
		g = &ts->v[ts->candidate[s->fn] - 1];
		ts->owner[i] = g->helper ? up : ts->candidate[s->fn];
		if (ts->owner[i] == 0)
			continue;
		g = &ts->v[ts->owner[i] - 1];
		if (ts->inside[i])
			g->in += own_time(s);
		else
			g->out += own_time(s) - s->wait[SUGGEST_WAIT_INPUT];
		if (ts->owner[i] == up || s->calls == 0 || s->total == 0 ||
		    suggest_anonymous(ts->c->names, s->fn) || is_within(ts, i))
			continue;
		g->whole += ts->inside[i] ? s->total : 0;
		g->below |= up != 0 && !ts->v[up - 1].known && !ts->v[up - 1].entry;
		if (!function_add(g, s->fn, s, s->parent == 0 &&
		    !ts->fns[s->fn].exported))
			return false;
	}
	return true;
}

static void
totals(struct tier_search *ts)
{
	const struct suggest_frame *s;

	for (uint32_t i = 1; i < ts->c->nframes; i++) {
		s = &ts->c->frames[i];
		ts->inside[i] = s->parent == 0 ? s->fn == ts->entry :
		    ts->inside[s->parent];
		if (s->parent != 0)
			continue;
		if (ts->inside[i]) {
			ts->out->total += s->total;
			ts->out->requests += s->calls;
		} else {
			ts->out->elsewhere += s->total;
		}
	}
}

/* ---- which are tiers ---- */

static int
by_time(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	kp_dur_ns tx = x->helper ? x->plain : x->in + x->out / LATER;
	kp_dur_ns ty = y->helper ? y->plain : y->in + y->out / LATER;

	if (x->entry != y->entry)
		return x->entry ? -1 : 1;
	return tx < ty ? 1 : tx > ty ? -1 : x->fn < y->fn ? -1 : 1;
}

static int
by_total(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->total < y->total ? 1 : x->total > y->total ? -1 :
	    x->fn < y->fn ? -1 : 1;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/*
 * The same load twice is to give the same tiers, so a limit is where values differ most:
 * in the widest gap that is near it.  Sorts v.
 */
static double
limit_near(double limit, double *v, size_t n)
{
	double most = CLEAR * CLEAR * limit, least = limit / CLEAR / CLEAR;
	double above = most, below, widest = 0, found = limit;

	if (n > 0)
		qsort(v, n, sizeof(*v), by_value);
	for (size_t i = 0; i <= n; i++) {
		below = i < n && v[i] > least ? v[i] : least;
		below = below < most ? below : most;
		if (above > limit / CLEAR && below < CLEAR * limit &&
		    above / below > widest) {
			widest = above / below;
			found = sqrt(above * below);
		}
		above = below;
	}
	return found;
}

static void
leave_out(struct tier_search *ts, uint32_t fn, enum suggest_reason reason, uint64_t calls,
    kp_dur_ns own)
{
	struct suggest_tiers *o = ts->out;

	if (o->nleft < SUGGEST_LEFT_MAX)
		o->left[o->nleft++] = (struct suggest_left){ fn, reason, calls,
			own };
}

/* Calls of all its functions. */
static uint64_t
calls_of(const struct candidate *g)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < g->nfns; i++)
		calls += g->fns[i].calls;
	return calls;
}

/* Is it the way to a pool or a layer below the entry, called once or a few times? */
static bool
is_surely(const struct tier_search *ts, const struct candidate *g)
{
	uint64_t calls = calls_of(g);

	return (g->alone && g->in > 0) || (!ts->wanted.own && (g->works || g->pool) &&
	    g->nfns > 0 && calls <= MANY_CALLS * ts->out->requests &&
	    calls * 2 >= ts->out->requests);
}

/* About 1 is the limit; few: more than that is wanted. */
static double
worth(const struct tier_search *ts, const struct candidate *g, bool few)
{
	double all = (double)ts->out->total + 1, in = (double)g->in / all / SHARE;
	double out = (double)g->out / all / SHARE_ELSEWHERE;
	uint64_t calls = calls_of(g);

	if (ts->wanted.own && !g->alone)
		return g->below ? (double)g->whole / all / SHARE_WHOLE : 0;
	if (!few && calls > 0 && g->in / (kp_dur_ns)calls >= CALL_SHORT)
		in *= SHARE / SHARE_SHORT;
	return in > out ? in : out;
}

/* The worth with which a candidate is a tier; < 0: out of memory. */
static double
least_worth(const struct tier_search *ts, bool few)
{
	double *v = calloc(ts->n + 1, sizeof(*v)), least;
	size_t n = 0;

	if (v == NULL)
		return -1;
	for (const struct candidate *g = ts->v; g < ts->v + ts->n; g++)
		if (!g->entry && !g->helper && !g->known)
			v[n++] = worth(ts, g, few);
	least = limit_near(few ? FEW_PART : 1, v, n);
	free(v);
	return least;
}

/* Many calls, of which tracing one takes as long as it does. */
static bool
is_short(const struct tier_search *ts, const struct function *m)
{
	return m->total / (kp_dur_ns)m->calls < CALL_TRACED &&
	    m->calls > MANY_CALLS * ts->out->requests;
}

/*
 * Many short calls: then only those of its functions that take long are in the tier, but
 * where it has much of the time.
 */
static bool
is_chatty(const struct tier_search *ts, const struct candidate *g)
{
	kp_dur_ns time = ts->wanted.own ? g->whole : g->in;
	uint64_t calls = calls_of(g);

	return !g->alone && calls > MANY_CALLS * ts->out->requests &&
	    (double)time < SHARE_BIG * (double)ts->out->total &&
	    time / (kp_dur_ns)calls < MANY_LEAST;
}

/* kprofd -check warns of a function that calls itself. */
static bool
is_nameable(const struct tier_search *ts, uint32_t fn)
{
	return !ts->fns[fn].loop && !ts->fns[fn].recursive &&
	    !ts->fns[fn].unnamed && !ts->c->recursive[fn];
}

/* The total of a candidate's function with which it is in the tier. */
static double
least_total(const struct candidate *g)
{
	double v[CANDIDATE_FNS_MAX];

	for (size_t i = 0; i < g->nfns; i++)
		v[i] = (double)g->fns[i].total;
	return limit_near(SHARE_FN * (double)g->fns[0].total, v, g->nfns);
}

static void
tier_fill(struct tier_search *ts, struct candidate *g, struct suggest_tier *t)
{
	double in = (double)ts->out->total, least = g->nfns > 0 ? least_total(g) : 0;
	bool chatty = is_chatty(ts, g);
	const struct function *m;

	for (size_t i = 0; i < g->nfns; i++) {
		m = &g->fns[i];
		/* Behind its module's way in, or too little. */
		if (!is_nameable(ts, m->fn) || (m->local && g->in > 0) ||
		    (m->local && (double)m->total < SHARE_ELSEWHERE * in) ||
		    (double)m->total < least || (is_short(ts, m) && !g->alone) ||
		    (chatty && m->total / (kp_dur_ns)m->calls < MANY_LEAST))
			continue;
		if ((double)m->calls > ts->wanted.hot * (double)ts->out->requests) {
			leave_out(ts, m->fn, SUGGEST_HOT, m->calls, m->total);
		} else if (t->nfns < SUGGEST_TIER_FNS_MAX) {
			t->calls[t->nfns] = m->calls;
			t->fns[t->nfns++] = m->fn;
		} else {
			t->more++;
		}
	}
}

static void
tier_add(struct tier_search *ts, struct candidate *g, bool few, double least)
{
	struct suggest_tiers *o = ts->out;
	struct suggest_tier t = { .by_app = g->by_app, .entry = g->entry,
		.pool = g->pool && !g->entry && !g->alone, .waits = g->alone,
		.own = g->in + g->out, .elsewhere = g->out, .whole = g->whole };
	uint64_t calls = g->nfns > 0 ? g->fns[0].calls : 0;

	if (g->nfns > 0)
		qsort(g->fns, g->nfns, sizeof(*g->fns), by_total);
	if (g->helper && (double)g->plain >= SHARE * (double)o->total)
		leave_out(ts, g->fn, SUGGEST_HELPER, calls, g->plain);
	if (g->helper || (!g->entry && (g->known ||
	    (ts->wanted.own && !g->below && !g->alone))))
		return;
	if (g->entry) {
		t.fns[0] = ts->entry;
		t.calls[0] = o->requests;
		t.nfns = 1;
	} else if (!is_surely(ts, g) && worth(ts, g, few) < least) {
		if (g->nfns > 0)
			leave_out(ts, g->fns[0].fn, SUGGEST_SHORT, calls,
			    t.own);
		return;
	} else {
		tier_fill(ts, g, &t);
	}
	if (!g->entry && !g->alone && g->nfns > 0 && t.nfns == 0 &&
	    (is_short(ts, &g->fns[0]) || is_chatty(ts, g))) {
		leave_out(ts, g->fns[0].fn, SUGGEST_QUICK, calls, t.own);
		return;
	}
	if (t.nfns > 0 && o->n == ts->wanted.most)
		leave_out(ts, t.fns[0], SUGGEST_ENOUGH, calls, t.own);
	else if (t.nfns > 0)
		o->v[o->n++] = t;
}

/* By names, which are the same each time, and times are not. */
static void
tier_sort(const struct tier_search *ts, struct suggest_tier *t)
{
	uint64_t calls;
	uint32_t fn;
	size_t at;

	for (size_t i = 1; i < t->nfns; i++) {
		fn = t->fns[i];
		calls = t->calls[i];
		for (at = i; at > 0 && kp_call_fn_order(ts->c->names, fn,
		     t->fns[at - 1]) < 0; at--) {
			t->fns[at] = t->fns[at - 1];
			t->calls[at] = t->calls[at - 1];
		}
		t->fns[at] = fn;
		t->calls[at] = calls;
	}
}

static void
tiers_sort(const struct tier_search *ts)
{
	struct suggest_tiers *o = ts->out;
	struct suggest_tier t;
	size_t at;

	for (size_t i = 0; i < o->n; i++) {
		tier_sort(ts, &o->v[i]);
		t = o->v[i];
		for (at = i; at > 0 && !o->v[at - 1].entry && kp_call_fn_order(
		     ts->c->names, t.fns[0], o->v[at - 1].fns[0]) < 0; at--)
			o->v[at] = o->v[at - 1];
		o->v[at] = t;
	}
}

/*
 * Where one tier has nearly all of the time, as that of a few slow requests, the others
 * still tell most requests apart.  False: out of memory.
 */
static bool
tiers_choose(struct tier_search *ts)
{
	struct suggest_tiers *o = ts->out;
	double least, few;

	if (ts->n > 0)
		qsort(ts->v, ts->n, sizeof(*ts->v), by_time);
	least = least_worth(ts, false);
	few = ts->wanted.own ? least : least_worth(ts, true);
	if (least < 0 || few < 0)
		return false;
	for (uint32_t i = 0; i < ts->n; i++)
		tier_add(ts, &ts->v[i], false, least);
	if (o->n <= FEW && !ts->wanted.own) {
		o->n = o->nleft = 0;
		for (uint32_t i = 0; i < ts->n; i++)
			tier_add(ts, &ts->v[i], o->n <= FEW, o->n <= FEW ? few : least);
	}
	tiers_sort(ts);
	return true;
}

enum kp_err
suggest_tiers(const struct suggest_tree *c, const struct suggest_fn *fns,
    uint32_t entry, struct suggest_wanted wanted, struct suggest_tiers *out)
{
	struct tier_search ts = { .c = c, .fns = fns, .out = out, .entry = entry,
		.wanted = wanted };
	bool good;

	*out = (struct suggest_tiers){ 0 };
	ts.candidate = calloc(c->names->nfns + 1, sizeof(*ts.candidate));
	ts.callees = calloc(c->names->nfns + 1, sizeof(*ts.callees));
	ts.owner = calloc(c->nframes + 1, sizeof(*ts.owner));
	ts.inside = calloc(c->nframes + 1, sizeof(*ts.inside));
	good = ts.candidate != NULL && ts.callees != NULL && ts.owner != NULL &&
	    ts.inside != NULL;
	if (good) {
		totals(&ts);
		good = candidates_make(&ts);
	}
	if (good) {
		plain_find(&ts);
		good = big_find(&ts) && candidates_make(&ts);
	}
	if (good) {
		plain_find(&ts);
		good = helpers_find(&ts) && owners_find(&ts);
	}
	good = good && tiers_choose(&ts);
	candidates_free(&ts);
	free(ts.candidate);
	free(ts.big);
	free(ts.callees);
	map_free(&ts.edges);
	free(ts.owner);
	free(ts.inside);
	return good ? KP_OK : KP_ENOMEM;
}

/* ---- ways into modules ---- */

static bool
is_helper(const struct suggest_tiers *t, const struct kp_call_names *names, uint32_t fn)
{
	for (size_t i = 0; i < t->nleft; i++)
		if (t->left[i].reason == SUGGEST_HELPER && suggest_same_module(
		    names, t->left[i].fn, fn))
			return true;
	return false;
}

/* Of one function: how it is called from other modules. */
struct way_in {
	kp_dur_ns time;		/* 0: it is not to be traced */
	uint64_t calls;		/* all of its */
};

static void
ways_add(struct way_in *ways, const struct suggest_tiers *t, const struct suggest_tree *c,
    const struct suggest_fn *fns)
{
	const struct kp_call_names *names = c->names;
	const struct suggest_frame *f;

	for (f = c->frames + 1; f < c->frames + c->nframes; f++) {
		ways[f->fn].calls += f->calls;
		if (f->calls > 0 && (f->parent == 0 || fns[f->fn].waits ||
		    !suggest_same_module(names, f->fn, c->frames[f->parent].fn)))
			ways[f->fn].time += f->total + 1;
	}
	for (uint32_t i = 0; i < names->nfns; i++)
		if (ways[i].calls > SUGGEST_MEASURED_CALLS * t->requests ||
		    suggest_anonymous(names, i) || c->recursive[i] ||
		    fns[i].recursive || fns[i].unnamed || fns[i].loop ||
		    is_helper(t, names, i))
			ways[i].time = 0;
}

enum kp_err
suggest_ways_in(const struct suggest_tiers *t, const struct suggest_tree *c,
    const struct suggest_fn *fns, double calls, uint32_t *v, size_t max, size_t *n)
{
	struct way_in *ways = calloc(c->names->nfns + 1, sizeof(*ways));
	double left = calls * (double)t->requests;
	uint32_t best;

	*n = 0;
	if (ways == NULL)
		return KP_ENOMEM;
	ways_add(ways, t, c, fns);
	while (*n < max) {
		best = 0;
		for (uint32_t i = KP_FN_FIRST; i < c->names->nfns; i++)
			best = ways[i].time > ways[best].time ? i : best;
		if (best == 0)
			break;
		ways[best].time = 0;
		if ((double)ways[best].calls > left)
			continue;
		left -= (double)ways[best].calls;
		v[(*n)++] = best;
	}
	free(ways);
	return KP_OK;
}
