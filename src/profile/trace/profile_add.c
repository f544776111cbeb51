/*
 * profile_add.c - adds profiles of one target, taken one after the other, to
 * one.
 *
 * Both are put into new vectors, one behind the other; then rows of one
 * function, and of one process in it, are merged.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/profile.h"

#define ELAPSED_MAX (INT64_MAX / 2)	/* one reading's is far less */

static int
compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int
fn_order(const void *pa, const void *pb, void *ctx)
{
	const struct kp_profile_fn *fns = ctx;
	const struct kp_profile_fn *a = &fns[*(const uint32_t *)pa];
	const struct kp_profile_fn *b = &fns[*(const uint32_t *)pb];
	int d = strcmp(a->mod, b->mod);

	if (d == 0)
		d = strcmp(a->fun, b->fun);
	return d != 0 ? d : compare(a->arity, b->arity);
}

static int
row_order(const void *pa, const void *pb)
{
	const struct kp_profile_row *a = pa, *b = pb;
	int d = compare(a->fn, b->fn);

	if (d == 0)
		d = compare(a->proc.others, b->proc.others);
	if (d == 0)
		d = compare(a->proc.serial, b->proc.serial);
	return d != 0 ? d : compare(a->proc.id, b->proc.id);
}

static void
free_texts(struct kp_profile_fn *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].mod);
		free(v[i].fun);
	}
}

/* Vectors of both; the texts of `before` are copies. */
static enum kp_err
join(struct kp_profile *sum, const struct kp_profile *p,
    const struct kp_profile *before)
{
	size_t n = p->nfns, nrows = p->nrows;

	sum->fns = calloc(n + before->nfns + 1, sizeof(*sum->fns));
	sum->rows = calloc(nrows + before->nrows + 1, sizeof(*sum->rows));
	if (sum->fns == NULL || sum->rows == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < before->nfns; i++) {
		sum->fns[n + i] = before->fns[i];
		sum->fns[n + i].mod = strdup(before->fns[i].mod);
		sum->fns[n + i].fun = strdup(before->fns[i].fun);
		sum->nfns = i + 1;
		if (sum->fns[n + i].mod == NULL || sum->fns[n + i].fun == NULL)
			goto fail;
	}
	for (size_t i = 0; i < n; i++)
		sum->fns[i] = p->fns[i];
	for (size_t i = 0; i < nrows; i++)
		sum->rows[i] = p->rows[i];
	for (size_t i = 0; i < before->nrows; i++) {
		sum->rows[nrows + i] = before->rows[i];
		sum->rows[nrows + i].fn += (uint32_t)n;
	}
	sum->nfns = sum->fns_room = n + before->nfns;
	sum->nrows = sum->rows_room = nrows + before->nrows;
	return KP_OK;
fail:
	free_texts(sum->fns + n, sum->nfns);
	return KP_ENOMEM;
}

/*
 * Functions that are there twice: at[] says where each of them is now.  order[]
 * has room for as many.
 */
static void
add_fns(struct kp_profile *p, uint32_t *order, uint32_t *at)
{
	struct kp_profile_fn *to = NULL, *fn;
	size_t n = 0;

	for (uint32_t i = 0; i < p->nfns; i++)
		order[i] = i;
	qsort_r(order, p->nfns, sizeof(*order), fn_order, p->fns);
	for (size_t i = 0; i < p->nfns; i++) {
		fn = &p->fns[order[i]];
		if (to == NULL || fn_order(&order[i - 1], &order[i],
		    p->fns) != 0) {
			to = fn;
			at[order[i]] = order[i];
			continue;
		}
		to->calls += fn->calls;
		to->value += fn->value;
		at[order[i]] = (uint32_t)(to - p->fns);
	}
	/* What was added to another goes; the others move up. */
	for (uint32_t i = 0; i < p->nfns; i++) {
		if (at[i] == i) {
			order[i] = (uint32_t)n;
			p->fns[n++] = p->fns[i];
		} else {
			free_texts(&p->fns[i], 1);
		}
	}
	for (size_t i = 0; i < p->nfns; i++)
		at[i] = order[at[i]];
	p->nfns = n;
}

static void
add_rows(struct kp_profile *p, const uint32_t *at)
{
	size_t n = 0;

	for (size_t i = 0; i < p->nrows; i++)
		p->rows[i].fn = at[p->rows[i].fn];
	qsort(p->rows, p->nrows, sizeof(*p->rows), row_order);
	for (size_t i = 0; i < p->nrows; i++) {
		if (n > 0 && row_order(&p->rows[n - 1], &p->rows[i]) == 0) {
			p->rows[n - 1].calls += p->rows[i].calls;
			p->rows[n - 1].value += p->rows[i].value;
		} else {
			p->rows[n++] = p->rows[i];
		}
	}
	p->nrows = n;
}

static void
take(struct kp_profile *p, struct kp_profile *sum,
    const struct kp_profile *before)
{
	free(p->fns);
	free(p->rows);
	p->fns = sum->fns;
	p->nfns = sum->nfns;
	p->fns_room = sum->fns_room;
	p->rows = sum->rows;
	p->nrows = sum->nrows;
	p->rows_room = sum->rows_room;
	if (before->elapsed < ELAPSED_MAX)
		p->elapsed += before->elapsed;
	/* They may be the same functions. */
	if (before->gone > p->gone)
		p->gone = before->gone;
	p->merged += before->merged;
}

/* Its figures, not its names, are forgotten. */
static void
forget(struct kp_profile *p)
{
	free_texts(p->fns, p->nfns);
	p->nfns = p->nrows = 0;
	p->elapsed = 0;
	p->gone = p->merged = 0;
}

enum kp_err
kp_profile_add(struct kp_profile *p, const struct kp_profile *before)
{
	size_t n = p->nfns + before->nfns;
	struct kp_profile sum = { 0 };
	uint32_t *order, *at;
	enum kp_err e;

	if (n > KP_PROFILE_FNS_MAX ||
	    p->nrows + before->nrows > KP_PROFILE_ROWS_MAX)
		return KP_ELIMIT;
	if (p->stretch == before->stretch)
		forget(p);
	order = calloc(n + 1, sizeof(*order));
	at = calloc(n + 1, sizeof(*at));
	e = order != NULL && at != NULL ? join(&sum, p, before) : KP_ENOMEM;
	if (e == KP_OK) {
		add_fns(&sum, order, at);
		add_rows(&sum, at);
		take(p, &sum, before);
	} else {
		free(sum.fns);
		free(sum.rows);
	}
	free(order);
	free(at);
	return e;
}
