/*
 * tomb.c - what is remembered of closed requests, for calls that come late.
 *
 * A ring in closing order with an index by label; 30 s or TOMBS_MAX labels,
 * whichever is less.
 */
#include <stdlib.h>

#include "request/internal.h"

#define TOMBS_MAX (1u << 17)	/* about 8 MB with their index */
#define TOMBS_MIN (1u << 10)

void
tombs_free(struct tombs *t)
{
	free(t->v);
	map_free(&t->by_label);
	*t = (struct tombs){ 0 };
}

static void
tombs_pop(struct tombs *t)
{
	uint64_t *at = map_get(&t->by_label, t->v[t->head].label);

	/* A label may have been buried twice: the newer grave stays. */
	if (at != NULL && *at == (uint64_t)t->head + 1)
		map_remove(&t->by_label, t->v[t->head].label);
	t->head = (t->head + 1) & (t->cap - 1);
	t->n--;
}

static bool
tombs_grow(struct tombs *t)
{
	uint32_t cap = t->cap > 0 ? t->cap * 2 : TOMBS_MIN;
	struct tomb *v = malloc(cap * sizeof(*v));

	if (v == NULL)
		return false;
	for (uint32_t i = 0; i < t->n; i++) {
		v[i] = t->v[(t->head + i) & (t->cap - 1)];
		map_put(&t->by_label, v[i].label, (uint64_t)i + 1);
	}
	free(t->v);
	t->v = v;
	t->cap = cap;
	t->head = 0;
	return true;
}

void
tombs_add(struct tombs *t, const struct tomb *tomb)
{
	uint32_t at;

	if (t->n == t->cap &&
	    (t->cap == TOMBS_MAX || !tombs_grow(t))) {
		if (t->n == 0)
			return;
		tombs_pop(t);
	}
	at = (t->head + t->n) & (t->cap - 1);
	t->v[at] = *tomb;
	t->n++;
	map_put(&t->by_label, tomb->label, (uint64_t)at + 1);
}

const struct tomb *
tombs_get(const struct tombs *t, uint64_t label)
{
	uint64_t *at = map_get(&t->by_label, label);

	return at != NULL ? &t->v[*at - 1] : NULL;
}

void
tombs_expire(struct tombs *t, kp_target_ns before)
{
	while (t->n > 0 && t->v[t->head].at < before)
		tombs_pop(t);
}
