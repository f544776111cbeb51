/*
 * trace_fprof.c - writes a trace as fprof's analysis, with its columns and
 * marks, so that a reader of one can read the other.
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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_internal.h"
#include "base/sat.h"

#define COLS_MIN 23u
#define ROW_REST 11u		/* columns of a row's brackets and marks */
#define ID_MAX 8192u

#define DIGIT 1000		/* ns: the last that is shown */

struct sheet {
	struct kp_buf *b;
	const struct trace_view *v;
	const struct kp_calls_sum *sum;	/* with rounded times */
	int name, calls, time;	/* widths */
};

static void
sheet_init(struct sheet *s, struct kp_buf *b, const struct trace_view *v)
{
	unsigned cols = v->cols > 0 ? v->cols : TRACE_COLS;

	if (cols < COLS_MIN)
		cols = COLS_MIN;
	*s = (struct sheet){ .b = b, .v = v };
	s->calls = (int)((cols - ROW_REST) / 12);
	s->time = 2 * s->calls;
	s->name = (int)(cols - ROW_REST) - 5 * s->calls;
}

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

static void
put_fn_row(struct sheet *s, const char *head, uint32_t fn, uint64_t calls,
    kp_dur_ns acc, kp_dur_ns own, const char *tail, const char *mark)
{
	struct kp_buf id;

	kp_buf_init(&id, ID_MAX);
	trace_put_fn_term(&id, s->v->names, fn);
	kp_buf_str(&id, ",");
	put_row(s, head, kp_buf_cstr(&id), calls, acc, own, tail, mark);
	kp_buf_free(&id);
}

static void
put_heading(struct sheet *s)
{
	kp_buf_printf(s->b, "%-3s%-*s%*s%*s%*s%-4s%4s\n", "%", s->name, "",
	    s->calls, " CNT ", s->time, " ACC ", s->time - 1, " OWN", "", "");
}

static const char *
bool_text(bool v)
{
	return v ? "true" : "false";
}

static void
put_options(struct sheet *s)
{
	const struct trace_view *v = s->v;

	kp_buf_printf(s->b, "%%%% Analysis results:\n{  analysis_options,\n"
	    " [{callers, %s},\n  {sort, %s},\n  {totals, %s},\n"
	    "  {details, %s}]}.\n\n", bool_text(!v->no_callers),
	    v->by_own ? "own" : "acc", bool_text(v->totals),
	    bool_text(!v->no_details));
}

/* ---- functions ---- */

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
		    called ? v[i].fn : v[i].caller, v[i].calls, v[i].acc,
		    v[i].own, i + 1 < n ? "}," : end, "");
}

static void
put_fn(struct sheet *s, const struct trace_fn *f)
{
	if (s->v->no_callers) {
		put_fn_row(s, "{  ", f->fn, f->calls, f->acc, f->own, "}.",
		    "");
		return;
	}
	put_related(s, f->callers, f->ncallers, false);
	put_fn_row(s, " { ", f->fn, f->calls, f->acc, f->own, "},", "%");
	put_related(s, f->called, f->ncalled, true);
	kp_buf_str(s->b, "\n");
}

static void
put_fns(struct sheet *s, const struct trace_group *g)
{
	for (uint32_t i = 0; i < g->nfns; i++)
		put_fn(s, &g->fns[i]);
	kp_buf_str(s->b, "\n");
}

static void
put_totals(struct sheet *s)
{
	const struct kp_calls_sum *sum = s->sum;
	struct trace_group g;

	if (trace_group_make(&g, sum->clocks, sum->nclocks, s->v->names,
	    s->v->by_own) != KP_OK) {
		s->b->err = KP_ENOMEM;
		return;
	}
	put_heading(s);
	put_row(s, "[{ ", "totals,", g.calls,
	    sum->opts.cpu ? g.own : sum->last - sum->first, g.own, "}].",
	    "%%%");
	kp_buf_str(s->b, "\n");
	if (s->v->totals)
		put_fns(s, &g);
	else
		kp_buf_str(s->b, "\n");
	trace_group_free(&g);
}

/* ---- processes ---- */

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
	trace_put_fn_term(s->b, t, p->spawned_as);
	if (p->nfirst > 0)
		kp_buf_str(s->b, "},\n { initial_calls, [");
	for (uint32_t i = 0; i < p->nfirst; i++) {
		kp_buf_str(s->b, i > 0 ? "," : "");
		trace_put_fn_term(s->b, t, p->first[i]);
	}
	kp_buf_str(s->b, p->nfirst > 0 ? "]}].\n" : "}].\n");
}

static void
put_process(struct sheet *s, const struct part *part)
{
	uint32_t proc = part->rows[0].proc;
	bool origin = s->v->sum->procs[proc].spawned;
	struct trace_group g;
	struct kp_buf id;

	if (trace_group_make(&g, part->rows, part->n, s->v->names,
	    s->v->by_own) != KP_OK) {
		s->b->err = KP_ENOMEM;
		return;
	}
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
	trace_group_free(&g);
}

static void
put_processes(struct sheet *s)
{
	const struct kp_calls_sum *sum = s->sum;
	struct kp_calls_clock *rows = trace_rows_by_proc(sum);
	struct part *parts = calloc(sum->nprocs + 1, sizeof(*parts));
	uint32_t n = 0;

	if (rows == NULL || parts == NULL)
		s->b->err = KP_ENOMEM;
	for (uint32_t i = 0; s->b->err == KP_OK && i < sum->nclocks;
	     i += parts[n++].n) {
		parts[n].rows = &rows[i];
		parts[n].n = trace_rows_of_one(&rows[i], sum->nclocks - i);
		for (uint32_t j = i; j < i + parts[n].n; j++)
			parts[n].own = sat_add(parts[n].own,
			    rows[j].own);
	}
	if (parts != NULL)
		qsort(parts, n, sizeof(*parts), part_order);
	for (uint32_t i = 0; s->b->err == KP_OK && i < n; i++)
		put_process(s, &parts[i]);
	free(parts);
	free(rows);
}

static kp_dur_ns
rounded(kp_dur_ns t)
{
	return sat_add(t, DIGIT / 2) / DIGIT * DIGIT;
}

void
trace_fprof(struct kp_buf *b, const struct trace_view *v)
{
	struct kp_calls_sum sum = *v->sum;
	struct sheet s;

	sheet_init(&s, b, v);
	sum.clocks = trace_rows_by_proc(v->sum);
	if (sum.clocks == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < sum.nclocks; i++) {
		sum.clocks[i].acc = rounded(sum.clocks[i].acc);
		sum.clocks[i].own = rounded(sum.clocks[i].own);
	}
	s.sum = &sum;
	put_options(&s);
	put_totals(&s);
	if (!v->no_details)
		put_processes(&s);
	free(sum.clocks);
}
