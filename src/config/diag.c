/*
 * diag.c - collects the errors of a file.
 *
 * The first KP_DIAG_MAX are kept; all are counted.  If memory runs out here a
 * text is lost, but the error still counts.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/lang.h"

#define DIAG_TEXT_MAX 1024u	/* bytes of one message */

void
kp_diags_add(struct kp_diags *d, struct kp_pos pos, bool warning,
    const char *fmt, ...)
{
	char text[DIAG_TEXT_MAX];
	struct kp_diag *v;
	char *copy;
	va_list ap;

	d->errors += !warning;
	if (d->n == KP_DIAG_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	copy = strdup(text);
	v = realloc(d->v, (d->n + 1) * sizeof(*v));
	if (v != NULL)
		d->v = v;
	if (v == NULL || copy == NULL) {
		free(copy);
		return;
	}
	v[d->n++] = (struct kp_diag){ pos, warning, copy };
}

static int
diag_order(const struct kp_diag *a, const struct kp_diag *b)
{
	if (a->pos.line != b->pos.line)
		return a->pos.line < b->pos.line ? -1 : 1;
	if (a->pos.col != b->pos.col)
		return a->pos.col < b->pos.col ? -1 : 1;
	return a->warning - b->warning;
}

void
diag_sort(struct kp_diags *d)
{
	struct kp_diag x;
	size_t i, j, n = 0;

	/* The sort is stable: of several at one place the first is kept. */
	for (i = 1; i < d->n; i++) {
		x = d->v[i];
		for (j = i; j > 0 && diag_order(&x, &d->v[j - 1]) < 0; j--)
			d->v[j] = d->v[j - 1];
		d->v[j] = x;
	}
	for (i = 0; i < d->n; i++) {
		if (n > 0 && d->v[n - 1].pos.line == d->v[i].pos.line &&
		    d->v[n - 1].pos.col == d->v[i].pos.col) {
			d->errors -= !d->v[i].warning;
			free(d->v[i].text);
			continue;
		}
		d->v[n++] = d->v[i];
	}
	d->n = n;
}

bool
kp_diags_copy(struct kp_diags *out, const struct kp_diags *d,
    const char *before)
{
	*out = (struct kp_diags){ .errors = d->errors,
		.v = calloc(d->n > 0 ? d->n : 1, sizeof(*d->v)) };
	for (size_t i = 0; out->v != NULL && i < d->n; i++) {
		out->v[i] = d->v[i];
		if (asprintf(&out->v[i].text, "%s%s", before,
		    d->v[i].text) < 0)
			return false;
		out->n++;
	}
	return out->v != NULL;
}

void
kp_diags_excuse(struct kp_diags *d)
{
	for (size_t i = 0; i < d->n; i++)
		d->v[i].warning = true;
	d->errors = 0;
}

size_t
kp_diags_warnings(const struct kp_diags *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += d->v[i].warning;
	return n;
}

void
kp_diags_free(struct kp_diags *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].text);
	free(d->v);
	*d = (struct kp_diags){ 0 };
}
