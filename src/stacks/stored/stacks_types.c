/* stacks_types.c - finds the request types of the rows, and their figures. */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "stacks_internal.h"

static int
by_name(const void *pa, const void *pb)
{
	const struct stacks_type *a = pa, *b = pb;

	return strcmp(a->identity, b->identity);
}

static int
by_time(const void *pa, const void *pb)
{
	const struct stacks_type *a = pa, *b = pb;

	if (a->time != b->time)
		return a->time < b->time ? 1 : -1;
	return by_name(pa, pb);
}

struct stacks_type *
stacks_types(const struct stacks *s, size_t *n)
{
	struct stacks_type *v = calloc(s->stacks.n + 1, sizeof(*v));
	size_t kept = 0;

	if (v == NULL)
		return NULL;
	for (size_t i = 0; i < s->stacks.n; i++)
		v[i] = (struct stacks_type){ s->stacks.v[i].identity,
			s->stacks.v[i].w_time };
	qsort(v, s->stacks.n, sizeof(*v), by_name);
	for (size_t i = 0; i < s->stacks.n; i++) {
		if (kept > 0 && by_name(&v[kept - 1], &v[i]) == 0)
			v[kept - 1].time = sat_add(v[kept - 1].time, v[i].time);
		else
			v[kept++] = v[i];
	}
	qsort(v, kept, sizeof(*v), by_time);
	*n = kept;
	return v;
}

const char *
stacks_fn_name(const char *fn)
{
	if (fn[0] == '\0')
		return "(not seen)";
	if (strcmp(fn, "_late") == 0)
		return "(had gone on)";
	return strcmp(fn, "_other") == 0 ? "(other stacks)" : fn;
}

const char *
stacks_tier_name(const char *tier)
{
	if (strcmp(tier, "_after") == 0)
		return "(after the request)";
	return strcmp(tier, "_other") == 0 ? "(other tiers)" : tier;
}
