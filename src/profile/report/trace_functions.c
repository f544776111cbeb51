/*
 * trace_functions.c - writes a trace by function, with callers and callees: as
 * fprof's analysis, and for the tools of callgrind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "kprofd/fn_name.h"
#include "kprofd/term.h"
#include "text/text.h"
#include "trace_report.h"

/*
 * ---- the rows of one process, or of all, by function ----
 *
 * Rows are sorted twice, by function and by caller, and both are walked together:
 * in both the rows of a function are next to each other.
 */

/* A function, and the rows about it. */
struct function {
	struct kp_calls_clock sum;	/* its fn and figures; first, for shown_order() */
	const struct kp_calls_clock *callers, *called;
	uint32_t ncallers, ncalled;
};

/* Zeroed is empty. */
struct group {
	struct kp_calls_clock *by_fn, *by_caller;
	struct function *fns;
	uint32_t nrows, nfns;
	uint64_t calls;
	kp_dur_ns own;		/* of all rows */
};

static int
pair_order(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	return a != c ? (a > c) - (a < c) : (b > d) - (b < d);
}

static int
by_fn(const void *a, const void *b)
{
	const struct kp_calls_clock *x = a, *y = b;

	return pair_order(x->fn, x->caller, y->fn, y->caller);
}

static int
by_caller(const void *a, const void *b)
{
	const struct kp_calls_clock *x = a, *y = b;

	return pair_order(x->caller, x->fn, y->caller, y->fn);
}

static int
by_proc(const void *a, const void *b)
{
	const struct kp_calls_clock *x = a, *y = b;

	return x->proc != y->proc ? (x->proc > y->proc) - (x->proc < y->proc) :
	    by_fn(a, b);
}

/* A copy of all rows, sorted by process; free() it. */
static struct kp_calls_clock *
rows_by_proc(const struct kp_calls_sum *s)
{
	struct kp_calls_clock *v = malloc((s->nclocks + 1) * sizeof(*v));

	if (v == NULL)
		return NULL;
	if (s->nclocks > 0)
		memcpy(v, s->clocks, s->nclocks * sizeof(*v));
	qsort(v, s->nclocks, sizeof(*v), by_proc);
	return v;
}

/* The number of rows, from the first one on, of the same process. */
static uint32_t
rows_of_one(const struct kp_calls_clock *rows, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && rows[i].proc == rows[0].proc)
		i++;
	return i;
}

static void
add(struct kp_calls_clock *to, const struct kp_calls_clock *c)
{
	to->calls += c->calls;
	to->acc = sat_add(to->acc, c->acc);
	to->own = sat_add(to->own, c->own);
}

/* Adds up rows of the same function and caller; v is sorted. */
static uint32_t
merge(struct kp_calls_clock *v, uint32_t n)
{
	uint32_t out = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (out > 0 && by_fn(&v[out - 1], &v[i]) == 0)
			add(&v[out - 1], &v[i]);
		else
			v[out++] = v[i];
	}
	return out;
}

static void
fns_from_rows(struct group *g)
{
	uint32_t at = 0, called = 0, fn;
	struct function *f;

	while (at < g->nrows || called < g->nrows) {
		if (called == g->nrows || (at < g->nrows &&
		    g->by_fn[at].fn <= g->by_caller[called].caller))
			fn = g->by_fn[at].fn;
		else
			fn = g->by_caller[called].caller;
		f = &g->fns[g->nfns++];
		*f = (struct function){ .sum.fn = fn,
			.callers = &g->by_fn[at],
			.called = &g->by_caller[called] };
		for (; at < g->nrows && g->by_fn[at].fn == fn; at++) {
			add(&f->sum, &g->by_fn[at]);
			f->ncallers++;
		}
		for (; called < g->nrows && g->by_caller[called].caller == fn;
		     called++)
			f->ncalled++;
		g->calls += f->sum.calls;
		g->own = sat_add(g->own, f->sum.own);
	}
}

struct ordering {
	const struct kp_call_names *names;
	bool by_own, by_caller, reverse;
};

/* Of rows, and of functions. */
static int
shown_order(const void *a, const void *b, void *ctx)
{
	const struct kp_calls_clock *x = a, *y = b;
	const struct ordering *o = ctx;
	kp_dur_ns p = o->by_own ? x->own : x->acc;
	kp_dur_ns q = o->by_own ? y->own : y->acc;

	if (p != q)
		return (p < q) == o->reverse ? -1 : 1;
	return o->by_caller ? kp_call_fn_order(o->names, x->caller, y->caller) :
	    kp_call_fn_order(o->names, x->fn, y->fn);
}

static void
put_in_order(struct group *g, const struct trace_view *v, bool by_own)
{
	struct ordering fns = { v->names, by_own, false, v->reverse };
	struct ordering callers = { v->names, by_own, true, v->reverse };
	struct function *f;

	for (uint32_t i = 0; i < g->nfns; i++) {
		f = &g->fns[i];
		qsort_r(&g->by_fn[f->callers - g->by_fn], f->ncallers,
		    sizeof(*g->by_fn), shown_order, &callers);
		qsort_r(&g->by_caller[f->called - g->by_caller], f->ncalled,
		    sizeof(*g->by_caller), shown_order, &fns);
	}
	qsort_r(g->fns, g->nfns, sizeof(*g->fns), shown_order, &fns);
}

static void
group_free(struct group *g)
{
	free(g->by_fn);
	free(g->by_caller);
	free(g->fns);
	*g = (struct group){ 0 };
}

/*
 * Groups n rows, and adds up those that differ only in their process.  Functions
 * are in order of own or accumulated time, as v says which way.  False after setting the
 * error of b: g is empty.
 */
static bool
group_make(struct group *g, const struct kp_calls_clock *rows, uint32_t n,
    const struct trace_view *v, bool by_own, struct kp_buf *b)
{
	*g = (struct group){ 0 };
	g->by_fn = malloc((n + 1) * sizeof(*g->by_fn));
	g->by_caller = malloc((n + 1) * sizeof(*g->by_caller));
	g->fns = malloc((2 * (size_t)n + 1) * sizeof(*g->fns));
	if (g->by_fn == NULL || g->by_caller == NULL || g->fns == NULL) {
		group_free(g);
		b->err = KP_ENOMEM;
		return false;
	}
	if (n > 0)
		memcpy(g->by_fn, rows, n * sizeof(*rows));
	qsort(g->by_fn, n, sizeof(*g->by_fn), by_fn);
	g->nrows = merge(g->by_fn, n);
	memcpy(g->by_caller, g->by_fn, g->nrows * sizeof(*g->by_fn));
	qsort(g->by_caller, g->nrows, sizeof(*g->by_caller), by_caller);
	fns_from_rows(g);
	put_in_order(g, v, by_own);
	return true;
}

/*
 * ---- fprof ----
 *
 * Its analysis with its columns and marks, so that a reader of one can read the
 * other.
 *
 * It differs where something is unknown: a process whose spawn was not seen has no
 * second element, and spawned_as has an arity in place of arguments.
 *
 * As with fprof, rows add up to the last digit: the callers of a function to its
 * marked row, and functions to their process and to the totals.  So the parts are
 * rounded to the digits that are shown, and what is shown of others is their sum.
 *
 * Source: fprof's manual, "Analysis Format" (tools).
 */

#define COLS_MIN 23u
#define ROW_REST 11u		/* columns of a row's brackets and marks */
#define ID_MAX 8192u
#define DIGIT 1000		/* ns: the last that is shown */

struct sheet {
	struct kp_buf *b;
	const struct trace_view *v;
	struct kp_calls_clock *rows;	/* by process, with rounded times */
	uint32_t n;
	int name, calls, time;	/* widths */
};

/* acc < 0: undefined. */
static void
put_row(struct sheet *s, const char *head, const char *id, uint64_t calls,
    kp_dur_ns acc, kp_dur_ns own, const char *tail, const char *mark)
{
	char cnt[32], a[48], o[48];

	snprintf(cnt, sizeof(cnt), "%" PRIu64 ",", calls);
	snprintf(a, sizeof(a), "%.3f,", (double)acc / 1e6);
	snprintf(o, sizeof(o), "%.3f", (double)own / 1e6);
	kp_buf_printf(s->b, "%-3s%-*s%*s%*s%*s%-4s%4s\n", head, s->name, id,
	    s->calls, cnt, s->time, acc < 0 ? "undefined," : a, s->time - 1,
	    o, tail, mark);
}

/* As terms: {lists,seq,2}, suspend */
static void
put_fn_term(struct kp_buf *b, const struct kp_call_names *t, uint32_t fn)
{
	const struct kp_call_fn *f = &t->fns[fn];

	if (f->mod[0] == '\0') {
		kp_buf_str(b, f->fun);
		return;
	}
	kp_buf_str(b, "{");
	kp_atom_print(b, f->mod);
	kp_buf_str(b, ",");
	kp_atom_print(b, f->fun);
	kp_buf_printf(b, ",%" PRIu32 "}", f->arity);
}

static void
put_fn_row(struct sheet *s, const char *head, uint32_t fn,
    const struct kp_calls_clock *c, const char *tail, const char *mark)
{
	struct kp_buf id;

	kp_buf_init(&id, ID_MAX);
	put_fn_term(&id, s->v->names, fn);
	kp_buf_str(&id, ",");
	put_row(s, head, kp_buf_cstr(&id), c->calls, c->acc, c->own, tail,
	    mark);
	kp_buf_free(&id);
}

static void
put_heading(struct sheet *s)
{
	kp_buf_printf(s->b, "%-3s%-*s%*s%*s%*s%-4s%4s\n", "%", s->name, "",
	    s->calls, " CNT ", s->time, " ACC ", s->time - 1, " OWN", "", "");
}

/* The callers of a function, or the functions it called. */
static void
put_related(struct sheet *s, const struct kp_calls_clock *v, uint32_t n,
    bool called)
{
	const char *first = called ? " [{" : "{[{";
	const char *end = called ? "}]}." : "}],";

	if (n == 0)
		kp_buf_str(s->b, called ? " [ ]}.\n" : "{[ ],\n");
	for (uint32_t i = 0; i < n; i++)
		put_fn_row(s, i == 0 ? first : "  {",
		    called ? v[i].fn : v[i].caller, &v[i],
		    i + 1 < n ? "}," : end, "");
}

static void
put_fns(struct sheet *s, const struct group *g)
{
	for (uint32_t i = 0; i < g->nfns; i++) {
		const struct function *f = &g->fns[i];

		if (s->v->no_callers) {
			put_fn_row(s, "{  ", f->sum.fn, &f->sum, "}.", "");
			continue;
		}
		put_related(s, f->callers, f->ncallers, false);
		put_fn_row(s, " { ", f->sum.fn, &f->sum, "},", "%");
		put_related(s, f->called, f->ncalled, true);
		kp_buf_str(s->b, "\n");
	}
	kp_buf_str(s->b, "\n");
}

static void
put_totals(struct sheet *s)
{
	const struct kp_calls_sum *sum = s->v->sum;
	struct group g;

	if (!group_make(&g, s->rows, s->n, s->v, s->v->by_own, s->b))
		return;
	put_heading(s);
	put_row(s, "[{ ", "totals,", g.calls,
	    sum->opts.cpu ? g.own : sum->last - sum->first, g.own, "}].",
	    "%%%");
	kp_buf_str(s->b, "\n");
	if (s->v->totals)
		put_fns(s, &g);
	else
		kp_buf_str(s->b, "\n");
	group_free(&g);
}

/* The rows of a process. */
struct part {
	const struct kp_calls_clock *rows;
	uint32_t n;
	kp_dur_ns own;
};

static int
part_order(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->own != y->own)
		return (x->own < y->own) - (x->own > y->own);
	return (x->rows > y->rows) - (x->rows < y->rows);
}

static void
put_origin(struct sheet *s, uint32_t proc)
{
	const struct kp_calls_proc *p = &s->v->sum->procs[proc];
	const struct kp_call_names *t = s->v->names;

	kp_buf_str(s->b, " { spawned_by, \"");
	trace_put_pid(s->b, t, p->parent);
	kp_buf_str(s->b, "\"},\n { spawned_as, ");
	put_fn_term(s->b, t, p->spawned_as);
	if (p->nfirst > 0)
		kp_buf_str(s->b, "},\n { initial_calls, [");
	for (uint32_t i = 0; i < p->nfirst; i++) {
		kp_buf_str(s->b, i > 0 ? "," : "");
		put_fn_term(s->b, t, p->first[i]);
	}
	kp_buf_str(s->b, p->nfirst > 0 ? "]}].\n" : "}].\n");
}

static void
put_process(struct sheet *s, const struct part *part)
{
	uint32_t proc = part->rows[0].proc;
	bool origin = s->v->sum->procs[proc].spawned;
	struct group g;
	struct kp_buf id;

	if (!group_make(&g, part->rows, part->n, s->v, s->v->by_own, s->b))
		return;
	kp_buf_init(&id, ID_MAX);
	kp_buf_str(&id, "\"");
	trace_put_pid(&id, s->v->names, proc);
	kp_buf_str(&id, "\",");
	put_heading(s);
	put_row(s, "[{ ", kp_buf_cstr(&id), g.calls, -1, g.own,
	    origin ? "}," : "}].", "%%");
	kp_buf_free(&id);
	if (origin)
		put_origin(s, proc);
	kp_buf_str(s->b, "\n");
	put_fns(s, &g);
	group_free(&g);
}

static void
put_processes(struct sheet *s)
{
	struct part *parts = calloc(s->v->sum->nprocs + 1, sizeof(*parts));
	struct part *p = parts;

	if (parts == NULL) {
		s->b->err = KP_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < s->n; i += p->n, p++) {
		p->rows = &s->rows[i];
		p->n = rows_of_one(p->rows, s->n - i);
		for (uint32_t j = 0; j < p->n; j++)
			p->own = sat_add(p->own, p->rows[j].own);
	}
	qsort(parts, (size_t)(p - parts), sizeof(*parts), part_order);
	for (p = parts; p->n > 0 && s->b->err == KP_OK; p++)
		put_process(s, p);
	free(parts);
}

static kp_dur_ns
rounded(kp_dur_ns t)
{
	return sat_add(t, DIGIT / 2) / DIGIT * DIGIT;
}

static const char *
bool_text(bool v)
{
	return v ? "true" : "false";
}

void
trace_fprof(struct kp_buf *b, const struct trace_view *v)
{
	unsigned cols = v->width == 0 ? TRACE_COLS : v->width < COLS_MIN ?
	    COLS_MIN : v->width;
	struct sheet s = { .b = b, .v = v, .rows = rows_by_proc(v->sum),
		.n = v->sum->nclocks };

	if (s.rows == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	s.calls = (int)((cols - ROW_REST) / 12);
	s.time = 2 * s.calls;
	s.name = (int)(cols - ROW_REST) - 5 * s.calls;
	for (uint32_t i = 0; i < s.n; i++) {
		s.rows[i].acc = rounded(s.rows[i].acc);
		s.rows[i].own = rounded(s.rows[i].own);
	}
	kp_buf_printf(b, "%%%% Analysis results:\n{  analysis_options,\n"
	    " [{callers, %s},\n  {sort, %s},\n  {totals, %s},\n"
	    "  {details, %s}]}.\n\n", bool_text(!v->no_callers),
	    v->by_own ? "own" : "acc", bool_text(v->totals),
	    bool_text(!v->no_details));
	put_totals(&s);
	if (!v->no_details)
		put_processes(&s);
	free(s.rows);
}

/*
 * ---- callgrind ----
 *
 * All functions are at line 0 of their module.  An object is a process, or all
 * processes of one root (trace_report.h).  suspend, which has no own time by fprof's
 * rules, has the time that passed; so the costs of a process add up to its time.
 *
 * Source: "Callgrind Format Specification", valgrind's manual.
 */

static kp_dur_ns
cost(const struct kp_calls_clock *c)
{
	return c->fn == KP_FN_SUSPEND ? c->acc : c->own;
}

static void
put_name(struct kp_buf *b, const struct trace_view *v, const char *fl,
    const char *key, uint32_t fn)
{
	const char *mod = v->names->fns[fn].mod;
	char name[FN_NAME_MAX];

	kp_buf_printf(b, "%s=", fl);
	text_put(b, mod[0] != '\0' ? fn_shown(name, sizeof(name), mod) :
	    "pseudo");
	kp_buf_printf(b, "\n%s=", key);
	trace_put_fn(b, v->names, fn, false);
	kp_buf_str(b, "\n");
}

static void
callgrind_fn(struct kp_buf *b, const struct trace_view *v,
    const struct function *f)
{
	const struct kp_calls_clock *c;

	put_name(b, v, "fl", "fn", f->sum.fn);
	kp_buf_printf(b, "0 %" PRId64 "\n", cost(&f->sum));
	for (uint32_t i = 0; i < f->ncalled; i++) {
		c = &f->called[i];
		put_name(b, v, "cfi", "cfn", c->fn);
		kp_buf_printf(b, "calls=%" PRIu64 " 0\n0 %" PRId64 "\n",
		    c->calls, c->acc);
	}
	kp_buf_str(b, "\n");
}

static void
callgrind_process(struct kp_buf *b, const struct trace_view *v,
    const struct kp_calls_clock *rows, uint32_t n)
{
	struct group g;

	if (!group_make(&g, rows, n, v, true, b))
		return;
	kp_buf_str(b, "ob=");
	trace_put_root(b, v, rows[0].proc);
	kp_buf_str(b, "\n");
	for (uint32_t i = 0; i < g.nfns; i++)
		callgrind_fn(b, v, &g.fns[i]);
	group_free(&g);
}

void
trace_callgrind(struct kp_buf *b, const struct trace_view *v)
{
	struct kp_calls_clock *rows = rows_by_proc(v->sum);
	kp_dur_ns sum = 0;
	uint32_t n;

	if (rows == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < v->sum->nclocks; i++) {
		/* A function found on a stack was called once, before the trace. */
		if (rows[i].calls == 0)
			rows[i].calls = 1;
		sum = sat_add(sum, cost(&rows[i]));
	}
	kp_buf_str(b, "# callgrind format\nversion: 1\ncreator: kprof\ncmd: ");
	trace_put_targets(b, v);
	kp_buf_printf(b, "\npositions: line\nevent: ns : time in ns\n"
	    "events: ns\nsummary: %" PRId64 "\n\n", sum);
	for (uint32_t i = 0; i < v->sum->nclocks && b->err == KP_OK; i += n) {
		n = rows_of_one(&rows[i], v->sum->nclocks - i);
		callgrind_process(b, v, &rows[i], n);
	}
	free(rows);
}
