/* counts_sheet.c - computes shares, and sorts rows, by process or not. */
#include <stdlib.h>
#include <string.h>

#include "counts_sheet.h"

/* ---- figures ---- */

double
sheet_per_call(const struct kp_counts_row *r)
{
	return r->calls > 0 ? (double)r->value / (double)r->calls : 0;
}

static uint64_t
figure(const struct sheet *s, const struct kp_counts_row *r)
{
	return s->p->type == KP_COUNTS_CALLS ? r->calls : r->value;
}

double
sheet_share(const struct sheet *s, const struct kp_counts_row *r,
    const struct kp_counts_row *all)
{
	uint64_t whole = figure(s, all);

	return whole > 0 ? (double)figure(s, r) / (double)whole : 0;
}

/* ---- order ---- */

static int
compare(double a, double b)
{
	return (a > b) - (a < b);
}

/* By number; "others" come last. */
static int
proc_order(const struct sheet *s, uint32_t a, uint32_t b)
{
	const struct kp_call_proc *x, *y;

	if (a == b)
		return 0;
	if (a >= KP_PROC_OTHERS || b >= KP_PROC_OTHERS)
		return a >= KP_PROC_OTHERS ? 1 : -1;
	x = &s->p->names->procs[a];
	y = &s->p->names->procs[b];
	return x->serial != y->serial ? compare(x->serial, y->serial) :
	    compare(x->id, y->id);
}

/* Names in ascending, figures in descending order. */
static int
by_key(const struct sheet *s, const struct kp_counts_row *a,
    const struct kp_counts_row *b, enum counts_sort key)
{
	switch (key) {
	case COUNTS_BY_FUNCTION:
		return kp_call_fn_order(s->p->names, a->fn, b->fn);
	case COUNTS_BY_PROCESS:
		return proc_order(s, a->proc, b->proc);
	case COUNTS_BY_CALLS:
		return compare((double)b->calls, (double)a->calls);
	case COUNTS_BY_PER_CALL:
		return compare(sheet_per_call(b), sheet_per_call(a));
	default:
		return compare((double)figure(s, b), (double)figure(s, a));
	}
}

static int
line_order(const void *pa, const void *pb, void *ctx)
{
	const struct kp_counts_row *a = ((const struct sheet_line *)pa)->row;
	const struct kp_counts_row *b = ((const struct sheet_line *)pb)->row;
	const struct sheet *s = ctx;
	int d = by_key(s, a, b, s->v->sort);

	if (s->v->reverse)
		d = -d;
	/* The rest makes the order of equal rows the same every time. */
	if (d == 0)
		d = by_key(s, a, b, COUNTS_BY_VALUE);
	if (d == 0)
		d = by_key(s, a, b, COUNTS_BY_FUNCTION);
	return d != 0 ? d : by_key(s, a, b, COUNTS_BY_PROCESS);
}

/* ---- sections ---- */

static int
by_proc_number(const void *pa, const void *pb)
{
	const struct kp_counts_row *a = pa, *b = pb;

	return (a->proc > b->proc) - (a->proc < b->proc);
}

/* Adds up the rows of each process. */
static void
make_sections(struct sheet *s)
{
	struct kp_counts_row *v = s->sections;
	size_t n = 0;

	if (s->n > 0)
		memcpy(v, s->p->rows, s->n * sizeof(*v));
	qsort(v, s->n, sizeof(*v), by_proc_number);
	for (size_t i = 0; i < s->n; i++) {
		if (n > 0 && v[n - 1].proc == v[i].proc) {
			v[n - 1].calls += v[i].calls;
			v[n - 1].value += v[i].value;
		} else {
			v[n++] = v[i];
		}
	}
	s->nsections = n;
	for (size_t i = 0; i < s->n; i++)
		s->lines[i].section = bsearch(s->lines[i].row, v, n,
		    sizeof(*v), by_proc_number);
}

static int
section_order(const void *pa, const void *pb, void *ctx)
{
	const struct kp_counts_row *a =
	    ((const struct sheet_line *)pa)->section;
	const struct kp_counts_row *b =
	    ((const struct sheet_line *)pb)->section;
	const struct sheet *s = ctx;
	int d = 0;

	if (a == b)
		return line_order(pa, pb, ctx);
	if (s->v->sort != COUNTS_BY_PROCESS)
		d = by_key(s, a, b, COUNTS_BY_VALUE);
	if (d == 0)
		d = proc_order(s, a->proc, b->proc);
	return s->v->reverse ? -d : d;
}

void
sheet_by_section(struct sheet *s)
{
	if (s->nsections > 0)
		qsort_r(s->lines, s->shown, sizeof(*s->lines), section_order,
		    s);
}

/* ---- the sheet ---- */

enum kp_err
sheet_make(struct sheet *s, const struct kp_counts *p,
    const struct counts_view *v)
{
	*s = (struct sheet){ .p = p, .v = v, .n = p->nrows };
	s->lines = calloc(s->n + 1, sizeof(*s->lines));
	s->sections = calloc(s->n + 1, sizeof(*s->sections));
	if (s->lines == NULL || s->sections == NULL) {
		sheet_free(s);
		return KP_ENOMEM;
	}
	for (size_t i = 0; i < s->n; i++) {
		s->lines[i].row = &p->rows[i];
		s->all.calls += p->rows[i].calls;
		s->all.value += p->rows[i].value;
	}
	if (p->by_process)
		make_sections(s);
	qsort_r(s->lines, s->n, sizeof(*s->lines), line_order, s);
	s->shown = v->top > 0 && v->top < s->n ? v->top : s->n;
	return KP_OK;
}

void
sheet_free(struct sheet *s)
{
	free(s->lines);
	free(s->sections);
}
