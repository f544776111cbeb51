/* stacks.c - adds up samples by stack, continues cut ones, and merges them. */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "suggest/spots.h"
#include "suggest/stacks.h"

#define CONTINUED_MAX 16u	/* frames around a cut stack */
#define EDGES_MAX (1u << 18)
#define IDLE 1000		/* a process that waits for work counts so much less */

struct suggest_stack {
	uint32_t *fns;		/* owned */
	uint32_t n;
	bool cut;
	uint64_t samples;
	kp_dur_ns time[SUGGEST_WAITS + 1];
	kp_dur_ns pooled;	/* of that, in workers of pools */
};

void
suggest_stacks_free(struct suggest_stacks *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		free(s->v[i].fns);
	free(s->v);
	map_free(&s->by_key);
}

static enum kp_err
stack_new(struct suggest_stacks *s, uint32_t id, const uint32_t *fns,
    uint32_t n, bool cut)
{
	enum kp_err e = vec_room_by_len(&s->v, s->n, SUGGEST_STACKS_MAX);
	uint32_t *own;

	if (e != KP_OK)
		return e;
	own = calloc(n + 1, sizeof(*own));
	if (own == NULL || !map_put(&s->by_key, (uint64_t)id + 1, s->n)) {
		free(own);
		return KP_ENOMEM;
	}
	if (n > 0)
		memcpy(own, fns, n * sizeof(*own));
	s->v[s->n++] = (struct suggest_stack){ .fns = own, .n = n, .cut = cut };
	return KP_OK;
}

enum kp_err
suggest_stacks_add(struct suggest_stacks *s, uint32_t id, const uint32_t *fns,
    uint32_t n, bool cut, unsigned doing, kp_dur_ns time)
{
	uint64_t *at = map_get(&s->by_key, (uint64_t)id + 1);
	enum kp_err e;

	s->samples++;
	s->working += doing == SUGGEST_WORKS || doing == SUGGEST_WAIT_CALL;
	if (at == NULL) {
		e = stack_new(s, id, fns, n < SUGGEST_FRAMES_MAX ? n :
		    SUGGEST_FRAMES_MAX, cut);
		if (e == KP_ELIMIT) {
			s->overflow++;
			return KP_OK;
		}
		if (e != KP_OK)
			return e;
		at = map_get(&s->by_key, (uint64_t)id + 1);
	}
	s->v[*at].samples++;
	s->v[*at].time[doing] = sat_add(s->v[*at].time[doing], time);
	return KP_OK;
}

void
suggest_stacks_pooled(struct suggest_stacks *s, uint32_t id, kp_dur_ns time)
{
	const uint64_t *at = map_get(&s->by_key, (uint64_t)id + 1);

	if (at != NULL)
		s->v[*at].pooled = sat_add(s->v[*at].pooled, time);
}

/* ---- functions ---- */

static kp_dur_ns
stack_time(const struct suggest_stack *k)
{
	kp_dur_ns t = 0;

	for (unsigned i = 0; i <= SUGGEST_WAITS; i++)
		t = sat_add(t, k->time[i]);
	return t;
}

/* Is it the first of its function in the stack? */
static bool
is_first(const struct suggest_stack *k, uint32_t i)
{
	for (uint32_t j = 0; j < i; j++)
		if (k->fns[j] == k->fns[i])
			return false;
	return true;
}

/* Time of a stack, of which waiting for work counts little. */
static kp_dur_ns
stack_active(const struct suggest_stack *k)
{
	kp_dur_ns t = k->time[SUGGEST_WORKS] + k->time[SUGGEST_WAIT_CALL] +
	    k->time[SUGGEST_WAIT_PORT];

	return t + (stack_time(k) - t) / IDLE;
}

/* Time on stacks, by function; the caller frees it. */
static kp_dur_ns *
fn_times(const struct suggest_stacks *s, bool active)
{
	kp_dur_ns *time = calloc(s->names->nfns + 1, sizeof(*time));

	for (uint32_t i = 0; time != NULL && i < s->n; i++)
		for (uint32_t j = 0; j < s->v[i].n; j++)
			if (is_first(&s->v[i], j))
				time[s->v[i].fns[j]] += active ?
				    stack_active(&s->v[i]) :
				    stack_time(&s->v[i]);
	return time;
}

static int
by_time(const void *a, const void *b, void *times)
{
	const kp_dur_ns *t = times;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return t[x] < t[y] ? 1 : t[x] > t[y] ? -1 : x < y ? -1 : 1;
}

uint32_t
suggest_stacks_fns(const struct suggest_stacks *s, uint32_t *fns, uint32_t max)
{
	kp_dur_ns *time = fn_times(s, true);
	uint32_t *all = calloc(s->names->nfns + 1, sizeof(*all)), n = 0;

	for (uint32_t i = KP_FN_FIRST; time != NULL && all != NULL &&
	     i < s->names->nfns; i++)
		if (time[i] > 0)
			all[n++] = i;
	if (n > 0)
		qsort_r(all, n, sizeof(*all), by_time, time);
	n = n < max ? n : max;
	for (uint32_t i = 0; i < n; i++)
		fns[i] = all[i];
	free(all);
	free(time);
	return n;
}

/* ---- who calls whom ---- */

/* The caller of each function that was seen most; fn 0: none. */
struct callers {
	struct map edges;	/* (callee, caller) -> time */
	uint32_t *best;
	uint64_t *weight;
};

static bool
callers_find(const struct suggest_stacks *s, struct callers *c)
{
	const struct suggest_stack *k;
	uint64_t key, *at, sum;

	c->best = calloc(s->names->nfns + 1, sizeof(*c->best));
	c->weight = calloc(s->names->nfns + 1, sizeof(*c->weight));
	if (c->best == NULL || c->weight == NULL)
		return false;
	for (k = s->v; k < s->v + s->n; k++)
		for (uint32_t j = 1; j < k->n && c->edges.len < EDGES_MAX; j++) {
			if (k->fns[j] == k->fns[j - 1])
				continue;
			key = ((uint64_t)k->fns[j] << 32 | k->fns[j - 1]) + 1;
			at = map_get(&c->edges, key);
			sum = (at != NULL ? *at : 0) + (uint64_t)stack_time(k);
			if (!map_put(&c->edges, key, sum))
				return false;
			if (sum < c->weight[k->fns[j]])
				continue;
			c->weight[k->fns[j]] = sum;
			c->best[k->fns[j]] = k->fns[j - 1];
		}
	return true;
}

static void
callers_free(struct callers *c)
{
	map_free(&c->edges);
	free(c->best);
	free(c->weight);
}

/* ---- the tree ---- */

struct growing {
	struct suggest_calls *c;
	struct suggest_fn *fns;
	struct map children;	/* (spot, function) -> spot */
	struct callers callers;
};

/* Frames around a cut stack, outermost first; returns how many. */
static uint32_t
continued(const struct growing *g, uint32_t fn, uint32_t *frames)
{
	uint32_t v[CONTINUED_MAX], n = 0, i;

	while (n < CONTINUED_MAX && !suggest_is_around(g->c, g->fns, fn)) {
		fn = g->callers.best[fn];
		for (i = 0; i < n && v[i] != fn; i++)
			;
		if (fn < KP_FN_FIRST || i < n)
			break;
		v[n++] = fn;
	}
	for (i = 0; i < n; i++)
		frames[i] = v[n - 1 - i];
	return n;
}

static bool
grow(struct growing *g, const struct suggest_stack *k)
{
	uint32_t frames[CONTINUED_MAX + SUGGEST_FRAMES_MAX], n = 0, at = 0;
	uint32_t top = 0;
	struct suggest_spot *s;

	if (k->n == 0)
		return true;
	if (k->cut)
		n = continued(g, k->fns[0], frames);
	for (uint32_t i = 0; i < k->n; i++)
		frames[n++] = k->fns[i];
	for (uint32_t i = 0; i < n && at != SUGGEST_SPOT_NONE; i++)
		if (at != 0 ? !g->fns[frames[i]].platform :
		    !suggest_is_around(g->c, g->fns, frames[i])) {
			at = suggest_spot_child(g->c, &g->children, at,
			    frames[i]);
			if (top != 0 || at == SUGGEST_SPOT_NONE)
				continue;
			top = at;
			g->c->spots[top].samples += k->samples;
			g->c->spots[top].pooled = sat_add(
			    g->c->spots[top].pooled, k->pooled);
			g->c->spots[top].whole = sat_add(
			    g->c->spots[top].whole,
			    i > 0 ? stack_time(k) : 0);
		}
	if (at == SUGGEST_SPOT_NONE || at == 0)
		return at == 0;
	s = &g->c->spots[at];
	s->own = sat_add(s->own, k->time[SUGGEST_WORKS]);
	for (unsigned i = 0; i < SUGGEST_WAITS; i++)
		s->wait[i] = sat_add(s->wait[i], k->time[i]);
	return true;
}

/* Who is on a stack but hardly ever called does not return. */
static bool
loops_find(const struct suggest_stacks *s, const double *rates, kp_dur_ns span,
    struct suggest_fn *fns)
{
	kp_dur_ns *time = fn_times(s, false);
	double calls;

	for (uint32_t i = KP_FN_FIRST; time != NULL && i < s->names->nfns; i++) {
		if (rates[i] < 0 || time[i] == 0)
			continue;
		calls = rates[i] * (double)span / KP_NS_PER_S;
		calls = calls < 1 ? 1 : calls;
		fns[i].loop |= (double)time[i] > calls * SUGGEST_LOOP;
	}
	free(time);
	return time != NULL;
}

/* As of calls.c: only its own module is between it and itself. */
static void
recursive_find(const struct suggest_stacks *s, const struct suggest_stack *k,
    bool *recursive)
{
	for (uint32_t i = 1; i < k->n; i++)
		for (uint32_t j = i; j-- > 0 && k->fns[j] >= KP_FN_FIRST &&
		     suggest_same_module(s->names, k->fns[j], k->fns[i]);)
			if (k->fns[j] == k->fns[i])
				recursive[k->fns[i]] = true;
}

/* Calls of a function are divided among its spots by time. */
static bool
calls_spread(struct suggest_calls *c, const double *rates)
{
	double *all = calloc(c->names->nfns + 1, sizeof(*all)), part;
	struct suggest_spot *s;

	suggest_spots_total(c);
	for (uint32_t i = c->nspots; all != NULL && i-- > 1;)
		all[c->spots[i].fn] += (double)c->spots[i].total;
	for (uint32_t i = 1; all != NULL && i < c->nspots; i++) {
		s = &c->spots[i];
		part = all[s->fn] > 0 ? (double)s->total / all[s->fn] : 0;
		s->calls = rates[s->fn] < 0 ? 1 : (uint64_t)(part *
		    rates[s->fn] * (double)c->span / KP_NS_PER_S + 0.5);
	}
	free(all);
	return all != NULL;
}

enum kp_err
suggest_stacks_tree(const struct suggest_stacks *s, const double *rates,
    kp_dur_ns span, struct suggest_fn *fns, struct suggest_calls *c)
{
	struct growing g = { .c = c, .fns = fns };
	bool good = loops_find(s, rates, span, fns) &&
	    callers_find(s, &g.callers) && suggest_spots_begin(c);

	c->span = span;
	c->events = s->samples;
	c->loops = calloc(s->names->nfns + 1, sizeof(*c->loops));
	c->recursive = calloc(s->names->nfns + 1, sizeof(*c->recursive));
	good = good && c->loops != NULL && c->recursive != NULL;
	for (uint32_t i = 0; good && i < s->n; i++) {
		good = grow(&g, &s->v[i]);
		if (good)
			recursive_find(s, &s->v[i], c->recursive);
	}
	good = good && calls_spread(c, rates);
	for (uint32_t i = 0; good && i < s->names->nfns; i++)
		c->loops[i] = fns[i].loop;
	map_free(&g.children);
	callers_free(&g.callers);
	return good ? KP_OK : KP_ENOMEM;
}
