/* pending.c - chains of samples by label, in one array with a list of the free. */
#include <stdlib.h>

#include "base/vec.h"
#include "stacks/pending.h"

void
pending_samples_init(struct pending_samples *p)
{
	*p = (struct pending_samples){ .free = PENDING_NONE };
}

void
pending_samples_free(struct pending_samples *p)
{
	free(p->v);
	map_free(&p->by_label);
	pending_samples_init(p);
}

void
pending_samples_clear(struct pending_samples *p)
{
	map_clear(&p->by_label);
	p->len = p->n = 0;
	p->free = PENDING_NONE;
}

bool
pending_samples_put(struct pending_samples *p,
    const struct kp_stack_sample *s)
{
	const uint64_t *last = map_get(&p->by_label, s->label);
	uint32_t next = last != NULL ? (uint32_t)*last : PENDING_NONE;
	uint32_t i = p->free != PENDING_NONE ? p->free : p->len;

	if (i == p->len && vec_room(&p->v, &p->room, p->len,
	    PENDING_SAMPLES_MAX) != KP_OK)
		return false;
	if (!map_put(&p->by_label, s->label, i))
		return false;
	if (i == p->len)
		p->len++;
	else
		p->free = p->v[i].next;
	p->v[i] = (struct pending_sample){ *s, next };
	p->n++;
	return true;
}

uint32_t
pending_samples_take(struct pending_samples *p, uint64_t label)
{
	const uint64_t *last = map_get(&p->by_label, label);
	uint32_t first = last != NULL ? (uint32_t)*last : PENDING_NONE;

	if (first != PENDING_NONE)
		map_remove(&p->by_label, label);
	return first;
}

uint32_t
pending_samples_drop(struct pending_samples *p, uint32_t i)
{
	uint32_t next = p->v[i].next;

	p->v[i].next = p->free;
	p->free = i;
	p->n--;
	return next;
}

/* ---- whose request is not known by their label ---- */

void
unmatched_samples_free(struct unmatched_samples *u)
{
	free(u->v);
	*u = (struct unmatched_samples){ 0 };
}

bool
unmatched_samples_put(struct unmatched_samples *u, const struct kp_stack_sample *s)
{
	if (vec_room(&u->v, &u->room, u->n, UNMATCHED_SAMPLES_MAX) != KP_OK)
		return false;
	u->v[u->n++] = *s;
	return true;
}

void
unmatched_samples_drop(struct unmatched_samples *u, size_t i)
{
	u->v[i] = u->v[--u->n];
}
