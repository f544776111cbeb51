/* sum_rows.c - the rows of a sum of calls, each found by its key. */
#include "sum_internal.h"

/* Numbers have 20 bits (call_trace.h); that of a path, before them, 22. */
static uint64_t
key2(uint64_t a, uint32_t b)
{
	return (a << 20 | b) + 1;
}

bool
rows_has_room(struct kp_calls_sum *s, enum kp_err room)
{
	if (room == KP_ELIMIT)
		s->overflow++;
	else if (room != KP_OK)
		s->state->err = room;
	return room == KP_OK;
}

/* False: no memory (state->err). */
bool
rows_remember(struct kp_calls_sum *s, struct map *m, uint64_t key,
    uint64_t val)
{
	if (map_put(m, key, val))
		return true;
	s->state->err = KP_ENOMEM;
	return false;
}

struct kp_calls_clock *
clock_of(struct kp_calls_sum *s, uint32_t proc, uint32_t caller, uint32_t fn)
{
	uint64_t key = key2((uint64_t)proc << 20 | caller, fn);
	uint64_t *known = map_get(&s->state->clocks, key);

	if (known != NULL)
		return &s->clocks[*known];
	if (!rows_room(s, &s->clocks, s->nclocks, KP_CALLS_CLOCKS_MAX))
		return NULL;
	if (!rows_remember(s, &s->state->clocks, key, s->nclocks))
		return NULL;
	s->clocks[s->nclocks] = (struct kp_calls_clock){ .proc = proc,
		.caller = caller, .fn = fn };
	return &s->clocks[s->nclocks++];
}

/* Its number; its parent's where there is no room. */
uint32_t
path_add(struct kp_calls_sum *s, const struct kp_calls_path *p)
{
	if (!rows_room(s, &s->paths, s->npaths, KP_CALLS_PATHS_MAX))
		return p->parent;
	s->paths[s->npaths] = *p;
	return s->npaths++;
}

uint32_t
path_child(struct kp_calls_sum *s, uint32_t path, uint32_t fn)
{
	struct kp_calls_path p = { .parent = path, .fn = fn };
	uint64_t key = key2(path, fn), *known;
	uint32_t child;

	if (path == KP_PATH_NONE || (s->paths[path].fn == fn &&
	    s->paths[path].parent != KP_PATH_NONE))
		return path;
	if (s->paths[path].depth == KP_CALLS_DEPTH_MAX)
		return path;
	known = map_get(&s->state->children, key);
	if (known != NULL)
		return (uint32_t)*known;
	p.proc = s->paths[path].proc;
	p.depth = s->paths[path].depth + 1;
	child = path_add(s, &p);
	if (child != path)
		rows_remember(s, &s->state->children, key, child);
	return child;
}

bool
held_add(struct kp_calls_sum *s, uint32_t proc, uint32_t fn)
{
	uint64_t key = key2(proc, fn);
	uint64_t *n = map_get(&s->state->held, key);

	if (n != NULL)
		return (*n)++ == 0;
	return rows_remember(s, &s->state->held, key, 1);
}

void
held_remove(struct kp_calls_sum *s, uint32_t proc, uint32_t fn)
{
	uint64_t *n = map_get(&s->state->held, key2(proc, fn));

	if (n != NULL && *n > 0)
		(*n)--;
}
