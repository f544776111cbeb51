/*
 * drains.c - a short list of servers that answer with another request's token;
 * places in it age when it is full.
 */
#include "request/internal.h"

static struct drain *
find(struct drains *d, uint64_t proc)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->v[i].proc == proc)
			return &d->v[i];
	return NULL;
}

/* No room: so each that is there has less of a claim to it. */
static void
age(struct drains *d)
{
	for (unsigned i = d->n; i-- > 0;)
		if (--d->v[i].keep == 0)
			d->v[i] = d->v[--d->n];
}

void
drains_answer(struct drains *d, uint64_t proc)
{
	struct drain *v = find(d, proc);

	if (v == NULL && d->n == DRAINS_MAX) {
		age(d);
		return;
	}
	if (v == NULL) {
		v = &d->v[d->n++];
		*v = (struct drain){ .proc = proc };
	}
	if (v->keep < DRAINS_KEEP)
		v->keep++;
	if (v->answers < UINT32_MAX)
		v->answers++;
}

bool
drains_call(struct drains *d, uint64_t proc, uint32_t fn)
{
	struct drain *v = d->n > 0 ? find(d, proc) : NULL;

	if (v == NULL || v->told || v->calls == UINT32_MAX)
		return false;
	v->calls++;
	v->fn = fn;
	v->told = v->answers >= DRAINS_LEAST && v->calls >= DRAINS_LEAST &&
	    v->answers >= v->calls / DRAINS_PART;
	return v->told;
}

void
drains_forget(struct drains *d, uint32_t node)
{
	for (unsigned i = d->n; i-- > 0;)
		if (d->v[i].proc >> PID_NODE == node)
			d->v[i] = d->v[--d->n];
}
