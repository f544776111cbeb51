/* profile_sheet.c - computes shares, and sorts rows, by process or not. */
#include <stdlib.h>
#include <string.h>

#include "profile_sheet.h"

/* ---- figures ---- */

double
sheet_per_call(const struct line *l)
{
	return l->calls > 0 ? (double)l->value / (double)l->calls : 0;
}

/* What the profile is of. */
static uint64_t
figure(const struct sheet *s, uint64_t calls, uint64_t value)
{
	return s->p->type == KP_PROFILE_COUNT ? calls : value;
}

static double
part(uint64_t figure, uint64_t all)
{
	return all > 0 ? (double)figure / (double)all : 0;
}

double
sheet_share(const struct sheet *s, uint64_t calls, uint64_t value)
{
	return part(figure(s, calls, value), figure(s, s->calls, s->value));
}

double
sheet_section_share(const struct sheet *s, const struct line *l)
{
	return part(figure(s, l->calls, l->value),
	    figure(s, l->section->calls, l->section->value));
}

/* ---- rows in order ---- */

static int
compare(double a, double b)
{
	return (a > b) - (a < b);
}

static int
by_name(const struct line *a, const struct line *b)
{
	int d = strcmp(a->fn->mod, b->fn->mod);

	if (d == 0)
		d = strcmp(a->fn->fun, b->fn->fun);
	return d != 0 ? d : compare(a->fn->arity, b->fn->arity);
}

static int
proc_order(const struct kp_profile_proc *x, const struct kp_profile_proc *y)
{
	if (x->others != y->others)
		return x->others ? 1 : -1;
	return x->serial != y->serial ? compare(x->serial, y->serial) :
	    compare(x->id, y->id);
}

static int
by_process(const struct line *a, const struct line *b)
{
	return a->row == NULL || b->row == NULL ? 0 :
	    proc_order(&a->row->proc, &b->row->proc);
}

static int
name_order(const void *pa, const void *pb)
{
	const struct kp_profile_name *a = pa, *b = pb;

	return proc_order(&a->proc, &b->proc);
}

const char *
sheet_name(const struct sheet *s, const struct kp_profile_proc *proc)
{
	const struct kp_profile_name key = { .proc = *proc }, *found;

	found = bsearch(&key, s->names, s->p->nnames, sizeof(key), name_order);
	return found != NULL && !proc->others ? found->name : NULL;
}

/* Names from the first, figures from the greatest. */
static int
by_key(const struct line *a, const struct line *b, enum profile_sort key,
    enum kp_profile_type type)
{
	switch (key) {
	case PROFILE_BY_FUNCTION:
		return by_name(a, b);
	case PROFILE_BY_PROCESS:
		return by_process(a, b);
	case PROFILE_BY_CALLS:
		break;
	case PROFILE_BY_SHARE:
	case PROFILE_BY_VALUE:
		if (type == KP_PROFILE_COUNT)
			break;
		return compare((double)b->value, (double)a->value);
	case PROFILE_BY_PER_CALL:
		return compare(sheet_per_call(b), sheet_per_call(a));
	}
	return compare((double)b->calls, (double)a->calls);
}

static int
in_order(const void *pa, const void *pb, void *ctx)
{
	const struct line *a = pa, *b = pb;
	const struct sheet *s = ctx;
	int d = by_key(a, b, s->v->sort, s->p->type);

	if (s->v->reverse)
		d = -d;
	/* What is equal comes in an order all the same. */
	if (d == 0)
		d = by_key(a, b, PROFILE_BY_VALUE, s->p->type);
	if (d == 0)
		d = by_name(a, b);
	return d != 0 ? d : by_process(a, b);
}

void
sheet_free(struct sheet *s)
{
	free(s->lines);
	free(s->names);
	free(s->sections);
}

/* ---- sections ---- */

static int
section_order(const void *pa, const void *pb)
{
	const struct section *a = pa, *b = pb;

	return proc_order(a->proc, b->proc);
}

/* Lines have their figures; processes that are the same become one. */
static void
make_sections(struct sheet *s)
{
	struct section key, *last = NULL;

	for (size_t i = 0; i < s->n; i++)
		s->sections[i] = (struct section){ &s->lines[i].row->proc,
			s->lines[i].calls, s->lines[i].value };
	qsort(s->sections, s->n, sizeof(*s->sections), section_order);
	for (size_t i = 0; i < s->n; i++) {
		if (last == NULL || section_order(last, &s->sections[i]) != 0) {
			last = &s->sections[s->nsections++];
			*last = s->sections[i];
			continue;
		}
		last->calls += s->sections[i].calls;
		last->value += s->sections[i].value;
	}
	for (size_t i = 0; i < s->n; i++) {
		key.proc = &s->lines[i].row->proc;
		s->lines[i].section = bsearch(&key, s->sections, s->nsections,
		    sizeof(key), section_order);
	}
}

static int
in_sections(const void *pa, const void *pb, void *ctx)
{
	const struct section *a = ((const struct line *)pa)->section;
	const struct section *b = ((const struct line *)pb)->section;
	const struct sheet *s = ctx;
	int d = 0;

	if (a == b)
		return in_order(pa, pb, ctx);
	if (s->v->sort != PROFILE_BY_PROCESS)
		d = compare((double)figure(s, b->calls, b->value),
		    (double)figure(s, a->calls, a->value));
	if (d == 0)
		d = proc_order(a->proc, b->proc);
	return s->v->reverse ? -d : d;
}

void
sheet_by_section(struct sheet *s)
{
	if (s->nsections > 0)
		qsort_r(s->lines, s->shown, sizeof(*s->lines), in_sections, s);
}

/* ---- the sheet ---- */

enum kp_err
sheet_make(struct sheet *s, const struct kp_profile *p,
    const struct profile_view *v)
{
	*s = (struct sheet){ .p = p, .v = v,
		.n = v->by_process ? p->nrows : p->nfns };
	s->lines = calloc(s->n + 1, sizeof(*s->lines));
	s->names = calloc(p->nnames + 1, sizeof(*s->names));
	s->sections = calloc(v->by_process ? s->n + 1 : 1,
	    sizeof(*s->sections));
	if (s->lines == NULL || s->names == NULL || s->sections == NULL) {
		sheet_free(s);
		return KP_ENOMEM;
	}
	if (p->nnames > 0)
		memcpy(s->names, p->names, p->nnames * sizeof(*s->names));
	qsort(s->names, p->nnames, sizeof(*s->names), name_order);
	for (size_t i = 0; i < s->n; i++) {
		struct line *l = &s->lines[i];

		l->row = v->by_process ? &p->rows[i] : NULL;
		l->fn = &p->fns[v->by_process ? l->row->fn : i];
		l->calls = v->by_process ? l->row->calls : l->fn->calls;
		l->value = v->by_process ? l->row->value : l->fn->value;
		s->calls += l->calls;
		s->value += l->value;
	}
	if (v->by_process)
		make_sections(s);
	qsort_r(s->lines, s->n, sizeof(*s->lines), in_order, s);
	s->shown = v->top > 0 && v->top < s->n ? v->top : s->n;
	return KP_OK;
}
