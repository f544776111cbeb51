/* stack_sum.c - cells of samples, and the groups of their processes. */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "stack_sum.h"

void
stack_figure_add(struct stack_figure *to, const struct stack_figure *f)
{
	to->samples += f->samples;
	to->time = sat_add(to->time, f->time);
	to->squares += f->squares;
}

enum kp_err
stack_sum_init(struct stack_sum *s, const struct kp_stack_table *table,
    enum stack_by by)
{
	*s = (struct stack_sum){ .table = table, .by = by,
		.groups = calloc(STACK_GROUPS_MAX, sizeof(*s->groups)) };
	s->err = s->groups != NULL ? KP_OK : KP_ENOMEM;
	return s->err;
}

void
stack_sum_free(struct stack_sum *s)
{
	for (size_t i = 0; s->groups != NULL && i < STACK_GROUPS_MAX; i++) {
		free(s->groups[i].name);
		free(s->groups[i].application);
	}
	free(s->groups);
	free(s->cells);
	map_free(&s->index);
	map_free(&s->procs);
	*s = (struct stack_sum){ 0 };
}

void
stack_sum_group(void *ctx, const struct kp_stack_group *group)
{
	struct stack_sum *s = ctx;
	struct stack_group *g;

	if (group->number == 0 || group->number >= STACK_GROUPS_MAX)
		return;
	g = &s->groups[group->number];
	if (g->name != NULL)
		return;
	g->one = group->one;
	g->name = strdup(group->name);
	g->application = strdup(group->application);
	if (g->name == NULL || g->application == NULL)
		s->err = KP_ENOMEM;
}

/* Not 0: the map does not keep that. */
static uint64_t
hash(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b >> 29) * UINT64_C(0xBF58476D1CE4E5B9) ^ b;

	h = (h ^ h >> 27) * UINT64_C(0x94D049BB133111EB);
	h ^= h >> 31;
	return h != 0 ? h : 1;
}

static bool
is_same(const struct stack_cell *c, const struct stack_cell *key)
{
	return c->stack == key->stack && c->group == key->group &&
	    c->proc == key->proc && c->state == key->state;
}

/* NULL: it would be more than `most` cells, or there is no memory for it. */
static struct stack_cell *
cell_of(struct stack_sum *s, const struct stack_cell *key, size_t most)
{
	uint64_t h = hash((uint64_t)key->stack << 32 | key->group << 3 |
	    key->state, key->proc);
	uint64_t *first = map_get(&s->index, h);
	uint32_t next = first != NULL ? (uint32_t)*first : STACK_CELL_NONE;

	for (uint32_t i = next; i != STACK_CELL_NONE; i = s->cells[i].next)
		if (is_same(&s->cells[i], key))
			return &s->cells[i];
	if (s->ncells >= most || vec_room(&s->cells, &s->room, s->ncells,
	    VEC_NO_CAP) != KP_OK || !map_put(&s->index, h, s->ncells))
		return NULL;
	s->cells[s->ncells] = *key;
	s->cells[s->ncells].next = next;
	return &s->cells[s->ncells++];
}

static void
count_process(struct stack_sum *s, uint64_t proc, uint32_t group)
{
	uint64_t key = hash(proc, group);

	if (map_get(&s->procs, key) != NULL)
		return;
	if (s->procs.len >= STACK_PROCS_MAX || !map_put(&s->procs, key, 1))
		s->procs_full = true;
	else
		s->groups[group].procs++;
}

void
stack_sum_sample(void *ctx, const struct kp_stack_sample *sample)
{
	struct stack_sum *s = ctx;
	uint32_t group = sample->group < STACK_GROUPS_MAX &&
	    s->groups[sample->group].name != NULL ? sample->group : 0;
	struct stack_cell key = { .stack = sample->stack, .group = group,
		.proc = s->by == STACK_BY_PROCESS ? sample->proc : 0,
		.state = sample->state };
	const struct stack_figure one = { 1, sample->time,
		(double)sample->time * (double)sample->time };
	struct stack_cell *c = cell_of(s, &key, STACK_CELLS_MAX);

	s->samples++;
	s->not_seen += sample->state == KP_STACK_NOT_SEEN;
	count_process(s, sample->proc, group);
	if (c == NULL) {
		s->overflow++;
		key = (struct stack_cell){ .stack = KP_STACK_OTHER,
			.state = sample->state };
		c = cell_of(s, &key, STACK_CELLS_MAX + KP_STACK_STATES);
	}
	if (c != NULL)
		stack_figure_add(&c->f, &one);
	else
		s->err = KP_ENOMEM;
}
