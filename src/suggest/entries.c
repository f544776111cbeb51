/* entries.c - ranks functions that may begin requests. */
#include <stdlib.h>
#include <string.h>

#include "suggest/propose.h"

/*
 * Waiting for a message or a socket counts less: an idle connection does that all
 * day.
 */
#define IDLE_WAIT 0.3
#define MODULES_MAX 64		/* more say no more about an entry */
#define CALLS_LEAST 3		/* fewer show little */
#define WORKER 0.2		/* who works for others begins no request */
#define POOLED 0.8		/* of the time is in workers of pools */
#define WORKER_MODULES 1	/* pools of those who serve requests call more */

struct tops {
	const struct suggest_calls *c;
	uint32_t *top;		/* by spot */
	double *active;		/* by spot, of a top: time that counts */
	kp_dur_ns *waits;
};

static double
active_time(const struct suggest_spot *s)
{
	return (double)s->own + (double)s->wait[SUGGEST_WAIT_CALL] +
	    (double)s->wait[SUGGEST_WAIT_PORT] +
	    IDLE_WAIT * ((double)s->wait[SUGGEST_WAIT_INPUT] +
	    (double)s->wait[SUGGEST_WAIT_OTHER]);
}

static bool
tops_find(struct tops *t)
{
	const struct suggest_calls *c = t->c;
	const struct suggest_spot *s;

	t->top = calloc(c->nspots, sizeof(*t->top));
	t->active = calloc(c->nspots, sizeof(*t->active));
	t->waits = calloc(c->nspots, sizeof(*t->waits));
	if (t->top == NULL || t->active == NULL || t->waits == NULL)
		return false;
	for (uint32_t i = 1; i < c->nspots; i++) {
		s = &c->spots[i];
		t->top[i] = s->parent == 0 ? i : t->top[s->parent];
		t->active[t->top[i]] += active_time(s);
		for (unsigned k = 0; k < SUGGEST_WAITS; k++)
			t->waits[t->top[i]] += s->wait[k];
	}
	return true;
}

static void
tops_free(struct tops *t)
{
	free(t->top);
	free(t->active);
	free(t->waits);
}

/* Distinct modules below a top that are called in at least one request of ten. */
static unsigned
modules_below(const struct tops *t, uint32_t top)
{
	const struct suggest_calls *c = t->c;
	uint32_t seen[MODULES_MAX];
	unsigned n = 0, k;

	for (uint32_t i = top + 1; i < c->nspots && n < MODULES_MAX; i++) {
		if (t->top[i] != top ||
		    c->spots[i].calls * 10 < c->spots[top].calls ||
		    suggest_same_module(c->names, c->spots[i].fn,
		    c->spots[top].fn))
			continue;
		for (k = 0; k < n && !suggest_same_module(c->names,
		    c->spots[i].fn, seen[k]); k++)
			;
		if (k == n)
			seen[n++] = c->spots[i].fn;
	}
	return n;
}

static struct suggest_entry
judge(const struct tops *t, const struct suggest_fn *fns, uint32_t top)
{
	const struct suggest_spot *s = &t->c->spots[top];
	struct suggest_entry e = { .fn = s->fn, .calls = s->calls,
		.total = s->total, .samples = s->samples, .modules = modules_below(t, top) };

	e.score = t->active[top] * (1 + e.modules);
	if (!fns[s->fn].exported)
		e.score *= 0.8;
	if (e.calls < CALLS_LEAST)
		e.score *= 0.3;
	/* Its end was hardly ever seen. */
	if (e.calls > 0 && e.total / (kp_dur_ns)e.calls > t->c->span / 2)
		e.score *= 0.1;
	e.waits = (double)t->waits[top] > 0.97 * (double)s->total;
	if (e.waits && e.modules == 0)
		e.score *= 0.02;
	e.worker = s->pooled > 0 && e.modules <= WORKER_MODULES &&
	    (double)s->pooled >= POOLED * (double)s->total;
	if (e.worker)
		e.score *= WORKER;
	e.cut = s->whole * 2 < s->total;
	return e;
}

static void
keep_best(struct suggest_entry *v, size_t *n, struct suggest_entry e)
{
	size_t at = SUGGEST_ENTRIES_MAX - 1;

	if (*n < SUGGEST_ENTRIES_MAX)
		at = (*n)++;
	else if (v[at].score >= e.score)
		return;
	for (; at > 0 && v[at - 1].score < e.score; at--)
		v[at] = v[at - 1];
	v[at] = e;
}

/* A server's callbacks, behind everything else. */
static void
callbacks(const struct suggest_calls *c, const struct suggest_fn *fns,
    struct suggest_entry *v, size_t *n)
{
	const struct suggest_around *a;

	for (uint32_t i = 0; i < c->naround && *n < SUGGEST_ENTRIES_MAX; i++) {
		a = &c->around[i];
		if (!fns[a->fn].callback || a->calls < CALLS_LEAST)
			continue;
		keep_best(v, n, (struct suggest_entry){ .fn = a->fn,
		    .calls = a->calls, .total = a->total, .callback = true,
		    .score = (double)a->total * 1e-9 });
	}
}

size_t
suggest_entries(const struct suggest_calls *c, const struct suggest_fn *fns,
    struct suggest_entry *v)
{
	struct tops t = { .c = c };
	size_t n = 0;

	if (tops_find(&t))
		for (uint32_t i = 1; i < c->nspots; i++)
			if (c->spots[i].parent == 0 && c->spots[i].calls > 0 &&
			    !fns[c->spots[i].fn].unnamed)
				keep_best(v, &n, judge(&t, fns, i));
	tops_free(&t);
	callbacks(c, fns, v, &n);
	return n;
}
