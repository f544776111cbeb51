/*
 * trace_group.c - groups the rows of one process, or of all, by function, with
 * callers and callees.
 *
 * It sorts rows twice, by function and by caller, and walks both together: in both
 * the rows of a function are next to each other.
 */
#include <stdlib.h>
#include <string.h>

#include "trace_internal.h"
#include "base/sat.h"

static int
order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int
by_fn(const void *a, const void *b)
{
	const struct kp_calls_clock *x = a, *y = b;
	int d = order(x->fn, y->fn);

	return d != 0 ? d : order(x->caller, y->caller);
}

static int
by_caller(const void *a, const void *b)
{
	const struct kp_calls_clock *x = a, *y = b;
	int d = order(x->caller, y->caller);

	return d != 0 ? d : order(x->fn, y->fn);
}

static int
by_proc(const void *a, const void *b)
{
	const struct kp_calls_clock *x = a, *y = b;
	int d = order(x->proc, y->proc);

	return d != 0 ? d : by_fn(a, b);
}

struct kp_calls_clock *
trace_rows_by_proc(const struct kp_calls_sum *s)
{
	struct kp_calls_clock *v = malloc((s->nclocks + 1) * sizeof(*v));

	if (v == NULL)
		return NULL;
	if (s->nclocks > 0)
		memcpy(v, s->clocks, s->nclocks * sizeof(*v));
	qsort(v, s->nclocks, sizeof(*v), by_proc);
	return v;
}

uint32_t
trace_rows_of_one(const struct kp_calls_clock *rows, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && rows[i].proc == rows[0].proc)
		i++;
	return i;
}

/* Adds up rows of the same function and caller; v is sorted. */
static uint32_t
merge(struct kp_calls_clock *v, uint32_t n)
{
	uint32_t out = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (out > 0 && by_fn(&v[out - 1], &v[i]) == 0) {
			v[out - 1].calls += v[i].calls;
			v[out - 1].acc = sat_add(v[out - 1].acc, v[i].acc);
			v[out - 1].own = sat_add(v[out - 1].own, v[i].own);
		} else {
			v[out++] = v[i];
		}
	}
	return out;
}

static void
fn_from(struct trace_group *g, uint32_t fn, uint32_t *at, uint32_t *called)
{
	struct trace_fn *f = &g->fns[g->nfns++];
	const struct kp_calls_clock *c;

	*f = (struct trace_fn){ .fn = fn, .callers = &g->by_fn[*at],
		.called = &g->by_caller[*called] };
	for (; *at < g->nrows && g->by_fn[*at].fn == fn; (*at)++) {
		c = &g->by_fn[*at];
		f->calls += c->calls;
		f->acc = sat_add(f->acc, c->acc);
		f->own = sat_add(f->own, c->own);
		f->ncallers++;
	}
	for (; *called < g->nrows && g->by_caller[*called].caller == fn;
	     (*called)++)
		f->ncalled++;
	g->calls += f->calls;
	g->own = sat_add(g->own, f->own);
}

static void
fns_from_rows(struct trace_group *g)
{
	uint32_t at = 0, called = 0, fn;

	while (at < g->nrows || called < g->nrows) {
		if (called == g->nrows || (at < g->nrows &&
		    g->by_fn[at].fn <= g->by_caller[called].caller))
			fn = g->by_fn[at].fn;
		else
			fn = g->by_caller[called].caller;
		fn_from(g, fn, &at, &called);
	}
}

/* ---- the order in which functions are shown ---- */

struct ordering {
	const struct kp_call_names *names;
	bool by_own;
};

static int
fn_order(const void *a, const void *b, void *ctx)
{
	const struct trace_fn *x = a, *y = b;
	const struct ordering *o = ctx;
	kp_dur_ns p = o->by_own ? x->own : x->acc;
	kp_dur_ns q = o->by_own ? y->own : y->acc;

	return p != q ? (p < q) - (p > q) :
	    kp_call_fn_order(o->names, x->fn, y->fn);
}

static int
row_order(const struct kp_calls_clock *x, const struct kp_calls_clock *y,
    const struct ordering *o)
{
	kp_dur_ns p = o->by_own ? x->own : x->acc;
	kp_dur_ns q = o->by_own ? y->own : y->acc;

	return (p < q) - (p > q);
}

static int
caller_order(const void *a, const void *b, void *ctx)
{
	const struct kp_calls_clock *x = a, *y = b;
	const struct ordering *o = ctx;
	int d = row_order(x, y, o);

	return d != 0 ? d : kp_call_fn_order(o->names, x->caller, y->caller);
}

static int
called_order(const void *a, const void *b, void *ctx)
{
	const struct kp_calls_clock *x = a, *y = b;
	const struct ordering *o = ctx;
	int d = row_order(x, y, o);

	return d != 0 ? d : kp_call_fn_order(o->names, x->fn, y->fn);
}

static void
put_in_order(struct trace_group *g, struct ordering *o)
{
	struct trace_fn *f;

	for (uint32_t i = 0; i < g->nfns; i++) {
		f = &g->fns[i];
		qsort_r(&g->by_fn[f->callers - g->by_fn], f->ncallers,
		    sizeof(*g->by_fn), caller_order, o);
		qsort_r(&g->by_caller[f->called - g->by_caller], f->ncalled,
		    sizeof(*g->by_caller), called_order, o);
	}
	qsort_r(g->fns, g->nfns, sizeof(*g->fns), fn_order, o);
}

enum kp_err
trace_group_make(struct trace_group *g, const struct kp_calls_clock *rows,
    uint32_t n, const struct kp_call_names *names, bool by_own)
{
	struct ordering o = { names, by_own };

	*g = (struct trace_group){ 0 };
	g->by_fn = malloc((n + 1) * sizeof(*g->by_fn));
	g->by_caller = malloc((n + 1) * sizeof(*g->by_caller));
	g->fns = malloc((2 * (size_t)n + 1) * sizeof(*g->fns));
	if (g->by_fn == NULL || g->by_caller == NULL || g->fns == NULL) {
		trace_group_free(g);
		return KP_ENOMEM;
	}
	if (n > 0)
		memcpy(g->by_fn, rows, n * sizeof(*rows));
	qsort(g->by_fn, n, sizeof(*g->by_fn), by_fn);
	g->nrows = merge(g->by_fn, n);
	memcpy(g->by_caller, g->by_fn, g->nrows * sizeof(*g->by_fn));
	qsort(g->by_caller, g->nrows, sizeof(*g->by_caller), by_caller);
	fns_from_rows(g);
	put_in_order(g, &o);
	return KP_OK;
}

void
trace_group_free(struct trace_group *g)
{
	free(g->by_fn);
	free(g->by_caller);
	free(g->fns);
	*g = (struct trace_group){ 0 };
}
