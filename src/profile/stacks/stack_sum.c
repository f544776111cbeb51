/*
 * stack_sum.c - cells of samples, the groups of their processes, what cells stand
 * below, and shares of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "kprofd/fn_name.h"
#include "stack_sum.h"

#define UNNAMED "(not named)"

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
	free(s->usage);
	map_free(&s->index);
	map_free(&s->procs);
	*s = (struct stack_sum){ 0 };
}

void
stack_sum_usage(void *ctx, struct kp_usage *u)
{
	struct stack_sum *s = ctx;

	free(s->usage);
	s->usage = u;
}

void
stack_sum_group(void *ctx, const struct kp_stack_group *group)
{
	struct stack_sum *s = ctx;
	char name[FN_NAME_MAX];
	struct stack_group *g;

	if (group->number == 0 || group->number >= STACK_GROUPS_MAX)
		return;
	g = &s->groups[group->number];
	if (g->name != NULL)
		return;
	g->one = group->one;
	g->name = strdup(fn_read(name, sizeof(name), group->name));
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

/* ---- names and shares ---- */

const char *
stack_group_name(const struct stack_sum *s, uint32_t group)
{
	const char *name = s->groups[group].name;

	return name != NULL && name[0] != '\0' ? name : UNNAMED;
}

const char *
stack_group_application(const struct stack_sum *s, uint32_t group)
{
	const char *name = s->groups[group].application;

	return name != NULL ? name : "";
}

/*
 * Of as many samples as would have the same variance if all stood for the same time
 * (that of a ratio, by its first derivatives).
 */
struct stack_share
stack_share(const struct stack_figure *part, const struct stack_figure *all)
{
	double w = (double)all->time, var, n;
	struct stack_share s = { 0, 0, 1 };

	if (all->time <= 0)
		return s;
	s.part = (double)part->time / w;
	var = ((1 - 2 * s.part) * part->squares +
	    s.part * s.part * all->squares) / (w * w);
	n = var > 0 ? s.part * (1 - s.part) / var : w * w / all->squares;
	kp_stack_interval(s.part, n > 0 ? n : 1, &s.low, &s.high);
	return s;
}

static char *
root_name(const struct stack_sum *s, const struct stack_cell *c)
{
	const char *app = stack_group_application(s, c->group);
	char *name = NULL;
	int n = 0;

	switch (s->by) {
	case STACK_BY_GROUP:
		n = asprintf(&name, "%s", stack_group_name(s, c->group));
		break;
	case STACK_BY_APPLICATION:
		n = asprintf(&name, "%s", app[0] != '\0' ? app :
		    "(no application)");
		break;
	case STACK_BY_PROCESS:
		n = asprintf(&name, "<0.%" PRIu32 ".%" PRIu32 "> %s",
		    (uint32_t)c->proc, (uint32_t)(c->proc >> 32),
		    stack_group_name(s, c->group));
		break;
	case STACK_BY_NONE:
		n = asprintf(&name, "all processes");
		break;
	}
	return n < 0 ? NULL : name;
}

/* Cells of one key have one root; roots of one name are the same one. */
static uint64_t
root_key(const struct stack_sum *s, const struct stack_cell *c)
{
	if (s->by == STACK_BY_NONE)
		return 1;
	return s->by == STACK_BY_PROCESS ? c->proc + 1 :
	    (uint64_t)c->group + 1;
}

static bool
root_find(const struct stack_roots *r, const char *name, uint64_t *at)
{
	for (*at = 0; *at < r->n; (*at)++)
		if (strcmp(r->names[*at], name) == 0)
			return true;
	return false;
}

static enum kp_err
root_put(struct stack_roots *r, struct map *keys, const struct stack_sum *s,
    size_t i)
{
	uint64_t key = root_key(s, &s->cells[i]), at, *known;
	char *name;

	known = map_get(keys, key);
	if (known != NULL) {
		r->of[i] = *known;
		return KP_OK;
	}
	name = root_name(s, &s->cells[i]);
	if (name == NULL)
		return KP_ENOMEM;
	/* Processes are as many as there are, and differ in their names. */
	if (s->by == STACK_BY_PROCESS || !root_find(r, name, &at)) {
		at = r->n++;
		r->names[at] = name;
	} else {
		free(name);
	}
	r->of[i] = at;
	return map_put(keys, key, at) ? KP_OK : KP_ENOMEM;
}

enum kp_err
stack_roots_make(struct stack_roots *r, const struct stack_sum *s)
{
	struct map keys = { 0 };
	enum kp_err e = KP_OK;

	*r = (struct stack_roots){ .of = calloc(s->ncells + 1, sizeof(*r->of)),
		.names = calloc(s->ncells + 1, sizeof(*r->names)) };
	if (r->of == NULL || r->names == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < s->ncells && e == KP_OK; i++)
		e = root_put(r, &keys, s, i);
	map_free(&keys);
	return e;
}

void
stack_roots_free(struct stack_roots *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->names[i]);
	free(r->names);
	free(r->of);
	*r = (struct stack_roots){ 0 };
}
