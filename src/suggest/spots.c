/* spots.c - the call tree: its spots, which functions are around it, and totals. */
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "suggest/spots.h"

bool
suggest_anonymous(const struct kp_call_names *t, uint32_t fn)
{
	return t->fns[fn].fun[0] == '-';
}

bool
suggest_same_module(const struct kp_call_names *t, uint32_t a, uint32_t b)
{
	return strcmp(t->fns[a].mod, t->fns[b].mod) == 0;
}

bool
suggest_is_around(const struct suggest_calls *c, const struct suggest_fn *fns,
    uint32_t fn)
{
	return fns[fn].platform || fns[fn].callback || fns[fn].loop ||
	    suggest_anonymous(c->names, fn);
}

bool
suggest_spots_begin(struct suggest_calls *c)
{
	if (vec_room_by_len(&c->spots, 0, SUGGEST_SPOTS_MAX) != KP_OK)
		return false;
	c->spots[0] = (struct suggest_spot){ .fn = KP_FN_UNDEFINED };
	c->nspots = 1;
	return true;
}

uint32_t
suggest_spot_child(struct suggest_calls *c, struct map *children,
    uint32_t parent, uint32_t fn)
{
	uint64_t key = ((uint64_t)parent << 32 | fn) + 1;
	const uint64_t *at = map_get(children, key);
	enum kp_err e;

	if (at != NULL)
		return (uint32_t)*at;
	e = vec_room_by_len(&c->spots, c->nspots, SUGGEST_SPOTS_MAX);
	if (e == KP_ELIMIT) {
		c->overflow++;
		return parent;
	}
	if (e != KP_OK || !map_put(children, key, c->nspots))
		return SUGGEST_SPOT_NONE;
	c->spots[c->nspots] = (struct suggest_spot){ .parent = parent, .fn = fn,
		.depth = c->spots[parent].depth + 1 };
	return c->nspots++;
}

void
suggest_spots_total(struct suggest_calls *c)
{
	struct suggest_spot *s, *parent;

	for (uint32_t i = c->nspots; i-- > 1;) {
		s = &c->spots[i];
		parent = &c->spots[s->parent];
		s->total = sat_add(s->total, s->own);
		for (unsigned k = 0; k < SUGGEST_WAITS; k++)
			s->total = sat_add(s->total, s->wait[k]);
		parent->total = sat_add(parent->total, s->total);
	}
}
